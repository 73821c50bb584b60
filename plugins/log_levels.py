"""log4j's levels, which the worker's log and that of its Java hosts have in common."""

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
"""In falling order, as Python counts them."""
