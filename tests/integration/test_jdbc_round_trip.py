"""Every column type of every database: table → Avro topic → table, on the same database and on the others.

On the same database, into a table made by the same statement, what arrives is equal. On the others, into tables that
the sink makes, it is what `arrives` says: these are the documented rules. One worker process does it all.

Connect's Timestamp and Time count milliseconds: what is finer is kept by `timestamp.granularity` and
`timestamp.fields.list`, which the last test uses.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from sqlalchemy.exc import DBAPIError

from tests.integration.databases import Database, MariadbServer, PostgresqlServer, sqlite_database
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = pytest.mark.long

UTC = dt.UTC


class Case(NamedTuple):
    """A column: its type, a value as SQL, and that value as Connect carries it."""

    type: str
    sql: str
    kind: str
    """Connect's type."""
    value: Any
    least: str = ""
    """Another value as SQL, for the second row."""


NOON = dt.datetime(2024, 2, 29, 12, 34, 56, 789_000)
LONG_AGO = dt.datetime(1901, 12, 14, 0, 0, 0, 1_000)
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

ONLY_HERE = "only here"
"""No other database has such values."""

POSTGRESQL = {
    "c_boolean": Case("boolean", "TRUE", "BOOLEAN", True, "FALSE"),
    "c_smallint": Case("smallint", "-32768", "INT16", -32768),
    "c_integer": Case("integer", "2147483647", "INT32", 2147483647, "-2147483648"),
    "c_bigint": Case("bigint", "9223372036854775807", "INT64", 9223372036854775807, "-9223372036854775808"),
    "c_oid": Case("oid", "4294967295", "INT64", 4294967295),
    "c_real": Case("real", "1.5", "FLOAT32", 1.5, "-3.4e38"),
    "c_double": Case("double precision", "0.1", "FLOAT64", 0.1, "-1.7976931348623157e308"),
    "c_infinite": Case("real", "'-Infinity'", ONLY_HERE, None, "'NaN'"),
    "c_money": Case("money", "'$12.34'", "FLOAT64", 12.34),
    "c_numeric": Case("numeric", "12345.678901234567891234", "Decimal", Decimal("12345.678901234567891234"), "-0.1"),
    "c_numeric_10_2": Case("numeric(10,2)", "-99999999.99", "Decimal", Decimal("-99999999.99")),
    "c_numeric_3_m2": Case("numeric(3,-2)", "99900", "Decimal", Decimal(99900)),
    "c_numeric_38": Case("numeric(38,0)", "9" * 38, "Decimal", Decimal("9" * 38)),
    "c_char": Case("char(4)", "'ab'", "STRING", "ab  "),
    "c_varchar": Case("varchar(10)", "'zwölf €😀'", "STRING", "zwölf €😀", "''"),
    "c_text": Case("text", r"E'a\nb\tc\\ \"d\" ''e'', \\N'", "STRING", "a\nb\tc\\ \"d\" 'e', \\N"),
    "c_xml": Case("xml", "'<a>1</a>'", "STRING", "<a>1</a>"),
    "c_json": Case("json", """'{"a": [1,  2]}'""", "STRING", '{"a": [1,  2]}'),
    "c_jsonb": Case("jsonb", """'{"b":1,"a":"\\u00e4"}'""", "STRING", '{"a": "ä", "b": 1}'),
    "c_uuid": Case("uuid", f"'{UUID}'", "STRING", UUID),
    "c_enum": Case("mood", "'so so'", "STRING", "so so"),
    "c_domain": Case("positive", "7", "INT32", 7),
    "c_interval": Case("interval", "'1 day 02:03:04'", "STRING", "1 day 02:03:04"),
    "c_inet": Case("inet", "'10.0.0.1/8'", "STRING", "10.0.0.1/8"),
    "c_point": Case("point", "'(1,2.5)'", "STRING", "(1,2.5)"),
    "c_range": Case("int4range", "'[1,5)'", "STRING", "[1,5)"),
    "c_varbit": Case("varbit(8)", "B'10110'", "STRING", "10110"),
    "c_bit": Case("bit(1)", "B'1'", "BOOLEAN", True),
    "c_bit_8": Case("bit(8)", "B'10000001'", "INT8", -127),
    "c_bit_12": Case("bit(12)", "B'101100001111'", "BYTES", b"\xb0\xf0"),
    "c_name": Case("name", "'abc'", "STRING", "abc"),
    "c_one_char": Case('"char"', "'x'", "STRING", "x"),
    "c_macaddr": Case("macaddr", "'08:00:2b:01:02:03'", "STRING", "08:00:2b:01:02:03"),
    "c_cidr": Case("cidr", "'10.0.0.0/8'", "STRING", "10.0.0.0/8"),
    "c_tsvector": Case("tsvector", "'a b'", "STRING", "'a' 'b'"),
    "c_hstore": Case("hstore", "'a=>1'", "STRING", '"a"=>"1"'),
    "c_citext": Case("citext", "'AbC'", "STRING", "AbC"),
    "c_lsn": Case("pg_lsn", "'0/16B3748'", "STRING", "0/16B3748"),
    "c_ranges": Case("int4multirange", "'{[1,3),[5,7)}'", "STRING", "{[1,3),[5,7)}"),
    "c_time_range": Case(
        "tsrange", "'[2024-01-01,2024-01-02)'", "STRING", '["2024-01-01 00:00:00","2024-01-02 00:00:00")'
    ),
    "c_composite": Case("pair", "ROW(1, 'x,y')", "STRING", '(1,"x,y")'),
    "c_text_domain": Case("filled", "'x'", "STRING", "x"),
    "c_bits": Case("varbit", "B'10110'", "STRING", "10110"),
    "c_bit_64": Case("bit(64)", f"B'{'10' * 32}'", "BYTES", b"\xaa" * 8),
    "c_bytea": Case("bytea", r"'\x00ff5c'", "BYTES", b"\0\xff\\", "''"),
    "c_date": Case("date", "'1582-10-04'", "Date", dt.date(1582, 10, 4), "'9999-12-31'"),
    "c_time": Case("time", "'23:59:59.999'", "Time", dt.time(23, 59, 59, 999_000)),
    "c_timetz": Case("timetz", "'01:00:00+02'", "Time", dt.time(23, 0)),
    "c_timestamp": Case("timestamp", f"'{NOON}'", "Timestamp", NOON, f"'{LONG_AGO}'"),
    "c_far_date": Case("date", "'0044-03-15 BC'", ONLY_HERE, None, "'5874897-12-31'"),
    "c_far_timestamp": Case("timestamp", "'0044-03-15 12:00:00.5 BC'", ONLY_HERE, None, "'9999-12-31 23:59:59.999'"),
    "c_far_instant": Case("timestamptz", "'4713-01-01 00:00:00Z BC'", ONLY_HERE, None, "'9999-12-31 00:00:00Z'"),
    "c_timestamptz": Case("timestamptz", f"'{NOON}+02'", "Timestamp", NOON - dt.timedelta(hours=2)),
    "c_integers": Case("integer[]", "'{1,NULL,-3}'", "ARRAY", [1, None, -3], "'{}'"),
    "c_texts": Case("text[]", """'{"a,b","c\\"d",NULL,""}'""", "ARRAY", ["a,b", 'c"d', None, ""]),
    "c_enums": Case("mood[]", "'{bad,\"so so\"}'", "ARRAY", ["bad", "so so"]),
    "c_numerics": Case("numeric(5,1)[]", "'{1.5,-2}'", "ARRAY", [Decimal("1.5"), Decimal("-2.0")]),
    "c_byteas": Case("bytea[]", r"ARRAY['\x00ff'::bytea]", "ARRAY", [b"\0\xff"]),
    "c_booleans": Case("boolean[]", "'{t,f,NULL}'", "ARRAY", [True, False, None]),
    "c_doubles": Case("float8[]", "'{NaN,Infinity,1.5}'", "ARRAY", [float("inf")]),
    "c_instants": Case("timestamptz[]", f"ARRAY['{NOON}+02'::timestamptz]", "ARRAY", [NOON]),
    "c_uuids": Case("uuid[]", f"'{{{UUID}}}'", "ARRAY", [UUID]),
    "c_documents": Case("jsonb[]", """ARRAY['{"a": "b"}'::jsonb]""", "ARRAY", ['{"a": "b"}']),
    "c_pairs": Case("pair[]", "ARRAY[ROW(1, 'x,y')::pair, NULL]", "ARRAY", ['(1,"x,y")', None]),
    "c_spans": Case("interval[]", "'{1 day}'", "ARRAY", ["1 day"]),
    "c_mood_domain": Case("moods", "'{bad}'", "ARRAY", ["bad"]),
    "c_days": Case("date[]", "'{2024-02-29}'", "ARRAY", [dt.date(2024, 2, 29)]),
}
MARIADB = {
    "c_tinyint_1": Case("tinyint(1)", "1", "INT8", 1, "-128"),
    "c_tinyint": Case("tinyint", "-128", "INT8", -128),
    "c_tinyint_u": Case("tinyint unsigned", "255", "INT16", 255),
    "c_smallint": Case("smallint", "-32768", "INT16", -32768),
    "c_smallint_u": Case("smallint unsigned", "65535", "INT32", 65535),
    "c_mediumint": Case("mediumint", "-8388608", "INT32", -8388608),
    "c_mediumint_u": Case("mediumint unsigned", "16777215", "INT32", 16777215),
    "c_int": Case("int", "-2147483648", "INT32", -2147483648),
    "c_int_u": Case("int unsigned", "4294967295", "INT64", 4294967295),
    "c_bigint": Case("bigint", "-9223372036854775808", "INT64", -9223372036854775808),
    "c_bigint_u": Case("bigint unsigned", "9223372036854775807", "INT64", 9223372036854775807),
    "c_float": Case("float", "1.5", "FLOAT32", 1.5),
    "c_double": Case("double", "0.1", "FLOAT64", 0.1, "-1.7976931348623157e308"),
    "c_decimal": Case("decimal(10,2)", "-12345678.90", "Decimal", Decimal("-12345678.90")),
    "c_decimal_38": Case("decimal(38,10)", f"{'9' * 28}.{'9' * 10}", "Decimal", Decimal(f"{'9' * 28}.{'9' * 10}")),
    "c_bit": Case("bit(1)", "b'1'", "INT8", 1, "b'0'"),
    "c_bit_12": Case("bit(12)", "b'101100001111'", "BYTES", b"\x0b\x0f", "b'0'"),
    "c_bit_8": Case("bit(8)", "b'10000001'", "BYTES", b"\x81"),
    "c_bit_64": Case("bit(64)", f"b'{'10' * 32}'", "BYTES", b"\xaa" * 8),
    "c_inet4": Case("inet4", "'1.2.3.4'", "STRING", "1.2.3.4"),
    "c_latin": Case("varchar(5) character set latin1", "'ä'", "STRING", "ä"),
    "c_filled": Case("int(5) zerofill", "42", "INT64", 42),
    "c_double_10_3": Case("double(10,3)", "1.5", "FLOAT64", 1.5),
    "c_tinyblob": Case("tinyblob", "x'00'", "BYTES", b"\0"),
    "c_multipoint": Case("multipoint", "ST_GeomFromText('MULTIPOINT(1 2)')", "BYTES", None),
    "c_year_2": Case("year(2)", "99", "Date", dt.date(1999, 1, 1), "1"),
    "c_second": Case("datetime", "'2024-01-01 01:02:03'", "Timestamp", dt.datetime(2024, 1, 1, 1, 2, 3)),
    "c_char": Case("char(4)", "'ab'", "STRING", "ab"),
    "c_varchar": Case("varchar(10)", "'zwölf €😀'", "STRING", "zwölf €😀", "''"),
    "c_text": Case("text", r"'a\nb\tc\\ \"d\" ''e'''", "STRING", "a\nb\tc\\ \"d\" 'e'"),
    "c_longtext": Case("longtext", "'x'", "STRING", "x"),
    "c_json": Case("json", """'{"a": 1}'""", "STRING", '{"a": 1}'),
    "c_enum": Case("enum('good','so so')", "'so so'", "STRING", "so so"),
    "c_set": Case("set('x','y')", "'x,y'", "STRING", "x,y", "''"),
    "c_uuid": Case("uuid", f"'{UUID}'", "STRING", UUID),
    "c_inet6": Case("inet6", "'2001:db8::1'", "STRING", "2001:db8::1"),
    "c_binary": Case("binary(4)", "x'00ff'", "BYTES", b"\0\xff\0\0"),
    "c_varbinary": Case("varbinary(10)", "x'00ff5c'", "BYTES", b"\0\xff\\", "''"),
    "c_blob": Case("longblob", "x'5c4e'", "BYTES", b"\\N"),
    "c_point": Case("point", "POINT(1, 2)", "BYTES", None),
    "c_date": Case("date", "'1582-10-04'", "Date", dt.date(1582, 10, 4), "'9999-12-31'"),
    "c_year": Case("year", "2024", "Date", dt.date(2024, 1, 1), "1901"),
    "c_time": Case("time(3)", "'23:59:59.999'", "Time", dt.time(23, 59, 59, 999_000)),
    "c_datetime": Case("datetime(6)", f"'{NOON}'", "Timestamp", NOON, f"'{LONG_AGO}'"),
    "c_timestamp": Case("timestamp(3)", f"'{NOON}'", "Timestamp", NOON),
}
SQLITE = {
    "c_boolean": Case("BOOLEAN", "1", "BOOLEAN", True, "0"),
    "c_tinyint": Case("TINYINT", "-128", "INT8", -128),
    "c_smallint": Case("SMALLINT", "-32768", "INT16", -32768),
    "c_integer": Case("INTEGER", "9223372036854775807", "INT64", 9223372036854775807, "-9223372036854775808"),
    "c_real": Case("REAL", "0.1", "FLOAT64", 0.1),
    "c_decimal": Case("DECIMAL(10,2)", "12345678.25", "Decimal", Decimal("12345678.25")),
    "c_numeric": Case("NUMERIC", "-5", "Decimal", Decimal(-5)),
    "c_text": Case("TEXT", "'a\nb\\ \"d\" ''e'''", "STRING", "a\nb\\ \"d\" 'e'", "''"),
    "c_varchar": Case("VARCHAR(10)", "'zwölf €😀'", "STRING", "zwölf €😀"),
    "c_uuid": Case("UUID", f"'{UUID}'", "STRING", UUID),
    "c_none": Case("", "'anything'", "STRING", "anything"),
    "c_blob": Case("BLOB", "x'00ff5c'", "BYTES", b"\0\xff\\", "x''"),
    "c_date": Case("DATE", "'2024-02-29'", "Date", dt.date(2024, 2, 29), "-86400000"),
    "c_time": Case("TIME", "'23:59:59.999'", "Time", dt.time(23, 59, 59, 999_000), "3600000"),
    "c_datetime": Case("DATETIME", f"'{NOON}'", "Timestamp", NOON, "1709210096789"),
    "c_timestamp": Case("TIMESTAMP", "1709210096789", "Timestamp", NOON, f"'{LONG_AGO}'"),
}
CASES = {"postgresql": POSTGRESQL, "mariadb": MARIADB, "sqlite": SQLITE}
PECULIAR = ("ARRAY", ONLY_HERE)
MOMENTS_OF_SQLITE = ("c_date", "c_time", "c_datetime", "c_timestamp")
"""Columns whose texts are numbers afterwards: SQLite has no type for moments."""


