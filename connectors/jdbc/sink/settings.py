"""The settings of the JDBC sink: Confluent's names, Aiven's and Debezium's if they differ, and a few of our own.

Any name may be used under any of the three classes. If defaults differ, Debezium's hold under Debezium's class: names
without quotes, dots of a topic's name made underscores, deletes skipped if they are not enabled, nulls kept as they are
(the converter's setting `replace.null.with.default` decides alone).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.connector.error_handling import RETRY_TOPIC
from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Offer, Settings, Type
from headrace.config.time_zones import ZONE
from headrace.config.validators import Check, ListOf, OneOf, OneOfIgnoringCase, OrNull, Range
from headrace.config.values import invalid
from headrace.connectors.jdbc.contract.sink_options import InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.database.settings import (
    When,
    by_other_names,
    calendar,
    connection_settings,
    database_zone,
    quoting,
)

_connection, _writes, _mapping = SettingGroup("Connection"), SettingGroup("Writes"), SettingGroup("Data Mapping")
_ddl, _retries, _others = SettingGroup("DDL Support"), SettingGroup("Retries"), SettingGroup("Other names")

TABLE_TYPES: Final = ("TABLE", "PARTITIONED TABLE", "VIEW")
_NAMES: Final = {
    "connection.username": "connection.user",
    "primary.key.mode": "pk.mode",
    "primary.key.fields": "pk.fields",
    "collection.name.format": "table.name.format",
    "use.time.zone": "db.timezone",
    "database.time_zone": "db.timezone",
    "field.include.list": "fields.whitelist",
    "flush.max.retries": "max.retries",
    "flush.retry.delay.ms": "retry.backoff.ms",
}
"""Debezium's names for settings of the same meaning."""
_INSERT_MODES: Final = tuple(map(str, InsertMode))
_KEY_MODES: Final = tuple(map(str, KeyMode))


def _format_objection(name: str, value: Any) -> str | None:
    return None if value else invalid(name, value, "String must be non-empty")


def _topic_tables(name: str, value: Any) -> str | None:
    wrong = [entry for entry in value or () if not all(part.strip() for part in entry.partition(":")[::2])]
    return invalid(name, value, f"{wrong[0]!r} is no entry topic:table") if wrong else None


def _plain_fields(name: str, value: Any) -> str | None:
    wrong = [entry for entry in value or () if ":" in entry]
    why = "fields of single topics cannot be chosen; use the transform ReplaceField with a predicate for that"
    return invalid(name, value, f"{wrong[0]!r}: {why}") if wrong else None


_WRITES: Final = (
    _writes(
        "insert.mode",
        Type.STRING,
        "insert",
        HIGH,
        MID,
        "Insert Mode",
        "insert: rows are added, and one whose key is there fails. upsert: a row whose key is there is changed. "
        "update: only rows that are there are changed.",
        OneOfIgnoringCase(*_INSERT_MODES, "multi"),
        recommender=Offer(_INSERT_MODES),
    ),
    _writes(
        "batch.size",
        Type.INT,
        3000,
        MEDIUM,
        SHORT,
        "Batch Size",
        "Accepted for configs of other connectors. How many rows go into one transaction the worker decides, by how "
        "many there are.",
        Range(0),
    ),
    _writes(
        "delete.enabled",
        Type.BOOLEAN,
        False,
        MEDIUM,
        SHORT,
        "Enable deletes",
        "Whether a record without value, or a change event that says so, deletes the row of its key. Needs "
        "pk.mode=record_key.",
        dependents=("pk.mode",),
    ),
    _writes(
        "truncate.enabled",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Enable truncation",
        "Whether a change event of a table's truncation empties the table.",
    ),
    _writes(
        "offsets.table",
        Type.STRING,
        "connect_offsets",
        MEDIUM,
        MID,
        "Offsets Table",
        "The table that keeps the offsets of what was written, in the same transactions: each record has its effect "
        "exactly once. It is made where it is missing; where that may not be and this setting is not given, a warning "
        "is logged and it is done without. Empty: at least once.",
    ),
    _writes(
        "table.types",
        Type.LIST,
        ["TABLE"],
        LOW,
        MID,
        "Table Types",
        "Accepted for configs of Confluent's connector. Whatever is there of a table's name takes the rows, a view or "
        "a partitioned table, too.",
        ListOf(TABLE_TYPES),
        recommender=Offer(TABLE_TYPES),
    ),
)

