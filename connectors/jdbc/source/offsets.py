"""A source's partitions and offsets, byte for byte as Confluent's connector stores them, so that either takes over.

| | |
|---|---|
| partition of a table | `{"protocol": "1", "table": "schema.table"}`; V0, only read: `{"table": "table"}` |
| partition of a query | `{"query": "query"}` |
| offset | `{"incrementing": 5}`, `{"timestamp": <ms>, "timestamp_nanos": <of the second>}`, all three, or none (bulk) |

An offset's timestamp is an instant; a position's is by the clock of its column: `db.timezone` if it has no zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.source.windows import LEAST_MILLIS, MOST_MILLIS, Mode, Position
from headrace.plugins.arrow_types import struct_of

TABLE: Final = "table"
QUERY: Final = "query"
PROTOCOL: Final = "protocol"
INCREMENTING: Final = "incrementing"
TIMESTAMP: Final = "timestamp"
NANOS: Final = "timestamp_nanos"
QUERY_PARTITION: Final = {QUERY: QUERY}

_MEMBERS: Final = {
    Mode.BULK: (INCREMENTING,),  # there are no offsets, but their type must have a member
    Mode.INCREMENTING: (INCREMENTING,),
    Mode.TIMESTAMP: (TIMESTAMP, NANOS),
    Mode.TIMESTAMP_INCREMENTING: (TIMESTAMP, NANOS, INCREMENTING),
}
_EPOCH: Final = datetime(1970, 1, 1)
_SECOND: Final = 1_000_000
_QUARTER: Final = 900 * _SECOND


class OffsetError(Exception):
    """An offset that a source of this mode cannot continue from."""


def partitions_of(table: TableId) -> tuple[dict[str, str], dict[str, str]]:
    """The partitions of a table's offset: the present form, and that of old versions."""
    return {PROTOCOL: "1", TABLE: str(table)}, {TABLE: table.table}


def offset_type(mode: Mode) -> pa.StructType:
    """The type of this mode's offsets."""
    return pa.struct([pa.field(name, pa.int64()) for name in _MEMBERS[mode]])


def instant_of(micros: int, zone: tzinfo | None) -> int:
    """The instant at which a clock of this zone shows `micros`; None: UTC. Units: microseconds."""
    if zone is None:
        return micros
    shown = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=zone)
    return (shown.astimezone(UTC) - _EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)


def shown_at(instant: int, zone: tzinfo | None) -> int:
    """The time that a clock of this zone shows at an instant. Units: microseconds."""
    if zone is None:
        return instant
    shown = (_EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=instant)).astimezone(zone).replace(tzinfo=None)
    return (shown - _EPOCH) // timedelta(microseconds=1)


def least_shown(instant: int, zone: tzinfo | None) -> int:
    """The least time that a clock of this zone shows at this instant or later. Units: microseconds.

    A clock that is set back shows an hour twice: in the first of the two it counts as set back already.
    """
    if zone is None:
        return instant
    shown = (_EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=instant)).astimezone(zone)
    ahead = [at.utcoffset() or timedelta() for at in (shown, shown.replace(fold=1))]
    return instant + min(ahead) // timedelta(microseconds=1)


