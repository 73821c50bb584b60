"""The error of a store that a retry does not help against; `RetriableError` stands for the others."""

from __future__ import annotations


class StoreError(Exception):
    """A store refuses what its task asks of it, and would again; the task fails. It says what, where and what to do."""
