"""Everything that a process needs to write a connector's files; picklable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import time_ns

from headrace.connectors.hdfs.partitioners.partitioner import Partitioner
from headrace.connectors.hdfs.sink.names import Names
from headrace.connectors.hdfs.sink.rotation import Rules
from headrace.connectors.hdfs.sink.side_files import SideFiles
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Schema


def now_ms() -> int:
    """The wall clock; units: ms since 1970."""
    return time_ns() // 1_000_000


@dataclass(frozen=True)
class FileSpec:
    """The rules that turn records into files of a store."""

    store: Store
    format: Format
    partitioner: Partitioner
    names: Names
    rules: Rules
    compatibility: str
    """`NONE`, `BACKWARD`, `FORWARD` or `FULL`."""
    tolerates: bool
    """True if records that cannot be written are skipped."""
    ignores_nulls: bool
    layouts: list[Schema | None] = field(default_factory=list)
    """The value schemas by number, as in the column `layout`; grows as schemas are met."""
    beside: SideFiles = field(default_factory=SideFiles)
    clock: Callable[[], int] = now_ms


@dataclass(frozen=True)
class Begin:
    """The beginning of a partition's files."""

    offset: int | None
    """Rows before it are in files already; None: unknown."""
    schema: Schema | None = None
    """The schema of the newest file, if schemas have to be compatible."""
    is_new: bool = True
    """True if there is no file yet, so that any schema will do."""


Begins = Mapping[TopicPartition, Begin]
