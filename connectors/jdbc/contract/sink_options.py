"""A sink's settings as its code reads them, independent of the connector's names for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class InsertMode(StrEnum):
    """The statement for records with a value."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


class KeyMode(StrEnum):
    """The origin of the primary key's columns."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


@dataclass(frozen=True)
class SinkOptions:
    """A sink's settings."""

    connector: str = "jdbc-sink"
    insert_mode: InsertMode = InsertMode.INSERT
    key_mode: KeyMode = KeyMode.NONE
    key_fields: tuple[str, ...] = ()
    """Empty: all fields of the key; for `kafka` its three names."""
    deletes: bool = False
    passes_deletes: bool = False
    """True if delete records are skipped while `deletes` is off; else they fail."""
    truncates: bool = False
    table_format: str = "${topic}"
    """`${topic}` and, for change events, `${source.<field>}` are replaced."""
    dots_to_underscores: bool = False
    """True if a topic's dots become underscores, so that they separate no schema from its table."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Tables by topic, named outright."""
    normalize_table: bool = False
    """True if each character of a topic but ASCII letters, digits and underscores becomes an underscore."""
    included: frozenset[str] = frozenset()
    """The written fields of values, besides the key's; empty: all."""
    excluded: frozenset[str] = frozenset()
    source_names: bool = False
    """True if columns get the names of the columns that values come from, if Debezium passes those on."""
    creates: bool = False
    evolves: bool = False
    widens: bool = False
    replaces_nulls: bool = True
    """True if a null becomes its field's default."""
    zone: str = "UTC"
    """`db.timezone`: columns without a time zone hold this zone's clock."""
    timestamp_fields: frozenset[str] = frozenset()
    """Fields of INT64 or STRING that hold timestamps."""
    timestamp_nanos: bool = False
    """True if those numbers count nanoseconds; else microseconds."""
    string_column: str = "record_value"
    """The column for values that are a bare text."""
    quotes: bool = True
    offsets_table: str | None = None
    """Stores offsets with the rows: exactly once; None: at least once."""
    offsets_wanted: bool = True
    """True if the config names that table; else a sink that may not create it goes on without."""
    reduces: bool = False
    """True if a batch's inserts of one key are reduced to the last, as its updates are."""
    max_retries: int | None = None
    """The most retriable write failures in a row before the task fails; None: unlimited."""
    tolerates: bool = False
    """True if failing records are skipped (`errors.tolerance`)."""

    def writes(self, field: str) -> bool:
        """True if this field of values is written, though it is not of the key."""
        return field not in self.excluded and (not self.included or field in self.included)


KAFKA_KEY: tuple[str, str, str] = ("__connect_topic", "__connect_partition", "__connect_offset")
"""The columns of `pk.mode=kafka`."""
