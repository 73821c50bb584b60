"""The error of a store that no retry mends; `RetriableError` stands for the others."""

from __future__ import annotations


class StoreError(Exception):
    """A store refuses a request, and would again; the task fails. The text names what, where and what to do."""
