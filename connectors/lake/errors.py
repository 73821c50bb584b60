"""Errors of tables of a lake."""

from __future__ import annotations


class LakeError(Exception):
    """A table, a catalog or a store refuses; the text says what, where and what to do."""