def arrives(kind: str, target: str, value: Any) -> Any:
    """A value of Connect's in a table that the sink made, as the database's Python driver gives it."""
    epoch = dt.datetime(1970, 1, 1)
    if target == "mariadb" and kind == "Time":
        return dt.datetime.combine(epoch, value) - epoch
    if target == "sqlite" and kind in ("Date", "Time", "Timestamp"):
        if kind == "Time":
            value = dt.datetime.combine(epoch, value)
        if kind == "Date":
            value = dt.datetime.combine(value, dt.time())
        return (value - epoch) // dt.timedelta(milliseconds=1)
    if kind == "BOOLEAN" and target != "postgresql":
        return int(value)
    if kind == "Decimal" and target == "sqlite":
        return pytest.approx(float(value))
    return value


class Pipes(NamedTuple):
    """The databases, and the worker that carries between them."""

    databases: dict[str, Database]
    worker: WorkerProcess


@pytest.fixture(scope="module")
def pipes(
    postgresql_server: PostgresqlServer,
    mariadb_server: MariadbServer,
    broker_process: Any,
    registry_process: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pipes]:
    folder = tmp_path_factory.mktemp("round-trip")
    avro = "io.confluent.connect.avro.AvroConverter"
    settings = {"value.converter": avro, "value.converter.schema.registry.url": registry_process.url}
    with ExitStack() as stack:
        databases = {
            "postgresql": stack.enter_context(postgresql_server.database()),
            "mariadb": stack.enter_context(mariadb_server.database()),
            "sqlite": sqlite_database(folder),
        }
        for kind, database in databases.items():
            create(database, CASES[kind])
        admin = AdminClient({"bootstrap.servers": broker_process.bootstrap_servers})
        for made in admin.create_topics([NewTopic(f"{kind}-everything", 1, 1) for kind in databases]).values():
            made.result(60)
        worker = stack.enter_context(WorkerProcess(folder / "w", broker_process.bootstrap_servers, settings=settings))
        worker.wait_ready()
        for kind, database in databases.items():
            start_source(worker, kind, database)
            for target, into in databases.items():
                start_sink(worker, kind, target, into)
        yield Pipes(databases, worker)


