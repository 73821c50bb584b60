"""Tests of PostgreSQL's tables: records become what the columns are, whatever their own types."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.worker.engine.programs import Engine
from tests.integration.databases import Database, PostgresqlServer
from tests.integration.sinking import Record, Sinking, shared, struct, with_schema

__all__ = ["shared"]

pytestmark = pytest.mark.spark

UUID = "123e4567-e89b-12d3-a456-426655440000"
TIMESTAMP = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}
AT = 1577934245678


def array(of: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": of, "optional": True}}


@pytest.fixture
def sinks(shared: Engine, postgresql: Database) -> Iterator[list[Sinking]]:
    """The sinks that a test starts."""
    started: list[Sinking] = []
    yield started
    for one in started:
        one.stop()


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_by_the_types_of_the_columns(shared: Engine, postgresql: Database, mode: str) -> None:
    postgresql.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'it''s fine')",
        "CREATE DOMAIN small AS integer CHECK (VALUE < 100)",
        """CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, u uuid, j json, jb jsonb, e mood,
        ints int[],
        texts text[], raw bytea, num numeric(10,1), at timestamptz, wall timestamp, day date, ip inet, span interval,
        bits bit(3), many bit varying, yes boolean, dom small, money money, list jsonb, twice int GENERATED ALWAYS AS
        (id * 2) STORED, note varchar(5))""",
    )
    fields = [
        ("id", "int32", 7), ("u", "string", UUID), ("j", "string", '{"a": 1}'), ("jb", "string", '{"b":[1]}'),
        ("e", "string", "it's fine"), ("ints", array("int32"), [1, None, -3]),
        ("texts", array("string"), ['a"b\\', "NULL", None, "", "{,}", "é"]),
        ("raw", "bytes", base64.b64encode(b"\x00\xff").decode()), ("num", "double", 1.25), ("at", TIMESTAMP, AT),
        ("wall", TIMESTAMP, AT), ("day", {"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, 18262),
        ("ip", "string", "10.0.0.1"), ("span", "string", "1 day 02:00:00"), ("bits", "int8", 5),
        ("many", "bytes", base64.b64encode(b"\xf0\x0f").decode()), ("yes", "int8", 1), ("dom", "int64", 99),
        ("money", "double", 12.5), ("list", array("int32"), [1, 2]), ("note", "string", "12345"),
    ]  # fmt: skip
    sink = Sinking(
        shared,
        postgresql,
        {"insert.mode": mode, "pk.mode": "record_value", "pk.fields": "id", "db.timezone": "America/New_York"},
    )
    schema = struct(*((name, kind) for name, kind, _ in fields))
    sink.all(with_schema(schema, {name: value for name, _, value in fields}))
    shown = (
        "u::text, j::text, jb::text, e::text, ints::text, texts, raw, num::text, at, wall::text, day::text, ip::text,"
    )
    shown += " span::text, bits::text, many::text, yes, dom, money::text, list::text, twice, note"
    (found,) = postgresql.rows(f"SELECT {shown} FROM t WHERE id = 7")
    assert found == (
        UUID, '{"a": 1}', '{"b": [1]}', "it's fine", "{1,NULL,-3}", ['a"b\\', "NULL", None, "", "{,}", "é"],
        b"\x00\xff", "1.3", datetime.fromtimestamp(AT / 1000, UTC), "2020-01-01 22:04:05.678", "2020-01-01",
        "10.0.0.1/32",
        "1 day 02:00:00", "101", "1111000000001111", True, 99, "$12.50", "[1, 2]", 14, "12345",
    )  # fmt: skip
    wrong = {name: value for name, _, value in fields} | {"id": 8}
    assert "invalid input syntax for type uuid" in sink.refused(with_schema(schema, wrong | {"u": "nonsense"}))
    said = sink.refused(with_schema(schema, wrong | {"jb": "{broken\nCOPY x, line 1, column y: z"}))
    assert "column jb: invalid input syntax for type json" in said
    sink.stop()


def test_plain_json_by_the_types_of_the_columns(shared: Engine, postgresql: Database) -> None:
    postgresql.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, u uuid, jb jsonb, ints int[], num numeric(30,10), at timestamptz, "
        "yes boolean, note varchar(5))"
    )
    settings = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id", "errors.tolerance": "all"}
    sink = Sinking(shared, postgresql, settings, schemas=False)
    value = {
        "u": UUID, "jb": {"deep": [1, {"x": None}]}, "ints": [1, None], "num": 0.1, "yes": True,
        "at": "2020-01-02T03:04:05.678Z", "note": "12345",
    }  # fmt: skip
    sink.all(Record(json.dumps(value).encode(), b"9007199254740993"))
    (found,) = postgresql.rows("SELECT id, u::text, jb::text, ints, num::text, at, yes, note FROM t")
    assert found == (
        2**53 + 1, UUID, '{"deep": [1, {"x": null}]}', [1, None], "0.1000000000",
        datetime.fromtimestamp(AT / 1000, UTC), True, "12345",
    )  # fmt: skip
    (reached,) = sink.put(Record(b'{"note": "123456"}', b"1"), Record(b'{"note": "12345"}', b"2"))
    assert (reached.written, reached.bad) == (1, 1)
    sink.stop()


def test_a_view_and_a_partitioned_table_take_rows(shared: Engine, postgresql: Database) -> None:
    postgresql.execute(
        "CREATE TABLE t (id int, name text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)",
    )
    schema = struct(("id", "int32"), ("name", "string"))
    settings = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id", "errors.tolerance": "all"}
    sink = Sinking(shared, postgresql, settings)
    records = [with_schema(schema, {"id": number, "name": "a"}) for number in (1, 11, 21)]
    (reached,) = sink.put(*records)
    assert (reached.written, reached.bad) == (2, 1)
    assert postgresql.value("SELECT count(*) FROM high") == 1
    sink.stop()


def test_names_are_folded_where_they_are_not_quoted(shared: Engine, postgresql: Database) -> None:
    settings = {"auto.create": "true", "quote.sql.identifiers": "never", "table.name.format": "Orders_${topic}"}
    sink = Sinking(shared, postgresql, settings)
    sink.all(with_schema(struct(("Id", "int32")), {"Id": 1}))
    assert postgresql.rows("SELECT id FROM orders_t") == [(1,)]
    sink.stop()


def test_a_type_is_widened_where_that_is_allowed(shared: Engine, postgresql: Database) -> None:
    postgresql.execute("CREATE TABLE t (id int PRIMARY KEY, f real)")
    settings = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
    small = struct(("id", "int32"), ("f", "float"))
    large = struct(("id", "int64"), ("f", "double"))
    sink = Sinking(shared, postgresql, {**settings, "auto.evolve": "true", "auto.evolve.widen": "true"})
    sink.all(with_schema(small, {"id": 1, "f": 0.5}))
    sink.all(with_schema(large, {"id": 2**40, "f": 0.1}), with_schema(small, {"id": 2, "f": 0.5}))
    assert postgresql.rows("SELECT id, f FROM t ORDER BY 1") == [(1, 0.5), (2, 0.5), (2**40, 0.1)]
    sink.stop()


def test_layouts_of_the_same_columns_share_no_rows(shared: Engine, postgresql: Database) -> None:
    postgresql.execute("CREATE TABLE t (id int, at timestamp)")
    sink = Sinking(shared, postgresql, {"db.timezone": "Asia/Tokyo"})  # which needs a stage
    first, second = (struct(("id", kind), ("at", TIMESTAMP)) for kind in ("int32", "int16"))
    sink.all(*(with_schema(schema, {"id": n, "at": AT}) for n, schema in enumerate([first, second, first, second])))
    assert postgresql.rows("SELECT id FROM t ORDER BY 1") == [(0,), (1,), (2,), (3,)]
    sink.stop()


def test_a_table_of_its_key_alone(shared: Engine, postgresql: Database) -> None:
    settings = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true", "auto.create": "true"}
    sink = Sinking(shared, postgresql, settings)
    key = struct(("id", "int32"))

    def of(number: int, gone: bool = False) -> Record:
        one = with_schema(key, {"id": number})
        return Record(None if gone else one, one)

    sink.all(of(1), of(2), of(3, gone=True), of(2, gone=True), of(2))
    assert postgresql.rows("SELECT id FROM t ORDER BY 1") == [(1,), (2,)]
    sink.stop()


def test_a_constraint_that_is_looked_at_by_the_commit(shared: Engine, postgresql: Database) -> None:
    postgresql.execute("CREATE TABLE t (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    sink = Sinking(shared, postgresql, {"errors.tolerance": "all"})
    schema = struct(("id", "int32"))
    (reached,) = sink.put(*(with_schema(schema, {"id": number}) for number in (1, 2, 1, 3)))
    assert (reached.written, reached.bad) == (3, 1)
    assert "SQLSTATE 23505" in sink.said[0]
    sink.stop()


def test_a_database_of_another_encoding_has_what_was_sent(
    shared: Engine, postgresql_server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    latin = " ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    monkeypatch.setattr(PostgresqlServer, "_creation", latin)
    with postgresql_server.database() as database:
        database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
        schema = struct(("id", "int32"), ("name", "string"))
        sink = Sinking(shared, database, {"errors.tolerance": "all"})
        (reached,) = sink.put(*(with_schema(schema, {"id": n, "name": name}) for n, name in enumerate(("zoë", "世"))))
        sink.stop()
        assert (reached.written, reached.bad) == (1, 1)
        assert database.rows("SELECT length(name), encode(name::bytea, 'hex') FROM t") == [(3, "7a6feb")]
        assert "22P05" in sink.said[0]


def test_rows_are_added_where_copy_may_not(shared: Engine, postgresql: Database) -> None:
    postgresql.execute("CREATE TABLE base (id int)", "CREATE VIEW t AS SELECT id FROM base")
    sink = Sinking(shared, postgresql)
    sink.all(with_schema(struct(("id", "int32")), {"id": 1}))
    sink.stop()
    role = f"guarded_{postgresql.url.database}"
    postgresql.execute(
        "DROP VIEW t",
        "ALTER TABLE base RENAME TO t",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY small ON t USING (true) WITH CHECK (id < 10)",
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f"GRANT ALL ON t TO {role}",
    )
    try:
        login = {"connection.user": role, "connection.password": "x", "offsets.table": ""}
        sink = Sinking(shared, postgresql, login)
        sink.all(with_schema(struct(("id", "int32")), {"id": 2}))
        sink.stop()
    finally:
        postgresql.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
    assert postgresql.rows("SELECT id FROM t ORDER BY 1") == [(1,), (2,)]
