"""The findings of `headrace doctor --connector FILE` about a JDBC source's database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from headrace.connectors.jdbc.contract.columns import Kind
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.tables import Table
from headrace.connectors.jdbc.database.checks import may_run, reached, zone_findings
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.source import settings as source_settings
from headrace.connectors.jdbc.source.table_filter import discover, same_topic
from headrace.connectors.jdbc.source.tables import SourceError, SourceTable, TableLayouts
from headrace.connectors.jdbc.source.windows import Mode
from headrace.plugins.contracts import Finding

_SHOWN: Final = 20
"""The most tables that are examined one by one."""


def source_findings(config: Mapping[str, str], worker: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings for a source with a valid config."""
    values = source_settings.parse(config)
    database = Database.of({**config, "connection.attempts": "1"}, worker, creates=False, reads_only=True)
    try:
        with database.connect() as connection:
            yield from reached(database, connection, reads=True)
            yield from zone_findings(database, connection, values["db.timezone"])
            if not (values["query"] or values["query.masked"].value):
                yield from _sources(database, connection, values)
    except (DatabaseError, DatabaseAway) as error:
        yield Finding("database", False, str(error))
    finally:
        database.close()


def _sources(database: Database, connection: Connection, values: Mapping[str, Any]) -> Iterator[Finding]:
    dialect = database.dialect
    wanted = source_settings.table_filter(values)
    tables = discover(connection, dialect, wanted)
    advice = "check its name and its case, schema.pattern, table.types, and that the user may read it"
    for setting, entries in wanted.unmet(tables, dialect).items():
        for entry in entries:
            yield Finding(f"table {entry}", False, f"is in {setting}, but is not there", advice)
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
    layouts = TableLayouts.of(values, database.source_sql())
    for table, facts in dialect.describe(connection, tables[:_SHOWN]).items():
        yield from _source_table(dialect, connection, values, layouts, SourceTable.of_table(table, dialect, ""), facts)


def _source_table(
    dialect: Dialect,
    connection: Connection,
    values: Mapping[str, Any],
    layouts: TableLayouts,
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
    if not may_run(connection, f"SELECT 1 FROM {dialect.name_of(facts.id)} WHERE 1 = 0"):
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


def _indexed(connection: Connection, table: Table) -> set[str]:
    """The first columns of all indexes, in lower case."""
    first = {key[0].lower() for key in (table.key, *table.unique) if key}
    with suppress(SQLAlchemyError):
        schema = table.id.schema or table.id.catalog
        indexes = sqlalchemy.inspect(connection).get_indexes(table.id.table, schema=schema)
        first |= {str(index["column_names"][0]).lower() for index in indexes if index["column_names"]}
    return first
