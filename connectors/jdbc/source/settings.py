"""The settings of the JDBC source: Confluent's names, Aiven's if they differ, and a few of our own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from headrace.config.name_regex import NameRegex, name_regex
from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Offer, Password, Setting, Settings, Type
from headrace.config.validators import Check, ListOf, OneOf, OneOfIgnoringCase, OrNull, Range
from headrace.config.values import invalid
from headrace.connectors.jdbc.contract.tables import TableType
from headrace.connectors.jdbc.database.settings import (
    When,
    by_other_names,
    calendar,
    connection_settings,
    database_zone,
    quoting,
)
from headrace.connectors.jdbc.source.table_filter import TableFilter
from headrace.connectors.jdbc.source.windows import MOST_MILLIS, Mode

_TIMED: Final = (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)
_COUNTED: Final = (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)
_MODES: Final = tuple(map(str, Mode))

GRANULARITIES: Final = (
    "connect_logical",
    "micros_long",
    "micros_string",
    "micros_iso_datetime_string",
    "nanos_long",
    "nanos_string",
    "nanos_iso_datetime_string",
)
_LONG_MAPPINGS: Final = ("decimal", "string")
NUMERIC_MAPPINGS: Final = ("none", "precision_only", "best_fit", "best_fit_eager_double")
SNAPSHOT_BOUNDS: Final = ("auto", "writers", "transactions", "none")
ISOLATIONS: Final = (
    "DEFAULT",
    "READ_UNCOMMITTED",
    "READ_COMMITTED",
    "REPEATABLE_READ",
    "SERIALIZABLE",
    "SQL_SERVER_SNAPSHOT",
)

_database, _mode, _connector, _others = (
    SettingGroup("Database"),
    SettingGroup("Mode"),
    SettingGroup("Connector"),
    SettingGroup("Other names"),
)


def _topic_prefix(name: str, value: Any) -> str | None:
    if value and len(value) > 249:
        return invalid(name, value, "Topic prefix must not be longer than 249 characters")
    if value and not re.fullmatch(r"[a-zA-Z0-9._-]*", value):
        return invalid(name, value, "Topic prefix must consist of letters, digits and the characters . _ -")
    return None


def _regexes(name: str, value: Any) -> str | None:
    for pattern in value or ():
        try:
            name_regex(pattern)
        except ValueError as error:
            return invalid(name, value, f"Invalid regex {pattern!r}: {error}")
    return None


_REGEXES: Final = Check(_regexes, "a comma-separated list of regular expressions")


def _table_list(name: str, display_name: str, text: str) -> Setting:
    return _database(name, Type.LIST, [], MEDIUM, LONG, display_name, text)


_DATABASE: Final = (
    *connection_settings(_database, ("table.whitelist", "table.blacklist")),
    _table_list(
        "table.whitelist",
        "Table Whitelist",
        "The tables to copy, by name or full name. Of the two ways to choose tables the older; it knows no patterns.",
    ),
    _table_list("table.blacklist", "Table Blacklist", "The tables not to copy; all others are."),
    _database(
        "table.include.list",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Table Include List",
        "Regular expressions; tables are copied whose full name (schema.table, or database.table) one matches whole.",
        _REGEXES,
    ),
    _database(
        "table.exclude.list",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Table Exclude List",
        "Regular expressions; of the included tables those are left out whose full name one matches whole.",
        _REGEXES,
    ),
    _database(
        "catalog.pattern",
        Type.STRING,
        None,
        MEDIUM,
        SHORT,
        "Catalog pattern",
        "Only tables whose catalog is like this, with % and _ as in SQL's LIKE; empty: those without one.",
    ),
    _database(
        "schema.pattern",
        Type.STRING,
        None,
        HIGH,
        SHORT,
        "Schema pattern",
        "Only tables whose schema is like this, with % and _ as in SQL's LIKE; empty: those without one.",
    ),
    _database(
        "numeric.precision.mapping",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Map Numeric Values By Precision",
        "Where numeric.mapping is not set: true stands for precision_only.",
    ),
    _database(
        "numeric.mapping",
        Type.STRING,
        None,
        LOW,
        SHORT,
        "Map Numeric Values, Integral or Decimal, By Precision and Scale",
        "What NUMERIC and DECIMAL columns become. none: Decimal. precision_only: integers where there is no fraction "
        "and at most 18 digits. best_fit: also FLOAT64 where there is one and at most 18 digits. "
        "best_fit_eager_double: FLOAT64 wherever there is a fraction.",
        OrNull(OneOfIgnoringCase(*NUMERIC_MAPPINGS)),
        recommender=Offer(NUMERIC_MAPPINGS),
    ),
    _database(
        "numeric.long.mapping",
        Type.STRING,
        "decimal",
        LOW,
        SHORT,
        "Map Long Numeric Values",
        "What NUMERIC and DECIMAL columns become that may have numbers of more than 38 digits, where numeric.mapping "
        "makes them Decimals. decimal: Decimal; a number that it cannot hold makes its row a bad record. string: text "
        "with all digits.",
        OneOfIgnoringCase(*_LONG_MAPPINGS),
        recommender=Offer(_LONG_MAPPINGS),
    ),
)

_READING: Final = (
    _mode(
        "mode",
        Type.STRING,
        "",
        HIGH,
        MID,
        "Table Loading Mode",
        "What of a table is read at each poll. bulk: all of it, each time. incrementing: rows whose id is greater than "
        "the last one read. timestamp: rows that were changed since. timestamp+incrementing: both, which finds new and "
        "changed rows.",
        OneOf("", *_MODES),
        dependents=("incrementing.column.name", "timestamp.column.name", "validate.non.null"),
        recommender=Offer(_MODES),
    ),
    _mode(
        "incrementing.column.name",
        Type.STRING,
        "",
        MEDIUM,
        MID,
        "Incrementing Column Name",
        "The column that only grows from row to row; empty: each table's own auto-increment column.",
        recommender=When("mode", _COUNTED),
    ),
    _mode(
        "timestamp.column.name",
        Type.LIST,
        [],
        MEDIUM,
        MID,
        "Timestamp Column Name",
        "The column that says when a row was changed last; of several the first that is not null counts.",
        recommender=When("mode", _TIMED),
    ),
    _mode(
        "incrementing.column.mapping",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Incrementing Column Mapping",
        "Entries regex:column for tables whose full name the expression matches, beside table.include.list.",
        recommender=When("mode", _COUNTED),
    ),
    _mode(
        "timestamp.columns.mapping",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Timestamp Columns Mapping",
        "Entries regex:[column1|column2] for tables whose full name the expression matches, beside table.include.list.",
        recommender=When("mode", _TIMED),
    ),
    _mode(
        "timestamp.initial",
        Type.LONG,
        None,
        LOW,
        SHORT,
        "Unix time value of initial timestamp",
        "Where to begin without a stored offset, in milliseconds since the epoch; -1: now, by the database's clock.",
        OrNull(Range(-1, MOST_MILLIS)),
        recommender=When("mode", _TIMED),
    ),
    _mode(
        "incrementing.initial",
        Type.LONG,
        -1,
        LOW,
        SHORT,
        "Initial incrementing value",
        "Where to begin without a stored offset: rows with greater ids are read.",
        recommender=When("mode", _COUNTED),
    ),
    _mode(
        "validate.non.null",
        Type.BOOLEAN,
        True,
        LOW,
        SHORT,
        "Validate Non Null",
        "Whether a task refuses to start on columns of its mode that may be null: such rows are never read.",
        recommender=When("mode", (*_TIMED, *_COUNTED)),
    ),
    _mode(
        "query",
        Type.STRING,
        "",
        MEDIUM,
        LONG,
        "Query",
        "A SELECT to run in place of reading tables. It is read as a table itself, so that it may join, filter, group "
        "and rename; the columns of the mode are those of its result.",
    ),
    _mode(
        "query.masked",
        Type.PASSWORD,
        "",
        MEDIUM,
        LONG,
        "Query, hidden",
        "As query, but shown nowhere.",
    ),
    _mode(
        "query.suffix",
        Type.STRING,
        "",
        LOW,
        MID,
        "Query suffix",
        "Appended to every query, such as FOR SHARE or WITH UR. A LIMIT is not needed here: batches are bounded "
        "anyway, and in timestamp mode it could part rows of equal timestamps.",
    ),
    quoting(_mode),
    _mode(
        "transaction.isolation.mode",
        Type.STRING,
        "DEFAULT",
        LOW,
        MID,
        "Transaction Isolation Mode",
        "The isolation of the transactions that read; DEFAULT: the database's own.",
        OneOfIgnoringCase(*ISOLATIONS),
        recommender=Offer(ISOLATIONS),
    ),
    _mode(
        "query.retry.attempts",
        Type.INT,
        -1,
        LOW,
        SHORT,
        "Query Retry Attempts",
        "After how many failures of a table's query in a row the task fails, where another try may help; -1: never.",
        Range(-1),
    ),
)

_WORK: Final = (
    _connector(
        "table.types",
        Type.LIST,
        ["TABLE"],
        LOW,
        MID,
        "Table Types",
        "What counts as a table.",
        ListOf(),
        recommender=Offer(tuple(map(str, TableType))),
    ),
    _connector(
        "poll.interval.ms",
        Type.INT,
        5000,
        HIGH,
        SHORT,
        "Poll Interval (ms)",
        "How long after a query of a table its next one waits.",
        Range(0),
    ),
    _connector(
        "batch.max.rows",
        Type.INT,
        1000,
        LOW,
        SHORT,
        "Max Rows Per Batch",
        "How many rows the driver fetches at a time; where it is not set, about 400 KB of them, 100 to 10,000 rows. "
        "How many make a batch the worker decides.",
        Range(1),
    ),
    _connector(
        "parallel.ranges",
        Type.INT,
        0,
        LOW,
        SHORT,
        "Parallel Ranges",
        "Into how many ranges a bulk read, or the first load, of a large table is cut to be read side by side, so that "
        "its rows come in order within a range only; 0: by Spark's cores, 1: read as one, in order. What follows the "
        "first load is in order in any case.",
        Range(0),
    ),
    _connector(
        "table.poll.interval.ms",
        Type.LONG,
        60_000,
        LOW,
        SHORT,
        "Metadata Change Monitoring Interval (ms)",
        "How often to look for new tables and tables that are gone.",
        Range(1),
    ),
    _connector(
        "table.monitoring.startup.polling.limit.ms",
        Type.LONG,
        10_000,
        LOW,
        SHORT,
        "Startup polling limit (ms)",
        "Accepted for configs of Confluent's connector, whose tasks wait so long for the first look for tables. Here "
        "they are looked for before there are tasks.",
        Range(1),
    ),
    _connector(
        "topic.prefix",
        Type.STRING,
        "",
        HIGH,
        MID,
        "Topic Prefix",
        "What comes before a table's name in the name of its topic; with a query the whole name of its topic.",
        Check(_topic_prefix, "letters, digits and . _ -, at most 249 of them"),
    ),
    _connector(
        "timestamp.delay.interval.ms",
        Type.LONG,
        0,
        HIGH,
        MID,
        "Delay Interval (ms)",
        "How old a row's timestamp must be, by the database's clock, before the row is read: the time that "
        "transactions have to commit.",
        Range(0),
    ),
    _connector(
        "timestamp.overlap.ms",
        Type.LONG,
        0,
        MEDIUM,
        MID,
        "Timestamp Overlap (ms)",
        "How far before the last row read each poll looks for rows that were committed late; those that were read are "
        "left out by their keys.",
        Range(0),
        recommender=When("mode", _TIMED),
    ),
    _connector(
        "incrementing.overlap",
        Type.LONG,
        0,
        MEDIUM,
        MID,
        "Incrementing Overlap",
        "How many ids below the last one read each poll looks for rows that were committed late; those that were read "
        "are left out.",
        Range(0),
        recommender=When("mode", (Mode.INCREMENTING,)),
    ),
    _connector(
        "snapshot.bound",
        Type.STRING,
        "auto",
        MEDIUM,
        MID,
        "Snapshot Bound",
        "Which open transactions new rows wait for, since these may yet commit rows that come before them, where the "
        "database lists them, as PostgreSQL does. writers: those that have written to the table. transactions: also "
        "those that may yet write. none: none. "
        "auto: writers in mode incrementing, transactions in modes with a timestamp.",
        OneOfIgnoringCase(*SNAPSHOT_BOUNDS),
        recommender=Offer(SNAPSHOT_BOUNDS),
    ),
    database_zone(
        _connector,
        "The time zone whose wall clock timestamps without a time zone show; those with one are instants whatever it "
        "is, and times of day stay as they are. By such a timestamp the hour that its clock shows twice in autumn is "
        "read when it shows it for the second time.",
    ),
    calendar(_connector),
    _connector(
        "timestamp.granularity",
        Type.STRING,
        "connect_logical",
        LOW,
        MID,
        "Timestamp granularity for timestamp columns",
        "What timestamps become: Connect's logical type, in milliseconds, or numbers and texts of microseconds or "
        "nanoseconds.",
        OneOfIgnoringCase(*GRANULARITIES),
        recommender=Offer(GRANULARITIES),
    ),
    _connector(
        "max.buffer.size",
        Type.INT,
        0,
        LOW,
        SHORT,
        "Maximum Buffer Size",
        "Accepted for configs of Confluent's connector, where it bounds a queue between threads. There is none here.",
        Range(0),
    ),
    _connector(
        "poll.linger.ms",
        Type.LONG,
        5000,
        LOW,
        SHORT,
        "Poll Linger (ms)",
        "Accepted for configs of Confluent's connector, where a poll waits so long for rows. None waits here.",
        Range(0),
    ),
)

_OTHER_NAMES: Final = (
    _others(
        "timestamp.initial.ms",
        Type.LONG,
        None,
        LOW,
        SHORT,
        "",
        "Aiven's name of timestamp.initial.",
        OrNull(Range(-1, MOST_MILLIS)),
    ),
    _others(
        "sql.quote.identifiers",
        Type.BOOLEAN,
        None,
        LOW,
        SHORT,
        "",
        "Aiven's name of quote.sql.identifiers: true for always, false for never.",
    ),
    _others(
        "table.names.qualify",
        Type.BOOLEAN,
        None,
        LOW,
        SHORT,
        "",
        "Accepted for configs of Aiven's connector. In statements a table's name has all parts that are known of it.",
    ),
)

SETTINGS: Final = Settings(*_DATABASE, *_READING, *_WORK, *_OTHER_NAMES)


def parse(config: Mapping[str, str]) -> dict[str, Any]:
    """The settings' values by Confluent's names; choices in lower case, an isolation in upper case.

    Errors: ConfigError with all problems.
    """
    values = SETTINGS.parse(by_other_names(config, {"timestamp.initial.ms": "timestamp.initial"}))
    if "quote.sql.identifiers" not in config and "sql.quote.identifiers" in config:
        values["quote.sql.identifiers"] = "always" if values["sql.quote.identifiers"] else "never"
    values["query"] = _without_end(values["query"])
    values["query.masked"] = Password(_without_end(values["query.masked"].value))
    mapping = values["numeric.mapping"] or ("precision_only" if values["numeric.precision.mapping"] else "none")
    values["numeric.mapping"] = mapping.lower()
    values["numeric.long.mapping"] = values["numeric.long.mapping"].lower()
    values["quote.sql.identifiers"] = values["quote.sql.identifiers"].lower()
    values["snapshot.bound"] = values["snapshot.bound"].lower()
    values["timestamp.granularity"] = values["timestamp.granularity"].lower()
    values["transaction.isolation.mode"] = values["transaction.isolation.mode"].upper()
    return values


def _without_end(query: str) -> str:
    return query.strip().rstrip(";").rstrip()


def table_filter(values: Mapping[str, Any]) -> TableFilter:
    """The filter of parsed settings."""
    return TableFilter(
        values["catalog.pattern"],
        values["schema.pattern"],
        frozenset(name.upper() for name in values["table.types"]),
        tuple(values["table.whitelist"]),
        tuple(values["table.blacklist"]),
        tuple(values["table.include.list"]),
        tuple(values["table.exclude.list"]),
    )


def column_mapping(entry: str) -> tuple[NameRegex, tuple[str, ...]]:
    """Parses an entry of a column mapping: the expression for full names of tables, and its columns.

    Errors: ValueError.
    """
    pattern, colon, columns = entry.rpartition(":")
    if columns.startswith("[") and columns.endswith("]"):
        columns = columns[1:-1]
    names = tuple(column.strip() for column in columns.split("|"))
    if not colon or not pattern or not all(names):
        raise ValueError("an expression, a colon and a column are needed")
    return name_regex(pattern), names
