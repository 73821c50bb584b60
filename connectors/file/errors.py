"""The error of the file connectors."""

from __future__ import annotations


class FileError(Exception):
    """A file cannot be used as it is; its task fails."""
