"""Plans of several tables, and their times: on SQLite, which needs no server."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy

from headrace.connectors.jdbc.contract.open_transactions import OpenTransactions
from headrace.connectors.jdbc.contract.source_sql import SourceSql
from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.database.installed_dialects import dialect_for
from headrace.connectors.jdbc.dialects.sqlite.dialect import SqliteDialect
from headrace.connectors.jdbc.dialects.sqlite.source_sql import SqliteSourceSql
from headrace.connectors.jdbc.source import planning, transaction_wait
from headrace.connectors.jdbc.source.planning import Planning
from headrace.connectors.jdbc.source.settings import parse
from headrace.connectors.jdbc.source.tables import SourceError, SourceTable
from headrace.connectors.jdbc.source.transaction_wait import SnapshotBound, TransactionWait, WaitingWindow
from headrace.connectors.jdbc.source.window_query import FoundWindow
from headrace.connectors.jdbc.source.windows import Mode, Position, ReadWindow
from headrace.plugins.contracts import Limit, PartitionResult, Plan, Stop
from headrace.plugins.stopping import StopToken

ALL = Limit(1_000_000, 1 << 30)
DIALECT = SqliteDialect()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlalchemy.Connection]:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/test.db")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


class Tables:
    """Some tables of ids, and the planning of a task that has them."""

    def __init__(self, connection: sqlalchemy.Connection, rows: dict[str, int], **settings: str) -> None:
        self.connection = connection
        for name, count in rows.items():
            connection.exec_driver_sql(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY NOT NULL)")
            self.put(name, count)
        given = {"mode": "incrementing", "poll.interval.ms": "0"} | {
            k.replace("_", "."): v for k, v in settings.items()
        }
        self.tables = [SourceTable.of_table(TableId(None, None, name), DIALECT, "") for name in rows]
        self.planning = Planning(parse(given), DIALECT, DIALECT.source_sql(), self.tables, "")
        self.planning.describe(connection, self.tables)
        self.stored: dict[str, Any] = {}

    def put(self, name: str, count: int) -> None:
        numbers = f"WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})"
        if count:
            self.connection.exec_driver_sql(f"INSERT INTO {name} {numbers} SELECT NULL FROM s")

    def plan(self, limit: Limit = ALL, refused: bool = False) -> Plan | None:
        after = [self.stored.get(str(p)) for table in self.planning.due(refused) for p in table.partitions]
        return self.planning.plan(self.connection, after, limit, StopToken())

    def names(self, plan: Plan | None) -> list[str]:
        return [] if plan is None else [split.partition["table"] for split in plan.splits]

    def deliver(self, plan: Plan, stop: Stop | None = None) -> None:
        reached = []
        for split in plan.splits:
            members = {**(split.after or {}), **(split.upto or {})}
            offset = None if stop else {"incrementing": members["incrementing"]}
            if offset:
                self.stored[str(split.partition)] = offset
            reached.append(PartitionResult(source_partition=split.partition, source_offset=offset, stop=stop))
        self.planning.delivered(reached)

    def run(self, limit: Limit = ALL) -> list[list[str]]:
        """The tables of one plan after the other, until there is none."""
        plans = []
        while (plan := self.plan(limit)) is not None:
            plans.append(self.names(plan))
            self.deliver(plan)
        return plans


def test_small_windows_of_many_tables_are_one_plan(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 3, "b": 0, "c": 5})
    plan = tables.plan()
    assert plan is not None
    assert (tables.names(plan), plan.rows) == (["a", "c"], 8)
    tables.deliver(plan)
    assert tables.plan() is None
    tables.put("b", 1)
    assert tables.run() == [["b"]]


def test_large_windows_have_plans_of_their_own_and_small_ones_their_turn(
    connection: sqlalchemy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SMALL_ROWS", 100)
    tables = Tables(connection, {"a": 500, "b": 10, "c": 300, "d": 20})
    assert tables.run(Limit(200, 1 << 30)) == [["b", "d"], ["a", "c"], ["a", "c"], ["a"]]


def test_many_small_ones_are_several_plans(connection: sqlalchemy.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SMALL_ROWS", 100)
    tables = Tables(connection, {f"t{number}": 60 for number in range(3)})
    assert tables.run() == [["t0"], ["t1"], ["t2"]]


def test_what_is_planned_together_is_small_together(
    connection: sqlalchemy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SMALL_ROWS", 100)
    tables = Tables(connection, {f"t{number}": 50 for number in range(3)})
    plans = []
    while (plan := tables.plan()) is not None:
        plans.append(plan.rows)
        tables.deliver(plan)
    assert plans == [50, 50, 50]  # 100 would be a large one


def test_how_large_rows_are_is_asked_where_there_are_many(
    connection: sqlalchemy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(
        SqliteSourceSql, "size", lambda _, __, table, ___: asked.append(str(table)) or (1_000, 10_000_000)
    )
    tables = Tables(connection, {"a": 999, "b": 1_200})
    plan = tables.plan(Limit(1_000_000, 5_000_000))
    assert plan is not None
    assert asked == ["b"]
    assert [(split.partition["table"], split.upto and split.upto["incrementing"]) for split in plan.splits] == [
        ("a", 999)
    ]
    tables.deliver(plan)
    large = tables.plan(Limit(1_000_000, 5_000_000))
    assert large is not None
    assert (large.rows, large.bytes) == (500, 5_000_000)


def busy() -> sqlalchemy.exc.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorname = "SQLITE_BUSY"
    return sqlalchemy.exc.OperationalError("SELECT", None, error)


def test_a_table_that_cannot_be_asked_holds_up_no_other(
    connection: sqlalchemy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(connection, {"a": 1, "b": 1, "c": 1}, query_retry_attempts="1")
    connection.commit()
    ask, _, b = tables.planning._windows.ask, *tables.tables[:2]
    locked = [b, b]

    def asks(connection: Any, table: SourceTable, *more: Any) -> Any:
        if table in locked:
            raise busy()
        return ask(connection, table, *more)

    monkeypatch.setattr(tables.planning._windows, "ask", asks)
    assert tables.run() == [["a", "c"]]
    assert b.due > time.monotonic()
    assert (b.failures, b not in tables.planning.due()) == (1, True)
    locked.clear()
    b.due = 0.0
    assert tables.run() == [["b"]]
    assert b.failures == 0
    locked.append(b)
    tables.run()
    b.due = 0.0
    with pytest.raises(SourceError, match="Failed to query table after retries: 2 failures of b in a row"):
        tables.run()


def test_a_batch_that_the_database_failed_is_taken_apart(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 1, "b": 1, "c": 1}, query_retry_attempts="0")
    assert tables.names(tables.plan()) == ["a", "b", "c"]
    a = tables.plan(refused=True)
    assert a is not None
    assert tables.names(a) == ["a"]
    tables.deliver(a)
    assert tables.names(tables.plan()) == ["b"]
    tables.planning._attempts = 1
    c = tables.plan(refused=True)
    assert c is not None
    assert tables.names(c) == ["c"]
    tables.deliver(c)
    assert tables.plan() is None
    tables.put("a", 1)
    assert tables.run() == [["a"]]
    tables.tables[1].due = 0.0
    assert tables.names(tables.plan()) == ["b"]
    with pytest.raises(SourceError, match="2 failures of b in a row"):
        tables.plan(refused=True)


def test_only_failures_in_a_row_are_counted(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 0}, query_retry_attempts="1")
    for _ in range(3):
        assert tables.plan(refused=True) is None
    tables.planning.due(refused=True)
    with pytest.raises(SourceError, match="after retries: 2 failures in a row"):
        tables.planning.due(refused=True)


def test_windows_that_wait_keep_nobody_from_being_asked(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 1})
    window = FoundWindow(tables.tables[0], ReadWindow(Position()), 1, 1)
    tables.planning._late.waiting = {f"w{number}": WaitingWindow(window, frozenset({"1/1"})) for number in range(100)}
    assert tables.run() == [["a"]]


def test_an_interval_begins_when_the_rows_are_in_kafka(
    connection: sqlalchemy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_000.0]
    tables = Tables(connection, {"a": 1}, poll_interval_ms="60000")
    monkeypatch.setattr(planning, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    plan = tables.plan()
    assert plan is not None
    clock[0] = 2_000.0
    tables.deliver(plan)
    clock[0] = 2_059.0
    assert tables.planning.due() == []
    clock[0] = 2_061.0
    assert tables.planning.due() == tables.tables


@pytest.mark.parametrize(
    ("value", "said"),
    [("abc", "'abc' is no integer"), (1.5, "1.5 is no integer"), (str(2**63), "exceeded Long.MAX_VALUE")],
)
def test_ids_that_no_offset_can_hold(connection: sqlalchemy.Connection, value: Any, said: str) -> None:
    connection.exec_driver_sql("CREATE TABLE odd (id NUMERIC NOT NULL)")
    tables = Tables(connection, {}, incrementing_column_name="id")
    odd = SourceTable.of_table(TableId(None, None, "odd"), DIALECT, "")
    tables.planning.describe(connection, [odd])
    connection.exec_driver_sql("INSERT INTO odd VALUES (1), (?)", (value,))
    with pytest.raises(SourceError, match=re.escape(said)):
        tables.planning._windows.ask(connection, odd, None, ALL)


@pytest.mark.parametrize(
    ("rows", "delay_ms", "counts"),
    [
        # 01:30 and 01:45 for the first time, 01:20 and 01:45 for the second
        (("11-03 01:15", "11-03 01:40"), "0", {"05:30": 0, "05:45": 0, "06:20": 1, "06:45": 2}),
        (("11-03 01:15", "11-03 01:40"), "1800000", {"06:44": 0, "06:46": 1, "07:11": 2}),
        # 03:05, a quarter of an hour after 01:50
        (("03-10 01:50",), "1800000", {"07:05": 0, "07:19": 0, "07:21": 1}),
    ],
)
def test_clocks_that_are_set_lose_no_rows(
    connection: sqlalchemy.Connection,
    monkeypatch: pytest.MonkeyPatch,
    rows: tuple[str, ...],
    delay_ms: str,
    counts: dict[str, int],
) -> None:
    connection.exec_driver_sql("CREATE TABLE a (at TIMESTAMP NOT NULL)")
    for row in rows:
        connection.exec_driver_sql("INSERT INTO a VALUES (?)", (f"2024-{row}",))
    timed = {"mode": "timestamp", "timestamp.column.name": "at", "db.timezone": "America/New_York"}
    tables = Tables(connection, {}, **timed, timestamp_delay_interval_ms=delay_ms)
    table = SourceTable.of_table(TableId(None, None, "a"), DIALECT, "")
    tables.planning.describe(connection, [table])
    found = {}
    for now in counts:
        instant = datetime.fromisoformat(f"2024-{rows[0][:5]} {now}+00:00").timestamp()
        monkeypatch.setattr(SqliteDialect, "now_micros", lambda *_, instant=instant: int(instant) * 1_000_000)
        tables.planning._windows.begin()
        window = tables.planning._windows.ask(connection, table, None, ALL)
        found[now] = 0 if window is None else window.rows
    assert found == counts


def test_what_begins_now_begins_before_an_hour_that_comes_again(
    connection: sqlalchemy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.exec_driver_sql("CREATE TABLE a (at TIMESTAMP NOT NULL)")
    timed = {"mode": "timestamp", "timestamp.column.name": "at", "db.timezone": "America/New_York"}
    tables = Tables(connection, {}, **timed, timestamp_initial="-1")
    table = SourceTable.of_table(TableId(None, None, "a"), DIALECT, "")
    tables.planning.describe(connection, [table])
    found = []
    for now in ("05:30", "07:30"):  # 01:30 for the first time, 02:30
        instant = datetime.fromisoformat(f"2024-11-03 {now}+00:00").timestamp()
        monkeypatch.setattr(SqliteDialect, "now_micros", lambda *_, instant=instant: int(instant) * 1_000_000)
        tables.planning._windows.begin()
        window = tables.planning._windows.ask(connection, table, None, ALL)
        found.append(0 if window is None else window.rows)
        connection.exec_driver_sql("INSERT INTO a VALUES ('2024-11-03 01:20')")
    assert found == [0, 1]


def test_tables_are_asked_until_something_is_found(
    connection: sqlalchemy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_ASK_S", 0.0)
    tables = Tables(connection, {"a": 0, "b": 0, "c": 1, "d": 1})
    assert tables.run() == [["c"], ["d"]]


def test_who_has_waited_longest_comes_first(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 5, "b": 1})
    assert tables.run(Limit(1, 1 << 30)) == [["a", "b"], ["a"], ["a"], ["a"], ["a"]]


def test_a_table_is_asked_once_in_an_interval(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 1, "b": 0}, poll_interval_ms="60000")
    assert tables.run() == [["a"]]
    tables.put("a", 1)
    tables.put("b", 1)
    assert tables.planning.due() == []


def test_what_a_limit_left_is_asked_for_at_once(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 5}, poll_interval_ms="60000")
    assert tables.run(Limit(2, 1 << 30)) == [["a"], ["a"], ["a"]]


@pytest.mark.parametrize("stop", [None, Stop.RETRY])
def test_a_batch_that_failed_comes_again_at_once(connection: sqlalchemy.Connection, stop: Stop | None) -> None:
    tables = Tables(connection, {"a": 5}, poll_interval_ms="60000")
    first = tables.plan()
    assert first is not None
    if stop is not None:
        tables.deliver(first, stop)
    assert tables.plan() == first


def test_only_the_first_load_is_cut(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 5})
    first = tables.plan(Limit(3, 1 << 30))
    assert first is not None
    assert first.splits[0].upto == {"incrementing": 3, "_low": 1}
    tables.deliver(first)
    second = tables.plan()
    assert second is not None
    assert second.splits[0].upto == {"incrementing": 5, "_low": 4}
    tables.deliver(second)
    tables.put("a", 1)
    third = tables.plan()
    assert third is not None
    assert third.splits[0].upto == {"incrementing": 6}


def test_a_restarted_task_reads_on_in_order(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 5})
    tables.stored[str({"protocol": "1", "table": "a"})] = {"incrementing": 2}
    plan = tables.plan()
    assert plan is not None
    assert (plan.splits[0].after, plan.splits[0].upto) == ({"incrementing": 2}, {"incrementing": 5})


def test_a_table_that_is_gone_does_not_hold_up_others(connection: sqlalchemy.Connection) -> None:
    tables = Tables(connection, {"a": 1, "b": 1})
    connection.commit()
    connection.exec_driver_sql("DROP TABLE a")
    assert tables.run() == [["b"]]
    assert [table.name for table in tables.planning.due()] == ["b"]


class Transactions(OpenTransactions):
    """A database's, as any dialect may tell of them."""

    shown_in = "their list"

    def __init__(self) -> None:
        self.writing: frozenset[str] = frozenset()
        self.others: dict[str, bool] = {}
        self.standby = False

    def is_standby(self, connection: Any) -> bool:
        return self.standby

    def writers(self, connection: Any, tables: Collection[str]) -> dict[str, frozenset[str]]:
        return dict.fromkeys(tables, self.writing)

    def all(self, connection: Any) -> dict[str, bool]:
        return self.others


