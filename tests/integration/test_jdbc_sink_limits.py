"""A sink's values around the limits of columns: what is stored is what was sent, else the record is refused.

Each record has a value for one column. `held` says what a strict INSERT makes of it: numbers and moments are rounded to
the column's digits, other values stay as they are.
"""

from __future__ import annotations

import base64
import json
import re
import struct as packing
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from headrace.connectors.jdbc.dialects.mariadb.sink_sql import MariadbSinkSql
from headrace.worker.engine.programs import Engine
from tests.integration.databases import Database
from tests.integration.sinking import Record, Sinking, shared, struct, with_schema

__all__ = ["shared"]

pytestmark = [pytest.mark.database, pytest.mark.spark]

REFUSED: Any = "refused"
EXACT = Context(prec=80)
_OF_A_STAGE = re.compile(r"\bc\d+\b")
"""The names that columns have in a stage."""
DAY_MS, HOUR_MICROS = 86_400_000, 3_600_000_000
FIRST, LAST = -719_162, 2_932_896
"""The first and the last day of the years 1 to 9999, counted from 1970."""

Drawn = st.SearchStrategy[Any]


class Column(NamedTuple):
    """A column, the values that are sent to it, and what it holds of them."""

    type: str
    schema: Any
    values: Drawn
    held: Callable[[Any], Any]
    read: str = "{}"
    """The SQL expression that is compared."""
    may_refuse: bool = False
    """True if it may refuse values that it could hold."""


# -- values


def around(*limits: int, by: int = 3) -> Drawn:
    """Whole numbers near these limits."""
    return st.sampled_from(limits).flatmap(lambda limit: st.integers(limit - by, limit + by))


def texts(limit: int, letters: str = "yé世😀") -> Drawn:
    """Texts of one repeated letter, with lengths near `limit`, in characters or in bytes, or well beyond it."""

    def of(letter: str) -> Drawn:
        size = len(letter.encode())
        return st.one_of(around(limit, limit // size, 2 * limit, limit + 256), st.integers(0, limit)).map(
            lambda length: letter * max(0, length)
        )

    return st.sampled_from(letters).flatmap(of)


def blobs(limit: int) -> Drawn:
    return st.one_of(around(limit, 2 * limit, limit + 256), st.integers(0, limit)).map(lambda n: b"\xfe" * max(0, n))


WHOLE = around(*(sign * 2**bits for bits in (0, 7, 8, 15, 16, 23, 24, 31, 32, 53, 63) for sign in (1, -1))).filter(
    lambda n: -(2**63) <= n < 2**63
)
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, width=32, allow_infinity=False),
    st.sampled_from([5e-324, 1e-45, 1e-46, 3.4028234e38, 3.5e38, 1.5, 2.5, -2.5, 16777217.0, 0.1 + 0.2, 1e15, 1e22]),
)
DAYS = around(0, FIRST, LAST, -719_528, -735_000, 3_000_000, 25_550)
MILLIS = st.builds(lambda day, ms: day * DAY_MS + ms, DAYS, st.integers(0, DAY_MS - 1))


def decimals(scale: int, *limits: int) -> Drawn:
    return around(*limits).map(lambda unscaled: Decimal(f"{unscaled}E-{scale}"))


# -- what columns hold


def itself(value: Any) -> Any:
    return value


def fits(holds: Callable[[Any], bool]) -> Callable[[Any], Any]:
    return lambda value: value if holds(value) else REFUSED


def in_range(low: int, high: int) -> Callable[[Any], Any]:
    return fits(lambda value: low <= value <= high)


def rounded_in(low: int, high: int) -> Callable[[float], Any]:
    def held(value: float) -> Any:
        whole = Decimal(repr(value)).to_integral_value(ROUND_HALF_UP)
        return int(whole) if low <= whole <= high else REFUSED

    return held


def encoded(limit: int, charset: str = "utf-8") -> Callable[[str], Any]:
    def held(text: str) -> Any:
        try:
            return text if len(text.encode(charset)) <= limit else REFUSED
        except UnicodeEncodeError:
            return REFUSED

    return held


