"""Everything that a process needs to write a connector's files; picklable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import time_ns

from headrace.connectors.hdfs.formats.format import Format
from headrace.connectors.hdfs.partitioners.partitioner import Partitioner
from headrace.connectors.hdfs.sink.names import Names
from headrace.connectors.hdfs.sink.rotation import Rules
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Schema


def now_ms() -> int:
    """The wall clock; units: ms since 1970."""
    return time_ns() // 1_000_000


@dataclass(frozen=True)
class FileSpec:
    """How records become files, and where these go."""

    store: Store
    format: Format
    partitioner: Partitioner
    names: Names
    rules: Rules
    compatibility: str
    """`NONE`, `BACKWARD`, `FORWARD` or `FULL`."""
    tolerates: bool
    """Whether records that cannot be written are left out."""
    ignores_nulls: bool
    layouts: list[Schema | None] = field(default_factory=list)
    """The value schemas by the number that the column `layout` has; it grows as schemas are met."""
    clock: Callable[[], int] = now_ms


@dataclass(frozen=True)
class Begin:
    """Where a partition's files begin."""

    offset: int | None
    """Rows before it are in files already; None: none are known to be."""
    schema: Schema | None = None
    """Of the newest file, where schemas have to be compatible."""
    is_new: bool = True
    """Whether there is no file yet, so that any schema will do."""


Begins = Mapping[TopicPartition, Begin]