class TellingSql(SourceSql):
    """A stranger's dialect that tells of transactions."""

    def transactions(self) -> Transactions:
        told = Transactions()
        told.writing = frozenset({"1/1"})
        return told


def test_a_window_waits_for_those_who_were_open_and_no_others() -> None:
    told = Transactions()
    late = TransactionWait(SnapshotBound.WRITERS, told)
    table = SourceTable.of_table(TableId(None, "s", "a"), DIALECT, "")
    window = FoundWindow(table, ReadWindow(Position(id=1), Position(id=5)), 4, 40)
    nothing: Any = None
    told.writing = frozenset({"3/1", "4/7"})
    assert late.settled(nothing, [window]) == []
    assert set(late.waiting) == {"s.a"}
    told.writing = frozenset({"4/7", "5/1"})
    assert late.settled(nothing, []) == []
    told.writing = frozenset({"4/7"})
    assert late.settled(nothing, []) == []
    told.writing = frozenset({"5/1", "6/1"})
    assert late.settled(nothing, []) == [window]
    assert late.waiting == {}
    told.writing = frozenset()
    assert late.settled(nothing, [window]) == [window]
    told.writing = frozenset({"7/1"})
    behind = FoundWindow(table, ReadWindow(Position(id=5), late=(Position(id=2),)), 1, 10)
    assert late.settled(nothing, [behind]) == [behind]


