"""The records of a batch on TRACE: their places and sizes, never their content (Invariant 6)."""

from __future__ import annotations

import logging
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.worker.logging.logs import LEVELS

_PLACE: Final = ("topic", "partition", "offset", "source_offset", "timestamp")


def trace_records(log: logging.Logger, rows: pa.RecordBatch) -> None:
    """Log the place and sizes of each of these rows if the logger is at TRACE."""
    if not log.isEnabledFor(LEVELS["TRACE"]):
        return
    names = [name for name in _PLACE if name in rows.schema.names]
    sizes = (_sizes(rows[name]) for name in ("key", "value"))
    places = (rows[name].to_pylist() for name in names)
    for key, value, *place in zip(*sizes, *places, strict=True):
        told = ", ".join(f"{name} {one}" for name, one in zip(names, place, strict=True))
        log.log(LEVELS["TRACE"], "Record of %s: key %s, value %s", told, _size(key), _size(value))


def _sizes(column: pa.Array) -> list[int | None]:
    return [None] * len(column) if pa.types.is_null(column.type) else pc.binary_length(column).to_pylist()


def _size(count: int | None) -> str:
    return "null" if count is None else f"{count} bytes"
