"""Log lines of a Java host, as written to its output and read by its worker; used by both sides.

    1E level 1F logger 1F line number 1F number of connector or task 1F message 1F trace

1E also replaces line ends inside. Other lines are printed by plugins. `host/log4j2.properties` writes Java's lines in
this form.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.config.log_levels import LEVELS
from headrace.plugins.interop.java_hosts import JAVA_HOSTS

_BEGIN: Final = "\x1e"
_BETWEEN: Final = "\x1f"
_LINE: Final = re.compile(
    r"(?P<printed>[^\x1e]*)\x1e(?P<level>\w+)\x1f(?P<logger>[^\x1f]*)\x1f(?P<at>\d+)\x1f(?P<number>\d*)\x1f"
    r"(?P<text>.*)\x1f(?P<trace>[^\x1f]*)"
)

PRINTED: Final = "headrace.java"
"""Logger of what plugins print."""


class Logged(NamedTuple):
    """A logged line."""

    level: int
    logger: str
    line_number: int
    number: int | None
    """Number of the connector or task that it belongs to, if any."""
    message: str
    trace: str
    is_printed: bool = False
    """True if a plugin printed it."""


def line_of(logged: Logged) -> str:
    """Return the line as the host writes it."""
    number = "" if logged.number is None else str(logged.number)
    fields = level_name(logged.level), logged.logger, str(logged.line_number), number, logged.message, logged.trace
    return _BEGIN + _BETWEEN.join(fields).replace("\n", _BEGIN)


def parsed(line: str) -> Iterator[Logged]:
    """Parse a line of the host's output: printed text, a logged line, or one after the other."""
    found = _LINE.fullmatch(line)
    if found is None or found["printed"]:
        yield Logged(logging.INFO, PRINTED, 0, None, found["printed"] if found else line, "", is_printed=True)
    if found is not None:
        text, trace = (found[part].replace(_BEGIN, "\n").rstrip() for part in ("text", "trace"))
        number = int(found["number"]) if found["number"] else None
        logger = _shown_logger(found["logger"])
        yield Logged(LEVELS.get(found["level"], logging.INFO), logger, int(found["at"]), number, text, trace)


def write(logged: Logged) -> None:
    """Log the line in this process, if its logger's level permits; a printed one is printed, if the log is a file."""
    if logged.is_printed and JAVA_HOSTS.printed is not None:
        JAVA_HOSTS.printed(logged.message)
        return
    logger = logging.getLogger(logged.logger)
    if logger.isEnabledFor(logged.level):
        fields = logged.logger or "root", logged.level, "", logged.line_number, logged.message, (), None
        record = logger.makeRecord(*fields)
        record.exc_text = logged.trace or None
        logger.handle(record)


def levels() -> dict[str, str]:
    """Return log4j's levels of this process's loggers with their own level; the root's name is empty, as in log4j."""
    root = logging.getLogger()
    known = [logger for logger in list(root.manager.loggerDict.values()) if isinstance(logger, logging.Logger)]
    return {"": level_name(root.level), **{logger.name: level_name(logger.level) for logger in known if logger.level}}


def level_name(level: int) -> str:
    """Return log4j's name of a level."""
    return next((name for name, value in LEVELS.items() if value <= level), "ALL")


def _shown_logger(name: str) -> str:
    """Return the worker's logger for one of the host's: a plugin must not write under the names of the worker's own."""
    return PRINTED if f"{name}.".startswith("headrace.") and not name.startswith(__package__) else name
