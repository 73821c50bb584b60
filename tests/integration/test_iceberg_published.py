"""Published configs of Iceberg's sink: created as they are but for hosts, logins and intervals, and what they write."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform
from pyiceberg.types import NestedField, StringType, TimestamptzType

from tests.integration import iceberg_published as published
from tests.integration.databases import PASSWORD, USER, Database
from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.iceberg_tables import LakeTable, Row
from tests.integration.s3_server import REGION, S3Server
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

WITHIN_S: Final = 120
NOON: Final = 1_767_268_800_000
"""2026-01-01 12:00 UTC."""
EVENT: Final = {"id": "string", "type": "string", "ts": "int64", "payload": "string"}


class Lake:
    """The servers that hosts of published configs stand for, and the connectors that were made."""

    def __init__(self, worker: WorkerProcess, broker: str, s3: S3Server) -> None:
        self.worker, self.broker, self.s3 = worker, broker, s3
        self._made: list[str] = []

    def run(self, config: Mapping[str, str], *topics: Topic, **own: str) -> str:
        """Create the connector with the servers of `own` (`_` for `.`) and a short interval; return its name."""
        name = f"published-{uuid.uuid4().hex[:8]}"
        login = {
            "iceberg.catalog.s3.endpoint": self.s3.endpoint,
            "iceberg.catalog.s3.access-key-id": self.s3.access_key,
            "iceberg.catalog.s3.secret-access-key": self.s3.secret_key,
            "iceberg.catalog.client.region": REGION,
        }
        ours = {key.replace("_", "."): value for key, value in own.items()}
        replaced = {key: value for key, value in {**login, **ours}.items() if key in config}
        adapted = {**config, **replaced, "iceberg.control.commit.interval-ms": "500", "name": name}
        adapted.pop("topics.regex", None)
        self._made.append(name)
        answer = self.worker.request("PUT", f"/connectors/{name}/config", self._of(adapted, topics))
        assert answer.status_code == 201
        return name

    def _of(self, config: Mapping[str, str], topics: Sequence[Topic]) -> dict[str, str]:
        return {**config, "topics": ",".join(topic.name for topic in topics)}

    def delete(self) -> None:
        """Delete all that was made."""
        for name in self._made:
            self.worker.request("DELETE", f"/connectors/{name}")
            assert name not in self.worker.get("/connectors")

    def s3_properties(self) -> dict[str, str]:
        """The properties of a catalog that keeps files there."""
        return {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.s3.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": self.s3.access_key,
            "s3.secret-access-key": self.s3.secret_key,
            "client.region": REGION,
        }

    def await_rows(self, table: LakeTable, order: str, *wanted: Row) -> None:
        """The table has these rows after a while."""

        def are_there() -> bool:
            try:
                return table.rows(order) == list(wanted)
            except LookupError:
                return False

        eventually(are_there, WITHIN_S, lambda: f"{table.name}: {self.worker.log()[-3000:]}")


@pytest.fixture
def lake(worker: WorkerProcess, broker: str, s3_server: S3Server) -> Iterator[Lake]:
    """The worker and the store of files."""
    found = Lake(worker, broker, s3_server)
    yield found
    found.delete()


@pytest.fixture
def rest_on_s3(lake: Lake, tmp_path: Path) -> Iterator[IcebergRestServer]:
    """A REST catalog without logins whose tables lie in a bucket."""
    behind = {**lake.s3_properties(), "warehouse": f"s3://{lake.s3.bucket()}/"}
    server = IcebergRestServer(tmp_path / "rest", behind, is_open=True)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def open_rest(tmp_path: Path) -> Iterator[IcebergRestServer]:
    """A REST catalog without logins on the local disk."""
    server = IcebergRestServer(tmp_path / "rest", is_open=True)
    server.start()
    yield server
    server.kill()


def own_catalog(server: IcebergRestServer) -> dict[str, str]:
    """The settings of a config that name the REST catalog, for `Lake.run`."""
    return {f"iceberg_catalog_{key}": value for key, value in server.properties.items() if key != "type"}


def events(server: IcebergRestServer, *names: str) -> list[LakeTable]:
    """Tables of events as the documentation creates them, empty."""
    catalog: Catalog = load_catalog("test", **server.properties)
    fields = ("id", "type", "ts", "payload")
    types = {"ts": TimestamptzType()}
    columns = [NestedField(n, name, types.get(name, StringType())) for n, name in enumerate(fields, 1)]
    spec = PartitionSpec(PartitionField(source_id=3, field_id=1000, transform=HourTransform(), name="ts_hour"))
    for name in names:
        catalog.create_namespace_if_not_exists(name.partition(".")[0])
        with contextlib.suppress(NoSuchTableError):
            catalog.drop_table(name)
        catalog.create_table(name, Schema(*columns), partition_spec=spec, properties={"format-version": "2"})
    return [LakeTable(server, server.properties, name) for name in names]


def enveloped(value: Row, **fields: str) -> bytes:
    """A record as JsonConverter writes it with its schema; `ts` is Connect's timestamp."""
    timestamp = {"name": "org.apache.kafka.connect.data.Timestamp", "version": 1}
    declared = [
        {"field": name, "type": kind, "optional": True, **(timestamp if name == "ts" else {})}
        for name, kind in fields.items()
    ]
    schema = {"type": "struct", "optional": False, "name": "Event", "fields": declared}
    return json.dumps({"schema": schema, "payload": value}).encode()


