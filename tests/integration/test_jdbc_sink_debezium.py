"""Values whose types only Debezium's sources name, in the columns of a real PostgreSQL."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from headrace.connectors.jdbc.sink.validation import sink_problems
from headrace.worker.engine.programs import Engine
from tests.integration.databases import Database
from tests.integration.sinking import Record, Sinking, shared, struct, with_schema
from tests.spark.converting import configured

__all__ = ["shared"]

pytestmark = [pytest.mark.database, pytest.mark.spark]

Start = Callable[..., Sinking]


@pytest.fixture
def start(shared: Engine, postgresql: Database) -> Iterator[Start]:
    """Starts a sink; all are stopped after the test."""
    started: list[Sinking] = []

    def started_with(settings: Mapping[str, str] | None = None) -> Sinking:
        started.append(Sinking(shared, postgresql, settings))
        return started[-1]

    yield started_with
    for one in started:
        one.stop()


def debezium(name: str, kind: str = "string", **parameters: str) -> dict[str, Any]:
    return {"type": kind, "name": f"io.debezium.{name}", "optional": True, "parameters": parameters}


def any_scale() -> dict[str, Any]:
    name = "io.debezium.data.VariableScaleDecimal"
    return struct(("scale", "int32"), ("value", "bytes"), name=name, optional=True)


def number(unscaled: int, scale: int) -> dict[str, Any]:
    size = unscaled.bit_length() // 8 + 1
    return {"scale": scale, "value": based(unscaled.to_bytes(size, "big", signed=True))}


def based(value: bytes) -> str:
    return base64.b64encode(value).decode()


def array(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(of), "optional": True}


POINT = {
    **struct(("x", "double"), ("y", "double"), ("wkb", "bytes?"), ("srid", "int32?"), optional=True),
    "name": "io.debezium.data.geometry.Point",
}
TEXT = {"type": "string", "optional": True}
TYPE = "__debezium.source.column.type"
BITS = debezium("data.Bits", "bytes", length="16")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_bits_come_with_their_least_byte_first(postgresql: Database, start: Start, mode: str) -> None:
    postgresql.execute("CREATE TABLE t (id int PRIMARY KEY, wide bit(16), odd bit(10), many bit varying, raw bytea)")
    schema = struct(
        ("id", "int32"), ("wide", BITS), ("odd", BITS), ("many", debezium("data.Bits", "bytes", length="12")),
        ("raw", BITS),
    )  # fmt: skip
    sink = start({"insert.mode": mode, "pk.mode": "record_value", "pk.fields": "id", "errors.tolerance": "all"})
    given = based(b"\x02\x01")
    sink.all(
        with_schema(schema, {"id": 1, "wide": given, "odd": given, "many": given, "raw": given}),
        with_schema(schema, {"id": 2}),
    )
    found = postgresql.rows("SELECT wide::text, odd::text, many::text, raw FROM t ORDER BY id")
    assert found == [("0000000100000010", "0100000010", "000100000010", b"\x02\x01"), (None, None, None, None)]
    (reached,) = sink.put(with_schema(schema, {"id": 3}), with_schema(schema, {"id": 4, "odd": based(b"\x00\x04")}))
    assert (reached.written, reached.bad) == (1, 1)


def test_decimals_of_any_scale(postgresql: Database, start: Start) -> None:
    postgresql.execute("CREATE TABLE t (id int PRIMARY KEY, plain numeric, list numeric[], shown text)")
    schema = struct(("id", "int32"), ("plain", any_scale()), ("list", array(any_scale())), ("shown", any_scale()))
    sink = start({"pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert", "errors.tolerance": "all"})
    large = -(10**60) - 7
    sink.all(
        with_schema(schema, {"id": 1, "plain": number(31415, 4), "list": [number(15, 1), None, number(-1, 3)]}),
        with_schema(schema, {"id": 2, "plain": number(large, 0), "shown": number(12, -2), "list": []}),
        with_schema(schema, {"id": 3}),
    )
    assert postgresql.rows("SELECT plain::text, list::text, shown FROM t ORDER BY id") == [
        ("3.1415", "{1.5,NULL,-0.001}", None),
        (str(large), "{}", "1200"),
        (None, None, None),
    ]
    (reached,) = sink.put(with_schema(schema, {"id": 4, "plain": {"scale": 100_000, "value": based(b"\x01")}}))
    assert reached.bad == 1


@pytest.mark.long
def test_instants_without_end_and_offsets(postgresql: Database, start: Start) -> None:
    postgresql.execute(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, wall timestamp, day date, list timestamptz[], "
        "walls timestamp[])"
    )
    zoned = debezium("time.ZonedTimestamp")
    schema = struct(
        ("id", "int32"), ("at", zoned), ("wall", zoned), ("day", zoned), ("list", array(zoned)), ("walls", array(zoned))
    )
    sink = start({"pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert", "errors.tolerance": "all"})
    at, far = "2020-01-02T00:30:05.678901+01:00", "+12345-01-01T00:00:00Z"
    names = ("at", "wall", "day")
    sink.all(
        with_schema(schema, {"id": 1, **dict.fromkeys(names, at), "list": [at, None], "walls": [at]}),
        with_schema(schema, {"id": 2, **dict.fromkeys(names, "infinity")}),
        with_schema(schema, {"id": 3, **dict.fromkeys(names, "-infinity")}),
        with_schema(schema, {"id": 9, **dict.fromkeys(names, "-0043-03-15T00:00:00Z"), "list": [far]}),
    )
    assert postgresql.rows("SELECT at::text, wall::text, day::text, list::text, walls::text FROM t ORDER BY id") == [
        (
            "2020-01-01 23:30:05.678901+00", "2020-01-01 23:30:05.678901", "2020-01-01",
            '{"2020-01-01 23:30:05.678901+00",NULL}', '{"2020-01-01 23:30:05.678901"}',
        ),
        ("infinity", "infinity", "infinity", None, None),
        ("-infinity", "-infinity", "-infinity", None, None),
        (
            "0044-03-15 00:00:00+00 BC", "0044-03-15 00:00:00 BC", "0044-03-15 BC", '{"12345-01-01 00:00:00+00"}', None,
        ),
    ]  # fmt: skip
    wrong = [with_schema(schema, {"id": 4, "at": text}) for text in ("nonsense", "-99-99")]
    (reached,) = sink.put(*wrong, with_schema(schema, {"id": 5}))
    assert (reached.written, reached.bad) == (1, 2)


@pytest.mark.long
def test_points_and_maps(postgresql: Database, start: Start) -> None:
    postgresql.execute(
        "CREATE EXTENSION hstore", "CREATE TABLE t (id int PRIMARY KEY, at point, pairs hstore, listed hstore)"
    )
    texts = {
        "type": "map",
        "keys": {"type": "string"},
        "values": {"type": "string", "optional": True},
        "optional": True,
    }
    schema = struct(("id", "int32"), ("at", POINT), ("pairs", texts), ("listed", debezium("data.Json")))
    sink = start({"errors.tolerance": "all"})
    pairs = {'a "quoted"': "back\\slash", "null": None, "comma,": "=>", "é": ""}
    sink.all(
        with_schema(schema, {"id": 1, "at": {"x": 1.5, "y": -2e10}, "pairs": pairs, "listed": '{"k": "v", "n": null}'}),
        with_schema(schema, {"id": 2, "pairs": {}}),
    )
    assert postgresql.rows("SELECT at::text, hstore_to_json(pairs), hstore_to_json(listed) FROM t ORDER BY id") == [
        ("(1.5,-20000000000)", pairs, {"k": "v", "n": None}),
        (None, {}, None),
    ]


@pytest.mark.long
@pytest.mark.parametrize("column", ["hstore", "tsquery", "ltree"])
def test_a_text_that_a_type_refuses_is_one_records_fault(postgresql: Database, start: Start, column: str) -> None:
    if column != "tsquery":
        postgresql.execute(f"CREATE EXTENSION {column}")
    postgresql.execute(f"CREATE TABLE t (id int PRIMARY KEY, value {column})")
    sink = start({"errors.tolerance": "all"})
    schema = struct(("id", "int32"), ("value", "string?"))
    wrong = {"id": 1, "value": "!!! <> ((("}
    (reached,) = sink.put(with_schema(schema, wrong), with_schema(schema, {"id": 2, "value": None}))
    assert (reached.written, reached.bad) == (1, 1)
    assert postgresql.rows("SELECT id FROM t") == [(2,)]


@pytest.mark.long
def test_a_row_that_a_policy_refuses_is_one_records_fault(postgresql: Database, start: Start) -> None:
    postgresql.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE t FORCE ROW LEVEL SECURITY", "CREATE POLICY p ON t USING (true) WITH CHECK (id < 10)",
        "CREATE ROLE writer LOGIN PASSWORD 'w'", "GRANT ALL ON t TO writer", "GRANT ALL ON SCHEMA public TO writer",
    )  # fmt: skip
    try:
        sink = start({"errors.tolerance": "all", "connection.user": "writer", "connection.password": "w"})
        (reached,) = sink.put(*(with_schema(struct(("id", "int32")), {"id": one}) for one in (1, 10, 2)))
        assert (reached.written, reached.bad) == (2, 1)
        sink.stop()
    finally:
        postgresql.execute("DROP OWNED BY writer", "DROP ROLE writer")


@pytest.mark.parametrize("reduces", [True, False])
def test_the_reduction_buffer_inserts_the_last_of_each_key(postgresql: Database, start: Start, reduces: bool) -> None:
    postgresql.execute("CREATE TABLE t (id int PRIMARY KEY, note text)")
    settings = {"use.reduction.buffer": str(reduces).lower(), "errors.tolerance": "all"}
    sink = start({"insert.mode": "insert", "pk.mode": "record_value", "pk.fields": "id", **settings})
    schema = struct(("id", "int32"), ("note", "string"))
    rows = [with_schema(schema, {"id": one, "note": note}) for one, note in ((1, "a"), (2, "b"), (1, "c"), (1, "d"))]
    (reached,) = sink.put(*rows)
    assert (reached.written, reached.bad) == ((4, 0) if reduces else (2, 2))
    last = "d" if reduces else "a"
    assert postgresql.rows("SELECT id, note FROM t ORDER BY id") == [(1, last), (2, "b")]


def test_a_text_never_gives_way_to_the_key_in_silence(postgresql: Database, start: Start) -> None:
    postgresql.execute("CREATE TABLE t (record_value text PRIMARY KEY)")
    sink = start({"pk.mode": "record_key"})
    key = with_schema(struct(("record_value", "string")), {"record_value": "k"})
    assert "set string.output.value.column.name" in sink.refused(Record(with_schema("string", "v"), key))


@pytest.mark.parametrize(("named", "found"), [("io.debezium.connector.jdbc.JdbcSinkConnector", None), ("", "x")])
def test_under_debeziums_class_nulls_stay(postgresql: Database, start: Start, named: str, found: str | None) -> None:
    settings = {"connector.class": named} if named else {}
    sink = start({"auto.create": "true", **settings})
    text = {"type": "string", "optional": True, "default": "x"}
    configured(sink._value.converter, {"schemas.enable": "true", "replace.null.with.default": "false"})
    sink.all(with_schema(struct(("id", "int32"), ("note", text)), {"id": 1, "note": None}))
    assert postgresql.rows("SELECT note FROM t") == [(found,)]


def test_the_default_of_an_array_may_have_a_null(postgresql: Database, start: Start) -> None:
    several = {**array({"type": "string", "optional": True}), "default": ["a", None]}
    start({"auto.create": "true"}).all(with_schema(struct(("id", "int32"), ("list", several)), {"id": 1, "list": []}))
    postgresql.execute("INSERT INTO t (id) VALUES (2)")
    assert postgresql.rows("SELECT list FROM t ORDER BY id") == [([],), (["a", None],)]


def test_a_text_where_fields_are_wanted_says_so(postgresql: Database, start: Start) -> None:
    said = start({"fields.whitelist": "a", "auto.create": "true"}).refused(with_schema("string", "x"))
    assert "requires records with a non-null Struct value" in said
    assert said.endswith("with a String value and STRING value schema. A text has no fields for fields.whitelist.")


def test_new_columns_have_the_types_that_debezium_gives_them(postgresql: Database, start: Start) -> None:
    kinds: dict[str, tuple[Any, Any, str]] = {
        "at": ({**debezium("time.ZonedTimestamp"), "default": "1970-01-01T00:00:00Z"}, "infinity",
               "timestamp with time zone"),
        "clock": (debezium("time.ZonedTime"), "12:30:00Z", "time with time zone"),
        "doc": ({**debezium("data.Json"), "default": "{}"}, '{"a": 1}', "json"),
        "uid": (debezium("data.Uuid"), "0f8fad5b-d9cb-469f-a165-70867728950e", "uuid"),
        "text": (debezium("data.Xml"), "<a>1</a>", "xml"),
        "bits": ({**BITS, "default": based(b"\x02\x01")}, based(b"\x02\x01"), "bit(16)"),
        "flags": (debezium("data.Bits", "bytes", length="2147483647"), based(b"\x05"), "bit varying"),
        "place": (POINT, {"x": 1, "y": 2}, "point"),
        "exact": (any_scale(), number(15, 1), "numeric"),
        "exacts": (array(any_scale()), [number(15, 1)], "numeric[]"),
        "mac": (_from("MACADDR8"), "08:00:2b:01:02:03:04:05", "macaddr8"),
        "nets": ({**array(TEXT), "parameters": {TYPE: "_INET"}}, ["10.0.0.1"], "inet[]"),
        "uids": (array(debezium("data.Uuid")), ["0f8fad5b-d9cb-469f-a165-70867728950e"], "uuid[]"),
        "plain": (_from("VARCHAR"), "x", "text"),
    }  # fmt: skip
    fields = [("id", "int32"), *((name, schema) for name, (schema, _, _) in kinds.items())]
    sink = start({"auto.create": "true", "pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert"})
    sink.all(with_schema(struct(*fields), {"id": 1, **{name: value for name, (_, value, _) in kinds.items()}}))
    types = dict(
        postgresql.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 't'::regclass AND attnum > 1"
        )
    )
    assert types == {name: kind for name, (_, _, kind) in kinds.items()}
    postgresql.execute("INSERT INTO t (id) VALUES (2)")
    found = postgresql.rows("SELECT bits::text, flags::text, place::text, exacts::text, nets::text FROM t ORDER BY id")
    assert found[0] == ("0000000100000010", "101", "(1,2)", "{1.5}", "{10.0.0.1}")
    assert found[1][0] == "0000000100000010"


def _from(kind: str, **parameters: str) -> dict[str, Any]:
    return {"type": "string", "optional": True, "parameters": {TYPE: kind, **parameters}}


@pytest.mark.parametrize(
    ("named", "column"), [("io.debezium.connector.jdbc.JdbcSinkConnector", "nick_name$"), ("", "nick_name_")]
)
def test_under_debeziums_class_a_column_has_its_sources_name(
    postgresql: Database, start: Start, named: str, column: str
) -> None:
    settings = {"connector.class": named} if named else {}
    sink = start(
        {"auto.create": "true", "pk.mode": "record_value", "pk.fields": "id_", "insert.mode": "upsert", **settings}
    )
    of = "__debezium.source.column.name"
    key = {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "parameters": {of: "id$"}}
    schema = struct(("id_", key), ("nick_name_", _from("TEXT", **{of: "nick_name$"})))
    sink.all(*(with_schema(schema, {"id_": 1, "nick_name_": name}) for name in ("a", "b")))
    assert postgresql.rows(f'SELECT "{column}" FROM t') == [("b",)]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_the_column_of_a_wrong_value_is_named(postgresql: Database, start: Start, mode: str) -> None:
    postgresql.execute("CREATE TABLE t (id int PRIMARY KEY, note text, many int)")
    sink = start({"insert.mode": mode, "pk.mode": "record_value", "pk.fields": "id"})
    schema = struct(("id", "int32"), ("note", "string"), ("many", "double"))
    said = sink.refused(with_schema(schema, {"id": 1, "note": "x", "many": 1e300}))
    assert "column many: " in said


def test_validate_only_wants_the_tables(shared: Engine, postgresql: Database) -> None:
    config = {"name": "c", "topics": "t,u", "schema.evolution": "validate-only", **postgresql.settings}
    postgresql.execute("CREATE TABLE t (id int)")
    assert [one.message for one in sink_problems(config, {})] == ["Table u of topic u is missing"]
    postgresql.execute("CREATE TABLE u (id int)")
    assert sink_problems(config, {}) == []
    (problem,) = sink_problems({**config, "table.name.format": "${source.table}"}, {})
    assert "has to know the tables" in problem.message


@pytest.mark.long
def test_bits_on_mariadb(shared: Engine, mariadb: Database) -> None:
    mariadb.execute("CREATE TABLE t (id int PRIMARY KEY, wide bit(16), exact_one decimal(10,3))")
    sink = Sinking(shared, mariadb, {"pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert"})
    schema = struct(("id", "int32"), ("wide", BITS), ("exact_one", any_scale()))
    sink.all(with_schema(schema, {"id": 1, "wide": based(b"\x02\x01"), "exact_one": number(-1234, 3)}))
    assert mariadb.rows("SELECT CAST(wide AS UNSIGNED), CAST(exact_one AS CHAR) FROM t") == [(0x102, "-1.234")]
    sink.stop()


@pytest.mark.long
@pytest.mark.parametrize("bits", [BITS, "bytes"], ids=["Bits", "bytes"])
def test_more_bits_than_mariadb_has_are_refused(shared: Engine, mariadb: Database, bits: Any) -> None:
    mariadb.execute("CREATE TABLE t (id int PRIMARY KEY, wide bit(64))")
    sink = Sinking(shared, mariadb, {"pk.mode": "record_value", "pk.fields": "id"})
    schema = struct(("id", "int32"), ("wide", bits))
    sink.all(with_schema(schema, {"id": 1, "wide": based(b"\xff" * 8)}))
    zeros = b"\xff" * 8 + b"\0" if bits is BITS else b"\0" + b"\xff" * 8
    sink.all(with_schema(schema, {"id": 2, "wide": based(zeros)}))
    assert "out of range" in sink.refused(with_schema(schema, {"id": 3, "wide": based(b"\x01" * 9)}))
    assert mariadb.rows("SELECT id, HEX(wide) FROM t ORDER BY id") == [(1, "F" * 16), (2, "F" * 16)]
    sink.stop()
