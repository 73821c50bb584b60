"""Fixtures that tests of the worker's parts share."""

from __future__ import annotations

import weakref

import pytest

from headrace.worker.cli import pip_packages
from headrace.worker.logging import redaction
from headrace.worker.logging.secret_index import SecretIndex
from tests.fake_pip import FakePip


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets that other tests had hidden are legible again."""
    monkeypatch.setattr(redaction.WORKER, "_secrets", ())
    monkeypatch.setattr(redaction, "_running", weakref.WeakValueDictionary())
    monkeypatch.setattr(redaction, "_index", SecretIndex())


@pytest.fixture
def fake_pip(monkeypatch: pytest.MonkeyPatch) -> FakePip:
    """A pip that answers at once, instead of all commands."""
    made = FakePip()
    monkeypatch.setattr(pip_packages, "run", made.run)
    return made