_MAPPING: Final = (
    _mapping(
        "table.name.format",
        Type.STRING,
        "${topic}",
        MEDIUM,
        LONG,
        "Table Name Format",
        "The table's name, ${topic} being the topic's; with dots, or quoted, it has a schema or database, too.",
        Check(_format_objection, "a text that is not empty"),
    ),
    _mapping(
        "topics.to.tables.mapping",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Topics to Tables",
        "Entries topic:table for topics whose table has another name.",
        Check(_topic_tables, "a comma-separated list of topic:table"),
    ),
    _mapping(
        "table.name.normalize",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Normalize Table Names",
        "Whether all in a topic's name but letters, digits and underscores becomes an underscore.",
    ),
    _mapping(
        "pk.mode",
        Type.STRING,
        "none",
        HIGH,
        MID,
        "Primary Key Mode",
        "Where the columns of the key come from. none: there is none. kafka: topic, partition and offset. record_key: "
        "the record's key. record_value: fields of its value.",
        OneOfIgnoringCase(*_KEY_MODES),
        dependents=("pk.fields",),
        recommender=Offer(_KEY_MODES),
    ),
    _mapping(
        "pk.fields",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Primary Key Fields",
        "The key's columns. Of record_key and record_value those fields, all where it is empty; the name of the column "
        "for a key that is one value; three names for kafka in place of __connect_topic, __connect_partition and "
        "__connect_offset.",
        recommender=When("pk.mode", ("kafka", "record_key", "record_value")),
    ),
    _mapping(
        "fields.whitelist",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Fields Whitelist",
        "The fields of values that are written besides those of the key; all where it is empty.",
        Check(_plain_fields, "a comma-separated list of fields"),
    ),
    _mapping(
        "replace.null.with.default",
        Type.BOOLEAN,
        True,
        LOW,
        SHORT,
        "Replace null with default",
        "Whether a null becomes the default that the record's schema has for its field. Under Debezium's class its "
        "default is false.",
    ),
    database_zone(
        _mapping,
        "The time zone whose wall clock is written into timestamp columns without a time zone. A time of day is "
        "written as it is.",
    ),
    _mapping(
        "date.timezone",
        Type.STRING,
        "DB_TIMEZONE",
        MEDIUM,
        MID,
        "Timezone used for date types",
        "Accepted for configs of Confluent's connector. A date is written as the day that it is, in no time zone.",
        OneOfIgnoringCase("DB_TIMEZONE", "UTC"),
        recommender=Offer(("DB_TIMEZONE", "UTC")),
    ),
    calendar(_mapping),
    _mapping(
        "timestamp.fields.list",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Timestamp Fields",
        "Fields of INT64 (a count since the epoch) or STRING (ISO 8601) that are written as timestamps.",
    ),
    _mapping(
        "timestamp.precision.mode",
        Type.STRING,
        "microseconds",
        MEDIUM,
        MID,
        "Timestamp Precision",
        "What the numbers in those fields count.",
        OneOfIgnoringCase("microseconds", "nanoseconds"),
        recommender=Offer(("microseconds", "nanoseconds")),
    ),
    _mapping(
        "string.output.value.column.name",
        Type.STRING,
        "record_value",
        LOW,
        MID,
        "Column for text values",
        "The column of values that are one text.",
    ),
)

