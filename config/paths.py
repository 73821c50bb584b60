"""Opens files only if they lie within given folders, symbolic links and `..` resolved."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
"""Flags to pass through a folder; O_PATH, if the system has it, needs no right to list the folder."""


def open_within(path: str, flags: int, roots: Collection[str]) -> int | None:
    """A descriptor of the file if it lies within one of `roots` when it is opened; None if it lies outside.

    Every step from the root down is opened without following links. A link put in the way after the check causes an
    error, and nothing is created outside.

    Errors: OSError as `os.open`.
    """
    real = os.path.realpath(path)
    root = root_of(real, roots)
    if root is None:
        return None
    top = os.path.dirname(root) if real == root else root
    return _walk(top, os.path.relpath(real, top).split(os.sep), flags)


def root_of(real: str, roots: Collection[str]) -> str | None:
    """The resolved root that contains a resolved path; None if none does."""
    resolved = (os.path.realpath(root) for root in roots)
    return next((root for root in resolved if os.path.commonpath((root, real)) == root), None)


def _walk(top: str, parts: list[str], flags: int) -> int:
    directory = os.open(top, _FOLDER)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = below
        return os.open(parts[-1], flags | os.O_NOFOLLOW, 0o666, dir_fd=directory)
    finally:
        os.close(directory)
