"""Logging inside a host: the connector or task of each thread, the levels, and lines of Python.

log4j's thread context has the number of the connector or task. Threads that a plugin starts inherit it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import jpype

from headrace.connectors.java.log_lines import Logged, line_of

INHERITED: Final = "-Dlog4j2.isThreadContextMapInheritable=true"
"""JVM option for the inheritance."""
_NUMBER: Final = "headrace"


class HostFormatter(logging.Formatter):
    """Formats lines of the host's Python like those of its Java."""

    def format(self, record: logging.LogRecord) -> str:
        number = current_number() if jpype.isJVMStarted() else None
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return line_of(Logged(record.levelno, record.name, record.lineno, number, record.getMessage(), trace))


@contextlib.contextmanager
def logged_as(number: int | None) -> Iterator[None]:
    """Attribute log lines of this thread to the connector or task of this number."""
    if number is None:
        yield
        return
    _thread_context().put(_NUMBER, str(number))
    try:
        yield
    finally:
        _thread_context().remove(_NUMBER)


def current_number() -> int | None:
    """Return the number of the connector or task that this thread works for, if any."""
    number = _thread_context().get(_NUMBER)
    return None if number is None else int(str(number))


def log_context() -> Any:
    """Return this thread's log context, for `adopt`."""
    return _thread_context().getImmutableContext()


def adopt(context: Any) -> None:
    """Attribute log lines of this thread to another thread's connector or task."""
    _thread_context().putAll(context)


def set_levels(levels: Mapping[str, str]) -> None:
    """Set log4j levels of loggers; the root's name is empty."""
    level_class, wanted = jpype.JClass("org.apache.logging.log4j.Level"), jpype.java.util.HashMap()
    for name, level in levels.items():
        wanted.put(name, level_class.valueOf(level))
    jpype.JClass("org.apache.logging.log4j.core.config.Configurator").setLevel(wanted)


@cache
def _thread_context() -> Any:
    return jpype.JClass("org.apache.logging.log4j.ThreadContext")
