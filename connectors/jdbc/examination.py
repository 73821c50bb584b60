"""What `headrace doctor --connector FILE` says of a JDBC connector: what its database has, and what it lacks for it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from headrace.config.values import Type, read
from headrace.connectors.jdbc import sink_settings, source_settings
from headrace.connectors.jdbc.columns import Kind
from headrace.connectors.jdbc.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.dialect import WHY_REFUSED, Dialect
from headrace.connectors.jdbc.sink_options import InsertMode, SinkOptions
from headrace.connectors.jdbc.source_tables import Layouts, SourceError, SourceTable
from headrace.connectors.jdbc.tables import Table, discover, same_topic
from headrace.connectors.jdbc.url import MOVE_IT, SHOWN_PASSWORD
from headrace.connectors.jdbc.windows import Mode
from headrace.connectors.jdbc.zones import zone
from headrace.plugins.contracts import Finding

_CLOCK_OFF_S: Final = 2.0
_SHOWN: Final = 20
"""So many tables are looked at one by one."""


def source_findings(config: Mapping[str, str], worker: Mapping[str, Any]) -> Iterator[Finding]:
    """What is found for a source; a config that is wrong has been told of already."""
    values = source_settings.parse(config)
    database = Database.of({**config, "connection.attempts": "1"}, worker)
    try:
        with database.connect() as connection:
            yield from _reached(database, connection)
            yield from _zones(database, connection, values["db.timezone"])
            if not (values["query"] or values["query.masked"].value):
                yield from _sources(database, connection, values)
    except (DatabaseError, DatabaseAway) as error:
        yield Finding("database", False, str(error))
    finally:
        database.close()


def sink_findings(config: Mapping[str, str], worker: Mapping[str, Any]) -> Iterator[Finding]:
    """What is found for a sink; a config that is wrong has been told of already."""
    options = sink_settings.options(config)
    topics = read("topics", Type.LIST, config.get("topics", ""))
    database = Database.of({**config, "connection.attempts": "1"}, worker)
    try:
        with database.connect() as connection:
            yield from _reached(database, connection)
            yield from _zones(database, connection, options.zone)
            yield from _targets(database.dialect, connection, options, topics)
    except (DatabaseError, DatabaseAway) as error:
        yield Finding("database", False, str(error))
    finally:
        database.close()


def _reached(database: Database, connection: Connection) -> Iterator[Finding]:
    begun = time.monotonic()
    now = database.dialect.now_micros(connection) / 1_000_000
    took, off = time.monotonic() - begun, now - time.time()
    version = ".".join(map(str, connection.dialect.server_version_info or ()))
    text = f"{database.dialect.database} {version} answers in {took * 1000:.0f} ms: {database.access}"
    yield Finding("database", True, text)
    if abs(off) > _CLOCK_OFF_S + took:
        text = f"the database's is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} this machine's"
        yield Finding("clock", None, text, "windows go by the database's; mend whichever is wrong")
    if database.access.url.password is not None:
        yield Finding("connection.url", None, SHOWN_PASSWORD, MOVE_IT)
    for name in database.dialect.refused(database.access.properties):
        yield Finding(f"parameter {name}", None, WHY_REFUSED, "remove it from the connector's config")


def _zones(database: Database, connection: Connection, wanted: str) -> Iterator[Finding]:
    """Confluent's users know it well: rows that come hours late, or moments that are hours off."""
    server = database.dialect.server_zone(connection)
    if server is None:
        return
    with suppress(ValueError):
        if zone(server) == zone(wanted):
            return
    text = f"the server's is {server}, db.timezone is {wanted}"
    advice = f"where rows get their timestamps from the server's now(), set db.timezone={server}"
    yield Finding("time zone", None, text, advice)


def _sources(database: Database, connection: Connection, values: Mapping[str, Any]) -> Iterator[Finding]:
    dialect = database.dialect
    tables = discover(connection, dialect, source_settings.table_filter(values))
    if not tables:
        yield Finding("tables", False, "none passes the filter", "see table.whitelist, table.include.list, table.types")
        return
    shown = ", ".join(map(str, tables[:5])) + (f" and {len(tables) - 5} more" if len(tables) > 5 else "")
    yield Finding("tables", True, f"{len(tables)}: {shown}")
    for group in same_topic(tables):
        text = f"{' and '.join(map(str, group))} would share one topic"
        yield Finding(
            "topics", False, text, "leave out all but one, or give each a connector with another topic.prefix"
        )
    layouts = Layouts.of(values, dialect.source_sql())
    for table, facts in dialect.describe(connection, tables[:_SHOWN]).items():
        yield from _source_table(dialect, connection, values, layouts, SourceTable.of_table(table, dialect, ""), facts)


