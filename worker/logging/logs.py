"""Logs in Connect's layout, `[time] LEVEL [connector|task-0] message (logger:line)`; levels by Java's names."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Final, TextIO

from headrace.config.log_levels import LEVELS as LEVELS
from headrace.plugins.interop.java_hosts import JAVA_HOSTS
from headrace.worker.logging.java_loggers import loggers_for
from headrace.worker.logging.recent_lines import RECENT, LogLine
from headrace.worker.logging.redaction import Redaction, hidden_of, hide_in_line, redaction_scope
from headrace.worker.logging.repeated_lines import LeftOut, RepeatedLines

_context: ContextVar[str] = ContextVar("connector_context", default="")
_connector: ContextVar[str] = ContextVar("connector", default="")
_worker: ContextVar[str] = ContextVar("worker_context", default="")

_QUIET: Final = {
    **dict.fromkeys(("apscheduler", "httpx", "kafka", "py4j", "uvicorn"), logging.WARNING),
    "kafka.net.selector": logging.ERROR,  # it warns of each step of its own that a busy machine made slow
}
_LOADING: Final = "Coordinator load in progress: retrying"
"""Logged for a moment by a broker that has just started; librdkafka asks again."""

LOG_FILE: Final = "HEADRACE_LOG_FILE"
"""Environment variable: the file for the log."""
AUDIT_LOGGER: Final = "headrace.audit"
"""Writes a line for each change over REST."""
_QUOTING: Final = ("headrace.rest.", "headrace.config.", AUDIT_LOGGER, "uvicorn")
"""The loggers whose lines quote requests; those of others may quote a connector's configuration."""
_LONGEST: Final = 64 << 10
"""The most characters of a line and its trace, which may quote what a request sent."""
# All but tabs and line ends, with the marks that turn the direction of text, and halves of surrogate pairs.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_changed_ms: dict[str, int] = {}
_child: int | None = None
_of_child = ""


@contextmanager
def connector_context(connector: str, *scope: str, redaction: Redaction | None = None) -> Iterator[None]:
    """Name the connector and the scope in this thread's log lines: `worker`, `task-0`, `task-0`, `offsets`.

    They, and errors that leave it, are without the secrets of `redaction`, by default of the one around.
    """
    tokens = _context.set("|".join((connector, *scope))), _connector.set(connector)
    try:
        with redaction_scope(redaction):
            yield
    finally:
        _context.reset(tokens[0])
        _connector.reset(tokens[1])