def create(database: Database, cases: dict[str, Case]) -> None:
    """The table, its copy, and three rows: values, other values, nulls."""
    if database.kind == "postgresql":
        database.execute("CREATE TYPE mood AS ENUM ('good', 'so so', 'bad')")
        database.execute(
            "CREATE EXTENSION hstore",
            "CREATE EXTENSION citext",
            "CREATE TYPE pair AS (a int, b text)",
            "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            "CREATE DOMAIN filled AS text CHECK (VALUE <> '')",
            "CREATE DOMAIN moods AS mood[]",
        )
    null = " NULL" if database.kind == "mariadb" else ""
    columns = ", ".join(f"{name} {case.type}{null}" for name, case in cases.items())
    database.execute(*(f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})" for table in ("everything", "copy")))
    with database.engine.begin() as connection:
        for number, values in enumerate(
            ([case.sql for case in cases.values()], [c.least or c.sql for c in cases.values()], ["NULL"] * len(cases))
        ):
            names = ", ".join(("id", *cases))
            statement = f"INSERT INTO everything ({names}) VALUES ({number}, {', '.join(values)})"
            connection.execution_options(no_parameters=True).exec_driver_sql(statement)


def start_source(worker: WorkerProcess, kind: str, database: Database) -> None:
    config = {
        "connector.class": "JdbcSource",
        **database.settings,
        "mode": "bulk",
        "table.whitelist": "everything",
        "topic.prefix": f"{kind}-",
        "poll.interval.ms": "3600000",
    }
    worker.request("POST", "/connectors", {"name": f"from-{kind}", "config": config})


