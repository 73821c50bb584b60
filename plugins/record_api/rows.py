"""The rows of a source's batches, made of its records."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.plugins.errors import DataError
from headrace.plugins.record_api.columns import Side
from headrace.plugins.record_api.packing import NOTHING, Misfit, Packed
from headrace.plugins.record_api.record import Record
from headrace.plugins.records import AS_READ
from headrace.plugins.schema import SchemaType

OFFSET: Final = pa.struct([("json", pa.string())])
HEADERS_ARROW: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ROW_BYTES: Final = 500
"""About what Python needs for a row beside its key and value."""


class Row(NamedTuple):
    """A record ready for its batch."""

    topic: str | None
    partition: int | None
    timestamp: int | None
    headers: Sequence[tuple[str, bytes | None]] | None
    key: Packed
    value: Packed
    offset: str | None
    """The JSON text of the offset to store once it is sent: its own, or the last one before."""
    failure: str | None = None
    """The reason that it cannot be carried."""
    as_read: str | None = None
    """The value that could not be carried, as text."""

    @property
    def data(self) -> int:
        """About how many bytes it has."""
        return self.key.size + self.value.size + 64

    @property
    def memory(self) -> int:
        """About how many bytes Python needs for it."""
        return self.key.size + self.value.size + _ROW_BYTES


class Rows:
    """Makes rows of a source's records, and batches of the rows."""

    def __init__(self, keys: Any, values: Any, topic: str | None) -> None:
        """`keys`, `values`: the schemas declared, or None; `topic` is that of records without one."""
        self.keys, self._pack_key = Side.of(keys)
        self.values, self._pack_value = Side.of(values)
        self._topic = topic
        self.type = self._type()

    def row(self, record: Record, offset: str | None) -> Row:
        """Make a record ready. Errors: TypeError, ValueError for what is no matter of its data."""
        topic = record.topic or self._topic
        if not isinstance(topic, str):
            raise ValueError(
                f"poll yielded a record for the topic {topic!r}: set Record(…, topic=…), or declare Setting('topic')"
            )
        side = "key"
        try:
            key = self._pack_key(record.key)
            side = "value"
            value = self._pack_value(record.value)
            side = "record"
            own = own_parts(record)
        except DataError as error:
            return Row(
                topic, None, None, None, NOTHING, NOTHING, offset, _told(topic, side, error), _text(record.value)
            )
        return Row(topic, *own, key, value, offset)

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """Return these rows as a reader yields them; what does not fit is null, and told of in `failure`."""
        keys, bad_keys = self.keys.columns([row.key for row in rows])
        values, bad_values = self.values.columns([row.value for row in rows])
        failures = [row.failure for row in rows]
        shown = [row.as_read for row in rows]
        for side, faults in (("key", bad_keys), ("value", bad_values)):
            for index, why in faults.items():
                failures[index] = _told(rows[index].topic, side, why)
                shown[index] = self._shown(rows[index].value)
        columns = [
            pa.array([row.topic for row in rows], pa.string()),
            pa.array([row.partition for row in rows], pa.int32()),
            pa.array([row.timestamp for row in rows], pa.int64()),
            pa.array([row.headers for row in rows], HEADERS_ARROW),
            *keys,
            *values,
            pa.array(failures, pa.string()),
            pa.array(shown, pa.string()),
            pa.StructArray.from_arrays([pa.array([row.offset for row in rows], pa.string())], fields=list(OFFSET)),
        ]
        return pa.RecordBatch.from_arrays(columns, names=[*self.type.names, "source_offset"])

    def _shown(self, value: Packed) -> str:
        schema = None if value.schema is None else self.values.schemas[value.schema]
        if schema is not None and schema.type is SchemaType.STRUCT:
            return _text({field.name: one for field, one in zip(schema.fields, value.value, strict=True)})
        return _text(value.value)

    def _type(self) -> pa.Schema:
        row = [("topic", pa.string()), ("partition", pa.int32()), ("timestamp", pa.int64()), ("headers", HEADERS_ARROW)]
        for name, side in (("key", self.keys), ("value", self.values)):
            row.append((f"{name}_schema", pa.int32()))
            row += [(f"{name}_{number}", of) for number, of in enumerate(side.types)]
        return pa.schema([*row, ("failure", pa.string()), (AS_READ, pa.string())])


def own_parts(record: Record) -> tuple[int | None, int | None, list[tuple[str, bytes | None]] | None]:
    """Return partition, timestamp and headers of a record. Errors: Misfit."""
    return (
        None if record.partition is None else _partition(record.partition),
        None if record.timestamp is None else _milliseconds(record.timestamp),
        None if not record.headers else _headers(record.headers),
    )


def _told(topic: str | None, side: str, why: object) -> str:
    return f"the {side} for the topic {topic} cannot be carried: {why}"


def _text(value: Any) -> str:
    """Return a value as a dead letter shows it."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return repr(value).encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    is_object = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return vars(value) if is_object and hasattr(value, "__dict__") else str(value)


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [_header(name, value) for name, value in pairs]


def _header(name: Any, value: Any) -> tuple[str, bytes | None]:
    try:
        if isinstance(name, str) and name.encode() is not None:
            if value is None or isinstance(value, bytes):
                return name, value
            if isinstance(value, str):
                return name, value.encode()
    except UnicodeEncodeError as error:
        raise Misfit(f"half a surrogate pair at {error.start}, which UTF-8 cannot hold", ("headers",)) from error
    raise Misfit(f"the header {name!r:.60} is {value!r:.60}: a name is a text, a value a text, bytes or None")


def _milliseconds(moment: Any) -> int:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise Misfit(f"{moment} has no time zone; make it datetime.now(UTC)", ("timestamp",))
        moment = int(moment.timestamp() * 1000)
    if not isinstance(moment, int) or isinstance(moment, bool) or not 0 <= moment < 2**63:
        raise Misfit(f"{moment!r:.60} is no number of ms since 1970, and no datetime after that", ("timestamp",))
    return moment


def _partition(partition: Any) -> int:
    if not isinstance(partition, int) or isinstance(partition, bool) or not 0 <= partition < 2**31:
        raise Misfit(f"{partition!r:.60} is no number of a partition", ("partition",))
    return partition
