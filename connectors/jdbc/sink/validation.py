"""Problems of a JDBC sink's config beyond single settings, found before it is created.

Source: the conditions and messages of Confluent's connector (reference/jdbc.md B2). Problems that Confluent's finds
only at the first record (an impossible key) are found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.jdbc.database.checks import blocked, checked_database, connection_problems
from headrace.connectors.jdbc.database.connection import Database
from headrace.connectors.jdbc.sink import settings as sink_settings
from headrace.connectors.jdbc.sink.envelopes import PLACEHOLDER


def sink_problems(config: Mapping[str, str], worker: Mapping[str, Any]) -> list[Problem]:
    """The problems of a sink's config; none where a single setting is wrong, which is reported elsewhere."""
    try:
        values = sink_settings.parse(config)
    except ConfigError:
        return []
    problems = [*_key_problems(values), *(refused := list(blocked(config)))]
    strategies = ("column.naming.strategy", "collection.naming.strategy", "table.naming.strategy")
    for name in strategies:
        if name in config and ".Default" not in config[name]:
            problems.append(Problem(name, config[name], "A Java class cannot be run here; use transforms instead"))
    database = None if refused else checked_database(config, worker, problems)
    if database is None:
        return problems
    try:
        problems += _names(values, database)
        problems += connection_problems(values, database)
    finally:
        database.close()
    return problems


def _key_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    mode, insert, fields = values["pk.mode"], values["insert.mode"], values["pk.fields"]
    if values["delete.enabled"] and mode != "record_key":
        text = "Deletes are only supported for pk.mode record_key"
        yield Problem("pk.mode", mode, text, "Set pk.mode=record_key, or delete.enabled=false.")
        yield Problem("delete.enabled", "true", text, "Set pk.mode=record_key, or delete.enabled=false.")
    if insert in ("upsert", "update") and mode == "none":
        text = f"insert.mode {insert} requires a primary key, but pk.mode is none"
        yield Problem("pk.mode", mode, text, "Say where the key is: record_key, record_value or kafka.")
    if mode == "kafka" and len(fields) not in (0, 3):
        text = f"pk.mode kafka needs no pk.fields or three: for topic, partition and offset; there are {len(fields)}"
        yield Problem("pk.fields", ",".join(fields), text, "Name three columns, or none.")


def _names(values: Mapping[str, Any], database: Database) -> Iterator[Problem]:
    dialect = database.dialect
    mapped = [("topics.to.tables.mapping", entry.partition(":")[2]) for entry in values["topics.to.tables.mapping"]]
    for name, table in (*((name, values[name]) for name in ("offsets.table", "table.name.format")), *mapped):
        try:
            if table:
                dialect.table_id(PLACEHOLDER.sub(lambda found: found[1].rpartition(".")[2], table))
        except ValueError as error:
            yield Problem(name, table, str(error), "Quote parts that have dots in them.")
    if values["insert.mode"] == "upsert" and not dialect.upserts:
        text = f"UPSERT mode is not supported with the {dialect.name} dialect"
        yield Problem("insert.mode", "upsert", text, "Use insert or update.")
