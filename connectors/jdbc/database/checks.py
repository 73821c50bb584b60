"""Checks of a database that sources and sinks share: problems of a config, and findings of `headrace doctor`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from headrace.config.problems import ConfigError, Problem
from headrace.config.time_zones import zone
from headrace.connectors.jdbc.contract.dialect import IDLE, WHY_REFUSED
from headrace.connectors.jdbc.contract.url import MOVE_IT, SHOWN_PASSWORD, DatabaseAccess, harmless
from headrace.connectors.jdbc.database.connection import (
    BLOCKED_TEXT,
    Database,
    DatabaseAway,
    DatabaseError,
    blocked_parameters,
)
from headrace.plugins.contracts import Finding

log = logging.getLogger(__name__)

_VALIDATION_SECONDS: Final = 10
"""A wrong host must be reported within REST's time limit."""
_CLOCK_OFF_S: Final = 2.0


def blocked(config: Mapping[str, str]) -> Iterator[Problem]:
    """Yields the parameters that the worker's environment forbids."""
    try:
        access = DatabaseAccess.of(config)
    except ValueError:
        return
    for name in blocked_parameters(access):
        key = "connection.url" if name in access.url.parameters else f"connection.{name}"
        yield Problem(key, None, f"{BLOCKED_TEXT} '{name}'", "Remove it.")


def checked_database(config: Mapping[str, str], worker: Mapping[str, Any], problems: list[Problem]) -> Database | None:
    """The config's database if it is allowed; else adds the problem and returns None."""
    url = harmless(config.get("connection.url", ""))
    try:
        return quick_database(config, worker)
    except (ConfigError, ValueError) as error:
        said = error.problems[0].message if isinstance(error, ConfigError) else str(error)
        problems.append(Problem("connection.url", url, said, "Set it as jdbc:postgresql://host:port/database."))
        return None


def quick_database(config: Mapping[str, str], worker: Mapping[str, Any]) -> Database:
    """The database, for reading only, with a single short attempt to connect."""
    once = {**config, "connection.attempts": "1"}
    return Database.of(once, worker, creates=False, reads_only=True, login_seconds=_VALIDATION_SECONDS)


def connection_problems(values: Mapping[str, Any], database: Database, reads: bool) -> Iterator[Problem]:
    """Yields the problem of a failing connection; logs parameters without effect. `reads`: true for a source."""
    for name, why in _useless(database, reads).items():
        log.warning("The driver's parameter %s %s.", name, why)
    if database.access.url.password is not None:
        log.warning("connection.url %s: %s.", SHOWN_PASSWORD, MOVE_IT)
    try:
        with database.connect():
            return
    except (DatabaseError, DatabaseAway) as error:
        yield Problem("connection.url", harmless(values["connection.url"]), f"Could not connect to database. {error}")


def file_problems(values: Mapping[str, Any], database: Database) -> Iterator[Problem]:
    """Yields the problem of a database file that its first connection would create but cannot."""
    folder = os.path.dirname(os.path.realpath(database.access.url.database or ""))
    if not os.access(folder, os.W_OK | os.X_OK):
        text = f"Could not connect to database. {database.access}: there is no such file, and none can be made there"
        advice = "Create its folder, and let the worker's user write there."
        yield Problem("connection.url", harmless(values["connection.url"]), text, advice)


def _useless(database: Database, reads: bool) -> dict[str, str]:
    """The driver's parameters without effect, each with the reason."""
    dialect, given = database.dialect, database.access.properties
    return dict.fromkeys(dialect.refused(given), WHY_REFUSED) | dict.fromkeys(dialect.idle(given, reads), IDLE)


def reached(database: Database, connection: Connection, reads: bool) -> Iterator[Finding]:
    """Findings about a database that answers: version, clock, and the connection's parameters.

    `reads`: true for a source.
    """
    begun = time.monotonic()
    now = database.dialect.now_micros(connection) / 1_000_000
    took, off = time.monotonic() - begun, now - time.time()
    version = ".".join(map(str, connection.dialect.server_version_info or ()))
    text = f"{database.dialect.database} {version} answers in {took * 1000:.0f} ms: {database.access}"
    yield Finding("database", True, text)
    if abs(off) > _CLOCK_OFF_S + took:
        text = f"the database's is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} this machine's"
        yield Finding("clock", None, text, "windows go by the database's; correct the wrong one")
    if database.access.url.password is not None:
        yield Finding("connection.url", None, SHOWN_PASSWORD, MOVE_IT)
    for name, why in _useless(database, reads).items():
        yield Finding(f"parameter {name}", None, why, "remove it from the connector's config")


def zone_findings(database: Database, connection: Connection, wanted: str) -> Iterator[Finding]:
    """A warning if the server's time zone differs from `db.timezone`: rows would come, or be dated, hours off."""
    server = database.dialect.server_zone(connection)
    if server is None:
        return
    with suppress(ValueError):
        if zone(server) == zone(wanted):
            return
    text = f"the server's is {server}, db.timezone is {wanted}"
    advice = f"where rows get their timestamps from the server's now(), set db.timezone={server}"
    yield Finding("time zone", None, text, advice)


def may_run(connection: Connection, statement: str) -> bool:
    """True if the database takes a statement that changes nothing; rolls it back."""
    try:
        with connection.begin_nested() as attempt:
            connection.execution_options(no_parameters=True).exec_driver_sql(statement)
            attempt.rollback()
    except SQLAlchemyError:
        return False
    return True
