"""The findings of `headrace doctor --connector FILE` about a JDBC sink's database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from headrace.config.values import Type, read
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.sink_options import InsertMode, SinkOptions
from headrace.connectors.jdbc.contract.tables import Table
from headrace.connectors.jdbc.database.checks import file_problems, may_run, reached, zone_findings
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.sink import settings as sink_settings
from headrace.plugins.contracts import Finding


def sink_findings(config: Mapping[str, str], worker: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings for a sink with a valid config."""
    options = sink_settings.options(config)
    topics = read("topics", Type.LIST, config.get("topics", ""))
    database = Database.of({**config, "connection.attempts": "1"}, worker, creates=False)
    if database.is_missing_file and not any(file_problems(config, database)):
        yield Finding("database", True, f"{database.access} is missing; the task creates it")
        return
    try:
        with database.connect() as connection:
            yield from reached(database, connection, reads=False)
            yield from zone_findings(database, connection, options.zone)
            yield from _targets(database.dialect, connection, options, topics)
    except (DatabaseError, DatabaseAway) as error:
        yield Finding("database", False, str(error))
    finally:
        database.close()


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
            text = "is there" if found else "is missing; it is created at the start"
            yield Finding(f"table {name}", True, f"{text} (offsets)")
        elif found is None:
            advice = "create it, or set auto.create=true"
            text = "is missing; it is created for the first record" if options.creates else "is missing"
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
    if not may_run(connection, nothing):
        return Finding(what, None, "it seems that rows may not be inserted", f"GRANT INSERT ON {name} TO …")
    return Finding(what, True, f"{len(table.columns)} columns, key ({', '.join(table.key) or 'none'})")


def table_of(topic: str, options: SinkOptions, dialect: Dialect, connection: Connection) -> Table | None:
    """The table of a topic; None if missing. Errors: ValueError for a malformed name."""
    table = dialect.table_id(table_for(topic, options))
    if not options.quotes:
        table = dialect.folded_id(table)
    return dialect.describe(connection, [table]).get(table)


def table_for(topic: str, options: SinkOptions) -> str:
    """The name of a topic's table, before it is read as `schema.table`."""
    if topic in options.tables:
        return options.tables[topic]
    name = topic.replace(".", "_") if options.dots_to_underscores else topic
    if options.normalize_table:
        name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return options.table_format.replace("${topic}", name)
