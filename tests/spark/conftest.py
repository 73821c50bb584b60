"""For those who import the session from here; it is the one of `tests/conftest.py`."""

from __future__ import annotations

from tests.conftest import spark

__all__ = ["spark"]
