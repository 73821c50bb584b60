"""Tables as the rooms of Iceberg see them: picklable, without the JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.connectors.lake.iceberg.schemas import Struct
from headrace.plugins.offsets import TopicPartition


@dataclass(frozen=True)
class PartitionField:
    """A field of a partition spec."""

    source_id: int
    id: int
    name: str
    transform: str
    """Iceberg's text, such as `identity`, `bucket[16]`, `truncate[4]`, `day`, `void`."""


@dataclass(frozen=True)
class PartitionSpec:
    """The fields by which a table's files are partitioned."""

    id: int
    fields: tuple[PartitionField, ...] = ()


@dataclass(frozen=True)
class TableState:
    """A table's metadata at one moment."""

    name: str
    uuid: str
    format_version: int
    schema_id: int
    schema: Struct
    spec: PartitionSpec
    identifier: tuple[str, ...] = ()
    """The paths of its identifier fields, by dots."""
    properties: Mapping[str, str] = field(default_factory=dict)
    unpartitioned_spec: int | None = None
    """The id of a spec without fields, for deletes of all partitions; None: it has none."""
    other_specs: bool = False
    """True if it may have files of other specs than `spec`: deletes in partitions of `spec` would not touch them."""
    is_empty: bool = False
    """True if the branch has no file, so that no row of it can be deleted."""


@dataclass(frozen=True)
class TopicMarks:
    """The offsets up to which a connector's records of one topic are in a table."""

    topic: str
    id: str
    """Kafka's id of the topic; its name if the broker has no ids."""
    offsets: Mapping[int, int]
    """By partition: the offset after the last record that the table has."""


Marks = Mapping[TopicPartition, int]
"""For the topics with their present ids: the offset after the last record in the table."""
