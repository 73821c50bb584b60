"""Logs in Connect's layout, `[time] LEVEL [connector|task-0] message (logger:line)`; levels by Java's names."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Final, TextIO

from headrace.worker.redaction import masked

_context: ContextVar[str] = ContextVar("connector_context", default="")
_worker: ContextVar[str] = ContextVar("worker_context", default="")

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
"""log4j's levels, in falling order, as Python counts them."""

_QUIET: Final = dict.fromkeys(("apscheduler", "httpx", "kafka", "py4j", "uvicorn"), logging.WARNING)

_NUMBERS: Final = re.compile(r"\d+")
_EVERY_S: Final = 10.0

_changed_ms: dict[str, int] = {}
_child: int | None = None
_of_child = ""


@contextmanager
def connector_context(connector: str, *scope: str) -> Iterator[None]:
    """Within it, this thread's log lines name the connector and the scope: `worker`, `task-0`, `task-0`, `offsets`."""
    token = _context.set("|".join((connector, *scope)))
    try:
        yield
    finally:
        _context.reset(token)


@contextmanager
def worker_context(worker: str) -> Iterator[None]:
    """Within it, log lines name this worker, which shares its process with others: `[A->B|connector|task-0]`.

    So do those of threads that are made within it, where they run in a copy of their maker's context.
    """
    token = _worker.set(worker)
    try:
        yield
    finally:
        _worker.reset(token)


def context() -> str:
    """The prefix of this thread's lines."""
    parts = "|".join(filter(None, (_worker.get(), _context.get())))
    return f"[{parts}] " if parts else ""


class ConnectFormatter(logging.Formatter):
    """log4j's `[%d] %p %X{connector.context}%m (%c:%L)%n`, as Connect ships it, without secrets (Invariant 6)."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(java_level)s %(connector_context)s%(message)s (%(name)s:%(lineno)d)")

    def format(self, record: logging.LogRecord) -> str:
        # A handler formats on the thread that logs, so the context is that of the line.
        record.connector_context = context() or _of_child
        record.java_level = level_name(record.levelno)
        return masked(super().format(record))


class Repeated(logging.Filter):
    """Passes one line in ten seconds of those of Kafka's clients that differ in numbers only.

    While no broker answers, librdkafka says so forty times a second, whatever its pauses are set to, and kafka-python
    (the loggers `kafka.*`) several times.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.endswith(".client") and not record.name.startswith("kafka."):
            return True
        text, now = record.name + _NUMBERS.sub("", record.getMessage()), self._clock()
        if now - self._said.get(text, -_EVERY_S) < _EVERY_S:
            return False
        self._said = {said: when for said, when in self._said.items() if now - when < _EVERY_S} | {text: now}
        return True


def set_up(stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> None:
    """Log to standard output, as Connect does, from the level that the environment sets.

    `CONNECT_LOG4J_ROOT_LOGLEVEL` is the level of all, `CONNECT_LOG4J_LOGGERS` (`name=LEVEL,…`) of some.
    """
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(ConnectFormatter())
    handler.addFilter(Repeated())
    # py4j writes a traceback to the root logger whenever a JVM ends; the caller logs its meaning.
    handler.addFilter(lambda line: not (line.name == "root" and "py4j" in line.pathname))
    asked = environ.get("CONNECT_LOG4J_ROOT_LOGLEVEL", "INFO").upper()
    logging.basicConfig(level=LEVELS.get(asked, logging.INFO), handlers=[handler], force=True)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    for rule in filter(None, environ.get("CONNECT_LOG4J_LOGGERS", "").split(",")):
        name, _, wanted = (part.strip() for part in rule.partition("="))
        if wanted.upper() in LEVELS:
            logging.getLogger(name).setLevel(LEVELS[wanted.upper()])
    if asked not in LEVELS:
        logging.getLogger(__name__).warning(
            "CONNECT_LOG4J_ROOT_LOGLEVEL=%s is no level, INFO is used; the levels are %s", asked, ", ".join(LEVELS)
        )


def set_up_child(context: str) -> None:
    """Make a Python worker of Spark's log as its worker does, which hides secrets in its standard error.

    `context`: the prefix of all its lines from now on.
    """
    global _child, _of_child
    _of_child = context
    if _child != os.getpid():
        _child = os.getpid()
        set_up(sys.stderr)


def take_uncaught() -> None:
    """Log errors that end a thread unexpectedly, without secrets; Python would write them as they are."""

    def thread_ended(error: threading.ExceptHookArgs) -> None:
        name = "?" if error.thread is None else error.thread.name
        logging.getLogger(__name__).error("The thread %s ended unexpectedly", name, exc_info=error.exc_value)

    def process_ends(_kind: type[BaseException], error: BaseException, _frames: TracebackType | None) -> None:
        logging.getLogger(__name__).critical("The worker ends unexpectedly", exc_info=error)

    threading.excepthook, sys.excepthook = thread_ended, process_ends


def level_name(level: int) -> str:
    """The name that log4j has for it."""
    return next((name for name, value in LEVELS.items() if value <= level and name != "OFF"), "ALL")


def levels() -> dict[str, tuple[str, int | None]]:
    """Level and time of the last change (epoch ms) of `root` and of each logger that has a level of its own, sorted."""
    found = {name: logger for name, logger in _loggers().items() if logger.level}
    return {name: (_level(logger), _changed_ms.get(name)) for name, logger in sorted(found.items())}


def level(name: str) -> tuple[str, int | None] | None:
    """Effective level and time of the last change of a logger; None for an unknown one."""
    logger = _loggers().get(name)
    return None if logger is None else (_level(logger), _changed_ms.get(name))


def set_level(name: str, wanted: str) -> list[str]:
    """Set the level of the logger and those below it (`root`: all), one of `LEVELS`; their names, sorted."""
    if name != "root":
        logging.getLogger(name)
    affected = [one for one in _loggers() if name in ("root", one) or one.startswith(name + ".")]
    for one in affected:
        _loggers()[one].setLevel(LEVELS[wanted])
        _changed_ms[one] = int(time.time() * 1000)
    return sorted(affected)


def _loggers() -> dict[str, logging.Logger]:
    known = logging.getLogger().manager.loggerDict
    return {
        "root": logging.getLogger(),
        **{name: one for name, one in list(known.items()) if isinstance(one, logging.Logger)},
    }


def _level(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    return "OFF" if effective >= LEVELS["OFF"] else level_name(effective)
