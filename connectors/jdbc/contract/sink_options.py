"""A sink's settings as its code reads them, whichever connector's names they were given by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class InsertMode(StrEnum):
    """The statement for a record that has a value."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


class KeyMode(StrEnum):
    """Where the columns of the primary key come from."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


@dataclass(frozen=True)
class SinkOptions:
    """The meaning of a sink's settings."""

    connector: str = "jdbc-sink"
    insert_mode: InsertMode = InsertMode.INSERT
    key_mode: KeyMode = KeyMode.NONE
    key_fields: tuple[str, ...] = ()
    """Empty: all fields of the key; of `kafka` its three names."""
    deletes: bool = False
    passes_deletes: bool = False
    """Whether delete records are passed over where rows are not deleted; else they fail."""
    truncates: bool = False
    table_format: str = "${topic}"
    """`${topic}` and, of change events, `${source.<field>}` stand in it."""
    dots_to_underscores: bool = False
    """Whether a topic's dots become underscores, so that they separate no schema from its table."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Topics whose table is named here."""
    normalize_table: bool = False
    """Whether each character of a topic but ASCII letters, digits and underscores becomes an underscore."""
    included: frozenset[str] = frozenset()
    """The fields of values that are written besides those of the key; empty: all."""
    excluded: frozenset[str] = frozenset()
    source_names: bool = False
    """Whether a field's column has the name of the column that its values come from, where Debezium passes that on."""
    creates: bool = False
    evolves: bool = False
    widens: bool = False
    replaces_nulls: bool = True
    """Whether a null becomes its field's default."""
    zone: str = "UTC"
    """`db.timezone`: the zone whose clock time columns without a time zone hold."""
    timestamp_fields: frozenset[str] = frozenset()
    """Fields of INT64 or STRING that are timestamps."""
    timestamp_nanos: bool = False
    """Whether those numbers count nanoseconds; else microseconds."""
    string_column: str = "record_value"
    """For values that are just a text."""
    quotes: bool = True
    offsets_table: str | None = None
    """The table that stores offsets with the rows: exactly once; None: at least once."""
    offsets_wanted: bool = True
    """Whether the config names that table; else a sink that may not create one goes on without."""
    reduces: bool = False
    """Whether of a batch's inserts of one key only the last is written, as of its updates."""
    max_retries: int | None = None
    """How often in a row a write may fail with a retriable error before the task fails; None: without limit."""
    tolerates: bool = False
    """Whether failing records are left out (`errors.tolerance`)."""


KAFKA_KEY: tuple[str, str, str] = ("__connect_topic", "__connect_partition", "__connect_offset")
"""The columns of `pk.mode=kafka`."""
