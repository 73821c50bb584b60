"""Finds what a config contradicts, or names and is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from headrace.config.connector.error_handling import RETRY_TOPIC
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.lake.iceberg.partition_terms import refused, term_of
from headrace.connectors.lake.iceberg.sink.routing import route_regex
from headrace.connectors.lake.iceberg.sink.settings import (
    CDC_FIELD,
    CREATE_PROPERTIES,
    DYNAMIC,
    ID_COLUMNS,
    OF_TABLE,
    PARTITION_BY,
    ROUTE_FIELD,
    ROUTE_REGEX,
    TABLE_SETTINGS,
    TABLES,
    UPSERTS,
    SinkOptions,
    sink_options,
    split_terms,
    table_settings,
)

_FORMAT_VERSION: Final = f"{CREATE_PROPERTIES}format-version"
_PARTITION_BY: Final = "iceberg.tables.default-partition-by"


def sink_problems(config: Mapping[str, str]) -> list[Problem]:
    """Return the problems beyond single settings; none if a single setting is wrong, which is reported elsewhere."""
    try:
        options = sink_options(config)
    except ConfigError:
        return []
    found = [*_tables(config, options), *_of_tables(config, options), *_changes(config, options), *_made(config)]
    if config.get(RETRY_TOPIC, "").strip():
        what = "A record that waits in a retry topic comes after later ones, whose offsets a table has then passed."
        found.append(Problem(RETRY_TOPIC, config[RETRY_TOPIC], what, "Remove it."))
    return found


def _tables(config: Mapping[str, str], options: SinkOptions) -> Iterator[Problem]:
    named, route = config.get(TABLES, "").strip(), config.get(ROUTE_FIELD)
    if options.dynamic and named:
        yield Problem(TABLES, named, f"With {DYNAMIC}=true records name their tables.", "Remove one of the two.")
    if options.dynamic and not options.route:
        yield Problem(ROUTE_FIELD, route, f"{DYNAMIC}=true needs it.", "Set it to the field that names a table.")
    if not options.dynamic and not options.tables:
        yield Problem(TABLES, None, "No table is named.", f"Set it, such as to db.events, or {DYNAMIC}=true.")
    for table in options.tables:
        if not all(table.split(".")):
            yield Problem(TABLES, named, f"{table!r} is no table's name.", "Write namespace.table, such as db.events.")
        if options.route and options.route_regex(table) is None:
            key = f"{OF_TABLE}{table}.{ROUTE_REGEX}"
            what = f"With {ROUTE_FIELD} a table without a regular expression gets no record."
            yield Problem(key, None, what, "Set it, or remove the table.")


def _of_tables(config: Mapping[str, str], options: SinkOptions) -> Iterator[Problem]:
    for table, key, value in table_settings(config):
        name = f"{OF_TABLE}{table}.{key}"
        if key not in TABLE_SETTINGS:
            what = "There is no such setting of a table."
            yield Problem(name, value, what, f"Write {OF_TABLE}{table or 'db.events'}.{'|'.join(TABLE_SETTINGS)}.")
        elif not options.dynamic and table not in options.tables:
            what = f"{TABLES} does not have the table {table}."
            yield Problem(name, value, what, "Write the table's name with its namespace, as there.")
        elif options.dynamic and table != table.lower():
            what = f"With {DYNAMIC}=true names of tables are in lower case, so that it is of no table."
            yield Problem(name, value, what, f"Write {OF_TABLE}{table.lower()}.{key}.")
        elif key == ROUTE_REGEX:
            yield from _regex(name, value, options)


def _regex(name: str, value: str, options: SinkOptions) -> Iterator[Problem]:
    if options.dynamic or not options.route:
        what = f"It has an effect only with {TABLES} and {ROUTE_FIELD}."
        yield Problem(name, value, what, "Remove it, or set these.")
    try:
        route_regex(value)
    except ValueError as error:
        yield Problem(name, value, f"It is no regular expression: {error}.", "Write it as for Java.")


def _changes(config: Mapping[str, str], options: SinkOptions) -> Iterator[Problem]:
    if not options.upserts:
        return
    key = UPSERTS if options.values[UPSERTS] else CDC_FIELD
    versions = {options.create_properties.get("format-version", "2")} if options.creates else set()
    if "1" in versions:
        what = "Rows are deleted in tables of format version 2 and later only."
        yield Problem(_FORMAT_VERSION, "1", what, f"Set it to 2, or remove {key}.")
    if options.creates:
        for table in options.tables:
            if not options.id_columns(table):
                name = f"{OF_TABLE}{table}.{ID_COLUMNS}"
                what = f"With {key} a new table needs the columns of its key."
                yield Problem(name, None, what, "Set it, such as to id, or iceberg.tables.default-id-columns.")


def _made(config: Mapping[str, str]) -> Iterator[Problem]:
    """The wrong settings of tables that are made."""
    for name, value in config.items():
        if name == _FORMAT_VERSION and not value.strip().isdigit():
            yield Problem(name, value, "It is no version of Iceberg's format.", "Set it to 2 or 3.")
        if name == _PARTITION_BY or (name.startswith(OF_TABLE) and name.endswith(f".{PARTITION_BY}")):
            yield from _terms(name, value)


def _terms(name: str, value: str) -> Iterator[Problem]:
    for text in split_terms(value):
        try:
            term_of(text)
        except ValueError:
            (problem,) = refused(text, f"'{text}' is no term for partitions.").problems
            yield replace(problem, key=name, value=value)


def advice(config: Mapping[str, str]) -> Iterator[Problem]:
    """Yield settings that are likely not meant so. Errors: ConfigError."""
    options = sink_options(config)
    if options.values[UPSERTS] and options.cdc_field:
        what = f"{CDC_FIELD} says what each record changes, so that {UPSERTS} has no effect."
        yield Problem(UPSERTS, config[UPSERTS], what, "Remove one of the two.")
    if options.evolves or options.creates or not options.forces_optional:
        return
    what = "It has an effect on new columns only, and none are made."
    yield Problem("iceberg.tables.schema-force-optional", "true", what, "Remove it, or let tables be made or evolved.")
