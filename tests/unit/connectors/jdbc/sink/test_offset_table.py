"""Offsets stored with the rows: who may write on, and from where."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy

from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.database.connection import Database, DatabaseError
from headrace.connectors.jdbc.sink.offset_table import Fence, FencedError, GoneBack, OffsetTable
from headrace.plugins.contracts import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("a", 1)
NAME = TableId(None, None, "connect_offsets")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    found = Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}"}, {})
    yield found
    found.close()


@pytest.fixture
def table(database: Database) -> OffsetTable:
    """The offsets of the connector `one`."""
    made = OffsetTable(database, NAME, "one")
    made.create()
    return made


def test_each_task_that_takes_a_partition_raises_its_epoch(database: Database, table: OffsetTable) -> None:
    assert table.take([A, B]) == {A: Fence(1, None), B: Fence(1, None)}
    with database.begin() as connection:
        table.store(connection, {A: 41})
    assert table.take([A]) == {A: Fence(2, 41)}
    with database.begin() as connection:
        assert table.lock(connection, [A, B]) == {A: Fence(2, 41), B: Fence(1, None)}


def test_what_was_not_to_be_written_is_done_with_too(database: Database, table: OffsetTable) -> None:
    held = table.take([A, B])
    with database.begin() as connection:
        table.store(connection, {A: 41})
    table.reach(held, {A: 50, B: 0}, {A: 41})
    assert table.take([B]) == {B: Fence(2, None)}
    table.reach(held, {A: 45}, {})
    assert table.take([A]) == {A: Fence(2, 49)}, "never backwards"
    with pytest.raises(FencedError):
        table.reach(held, {A: 60}, {})


def test_what_the_database_has_lost_is_not_stepped_over(database: Database, table: OffsetTable) -> None:
    held = table.take([A, B])
    with database.begin() as connection:
        table.store(connection, {A: 41})
    with pytest.raises(DatabaseError, match=r"a-0 written up to offset 41, but it was written up to 49") as raised:
        table.reach(held, {A: 60}, {A: 49})
    assert isinstance(raised.value.__cause__, GoneBack), "so the task is started again"
    with pytest.raises(DatabaseError, match="gone back"):
        table.reach(held, {B: 7}, {B: 3})
    assert table.take([A, B]) == {A: Fence(2, 41), B: Fence(2, None)}


@pytest.mark.parametrize("lost", ["UPDATE connect_offsets SET epoch = 1", "DELETE FROM connect_offsets"])
def test_a_database_that_has_lost_who_took_a_partition_is_not_another_tasks(
    database: Database, table: OffsetTable, lost: str
) -> None:
    table.take([A])
    held = table.take([A])
    with database.begin() as connection:
        connection.execute(sqlalchemy.text(lost))
    for act in (lambda: table.reach(held, {A: 1}, {}), lambda: table.take([A], held=held)):
        with pytest.raises(DatabaseError, match="gone back") as raised:
            act()
        assert isinstance(raised.value.__cause__, GoneBack), "so the task is started again"


def test_a_transaction_that_fails_stores_nothing(database: Database, table: OffsetTable) -> None:
    table.take([A])
    with contextlib.suppress(ZeroDivisionError), database.begin() as connection:
        table.store(connection, {A: 41})
        raise ZeroDivisionError
    assert table.take([A]) == {A: Fence(2, None)}


def test_connectors_do_not_meet(database: Database, table: OffsetTable) -> None:
    other = OffsetTable(database, NAME, "other")
    other.create()
    table.take([A])
    assert other.take([A]) == {A: Fence(1, None)}


def test_an_operator_moves_offsets_and_fences_who_writes(database: Database, table: OffsetTable) -> None:
    table.take([A, B])
    table.set({A: 10, B: 0})
    assert table.take([A, B]) == {A: Fence(3, 9), B: Fence(3, None)}
    table.set({A: None})
    assert table.take([A]) == {A: Fence(1, None)}
    table.clear()
    with database.begin() as connection:
        assert table.lock(connection, [A, B]) == {}


def test_who_may_not_make_the_table_is_told_the_statement(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(sqlalchemy.text("CREATE VIEW v AS SELECT 1"))
    with pytest.raises(DatabaseError, match=r"(?s)Let an administrator run: CREATE TABLE .*or set offsets.table empty"):
        OffsetTable(database, TableId(None, "nowhere", "connect_offsets"), "one").create()


def test_offsets_of_a_former_topic_count_no_more(database: Database, table: OffsetTable) -> None:
    table.take([A, B], {"a": "first"})
    with database.begin() as connection:
        table.store(connection, {A: 41, B: 7})
    assert table.take([A], {"a": "first"}) == {A: Fence(2, 41)}
    assert table.take([A]) == {A: Fence(3, 41)}, "nobody knows"
    assert table.take([A, B], {"a": "second"}) == {A: Fence(4, None), B: Fence(2, None)}
    table.set({A: 10})
    assert table.take([A], {"a": "second"}) == {A: Fence(6, 9)}


def test_who_lost_a_partition_does_not_take_it_back(database: Database, table: OffsetTable) -> None:
    old = table.take([A, B])
    new = table.take([A])
    with pytest.raises(FencedError, match="a-0 is another task's"):
        table.take([A, B], held=old)
    with database.begin() as connection:
        assert table.lock(connection, [A, B]) == {**new, B: old[B]}, "nothing is changed"
    assert table.take([A], held=new) == {A: Fence(3, None)}
