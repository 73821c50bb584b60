"""Records into the tables of real databases, by the worker's own walk."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.plugins.contracts import RetriableError, TopicPartition
from headrace.worker.engine.programs import Engine
from tests.integration.databases import Database
from tests.integration.sinking import T0, Record, Sinking, shared, struct, with_schema

__all__ = ["shared"]

pytestmark = pytest.mark.spark

Start = Callable[..., Sinking]
ORDER = struct(("id", "int32"), ("name", "string?"), ("amount", "double?"))
WIDER = struct(("id", "int32"), ("name", "string?"), ("amount", "double?"), ("note", "string?"))
KEYED = {"pk.mode": "record_value", "pk.fields": "id", "auto.create": "true"}
BY_KEY = {"pk.mode": "record_key", "pk.fields": "id", "auto.create": "true", "delete.enabled": "true"}
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), amount DOUBLE PRECISION)"
SELDOM_MARIADB = pytest.mark.parametrize(
    "database", ["postgresql", pytest.param("mariadb", marks=pytest.mark.soak), "sqlite"], indirect=True
)
"""MariaDB is tried before a release: what it does in its own way has tests that always run."""
HOSTILE = "\n\\.\na \"b\" 'c' \\d\\ `e` %s {x} \n\t é 世 🎉 \\. NULL"


@pytest.fixture
def start(shared: Engine, database: Database) -> Iterator[Start]:
    """Starts a sink with these settings."""
    started: list[Sinking] = []

    def start(settings: dict[str, str] | None = None, **more: Any) -> Sinking:
        started.append(Sinking(shared, database, settings, **more))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def order(number: int, name: str | None = "n", amount: float | None = 1.5) -> bytes:
    return with_schema(ORDER, {"id": number, "name": name, "amount": amount})


def wider(number: int, note: str | None) -> bytes:
    return with_schema(WIDER, {"id": number, "name": "w", "amount": None, "note": note})


def keyed(number: int, value: bytes | None) -> Record:
    return Record(value, with_schema(struct(("id", "int32")), {"id": number}))


def rows(database: Database, columns: str = "id, name, amount") -> list[tuple[Any, ...]]:
    return database.rows(f"SELECT {columns} FROM t ORDER BY 1, 2")


def test_insert_upsert_update(start: Start, database: Database) -> None:
    first = start(KEYED)
    first.all(order(1, HOSTILE), order(2, None, None), order(3, ""))
    assert first.compiled(), "a small batch costs no Spark job"
    assert rows(database) == [(1, HOSTILE, 1.5), (2, None, None), (3, "", 1.5)]
    second = start({**KEYED, "insert.mode": "upsert"})
    second.all(order(1, "a"), order(4, "d"), order(1, "last"), order(5, "e"), order(4, "last", 0.1))
    assert rows(database)[0] == (1, "last", 1.5)
    assert rows(database)[3:] == [(4, "last", 0.1), (5, "e", 1.5)]
    third = start({**KEYED, "insert.mode": "update"})
    third.all(order(1, "u"), order(99, "nobody"), order(1, "updated"))
    assert rows(database)[0] == (1, "updated", 1.5)
    assert len(rows(database)) == 5


@SELDOM_MARIADB
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_schema_that_is_written_in_two_ways_is_one(start: Start, database: Database, mode: str) -> None:
    sink = start({**KEYED, "insert.mode": mode})
    other = {**ORDER, "version": None}
    sink.all(*(with_schema(ORDER if n % 2 else other, {"id": n, "name": f"{n}", "amount": 0.5}) for n in range(6)))
    assert rows(database) == [(n, f"{n}", 0.5) for n in range(6)]


@SELDOM_MARIADB
def test_a_key_that_is_written_in_two_ways_is_one(start: Start, database: Database) -> None:
    sink = start({**BY_KEY, "insert.mode": "upsert"})
    schema = struct(("id", "int32"))
    key = [with_schema({**schema, **more}, {"id": n}) for n, more in enumerate(({}, {"version": None}, {}))]
    sink.all(*(Record(order(n, f"{n}"), one) for n, one in enumerate(key)))
    assert rows(database, "id, name") == [(0, "0"), (1, "1"), (2, "2")]
    sink.all(*(Record(None, one) for one in key))
    assert rows(database) == []


def test_without_a_key_all_rows_are_added(start: Start, database: Database) -> None:
    sink = start({"auto.create": "true"})
    sink.all(order(1), order(1), there=True)
    sink.all(order(1))
    assert rows(database) == [(1, "n", 1.5)] * 3


def test_tombstones_delete_in_the_records_order(start: Start, database: Database) -> None:
    sink = start({**BY_KEY, "insert.mode": "upsert"})
    sink.all(keyed(1, order(1, "a")), keyed(2, order(2, "b")), keyed(3, order(3, "c")))
    sink.all(keyed(1, None), keyed(2, order(2, "x")), keyed(2, None), keyed(3, None), keyed(3, order(3, "again")))
    assert rows(database) == [(3, "again", 1.5)]
    sink.all(keyed(3, order(3, "z")), keyed(3, None), keyed(7, None), there=True)
    assert rows(database) == []


@SELDOM_MARIADB
def test_a_row_that_was_deleted_comes_back_without_what_it_had(start: Start, database: Database) -> None:
    database.execute(TABLE, "ALTER TABLE t ADD extra INT", "INSERT INTO t VALUES (1, 'a', 1, 42), (2, 'b', 2, 42)")
    sink = start({**BY_KEY, "insert.mode": "upsert"})
    sink.all(keyed(1, None), keyed(1, order(1, "new")), keyed(2, order(2, "new")))
    assert rows(database, "id, name, extra") == [(1, "new", None), (2, "new", 42)]


@SELDOM_MARIADB
def test_keys_of_kafka_and_of_a_primitive(start: Start, database: Database) -> None:
    start({"pk.mode": "kafka", "auto.create": "true", "insert.mode": "upsert"}).all(order(5), order(5))
    columns = "__connect_topic, __connect_partition, __connect_offset, id"
    assert database.rows(f"SELECT {columns} FROM t ORDER BY 3") == [("t", 0, 0, 5), ("t", 0, 1, 5)]
    database.execute("DROP TABLE t")
    sink = start({**BY_KEY, "pk.fields": "k", "insert.mode": "upsert"})
    sink.all(Record(order(1), with_schema("string", "x")), Record(order(2), with_schema("string", "x")))
    assert rows(database, "k, id") == [("x", 2)]


def test_a_text_is_one_column(start: Start, database: Database) -> None:
    sink = start({"auto.create": "true", "string.output.value.column.name": "line"})
    sink.all(with_schema("string", HOSTILE), with_schema("string", ""))
    assert sorted(database.rows("SELECT line FROM t")) == [("",), (HOSTILE,)]


def test_tables_by_topic(start: Start, database: Database) -> None:
    sink = start({**KEYED, "topics": "t,u", "table.name.format": "x_${topic}", "topics.to.tables.mapping": "t:first"})
    sink.open(T0, TopicPartition("u", 0))
    sink.all(Record(order(1)), Record(order(2), topic="u"), Record(order(3)))
    assert database.rows("SELECT id FROM first ORDER BY 1") == [(1,), (3,)]
    assert database.rows("SELECT id FROM x_u") == [(2,)]


@SELDOM_MARIADB
def test_columns_are_added_between_records_of_two_schemas(start: Start, database: Database) -> None:
    sink = start({**KEYED, "insert.mode": "upsert", "auto.evolve": "true"})
    sink.all(order(1, "a"), wider(2, "new"), order(2, "b"), wider(1, "x"), order(3, "c"))
    assert rows(database, "id, name, note") == [(1, "w", "x"), (2, "b", "new"), (3, "c", None)]


def test_a_field_without_column_is_the_fault_of_its_records(start: Start, database: Database) -> None:
    database.execute(TABLE)
    sink = start(KEYED)
    said = sink.refused(order(1), wider(2, "x"), order(3))
    assert "record of t-0 at offset 1" in said
    assert "Table t is missing fields (note) and auto-evolution is disabled; run: ALTER TABLE" in said
    assert [row[0] for row in rows(database)] == [1], "what comes behind it is not written"


def test_only_the_guilty_rows_are_left_out(start: Start, database: Database) -> None:
    name = "name VARCHAR(5) CHECK (length(name) < 6)"  # SQLite checks nothing else
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {name}, amount DOUBLE PRECISION CHECK (amount > 0))")
    sink = start({**KEYED, "errors.tolerance": "all", "errors.log.include.messages": "true"})
    records = [
        order(number, "long name" if number % 40 == 7 else "ok", -1.0 if number == 50 else 1.0) for number in range(100)
    ]
    (reached,) = sink.put(*records, order(3, "dup"))
    assert (reached.upto, reached.written, reached.bad, reached.stop) == (100, 96, 5, None)
    assert len(rows(database)) == 96
    assert len(sink.said) == 5
    assert all("SQLSTATE" in line and "TASK_PUT" in line for line in sink.said)
    offsets = [part.partition(",")[0] for line in sink.said for part in line.split("offset=")[1:]]
    assert offsets == ["7", "47", "50", "87", "100"]


@pytest.mark.parametrize(
    ("settings", "record", "said"),
    [
        ({}, Record(None), "'delete.enabled=false' and 'pk.mode=none' and therefore requires records with a non-null"),
        ({}, Record(with_schema("int32", 5)), "with a Integer value and INT32 value schema"),
        (BY_KEY, Record(order(1)), "PK mode for table 't' is RECORD_KEY, but record key schema is missing"),
        (BY_KEY, Record(order(1), with_schema(struct(("x", "int32")), {"x": 1})), "does not contain field: id"),
        ({**BY_KEY, "pk.fields": ""}, Record(order(1), with_schema("int32", 1)), "Need exactly one PK column defined"),
        ({**KEYED, "pk.fields": "x"}, Record(order(1)), "record value schema does not contain field: x"),
        ({"fields.whitelist": "x", "auto.create": "true"}, Record(order(1)), "No fields found using key and value"),
    ],
)
def test_records_of_another_shape(
    shared: Engine, sqlite: Database, settings: dict[str, str], record: Record, said: str
) -> None:
    sink = Sinking(shared, sqlite, {"errors.tolerance": "all", "auto.create": "true", **settings})
    good = Record(order(1), with_schema(struct(("id", "int32")), {"id": 1}))
    expected = 0 if "x" in settings.values() else 1
    reached = sink.put(*([good] if expected else []), record)
    assert sum(one.bad for one in reached) == 1
    assert any(said in line for line in sink.said), sink.said
    assert not expected or rows(sqlite, "id, name") == [(1, "n")]
    sink.stop()


ENVELOPE = struct(
    ("before", {**struct(("id", "int32"), ("name", "string?")), "optional": True}),
    ("after", {**struct(("id", "int32"), ("name", "string?")), "optional": True}),
    ("source", struct(("db", "string"), ("table", "string"))),
    ("op", "string"),
    name="server.shop.orders.Envelope",
)


def change(op: str, number: int, name: str | None = "n") -> Record:
    row = {"id": number, "name": name}
    payload = {
        "before": row if op in "ud" else None,
        "after": None if op in "dt" else row,
        "source": {"db": "shop", "table": "orders"},
        "op": op,
    }
    return Record(with_schema(ENVELOPE, payload), with_schema(struct(("id", "int32")), {"id": number}))


def test_change_events_by_debeziums_names(start: Start, database: Database) -> None:
    sink = start(
        {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "insert.mode": "upsert",
            "primary.key.mode": "record_key",
            "delete.enabled": "true",
            "truncate.enabled": "true",
            "schema.evolution": "basic",
            "collection.name.format": "${source.table}_copy",
        }
    )
    tombstone = change("d", 2)._replace(value=None)
    sink.all(change("r", 1), change("c", 2), change("u", 1, "changed"), change("d", 2), tombstone, change("c", 3))
    sink.all(change("m", 9))
    found = "SELECT id, name FROM orders_copy ORDER BY 1"
    assert database.rows(found) == [(1, "changed"), (3, "n")]
    sink.all(change("c", 4), change("t", 0), change("c", 5, "left"))
    assert database.rows(found) == [(5, "left")]


def test_a_tombstone_that_names_no_table_is_passed_over(shared: Engine, sqlite: Database) -> None:
    sqlite.execute("CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)")
    settings = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true"}
    sink = Sinking(shared, sqlite, {**settings, "table.name.format": "${source.table}"})
    sink.all(change("c", 1), change("c", 2), change("d", 2), change("d", 2)._replace(value=None), change("c", 3))
    assert sqlite.rows("SELECT id FROM orders ORDER BY 1") == [(1,), (3,)]
    sink.stop()


def test_plain_json_into_the_columns_of_a_table(start: Start, database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), amount DECIMAL(10,2), ok SMALLINT, doc TEXT, extra INT)"
    )
    sink = start({**KEYED, "insert.mode": "upsert", "errors.tolerance": "all"}, schemas=False)

    def plain(**members: Any) -> bytes:
        return json.dumps(members).encode()

    sink.all(
        plain(id=1, name=HOSTILE[:15], amount=1.25, ok=1, doc={"a": [1, None]}),
        plain(id=2, name=None, amount="2.5"),
        plain(id=1, name="later"),
        plain(extra=7, id=2),
        plain(id=3, NAME="upper"),
    )
    found = rows(database, "id, name, amount, ok, extra")
    assert [tuple(map(str, row)) for row in found] == [
        ("1", "later", "1.25", "1", "None"),
        ("2", "None", "2.50" if database.kind != "sqlite" else "2.5", "None", "7"),
        ("3", "upper", "None", "None", "None"),
    ]
    assert json.loads(database.value("SELECT doc FROM t WHERE id = 1")) == {"a": [1, None]}
    wrong = plain(id=6, amount="x") if database.kind != "sqlite" else plain(id=None)
    (reached,) = sink.put(plain(id=5, nope=1), wrong, b"[1]", plain(name="no key"))
    assert reached.bad == 4
    assert any("Table t is missing fields (nope)" in line for line in sink.said)


def test_plain_keys_and_values(start: Start, database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), amount DOUBLE PRECISION)")
    sink = start({**BY_KEY, "insert.mode": "upsert"}, schemas=False)
    sink.all(Record(b'{"name":"a"}', b"1"), Record(b'{"name":"b"}', b'{"id":2}'), Record(b'{"name":"c"}', b"3"))
    sink.all(Record(None, b"1"), Record(b'{"name":"d"}', b'{"id":3}'))
    assert rows(database) == [(2, "b", None), (3, "d", None)]


TYPES = struct(
    ("id", "int64"),
    ("i8", "int8?"),
    ("i16", "int16?"),
    ("f", "float?"),
    ("d", "double?"),
    ("b", "boolean?"),
    ("raw", "bytes?"),
    (
        "num",
        {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
    ),
    ("day", {"type": "int32", "optional": True, "name": "org.apache.kafka.connect.data.Date"}),
    ("clock", {"type": "int32", "optional": True, "name": "org.apache.kafka.connect.data.Time"}),
    ("at", {"type": "int64", "optional": True, "name": "org.apache.kafka.connect.data.Timestamp"}),
)


def test_every_type_by_its_own_column(start: Start, database: Database) -> None:
    sink = start(KEYED)
    decimal = base64.b64encode((-12345).to_bytes(2, "big", signed=True)).decode()
    values = {
        "id": 2**53 + 1, "i8": -128, "i16": 32767, "f": 0.1, "d": 1e-300, "b": True,
        "raw": base64.b64encode(bytes(range(256))).decode(), "num": decimal, "day": 18262, "clock": 45296789,
        "at": 1577934245678,
    }  # fmt: skip
    nothing = {**dict.fromkeys(values), "id": 1}
    sink.all(with_schema(TYPES, values), with_schema(TYPES, nothing))
    empty, found = rows(database, ", ".join(values))
    assert set(empty[1:]) == {None}
    assert found[:3] == (2**53 + 1, -128, 32767)
    assert found[3] == pytest.approx(0.1)
    assert found[4] == 1e-300
    assert found[5] == 1
    assert bytes(found[6]) == bytes(range(256))
    assert float(found[7]) == -123.45
    moments = {
        "postgresql": ("2020-01-01", "12:34:56.789000", "2020-01-02 03:04:05.678000"),
        "mariadb": ("2020-01-01", "12:34:56.789000", "2020-01-02 03:04:05.678000"),
        "sqlite": (str(18262 * 86_400_000), "45296789", "1577934245678"),
    }
    assert tuple(map(str, found[8:])) == moments[database.kind]


@pytest.mark.parametrize("database", ["postgresql", pytest.param("mariadb", marks=pytest.mark.long)], indirect=True)
def test_a_machine_that_is_gone_is_noticed(start: Start, database: Database) -> None:
    sink = start()
    with sink.task._sink.database.connect() as connection:
        driver: Any = connection.connection.driver_connection
        number = driver._sock.fileno() if database.kind == "mariadb" else driver.fileno()
        with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as found:
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000


def test_the_database_comes_back(start: Start, database: Database, request: pytest.FixtureRequest) -> None:
    if database.kind == "sqlite":
        pytest.skip("there is no server that goes away")
    sink = start({**KEYED, "insert.mode": "upsert", "connection.attempts": "1", "max.retries": "2"})
    sink.all(order(1))
    server = request.getfixturevalue(f"{database.kind}_server")
    server.kill()
    with pytest.raises(RetriableError):
        sink.put(order(2))
    server.start()
    sink.all(order(2))
    assert [row[0] for row in rows(database)] == [1, 2]


def test_a_change_event_without_operation_is_a_write(shared: Engine, sqlite: Database) -> None:
    optional = {**struct(("id", "int32")), "optional": True}
    schema = struct(("before", optional), ("after", optional), ("op", "string?"), name="x.Envelope")
    sink = Sinking(shared, sqlite, {"auto.create": "true"})
    sink.all(with_schema(schema, {"before": None, "after": {"id": 1}, "op": None}))
    assert rows(sqlite, "id, id") == [(1, 1)]
    sink.stop()


def test_an_object_without_members_is_refused_alone(start: Start, database: Database) -> None:
    database.execute(TABLE)
    sink = start({"errors.tolerance": "all"}, schemas=False)
    (reached,) = sink.put(b'{"id":1}', b"{}", b'{"id":2}')
    assert (reached.written, reached.bad) == (2, 1)
    assert "No fields found" in sink.said[0]


COLLATED = {
    "mariadb": ["CREATE TABLE t (k VARCHAR(20) PRIMARY KEY, id INT)"],
    "sqlite": ["CREATE TABLE t (k TEXT COLLATE NOCASE PRIMARY KEY, id INT)"],
    "postgresql": [
        "CREATE COLLATION plain (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
        "CREATE TABLE t (k varchar(20) COLLATE plain PRIMARY KEY, id INT)",
    ],
}


def by(key: str, number: int | None) -> Record:
    value = None if number is None else with_schema(struct(("id", "int32")), {"id": number})
    return Record(value, with_schema("string", key))


def test_keys_that_the_database_takes_for_one_keep_their_order(start: Start, database: Database) -> None:
    database.execute(*COLLATED[database.kind])
    sink = start({**BY_KEY, "pk.fields": "k", "insert.mode": "upsert"})
    zoe = "zoë" if database.kind != "sqlite" else "zoe"
    sink.all(by("Bob", 1), by(zoe, 1))
    sink.all(by("Bob", None), by("bob", 2), by(zoe, None), by("Zoe", 3), by("ann", 4), by("ANN", None))
    assert database.rows("SELECT k, id FROM t ORDER BY id") == [("bob", 2), ("Zoe", 3)]
    sink.all(by("zoe", 5), by("bob", 6), by("BOB", 7), by("Anna", 8), by("ZOE", 9), by("Bob", 10))
    found = database.rows("SELECT k, id FROM t ORDER BY id")
    assert [(key.lower(), number) for key, number in found] == [("anna", 8), ("zoe", 9), ("bob", 10)]
    sink.stop()
    sink = start({**BY_KEY, "pk.fields": "k", "insert.mode": "update"})
    sink.all(by("Bob", 11), by("bob", 12), by("anna", 13), by("BOB", 14), by("bob", 15))
    assert [number for (number,) in database.rows("SELECT id FROM t ORDER BY id")] == [9, 13, 15]


def test_keys_that_only_look_alike_are_two(start: Start, database: Database) -> None:
    binary = {"mariadb": "VARCHAR(20) COLLATE utf8mb4_bin", "sqlite": "TEXT", "postgresql": "char(5)"}
    database.execute(f"CREATE TABLE t (k {binary[database.kind]} PRIMARY KEY, id INT)")
    sink = start({**BY_KEY, "pk.fields": "k", "insert.mode": "upsert"})
    sink.all(by("bob", 1), by("Bob", 2), by("ann", 3), by("ann", None), by("Ann", 4))
    assert [number for (number,) in database.rows("SELECT id FROM t ORDER BY id")] == [1, 2, 4]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_blanks_behind_a_key_of_fixed_length_mean_nothing(start: Start, database: Database) -> None:
    database.execute("CREATE TABLE t (k char(5) PRIMARY KEY, id INT)")
    sink = start({**BY_KEY, "pk.fields": "k", "insert.mode": "upsert"})
    sink.all(by("a ", 1), by("a", 2), by("b", 3), by("b ", 4))
    assert database.rows("SELECT id FROM t ORDER BY id") == [(2,), (4,)]


@SELDOM_MARIADB
def test_two_fields_are_not_one_column(start: Start, database: Database) -> None:
    database.execute("CREATE TABLE t (id INT, name VARCHAR(20))")
    sink = start({"errors.tolerance": "all"})
    schema = struct(("id", "int32"), ("NAME", "string"), ("name", "string"))
    twice = with_schema(schema, {"id": 1, "NAME": "a", "name": "b"})
    (reached,) = sink.put(twice, with_schema(struct(("ID", "int32"), ("Name", "string")), {"ID": 2, "Name": "c"}))
    assert (reached.written, reached.bad) == (1, 1)
    assert database.rows("SELECT id, name FROM t") == [(2, "c")]
    assert "Fields NAME and name are both column name of table t" in sink.said[0]


@SELDOM_MARIADB
def test_moments_as_text_with_an_offset_and_without(start: Start, database: Database) -> None:
    moments = {"at": "2020-01-02T03:04:05.678+02:00", "zulu": "2020-01-02 03:04:05Z", "wall": "2020-01-02T03:04:05"}
    texts = {**moments, "day": "2020-01-02", "west": "2020-01-02T03:04:05-05:00"}
    kind = {"postgresql": "timestamp", "mariadb": "DATETIME(3)", "sqlite": "TEXT"}[database.kind]
    database.execute(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name in texts)}, n VARCHAR(40))")
    sink = start({"timestamp.fields.list": ",".join(texts), "db.timezone": "America/New_York"})
    sink.all(with_schema(struct(*((name, "string") for name in texts)), texts))
    ((at, zulu, wall, day, west),) = database.rows(f"SELECT {', '.join(texts)} FROM t")
    shown = [str(one)[:19] for one in (at, zulu, wall, day, west)]
    assert shown == [
        "2020-01-01 20:04:05", "2020-01-01 22:04:05", "2020-01-02 03:04:05", "2020-01-02 00:00:00",
        "2020-01-02 03:04:05",
    ]  # fmt: skip


def test_sqlites_texts_are_by_the_clock_its_numbers_are_not(shared: Engine, sqlite: Database) -> None:
    sqlite.execute("CREATE TABLE t (number NUMERIC, label TEXT)")
    moment = {"type": "int64", "optional": True, "name": "org.apache.kafka.connect.data.Timestamp"}
    sink = Sinking(shared, sqlite, {"db.timezone": "America/New_York"})
    schema = struct(("number", moment), ("label", moment))
    sink.all(*(with_schema(schema, {"number": at, "label": at}) for at in (1577934245678, None)))
    assert sqlite.rows("SELECT number, label FROM t") == [(1577934245678, "2020-01-01 22:04:05.678"), (None, None)]
    sink.stop()


@SELDOM_MARIADB
def test_a_time_at_the_end_of_a_day_is_not_its_beginning(start: Start, database: Database) -> None:
    times = {"early": 0, "late": 86_400_000}
    kind = {"type": "int32", "optional": True, "name": "org.apache.kafka.connect.data.Time"}
    schema = struct(("id", "int32"), *((name, kind) for name in times))
    start({"auto.create": "true"}).all(with_schema(schema, {"id": 1, **times}))
    text = "CHAR" if database.kind == "mariadb" else "text"
    (found,) = rows(database, ", ".join(f"CAST({name} AS {text})" for name in times))
    shown = ["0", "86400000"] if database.kind == "sqlite" else ["00:00:00", "24:00:00"]
    assert [one.partition(".")[0] for one in found] == shown


def test_a_time_in_a_text_of_sqlites_is_that_of_the_other_databases(shared: Engine, sqlite: Database) -> None:
    sqlite.execute("CREATE TABLE t (number NUMERIC, label TEXT)")
    kind = {"type": "int32", "optional": True, "name": "org.apache.kafka.connect.data.Time"}
    sink = Sinking(shared, sqlite, {})
    schema = struct(("number", kind), ("label", kind))
    sink.all(*(with_schema(schema, {"number": at, "label": at}) for at in (3723004, 86_400_000, None)))
    shown = [(3723004, "01:02:03.004"), (86_400_000, "24:00:00.000"), (None, None)]
    assert sqlite.rows("SELECT number, label FROM t") == shown
    sink.stop()
