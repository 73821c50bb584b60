"""The settings of the Delta sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.config.connector.error_handling import RETRY_TOPIC
from headrace.config.setting_group import HIGH, LONG, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, ConfigError, Problem, Settings, Type
from headrace.config.validators import OneOfIgnoringCase, Range
from headrace.connectors.lake.delta.places import path_problem, place, storage_problems

PATH: Final = "table.path"
MODE: Final = "write.mode"
IDS: Final = "id.columns"
STORAGE: Final = "delta.storage."
PROPERTIES: Final = "table.properties."
TOPIC: Final = "${topic}"

_TABLES: Final = SettingGroup("Tables")
_WRITES: Final = SettingGroup("Writes")

SETTINGS: Final = Settings(
    _TABLES(
        PATH,
        Type.STRING,
        REQUIRED,
        HIGH,
        LONG,
        "Table Path",
        "Where the table is: a path on the worker's host, or a URL such as s3://bucket/lake/${topic}. ${topic} is the "
        "record's topic after the transforms.",
    ),
    _TABLES(
        "auto.create",
        Type.BOOLEAN,
        True,
        MEDIUM,
        SHORT,
        "Create Tables",
        "If true, a missing table is made, by the first record's schema. If false, it fails the task.",
    ),
    _TABLES(
        "auto.evolve",
        Type.BOOLEAN,
        False,
        MEDIUM,
        SHORT,
        "Evolve Tables",
        "If true, a table gets columns for new fields. If false, new fields are left out.",
    ),
    _TABLES(
        "partition.by",
        Type.LIST,
        [],
        MEDIUM,
        MID,
        "Partition Columns",
        "The columns by which new tables are partitioned.",
    ),
    _WRITES(
        MODE,
        Type.STRING,
        "append",
        HIGH,
        SHORT,
        "Write Mode",
        "append: each record is a row. upsert: a record replaces the row of its id.columns, and a null value or a "
        "Debezium delete removes it.",
        OneOfIgnoringCase("append", "upsert"),
    ),
    _WRITES(IDS, Type.LIST, [], HIGH, MID, "Id Columns", "The columns of a row's key, for upsert."),
    _WRITES(
        "commit.interval.ms",
        Type.LONG,
        60_000,
        MEDIUM,
        SHORT,
        "Commit Interval (ms)",
        "The time from a record to the commit that has it, in ms; 64 MiB of records are committed earlier. A backlog "
        "that Spark jobs read is committed after each job.",
        Range(0),
    ),
)


@dataclass(frozen=True)
class DeltaOptions:
    """The parsed settings; picklable."""

    path: str
    creates: bool
    evolves: bool
    partition_by: tuple[str, ...]
    upserts: bool
    ids: tuple[str, ...]
    interval_s: float
    tolerates: bool
    """True if records that cannot be written are skipped."""
    keeps_topics: bool
    """True if a record's topic is the one that it is read from."""
    properties: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def has_topics(self) -> bool:
        """True if records of several topics have tables of their own."""
        return TOPIC in self.path

    def table(self, topic: str) -> str:
        """The table of this topic's records."""
        return self.path.replace(TOPIC, topic)

    def table_of_partition(self, topic: str) -> str | None:
        """The only table that records of this topic of Kafka go to; None if transforms may choose others."""
        return self.table(topic) if self.keeps_topics or not self.has_topics else None


def delta_options(config: Mapping[str, str]) -> DeltaOptions:
    """Parse the config. Errors: ConfigError with all problems."""
    values = SETTINGS.parse(config)
    if problems := list(_problems(config)):
        raise ConfigError(problems)
    return DeltaOptions(
        path=place(values[PATH].strip()),
        creates=values["auto.create"],
        evolves=values["auto.evolve"],
        partition_by=tuple(values["partition.by"]),
        upserts=values[MODE].lower() == "upsert",
        ids=tuple(values[IDS]),
        interval_s=values["commit.interval.ms"] / 1000,
        tolerates=config.get("errors.tolerance", "none").lower() == "all",
        keeps_topics=not config.get("transforms", "").strip(),
        properties=_below(config, PROPERTIES),
        storage=_below(config, STORAGE),
    )


def _problems(config: Mapping[str, str]) -> Iterator[Problem]:
    values = SETTINGS.parse(config)
    if not values[PATH].strip():
        yield Problem(PATH, "", "It is empty.", "Set it to a path or a URL.")
    if "${" in values[PATH].replace(TOPIC, ""):
        yield Problem(PATH, values[PATH], "Its only variable is ${topic}.", "Remove the others.")
    elif (wrong := path_problem(values[PATH].strip(), TOPIC)) is not None:
        yield Problem(PATH, values[PATH], *wrong)
    upserts = values[MODE].lower() == "upsert"
    if upserts and not values[IDS]:
        yield Problem(IDS, "", "Upserts need a row's key.", "Set it to the columns of the key.")
    if not upserts and values[IDS]:
        text = "With write.mode=append a row has no key."
        yield Problem(IDS, config.get(IDS), text, "Remove it, or set write.mode=upsert.")
    if config.get(RETRY_TOPIC, "").strip():
        text = "A record that waits in a retry topic comes after later ones, which a table's transactions cannot tell"
        yield Problem(RETRY_TOPIC, config[RETRY_TOPIC], text, "Leave it empty.")
    yield from storage_problems(STORAGE, _below(config, STORAGE))


def _below(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
