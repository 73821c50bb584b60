"""Moments in columns that have no time zone, by the clock of `db.timezone`; rows as Spark gives them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.jdbc import connection
from headrace.connectors.jdbc.sink_layouts import Cell, Layout, Operation
from headrace.connectors.jdbc.sink_options import InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.sink_transactions import Sink
from headrace.plugins.schema import TIMESTAMP, Schema, SchemaType
from tests.integration.databases import Database

MOMENT = Schema(SchemaType.INT64, name=TIMESTAMP)
AT = datetime(2020, 1, 2, 23, 4, 5, tzinfo=UTC)
LIST = '{"2020-01-02 23:04:05Z",NULL,"2020-07-02 23:04:05Z"}'


def batch(values: dict[str, list[Any]]) -> pa.RecordBatch:
    count = len(next(iter(values.values())))
    return pa.record_batch(
        {
            "table": pa.array(["t"] * count),
            "origin_topic": pa.array(["t"] * count),
            "origin_partition": pa.array([0] * count, pa.int32()),
            "origin_offset": pa.array(range(count), pa.int64()),
            "layout": pa.array([0] * count, pa.int32()),
            "refused": pa.nulls(count, pa.string()),
            "shape": pa.nulls(count, pa.string()),
            **values,
        }
    )


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("Asia/Tokyo", ("2020-01-03 08:04:05", "2020-01-03", "08:04:05", "2020-07-03 08:04:05")),
        ("+02:00", ("2020-01-03 01:04:05", "2020-01-03", "01:04:05", "2020-07-03 01:04:05")),
        ("CST", ("2020-01-02 17:04:05", "2020-01-02", "17:04:05", "2020-07-02 18:04:05")),
    ],
)
def test_postgresqls_columns_of_a_clock(postgresql: Database, zone: str, shown: tuple[str, str, str, str]) -> None:
    wall, day, clock, summer = shown
    postgresql.execute(
        "CREATE TABLE t (wall timestamp(0), day date, clock time(0), at timestamptz, list timestamp[], zoned "
        "timestamptz[], PRIMARY KEY (day, clock))"
    )
    several = Schema(SchemaType.ARRAY, value_schema=MOMENT)
    cells = tuple(
        Cell(name, several if name in ("list", "zoned") else MOMENT, name in ("day", "clock"), name)
        for name in ("wall", "day", "clock", "at", "list", "zoned")
    )
    moments = pa.array([AT, AT], pa.timestamp("us", "UTC"))
    rows = batch({cell.arrow: [LIST, LIST] if cell.schema is several else moments for cell in cells})
    database = connection.Database.of(postgresql.settings, {})
    layouts = {0: Layout(Operation.WRITE, cells), 1: Layout(Operation.DELETE, cells[1:3])}
    options = SinkOptions("one", InsertMode.UPSERT, KeyMode.RECORD_VALUE, zone=zone)
    sink = Sink("one-0", database, options, layouts, {})
    sink.write(rows)
    query = "SELECT wall::text, day::text, clock::text, at, list::text, zoned[3] FROM t"
    summers = datetime(2020, 7, 2, 23, 4, 5, tzinfo=UTC)
    assert postgresql.rows(query) == [(wall, day, clock, AT, f'{{"{wall}",NULL,"{summer}"}}', summers)]
    sink.write(rows.set_column(4, "layout", pa.array([1, 1], pa.int32())))
    assert postgresql.rows("SELECT * FROM t") == []
    database.close()
