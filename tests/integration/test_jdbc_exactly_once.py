"""Offsets that are stored with the rows: each record has its effect once, however often it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.connectors.jdbc.database.connection import DatabaseError
from headrace.connectors.jdbc.sink.connector import JdbcSinkConnector
from headrace.connectors.jdbc.sink.offset_table import FencedError
from headrace.plugins.contracts import Place, RecordsFailed, TopicPartition
from headrace.worker.engine.programs import Engine
from headrace.worker.kafka.errors import is_retriable
from tests.integration.databases import Database
from tests.integration.sinking import T0, Record, Sinking, shared, struct, with_schema

__all__ = ["shared"]

pytestmark = pytest.mark.spark

ONCE = {"offsets.table": "connect_offsets"}


@pytest.fixture
def start(shared: Engine, database: Database) -> Iterator[Callable[..., Sinking]]:
    """Starts a sink that adds rows to a table without a key."""
    database.execute("CREATE TABLE t (id INT, CHECK (id < 1000))")
    started: list[Sinking] = []

    def start(topic: str = "t's", **settings: str) -> Sinking:
        started.append(Sinking(shared, database, {**ONCE, **settings}, topic_ids={"t": topic}))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def row(number: int, partition: int = 0) -> Record:
    return Record(with_schema(struct(("id", "int32")), {"id": number}), partition=partition)


def ids(database: Database) -> list[Any]:
    return [number for (number,) in database.rows("SELECT id FROM t ORDER BY id")]


def stored(database: Database) -> list[tuple[Any, ...]]:
    return database.rows("SELECT kafka_partition, kafka_offset, epoch FROM connect_offsets ORDER BY 1")


def test_a_batch_that_comes_again_is_not_written_again(start: Callable[..., Sinking], database: Database) -> None:
    sink = start()
    before = dict(sink.positions)
    sink.all(row(0), row(1), row(2))
    sink.positions = before  # as if the answer of the commit had been lost
    sink.all(row(0), row(1), row(2), row(3), there=True)
    assert ids(database) == [0, 1, 2, 3]
    assert stored(database) == [(0, 3, 1)]


def test_another_task_goes_on_and_the_old_one_writes_no_more(start: Callable[..., Sinking], database: Database) -> None:
    old, new = start(), start()
    with pytest.raises(FencedError, match="another task's"):
        old.put(row(0))
    new.all(row(0), row(1))
    third = start()
    assert third.positions == {T0: 2}
    third.all(row(2))
    with pytest.raises(FencedError):
        new.put(row(99), there=True)
    assert ids(database) == [0, 1, 2]


def test_rows_and_offsets_are_one(start: Callable[..., Sinking], database: Database) -> None:
    sink = start()
    sink.open(T0, TopicPartition("t", 1))
    sink.all(row(0), row(10, 1), row(1), row(11, 1))
    assert stored(database) == [(0, 1, 2), (1, 1, 1)]
    assert "offset 3" in sink.refused(row(2), row(3000), row(4))
    assert ids(database) == [0, 1, 2, 10, 11]
    assert stored(database)[0] == (0, 2, 2), "what is stored ends before the record that cannot be written"


def test_there_all_before_the_guilty_row_is_durable(start: Callable[..., Sinking], database: Database) -> None:
    sink = start()
    with pytest.raises(RecordsFailed, match="SQLSTATE"):
        sink.put(*(row(1000 if number == 700 else number) for number in range(900)), there=True)
    assert len(ids(database)) == 700
    assert sink.task.recover() == {T0: 700}
    assert stored(database) == [(0, 699, 2)]


@pytest.mark.long
def test_records_from_before_are_not_passed_over_in_silence(start: Callable[..., Sinking]) -> None:
    start().all(row(0), row(1))
    sink = start()
    sink.positions = {T0: 0}
    with pytest.raises(DatabaseError, match=r"written up to offset 1, but record 0 comes.*DELETE /connectors"):
        sink.put(row(5))


@pytest.mark.parametrize("there", [False, True])
def test_a_database_that_has_lost_what_was_written_is_given_it_again(
    start: Callable[..., Sinking], database: Database, there: bool
) -> None:
    sink = start()
    sink.all(row(0), row(1), row(2), there=there)
    # As after a failover to a standby that had only the first.
    database.execute("DELETE FROM t WHERE id > 0", "UPDATE connect_offsets SET kafka_offset = 0")
    with pytest.raises(DatabaseError, match=r"written up to offset 0, but it was written up to 2") as raised:
        sink.put(row(3))
    assert is_retriable(raised.value), "the task is started again"
    with pytest.raises(DatabaseError, match="gone back"):
        sink.task.pre_commit({T0: 5})
    again = start()
    assert again.positions == {T0: 1}
    again.all(row(1), row(2), row(3))
    assert ids(database) == [0, 1, 2, 3]


def test_an_operator_moves_the_offsets(start: Callable[..., Sinking], database: Database) -> None:
    sink = start()
    sink.all(row(0), row(1), row(2))
    place = {"kafka_topic": "t", "kafka_partition": 0}
    to = {"offsets": [{"partition": place, "offset": {"kafka_offset": 1}}]}
    assert JdbcSinkConnector().check_offsets(sink.config, to) is True
    again = start()
    assert again.positions == {T0: 1}
    again.all(row(1), row(2))
    assert ids(database) == [0, 1, 1, 2, 2]
    assert JdbcSinkConnector().check_offsets(sink.config, {"offsets": [{"partition": place, "offset": None}]})
    assert start().positions == {}


@pytest.mark.long
def test_a_reset_forgets_what_kafka_does_not_know_of_too(start: Callable[..., Sinking], database: Database) -> None:
    sink = start()
    sink.open(T0, TopicPartition("t", 1))
    sink.all(row(0), row(1, partition=1))
    known = [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": None}]
    assert JdbcSinkConnector().check_offsets(sink.config, {"offsets": known, "reset": True})
    assert stored(database) == []


@pytest.mark.long
def test_the_table_has_all_that_kafka_has(start: Callable[..., Sinking], database: Database) -> None:
    sink = start()
    sink.all(row(0), row(1))
    sink.task.pre_commit({T0: 7})  # the others were filtered, or markers of transactions
    assert stored(database) == [(0, 6, 1)]
    assert start().positions == {T0: 7}
    with pytest.raises(FencedError):
        sink.task.pre_commit({T0: 9})


@pytest.mark.long
def test_at_least_once_keeps_no_table(start: Callable[..., Sinking], database: Database) -> None:
    sink = start(**{"offsets.table": ""})
    sink.all(row(0))
    sink.positions = {}
    sink.all(row(0))
    assert ids(database) == [0, 0]
    with pytest.raises(Exception, match="connect_offsets"):
        stored(database)


@pytest.mark.long
def test_tasks_do_not_wait_for_each_others_offsets(start: Callable[..., Sinking], database: Database) -> None:
    if database.kind == "sqlite":
        pytest.skip("it has one writer at a time")
    sink, other = start(), start(name="other")
    sink.open(*(TopicPartition("t", number) for number in range(4)))
    offsets = sink.task._sink.offsets
    assert offsets is not None
    assert other.task._sink.offsets is not None
    timeout = {"postgresql": "SET LOCAL lock_timeout = '2s'", "mariadb": "SET innodb_lock_wait_timeout = 2"}
    with sink.task._sink.database.begin() as ours, other.task._sink.database.begin() as theirs:
        offsets.lock(ours, [TopicPartition("t", 0), TopicPartition("t", 2)])
        theirs.exec_driver_sql(timeout[database.kind])
        assert len(offsets.lock(theirs, [TopicPartition("t", 1), TopicPartition("t", 3)])) == 2


def test_who_may_make_no_table_goes_on_at_least_once_if_nobody_named_it(shared: Engine, postgresql: Database) -> None:
    role = f"limited_{postgresql.url.database}"
    postgresql.execute("CREATE TABLE t (id INT)", f"CREATE ROLE {role} LOGIN PASSWORD 'x'", f"GRANT ALL ON t TO {role}")
    try:
        login = {"connection.user": role, "connection.password": "x"}
        sink = Sinking(shared, postgresql, login)
        assert sink.positions == {}
        sink.all(row(0), row(1))
        assert sink.task.place is Place.WORKER_PROCESS, "where a transaction that fails leaves nothing"
        sink.stop()
        with pytest.raises(DatabaseError, match=r"(?s)permission denied.*Let an administrator run: CREATE TABLE"):
            Sinking(shared, postgresql, {**login, **ONCE})
        assert ids(postgresql) == [0, 1]
    finally:
        postgresql.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_topic_that_was_made_again_is_written_from_its_beginning(
    start: Callable[..., Sinking], database: Database
) -> None:
    start(topic="first").all(row(0), row(1))
    assert start(topic="first").positions == {T0: 2}
    again = start(topic="second")
    assert again.positions == {}
    again.all(row(2))
    assert start(topic="second").positions == {T0: 1}
    assert ids(database) == [0, 1, 2]


@pytest.mark.long
def test_an_old_task_does_not_take_back_what_it_lost(start: Callable[..., Sinking]) -> None:
    old, new = start(), start()
    with pytest.raises(FencedError):
        old.task.recover()
    new.all(row(0))
    assert new.task.recover() == {T0: 1}
