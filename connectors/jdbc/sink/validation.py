"""Problems of a JDBC sink's config beyond single settings, found before it is created.

Source: the conditions and messages of Confluent's connector. Problems that Confluent's finds only at the first record
(an impossible key) are found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import Type, read
from headrace.connectors.jdbc.contract.sink_options import KAFKA_KEY, InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.tables import Table
from headrace.connectors.jdbc.database.checks import blocked, checked_database, connection_problems, file_problems
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.sink import settings as sink_settings
from headrace.connectors.jdbc.sink.doctor import table_for, table_of
from headrace.connectors.jdbc.sink.envelopes import PLACEHOLDER


def sink_problems(config: Mapping[str, str], worker: Mapping[str, Any]) -> list[Problem]:
    """The problems of a sink's config; none if a single setting is wrong, which is reported elsewhere."""
    try:
        values = sink_settings.parse(config)
    except ConfigError:
        return []
    problems = [*_key_problems(config, values), *(refused := list(blocked(config)))]
    strategies = ("column.naming.strategy", "collection.naming.strategy", "table.naming.strategy")
    for name in strategies:
        if name in config and ".Default" not in config[name]:
            problems.append(Problem(name, config[name], "A Java class cannot be run here; use transforms instead"))
    database = None if refused else checked_database(config, worker, problems)
    if database is None:
        return problems
    try:
        problems += _names(values, database)
        missing = database.is_missing_file
        reach = file_problems(values, database) if missing else connection_problems(values, database, reads=False)
        unreached = list(reach)
        problems += unreached
        if values["schema.evolution"] == "validate-only" and not unreached:
            problems += _unfit_tables(config, database)
    finally:
        database.close()
    return problems


def _key_problems(config: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[Problem]:
    mode, insert, fields = values["pk.mode"], values["insert.mode"], values["pk.fields"]
    if values["delete.enabled"] and mode != "record_key":
        text = "Deletes are only supported for pk.mode record_key"
        yield Problem("pk.mode", mode, text, "Set pk.mode=record_key, or delete.enabled=false.")
        yield Problem("delete.enabled", "true", text, "Set pk.mode=record_key, or delete.enabled=false.")
    if insert in ("upsert", "update") and mode == "none":
        text = f"insert.mode {insert} requires a primary key, but pk.mode is none"
        yield Problem("pk.mode", mode, text, "Say where the key is: record_key, record_value or kafka.")
    text_column = "string.output.value.column.name"
    column = values[text_column]
    if text_column in config and mode in ("record_key", "kafka") and column in fields:  # its default need not be used
        text = f"Column {column} is one of pk.fields, so that the text of a value would be lost"
        yield Problem(text_column, column, text, "Name another column.")
    if mode == "kafka" and len(fields) not in (0, 3):
        text = f"pk.mode kafka needs no pk.fields or three: for topic, partition and offset; there are {len(fields)}"
        yield Problem("pk.fields", ",".join(fields), text, "Name three columns, or none.")


def _unfit_tables(config: Mapping[str, str], database: Database) -> Iterator[Problem]:
    """Problems by `schema.evolution=validate-only`: tables that are missing or unknown, or that can take no row.

    Decided: only columns are checked that each record needs by the config alone, since a record's schema is known when
    it comes; loses: a column that only the records' schema names is told with the first record.
    """
    name, options = "schema.evolution", sink_settings.options(config)
    topics = read("topics", Type.LIST, config.get("topics", ""))
    if not topics or "${source." in options.table_format:
        text = "validate-only has to know the tables: by topics, and by a table.name.format without source fields"
        yield Problem(name, "validate-only", text, "Name the topics, or set schema.evolution=none.")
        return
    try:
        with database.connect() as connection:
            tables = {one: table_of(one, options, database.dialect, connection) for one in topics}
    except (DatabaseError, DatabaseAway, ValueError) as error:
        yield Problem(name, "validate-only", str(error))
        return
    for topic, table in tables.items():
        if table is None:
            text = f"Table {table_for(topic, options)} of topic {topic} is missing"
            yield Problem(name, "validate-only", text, "Create it, or set schema.evolution=basic.")
            continue
        if missing := [one for one in _keys(options) if table.column(one) is None]:
            text = f"Table {table.id} of topic {topic} has no column {', '.join(missing)}, which its key needs"
            yield Problem(name, "validate-only", text, "Add it, or set schema.evolution=basic.")
        if unwritten := _unwritten(table, options):
            text = f"Table {table.id} of topic {topic} needs a value for {', '.join(unwritten)}, which is not written"
            yield Problem(name, "validate-only", text, "Give it a default, or name it in fields.whitelist.")


def _keys(options: SinkOptions) -> Sequence[str]:
    """The columns of the key, as far as the config names them: Debezium's may have their source's names."""
    if options.key_mode is KeyMode.KAFKA:
        return options.key_fields or KAFKA_KEY
    return () if options.key_mode is KeyMode.NONE or options.source_names else options.key_fields


def _unwritten(table: Table, options: SinkOptions) -> list[str]:
    """The columns that a row needs, and that fields.whitelist and pk.fields leave out."""
    knows_keys = options.key_mode is KeyMode.NONE or bool(_keys(options))
    if not options.included or not knows_keys or options.source_names or options.insert_mode is InsertMode.UPDATE:
        return []
    written = [table.column(name) for name in (*options.included, *_keys(options))]
    given = [one.nullable or one.has_default or one.autoincrement or one.generated for one in table.columns]
    return [one.name for one, is_given in zip(table.columns, given, strict=True) if not (is_given or one in written)]


def _names(values: Mapping[str, Any], database: Database) -> Iterator[Problem]:
    dialect = database.dialect
    mapped = [("topics.to.tables.mapping", entry.partition(":")[2]) for entry in values["topics.to.tables.mapping"]]
    for name, table in (*((name, values[name]) for name in ("offsets.table", "table.name.format")), *mapped):
        try:
            if table:
                named = dialect.table_id(PLACEHOLDER.sub(lambda found: found[1].rpartition(".")[2], table))
                if "${" not in table and (why := dialect.unreachable(named, database.access)) is not None:
                    raise ValueError(why)
        except ValueError as error:
            yield Problem(name, table, str(error), "Quote parts that have dots in them.")
    if values["insert.mode"] == "upsert" and not dialect.upserts:
        text = f"UPSERT mode is not supported with the {dialect.name} dialect"
        yield Problem("insert.mode", "upsert", text, "Use insert or update.")
