"""log4j's levels, shared by the logs of the worker and of its Java hosts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

LEVELS: Final[Mapping[str, int]] = {
    "OFF": 100,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}
"""In falling order, with Python's numbers."""