def event(number: int, **more: Any) -> Row:
    return {"id": str(number), "type": "list", "ts": NOON + number * 3_600_000, "payload": f"p{number}", **more}


def stored(number: int, **more: Any) -> Row:
    at = f"2026-01-01T{12 + number}:00:00.000000+00:00"
    return {"id": str(number), "type": "list", "ts": at, "payload": f"p{number}", **more}


def test_one_table_that_is_there(lake: Lake, iceberg_rest: IcebergRestServer) -> None:
    (table,) = events(iceberg_rest, "default.events")
    topic = Topic(lake.broker, "events")
    topic.send([enveloped(event(number), **EVENT) for number in range(3)])
    lake.run(published.ONE_TABLE, topic, **own_catalog(iceberg_rest))
    lake.await_rows(table, "id", *(stored(number) for number in range(3)))
    assert len(table.static().inspect.partitions()) == 3


def test_two_tables_by_a_field(lake: Lake, iceberg_rest: IcebergRestServer) -> None:
    listed, created = events(iceberg_rest, "default.events_list", "default.events_create")
    topic = Topic(lake.broker, "events")
    kinds = ["list", "create", "other", "listing", "list"]
    topic.send([enveloped(event(number, type=kind), **EVENT) for number, kind in enumerate(kinds)])
    lake.run(published.STATIC_ROUTES, topic, **own_catalog(iceberg_rest))
    lake.await_rows(listed, "id", stored(0), stored(4))
    lake.await_rows(created, "id", stored(1, type="create"))


@pytest.mark.soak
def test_tables_that_records_name(lake: Lake, iceberg_rest: IcebergRestServer) -> None:
    listed, created = events(iceberg_rest, "default.events_list", "default.events_create")
    topic = Topic(lake.broker, "events")
    names = ["default.events_list", "Default.Events_Create"]
    fields = {**EVENT, "db_table": "string"}
    topic.send([enveloped(event(number, db_table=name), **fields) for number, name in enumerate(names)])
    lake.run(published.DYNAMIC_ROUTES, topic, **own_catalog(iceberg_rest))
    lake.await_rows(listed, "id", stored(0))
    lake.await_rows(created, "id", stored(1))


def test_changes_by_a_field(lake: Lake, iceberg_rest: IcebergRestServer) -> None:
    (table,) = events(iceberg_rest, "default.events")
    topic = Topic(lake.broker, "events")
    ops = [(0, "I", "a"), (1, "I", "b"), (2, "I", "c"), (1, "U", "b2"), (0, "D", "a"), (2, "D", "c"), (2, "I", "c2")]
    fields = {**EVENT, "_cdc_op": "string"}
    topic.send([enveloped(event(n, payload=text, _cdc_op=op), **fields) for n, op, text in ops])
    # The documentation says that the id columns can be set if the table has no identifier fields.
    config = {**published.CHANGES, "iceberg.tables.default-id-columns": "id"}
    lake.run(config, topic, **own_catalog(iceberg_rest))
    lake.await_rows(table, "id", stored(1, payload="b2"), stored(2, payload="c2"))


def test_the_benchmark_of_redpanda(lake: Lake, rest_on_s3: IcebergRestServer) -> None:
    topic = Topic(lake.broker, "bench-events", 4)
    rows = [{"id": n, "category": f"cat_{n % 10}", "value": n / 100, "ts": NOON * 1000 + n} for n in range(200)]
    for partition in range(4):
        topic.send([json.dumps(row).encode() for row in rows[partition::4]], partition)
    lake.run(published.BENCH, topic, **own_catalog(rest_on_s3))
    table = LakeTable(rest_on_s3, {**rest_on_s3.properties, **lake.s3_properties()}, "benchmark.events")
    lake.await_rows(table, "id", *rows)


@pytest.mark.soak
def test_a_view_as_avro(lake: Lake, open_rest: IcebergRestServer, registry: str) -> None:
    topic = Topic(lake.broker, "pizzas")
    names = {"order_number": "long", "pizza": "string", "op": "string"}
    encoded = avro(registry, topic, names)
    ops = [(1, "salami", "c"), (2, "funghi", "c"), (1, "tonno", "u"), (2, "funghi", "d")]
    topic.send([encoded({"order_number": n, "pizza": pizza, "op": op}) for n, pizza, op in ops])
    registry_own = {"key_converter_schema_registry_url": registry, "value_converter_schema_registry_url": registry}
    lake.run(published.VIEW, topic, **own_catalog(open_rest), **registry_own)
    table = LakeTable(open_rest, open_rest.properties, "rpc.pizzas")
    lake.await_rows(table, "order_number", {"order_number": 1, "pizza": "tonno", "op": "u"})


