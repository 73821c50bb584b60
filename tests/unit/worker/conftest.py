"""Fixtures that tests of the worker's parts share."""

from __future__ import annotations

import weakref

import pytest

from headrace.worker.logging import redaction
from headrace.worker.logging.secret_index import SecretIndex


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets that other tests had hidden are legible again."""
    monkeypatch.setattr(redaction.WORKER, "_secrets", ())
    monkeypatch.setattr(redaction, "_running", weakref.WeakValueDictionary())
    monkeypatch.setattr(redaction, "_index", SecretIndex())