@contextmanager
def worker_context(worker: str) -> Iterator[None]:
    """Name this worker, which shares its process with others, in log lines: `[A->B|connector|task-0]`.

    Threads made within it do so too, if they run in a copy of their maker's context.
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
        record.java_level = level_name(record.levelno)
        if isinstance(record, LeftOut):
            record.connector_context = record.context
            return super().format(record)
        # A handler formats on the thread that logs, so the context is that of the line.
        record.connector_context = _prefix()
        return _bounded(_shown(record, super().format(record)))


class _Handler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, and the number of repeated ones, at the latest when the process ends.

    It keeps the last lines of each connector.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(ConnectFormatter())
        # py4j writes a traceback to the root logger whenever a JVM ends; the caller logs its meaning.
        self.addFilter(lambda line: not (line.name == "root" and "py4j" in line.pathname))
        # Invariant 6: below, py4j writes all that it sends, including its token and the passwords of databases.
        self.addFilter(lambda line: not (line.name.startswith("py4j") and line.levelno < logging.WARNING))
        self.addFilter(lambda line: not (line.name.endswith(".client") and _LOADING in line.getMessage()))
        # A handler writes under its own lock; the summaries come while it is not held, and pass no filter.
        self._repeated = RepeatedLines(
            self._write, _prefix, lambda line: _shown(line, line.getMessage()), connector=_connector.get
        )
        self.addFilter(lambda line: line.name == AUDIT_LOGGER or self._repeated.filter(line))

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if connector := record.connector if isinstance(record, LeftOut) else _connector.get():
            at, level = int(record.created * 1000), level_name(record.levelno)
            RECENT.add(connector, LogLine(at, level, text.removeprefix(f"[{record.asctime}] {level} ")))
        return text

    def close(self) -> None:
        self._repeated.flush()
        super().close()

    def _write(self, line: logging.LogRecord) -> None:
        with self.lock or contextlib.nullcontext():
            self.emit(line)


def _prefix() -> str:
    return context() or _of_child


def _bounded(text: str) -> str:
    left = len(text) - _LONGEST
    return text if left <= 0 else f"{text[:_LONGEST]} … ({left} more characters)"


def _shown(record: logging.LogRecord, text: str) -> str:
    """Remove secrets from a text of the record."""
    for error in (record.exc_info[1] if record.exc_info else None, *_errors_in(record.args)):
        text = text if error is None else hidden_of(error, text)
    return inert(hide_in_line(text, quotes=record.name.startswith(_QUOTING) and not record.exc_info))


def inert(text: str) -> str:
    """Escape control characters; no line after the first begins as a line of the log does."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text).replace("\n[", "\n [")


def _errors_in(args: object) -> Iterator[BaseException]:
    for one in args if isinstance(args, tuple) else ():
        if isinstance(one, BaseException):
            yield one


def set_up(stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> None:
    """Log to standard output, as Connect does, from the level that the environment sets.

    `CONNECT_LOG4J_ROOT_LOGLEVEL` is the level of all, `CONNECT_LOG4J_LOGGERS` (`name=LEVEL,…`) of some. With
    `HEADRACE_LOG_FILE` the log is added to that file, and standard output has only what Java plugins print.
    """
    file, problem = (None, "") if stream else _log_file(environ.get(LOG_FILE))
    handler = _Handler(stream or file or sys.stdout)
    JAVA_HOSTS.printed = _printed if file else None
    asked = environ.get("CONNECT_LOG4J_ROOT_LOGLEVEL", "INFO").upper()
    logging.basicConfig(level=LEVELS.get(asked, logging.INFO), handlers=[handler], force=True)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    rules = (rule.partition("=") for rule in environ.get("CONNECT_LOG4J_LOGGERS", "").split(","))
    asked_of = {name.strip(): wanted.strip() for name, _, wanted in rules}
    for name, wanted in sorted(asked_of.items(), key=lambda rule: len(rule[0])):  # a class after its package
        if wanted.upper() in LEVELS:
            for one in (name, *loggers_for(name)):
                logging.getLogger(one).setLevel(LEVELS[wanted.upper()])
    if problem:
        logging.getLogger(__name__).error("The log goes to standard output: %s", problem)
    if asked not in LEVELS:
        logging.getLogger(__name__).warning(
            "CONNECT_LOG4J_ROOT_LOGLEVEL=%s is no level, INFO is used; the levels are %s", asked, ", ".join(LEVELS)
        )


def _log_file(name: str | None) -> tuple[TextIO | None, str]:
    """The opened file for the log, or None with the reason if that cannot be."""
    try:
        return (open(name, "a", encoding="utf-8", errors="backslashreplace") if name else None), ""
    except OSError as error:
        return None, f"{LOG_FILE}={name} cannot be written ({error.strerror}); name a file in a folder of this user"


def _printed(line: str) -> None:
    """Print a line of a Java plugin, without secrets (Invariant 6)."""
    with contextlib.suppress(ValueError, OSError):  # nobody reads; the plugin must not wait
        sys.stdout.write(f"{inert(hide_in_line(line, quotes=False))}\n")
        sys.stdout.flush()


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
    """Log errors that end a thread unexpectedly, without secrets; Python would write them unchanged."""

    def thread_ended(error: threading.ExceptHookArgs) -> None:
        name = "?" if error.thread is None else error.thread.name
        logging.getLogger(__name__).error("The thread %s ended unexpectedly", name, exc_info=error.exc_value)

    def process_ends(_kind: type[BaseException], error: BaseException, _frames: TracebackType | None) -> None:
        logging.getLogger(__name__).critical("The worker ends unexpectedly", exc_info=error)

    threading.excepthook, sys.excepthook = thread_ended, process_ends


def level_name(level: int) -> str:
    """log4j's name for the level."""
    return next((name for name, value in LEVELS.items() if value <= level and name != "OFF"), "ALL")


def levels() -> dict[str, tuple[str, int | None]]:
    """Level and time of the last change (epoch ms) of `root` and of each logger with its own level, sorted."""
    found = {name: logger for name, logger in _loggers().items() if logger.level}
    return {name: (_level(logger), _changed_ms.get(name)) for name, logger in sorted(found.items())}


def level(name: str) -> tuple[str, int | None] | None:
    """Effective level and time of the last change of a logger, by Java's name or ours; None if unknown."""
    ours = loggers_for(name)
    logger = _loggers().get(name) or (logging.getLogger(ours[0]) if ours else None)
    return None if logger is None else (_level(logger), _changed_ms.get(name))


def set_level(name: str, wanted: str) -> list[str]:
    """Set the level, one of `LEVELS`, of the logger and those below it (`root`: all); returns their sorted names.

    A name of Java's stands for itself, also in Java plugins, and for the worker's loggers that do its work.
    """
    named = [] if name == "root" else [name, *loggers_for(name)]
    for one in named:
        logging.getLogger(one)
    below = tuple(f"{one}." for one in named)
    affected = [one for one in _loggers() if name == "root" or one in named or one.startswith(below)]
    for one in affected:
        _loggers()[one].setLevel(LEVELS[wanted])
        _changed_ms[one] = int(time.time() * 1000)
    JAVA_HOSTS.levels_changed()
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
