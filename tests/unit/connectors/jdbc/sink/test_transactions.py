"""Rows as Spark gives them, in SQLite: their order, their offsets, and what is left when something fails."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
import sqlalchemy

from headrace.connectors.jdbc.contract.sink_options import InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import PASSED, Cell, Operation, RowLayout
from headrace.connectors.jdbc.database.connection import Database, DatabaseError
from headrace.connectors.jdbc.sink import transactions as sink_transactions
from headrace.connectors.jdbc.sink import writer as sink_writer
from headrace.connectors.jdbc.sink.failures import RolledBack, TableChanged
from headrace.connectors.jdbc.sink.transactions import Sink
from headrace.connectors.jdbc.sink.writer import SinkWriter
from headrace.plugins.contracts import RecordsFailed, RetriableError, TopicPartition
from headrace.plugins.schema import OPTIONAL_STRING, Schema, SchemaType

ID = Cell("id", Schema(SchemaType.INT32), True, "id")
NAME = Cell("name", OPTIONAL_STRING, False, "name")
NOTE = Cell("note", OPTIONAL_STRING, False, "note")
LAYOUTS = {
    0: RowLayout(Operation.WRITE, (ID, NAME), "row"),
    1: RowLayout(Operation.DELETE, (ID,), "row"),
    2: RowLayout(Operation.WRITE, (ID, NOTE), "row"),
    3: RowLayout(Operation.TRUNCATE),
    4: RowLayout(Operation.WRITE, (NAME,), "row"),
}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Row = tuple[int, list[Any]]
"""A layout's number, and the document."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A table `t`."""
    found = Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}"}, {})
    with found.begin() as connection:
        for statement in (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT CHECK (name <> 'bad'), note TEXT)",
            "CREATE TABLE u (name TEXT CHECK (name <> 'bad'))",
        ):
            connection.execute(sqlalchemy.text(statement))
    yield found
    found.close()


@pytest.fixture
def sink(database: Database) -> Callable[..., Sink]:
    """Makes the sink of a task that has both partitions."""

    def make(mode: InsertMode = InsertMode.UPSERT, once: bool = False, **options: Any) -> Sink:
        table = "connect_offsets" if once else None
        made = SinkOptions("one", mode, KeyMode.RECORD_KEY, ("id",), offsets_table=table, **options)
        found = Sink("one-0", database, made, LAYOUTS, {})
        found.keep()
        if found.offsets is not None:
            found.offsets.create()
            found.fences |= found.offsets.take([T0, T1])
        return found

    return make


def batch(rows: Sequence[Row], first: int = 0, partition: int = 0, table: str = "t") -> pa.RecordBatch:
    count = len(rows)
    return pa.record_batch(
        {
            "table": pa.array([table] * count, pa.string()),
            "origin_topic": pa.array(["t"] * count, pa.string()),
            "origin_partition": pa.array([partition] * count, pa.int32()),
            "origin_offset": pa.array(range(first, first + count), pa.int64()),
            "layout": pa.array([layout for layout, _ in rows], pa.int32()),
            "refused": pa.nulls(count, pa.string()),
            "shape": pa.nulls(count, pa.string()),
            "id": pa.array([d[0] if d and isinstance(d[0], int) else None for _, d in rows], pa.int32()),
            "row": pa.array(
                [json.dumps([text and str(text) for text in document]) for _, document in rows], pa.string()
            ),
        }
    )


def contents(database: Database, query: str = "SELECT id, name, note FROM t ORDER BY id") -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return [tuple(row) for row in connection.execute(sqlalchemy.text(query))]


def stored(database: Database) -> list[tuple[Any, ...]]:
    return contents(database, "SELECT kafka_partition, kafka_offset FROM connect_offsets ORDER BY 1")


def elsewhere(writer: SinkWriter) -> SinkWriter:
    """The writer as it is in an executor."""
    packed = pickle.dumps(writer)
    live = sink_transactions._LIVE.pop(writer.sink.name)
    found: SinkWriter = pickle.loads(packed)
    live.keep()
    return found


def test_rows_of_several_layouts_end_as_if_they_went_one_by_one(database: Database, sink: Callable[..., Sink]) -> None:
    sink().write(
        batch(
            [
                (0, [1, "a"]),
                (2, [1, "x"]),
                (0, [1, "b"]),
                (0, [2, "gone"]),
                (1, [2]),
                (0, [3, "c"]),
                (1, [3]),
                (2, [3, "back"]),
                (0, [4, "first"]),
                (0, [4, "last"]),
                (PASSED, []),
            ]
        )
    )
    assert contents(database) == [(1, "b", "x"), (3, None, "back"), (4, "last", None)]