def position_of(offset: Mapping[str, Any] | None, mode: Mode, zone: tzinfo | None) -> Position | None:
    """The position of an offset in this mode; None if it has none. `zone` as in `instant_of`."""
    if offset is None or mode is Mode.BULK:
        return None
    number = offset.get(INCREMENTING)
    millis = offset.get(TIMESTAMP)
    micros = None
    if millis is not None:
        nanos = offset.get(NANOS)
        below = (int(millis) % 1000) * 1000 if nanos is None else int(nanos) // 1000
        micros = shown_at(int(millis) // 1000 * _SECOND + below, zone)
    found = Position(micros if mode.times else None, None if number is None or not mode.counts else int(number))
    return None if found == Position() else found


def offset_of(position: Position, mode: Mode, zone: tzinfo | None) -> dict[str, Any]:
    """The offset of a position, in the stored form."""
    values: dict[str, Any] = {INCREMENTING: position.id}
    if position.micros is not None:
        instant = instant_of(position.micros, zone)
        values |= {TIMESTAMP: instant // 1000, NANOS: instant % _SECOND * 1000}
    return {name: values[name] for name in _MEMBERS[mode] if values.get(name) is not None}


def arrow_offsets(mode: Mode, micros: pa.Array | None, ids: pa.Array | None, zone: tzinfo | None) -> pa.StructArray:
    """The offsets of rows with these positions; nulls, which have no order, stay null."""
    columns: dict[str, pa.Array] = {}
    if micros is not None:
        shown = micros.fill_null(0).to_numpy()
        instants, unknown = shown + _shifts(shown, zone), micros.is_null().to_numpy(zero_copy_only=False)
        columns[TIMESTAMP] = pa.array(instants // 1000, mask=unknown)
        columns[NANOS] = pa.array(instants % _SECOND * 1000, mask=unknown)
    if ids is not None:
        columns[INCREMENTING] = ids
    return pa.StructArray.from_arrays([columns[name] for name in _MEMBERS[mode]], fields=list(offset_type(mode)))


def no_offsets(mode: Mode, rows: int) -> pa.Array:
    """A column of nulls, for rows without offsets."""
    return pa.nulls(rows, offset_type(mode))


def same_offsets(mode: Mode, offset: Mapping[str, int], rows: int) -> pa.Array:
    """The same offset for all rows."""
    return pa.repeat(pa.scalar(dict(offset), offset_type(mode)), rows)


def spark_offsets(mode: Mode, micros: Column, ids: Column, zone: str | None) -> Column:
    """`arrow_offsets` as an expression; `zone` is the zone's name."""
    if mode is Mode.BULK:
        return F.lit(None).cast(struct_of(pa.schema(list(offset_type(mode)))))
    instant = micros if zone is None else F.unix_micros(F.to_utc_timestamp(F.timestamp_micros(micros), zone))
    values = {
        TIMESTAMP: F.unix_millis(F.timestamp_micros(instant)),
        NANOS: F.pmod(instant, F.lit(_SECOND)) * 1000,
        INCREMENTING: ids,
    }
    return F.struct(*(values[name].cast("long").alias(name) for name in _MEMBERS[mode]))


def check_offsets(body: Mapping[str, Any], mode: Mode) -> bool:
    """Checks offsets that an operator sets, given as in the body of `PATCH /connectors/{name}/offsets`; returns True.

    Errors: OffsetError that tells what an offset of this mode has.
    """
    for item in body.get("offsets") or ():
        _check_partition(item.get("partition"))
        if item.get("offset") is not None:
            _check_offset(item["offset"], mode)
    return True


def _check_partition(partition: Any) -> None:
    known = isinstance(partition, Mapping) and all(isinstance(value, str) for value in partition.values())
    if not known or partition.keys() not in ({QUERY}, {TABLE}, {TABLE, PROTOCOL}):
        raise OffsetError(
            'A partition of a JDBC source is {"protocol": "1", "table": "<schema>.<table>"} or {"query": "query"}, '
            f"not {partition!r}"
        )


def _check_offset(offset: Mapping[str, Any], mode: Mode) -> None:
    if mode is Mode.BULK:
        raise OffsetError("A JDBC source of mode bulk has no offsets: it reads each table as a whole every time")
    wanted = {INCREMENTING} if mode is Mode.INCREMENTING else {TIMESTAMP}
    allowed = set(_MEMBERS[mode])
    if not wanted <= offset.keys() <= allowed:
        members = ", ".join(name for name in _MEMBERS[mode])
        raise OffsetError(f"An offset of mode {mode} has the members {members}, not {', '.join(offset) or 'none'}")
    for name, value in offset.items():
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
            raise OffsetError(f"The value for the '{name}' key in the offset is expected to be a Long value")
    if not LEAST_MILLIS <= offset.get(TIMESTAMP, 0) <= MOST_MILLIS:
        raise OffsetError(
            f"The value for the '{TIMESTAMP}' key in the offset is in milliseconds, of the years 1 to 9998"
        )
    if not 0 <= offset.get(NANOS, 0) < 1_000_000_000:
        raise OffsetError(f"The value for the '{NANOS}' key in the offset is the fraction of a second in nanoseconds")


def _shifts(shown: npt.NDArray[np.int64], zone: tzinfo | None) -> npt.NDArray[np.int64]:
    """The differences from clock times of this zone to instants. Clocks are set only at quarters of an hour."""
    if zone is None or not len(shown):
        return np.zeros(len(shown), np.int64)
    quarters, of_row = np.unique(shown // _QUARTER, return_inverse=True)
    shifts = [instant_of(at, zone) - at for at in (quarters * _QUARTER).tolist()]
    return np.array(shifts, np.int64)[of_row]