def start_sink(worker: WorkerProcess, kind: str, target: str, into: Database) -> None:
    same = kind == target
    only_here = [name for name, case in CASES[kind].items() if case.kind in PECULIAR and not same]
    config = {
        "connector.class": "JdbcSink",
        **into.settings,
        "topics": f"{kind}-everything",
        "table.name.format": "copy" if same else f"from_{kind}",
        "auto.create": str(not same).lower(),
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "field.exclude.list": ",".join(only_here),
    }
    worker.request("POST", "/connectors", {"name": f"{kind}-to-{target}", "config": config})


def rows(pipes: Pipes, connector: str, database: Database, table: str) -> list[dict[str, Any]]:
    """The three rows once they are there, moments as naive UTC: that is what zones become."""

    def there() -> list[tuple[Any, ...]]:
        states = pipes.worker.states(connector)
        assert "FAILED" not in states, pipes.worker.trace(connector)
        try:
            # Python has no such dates.
            shown = [f"{name}::text" if "_far_" in name else name for (name,) in _columns(database, table)]
            found = database.rows(f"SELECT {', '.join(shown)} FROM {table} ORDER BY id")
        except DBAPIError:
            return []  # the sink has not made it yet
        return found if len(found) == 3 else []

    found = eventually(there, 120, pipes.worker.log)
    names = [column[0] for column in _columns(database, table)]
    return [dict(zip(names, map(_plain, row), strict=True)) for row in found]


