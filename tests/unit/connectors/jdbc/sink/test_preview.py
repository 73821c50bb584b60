"""A sink tells what it would do in SQLite: the statements that it then runs, and nothing before that."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy
from sqlalchemy import event

from headrace.connectors.jdbc.contract.sink_options import InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import PASSED, Cell, Operation, RowLayout
from headrace.connectors.jdbc.contract.sink_sql import DOCUMENT
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.sink.preview import ROWS, SinkPreview
from headrace.connectors.jdbc.sink.task import JdbcSinkTask
from headrace.connectors.jdbc.sink.transactions import Sink
from headrace.plugins.contracts import RecordsFailed, TaskContext, TopicPartition
from headrace.plugins.extensions import Effect
from headrace.plugins.schema import OPTIONAL_STRING, Schema, SchemaType
from headrace.plugins.stopping import StopToken
from tests.unit.connectors.jdbc.sink.test_transactions import LAYOUTS, batch, contents

WIDE = RowLayout(
    Operation.WRITE,
    (
        Cell("id", Schema(SchemaType.INT32), True, "id"),
        Cell("name", OPTIONAL_STRING, False, "name"),
        Cell("size", Schema(SchemaType.FLOAT64, optional=True), False, "size"),
    ),
    "row",
)
ALL = {**LAYOUTS, 5: WIDE}
T0 = TopicPartition("t", 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def writes(file: Path) -> Iterator[Database]:
    found = Database.of({"connection.url": f"jdbc:sqlite:{file}"}, {})
    yield found
    found.close()


@pytest.fixture
def reads(file: Path) -> Iterator[Database]:
    found = Database.of({"connection.url": f"jdbc:sqlite:{file}"}, {}, creates=False, reads_only=True)
    yield found
    found.close()


def options(mode: InsertMode = InsertMode.UPSERT, **more: Any) -> SinkOptions:
    return SinkOptions("one", mode, KeyMode.RECORD_KEY, ("id",), offsets_table=None, **more)


def told(database: Database, made: SinkOptions, *batches: pa.RecordBatch) -> list[Effect]:
    return list(SinkPreview(database, made, ALL).effects(batches))


def run(database: Database, made: SinkOptions, rows: pa.RecordBatch) -> list[str]:
    """Writes the rows; returns the statements that changed something."""
    ran: list[str] = []
    listen = lambda *given: ran.append(given[2])  # noqa: E731
    event.listen(database.engine, "before_cursor_execute", listen)
    sink = Sink("one-0", database, made, ALL, {})
    sink.keep()
    sink.write(rows)
    event.remove(database.engine, "before_cursor_execute", listen)
    return [one for one in ran if one.startswith(("CREATE", "ALTER", "INSERT", "UPDATE", "DELETE"))]


def statements(effects: Sequence[Effect]) -> list[str]:
    """The statements that the effects show, each once, as the driver gets them."""
    found = [one for effect in effects for one in _sql(effect)]
    return [one.replace(ROWS, "?") for one in dict.fromkeys(found)]


def _sql(effect: Effect) -> list[str]:
    sql = effect.detail.get("sql", [])
    return [sql] if isinstance(sql, str) else list(sql)


MIXED = batch(
    [
        (0, [1, "a"]),
        (2, [2, "x"]),
        (0, [1, "b"]),
        (0, [3, "gone"]),
        (1, [3]),
        (PASSED, [4, "passed"]),
    ]
)


@pytest.mark.parametrize("mode", [InsertMode.UPSERT, InsertMode.UPDATE])
def test_the_statements_are_those_that_then_run(reads: Database, writes: Database, mode: InsertMode) -> None:
    run(writes, options(creates=True), batch([(0, [1, "before"]), (0, [3, "before"])]))
    before = contents(writes, "SELECT * FROM sqlite_master"), contents(writes, "SELECT * FROM t")
    made = options(mode, creates=True, evolves=True)
    effects = told(reads, made, MIXED.slice(0, 2), MIXED.slice(2))
    assert (contents(writes, "SELECT * FROM sqlite_master"), contents(writes, "SELECT * FROM t")) == before
    assert statements(effects) == run(writes, made, MIXED)
    assert [(one.row, one.action, one.detail.get("parameters")) for one in effects] == [
        (None, "alter table", None),
        (2, mode.value, {"id": "1", "name": "b"}),
        (1, mode.value, {"id": "2", "note": "x"}),
        (4, "delete", {"id": "3"}),
        (0, "none", None),
        (3, "none", None),
        (5, "none", None),
    ]


def test_a_missing_file_is_not_made(file: Path, reads: Database, writes: Database) -> None:
    made = options(creates=True, evolves=True)
    rows = batch([(0, [1, "a"]), (5, [2, "b", 0.5])])
    effects = told(reads, made, rows)
    assert not file.exists()
    assert [(one.action, one.target) for one in effects] == [
        ("create database", str(file)),
        ("create table", "t"),
        ("alter table", "t"),
        ("upsert", "t"),
        ("upsert", "t"),
    ]
    assert statements(effects) == run(writes, made, rows)


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    url = f"jdbc:sqlite:{tmp_path / 'none' / 'a.db'}"
    database = Database.of({"connection.url": url}, {}, creates=False, reads_only=True)
    with pytest.raises(DatabaseAway, match="there is no such directory"):
        told(database, options(), batch([(0, [1, "a"])]))


def test_rows_that_would_be_refused_are_named_and_the_others_told(reads: Database, writes: Database) -> None:
    run(writes, options(creates=True), batch([(0, [9, "before"])]))
    rows = batch([(0, [1, "a"]), (2, [2, "x"]), (0, [3, "c"])])
    column = pa.array([None, None, "Field name holds no string"], pa.string())
    rows = rows.set_column(rows.schema.get_field_index("refused"), "refused", column)
    effects: list[Effect] = []
    with pytest.raises(RecordsFailed) as failed:
        effects.extend(SinkPreview(reads, options(), ALL).effects([rows]))
    assert [effect.row for effect in effects] == [0]
    assert [one.row for one in failed.value.failures] == [1, 2]
    assert "missing fields (note) and auto-evolution is disabled; run: ALTER TABLE" in failed.value.failures[0].message


def test_its_transactions_refuse_to_write(reads: Database, writes: Database) -> None:
    run(writes, options(creates=True), batch([(0, [1, "a"])]))
    for statement in ("INSERT INTO t (id) VALUES (2)", "CREATE TABLE other (id INTEGER)", "DELETE FROM t"):
        with pytest.raises(DatabaseError), reads.begin() as connection:
            connection.execute(sqlalchemy.text(statement))
    assert contents(writes, "SELECT id FROM t") == [(1,)]


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_file_stays_as_it_is_whatever_journal_the_url_names(file: Path, writes: Database, mode: str) -> None:
    run(writes, options(creates=True), batch([(0, [1, "a"])]))
    writes.close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    before = {one.name: one.read_bytes() for one in file.parent.iterdir()}
    for url in (f"jdbc:sqlite:{file}?journal_mode=WAL", f"jdbc:sqlite:{file}?journal_mode=DELETE"):
        database = Database.of({"connection.url": url}, {}, creates=False, reads_only=True)
        assert [one.action for one in told(database, options(), batch([(0, [2, "b"])]))] == ["upsert"]
        database.close()
        assert {one.name: one.read_bytes() for one in file.parent.iterdir()} == before


def test_a_number_of_a_member_keeps_its_digits(reads: Database, writes: Database) -> None:
    run(writes, options(creates=True), batch([(0, [1, "a"])]))
    layout = RowLayout(Operation.WRITE, (Cell("id", Schema(SchemaType.INT32), True, "id"),), "row", members=True)
    rows = batch([(6, [1, "a"])])
    texts = {"row": '["1", {"name": 12345678901234567890.5}]', "shape": "name"}
    for name, text in texts.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array([text], pa.string()))
    (effect,) = SinkPreview(reads, options(), {6: layout}).effects([rows])
    assert {name: str(value) for name, value in effect.detail["parameters"].items()} == {
        "id": "1",
        "name": "12345678901234567890.5",
    }


def config(file: Path, **more: str) -> dict[str, str]:
    return {
        "name": "one",
        "topics": "t",
        "connection.url": f"jdbc:sqlite:{file}",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "id",
        "auto.create": "true",
        **more,
    }


def test_the_table_of_offsets_is_told_and_what_it_has(file: Path, writes: Database) -> None:
    given = config(file)

    def preview() -> tuple[list[Effect], Sequence[str]]:
        task = JdbcSinkTask()
        task.start_preview(given, TaskContext("one", 0, StopToken()))
        task._columns.layouts.update(LAYOUTS)
        try:
            return list(task.preview([batch([(0, [1, "a"])], first=3)])), task.preview_notes()
        finally:
            task.stop()

    effects, notes = preview()
    assert [(one.action, one.target) for one in effects[:3]] == [
        ("create database", str(file)),
        ("create table", "connect_offsets"),
        ("create table", "t"),
    ]
    assert "Each transaction also stores its records' offsets in connect_offsets." in notes
    assert not file.exists()

    task = JdbcSinkTask()
    task.start(given, TaskContext("one", 0, StopToken()))
    task.open([T0])
    task._columns.layouts.update(LAYOUTS)
    writer = task.writer("1")
    writer.write(batch([(0, [1, "a"])], first=3))
    task.commit([writer.finish()])
    task.stop()
    made = contents(writes, "SELECT sql FROM sqlite_master WHERE name = 'connect_offsets'")
    assert made == [(effects[1].detail["sql"],)]
    before = file.read_bytes()
    effects, notes = preview()
    assert [one.action for one in effects] == ["upsert"]
    assert any("has t-0 written up to offset 3: the connector does not write" in one for one in notes)
    assert file.read_bytes() == before


def test_values_show_no_placeholder_of_the_code(reads: Database) -> None:
    effects = told(reads, options(creates=True, evolves=True), MIXED)
    assert DOCUMENT not in json.dumps([[one.target, dict(one.detail)] for one in effects])
