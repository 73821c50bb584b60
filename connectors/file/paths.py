"""The files that file connectors may open: `file.allowed.paths`, after symbolic links and `..` are resolved."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from headrace.config.settings import ConfigError, Problem

ALLOWED_PATHS: Final = "file.allowed.paths"

log = logging.getLogger(__name__)


class FileError(Exception):
    """A file cannot be used as it is; its task fails."""


def allowed_paths(worker: Mapping[str, Any]) -> tuple[str, ...]:
    """The worker's `file.allowed.paths`; empty: every path is allowed, which is said once a process."""
    allowed = tuple(worker.get(ALLOWED_PATHS) or ())
    if not allowed:
        _warn_of_no_bounds()
    return allowed


@cache
def _warn_of_no_bounds() -> None:
    log.warning(
        "%s is empty: users who may create a file connector can read and write every file that this worker's user can. "
        "Set it in the worker's properties to the directories meant for connectors.",
        ALLOWED_PATHS,
    )


def check_allowed(path: str, allowed: tuple[str, ...]) -> None:
    """The path lies within one of the allowed ones.

    Errors: ConfigError.
    """
    if allowed and _root_of(os.path.realpath(path), allowed) is None:
        raise _refused(path, allowed)


def open_allowed(path: str, flags: int, allowed: tuple[str, ...]) -> int:
    """A descriptor of the file, which lies within the allowed paths at the moment it is opened.

    Every step from the allowed directory down is opened without following links, so a link that is put in the way
    after the check is met by an error, and nothing is created outside.

    Errors: ConfigError for a path outside; OSError as `os.open`.
    """
    if not allowed:
        return os.open(path, flags, 0o666)
    real = os.path.realpath(path)
    root = _root_of(real, allowed)
    if root is None:
        raise _refused(path, allowed)
    top = os.path.dirname(root) if real == root else root
    try:
        return _walk(top, os.path.relpath(real, top).split(os.sep), flags)
    except OSError as e:
        check_allowed(path, allowed)
        raise type(e)(e.errno, e.strerror, path) from e


def _walk(top: str, parts: list[str], flags: int) -> int:
    directory = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = below
        return os.open(parts[-1], flags | os.O_NOFOLLOW, 0o666, dir_fd=directory)
    finally:
        os.close(directory)


def _root_of(real: str, allowed: tuple[str, ...]) -> str | None:
    roots = (os.path.realpath(root) for root in allowed)
    return next((root for root in roots if os.path.commonpath((root, real)) == root), None)


def _refused(path: str, allowed: tuple[str, ...]) -> ConfigError:
    real = os.path.realpath(path)
    leads = "" if real == path else f" It leads to {real}."
    return ConfigError(
        Problem(
            "file",
            path,
            f"The file lies outside of {ALLOWED_PATHS} ({', '.join(allowed)}).{leads}",
            f"Use a file within these paths, or add its directory to {ALLOWED_PATHS} in the worker's properties.",
        )
    )
