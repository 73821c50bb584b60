"""Rows that come behind a source's position: each is found once, whatever happens between looking and reading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.source import overlap_rows
from headrace.connectors.jdbc.source.splits import AGAIN, LATE
from headrace.connectors.jdbc.source.tables import SourceError, SourceTable
from headrace.plugins.contracts import PartitionResult, Plan, Stop
from tests.unit.connectors.jdbc.source.test_planning import DIALECT, Tables


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    """Ids 1 to 4, 7 and 9, all of them read; the overlap is 10."""
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/test.db")
    with engine.connect() as connection:
        made = Tables(connection, {"a": 4}, incrementing_overlap="10")
        insert(made, 7, 9)
        assert made.run() == [["a"]]
        yield made
    engine.dispose()


def insert(tables: Tables, *ids: int) -> None:
    for number in ids:
        tables.connection.exec_driver_sql(f"INSERT INTO a VALUES ({number})")


def planning_of(connection: sqlalchemy.Connection, name: str, **settings: str) -> Tables:
    """A task that begins with a table that is there already."""
    made = Tables(connection, {}, **settings)
    made.planning.tables = (SourceTable.of_table(TableId(None, None, name), DIALECT, ""),)
    made.planning.describe(connection, made.planning.tables)
    return made


def planned(plan: Plan | None) -> Any:
    """Return what the only split says of its rows."""
    assert plan is not None
    (split,) = plan.splits
    return split.upto


def test_a_late_row_is_planned_once(tables: Tables) -> None:
    insert(tables, 5)
    plan = tables.plan()
    assert planned(plan) == {LATE: [[None, 5]]}
    tables.deliver(plan)  # type: ignore[arg-type]
    assert tables.plan() is None


def test_a_row_that_comes_after_it_was_looked_for_is_found_next_time(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = tables.planning._late

    def settled(_: Any, found: Any) -> list[Any]:
        windows = list(found)  # its window waits for open transactions: meanwhile one of them commits
        insert(tables, 5)
        return windows

    insert(tables, 11)
    with monkeypatch.context() as patched:
        patched.setattr(late, "settled", settled)
        plan = tables.plan()
    assert planned(plan) == {"incrementing": 11}
    tables.deliver(plan)  # type: ignore[arg-type]
    assert planned(tables.plan()) == {LATE: [[None, 5]]}


def test_late_rows_that_kafka_took_in_part_come_again(tables: Tables) -> None:
    insert(tables, 5, 6)
    plan = tables.plan()
    assert plan is not None
    (split,) = plan.splits
    stopped = PartitionResult(
        source_partition=split.partition, source_offset={"incrementing": 9}, written=1, stop=Stop.RETRY
    )
    tables.planning.delivered([stopped])
    assert planned(tables.plan()) == {LATE: [[None, 5], [None, 6]]}


def test_after_a_restart_the_stretch_comes_again_at_once(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.jdbc.source.overlap_rows.MOST_LATE", 2)
    after = planning_of(tables.connection, "a", incrementing_overlap="5")
    after.stored = tables.stored
    plan = after.plan()
    assert plan is not None
    assert (planned(plan), plan.rows) == ({AGAIN: [None, 4]}, 2)
    after.deliver(plan)
    assert after.plan() is None


def test_a_stretch_of_too_many_rows_is_told_of_without_the_query(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(tables, 5)
    tables.tables[0].source = "(SELECT id FROM a WHERE 'secret' <> '') t"
    monkeypatch.setattr(overlap_rows, "MOST_KEYS", 2)
    with pytest.raises(SourceError, match="covers more than 2 rows of a; make it smaller"):
        tables.plan()


def test_what_was_read_by_time_is_known_from_the_first_load_on(tmp_path: Path) -> None:
    timed = {"mode": "timestamp", "timestamp_column_name": "at", "timestamp_overlap_ms": "60000"}
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/test.db")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE b (id INTEGER PRIMARY KEY, at INTEGER NOT NULL)")
        connection.exec_driver_sql("INSERT INTO b VALUES (1, 1000), (2, 2000), (3, 2000)")
        made = planning_of(connection, "b", **timed)
        plan = made.plan()
        assert plan is not None
        (split,) = plan.splits
        reached = {"timestamp": 2000, "timestamp_nanos": 0}
        made.stored[str(split.partition)] = reached
        made.planning.delivered([PartitionResult(source_partition=split.partition, source_offset=reached)])
        assert made.plan() is None
    engine.dispose()
