"""The settings of the audit log; `rest/security/audit.py` writes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import Problem

AUDIT: Final = "rest.audit.log"
"""The form of the lines: none, text or json."""
AUDIT_FILE: Final = "rest.audit.log.file"
"""The file to write to; without it the worker's log."""


def private(path: str, flags: int) -> int:
    """Opens a file; a created file is readable by the worker's user only."""
    return os.open(path, flags, 0o600)


def problems(values: Mapping[str, Any]) -> list[Problem]:
    """Problems of the audit log's settings; creates the file if it is missing."""
    path = values.get(AUDIT_FILE)
    if path is None:
        return []
    if values[AUDIT] == "none":
        message = "No line is ever written to this file."
        return [Problem(AUDIT_FILE, path, message, f"Set {AUDIT} to text or json, or remove this setting.")]
    try:
        with open(path, "a", encoding="utf-8", opener=private):
            return []
    except OSError as error:
        message = f"The file cannot be written: {error.strerror}."
        return [Problem(AUDIT_FILE, path, message, "Name a file in a folder that the worker's user may write to.")]