def quantized(digits: int, places: int) -> Callable[[Any], Any]:
    def held(value: Any) -> Any:
        exact = Decimal(repr(value)) if isinstance(value, float) else value
        if exact.copy_abs() >= 10**digits:
            return REFUSED
        found = exact.quantize(Decimal(f"1E-{places}"), ROUND_HALF_UP, EXACT)
        return found if found.copy_abs() < 10 ** (digits - places) else REFUSED

    return held


def single(value: float) -> Any:
    try:
        return packing.unpack("<f", packing.pack("<f", value))[0]
    except OverflowError:
        return REFUSED


def single_of_postgresql(value: float) -> Any:
    found = single(value)
    return REFUSED if value and not found else found


def shown(micros: int, digits: int = 6, within: Callable[[int], bool] = lambda _: True) -> Any:
    """A moment as text; finer digits than `digits` are cut."""
    days, of_day = divmod(micros, DAY_MS * 1000)
    clock = str(np.datetime64(of_day, "us"))[11:]
    return f"{day(days)} {clock[: 9 + digits].rstrip('.')}" if within(days) else REFUSED


def day(days: int) -> str:
    """A day in ISO 8601, also in years of more or fewer than four digits."""
    sign, text = ("-", str(np.datetime64(days, "D"))[1:]) if days < -719_528 else ("", str(np.datetime64(days, "D")))
    number, _, rest = text.partition("-")
    return f"{sign or '+' * (len(number) > 4)}{number.zfill(4)}-{rest}"


def of_mariadb(days: int) -> bool:
    return -719_528 <= days <= LAST and days != -719_528 + 59  # its year 0 has no 29th of February


def clock_time(micros: int, digits: int) -> Any:
    seconds, rest = divmod(abs(micros), 1_000_000)
    if seconds >= 839 * 3600:
        return REFUSED
    fraction = f".{rest:06}"[: digits + 1].rstrip(".")
    sign = "-" if micros < 0 else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def year(number: int) -> Any:
    if 1 <= number <= 99:
        return number + (2000 if number < 70 else 1900)
    return number if number == 0 or 1901 <= number <= 2155 else REFUSED


def year_of(days: int) -> Any:
    found = int(np.datetime64(days, "D").astype("datetime64[Y]").astype(int)) + 1970
    return found if found == 0 or 1901 <= found <= 2155 else REFUSED


def connect(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "optional": True, "name": f"org.apache.kafka.connect.data.{name}"}


def decimal(scale: int) -> dict[str, Any]:
    return {**connect("bytes", "Decimal"), "parameters": {"scale": str(scale)}}