def _source_table(
    dialect: Dialect,
    connection: Connection,
    values: Mapping[str, Any],
    layouts: Layouts,
    table: SourceTable,
    facts: Table,
) -> Iterator[Finding]:
    what = f"table {table.name}"
    if unread := [column for column in facts.columns if column.kind is Kind.UNSUPPORTED]:
        named = ", ".join(f"{column.name} ({column.type_name})" for column in unread)
        yield Finding(what, None, f"columns are left out: {named}", "cast them in a query")
    try:
        layouts.make(table, facts)
    except SourceError as error:
        yield Finding(what, False, str(error))
        return
    if not _may(connection, f"SELECT 1 FROM {dialect.name_of(facts.id)} WHERE 1 = 0"):
        yield Finding(what, False, "it may not be read", f"GRANT SELECT ON {dialect.name_of(facts.id)} TO …")
        return
    mode = Mode(values["mode"])
    if mode is Mode.BULK:
        yield Finding(what, True, f"{len(facts.columns)} columns")
        return
    timestamps, incrementing = layouts.columns(table.name)
    counted = incrementing or next((column.name for column in facts.columns if column.autoincrement), "")
    named = timestamps[0] if mode.times else counted
    column = facts.column(named)
    first = named if column is None else column.name
    if first.lower() in _indexed(connection, facts):
        yield Finding(what, True, f"{len(facts.columns)} columns, read by {first}, which has an index")
    else:
        text = f"{first} has no index: each poll reads the whole table"
        index = dialect.quoted(f"{facts.id.table}_{first}")
        advice = f"CREATE INDEX {index} ON {dialect.name_of(facts.id)} ({dialect.quoted(first)})"
        yield Finding(what, None, text, advice)


def _targets(
    dialect: Dialect, connection: Connection, options: SinkOptions, topics: Sequence[str]
) -> Iterator[Finding]:
    names = [table_for(topic, options) for topic in topics if "${source" not in options.table_format]
    if options.offsets_table is not None:
        names.append(options.offsets_table)
    for name in dict.fromkeys(names):
        try:
            table = dialect.table_id(name)
        except ValueError as error:
            yield Finding(f"table {name}", False, str(error), "see table.name.format; quote parts with dots")
            continue
        if not (options.quotes or name == options.offsets_table):
            table = dialect.folded_id(table)
        found = dialect.describe(connection, [table]).get(table)
        if name == options.offsets_table:
            text = "is there" if found else "is missing; it is made at the start"
            yield Finding(f"table {name}", True, f"{text} (offsets)")
        elif found is None:
            advice = "create it, or set auto.create=true"
            text = "is missing; it is made for the first record" if options.creates else "is missing"
            yield Finding(f"table {name}", options.creates or False, text, "" if options.creates else advice)
        else:
            yield _target(dialect, connection, options, found)


def _target(dialect: Dialect, connection: Connection, options: SinkOptions, table: Table) -> Finding:
    what, name = f"table {table.id}", dialect.name_of(table.id)
    missing = [field for field in options.key_fields if table.column(field) is None]
    if missing and not options.evolves:
        return Finding(what, False, f"it has no column {', '.join(missing)}", "see pk.fields")
    keys = [sorted(column.lower() for column in key) for key in (table.key, *table.unique)]
    wanted = sorted(field.lower() for field in options.key_fields)
    if options.insert_mode is InsertMode.UPSERT and not (wanted in keys if wanted else table.key):
        text = f"no primary key or unique constraint on just ({', '.join(wanted) or 'the key'})"
        fields = ", ".join(map(dialect.quoted, options.key_fields)) or "…"
        return Finding(what, False, text, f"ALTER TABLE {name} ADD UNIQUE ({fields}), or insert.mode=insert")
    columns = [dialect.quoted(one.name) for one in table.columns if not (one.generated or one.autoincrement)]
    nulls = ", ".join(["NULL"] * len(columns))
    nothing = f"INSERT INTO {name} ({', '.join(columns)}) SELECT {nulls} FROM (SELECT 1 AS x) AS d WHERE 1 = 0"
    if not _may(connection, nothing):
        return Finding(what, None, "it seems that rows may not be inserted", f"GRANT INSERT ON {name} TO …")
    return Finding(what, True, f"{len(table.columns)} columns, key ({', '.join(table.key) or 'none'})")


def table_for(topic: str, options: SinkOptions) -> str:
    """The name of a topic's table, before it is read as `schema.table`."""
    if topic in options.tables:
        return options.tables[topic]
    name = topic.replace(".", "_") if options.dots_to_underscores else topic
    if options.normalize_table:
        name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return options.table_format.replace("${topic}", name)


def _indexed(connection: Connection, table: Table) -> set[str]:
    """The columns that an index begins with, in lower case."""
    first = {key[0].lower() for key in (table.key, *table.unique) if key}
    with suppress(SQLAlchemyError):
        schema = table.id.schema or table.id.catalog
        indexes = sqlalchemy.inspect(connection).get_indexes(table.id.table, schema=schema)
        first |= {str(index["column_names"][0]).lower() for index in indexes if index["column_names"]}
    return first


def _may(connection: Connection, statement: str) -> bool:
    """Whether the database takes a statement that changes nothing; what it did is taken back."""
    try:
        with connection.begin_nested() as attempt:
            connection.execution_options(no_parameters=True).exec_driver_sql(statement)
            attempt.rollback()
    except SQLAlchemyError:
        return False
    return True
