"""Windows of the JDBC source on real databases: what is read when, and what is stored of it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.connectors.jdbc.source.tables import SourceError
from headrace.plugins.contracts import Limit, Place
from headrace.worker.engine.driver import Spark
from tests.integration.databases import Database
from tests.integration.sourcing import Sourcing
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.database, pytest.mark.spark, pytest.mark.long]

TIMES = {"postgresql": "timestamp", "mariadb": "datetime(6)", "sqlite": "timestamp"}


@pytest.fixture
def events(engine: Spark, database: Database) -> Database:
    """A table of ids, times and notes, in each database."""
    time = TIMES[database.kind]
    database.execute(f"CREATE TABLE events (id integer NOT NULL PRIMARY KEY, at {time}, note varchar(50))")
    return database


@pytest.fixture
def pg_events(engine: Spark, postgresql: Database) -> Database:
    postgresql.execute("CREATE TABLE events (id integer NOT NULL PRIMARY KEY, at timestamp, note varchar(50))")
    return postgresql


def put(database: Database, *rows: tuple[int, str | None]) -> None:
    """Rows with these ids at these seconds (and their fractions) of a minute."""
    for id, second in rows:
        at = None if second is None else f"2024-02-29 12:00:{second}"
        database.execute("INSERT INTO events VALUES (:id, :at, 'n')", id=id, at=at)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["id"]) for row in rows]


TIMED = {"mode": "timestamp", "timestamp.column.name": "at", "validate.non.null": "false", "table.whitelist": "events"}
COUNTED = {"mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "events"}


def test_rows_of_equal_times_are_never_parted(events: Database) -> None:
    put(events, (1, "01.5"), (2, "02.000001"), (3, "02.000001"), (4, "02.000001"), (5, "03"), (6, None))
    source = Sourcing(events, **TIMED)
    one = Limit(1, 1)
    assert ids(source.poll(one)) == [1]
    assert source.offset() == {"timestamp": 1709208001500, "timestamp_nanos": 500_000_000}
    assert sorted(ids(source.poll(Limit(2, 1 << 20)))) == [2, 3, 4]
    assert source.offset() == {"timestamp": 1709208002000, "timestamp_nanos": 1_000}
    assert ids(source.poll(one)) == [5]
    assert source.plan() is None
    put(events, (7, "02"), (8, "03"), (9, "03.000001"))
    assert ids(source.poll()) == [9]
    source.task.stop()


def test_changed_rows_come_again_and_new_ones_of_the_same_time_too(events: Database) -> None:
    both = {**TIMED, "mode": "timestamp+incrementing", "incrementing.column.name": "id"}
    source = Sourcing(events, **both)
    put(events, (1, "01"), (2, "02"))
    assert ids(source.poll()) == [1, 2]
    put(events, (3, "02"))
    assert ids(source.poll()) == [3]
    events.execute("UPDATE events SET at = '2024-02-29 12:00:03' WHERE id = 1")
    assert ids(source.poll()) == [1]
    assert source.offset() == {"timestamp": 1709208003000, "timestamp_nanos": 0, "incrementing": 1}
    source.task.stop()


def test_times_are_by_the_clock_of_db_timezone(events: Database) -> None:
    source = Sourcing(events, **TIMED, **{"db.timezone": "America/New_York"})
    put(events, (1, "01.5"))
    assert ids(source.poll()) == [1]
    assert source.offset()["timestamp"] == 1709208001500 + 5 * 3_600_000
    assert source.plan() is None
    put(events, (2, "01.500001"))
    assert ids(source.poll()) == [2]
    source.task.stop()


COARSE = {"postgresql": "timestamp(0)", "mariadb": "datetime", "sqlite": "timestamp"}
NOW = {
    "postgresql": "date_trunc('second', timezone('UTC', clock_timestamp()))",
    "mariadb": "utc_timestamp()",
    "sqlite": "datetime('now')",
}


def test_a_second_is_read_when_it_is_over(engine: Spark, database: Database) -> None:
    database.execute(f"CREATE TABLE events (id integer NOT NULL PRIMARY KEY, at {COARSE[database.kind]} NOT NULL)")
    source, read, written = Sourcing(database, **TIMED), [], 0
    while database.value("SELECT COUNT(DISTINCT at) FROM events") < 3:  # many times in the middle of a second
        written += 1
        database.execute(f"INSERT INTO events VALUES ({written}, {NOW[database.kind]})")
        read += ids(source.poll())
    eventually(lambda: read.extend(ids(source.poll())) or len(read) >= written, 60)
    assert sorted(read) == list(range(1, written + 1))
    source.task.stop()


def test_what_the_clock_has_not_reached_waits(events: Database) -> None:
    source = Sourcing(events, **TIMED, **{"timestamp.delay.interval.ms": "3600000"})
    now = {"postgresql": "localtimestamp", "mariadb": "utc_timestamp(6)", "sqlite": "strftime('%Y-%m-%d %H:%M:%f')"}
    if events.kind == "postgresql":
        events.execute("INSERT INTO events VALUES (1, timezone('UTC', now()), 'n')")
    else:
        events.execute(f"INSERT INTO events VALUES (1, {now[events.kind]}, 'n')")
    put(events, (2, "01"))
    assert ids(source.poll()) == [2]
    assert source.plan() is None
    source.task.stop()
    soon, read = Sourcing(events, **TIMED), []
    eventually(lambda: read.extend(ids(soon.poll())) or len(read) == 2, 60)
    assert read == [2, 1]
    soon.task.stop()


def test_offsets_of_a_confluent_connector_are_taken_over(pg_events: Database) -> None:
    put(pg_events, (1, "01"), (2, "02"), (3, "03"))
    before = Sourcing(pg_events, [({"table": "events"}, {"incrementing": 1})], **COUNTED)
    assert ids(before.poll()) == [2, 3]
    assert before.stored == {
        '{"table": "events"}': {"incrementing": 1},
        '{"protocol": "1", "table": "public.events"}': {"incrementing": 3},
    }
    assert [len(partition) for partition in before.task.partitions()] == [2]
    now = {"protocol": "1", "table": "public.events"}
    both = [(now, {"incrementing": 2}), ({"table": "events"}, {"incrementing": 0})]
    assert ids(Sourcing(pg_events, both, **COUNTED).poll()) == [3]


def test_where_to_begin(pg_events: Database) -> None:
    put(pg_events, (1, "01"), (2, "02"), (3, "03"))
    assert ids(Sourcing(pg_events, **COUNTED, **{"incrementing.initial": "1"}).poll()) == [2, 3]
    assert ids(Sourcing(pg_events, **TIMED, **{"timestamp.initial": "1709208001000"}).poll()) == [2, 3]
    assert Sourcing(pg_events, **TIMED, **{"timestamp.initial": "-1"}).plan() is None


def test_a_bulk_read_is_everything_each_time_and_stores_nothing(events: Database) -> None:
    source = Sourcing(events, **{"mode": "bulk", "table.whitelist": "events"})
    assert source.plan() is None
    put(events, (1, None), (2, "02"))
    for _ in range(2):
        assert sorted(ids(source.poll())) == [1, 2]
    assert source.stored == {}
    source.task.stop()


def test_a_query_may_join_filter_group_and_rename(events: Database) -> None:
    put(events, (1, "01"), (2, "02"), (3, "03"), (4, "03"))
    query = "SELECT e.id AS number, f.note, e.at FROM events e JOIN events f ON f.id = e.id WHERE e.id <> 2 -- not this"
    source = Sourcing(events, **{"query": query, "mode": "incrementing", "incrementing.column.name": "number"})
    assert [int(row["number"]) for row in source.poll(Limit(2, 1 << 20))] == [1, 3]
    assert source.stored == {'{"query": "query"}': {"incrementing": 3}}
    assert [list(row) for row in source.poll()] == [["number", "note", "at"]]
    assert source.plan() is None
    source.task.stop()
    bulk = Sourcing(events, query="SELECT count(*) AS many FROM events;", mode="bulk")
    assert bulk.task.place is (Place.WORKER_HOST if events.kind == "sqlite" else Place.ANYWHERE)
    assert [int(row["many"]) for row in bulk.poll()] == [4]
    bulk.task.stop()


def test_a_suffix_may_cut_the_result_but_no_time_in_two(events: Database) -> None:
    put(events, (1, "01"), (2, "02"), (3, "02"), (4, "03"))
    three = Sourcing(events, **TIMED, **{"query.suffix": "LIMIT 3"})
    assert three.task.place is Place.WORKER_PROCESS  # a job would not know of it
    assert ids(three.poll()) == [1]
    assert sorted(ids(three.poll())) == [2, 3, 4]
    assert three.plan() is None
    three.task.stop()
    one = Sourcing(events, **TIMED, **{"query.suffix": "LIMIT 1"})
    assert [sorted(ids(one.poll())) for _ in range(3)] == [[1], [2, 3], [4]]
    assert one.plan() is None
    one.task.stop()


def test_columns_are_those_of_now(events: Database) -> None:
    source = Sourcing(events, **COUNTED)
    put(events, (1, "01"))
    assert [list(row) for row in source.poll()] == [["id", "at", "note"]]
    events.execute("ALTER TABLE events ADD COLUMN more integer", "INSERT INTO events (id, more) VALUES (2, 7)")
    assert [(int(row["id"]), int(row["more"])) for row in source.poll()] == [(2, 7)]
    events.execute("ALTER TABLE events DROP COLUMN note", "INSERT INTO events (id, more) VALUES (3, 8)")
    assert [list(row) for row in source.poll()] == [["id", "at", "more"]]
    source.task.stop()


def test_a_table_that_is_gone_is_passed_over(pg_events: Database) -> None:
    pg_events.execute("CREATE TABLE others (id integer PRIMARY KEY)", "INSERT INTO others VALUES (1)")
    source = Sourcing(pg_events, **{**COUNTED, "table.whitelist": "events,others"})
    pg_events.execute("DROP TABLE events")
    assert ids(source.poll()) == [1]


def test_late_rows_are_found_within_the_overlap_and_none_comes_twice(events: Database) -> None:
    source = Sourcing(events, **COUNTED, **{"incrementing.overlap": "10"})
    put(events, *((id, "01") for id in range(1, 31) if id not in (5, 25, 27)))
    assert len(source.poll()) == 27
    assert source.plan() is None
    put(events, (5, "01"), (25, "01"))
    assert ids(source.poll()) == [25]
    assert source.offset() == {"incrementing": 30}
    assert source.plan() is None
    put(events, (27, "01"), (31, "01"))
    assert ids(source.poll()) == [27]
    assert ids(source.poll()) == [31]
    assert source.plan() is None
    source.task.stop()


@pytest.mark.parametrize("counted", [False, True])
def test_late_rows_by_time(events: Database, counted: bool) -> None:
    both = {"mode": "timestamp+incrementing", "incrementing.column.name": "id"} if counted else {}
    source = Sourcing(events, **{**TIMED, **both, "timestamp.overlap.ms": "2000"})
    put(events, (1, "01"), (2, "02"), (3, "04"))
    assert ids(source.poll()) == [1, 2, 3]
    put(events, (4, "01.5"), (5, "03"))
    assert ids(source.poll()) == [5]
    assert source.offset()["timestamp"] == 1709208004000
    put(events, (6, "03"))
    assert ids(source.poll()) == ([6] if counted else [5, 6])
    assert source.plan() is None
    source.task.stop()


def test_an_overlap_of_too_many_rows_is_refused(pg_events: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.jdbc.source.overlap_rows.MOST_KEYS", 3)
    put(pg_events, *((id, "01") for id in range(1, 6)))
    source = Sourcing(pg_events, **COUNTED, **{"incrementing.overlap": "100"})
    with pytest.raises(SourceError, match=r"incrementing\.overlap covers more than 3 rows"):
        source.plan()


def test_rows_wait_for_who_may_commit_before_them(pg_events: Database) -> None:
    source = Sourcing(pg_events, **COUNTED)
    with pg_events.engine.connect() as slow, pg_events.engine.connect() as elsewhere:
        slow.exec_driver_sql("INSERT INTO events VALUES (1)")
        elsewhere.exec_driver_sql("CREATE TABLE other ()")
        put(pg_events, (2, "01"))
        assert source.plan() is None
        assert source.plan() is None
        slow.commit()
        assert ids(source.poll()) == [1, 2]
        elsewhere.rollback()
    assert ids(Sourcing(pg_events, **COUNTED, **{"snapshot.bound": "none"}).poll()) == [1, 2]


def test_who_begins_later_is_not_waited_for(pg_events: Database) -> None:
    source = Sourcing(pg_events, **COUNTED)
    with pg_events.engine.connect() as first, pg_events.engine.connect() as second:
        first.exec_driver_sql("INSERT INTO events VALUES (1)")
        put(pg_events, (2, "01"))
        assert source.plan() is None
        second.exec_driver_sql("INSERT INTO events VALUES (3)")
        first.commit()
        assert ids(source.poll()) == [1, 2]
        second.rollback()


def test_by_time_whoever_may_yet_write_is_waited_for_too(pg_events: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Sourcing(pg_events, **TIMED, **{"snapshot.bound": "auto"})
    with pg_events.engine.connect() as other:
        other.exec_driver_sql("SELECT 1")
        put(pg_events, (1, "01"))
        assert source.plan() is None
        monkeypatch.setattr("headrace.connectors.jdbc.source.transaction_wait.READS_ONLY_S", 0.0)
        assert ids(source.poll()) == [1]


def test_a_view_waits_for_writers_of_any_table(pg_events: Database) -> None:
    pg_events.execute("CREATE VIEW seen AS SELECT * FROM events")
    of_view = {**COUNTED, "table.whitelist": "seen", "table.types": "VIEW", "validate.non.null": "false"}
    source = Sourcing(pg_events, **of_view)
    with pg_events.engine.connect() as slow:
        slow.exec_driver_sql("INSERT INTO events VALUES (1)")
        put(pg_events, (2, "01"))
        assert source.plan() is None
        slow.commit()
    assert ids(source.poll()) == [1, 2]


@pytest.mark.parametrize(
    "tables",
    [
        (
            "CREATE TABLE events (id integer NOT NULL, at timestamp, note text) PARTITION BY RANGE (id)",
            "CREATE TABLE parts PARTITION OF events FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id)",
            "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (100)",
        ),
        (
            "CREATE TABLE events (id integer NOT NULL, at timestamp, note text)",
            "CREATE TABLE part (more text) INHERITS (events)",
        ),
    ],
    ids=["partitioned", "inherited"],
)
def test_parts_of_a_table_have_writers_too(engine: Spark, postgresql: Database, tables: tuple[str, ...]) -> None:
    postgresql.execute(*tables)
    source = Sourcing(postgresql, **COUNTED)
    with postgresql.engine.connect() as slow:
        slow.exec_driver_sql("INSERT INTO part VALUES (1)")
        put(postgresql, (2, "01"))
        assert source.plan() is None
        slow.commit()
    assert ids(source.poll()) == [1, 2]