DATE, TIME, TIMESTAMP = connect("int32", "Date"), connect("int32", "Time"), connect("int64", "Timestamp")
MICRO_TIME = {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTime"}
AS_TEXT = "CAST({} AS CHAR)"

MARIADB = {
    "tinytext": Column("TINYTEXT", "string?", texts(255), encoded(255)),
    "text": Column("TEXT", "string?", texts(65_535), encoded(65_535)),
    "latin": Column("TEXT CHARACTER SET latin1", "string?", texts(65_535, "yé世"), encoded(65_535, "cp1252")),
    "narrow": Column("TINYTEXT CHARACTER SET utf8mb3", "string?", texts(255, "y世😀"),
                     fits(lambda text: "😀" not in text and len(text.encode()) <= 255)),
    "varchar": Column("VARCHAR(5)", "string?", texts(5), fits(lambda text: len(text) <= 5)),
    "fixed": Column("CHAR(5)", "string?", texts(5), fits(lambda text: len(text) <= 5)),
    "tinyblob": Column("TINYBLOB", "bytes?", blobs(255), fits(lambda raw: len(raw) <= 255)),
    "blob": Column("BLOB", "bytes?", blobs(65_535), fits(lambda raw: len(raw) <= 65_535)),
    "text_in_blob": Column("TINYBLOB", "string?", texts(255), lambda text: (
        text.encode() if len(text.encode()) <= 255 else REFUSED)),
    "varbinary": Column("VARBINARY(5)", "bytes?", blobs(5), fits(lambda raw: len(raw) <= 5)),
    "binary": Column("BINARY(5)", "bytes?", blobs(5), lambda raw: raw.ljust(5, b"\0") if len(raw) <= 5 else REFUSED),
    "tinyint": Column("TINYINT", "int64?", WHOLE, in_range(-(2**7), 2**7 - 1)),
    "smallint_u": Column("SMALLINT UNSIGNED", "int64?", WHOLE, in_range(0, 2**16 - 1)),
    "mediumint": Column("MEDIUMINT", "int64?", WHOLE, in_range(-(2**23), 2**23 - 1)),
    "int": Column("INT", "int64?", WHOLE, in_range(-(2**31), 2**31 - 1)),
    "bigint": Column("BIGINT", "int64?", WHOLE, itself),
    "bigint_u": Column("BIGINT UNSIGNED", "int64?", WHOLE, in_range(0, 2**63)),
    "int_of_float": Column("INT", "double?", FLOATS, rounded_in(-(2**31), 2**31 - 1), may_refuse=True),
    "float": Column("FLOAT", "double?", FLOATS, single, "({} + 0e0)"),
    "double": Column("DOUBLE", "double?", FLOATS, itself),
    "decimal": Column("DECIMAL(5,2)", decimal(4), decimals(4, 0, 9_999_949, -10_000_000, 12_350), quantized(5, 2)),
    "large": Column("DECIMAL(38,8)", decimal(8), decimals(8, 10**38 - 9, -(10**37), 0), quantized(38, 8)),
    "decimal_of_float": Column("DECIMAL(5,2)", "double?", FLOATS, quantized(5, 2)),
    "date": Column("DATE", DATE, DAYS, lambda days: day(days) if of_mariadb(days) else REFUSED, AS_TEXT),
    "datetime": Column("DATETIME", TIMESTAMP, MILLIS, lambda ms: shown(ms * 1000, 0, of_mariadb), AS_TEXT),
    "datetime_3": Column("DATETIME(3)", TIMESTAMP, MILLIS, lambda ms: shown(ms * 1000, 3, of_mariadb), AS_TEXT),
    "timestamp": Column("TIMESTAMP(3) NULL", TIMESTAMP, around(0, 1000, (2**31 - 1) * 1000, 2**31 * 1000, by=1500),
                        in_range(1, 2**31 * 1000 - 1), "CAST(UNIX_TIMESTAMP({}) * 1000 AS SIGNED)"),
    "time": Column("TIME", TIME, st.integers(0, DAY_MS), lambda ms: clock_time(ms * 1000, 0), AS_TEXT),
    "time_6": Column("TIME(6)", MICRO_TIME, around(0, 839 * HOUR_MICROS, -839 * HOUR_MICROS, 24 * HOUR_MICROS),
                     lambda micros: clock_time(micros, 6), AS_TEXT),
    "year": Column("YEAR", "int32?", around(0, 69, 99, 1901, 2155), year),
    "year_of_date": Column("YEAR", DATE, st.one_of(DAYS, around(-25_202, 67_950, -710_000, 700_000)), year_of),
    "bits": Column("BIT(8)", "int64?", around(0, 255, -128), in_range(0, 255), "CAST({} AS UNSIGNED)"),
    "enum": Column("ENUM('2','b')", "string?", st.sampled_from(["2", "b", "c", "", "b" * 300]),
                   fits(lambda text: text in ("2", "b"))),
    "enum_by_number": Column("ENUM('2','b')", "int32?", around(1),
                             lambda number: {1: "2", 2: "b"}.get(number, REFUSED)),
    "set": Column("SET('x','y')", "string?", st.sampled_from(["", "x", "x,y", "z", "x,z"]),
                  fits(lambda text: "z" not in text)),
}  # fmt: skip
"""Columns of MariaDB; its latin1 is Windows-1252."""

EPOCH = "(EXTRACT(EPOCH FROM {}) * 1000000)::bigint"


def bits(count: int) -> Callable[[int], Any]:
    return lambda number: f"{number & 255:0{count}b}" if 0 <= number < 2**count or count == 8 else REFUSED


def packed(raw: bytes) -> Any:
    """The first 12 bits of two bytes; the last four have to be zero."""
    found = "".join(f"{one:08b}" for one in raw)
    return found[:12] if len(raw) == 2 and found.endswith("0000") else REFUSED


def rounded(micros: int, unit: int) -> int:
    return (abs(micros) + unit // 2) // unit * unit * (1 if micros >= 0 else -1)


def of_postgresql(days: int) -> bool:
    return days >= -2_440_588


FAR_DAYS = st.one_of(DAYS, around(-2_440_588, 2_145_042_905))
FAR_MILLIS = st.one_of(MILLIS, around(-210_866_803_200_000, 9_223_372_036_852_000, -62_135_596_800_000, by=2000))
"""The first and last moments that PostgreSQL has; Spark's last one is earlier."""
POSTGRESQL = {
    "varchar": Column("varchar(5)", "string?", texts(5), fits(lambda text: len(text) <= 5)),
    "fixed": Column("char(5)", "string?", texts(5), fits(lambda text: len(text) <= 5), "{}::text"),
    "domain": Column("five", "string?", texts(5), fits(lambda text: len(text) <= 5)),
    "text": Column("text", "string?", texts(70_000), itself),
    "bytea": Column("bytea", "bytes?", blobs(300), itself),
    "smallint": Column("smallint", "int64?", WHOLE, in_range(-(2**15), 2**15 - 1)),
    "integer": Column("integer", "int64?", WHOLE, in_range(-(2**31), 2**31 - 1)),
    "bigint": Column("bigint", "int64?", WHOLE, itself),
    "integer_of_float": Column("integer", "double?", FLOATS, lambda x: int(x) if x == int(x) else REFUSED,
                               may_refuse=True),
    "real": Column("real", "double?", FLOATS, single_of_postgresql, "{}::float8"),
    "double": Column("double precision", "double?", FLOATS, itself),
    "numeric": Column("numeric(5,2)", decimal(4), decimals(4, 0, 9_999_949, -10_000_000, 12_350), quantized(5, 2)),
    "large": Column("numeric", decimal(8), decimals(8, 10**38 - 9, -(10**37), 0), itself),
    "date": Column("date", DATE, FAR_DAYS, fits(lambda days: of_postgresql(days) and days <= 2_145_042_905),
                   "{} - DATE '1970-01-01'"),
    "timestamp": Column("timestamp", TIMESTAMP, FAR_MILLIS, lambda ms: ms * 1000 if ms >= -210_866_803_200_000
                        else REFUSED, EPOCH),
    "second": Column("timestamp(0)", TIMESTAMP, MILLIS, lambda ms: rounded(ms * 1000, 1_000_000), EPOCH),
    "instant": Column("timestamptz", TIMESTAMP, FAR_MILLIS, lambda ms: ms * 1000 if ms >= -210_866_803_200_000
                      else REFUSED, EPOCH),
    "days": Column("date[]", {"type": "array", "items": DATE, "optional": True}, st.lists(DAYS, max_size=2), itself,
                   "ARRAY(SELECT x - DATE '1970-01-01' FROM unnest({}) AS u (x))"),
    "enum": Column("mood", "string?", st.sampled_from(["good", "bad", "", "Good"]),
                   fits(lambda text: text in ("good", "bad")), "{}::text"),
}  # fmt: skip
STAGED = {
    "bit_3": Column("bit(3)", "int8?", around(0, 7, -128, 125), bits(3), "{}::text"),
    "bit_8": Column("bit(8)", "int8?", around(0, -125, 124), bits(8), "{}::text"),
    "bit_12": Column("bit(12)", "bytes?", st.binary(max_size=3), packed, "{}::text"),
    "varbit": Column("bit varying(9)", "bytes?", st.binary(max_size=2),
                     lambda raw: "".join(f"{one:08b}" for one in raw) if len(raw) < 2 else REFUSED, "{}::text"),
}  # fmt: skip
"""Columns that PostgreSQL does not take by COPY into the table itself."""

SQLITE = {
    "integer": Column("INTEGER", "int64?", WHOLE, itself),
    "real": Column("REAL", "double?", FLOATS, itself),
    "untyped": Column("", "double?", FLOATS, itself),
    "text": Column("TEXT", "string?", st.one_of(texts(70_000), st.text(max_size=9), st.just("a\0b\\u0000"),
                                                st.just("\\u0000")).filter(
                                                    lambda text: text.isprintable() or "\0" in text), itself),
    "blob": Column("BLOB", "bytes?", blobs(300), itself),
    "exact": Column("TEXT", decimal(8), decimals(8, 10**38 - 9, -(10**37), 0), lambda number: f"{number:f}"),
    "numeric": Column("NUMERIC", decimal(8), decimals(8, 10**15 - 9, 9 - 10**15, 0), float),
    "date": Column("NUMERIC", DATE, DAYS, lambda days: days * DAY_MS),
    "date_text": Column("TEXT", DATE, st.integers(FIRST, LAST), day),
    "far_date_text": Column("TEXT", DATE, DAYS.filter(lambda days: not FIRST <= days <= LAST), day),
    "moment": Column("NUMERIC", TIMESTAMP, MILLIS, itself),
    "moment_text": Column("TEXT", TIMESTAMP, st.integers(FIRST * DAY_MS, LAST * DAY_MS), lambda ms: (
        shown(ms * 1000, 3))),
}  # fmt: skip


# -- the test


def payload(schema: Any, value: Any) -> Any:
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(int(schema["parameters"]["scale"]), EXACT))
        value = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def compared(value: Any) -> Any:
    """The value to compare by: decimals without trailing zeros, memoryviews as bytes."""
    if isinstance(value, Decimal):
        return value.normalize(EXACT)
    return bytes(value) if isinstance(value, memoryview) else value


class Limits:
    """A table with these columns, and a sink into it."""

    def __init__(self, engine: Engine, database: Database, columns: Mapping[str, Column], mode: str) -> None:
        self.database, self.columns, self.updates = database, columns, mode == "update"
        null = " NULL" if database.kind == "mariadb" else ""
        own = ", ".join(f"c_{name} {one.type}{'' if ' NULL' in one.type else null}" for name, one in columns.items())
        if database.kind == "postgresql":
            database.execute("CREATE TYPE mood AS ENUM ('good', 'bad')", "CREATE DOMAIN five AS varchar(5)")
        database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {own})")
        given = {
            "pk.mode": "record_value",
            "pk.fields": "id",
            "insert.mode": mode,
            "errors.tolerance": "all",
            "offsets.table": "",
        }
        self.sink = Sinking(engine, database, given)
        self.schema = struct(("id", "int32"), *((f"c_{name}", one.schema) for name, one in columns.items()))

    def check(self, drawn: Mapping[str, list[Any]]) -> None:
        """Send these values, and compare them with what the table holds."""
        sent = [(name, value) for name, values in drawn.items() for value in values]
        # Refused values come last: good ones between them would take a transaction each.
        sent.sort(key=lambda pair: self.columns[pair[0]].held(pair[1]) == REFUSED)
        self.database.execute("DELETE FROM t")
        if self.updates and sent:
            self.database.execute(f"INSERT INTO t (id) VALUES {', '.join(f'({n})' for n in range(len(sent)))}")
        said = len(self.sink.said)
        (reached,) = self.sink.put(
            *(
                with_schema(self.schema, {"id": number, f"c_{name}": payload(self.columns[name].schema, value)})
                for number, (name, value) in enumerate(sent)
            )
        )
        assert reached.stop is None, reached
        told = self.sink.said[said:]
        assert len(told) == reached.bad
        assert not [text for text in told if _OF_A_STAGE.search(text)], "a column that no user knows is named"
        found = {}
        for name, one in self.columns.items():
            query = f"SELECT id, {one.read.format(f'c_{name}')} FROM t WHERE c_{name} IS NOT NULL"
            found |= {number: compared(value) for number, value in self.database.rows(query)}
        wrong = []
        for number, (name, value) in enumerate(sent):
            column = self.columns[name]
            stored, held = found.get(number, REFUSED), compared(column.held(value))
            if stored != held and not (column.may_refuse and stored == REFUSED):
                wrong.append((name, _short(value), _short(held), _short(stored)))
        assert not wrong, "sent, to be held, stored"
        assert len(sent) - len(found) == reached.bad


