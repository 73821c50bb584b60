"""The settings of the Iceberg sink, by the names and defaults of Apache's and Tabular's connectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Setting, Settings, Type
from headrace.config.validators import OrNull, Range

OF_TABLE: Final = "iceberg.table."
CREATE_PROPERTIES: Final = "iceberg.tables.auto-create-props."
WRITE_PROPERTIES: Final = "iceberg.tables.write-props."
UNDECLARED: Final = (OF_TABLE, CREATE_PROPERTIES, WRITE_PROPERTIES, "iceberg.kafka.")
"""Prefixes of settings that name no fixed key."""
UPSERTS: Final = "iceberg.tables.upsert-mode-enabled"
CDC_FIELD: Final = "iceberg.tables.cdc-field"
TABLES: Final = "iceberg.tables"
DYNAMIC: Final = "iceberg.tables.dynamic-enabled"
ROUTE_FIELD: Final = "iceberg.tables.route-field"

ROUTE_REGEX: Final = "route-regex"
ID_COLUMNS: Final = "id-columns"
PARTITION_BY: Final = "partition-by"
COMMIT_BRANCH: Final = "commit-branch"
TABLE_SETTINGS: Final = (ROUTE_REGEX, ID_COLUMNS, PARTITION_BY, COMMIT_BRANCH)

_TABLES: Final = SettingGroup("Tables")
_SCHEMA: Final = SettingGroup("Creation and evolution")
_CHANGES: Final = SettingGroup("Row changes")
_COMMITS: Final = SettingGroup("Commits")
_IDLE: Final = SettingGroup("Without effect")


def _flag(group: SettingGroup, name: str, title: str, text: str) -> Setting:
    return group(name, Type.BOOLEAN, False, MEDIUM, SHORT, title, text)


def _text(group: SettingGroup, name: str, title: str, text: str) -> Setting:
    return group(name, Type.STRING, None, MEDIUM, MID, title, text)


def _idle(name: str, type_: Type, default: Any, why: str = "there is no control topic") -> Setting:
    return _IDLE(name, type_, default, LOW, MID, "", f"Accepted for configs of Apache's connector: {why}.")


SETTINGS: Final = Settings(
    _TABLES(
        TABLES,
        Type.LIST,
        [],
        HIGH,
        LONG,
        "Tables",
        "The tables, such as db.events. Without iceberg.tables.route-field each record goes to all of them.",
    ),
    _flag(
        _TABLES,
        DYNAMIC,
        "Dynamic Tables",
        "True: each record names its table, in lower case, by iceberg.tables.route-field.",
    ),
    _text(
        _TABLES,
        ROUTE_FIELD,
        "Route Field",
        "The field of the value, by dots, that chooses a record's table: by iceberg.table.T.route-regex, or by itself.",
    ),
    _text(
        _TABLES,
        "iceberg.tables.default-commit-branch",
        "Default Branch",
        "The branch to commit to, for tables without iceberg.table.T.commit-branch; main without both.",
    ),
    _text(
        _TABLES,
        "iceberg.tables.default-id-columns",
        "Default Id Columns",
        "The columns of the key, with commas, for tables without iceberg.table.T.id-columns.",
    ),
    _text(
        _TABLES,
        "iceberg.tables.default-partition-by",
        "Default Partitions",
        "The partitions of new tables without iceberg.table.T.partition-by: columns, year(c), month(c), day(c), "
        "hour(c), bucket(c, N) and truncate(c, W), with commas.",
    ),
    _flag(
        _SCHEMA,
        "iceberg.tables.auto-create-enabled",
        "Create Tables",
        "True: a missing table is made, by the first record's schema. False: a missing table fails the task.",
    ),
    _flag(
        _SCHEMA,
        "iceberg.tables.evolve-schema-enabled",
        "Evolve Schemas",
        "True: a table gets columns for new fields, wider types, and optional columns. False: new fields are left out.",
    ),
    _flag(_SCHEMA, "iceberg.tables.schema-force-optional", "Force Optional", "True: all new columns are optional."),
    _flag(
        _SCHEMA,
        "iceberg.tables.schema-case-insensitive",
        "Ignore Case",
        "True: fields find their columns whatever the case of their names.",
    ),
    _flag(
        _CHANGES,
        UPSERTS,
        "Upserts",
        "True: a record replaces the row of its key (id-columns), and a null value or a Debezium delete removes it.",
    ),
    _text(
        _CHANGES,
        CDC_FIELD,
        "Change Field",
        "The field of the value, by dots, whose first letter is the change: D deletes the row of the key, all others "
        "replace it.",
    ),
    _COMMITS(
        "iceberg.control.commit.interval-ms",
        Type.INT,
        300_000,
        MEDIUM,
        SHORT,
        "Commit Interval (ms)",
        "The time from a record to the commit that has it, in ms. A backlog that is read by Spark jobs is committed "
        "after each job.",
        Range(0),
    ),
    _COMMITS(
        "iceberg.control.commit.threads",
        Type.INT,
        None,
        MEDIUM,
        SHORT,
        "Commit Threads",
        "The most tables that a task commits at the same time; without it twice the number of cores.",
        OrNull(Range(1)),
    ),
    _idle("iceberg.control.topic", Type.STRING, "control-iceberg"),
    _idle("iceberg.control.group-id-prefix", Type.STRING, "cg-control-"),
    _idle("iceberg.control.group-id", Type.STRING, None),
    _idle("iceberg.control.commit.timeout-ms", Type.INT, 30_000, "no task waits for another"),
    _idle("iceberg.control.commit.max-consecutive-failures", Type.INT, 1, "a refused commit fails the task"),
    _idle("iceberg.coordinator.transactional.prefix", Type.STRING, "", "there is no coordinator"),
    _idle("iceberg.coordinator-executor-keep-alive-timeout-ms", Type.LONG, 120_000, "there is no coordinator"),
    _idle("iceberg.connect.group-id", Type.STRING, None, "offsets are in the tables"),
)


@dataclass(frozen=True)
class SinkOptions:
    """The settings of a sink, parsed; picklable."""

    connector: str
    values: Mapping[str, Any]
    of_tables: Mapping[str, Mapping[str, str]]
    """The settings `iceberg.table.T.*`, by T and the rest of the key."""
    create_properties: Mapping[str, str]
    write_properties: Mapping[str, str]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are named; none if records name them."""
        return () if self.dynamic else tuple(dict.fromkeys(self.values[TABLES]))

    @property
    def dynamic(self) -> bool:
        """True if records name their tables."""
        return bool(self.values[DYNAMIC])

    @cached_property
    def route(self) -> tuple[str, ...]:
        """The path of the field that chooses tables; empty: there is none."""
        return _path(self.values[ROUTE_FIELD])

    @cached_property
    def cdc_field(self) -> tuple[str, ...]:
        """The path of the field with the change; empty: there is none."""
        return _path(self.values[CDC_FIELD])

    @property
    def upserts(self) -> bool:
        """True if records replace and delete rows by their keys."""
        return bool(self.values[UPSERTS] or self.cdc_field)

    @property
    def creates(self) -> bool:
        """True if missing tables are made."""
        return bool(self.values["iceberg.tables.auto-create-enabled"])

    @property
    def evolves(self) -> bool:
        """True if tables are changed to hold new fields."""
        return bool(self.values["iceberg.tables.evolve-schema-enabled"])

    @property
    def forces_optional(self) -> bool:
        """True if all new columns are optional."""
        return bool(self.values["iceberg.tables.schema-force-optional"])

    @property
    def ignores_case(self) -> bool:
        """True if the case of names does not matter."""
        return bool(self.values["iceberg.tables.schema-case-insensitive"])

    @property
    def interval_s(self) -> float:
        """The time from a record to its commit."""
        return float(self.values["iceberg.control.commit.interval-ms"]) / 1000

    def branch(self, table: str) -> str:
        """The branch of this table."""
        return self._of(table, COMMIT_BRANCH, "iceberg.tables.default-commit-branch") or "main"

    def id_columns(self, table: str) -> tuple[str, ...]:
        """The columns of the key by the config; empty: the table's identifier fields."""
        return tuple(split_terms(self._of(table, ID_COLUMNS, "iceberg.tables.default-id-columns")))

    def partition_by(self, table: str) -> tuple[str, ...]:
        """The terms of the partitions of this table, if it is made."""
        return tuple(split_terms(self._of(table, PARTITION_BY, "iceberg.tables.default-partition-by")))

    def route_regex(self, table: str) -> str | None:
        """The regular expression for routes to this table."""
        return self.of_tables.get(table, {}).get(ROUTE_REGEX)

    def _of(self, table: str, key: str, default: str) -> str:
        return self.of_tables.get(table, {}).get(key) or self.values[default] or ""


def sink_options(config: Mapping[str, str]) -> SinkOptions:
    """Parse the config. Errors: ConfigError."""
    of_tables: dict[str, dict[str, str]] = {}
    for table, key, value in table_settings(config):
        of_tables.setdefault(table, {})[key] = value
    return SinkOptions(
        connector=config.get("name", "iceberg-sink"),
        values=SETTINGS.parse(config),
        of_tables=of_tables,
        create_properties=_prefixed(config, CREATE_PROPERTIES),
        write_properties=_prefixed(config, WRITE_PROPERTIES),
    )


def table_settings(config: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield table, key and value of each setting of one table; a table's name may have dots, a key has none."""
    for name, value in config.items():
        if name.startswith(OF_TABLE):
            table, _, key = name.removeprefix(OF_TABLE).rpartition(".")
            yield table, key, value


def split_terms(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    return [term.strip() for term in re.split(r",(?![^()]*\))", text) if term.strip()]


def _path(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(".")) if text else ()


def _prefixed(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