_DDL: Final = (
    _ddl(
        "auto.create",
        Type.BOOLEAN,
        False,
        MEDIUM,
        SHORT,
        "Auto-Create",
        "Whether a table that is missing is made by the schema of its first record. The statement is logged.",
    ),
    _ddl(
        "auto.evolve",
        Type.BOOLEAN,
        False,
        MEDIUM,
        SHORT,
        "Auto-Evolve",
        "Whether columns are added for fields that have none and may be null or have a default. The statement is "
        "logged.",
    ),
    _ddl(
        "auto.evolve.widen",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Auto-Evolve: wider types",
        "Whether auto.evolve also gives a column a wider type that holds all that it has, such as BIGINT for INT.",
    ),
    quoting(_ddl),
    _ddl(
        "mssql.use.merge.holdlock",
        Type.BOOLEAN,
        True,
        LOW,
        SHORT,
        "SQL Server - Use HOLDLOCK in MERGE",
        "For a dialect of SQL Server.",
    ),
)

_RETRIES: Final = (
    _retries(
        "max.retries",
        Type.INT,
        10,
        MEDIUM,
        SHORT,
        "Maximum Retries",
        "How often a batch is tried again where that may help, before the task fails.",
        Range(0),
    ),
    _retries(
        "retry.backoff.ms",
        Type.INT,
        3000,
        MEDIUM,
        SHORT,
        "Retry Backoff (millis)",
        "Accepted for configs of other connectors. The worker waits for 0.1 s before the second try, and twice as long "
        "before each next one, up to 10 s.",
        Range(0),
    ),
    _retries(
        "trim.sensitive.log",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Trim sensitive logs",
        "Accepted for configs of Confluent's connector. Statements are logged without values; what the database says "
        "of a row that it refuses is reported as it is.",
    ),
)


def _also(name: str, type_: Type, text: str, validator: Any = None) -> Any:
    return _others(name, type_, None, LOW, MID, "", text, validator)


_OTHER_NAMES: Final = (
    *(
        _also(theirs, Type.STRING, f"Debezium's name of {ours}.")
        for theirs, ours in _NAMES.items()
        if ours not in ("db.timezone", "pk.mode", "max.retries", "retry.backoff.ms", "fields.whitelist")
    ),
    _also(
        "primary.key.mode",
        Type.STRING,
        "Debezium's name of pk.mode; it takes record_header there, which is not served here.",
        OrNull(OneOfIgnoringCase(*_KEY_MODES)),
    ),
    _also("use.time.zone", Type.STRING, "Debezium's name of db.timezone.", OrNull(ZONE)),
    _also("database.time_zone", Type.STRING, "Debezium's old name of db.timezone.", OrNull(ZONE)),
    _also(
        "field.include.list",
        Type.LIST,
        "Debezium's name of fields.whitelist.",
        Check(_plain_fields, "a comma-separated list of fields"),
    ),
    _also(
        "field.exclude.list",
        Type.LIST,
        "Debezium's: the fields of values that are not written.",
        Check(_plain_fields, "a comma-separated list of fields"),
    ),
    _also("flush.max.retries", Type.INT, "Debezium's name of max.retries.", OrNull(Range(0))),
    _also("flush.retry.delay.ms", Type.LONG, "Debezium's name of retry.backoff.ms.", OrNull(Range(0))),
    _also(
        "schema.evolution",
        Type.STRING,
        "Debezium's: none; basic for auto.create and auto.evolve; validate-only: no connector is created while one of "
        "its tables is missing; for other classes than Debezium's also while one lacks a column of pk.fields, or needs "
        "one that fields.whitelist leaves out.",
        OrNull(OneOf("none", "validate-only", "basic")),
    ),
    _also("quote.identifiers", Type.BOOLEAN, "Debezium's name of quote.sql.identifiers: true for always."),
    _also("sql.quote.identifiers", Type.BOOLEAN, "Aiven's name of quote.sql.identifiers: true for always."),
    _also(
        "table.names.qualify",
        Type.BOOLEAN,
        "Accepted for configs of Aiven's connector. In statements a table's name has all parts that are given of it.",
    ),
    _also(
        "use.reduction.buffer",
        Type.BOOLEAN,
        "Debezium's: whether of records of one key that come together only the last is inserted, too. Of those that "
        "are upserted or updated only the last is always written.",
    ),
    _also("connection.pool.min_size", Type.INT, "Accepted for configs of Debezium's connector."),
    _also("connection.pool.max_size", Type.INT, "Accepted for configs of Debezium's connector."),
    _also("connection.pool.acquire_increment", Type.INT, "Accepted for configs of Debezium's connector."),
    _also("connection.pool.timeout", Type.LONG, "Accepted for configs of Debezium's connector."),
    _also(
        "connection.restart.on.errors",
        Type.BOOLEAN,
        "Accepted for configs of Debezium's connector. A connection that is lost is always opened anew.",
    ),
)