def _short(value: Any) -> Any:
    return (value[:3], len(value)) if isinstance(value, (str, bytes)) and len(value) > 40 else value


CASES = [
    pytest.param(("mariadb", "insert", MARIADB), id="mariadb-insert", marks=pytest.mark.long),
    pytest.param(("mariadb", "update", MARIADB), id="mariadb-update", marks=pytest.mark.soak),
    pytest.param(("postgresql", "insert", POSTGRESQL), id="postgresql-insert"),
    pytest.param(("postgresql", "upsert", POSTGRESQL | STAGED), id="postgresql-upsert"),
    pytest.param(("sqlite", "upsert", SQLITE), id="sqlite-upsert"),
]


@pytest.fixture(params=CASES)
def limits(request: pytest.FixtureRequest, shared: Engine) -> Iterator[Limits]:
    kind, mode, columns = request.param
    found = Limits(shared, request.getfixturevalue(kind), columns, mode)
    yield found
    found.sink.stop()


@settings(max_examples=2, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_what_is_stored_is_what_was_sent(limits: Limits, data: st.DataObject) -> None:
    limits.check(
        {
            name: data.draw(st.lists(column.values, min_size=3, max_size=6), label=name)
            for name, column in limits.columns.items()
        }
    )


@pytest.mark.parametrize(
    ("column", "kind", "number"),
    [("date", "int32", 20_200_101), ("timestamptz", decimal(0), Decimal(20_200_101)), ("bit(3)", "int32", 101)],
)
def test_postgresql_takes_no_number_for_something_else(
    shared: Engine, postgresql: Database, column: str, kind: Any, number: Any
) -> None:
    postgresql.execute(f"CREATE TABLE t (c {column})")
    sink = Sinking(shared, postgresql)
    said = sink.refused(with_schema(struct(("c", kind)), {"c": payload(kind, number)}))
    sink.stop()
    assert 'column "c" is of type ' in said, said


@pytest.mark.long
def test_a_server_that_only_warns_of_a_value_refuses_it_all_the_same(
    shared: Engine, mariadb: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    mariadb.execute("CREATE TABLE t (id INT, c TINYTEXT)")
    strict = MariadbSinkSql.prepare_documents

    def loosened(self: MariadbSinkSql, connection: Connection) -> None:
        strict(self, connection)
        connection.exec_driver_sql("SET SESSION sql_mode = ''")  # as a pool that gives others' sessions

    monkeypatch.setattr(MariadbSinkSql, "prepare_documents", loosened)
    sink = Sinking(shared, mariadb, {"errors.tolerance": "all"})
    schema = struct(("id", "int32"), ("c", "string"))
    (reached,) = sink.put(*(with_schema(schema, {"id": size, "c": "y" * size}) for size in (255, 256)))
    sink.stop()
    assert (reached.written, reached.bad) == (1, 1)
    assert "Data too long for column 'c'" in sink.said[0] or "code 1265" in sink.said[0], sink.said
    assert mariadb.rows("SELECT id FROM t") == [(255,)]


@pytest.mark.long
def test_members_of_plain_json_are_held_likewise(shared: Engine, mariadb: Database) -> None:
    mariadb.execute("CREATE TABLE t (id INT, a TINYTEXT, b TINYBLOB)")
    sink = Sinking(shared, mariadb, {"errors.tolerance": "all"}, schemas=False)
    sizes = {"a": 256, "b": 256}, {"a": 255, "b": 256}, {"a": 256, "b": 255}, {"a": 255, "b": 255}
    values = [{"id": n, **{name: "y" * size for name, size in one.items()}} for n, one in enumerate(sizes)]
    (reached,) = sink.put(*(json.dumps(value).encode() for value in values))
    sink.stop()
    assert (reached.written, reached.bad) == (1, 3)
    assert mariadb.rows("SELECT id, LENGTH(a), LENGTH(b) FROM t") == [(3, 255, 255)]


def test_a_key_of_plain_json_is_not_cut(shared: Engine, postgresql: Database) -> None:
    postgresql.execute("CREATE DOMAIN five AS varchar(5)", "CREATE TABLE t (k five PRIMARY KEY, n INT)")
    given = {"pk.mode": "record_key", "pk.fields": "k", "insert.mode": "upsert", "errors.tolerance": "all"}
    sink = Sinking(shared, postgresql, given, schemas=False)
    (reached,) = sink.put(*(Record(b'{"n": 1}', json.dumps(key).encode()) for key in ("abcde", "abcdef")))
    sink.stop()
    assert (reached.written, reached.bad) == (1, 1)
    assert postgresql.rows("SELECT k, n FROM t") == [("abcde", 1)]
