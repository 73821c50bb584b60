"""Rows as Spark gives them into the columns of real databases, whatever these are at the time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy.exc import OperationalError

from headrace.connectors.jdbc.contract.sink_options import InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import Cell, Operation, RowLayout
from headrace.connectors.jdbc.database import connection
from headrace.connectors.jdbc.sink import staging
from headrace.connectors.jdbc.sink.transactions import Sink
from headrace.plugins.contracts import RecordsFailed, RetriableError
from headrace.plugins.schema import DECIMAL, STRING, TIMESTAMP, Schema, SchemaType
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
    layouts = {0: RowLayout(Operation.WRITE, cells), 1: RowLayout(Operation.DELETE, cells[1:3])}
    options = SinkOptions("one", InsertMode.UPSERT, KeyMode.RECORD_VALUE, zone=zone)
    sink = Sink("one-0", database, options, layouts, {})
    sink.write(rows)
    query = "SELECT wall::text, day::text, clock::text, at, list::text, zoned[3] FROM t"
    summers = datetime(2020, 7, 2, 23, 4, 5, tzinfo=UTC)
    assert postgresql.rows(query) == [(wall, day, clock, AT, f'{{"{wall}",NULL,"{summer}"}}', summers)]
    sink.write(rows.set_column(4, "layout", pa.array([1, 1], pa.int32())))
    assert postgresql.rows("SELECT * FROM t") == []
    database.close()


@pytest.mark.parametrize("mode", [InsertMode.UPSERT, InsertMode.UPDATE])
def test_a_table_that_was_altered_by_hand_gets_values_as_they_are(postgresql: Database, mode: InsertMode) -> None:
    postgresql.execute('CREATE TABLE t (id int PRIMARY KEY, amount numeric(10,1), at date, "a\'b\\" real)')
    postgresql.execute("INSERT INTO t VALUES (1, 0, NULL, 0)")
    cells = (
        Cell("id", Schema(SchemaType.INT32), True, "id"),
        Cell("amount", Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": "3"}), False, "amount"),
        Cell("at", MOMENT, False, "at"),
        Cell("a'b\\", Schema(SchemaType.FLOAT64), False, "more"),
    )
    rows = batch(
        {
            "id": pa.array([1], pa.int32()),
            "amount": pa.array([Decimal("1.234")]),
            "at": pa.array([AT], pa.timestamp("us", "UTC")),
            "more": pa.array([0.1]),
        }
    )
    database = connection.Database.of(postgresql.settings, {})
    layouts = {0: RowLayout(Operation.WRITE, cells)}
    sink = Sink("one-0", database, SinkOptions("one", mode, KeyMode.RECORD_VALUE), layouts, {})
    query = 'SELECT amount::text, at::text, "a\'b\\"::float8 = 0.1 FROM t'
    sink.write(rows)
    sink.write(rows)
    assert postgresql.rows(query) == [("1.2", "2020-01-02", False)]
    postgresql.execute(
        'ALTER TABLE t ALTER amount TYPE numeric(10,3), ALTER at TYPE timestamp, ALTER "a\'b\\" TYPE float8'
    )
    with pytest.raises(RetriableError, match="The types of columns have changed"):
        sink.write(rows)
    sink.write(rows)
    assert postgresql.rows(query) == [("1.234", "2020-01-02 23:04:05", True)]
    database.close()


@pytest.mark.parametrize("mode", list(InsertMode))
def test_a_document_goes_as_it_is_into_a_table_that_was_altered_by_hand(postgresql: Database, mode: InsertMode) -> None:
    postgresql.execute("CREATE TABLE t (id int PRIMARY KEY, amount numeric(10,1))")
    key, amount = Cell("id", Schema(SchemaType.INT32), True, "id"), Cell("amount", STRING, False, "amount", text=True)
    database = connection.Database.of(postgresql.settings, {})
    layouts = {0: RowLayout(Operation.WRITE, (key, amount), "row")}
    sink = Sink("one-0", database, SinkOptions("one", mode, KeyMode.RECORD_VALUE), layouts, {})

    def write() -> None:
        postgresql.execute("TRUNCATE t")
        if mode is InsertMode.UPDATE:
            postgresql.execute("INSERT INTO t VALUES (1, 0)")
        sink.write(batch({"id": pa.array([1], pa.int32()), "row": pa.array(['["1","1.234"]'])}))

    write()
    postgresql.execute("ALTER TABLE t ALTER amount TYPE numeric(10,3)")
    with pytest.raises(RetriableError, match="The types of columns have changed"):
        write()
    write()
    assert postgresql.rows("SELECT amount::text FROM t") == [("1.234",)]
    database.close()


def test_nobody_alters_a_table_between_the_check_and_the_rows(
    postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.execute("CREATE TABLE t (id int PRIMARY KEY, amount numeric(10,1))")
    cells = Cell("id", Schema(SchemaType.INT32), True, "id"), Cell("amount", STRING, False, "amount")
    database = connection.Database.of(postgresql.settings, {})
    options = SinkOptions("one", InsertMode.UPSERT, KeyMode.RECORD_VALUE)
    sink = Sink("one-0", database, options, {0: RowLayout(Operation.WRITE, cells)}, {})
    rows = batch({"id": pa.array([1], pa.int32()), "amount": pa.array(["1.2"])})
    sink.write(rows)
    copy, tried = staging._copy, list[str]()

    def copied(*given: Any) -> None:  # the check has been made, and the stage is that of before
        with pytest.raises(OperationalError, match="lock timeout") as caught:
            postgresql.execute("SET lock_timeout = 100", "ALTER TABLE t ALTER amount TYPE numeric(10,3)")
        tried.append(str(caught.value))
        copy(*given)

    monkeypatch.setattr(staging, "_copy", copied)
    sink.write(rows)
    assert len(tried) == 1
    database.close()


def test_who_may_only_insert_can(postgresql: Database) -> None:
    role = "only_inserts"
    postgresql.execute(
        "CREATE TABLE t (id int, flag bit(1))",
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f"GRANT INSERT ON t TO {role}",
    )
    cells = (
        Cell("id", Schema(SchemaType.INT32), False, "id"),
        Cell("flag", Schema(SchemaType.BOOLEAN), False, "flag"),  # which goes through a stage
    )
    settings = {**postgresql.settings, "connection.user": role, "connection.password": "x"}
    database = connection.Database.of(settings, {})
    sink = Sink("one-0", database, SinkOptions("one"), {0: RowLayout(Operation.WRITE, cells)}, {})
    try:
        sink.write(batch({"id": pa.array([1], pa.int32()), "flag": pa.array([True])}))
        assert postgresql.rows("SELECT id, flag::text FROM t") == [(1, "1")]
    finally:
        database.close()
        postgresql.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.long
def test_updates_go_as_they_are_into_a_table_of_mariadbs_that_was_altered_by_hand(mariadb: Database) -> None:
    mariadb.execute("CREATE TABLE t (id int PRIMARY KEY, amount decimal(10,1))", "INSERT INTO t VALUES (1, 0)")
    key, amount = Cell("id", Schema(SchemaType.INT32), True, "id"), Cell("amount", STRING, False, "amount")
    database = connection.Database.of(mariadb.settings, {})
    layouts = {0: RowLayout(Operation.WRITE, (key, amount), "row"), 1: RowLayout(Operation.DELETE, (key,), "row")}
    sink = Sink("one-0", database, SinkOptions("one", InsertMode.UPDATE, KeyMode.RECORD_VALUE), layouts, {})
    rows = batch({"id": pa.array([1], pa.int32()), "row": pa.array(['["1","1.234"]'])})
    for kind, shown in (("decimal(10,1)", "1.2"), ("decimal(10,3)", "1.234"), ("varchar(9)", "1.234")):
        mariadb.execute(f"ALTER TABLE t MODIFY amount {kind}")
        sink.write(rows)
        assert mariadb.rows("SELECT CAST(amount AS CHAR) FROM t") == [(shown,)]
    sink.write(rows.set_column(4, "layout", pa.array([1], pa.int32())))
    assert mariadb.rows("SELECT * FROM t") == []
    database.close()


@pytest.mark.parametrize("mode", [InsertMode.UPSERT, InsertMode.UPDATE])
def test_writes_and_deletes_of_many_keys_are_one_transaction(postgresql: Database, mode: InsertMode) -> None:
    postgresql.execute("CREATE TABLE t (id int PRIMARY KEY, name text)", "INSERT INTO t VALUES (1), (2), (3), (4)")
    key, name = Cell("id", Schema(SchemaType.INT32), True, "id"), Cell("name", STRING, False, "name")
    layouts = {0: RowLayout(Operation.WRITE, (key, name)), 1: RowLayout(Operation.DELETE, (key,))}
    ops = [(0, 1, "a"), (1, 2, None), (1, 4, None), (0, 3, "b"), (0, 3, "c"), (1, 1, None), (0, 3, "d")]
    rows = batch({"id": pa.array([one[1] for one in ops], pa.int32()), "name": pa.array([one[2] for one in ops])})
    rows = rows.set_column(4, "layout", pa.array([one[0] for one in ops], pa.int32()))
    database = connection.Database.of(postgresql.settings, {})
    Sink("one-0", database, SinkOptions("one", mode, KeyMode.RECORD_KEY), layouts, {}).write(rows)
    assert postgresql.rows("SELECT id, name FROM t") == [(3, "d")]
    database.close()


@pytest.mark.soak
def test_a_row_of_mariadb_is_as_large_as_it_takes(mariadb: Database) -> None:
    mariadb.execute("CREATE TABLE t (raw LONGBLOB, name LONGTEXT)")
    cells = Cell("raw", Schema(SchemaType.BYTES), False, "raw"), Cell("name", STRING, False, "name")
    database = connection.Database.of(mariadb.settings, {})
    sink = Sink("one-0", database, SinkOptions("one"), {0: RowLayout(Operation.WRITE, cells, "row")}, {})
    (packet,) = mariadb.rows("SELECT @@max_allowed_packet")[0]
    size = packet // 5 * 4

    def rows(*names: str) -> pa.RecordBatch:
        return batch({"row": pa.array([json.dumps(["00FF", name], ensure_ascii=False) for name in names])})

    sink.write(rows("a", "x" * size, "b"))
    assert mariadb.rows("SELECT length(name), length(raw) FROM t ORDER BY 1") == [(1, 2), (1, 2), (size, 2)]
    for name in ("x" * packet, "é" * (packet // 2), '"' * (packet // 3)):  # which is escaped twice
        with pytest.raises(RecordsFailed, match="bytes in a statement, more than the"):
            sink.write(rows(name))
    database.close()