def test_long_waits_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    table = SourceTable.of_table(TableId(None, "s", "a"), DIALECT, "")
    waiting = WaitingWindow(FoundWindow(table, ReadWindow(Position()), 1, 1), frozenset({"3/1"}), since=-1000.0)
    with caplog.at_level("INFO"):
        for _ in range(3):
            assert not waiting.ends(frozenset({"3/1"}), Transactions())
    assert caplog.text.count("New rows of s.a wait for 1 open transaction") == 1
    assert "3/1 (their list)" in caplog.text


def test_a_standby_that_knows_of_no_transactions_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    told = Transactions()
    told.standby, told.others = True, {"3/1": False}
    late, nothing = TransactionWait(SnapshotBound.TRANSACTIONS, told), cast(Any, None)
    window = FoundWindow(SourceTable.of_table(TableId(None, "s", "a"), DIALECT, ""), ReadWindow(Position()), 1, 1)
    with caplog.at_level("WARNING"):
        assert [late.settled(nothing, [window]) for _ in range(2)] == [[window], [window]], "who is open only reads"
    assert caplog.text.count("is a standby") == 1
    told.standby = False
    assert late.settled(nothing, [window]) == [], "it was promoted"


@pytest.mark.parametrize(
    ("dialect", "settings", "said"),
    [
        ("mariadb", {"mode": "incrementing"}, "set incrementing.overlap to"),
        ("mariadb", {"mode": "timestamp"}, "set timestamp.delay.interval.ms or timestamp.overlap.ms to"),
        ("mariadb", {"mode": "timestamp+incrementing", "timestamp.overlap.ms": "5000"}, None),
        ("mariadb", {"mode": "incrementing", "incrementing.overlap": "100"}, None),
        ("mariadb", {"mode": "bulk"}, None),
        ("mariadb", {"mode": "timestamp", "snapshot.bound": "none"}, None),
        ("sqlite", {"mode": "incrementing"}, None),
        ("postgresql", {"mode": "incrementing"}, None),
    ],
)
def test_a_database_that_does_not_tell_of_transactions_is_told_of(
    caplog: pytest.LogCaptureFixture, dialect: str, settings: dict[str, str], said: str | None
) -> None:
    values = parse(settings)
    sql = dialect_for(dialect).source_sql()
    TransactionWait.of(values, Mode(values["mode"]), sql)
    assert (sql.transactions() is None) == (dialect != "postgresql")
    assert [said in record.getMessage() for record in caplog.records] == ([] if said is None else [True])