def _columns(database: Database, table: str) -> list[tuple[str]]:
    with database.engine.connect() as connection:
        return [(name,) for name in connection.exec_driver_sql(f"SELECT * FROM {table} WHERE 1 = 0").keys()]  # noqa: SIM118


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, dt.time) and value.tzinfo is not None:
        return (dt.datetime.combine(dt.date(1970, 1, 2), value)).astimezone(UTC).time()
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value


@pytest.mark.parametrize("kind", CASES)
def test_on_the_same_database_rows_are_equal(pipes: Pipes, kind: str) -> None:
    database = pipes.databases[kind]
    before = rows(pipes, f"from-{kind}", database, "everything")
    after = rows(pipes, f"{kind}-to-{kind}", database, "copy")
    if kind == "sqlite":
        for row in before:
            for name in MOMENTS_OF_SQLITE:
                row[name] = _as_number(row[name], CASES[kind][name].kind)
    assert [different(*pair) for pair in zip(before, after, strict=True)] == [{}, {}, {}]


def different(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what is not equal, expected and found; NaN is equal to itself here."""
    both = {name: (expected[name], found[name]) for name in expected}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1] and str(pair[0]) != str(pair[1])}


def _as_number(value: Any, kind: str) -> Any:
    if not isinstance(value, str):
        return value
    read = {"Date": dt.date.fromisoformat, "Time": dt.time.fromisoformat, "Timestamp": dt.datetime.fromisoformat}
    return arrives(kind, "sqlite", read[kind](value))


@pytest.mark.parametrize(("kind", "target"), [(k, t) for k in CASES for t in CASES if k != t])
def test_on_another_database_rows_are_what_the_rules_say(pipes: Pipes, kind: str, target: str) -> None:
    found = rows(pipes, f"{kind}-to-{target}", pipes.databases[target], f"from_{kind}")
    cases = {name: case for name, case in CASES[kind].items() if case.kind not in PECULIAR}
    assert list(found[0]) == ["id", *cases]
    first = {name: value for name, value in found[0].items() if cases.get(name) and cases[name].value is not None}
    expected = {name: arrives(case.kind, target, case.value) for name, case in cases.items() if case.value is not None}
    assert different(expected, first) == {}
    assert {name: value for name, value in found[2].items() if name != "id"} == dict.fromkeys(cases)


FINE = "2024-02-29 12:34:56.789012"


@pytest.mark.parametrize(("kind", "target"), [("postgresql", "mariadb"), ("mariadb", "postgresql")])
def test_microseconds_are_kept_where_they_are_asked_for(pipes: Pipes, kind: str, target: str, tmp_path: Path) -> None:
    database, into = pipes.databases[kind], pipes.databases[target]
    table, named = f"fine_{target}", f"{kind}-{target}-fine"
    column = "timestamp(6)" if kind == "postgresql" else "datetime(6)"
    database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, at {column})")
    database.execute(f"INSERT INTO {table} VALUES (1, '{FINE}')")
    source = {
        "connector.class": "JdbcSource",
        **database.settings,
        "mode": "bulk",
        "table.whitelist": table,
        "topic.prefix": f"{kind}-",
        "poll.interval.ms": "3600000",
        "timestamp.granularity": "micros_long",
    }
    sink = {
        "connector.class": "JdbcSink",
        **into.settings,
        "topics": f"{kind}-{table}",
        "table.name.format": named.replace("-", "_"),
        "auto.create": "true",
        "timestamp.fields.list": "at",
    }
    for name, config in ((f"from-{named}", source), (named, sink)):
        pipes.worker.request("POST", "/connectors", {"name": name, "config": config})

    def there() -> Any:
        assert "FAILED" not in pipes.worker.states(named), pipes.worker.trace(named)
        try:
            return into.rows(f"SELECT at FROM {named.replace('-', '_')}")
        except DBAPIError:
            return None

    assert eventually(there, 120, pipes.worker.log) == [(dt.datetime.fromisoformat(FINE),)]