@pytest.mark.soak
def test_a_jdbc_catalog(lake: Lake, iceberg_rest: IcebergRestServer, postgresql: Database, tmp_path: Path) -> None:
    login = {"jdbc.user": USER, "jdbc.password": PASSWORD}
    properties = {"type": "jdbc", "uri": postgresql.jdbc_url, "warehouse": f"file://{tmp_path}/warehouse", **login}
    topic = Topic(lake.broker, "my-topic")
    topic.send([enveloped({"id": 1, "name": "one"}, id="int64", name="string")])
    own = {f"iceberg.catalog.{key}": value for key, value in properties.items() if key != "type"}
    created = {"iceberg.tables.auto-create-enabled": "true"}  # nobody else makes its table here
    lake.run({**published.JDBC, **own, **created}, topic)
    # A JDBC catalog keeps tables by the catalog's name.
    lake.await_rows(LakeTable(iceberg_rest, properties, "db.table"), "id", {"id": 1, "name": "one"})


def test_hours_of_avro(lake: Lake, open_rest: IcebergRestServer, registry: str) -> None:
    topic = Topic(lake.broker, "orders")
    timestamp = {"type": "long", "logicalType": "timestamp-millis"}
    encoded = avro(registry, topic, {"id": "long", "event_time": timestamp})
    topic.send([encoded({"id": number, "event_time": NOON + number * 3_600_000}) for number in range(3)])
    registry_own = {"key_converter_schema_registry_url": registry, "value_converter_schema_registry_url": registry}
    lake.run(published.PARTITIONED, topic, **own_catalog(open_rest), **registry_own)
    table = LakeTable(open_rest, open_rest.properties, "raw.orders")
    lake.await_rows(table, "id", *({"id": n, "event_time": stored(n)["ts"]} for n in range(3)))
    assert [field.name for field in table.static().spec().fields] == ["event_time_hour"]


def test_debezium_into_a_hadoop_catalog(lake: Lake, iceberg_rest: IcebergRestServer, tmp_path: Path) -> None:
    topic = Topic(lake.broker, "cdc")
    fields: list[dict[str, Any]] = [{"field": "id", "type": "int32"}, {"field": "name", "type": "string"}]
    changes = [("r", 1, "ann"), ("c", 2, "bob"), ("u", 1, "anna"), ("d", 2, "bob")]
    topic.send([change(fields, op, {"id": number, "name": name}) for op, number, name in changes])
    warehouse = f"{tmp_path}/warehouse"
    lake.run(published.DEBEZIUM, topic, iceberg_catalog_warehouse=warehouse)
    table = LakeTable(iceberg_rest, {"type": "hadoop", "warehouse": warehouse}, "cdc.public_user")

    def rows() -> list[Row]:
        try:
            return [{"id": row["id"], "name": row["name"]} for row in table.rows("id")]
        except LookupError:
            return []

    eventually(lambda: rows() == [{"id": 1, "name": "anna"}], WITHIN_S, lambda: (rows(), lake.worker.log()[-3000:]))


def test_a_misspelt_setting_fails_with_what_to_do(lake: Lake, open_rest: IcebergRestServer) -> None:
    topic = Topic(lake.broker, "events")
    topic.send([b'{"id": 1}'])
    name = lake.run(published.MISSPELT, topic, **own_catalog(open_rest))
    lake.worker.wait_states(name, "FAILED")
    trace = lake.worker.trace(name)
    assert "db.events_table" in trace
    assert "iceberg.tables.auto-create-enabled" in trace
    assert "password123" not in lake.worker.log()


def avro(registry: str, topic: Topic, types: Mapping[str, Any]) -> Any:
    """A serializer of records of these fields, all optional, for the topic."""
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in types.items()]
    schema = json.dumps({"type": "record", "name": "Row", "fields": fields})
    serializer = AvroSerializer(SchemaRegistryClient({"url": registry, "timeout": 30}), schema)
    context = SerializationContext(topic.name, MessageField.VALUE)
    return lambda value: serializer(value, context)


def change(fields: list[dict[str, Any]], op: str, row: Row) -> bytes:
    """Debezium's change of a row of `public.user`, as JSON with its schema."""
    of_row = {"type": "struct", "optional": True, "fields": fields}
    source = ["db", "schema", "table"]
    of_source = {"type": "struct", "fields": [{"field": name, "type": "string"} for name in source]}
    declared = [
        {"field": "before", **of_row},
        {"field": "after", **of_row},
        {"field": "source", **of_source},
        {"field": "op", "type": "string"},
        {"field": "ts_ms", "type": "int64", "optional": True},
    ]
    payload = {
        "before": None if op in {"c", "r"} else row,
        "after": None if op == "d" else row,
        "source": dict(zip(source, ("shop", "public", "user"), strict=True)),
        "op": op,
        "ts_ms": NOON,
    }
    schema = {"type": "struct", "name": "shop.public.user.Envelope", "fields": declared}
    return json.dumps({"schema": schema, "payload": payload}).encode()
