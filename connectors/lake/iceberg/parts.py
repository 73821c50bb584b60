"""Notes that a writer of files leaves to its task's commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from headrace.plugins.offsets import TopicPartition

ALL_PARTITIONS: Final = -1
"""The spec of deletes in all partitions of a table that has no unpartitioned spec yet: the commit adds one."""


class Content(StrEnum):
    """Kinds of files."""

    DATA = "data"
    EQUALITY_DELETES = "equality-deletes"


@dataclass(frozen=True)
class WrittenFile:
    """A whole Parquet file on this machine's local disk, which no table has yet."""

    local: str
    content: Content
    records: int
    spec_id: int
    """The partition spec, or `ALL_PARTITIONS`."""
    partition: tuple[Any, ...] = ()
    """A value for each field of the spec, as Iceberg's JSON of single values (dates as text, binary as hex)."""
    equality_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class TablePart:
    """The files that are committed together to one table; its deletes do not touch its own data files."""

    table: str
    uuid: str
    """The table's UUID at the time of writing: another table of that name gets none of these files."""
    files: tuple[WrittenFile, ...]


@dataclass(frozen=True)
class LakePart:
    """A writer's answer: what it wrote of the offsets of each partition."""

    tables: tuple[TablePart, ...]
    done: Mapping[TopicPartition, tuple[int, int]]
    """By partition: the first and last offset that these files hold, with those of records that are in no table."""
    held: Mapping[TopicPartition, int]
    """By partition: the first offset that is held for a later commit."""


@dataclass(frozen=True)
class TableCommit:
    """The change of one table.

    Each of `parts` becomes a snapshot of its own if any part has deletes, all in one step; else all become one.
    """

    table: str
    parts: tuple[TablePart, ...]
    begins: Mapping[TopicPartition, int | None]
    """The marks that the table must still have; None: no mark."""
    positions: Mapping[TopicPartition, int]
    """The marks that it gets."""