@pytest.mark.parametrize(
    ("bound", "mode", "wanted"),
    [
        (SnapshotBound.AUTO, Mode.INCREMENTING, SnapshotBound.WRITERS),
        (SnapshotBound.AUTO, Mode.TIMESTAMP, SnapshotBound.TRANSACTIONS),
        (SnapshotBound.AUTO, Mode.TIMESTAMP_INCREMENTING, SnapshotBound.TRANSACTIONS),
        (SnapshotBound.AUTO, Mode.BULK, SnapshotBound.NONE),
        (SnapshotBound.TRANSACTIONS, Mode.BULK, SnapshotBound.NONE),
        (SnapshotBound.NONE, Mode.TIMESTAMP, SnapshotBound.NONE),
        (SnapshotBound.WRITERS, Mode.TIMESTAMP, SnapshotBound.WRITERS),
    ],
)
def test_what_is_waited_for(bound: SnapshotBound, mode: Mode, wanted: SnapshotBound) -> None:
    assert bound.of(mode) is wanted


def test_who_only_reads_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Transactions()
    late, nothing = TransactionWait(SnapshotBound.TRANSACTIONS, told), cast(Any, None)
    window = FoundWindow(SourceTable.of_table(TableId(None, "s", "a"), DIALECT, ""), ReadWindow(Position()), 1, 1)
    told.others = {"1/1": True, "2/2": False}
    assert late.settled(nothing, [window]) == []
    assert late.waiting["s.a"].transactions == {"1/1", "2/2"}
    monkeypatch.setattr(transaction_wait, "READS_ONLY_S", 0.0)
    told.others = {"1/1": True, "2/2": False, "3/3": False}
    assert late.settled(nothing, []) == []
    assert late.waiting["s.a"].transactions == {"1/1"}


def test_a_dialect_of_another_package_may_tell_of_transactions(caplog: pytest.LogCaptureFixture) -> None:
    values = parse({"mode": "incrementing"})
    late = TransactionWait.of(values, Mode.INCREMENTING, TellingSql(DIALECT.quoted))
    window = FoundWindow(SourceTable.of_table(TableId(None, "s", "a"), DIALECT, ""), ReadWindow(Position()), 1, 1)
    assert not caplog.records
    assert late.settled(cast(Any, None), [window]) == []
    assert late.waiting["s.a"].transactions == {"1/1"}