SETTINGS: Final = Settings(*connection_settings(_connection), *_WRITES, *_MAPPING, *_DDL, *_RETRIES, *_OTHER_NAMES)


def is_debeziums(config: Mapping[str, str]) -> bool:
    """True if the config names Debezium's class."""
    return config.get("connector.class", "").strip().startswith("io.debezium.")


def parse(config: Mapping[str, str]) -> dict[str, Any]:
    """Every setting's value under Confluent's name; choices in lower case. Errors: ConfigError with all problems."""
    given = by_other_names(config, _NAMES)
    values = SETTINGS.parse(given)
    if "quote.sql.identifiers" not in config:
        theirs = [name for name in ("quote.identifiers", "sql.quote.identifiers") if name in config]
        quotes = values[theirs[0]] if theirs else not is_debeziums(config)
        values["quote.sql.identifiers"] = "always" if quotes else "never"
    if "replace.null.with.default" not in config and is_debeziums(config):
        values["replace.null.with.default"] = False
    if (evolution := values["schema.evolution"]) is not None:
        values["auto.create"] = values["auto.evolve"] = evolution == "basic"
    for name in ("insert.mode", "pk.mode", "quote.sql.identifiers", "timestamp.precision.mode"):
        values[name] = values[name].lower()
    return values


def options(config: Mapping[str, str]) -> SinkOptions:
    """Parses the config into options. Errors: ConfigError with all problems."""
    values = parse(config)
    debezium = is_debeziums(config)
    mode = values["insert.mode"]
    return SinkOptions(
        connector=config.get("name", "jdbc-sink"),
        insert_mode=InsertMode.INSERT if mode == "multi" else InsertMode(mode),
        key_mode=KeyMode(values["pk.mode"]),
        key_fields=tuple(values["pk.fields"]),
        deletes=values["delete.enabled"],
        passes_deletes=debezium,
        truncates=values["truncate.enabled"],
        table_format=values["table.name.format"],
        dots_to_underscores=debezium,
        tables=_mapped(values["topics.to.tables.mapping"]),
        normalize_table=values["table.name.normalize"],
        included=frozenset(values["fields.whitelist"]),
        excluded=frozenset(values["field.exclude.list"] or ()),
        source_names=debezium,
        creates=values["auto.create"],
        evolves=values["auto.evolve"],
        widens=values["auto.evolve.widen"],
        replaces_nulls=values["replace.null.with.default"],
        zone=values["db.timezone"],
        timestamp_fields=frozenset(values["timestamp.fields.list"]),
        timestamp_nanos=values["timestamp.precision.mode"] == "nanoseconds",
        string_column=values["string.output.value.column.name"],
        quotes=values["quote.sql.identifiers"] == "always",
        offsets_table=_offsets_table(config, values),
        offsets_wanted="offsets.table" in config,
        reduces=bool(values["use.reduction.buffer"]),
        max_retries=values["max.retries"],
        tolerates=config.get("errors.tolerance", "none").strip().lower() == "all",
    )


def _offsets_table(config: Mapping[str, str], values: Mapping[str, Any]) -> str | None:
    """The offsets table; None for at least once, also with a retry topic, whose records come after later ones."""
    if "offsets.table" not in config and config.get(RETRY_TOPIC, "").strip():
        return None
    return values["offsets.table"].strip() or None


def _mapped(entries: list[str]) -> dict[str, str]:
    pairs = (entry.partition(":") for entry in entries)
    return {topic.strip(): table.strip() for topic, _, table in pairs}
