"""The files that file connectors may open: `file.allowed.paths`, after symbolic links and `..` are resolved."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from headrace.config.paths import open_within, root_of
from headrace.config.settings import ConfigError, Problem
from headrace.config.worker.allowed_files import ALLOWED_PATHS

log = logging.getLogger(__name__)


def allowed_paths(worker: Mapping[str, Any]) -> tuple[str, ...]:
    """The worker's `file.allowed.paths`. If empty, every path is allowed; a warning says so once a process."""
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
    """Refuses a path outside of the allowed ones. Errors: ConfigError."""
    if allowed and root_of(os.path.realpath(path), allowed) is None:
        raise _refused(path, allowed)


def open_allowed(path: str, flags: int, allowed: tuple[str, ...]) -> int:
    """Opens a file, by `open_within` if paths are bounded; returns the descriptor.

    Errors: ConfigError for a path outside; OSError as `os.open`.
    """
    if not allowed:
        return os.open(path, flags, 0o666)
    try:
        descriptor = open_within(path, flags, allowed)
    except OSError as e:
        check_allowed(path, allowed)
        raise type(e)(e.errno, e.strerror, path) from e
    if descriptor is None:
        raise _refused(path, allowed)
    return descriptor


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
