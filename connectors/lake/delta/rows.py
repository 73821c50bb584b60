"""Views of a writer's rows by partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.delta.held import Reached
from headrace.plugins.offsets import TopicPartition

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
_ORIGIN: Final = ("origin_topic", "origin_partition")


def flags(column: pa.BooleanArray) -> Mask:
    """Return true where the column is; null counts as false."""
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), bool)


def errors(rows: pa.RecordBatch) -> dict[int, str]:
    """Return by its place why a row cannot be written."""
    places = pc.indices_nonzero(rows["error"].is_valid()).to_pylist()
    return {place: rows["error"][place].as_py() for place in places}


def reached(rows: pa.RecordBatch) -> dict[TopicPartition, Reached]:
    """Return each partition's first and last offset."""
    found = pa.table({one: rows[one] for one in (*_ORIGIN, "offset")}).group_by(list(_ORIGIN))
    ends = found.aggregate([("offset", "min"), ("offset", "max")])
    names = (*_ORIGIN, "offset_min", "offset_max")
    return {
        TopicPartition(topic, number): Reached(first, last)
        for topic, number, first, last in zip(*(ends[name].to_pylist() for name in names), strict=True)
    }


def before(rows: pa.RecordBatch, ends: Mapping[TopicPartition, int]) -> Mask:
    """Return true for the rows below these offsets; partitions without one have none."""
    found, offsets = np.zeros(len(rows), bool), rows["offset"].to_numpy()
    for partition, end in ends.items():
        found |= _is_of(rows, partition) & (offsets < end)
    return found


def first_of(rows: pa.RecordBatch, places: list[int]) -> dict[TopicPartition, int]:
    """Return the first offset of these places, by partition."""
    some = rows.select([*_ORIGIN, "offset"]).take(pa.array(places))
    return {one: ends.first for one, ends in reached(some).items()}


def up_to(rows: pa.RecordBatch, ends: Mapping[TopicPartition, int]) -> Mask:
    """Return true for the rows below these offsets, and for all of partitions without one."""
    found = np.ones(len(rows), bool)
    for partition in ends:
        found &= ~_is_of(rows, partition)
    return found | before(rows, ends)


def by_partition(rows: pa.RecordBatch, places: Places) -> Iterator[tuple[TopicPartition, Mask]]:
    """Yield the partitions among these places, each with a mask of them."""
    some = rows.select([*_ORIGIN, "offset"]).take(pa.array(places))
    for partition in reached(some):
        yield partition, _is_of(some, partition)


def by_value(column: pa.Array, places: Places) -> Iterator[tuple[object, Places]]:
    """Yield each value among these places of the column, but null, with its places."""
    some = taken(column, places)
    for value in pc.unique(some).drop_null().to_pylist():
        yield value, places[flags(pc.equal(some, value))]


def taken(column: pa.Array, places: Places) -> pa.Array:
    """Return the column at these places, which are in order."""
    return column if len(places) == len(column) else column.take(pa.array(places))


def _is_of(rows: pa.RecordBatch, partition: TopicPartition) -> Mask:
    topic, number = partition
    return flags(pc.and_(pc.equal(rows["origin_topic"], topic), pc.equal(rows["origin_partition"], number)))
