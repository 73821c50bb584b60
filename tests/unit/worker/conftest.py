"""What tests of the worker's parts share."""

from __future__ import annotations

import pytest

from headrace.worker import redaction


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets that other tests had hidden are legible again."""
    monkeypatch.setattr(redaction, "_known", {})
    monkeypatch.setattr(redaction, "_pieces", ())
