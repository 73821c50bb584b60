"""Records as their author writes them into the frame that transforms, predicates and sinks get, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.plugins.arrow_types import struct_of
from headrace.plugins.record_api.columns import KINDS, Side
from headrace.plugins.record_api.packing import packed_by_kind
from headrace.plugins.record_api.record import Headers, Record
from headrace.plugins.record_api.rows import HEADERS_ARROW
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.record_api.unpacking import each_record
from headrace.plugins.records import ERROR, Records
from headrace.plugins.schema import Schema

TOPIC: Final = "t"


class Columns(NamedTuple):
    """The columns of keys or values, and their schemas: the number of each one's schema, a column for each schema."""

    arrays: Sequence[pa.Array]
    schemas: tuple[Schema | None, ...]


def columns_of(values: Sequence[Any], declared: Any = None, every: int = 1) -> Columns:
    """Return the columns of these values; with a schema declared, one of `every` so many has it."""
    schemas = KINDS if declared is None else (*KINDS, schema_of(declared))
    side = Side(schemas)
    packed = [
        packed_by_kind(value) if value is None or schemas is KINDS or row % every else side.pack(value, len(KINDS))
        for row, value in enumerate(values)
    ]
    arrays, faults = side.columns(packed)
    if faults:
        raise ValueError(f"the record at index {min(faults)} cannot be carried: {faults[min(faults)]}")
    return Columns(arrays, schemas)


def own_columns(records: Sequence[Record], first: int = 0) -> dict[str, pa.Array]:
    """Return the columns beside keys and values, with offsets from `first` on."""
    return {
        "topic": pa.array([one.topic or TOPIC for one in records], pa.string()),
        "partition": pa.array([one.partition or 0 for one in records], pa.int32()),
        "offset": pa.array(range(first, first + len(records)), pa.int64()),
        "timestamp": pa.array([one.timestamp for one in records], pa.int64()),
        "headers": pa.array([header_pairs(one.headers) or None for one in records], HEADERS_ARROW),
    }


def frame_records(session: SparkSession, records: Sequence[Record], key: Any = None, value: Any = None) -> Records:
    """Return these records of a sink; `key` and `value` are the schemas of dicts, as `schema_of` takes them."""
    own = own_columns(records)
    columns = {f"_{name}": own[name] for name in ("topic", "partition", "offset")} | own
    schemas = {}
    for side, declared, values in (
        ("key", key, [one.key for one in records]),
        ("value", value, [one.value for one in records]),
    ):
        made = columns_of(values, declared)
        schemas[side] = made.schemas
        columns[f"{side}_schema"] = made.arrays[0]
        columns |= {f"{side}_{number}": array for number, array in enumerate(made.arrays[1:])}
    table = pa.Table.from_pydict(columns)
    frame = session.createDataFrame(table, struct_of(table.schema)).coalesce(1)
    frame = frame.withColumns({"error": F.lit(None).cast(ERROR), "drop": F.lit(False)})
    return Records(frame, schemas["key"], schemas["value"])


class Became(NamedTuple):
    """A record as it is now."""

    record: Record
    error: str | None
    drop: bool


def table_of(records: Records) -> pa.Table:
    """Return all columns of a frame, in its order."""
    return records.frame.withColumn("error", F.col("error").cast(ERROR)).toArrow()


def became(records: Records) -> list[Became]:
    """Return what each record of a frame is now, in the frame's order."""
    (rows,) = table_of(records).combine_chunks().to_batches() or (None,)
    if rows is None:
        return []
    errors = [one and one["message"] for one in rows.column("error").to_pylist()]
    made = read(rows, records.keys, records.values)
    return [Became(*one) for one in zip(made, errors, rows.column("drop").to_pylist(), strict=True)]


def read(rows: pa.RecordBatch, keys: Sequence[Schema | None], values: Sequence[Schema | None]) -> list[Record]:
    """Return the records of rows with the columns of `Records`. Errors: ValueError for one that Python cannot hold."""
    made: list[Record] = []
    for one in each_record(rows, keys, values):
        if isinstance(one, str):
            raise ValueError(one)
        made.append(one)
    return made


def expected(record: Record, given: Record, offset: int) -> Record:
    """Return a record that is expected as `became` gives it; what it leaves open is as it was given."""
    return Record(
        _plain(record.value),
        _plain(record.key),
        header_pairs(record.headers),
        given.timestamp if record.timestamp is None else record.timestamp,
        record.topic or given.topic or TOPIC,
        given.partition or 0 if record.partition is None else record.partition,
        offset,
    )


def header_pairs(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers with their values as bytes."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def _plain(value: Any) -> Any:
    """Return a dataclass as the dict that stands for it."""
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
