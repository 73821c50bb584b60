"""Problems of a JDBC source's config beyond single settings, found before it is created.

Source: the conditions and messages of Confluent's connector.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.jdbc.database import sql_states
from headrace.connectors.jdbc.database.checks import blocked, checked_database, connection_problems, quick_database
from headrace.connectors.jdbc.database.connection import (
    Database,
    DatabaseAway,
    DatabaseError,
)
from headrace.connectors.jdbc.source import settings as source_settings
from headrace.connectors.jdbc.source.table_filter import discover
from headrace.connectors.jdbc.source.windows import Mode

_OLD: Final = ("table.whitelist", "table.blacklist", "timestamp.column.name", "incrementing.column.name")
_NEW: Final = ("table.include.list", "table.exclude.list", "timestamp.columns.mapping", "incrementing.column.mapping")
_FILTERS: Final = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")
_COMMENT: Final = re.compile(r"(?s)\A(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*")


def source_problems(config: Mapping[str, str], worker: Mapping[str, Any]) -> list[Problem]:
    """The problems of a source's config; none if a single setting is wrong, which is reported elsewhere."""
    try:
        values = source_settings.parse(config)
    except ConfigError:
        return []
    problems = [
        *_mode_problems(values),
        *_filter_problems(values),
        *_mapping_problems(values),
        *_query_problems(values),
        *(refused := list(blocked(config))),
    ]
    database = None if refused else checked_database(config, worker, problems)
    if database is not None:
        try:
            problems += _against_the_database(values, database)
        finally:
            database.close()
    return problems


def tables_to_offer(config: Mapping[str, str], worker: Mapping[str, Any]) -> list[str]:
    """The database's tables, for `table.whitelist`; none while they cannot be read."""
    try:
        values = source_settings.parse(config)
        database = quick_database(config, worker)
    except (ConfigError, ValueError):
        return []
    try:
        everything = source_settings.table_filter({**values, **dict.fromkeys(_FILTERS, ())})
        with database.connect() as connection:
            return [str(table) for table in discover(connection, database.dialect, everything)]
    except (DatabaseError, DatabaseAway):
        return []
    finally:
        database.close()


def _mode_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    if not values["mode"]:
        yield Problem("mode", "", "Query mode must be specified", f"Set mode to one of {', '.join(Mode)}.")
        return
    mode = Mode(values["mode"])
    if mode.times and not values["timestamp.column.name"] and not values["timestamp.columns.mapping"]:
        text = f"Timestamp column configuration must be provided when using mode '{mode}'"
        remedy = "Set timestamp.column.name, or timestamp.columns.mapping beside table.include.list."
        yield Problem("timestamp.column.name", "", text, remedy)
    if mode.counts and _query(values) and not values["incrementing.column.name"]:
        text = f"A column must be provided when using mode '{mode}' with a query"
        yield Problem("incrementing.column.name", "", text, "Name the column of the query's result.")
    for name, used in (("timestamp.columns.mapping", mode.times), ("incrementing.column.mapping", mode.counts)):
        if values[name] and not used:
            text = f"{name} cannot be used with mode '{mode}'"
            yield Problem(name, ",".join(values[name]), text, "Remove it or change the mode.")


def _filter_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    old, new = ([name for name in names if values[name]] for names in (_OLD, _NEW))
    if old and new:
        text = (
            "Cannot mix legacy and new configuration approaches: "
            f"{', '.join(old)} of the one, {', '.join(new)} of the other"
        )
        for name in (*old, *new):
            yield Problem(name, ",".join(_as_list(values[name])), text, "Use the settings of one of the two.")
    filters = [name for name in _FILTERS if values[name]]
    if _query(values):
        for name in filters:
            text = "Do not specify table filtering configs with 'query'"
            yield Problem(name, ",".join(values[name]), text, "Remove them, or the query.")
    elif not old and not new:
        text = "At least one table filtering configuration is required"
        remedy = "Set table.whitelist, table.blacklist or table.include.list (.* for every table), or query."
        for name in ("table.whitelist", "table.include.list"):
            yield Problem(name, "", text, remedy)
    if values["table.exclude.list"] and not values["table.include.list"]:
        text = "table.exclude.list cannot be used without table.include.list"
        yield Problem("table.exclude.list", ",".join(values["table.exclude.list"]), text, "Set both.")


def _mapping_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    for name, shape in (
        ("timestamp.columns.mapping", "regex:[column1|column2]"),
        ("incrementing.column.mapping", "regex:column"),
    ):
        for entry in values[name]:
            try:
                source_settings.column_mapping(entry)
            except ValueError as error:
                yield Problem(name, ",".join(values[name]), f"{entry!r} is no entry {shape}: {error}", "Write it so.")


def _query_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    if values["query"] and values["query.masked"].value:
        text = "Both configs 'query' and 'query.masked' cannot be set at the same time"
        yield Problem("query", None, text, "Set one of them.")
        yield Problem("query.masked", None, text, "Set one of them.")
    query, name = _query(values), _query_key(values)
    if query and not re.match(r"(?i)(?:select|with)\b", _COMMENT.sub("", query)):
        yield Problem(name, None, f"Only SELECT statements are supported for '{name}'", "Let it begin with SELECT.")


def _against_the_database(values: Mapping[str, Any], database: Database) -> Iterator[Problem]:
    """The problems that only the database can find; none if it is unreachable."""
    isolation = values["transaction.isolation.mode"]
    if isolation == "SQL_SERVER_SNAPSHOT" and "sqlserver" not in database.dialect.subprotocols:
        text = f"Isolation mode of {isolation} can only be configured with a SQL Server database"
        yield Problem("transaction.isolation.mode", isolation, text, "Choose another.")
    unreached = list(connection_problems(values, database, reads=True))
    yield from unreached
    query, name = _query(values), _query_key(values)
    if unreached or not query or list(_query_problems(values)):
        return
    try:
        with database.connect() as connection:
            database.dialect.columns_of(connection, query)
    except (DatabaseError, DatabaseAway) as error:
        cause = error.__cause__ or error
        codes = f"(SQLState {sql_states.sql_state(cause)}, errorCode {sql_states.error_code(cause)})"
        said = str(error) if database.hides else f"{sql_states.message(cause)} {codes}"
        text = f"The configured query is not valid: {said}"
        yield Problem(name, None, text, "Try it in a client of the database; it is read as SELECT * FROM (query).")


def _query(values: Mapping[str, Any]) -> str:
    query: str = values["query"] or values["query.masked"].value
    return query


def _query_key(values: Mapping[str, Any]) -> str:
    return "query" if values["query"] else "query.masked"


def _as_list(value: Any) -> Sequence[str]:
    return value if isinstance(value, list) else [value]
