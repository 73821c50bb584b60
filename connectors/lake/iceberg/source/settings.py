"""The settings of the Iceberg source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from headrace.config.setting_group import HIGH, LONG, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Offer, Settings, Type
from headrace.config.validators import Check, ListOf, OneOf, Range
from headrace.config.values import invalid
from headrace.connectors.lake.iceberg.catalog_settings import UNDECLARED as OF_CATALOG
from headrace.connectors.lake.iceberg.catalog_settings import catalog_settings

UNDECLARED: Final = OF_CATALOG
TABLES: Final = "iceberg.tables"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
FAIL: Final = "fail"
SKIP: Final = "skip"
_TABLE: Final = "${table}"
_TOPIC: Final = re.compile(r"(?:[\w.-]|\$\{table\})+", re.ASCII)

Start = str | int | datetime
"""`EARLIEST`, `LATEST`, the id of a snapshot, or a time."""


def _start(text: str) -> Start:
    """Parse a start. Errors: ValueError."""
    if text in (EARLIEST, LATEST):
        return text
    if re.fullmatch(r"\d+", text):
        return int(text)
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _no_start(name: str, value: Any) -> str | None:
    try:
        _start(value or "")
    except ValueError:
        return invalid(name, value, "It is earliest, latest, the id of a snapshot, or a time as 2026-01-31T12:00:00Z")
    return None


def _no_topic(name: str, value: Any) -> str | None:
    if _TOPIC.fullmatch(value or ""):
        return None
    return invalid(name, value, f"A topic's name has letters, digits, . _ and -, beside {_TABLE}")


_READS: Final = SettingGroup("Table")
SETTINGS: Final = Settings(
    _READS(
        TABLES,
        Type.LIST,
        REQUIRED,
        HIGH,
        LONG,
        "Tables",
        "The tables to read, with their namespaces.",
        ListOf(empty=False),
    ),
    _READS(
        "topic",
        Type.STRING,
        _TABLE,
        HIGH,
        MID,
        "Topic",
        "The topic of the records; ${table} stands for the table's name.",
        Check(_no_topic, "a topic's name"),
    ),
    _READS(
        "start.from",
        Type.STRING,
        EARLIEST,
        HIGH,
        MID,
        "Start",
        "Where a table without stored offsets is begun. earliest: all its rows, then what is appended. latest: what is "
        "appended from now on. The id of a snapshot: what is appended after it. A time: what is appended from then on.",
        Check(_no_start, "earliest, latest, a snapshot's id or a time"),
        recommender=Offer((EARLIEST, LATEST)),
    ),
    _READS("branch", Type.STRING, "main", MEDIUM, SHORT, "Branch", "The branch of the tables to read."),
    _READS(
        "key.columns",
        Type.LIST,
        [],
        MEDIUM,
        MID,
        "Key columns",
        "The columns of the records' keys, a struct; by default the table's identifier fields, if it has any.",
        ListOf(),
    ),
    _READS(
        "on.delete",
        Type.STRING,
        FAIL,
        MEDIUM,
        SHORT,
        "On deletes",
        "What becomes of a snapshot that deletes or overwrites rows, which a topic cannot follow. fail: the task "
        "fails. skip: the snapshot is left out, with the rows that it adds; the log names it.",
        OneOf(FAIL, SKIP),
        recommender=Offer((FAIL, SKIP)),
    ),
    _READS(
        "poll.interval.ms",
        Type.LONG,
        10_000,
        MEDIUM,
        SHORT,
        "Poll interval (ms)",
        "How often the catalog is asked for new snapshots of tables that are read to their ends.",
        Range(0),
    ),
    *catalog_settings(SettingGroup("Catalog")),
)


@dataclass(frozen=True)
class SourceOptions:
    """The parsed settings, without those of the catalog."""

    tables: tuple[str, ...]
    topic: str
    start: Start
    branch: str
    key_columns: tuple[str, ...]
    skips_deletes: bool
    poll_interval_s: float

    def topic_of(self, table: str) -> str:
        """Return the topic of a table's records."""
        return self.topic.replace(_TABLE, table)


def source_options(config: Mapping[str, str]) -> SourceOptions:
    """Return the settings in a config. Errors: ConfigError."""
    parsed = SETTINGS.parse(config)
    return SourceOptions(
        tuple(dict.fromkeys(parsed[TABLES])),
        parsed["topic"],
        _start(parsed["start.from"]),
        parsed["branch"],
        tuple(parsed["key.columns"]),
        parsed["on.delete"] == SKIP,
        parsed["poll.interval.ms"] / 1000,
    )