def test_what_comes_behind_a_truncate_stays(database: Database, sink: Callable[..., Sink]) -> None:
    sink().write(batch([(0, [1, "a"]), (3, []), (0, [2, "b"]), (3, []), (0, [3, "c"]), (2, [3, "n"])]))
    assert contents(database) == [(3, "c", "n")]
    sink().write(batch([(0, [1, "a"]), (0, [2, "b"]), (3, []), (0, [4, "d"]), (0, [5, "e"]), (0, [4, "last"])]))
    assert contents(database) == [(4, "last", None), (5, "e", None)]


def test_a_key_that_comes_and_goes_needs_few_statements(
    database: Database, sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, counted = sink(), Mock(wraps=sink_transactions.load)
    monkeypatch.setattr(sink_transactions, "load", counted)
    ours.write(batch([*[(0, [1, "a"]), (1, [1])] * 300, (0, [2, "b"]), (2, [1, "back"])]))
    assert contents(database) == [(1, None, "back"), (2, "b", None)]
    assert counted.call_count == 3


def test_updates_after_a_delete_find_nothing(database: Database, sink: Callable[..., Sink]) -> None:
    sink().write(batch([(0, [1, "a"]), (0, [2, "b"])]))
    sink(InsertMode.UPDATE).write(batch([(1, [1]), (0, [1, "x"]), (0, [2, "y"]), (0, [3, "z"])]))
    assert contents(database) == [(2, "y", None)]


def test_a_batch_is_all_or_nothing_with_its_offsets(database: Database, sink: Callable[..., Sink]) -> None:
    ours = sink(once=True)
    ours.write(batch([(0, [1, "a"]), (PASSED, [])]))
    assert stored(database) == [(0, 1), (1, None)]
    with pytest.raises(RecordsFailed, match="CHECK constraint failed"):
        ours.write(batch([(0, [2, "b"]), (0, [3, "bad"])], first=2))
    assert stored(database) == [(0, 1), (1, None)]
    assert contents(database) == [(1, "a", None)]


def test_what_is_stored_is_not_written_again(database: Database, sink: Callable[..., Sink]) -> None:
    ours = sink(InsertMode.INSERT, once=True)
    ours.write(batch([(4, ["a"]), (4, ["b"])], table="u"))
    both = pa.concat_batches(
        [batch([(4, ["b"]), (4, ["c"])], first=1, table="u"), batch([(4, ["d"])], partition=1, table="u")]
    )
    ours.write(both)
    ours.write(both)
    assert contents(database, "SELECT name FROM u ORDER BY 1") == [("a",), ("b",), ("c",), ("d",)]
    assert stored(database) == [(0, 2), (1, 0)]


def test_there_a_chunk_that_is_committed_stays(
    database: Database, sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_writer, "CHUNK_ROWS", 10)
    writer = elsewhere(SinkWriter(sink(InsertMode.INSERT, once=True)))
    writer.write(batch([(4, [f"{number}"]) for number in range(15)], table="u"))
    writer.write(batch([(4, ["bad" if number == 22 else f"{number}"]) for number in range(15, 40)], 15, table="u"))
    with pytest.raises(RecordsFailed, match="SQLSTATE 23000"):
        writer.finish()
    writer.abort()
    assert contents(database, "SELECT count(*) FROM u") == [(22,)]
    assert stored(database)[0] == (0, 21), "all before the guilty row, and nothing behind it"


@pytest.mark.parametrize("again", [False, True])
def test_what_a_database_loses_between_two_chunks_is_not_stepped_over(
    database: Database, sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(sink_writer, "CHUNK_ROWS", 1)
    first = batch([(4, ["a"])], table="u")
    ours = sink(InsertMode.INSERT, once=True)
    writer = elsewhere(SinkWriter(ours))
    if again:  # another try had committed it, which its writer was not told
        ours.write(first)
    writer.write(first)
    writer._wait()
    with database.begin() as connection:  # as a standby that was behind
        connection.execute(sqlalchemy.text("DELETE FROM u"))
        connection.execute(sqlalchemy.text("UPDATE connect_offsets SET kafka_offset = NULL"))
    writer.write(batch([(4, ["b"])], 1, table="u"))
    with pytest.raises(RetriableError, match="it was written up to 0: the database has gone back"):
        writer.finish()
    writer.abort()
    assert contents(database, "SELECT count(*) FROM u") == [(0,)]


@pytest.mark.parametrize("lost", ["UPDATE connect_offsets SET epoch = 0", "DELETE FROM connect_offsets"])
def test_a_database_that_has_lost_who_took_a_partition_is_told_so(
    database: Database, sink: Callable[..., Sink], lost: str
) -> None:
    ours = sink(once=True)
    with database.begin() as connection:
        connection.execute(sqlalchemy.text(lost))
    with pytest.raises(DatabaseError, match="the database has gone back"):
        ours.write(batch([(0, [1, "a"])]))
    assert contents(database) == []


def test_here_a_batch_is_one_transaction(
    database: Database, sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_writer, "CHUNK_ROWS", 1)
    writer = SinkWriter(sink(InsertMode.INSERT))
    writer.write(batch([(4, ["a"])], table="u"))
    writer.write(batch([(4, ["bad"])], 1, table="u"))
    with pytest.raises(RecordsFailed):
        writer.finish()
    assert contents(database, "SELECT count(*) FROM u") == [(0,)]


def test_refused_rows_are_told_at_once_where_they_may_be_left_out(
    database: Database, sink: Callable[..., Sink]
) -> None:
    rows = batch([(4, ["a"]), (4, ["b"]), (4, ["c"])], table="u")
    refused = rows.set_column(5, "refused", pa.array([None, "why", None]))
    writer = SinkWriter(sink(InsertMode.INSERT, tolerates=True))
    writer.write(rows)
    with pytest.raises(RecordsFailed) as raised:
        writer.write(refused)
    assert [(one.row, one.message) for one in raised.value.failures] == [(1, "why")]
    assert contents(database, "SELECT count(*) FROM u") == [(0,)], "dead letters come before what lies behind them"
    writer.finish()
    assert contents(database, "SELECT count(*) FROM u") == [(5,)]
    strict = SinkWriter(sink(InsertMode.INSERT))
    with pytest.raises(RecordsFailed, match="why") as raised:
        strict.write(refused)
    assert raised.value.failures == ()


@pytest.mark.parametrize("once", [False, True])
def test_there_parts_are_written_only_where_they_do_not_come_again(
    database: Database, sink: Callable[..., Sink], once: bool
) -> None:
    rows = batch([(4, ["bad" if number == 6 else "good"]) for number in range(8)], table="u")
    writer = elsewhere(SinkWriter(sink(InsertMode.INSERT, once=once)))
    writer.write(rows)
    with pytest.raises(RecordsFailed):
        writer.finish()
    assert contents(database, "SELECT count(*) FROM u") == [(6 if once else 0,)]
    refusing = elsewhere(SinkWriter(sink(InsertMode.INSERT, once=once)))
    told = rows.set_column(5, "refused", pa.array([None] * 7 + ["why"]))
    with pytest.raises(RecordsFailed):
        refusing.write(told.slice(7))
    assert contents(database, "SELECT count(*) FROM u") == [(6 if once else 0,)]


def test_a_deadlock_is_tried_again_at_once(
    database: Database, sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, tries = sink(), 0

    def load(*_: Any, again: bool) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RolledBack("deadlock")

    monkeypatch.setattr(sink_transactions, "load", load)
    ours.write(batch([(0, [1, "a"])]))
    assert tries == 3


@pytest.mark.parametrize("error", [RetriableError("away"), TableChanged("no such table")])
def test_retries_end_where_they_are_bounded(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ours = sink(max_retries=2)
    clock = standing_clock(monkeypatch)
    monkeypatch.setattr(sink_transactions, "load", Mock(side_effect=error))
    for pause in (0.1, 0.2):
        for _ in range(64):  # the tries of one search
            with pytest.raises(RetriableError):
                ours.write(batch([(0, [1, "a"])]))
        clock.return_value += pause
    with pytest.raises(DatabaseError, match=r"given up after max\.retries=2"):
        ours.write(batch([(0, [1, "a"])]))


def test_what_was_written_in_between_ends_the_count(sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch) -> None:
    ours = sink(max_retries=0)
    load = Mock(side_effect=[None])
    monkeypatch.setattr(sink_transactions, "load", load)
    ours.write(batch([(0, [1, "a"])]))
    load.side_effect = RetriableError("away")
    with pytest.raises(DatabaseError, match=r"given up after max\.retries=0"):
        ours.write(batch([(0, [1, "a"])]))


def standing_clock(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The clock stands where its `return_value` says."""
    clock = Mock(return_value=100.0)
    monkeypatch.setattr(sink_transactions, "time", SimpleNamespace(monotonic=clock, sleep=lambda _: None))
    return clock


def test_a_table_that_was_made_anew_is_looked_at_again(database: Database, sink: Callable[..., Sink]) -> None:
    ours = sink(creates=True)
    ours.write(batch([(0, [1, "a"])]))
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE t"))
    with pytest.raises(RetriableError, match="no such table"):
        ours.write(batch([(0, [2, "b"])]))
    ours.write(batch([(0, [2, "b"])]))
    assert contents(database, "SELECT id, name FROM t") == [(2, "b")]


def test_batches_of_several_programs_are_one_chunk(database: Database, sink: Callable[..., Sink]) -> None:
    writer = SinkWriter(sink())
    writer.write(batch([(0, [1, "a"])]))
    other = batch([(0, [1, "b"])], 1)
    writer.write(other.append_column("more", pa.array(["x"])))
    writer.finish()
    assert contents(database) == [(1, "b", None)]


def test_a_key_is_the_same_in_whatever_order_its_columns_come(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE two (a INT, b INT, name TEXT, PRIMARY KEY (a, b))"))
    a, b = (Cell(name, Schema(SchemaType.INT32), True, name) for name in "ab")
    layouts = {0: RowLayout(Operation.WRITE, (a, b, NAME), "row"), 1: RowLayout(Operation.DELETE, (b, a), "row")}
    options = SinkOptions("one", InsertMode.UPSERT, KeyMode.RECORD_KEY, ("a", "b"))
    rows = batch([(1, ["2", "1"]), (0, ["1", "2", "stays"]), (0, ["3", "4", "x"]), (1, ["4", "3"])], table="two")
    for name, values in (("a", [1, 1, 3, 3]), ("b", [2, 2, 4, 4])):
        rows = rows.append_column(name, pa.array(values, pa.int32()))
    Sink("two-0", database, options, layouts, {}).write(rows)
    assert contents(database, "SELECT * FROM two") == [(1, 2, "stays")]


def test_rows_with_keys_of_other_columns_keep_their_order(database: Database) -> None:
    a, b = (Cell(name, Schema(SchemaType.INT32), True, name) for name in "ab")
    other = Cell("a", Schema(SchemaType.INT32), False, "a")
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE two (a INT PRIMARY KEY, b INT UNIQUE)"))
    layouts = {
        0: RowLayout(Operation.WRITE, (a, Cell("b", b.schema, False, "b")), "row"),
        1: RowLayout(Operation.DELETE, (b,), "row"),
        2: RowLayout(Operation.WRITE, (other, b), "row"),
    }
    given = [(0, 5, 9), (1, None, 5), (0, 6, 7), (1, None, 7), (0, 6, 7), (2, 8, 7)]
    rows = batch([(n, [x for x in (a, b) if x is not None]) for n, a, b in given], table="two")
    rows = rows.append_column("a", pa.array([a for _, a, _ in given], pa.int32()))
    rows = rows.append_column("b", pa.array([b for _, _, b in given], pa.int32()))
    options = SinkOptions("one", InsertMode.UPSERT, KeyMode.RECORD_KEY)
    Sink("two-0", database, options, layouts, {}).write(rows)
    assert contents(database, "SELECT * FROM two ORDER BY a") == [(5, 9), (8, 7)]


def test_a_table_that_refuses_records_is_looked_at_again_now_and_then(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, looked = sink(), Mock()
    monkeypatch.setattr(ours.tables, "forget", looked)
    for _ in range(3):
        with pytest.raises(RecordsFailed):
            ours.write(batch([(0, [1, "bad"])]))
    assert looked.call_count == 1


def test_a_row_that_nobody_knows_what_to_do_with_is_a_fault_of_ours(sink: Callable[..., Sink]) -> None:
    rows = batch([(0, [1, "a"])])
    with pytest.raises(AssertionError):
        sink().write(rows.set_column(4, "layout", pa.array([None], pa.int32())))
