"""The error of the Singer connectors."""

from __future__ import annotations


class SingerError(Exception):
    """A tap or target does not do what Singer's specification says; its task fails."""
