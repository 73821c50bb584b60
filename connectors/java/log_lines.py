"""The lines that a Java host logs, as they leave it on its output and arrive in its worker; both sides use this.

    1E level 1F logger 1F line number 1F number of connector or task 1F message 1F trace

1E also stands for line ends within. Other lines are what plugins print.
`host/log4j2.properties` writes Java's lines so.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.plugins.log_levels import LEVELS

_BEGIN: Final = "\x1e"
_BETWEEN: Final = "\x1f"
_LINE: Final = re.compile(
    r"(?P<printed>[^\x1e]*)\x1e(?P<level>\w+)\x1f(?P<logger>[^\x1f]*)\x1f(?P<at>\d+)\x1f(?P<number>\d*)\x1f"
    r"(?P<text>.*)\x1f(?P<trace>[^\x1f]*)"
)

PRINTED: Final = "headrace.java"
"""The logger of what plugins print."""


class Logged(NamedTuple):
    """A line that was logged."""

    level: int
    logger: str
    line_number: int
    number: int | None
    """Of the connector or task that it belongs to, if any."""
    message: str
    trace: str


def line_of(logged: Logged) -> str:
    """The line as it leaves the host."""
    number = "" if logged.number is None else str(logged.number)
    fields = level_name(logged.level), logged.logger, str(logged.line_number), number, logged.message, logged.trace
    return _BEGIN + _BETWEEN.join(fields).replace("\n", _BEGIN)


def parsed(line: str) -> Iterator[Logged]:
    """What a line of the host's output has: what was printed, a line that was logged, or one after the other."""
    found = _LINE.fullmatch(line)
    if found is None or found["printed"]:
        yield Logged(logging.INFO, PRINTED, 0, None, found["printed"] if found else line, "")
    if found is not None:
        text, trace = (found[part].replace(_BEGIN, "\n").rstrip() for part in ("text", "trace"))
        number = int(found["number"]) if found["number"] else None
        logger = _shown_logger(found["logger"])
        yield Logged(LEVELS.get(found["level"], logging.INFO), logger, int(found["at"]), number, text, trace)


def write(logged: Logged) -> None:
    """Log the line here, if its logger's level says so."""
    logger = logging.getLogger(logged.logger)
    if logger.isEnabledFor(logged.level):
        fields = logged.logger or "root", logged.level, "", logged.line_number, logged.message, (), None
        record = logger.makeRecord(*fields)
        record.exc_text = logged.trace or None
        logger.handle(record)


def levels() -> dict[str, str]:
    """log4j's levels of the loggers here that have a level of their own; the root's name is empty, as in log4j."""
    root = logging.getLogger()
    known = [logger for logger in list(root.manager.loggerDict.values()) if isinstance(logger, logging.Logger)]
    return {"": level_name(root.level), **{logger.name: level_name(logger.level) for logger in known if logger.level}}


def level_name(level: int) -> str:
    """The name that log4j has for it."""
    return next((name for name, value in LEVELS.items() if value <= level), "ALL")


def _shown_logger(name: str) -> str:
    """The worker's logger for one of the host's: a plugin does not write in the name of the worker's own."""
    return PRINTED if f"{name}.".startswith("headrace.") and not name.startswith(__package__) else name
