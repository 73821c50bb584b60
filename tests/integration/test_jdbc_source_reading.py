"""Reading by the JVM, inline and in a job: the same rows, whatever their types; large tables in pieces."""

from __future__ import annotations

import datetime as dt
import json
import re
import sqlite3
import threading
import traceback
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import Place, Plan, RetriableError
from headrace.plugins.extensions import FrameReader
from headrace.plugins.schema import DATE, DECIMAL
from headrace.worker.engine.driver import Spark
from tests.integration.databases import PASSWORD, Database
from tests.integration.sourcing import Sourcing

pytestmark = [pytest.mark.database, pytest.mark.spark]

UTC = dt.UTC
AT = dt.datetime(2024, 7, 1, 12, 30, 15, 123_456, UTC)


class Bad(str):
    """The error text for a value that cannot be carried."""


VALUES: dict[str, list[tuple[str, str, Any]]] = {
    "postgresql": [
        ("numeric(10,2)", "-12345678.90", Decimal("-12345678.90")),
        ("numeric(10,2)", "'NaN'", Bad("is NaN, which no Decimal is: a FLOAT64 holds it")),
        ("numeric", "0.1234567890123456780", Decimal("0.123456789012345678")),
        (
            "numeric",
            "0.1234567890123456789",
            Bad("has 19 digits after the point, for 18 of which its Decimal has room: 0.1234567890123456789 ("),
        ),
        (
            "numeric",
            "1e25",
            Bad("has 26 digits before the point, for 20 of which its Decimal has room: 10000000000000000000000000 ("),
        ),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("real", "'NaN'", "nan"),
        ("double precision", "'-Infinity'", float("-inf")),
        ("date", "'0001-01-01'", dt.date(1, 1, 1)),
        ("date", "'infinity'", Bad("is infinite")),
        ("time", "'24:00'", 86_400_000),
        ("timestamp", "'2024-07-01 12:30:15.123456'", AT),
        ("timestamp", "'-infinity'", Bad("is infinite")),
        ("timestamp", "'294276-12-31'", Bad("is infinite, or beyond the year 294246")),
        ("timestamptz", "'294276-12-31'", Bad("is infinite, or beyond the year 294246")),
        ("timestamptz", "'2024-07-01 14:30:15.123456+02'", AT),
        ("text", "NULL", None),
        ("boolean", "true", True),
        ("bytea", "'\\x00ff'", b"\x00\xff"),
        ("numeric(50,10)", "12345678901234567890123456789.5", Bad("has 29 digits before the point, for 28 of which")),
        ("numeric", "0.00000000000000000001", Bad("has 20 digits after the point, for 18 of which its Decimal has")),
        ("uuid", "'0f8fad5b-d9cb-469f-a165-70867728950e'", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("integer[]", "'{1,NULL}'", [1, None]),
        ("integer[]", "'{{1},{2}}'", Bad("is an array of several dimensions")),
        ("bytea[]", "'{\"\\\\x00ff\"}'", [b"\x00\xff"]),
        ("timestamptz[]", "'{2024-07-01 12:30:15.123456+00}'", [AT]),
        ("date[]", "'{infinity}'", Bad("has an element that is no Date: [-9223372036854775808]")),
        ("float8[]", "'{NaN,1}'", ["nan", 1.0]),
    ],
    "mariadb": [
        ("decimal(65,10)", "-12345678.9", Decimal("-12345678.9")),
        ("decimal(65,10)", "1e50", Bad("has 51 digits before the point, for 28 of which its Decimal has room: 100")),
        ("bigint unsigned", "9223372036854775807", 2**63 - 1),
        ("bigint unsigned", "9223372036854775808", Bad("is 9223372036854775808, which is no INT64")),
        ("float", "16777217", 16777216.0),
        ("float", "0.1", 0.10000000149011612),
        ("datetime(6)", "'2024-07-01 12:30:15.123456'", AT),
        ("datetime", "'0000-00-00'", Bad("is a date of zeros")),
        ("date", "'1582-10-04'", dt.date(1582, 10, 4)),
        ("time(6)", "'23:59:59.999999'", 86_399_999),
        ("time", "'-01:00:00'", Bad("is -3600000000 microseconds since midnight, which is no time of day")),
        ("time", "'25:00:00'", Bad("is 90000000000 microseconds since midnight")),
        ("tinyint(1)", "2", 2),
        ("year(2)", "99", dt.date(1999, 1, 1)),
        ("year(2)", "5", dt.date(2005, 1, 1)),
        ("year", "5", dt.date(2005, 1, 1)),
        ("text", "NULL", None),
    ],
    "sqlite": [
        ("INTEGER", "9223372036854775807", 2**63 - 1),
        ("INTEGER", "'abc'", Bad("has a text of 3 characters, which is no INT64")),
        ("INTEGER", "1.5", Bad("is 1.5, which is no INT64")),
        ("TINYINT", "300", Bad("is 300, which is no INT8")),
        ("REAL", "0.1", 0.1),
        ("REAL", "9e999", float("inf")),
        ("DECIMAL(10,2)", "0.1", Decimal("0.10")),
        ("DECIMAL(10,2)", "0.125", Bad("has 3 digits after the point, for 2 of which its Decimal has room: 0.125 (")),
        ("NUMERIC", "1e-20", Bad("is 1.0e-20, which needs more than the 38 digits of a Decimal, 18 of them after the")),
        ("NUMERIC", "1e-5", Decimal("0.00001")),
        ("DECIMAL(10,2)", "1e-5", Bad("is 1.0e-05, which needs more")),
        ("NUMERIC", "1e19", Decimal("1e19")),
        ("NUMERIC", "1e25", Bad("is 1.0e+25, which needs more")),
        ("BOOLEAN", "'true'", True),
        ("BOOLEAN", "'perhaps'", Bad("has a text of 7 characters, which is no BOOLEAN")),
        ("DATE", "'2024-02-29'", dt.date(2024, 2, 29)),
        ("DATE", "'soon'", Bad("is neither a text as SQLite")),
        ("DATE", "x'00'", Bad("is neither a text as SQLite")),
        ("TIME", "x'00'", Bad("is neither a text as SQLite")),
        ("TIMESTAMP", "'2024-07-01 12:30:15.123456'", AT),
        ("TIMESTAMP", "'2024-07-01T14:30:15.123456+02:00'", AT),
        ("TIMESTAMP", "1719837015123", AT.replace(microsecond=123_000)),
        ("TIMESTAMP", "-1", dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
        ("TIMESTAMP", "'yesterday'", Bad("is neither a text as SQLite")),
        ("TIMESTAMP", "x'00'", Bad("is neither a text as SQLite")),
        ("TEXT", "NULL", None),
    ],
}


def frame_of(spark: SparkSession, source: Sourcing, plan: Plan) -> Any:
    reader = source.task.reader(plan)
    assert isinstance(reader, FrameReader)
    return reader.frame(spark, 0).withColumn("split", F.lit(0))


def plain(value: Any) -> Any:
    """A value with NaN and moments such that they can be compared."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value


def test_every_value_is_carried_or_its_row_marked_here_as_there(spark: SparkSession, database: Database) -> None:
    cases = VALUES[database.kind]
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _, _) in enumerate(cases))
    database.execute(f"CREATE TABLE one (id integer PRIMARY KEY NOT NULL, {columns})")
    lenient = ["SET sql_mode = ''"] if database.kind == "mariadb" else []
    for number, (_, value, _) in enumerate(cases):
        literal = value.replace(":", "\\:")
        database.execute(*lenient, f"INSERT INTO one (id, c{number}) VALUES ({number}, {literal})")
    source = Sourcing(database, **{"mode": "incrementing", "table.whitelist": "one"}, incrementing_column_name="id")
    plan = source.plan()
    assert plan is not None
    reader = source.task.reader(plan)
    here = [row for batch in reader.read(0) for row in batch.to_pylist()]
    frame = frame_of(spark, source, plan)
    there = [row.asDict(recursive=True) for row in frame.drop("split").collect()]
    assert [{k: plain(v) for k, v in row.items()} for row in there] == [
        {k: plain(v) for k, v in row.items()} for row in here
    ]
    records = source.task.records_of(frame, plan.splits[0].shape)
    made = {row["source_offset"]["incrementing"]: row for row in records.frame.collect()}
    for number, (kind, text, wanted) in enumerate(cases):
        error, value = made[number]["error"], plain(made[number]["value_0"][f"c{number}"])
        if isinstance(wanted, Bad):
            assert error is not None, (kind, text, value)
            assert error["stage"] == "TASK_POLL"
            said = rf"Row id={number} of (\S+\.)?one: column c{number} {re.escape(wanted)}"
            assert re.match(said, error["message"]), error
            assert f'"c{number}":' in made[number]["as_read"]
        else:
            assert (error, value, made[number]["as_read"]) == (None, wanted, None), (kind, text)
    source.task.stop()


def test_all_that_is_wrong_with_a_row_is_said_and_a_hidden_query_is_not_quoted(
    spark: SparkSession, postgresql: Database
) -> None:
    postgresql.execute(
        "CREATE TABLE one (who text, n numeric(50,10), d date, PRIMARY KEY (who, d))",
        f"INSERT INTO one VALUES ('{'x' * 60}', '{'9' * 40}.5', 'infinity')",
    )

    def row(**settings: str) -> Row:
        source = Sourcing(postgresql, mode="bulk", **settings)
        plan = source.plan()
        assert plan is not None
        (found,) = source.task.records_of(frame_of(spark, source, plan), plan.splits[0].shape).frame.collect()
        source.task.stop()
        return found

    shown = row(table_whitelist="one")
    assert shown.error.message == (
        f"Row who={'x' * 50}…, d=null of public.one: column n has 40 digits before the point, for 28 of which its "
        f"Decimal has room: {'9' * 40}.500000000… (numeric.long.mapping=string carries it); "
        "column d is infinite, or beyond the year 294246"
    )
    assert json.loads(shown.as_read) == {"who": "x" * 60, "n": "9" * 40 + ".5000000000", "d": None}
    hidden = row(**{"query.masked": "SELECT * FROM one"}).error.message
    assert hidden == f"A row of query: column n holds no {DECIMAL}; column d holds no {DATE}"
    carried = row(
        query="SELECT n, 'NaN'::numeric AS nan, '1e-20'::numeric AS m FROM one", numeric_long_mapping="string"
    )
    assert tuple(carried.value_0) == ("9" * 40 + ".5000000000", "NaN", "0.00000000000000000001")


@pytest.mark.long
@pytest.mark.parametrize(("behavior", "year_one"), [("convertToNull", False), ("round", True)])
def test_dates_of_zeros_become_what_the_url_says(
    spark: SparkSession, mariadb: Database, behavior: str, year_one: bool
) -> None:
    mariadb.execute(
        "SET sql_mode = ''",
        "CREATE TABLE one (id int PRIMARY KEY, d date NOT NULL, t datetime(6) NOT NULL, s timestamp NOT NULL,"
        " c time NOT NULL, n date)",
        "INSERT INTO one VALUES (1, 0, 0, 0, 0, NULL), (2, '2024-00-15', 20240102, 20240102, 0, NULL)",
    )
    source = Sourcing(mariadb, mode="bulk", table_whitelist="one", connection_zeroDateTimeBehavior=behavior)
    plan = source.plan()
    assert plan is not None
    records = source.task.records_of(frame_of(spark, source, plan), plan.splits[0].shape).frame
    good, bad = records.selectExpr("error", "to_json(value_0) AS value").orderBy("value_0.id").collect()
    dates = {"d": "0001-01-01", **dict.fromkeys("ts", "0001-01-01T00:00:00.000Z")} if year_one else {}
    assert (good.error, json.loads(good.value)) == (None, {"id": 1, **dates, "c": 0})
    assert bad.error is not None  # a day of no month is no date of zeros
    source.task.stop()


@pytest.mark.long
def test_a_query_of_any_type_is_read_by_a_job(spark: SparkSession, mariadb: Database) -> None:
    mariadb.execute(
        "CREATE TABLE one (a uuid, b inet6, c char(5), d enum('x'), e binary(2), f point, g json)",
        "INSERT INTO one VALUES ('0f8fad5b-d9cb-469f-a165-70867728950e', '\\:\\:1', 'ab', 'x', 'y', POINT(1, 1), '{}')",
    )
    source = Sourcing(mariadb, query="SELECT * FROM one", mode="bulk")
    plan = source.plan()
    assert plan is not None
    (there,) = frame_of(spark, source, plan).drop("source_offset", "split").collect()
    (here,) = source.read(plan)
    assert [plain(value) for value in there] == list(here.values())
    assert list(here.values())[:5] == ["0f8fad5b-d9cb-469f-a165-70867728950e", "::1", "ab", "x", b"y\0"]
    source.task.stop()


def test_a_question_mark_in_a_query_is_no_parameter(engine: Spark, postgresql: Database) -> None:
    postgresql.execute("CREATE TABLE one (d jsonb)", "INSERT INTO one VALUES ('[\"a\"]'), ('[\"b\"]')")
    source = Sourcing(postgresql, query="SELECT d FROM one WHERE d ? 'a' -- why?", mode="bulk")
    assert source.task.place is Place.WORKER_PROCESS  # Spark would have it prepared
    assert source.poll() == [{"d": '["a"]'}]
    source.task.stop()


def test_a_hidden_query_is_in_no_plan_and_no_error(engine: Spark, database: Database) -> None:
    failing = {"postgresql": "1 / (id - 1)", "mariadb": "exp(id * 1000)", "sqlite": "abs(-9223372036854775807 - id)"}
    hidden = f"SELECT 'geheim' AS g, {failing[database.kind]} AS x FROM (SELECT 1 AS id) geheim"
    source = Sourcing(database, **{"query.masked": hidden, "mode": "bulk"})
    assert source.task.place is Place.WORKER_PROCESS  # Spark's plans show it
    with pytest.raises(Exception, match="it refuses the hidden query") as failed:
        source.poll()
    assert "geheim" not in "".join(traceback.format_exception(failed.value))
    source.task.stop()


def test_names_are_what_they_are(spark: SparkSession, sqlite: Database) -> None:
    names = ["it's", "${spark.app.name}", "a\\nb", 'say "so"', "$1", "x.y"]
    columns = ", ".join('"{}" TEXT'.format(name.replace('"', '""')) for name in names)
    sqlite.execute(f"CREATE TABLE odd ({columns})".replace(":", "\\:"), "INSERT INTO odd DEFAULT VALUES")
    source = Sourcing(sqlite, mode="bulk", table_whitelist="odd")
    plan = source.plan()
    assert plan is not None
    assert source.task.place is Place.WORKER_HOST
    (row,) = source.task.records_of(frame_of(spark, source, plan), plan.splits[0].shape).frame.collect()
    assert (row["topic"], list(row["value_0"].asDict())) == ("odd", names)
    source.task.stop()


SESSIONS = {
    "postgresql": (
        "SELECT current_setting('TimeZone') AS zone, current_setting('transaction_isolation') || ' '"
        " || current_setting('idle_in_transaction_session_timeout') AS level",
        ("UTC", "repeatable read 0"),
    ),
    "mariadb": (
        "SELECT TIMESTAMPDIFF(HOUR, UTC_TIMESTAMP(), NOW()) AS zone, @@session.tx_isolation AS level",
        (0, "REPEATABLE-READ"),
    ),
    "sqlite": ("SELECT 'UTC' AS zone, 'any' AS level", ("UTC", "any")),
}


def test_each_session_has_its_isolation_level_and_utc(spark: SparkSession, database: Database) -> None:
    query, wanted = SESSIONS[database.kind]
    if database.kind == "mariadb":
        database.execute("SET GLOBAL time_zone = '+05:00'")
    if database.kind == "postgresql":
        database.execute(f"ALTER DATABASE {database.url.database} SET idle_in_transaction_session_timeout = '1h'")
    ways = {"connection.timezone": "+05:00", "connection.sessionVariables": "time_zone='+05:00'"}
    source = Sourcing(database, **ways, query=query, mode="bulk", transaction_isolation_mode="REPEATABLE_READ")
    plan = source.plan()
    assert plan is not None
    there = frame_of(spark, source, plan).select("c0", "c1").collect()
    assert [tuple(row.values()) for row in source.read(plan)] == [tuple(row) for row in there] == [wanted]
    with source.task._database.connect() as connection:
        assert tuple(connection.exec_driver_sql(query).one()) == wanted
    source.task.stop()
    if database.kind == "mariadb":
        database.execute("SET GLOBAL time_zone = '+00:00'")


@pytest.mark.long
@pytest.mark.parametrize(
    ("granularity", "wanted"),
    [
        ("micros_long", 1719837015123456),
        ("nanos_long", 1719837015123456000),
        ("micros_string", "1719837015123456"),
        ("micros_iso_datetime_string", "2024-07-01T08:30:15.123456"),
        ("nanos_iso_datetime_string", "2024-07-01T08:30:15.123456000"),
    ],
)
def test_granularity_and_zone(spark: SparkSession, postgresql: Database, granularity: str, wanted: Any) -> None:
    postgresql.execute(
        "CREATE TABLE one (id integer PRIMARY KEY, shown timestamp, instant timestamptz)",
        "INSERT INTO one VALUES (1, '2024-07-01 08\\:30\\:15.123456', '2024-07-01 14\\:30\\:15.123456+02')",
    )
    zone = {"db.timezone": "America/New_York", "timestamp.granularity": granularity, "table.whitelist": "one"}
    source = Sourcing(postgresql, **zone, mode="bulk")
    plan = source.plan()
    assert plan is not None
    records = source.task.records_of(frame_of(spark, source, plan), plan.splits[0].shape)
    (row,) = records.frame.collect()
    assert (row["value_0"]["shown"], row["value_0"]["instant"]) == (wanted, wanted)


MANY = 60_000


def fill(database: Database) -> None:
    kinds = {"postgresql": "timestamp", "mariadb": "datetime(6)", "sqlite": "timestamp"}
    series = {
        "postgresql": f"SELECT g AS n FROM generate_series(1, {MANY}) g",
        "mariadb": f"SELECT seq AS n FROM seq_1_to_{MANY}",
        "sqlite": f"WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {MANY}) SELECT n FROM s",
    }
    later = {
        "postgresql": "timestamp '2024-01-01' + (n / 7) * interval '1 second'",
        "mariadb": "timestampadd(second, n div 7, '2024-01-01')",
        "sqlite": "datetime('2024-01-01', (n / 7) || ' seconds')",
    }
    database.execute(
        f"CREATE TABLE many (id integer PRIMARY KEY NOT NULL, at {kinds[database.kind]} NOT NULL, note varchar(20))",
        f"INSERT INTO many SELECT n * 3, {later[database.kind]}, 'note' FROM ({series[database.kind]}) s",
    )


MODES = {
    "bulk": {"mode": "bulk"},
    "incrementing": {"mode": "incrementing", "incrementing.column.name": "id"},
    "timestamp": {"mode": "timestamp", "timestamp.column.name": "at"},
}


@pytest.mark.parametrize(
    "mode", ["incrementing", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("bulk", "timestamp"))]
)
def test_a_large_table_is_read_in_pieces_first(spark: SparkSession, database: Database, mode: str) -> None:
    fill(database)
    source = Sourcing(database, **MODES[mode], table_whitelist="many")
    plan = source.plan()
    assert plan is not None
    assert 0.5 * MANY <= plan.rows <= 2 * MANY
    frame = frame_of(spark, source, plan)
    parts = [list(part) for part in frame.rdd.glom().collect()]
    assert len(parts) == 2 * 4  # cores and pieces a core
    assert max(map(len, parts)) < MANY / 3
    rows = [row for part in parts for row in part]
    assert sorted(int(row["c0"]) for row in rows) == [3 * (n + 1) for n in range(MANY)]
    if mode == "bulk":
        assert {row["source_offset"] for row in rows} == {None}
    else:
        offsets = [tuple(row["source_offset"]) for row in rows]
        assert offsets == sorted(offsets)
        ends = [part[-1]["source_offset"] for part in parts if part]
        begins = [part[0]["source_offset"] for part in parts if part]
        assert all(end != begin for end, begin in zip(ends, begins[1:], strict=False))
    source.task.stop()


def test_later_windows_are_read_in_order_as_one(spark: SparkSession, postgresql: Database) -> None:
    fill(postgresql)
    stored = [({"protocol": "1", "table": "public.many"}, {"incrementing": 6})]
    source = Sourcing(postgresql, stored, **MODES["incrementing"], table_whitelist="many")
    plan = source.plan()
    assert plan is not None
    frame = frame_of(spark, source, plan)
    assert frame.rdd.getNumPartitions() == 1
    ids: list[Row] = frame.select("c0").collect()
    assert [row["c0"] for row in ids] == [3 * (n + 1) for n in range(2, MANY)]


def test_a_bulk_read_sees_one_moment_though_rows_move(spark: SparkSession, postgresql: Database) -> None:
    fill(postgresql)
    source = Sourcing(postgresql, **MODES["bulk"], table_whitelist="many")
    plan = source.plan()
    assert plan is not None
    frame = frame_of(spark, source, plan)
    # Every row moves to another block before, and while, it is read.
    postgresql.execute("UPDATE many SET note = 'moved'")
    with _in_background(lambda: postgresql.execute("UPDATE many SET note = 'again'")):
        rows = frame.select("c0", "c2").collect()
    assert sorted(row["c0"] for row in rows) == [3 * (n + 1) for n in range(MANY)]
    assert {row["c2"] for row in rows} == {"note"}
    source.task.stop()


def test_a_planned_bulk_read_of_sqlite_locks_out_no_writer(spark: SparkSession, sqlite: Database) -> None:
    sqlite.execute("PRAGMA journal_mode = DELETE")  # as most files are; a writer waits until no reader is left
    fill(sqlite)
    source = Sourcing(sqlite, **MODES["bulk"], table_whitelist="many")
    plan = source.plan()
    assert plan is not None
    frame = frame_of(spark, source, plan)
    with closing(sqlite3.connect(str(sqlite.url.database), timeout=0)) as writer:
        writer.execute("UPDATE many SET note = 'written' WHERE id = 3")
        writer.commit()
    assert frame.count() == MANY
    source.task.stop()


def test_wide_rows_are_fetched_a_few_at_a_time_unless_it_is_said_how_many(engine: Spark, postgresql: Database) -> None:
    postgresql.execute(
        "CREATE TABLE many (id integer PRIMARY KEY, note text)",
        "INSERT INTO many SELECT n, repeat(md5(n::text), 40) FROM generate_series(1, 2000) n",
        "ANALYZE many",
    )
    fetched = []
    for batch in ({}, {"batch.max.rows": "7000"}):
        source = Sourcing(postgresql, **MODES["incrementing"], table_whitelist="many", **batch)
        plan = source.plan()
        assert plan is not None
        reader: Any = source.task.reader(plan)
        fetched += [one.fetch_size for one in reader.readings]
        source.task.stop()
    assert 200 < fetched[0] < 350
    assert fetched[1] == 7_000


def test_one_range_is_in_order(spark: SparkSession, database: Database) -> None:
    fill(database)
    source = Sourcing(database, **MODES["incrementing"], table_whitelist="many", parallel_ranges="1")
    plan = source.plan()
    assert plan is not None
    frame = frame_of(spark, source, plan)
    assert frame.rdd.getNumPartitions() == 1
    ids = [int(row["c0"]) for row in frame.select("c0").collect()]
    assert ids == [3 * (n + 1) for n in range(MANY)]
    source.task.stop()
    bulk = Sourcing(database, **MODES["bulk"], table_whitelist="many", parallel_ranges="3")
    plan = bulk.plan()
    assert plan is not None
    assert frame_of(spark, bulk, plan).rdd.getNumPartitions() == 3
    bulk.task.stop()


def test_a_bulk_read_whose_snapshot_is_gone_is_tried_again(spark: SparkSession, postgresql: Database) -> None:
    fill(postgresql)
    name = postgresql.url.database
    postgresql.execute(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '100ms'")
    source = Sourcing(postgresql, **MODES["bulk"], table_whitelist="many")
    plan = source.plan()
    assert plan is not None
    reader: Any = source.task.reader(plan)
    frame = reader.frame(spark, 0)
    postgresql.execute("SELECT pg_sleep(0.5)")
    assert frame.count() == MANY
    exporters = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
    ended = postgresql.rows(f"SELECT pg_terminate_backend(pid, 5000) FROM ({exporters}) x")
    assert ended == [(True,)]
    with pytest.raises(Exception, match="snapshot") as failed:
        frame.count()
    assert isinstance(reader.translate_error(failed.value), RetriableError)
    source.task.undelivered()  # closes what is lost already
    plan = source.plan()
    assert plan is not None
    assert frame_of(spark, source, plan).count() == MANY
    source.task.stop()


def test_a_job_whose_table_is_gone_is_tried_again_and_shows_no_password(
    engine: Spark, spark: SparkSession, postgresql: Database
) -> None:
    fill(postgresql)
    source = Sourcing(postgresql, **MODES["incrementing"], table_whitelist="many")
    plan = source.plan()
    assert plan is not None
    reader: Any = source.task.reader(plan)
    frame = reader.frame(spark, 0)
    shown = frame._jdf.queryExecution().toString() + repr(reader)
    assert "many" in shown
    assert PASSWORD not in shown
    postgresql.execute("DROP TABLE many")
    with pytest.raises(Exception, match="many") as failed:
        frame.collect()
    judged = reader.translate_error(failed.value)
    assert isinstance(judged, RetriableError)
    assert "42P01" in str(judged)
    with pytest.raises(RetriableError, match="42P01"):
        list(reader.read(0))
    assert PASSWORD not in str(failed.value)
    source.task.stop()


class _in_background:
    def __init__(self, work: Any) -> None:
        self._thread = threading.Thread(target=work)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
