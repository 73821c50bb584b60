"""The Elasticsearch sink in a worker, into a real OpenSearch: published configs, mappings, dead letters, streams."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from tests.integration import partitions
from tests.integration.opensearch_server import OpenSearchServer
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

CONFLUENT = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"
AIVEN = "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
PLAIN_JSON = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


class Sink:
    """A connector of a test's own, with its topic."""

    def __init__(self, worker: WorkerProcess, server: OpenSearchServer, broker: str, config: dict[str, Any]) -> None:
        self.worker, self.server = worker, server
        self.topic = Topic(broker, "documents")
        self.name = f"sink-{uuid.uuid4().hex[:8]}"
        given = {"topics": self.topic.name, "connection.url": server.url, "read.timeout.ms": "60000", **config}
        self.config = {
            key: value.replace("TOPIC", self.topic.name) if isinstance(value, str) else value
            for key, value in given.items()
        }

    def start(self) -> None:
        """The connector exists."""
        self.worker.request("POST", "/connectors", {"name": self.name, "config": self.config})

    def delete(self) -> None:
        """The connector is gone."""
        self.worker.request("DELETE", f"/connectors/{self.name}")

    def send(self, values: Sequence[Any], keys: Sequence[str] | None = None) -> None:
        """These values are in the topic, as JSON; None is a tombstone."""
        texts = [None if value is None else json.dumps(value).encode() for value in values]
        self.topic.send(texts, keys=None if keys is None else [key.encode() for key in keys])

    def documents(self, index: str = "") -> dict[str, Any]:
        """The documents by id."""
        return self.server.documents(index or self.topic.name)

    def wait(self, wanted: dict[str, Any], index: str = "") -> None:
        """These documents are there, and no others."""
        what = lambda: f"{self.documents(index)}; {self.worker.log()[-3000:]}"  # noqa: E731
        eventually(lambda: self.documents(index) == wanted, 240, what)


@pytest.fixture
def sink(worker: WorkerProcess, opensearch: OpenSearchServer, broker: str, request: pytest.FixtureRequest) -> Sink:
    return Sink(worker, opensearch, broker, request.param)


BY_KEY = {"connector.class": CONFLUENT, "key.converter": STRING, "schema.ignore": "true", **PLAIN_JSON}


@pytest.mark.parametrize("sink", [BY_KEY | {"behavior.on.null.values": "delete"}], indirect=True)
def test_the_last_record_of_a_key_is_its_document(sink: Sink) -> None:
    sink.send([{"n": 1}, {"n": 1}, {"n": 2}, None, {"n": 1}], ["a", "b", "a", "b", "c"])
    sink.start()
    sink.wait({"a": {"n": 2}, "c": {"n": 1}})
    sink.send([{"n": 5}, None], ["b", "c"])
    sink.wait({"a": {"n": 2}, "b": {"n": 5}})
    sink.delete()


PUBLISHED = {
    "measurements of a quick start, with an index of their own": (
        {
            "connector.class": CONFLUENT,
            "schema.ignore": "true",
            "key.converter": STRING,
            "value.converter": JSON,
            "value.converter.schemas.enable": False,
            "key.ignore": "true",
            "type.name": "type.name=kafkaconnect",
            "topic.index.map": "TOPIC:TOPIC-index",
            "transforms": "ExtractTimestamp",
            "transforms.ExtractTimestamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.ExtractTimestamp.timestamp.field": "EXTRACT_TS",
        },
        "TOPIC-index",
    ),
    "events of a training, an index for each day": (
        {
            "connector.class": CONFLUENT,
            "tasks.max": 1,
            "type.name": "_doc",
            "key.converter": STRING,
            "key.converter.schemas.enable": False,
            **PLAIN_JSON,
            "key.ignore": True,
            "schema.ignore": True,
            "schemas.enable": False,
            "flush.synchronously": True,
            "transforms": "timestampRouter",
            "transforms.timestampRouter.type": "org.apache.kafka.connect.transforms.TimestampRouter",
            "transforms.timestampRouter.topic.format": "${topic}-${timestamp}",
            "transforms.timestampRouter.timestamp.format": "yyyy",
        },
        "TOPIC-20*",
    ),
    "messages of a laboratory, with dead letters": (
        {
            "connector.class": AIVEN,
            "tasks.max": "4",
            "key.converter": STRING,
            "connection.username": "admin",
            "connection.password": "admin",
            "type.name": "kafka-connect",
            "schema.ignore": "true",
            **PLAIN_JSON,
            "behavior.on.malformed.documents": "warn",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "TOPIC-dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
        },
        "TOPIC",
    ),
    "logs of a shop, with reports": (
        {
            "connector.class": AIVEN,
            "tasks.max": "1",
            "connection.timeout.ms": "3000",
            "key.converter.schemas.enable": "false",
            **PLAIN_JSON,
            "schema.ignore": "true",
            "key.ignore": "true",
            "type.name": "_doc",
            "behavior.on.null.values": "ignore",
            "behavior.on.malformed.documents": "report",
            "behavior.on.version.conflict": "ignore",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "TOPIC-dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
        },
        "TOPIC",
    ),
    "logs of a metered service": (
        {
            "connector.class": "io.aiven.connect.elasticsearch.ElasticsearchSinkConnector",
            "transforms": "routeTS",
            "errors.deadletterqueue.topic.name": "TOPIC-dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "batch.size": "10",
            "type.name": "_doc",
            "key.ignore": "true",
            "schema.ignore": "true",
            "format.output.fields": "key, value, offset, timestamp, headers",
            "file.compression.type": "gzip",
            "key.converter": STRING,
            **PLAIN_JSON,
            "transforms.routeTS.type": "org.apache.kafka.connect.transforms.TimestampRouter",
            "transforms.routeTS.topic.format": "${topic}-${timestamp}",
            "transforms.routeTS.timestamp.format": "yyyy",
        },
        "TOPIC-20*",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(("sink", "index"), PUBLISHED.values(), indirect=["sink"], ids=PUBLISHED)
def test_published_configs(sink: Sink, index: str) -> None:
    index = index.replace("TOPIC", sink.topic.name)
    sink.start()
    sink.send([{"a": 1}, {"a": 2}], None if "key.converter" not in sink.config else ["k", "l"])
    eventually(lambda: len(sink.documents(index)) == 2, 120, sink.worker.log)
    assert sorted(one["a"] for one in sink.documents(index).values()) == [1, 2]
    assert sink.worker.states(sink.name) == ["RUNNING"] * int(sink.config.get("tasks.max", 1))
    sink.delete()


DEAD = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "TOPIC-dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


@pytest.mark.long
@pytest.mark.parametrize("sink", [BY_KEY | DEAD], indirect=True)
def test_a_document_that_the_server_refuses_is_a_dead_letter_with_its_reason(sink: Sink, broker: str) -> None:
    sink.send([{"n": 1}, {"n": "confidential"}, {"n": 3}], ["a", "b", "c"])
    sink.start()
    sink.wait({"a": {"n": 1}, "c": {"n": 3}})
    assert sink.worker.states(sink.name) == ["RUNNING"]
    dead = sink.config["errors.deadletterqueue.topic.name"]
    (letter,) = eventually(lambda: partitions.messages(broker, dead, 0), 120, sink.worker.log)
    reason = dict(letter.headers())["__connect.errors.exception.message"].decode()
    refused = f"{sink.topic.name} refuses the document: mapper_parsing_exception: "
    assert reason == f"{refused}the field n does not fit its type long"
    assert "confidential" not in sink.worker.log()
    sink.delete()


SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "string", "field": "name"},
        {"type": "int64", "field": "at", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
        {
            "type": "bytes",
            "field": "price",
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2"},
        },
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("sink", [{"connector.class": CONFLUENT, "key.ignore": "true"}], indirect=True)
def test_an_index_has_the_mapping_of_its_records_schema(sink: Sink) -> None:
    sink.send([{"schema": SCHEMA, "payload": {"name": "x", "at": 1000, "price": "BOI="}}])
    sink.start()
    sink.wait({f"{sink.topic.name}+0+0": {"name": "x", "at": 1000, "price": 12.5}})
    mapping = sink.server.ask("GET", f"/{sink.topic.name}/_mapping")[sink.topic.name]["mappings"]["properties"]
    assert {name: one["type"] for name, one in mapping.items()} == {"name": "text", "at": "date", "price": "double"}
    sink.delete()


@pytest.mark.long
@pytest.mark.parametrize(
    "sink", [BY_KEY | {"write.method": "UPSERT", "behavior.on.null.values": "delete"}], indirect=True
)
def test_upserts_change_the_fields_that_are_there(sink: Sink) -> None:
    sink.send([{"a": 1, "b": 1}, {"b": 2}, {"a": 1}, None], ["k", "k", "l", "l"])
    sink.start()
    sink.wait({"k": {"a": 1, "b": 2}})
    sink.send([{"c": 1}], ["l"])
    sink.wait({"k": {"a": 1, "b": 2}, "l": {"c": 1}})
    sink.delete()


STREAM = {"connector.class": AIVEN, "key.ignore": "true", "data.stream.enabled": "true", "data.stream.prefix": "logs"}


@pytest.mark.long
@pytest.mark.parametrize("sink", [STREAM | {"key.converter": STRING} | PLAIN_JSON], indirect=True)
def test_a_data_stream_is_made_with_its_template(sink: Sink) -> None:
    sink.send([{"a": 1}, {"a": 2, "@timestamp": 5}])
    sink.start()
    stream = f"logs-{sink.topic.name}"
    eventually(lambda: len(sink.documents(stream)) == 2, 120, sink.worker.log)
    assert sorted((one["a"], one["@timestamp"] == 5) for one in sink.documents(stream).values()) == [
        (1, False),
        (2, True),
    ]
    (found,) = sink.server.ask("GET", f"/_data_stream/{stream}")["data_streams"]
    assert found["template"] == f"{sink.name}-connector-data-stream-template"
    sink.delete()


@pytest.mark.long
def test_documents_go_into_an_alias_that_is_there(
    worker: WorkerProcess, opensearch: OpenSearchServer, broker: str
) -> None:
    existing = {"external.resource.usage": "ALIAS_INDEX", "topic.to.external.resource.mapping": "TOPIC:TOPIC-alias"}
    sink = Sink(worker, opensearch, broker, BY_KEY | existing)
    sink.start()
    eventually(lambda: "has no alias" in str(worker.get(f"/connectors/{sink.name}/status")), 120, worker.log)
    opensearch.ask("PUT", f"/{sink.topic.name}-1", {"aliases": {f"{sink.topic.name}-alias": {}}})
    worker.request("POST", f"/connectors/{sink.name}/restart?includeTasks=true")
    sink.send([{"a": 1}], ["k"])
    sink.wait({"k": {"a": 1}}, f"{sink.topic.name}-1")
    sink.delete()


@pytest.mark.long
@pytest.mark.parametrize("sink", [BY_KEY], indirect=True)
def test_a_preview_tells_documents_and_makes_nothing(sink: Sink) -> None:
    sink.send([{"n": 1}], ["a"])
    path = f"/connector-plugins/{CONFLUENT}/config/preview"
    told = sink.worker.request("PUT", path, {"name": "p", **sink.config}).json()
    assert [(one["action"], one["target"]) for one in told["effects"]] == [("create", sink.topic.name)]
    ((effect,),) = (record["effects"] for record in told["records"])
    assert (effect["action"], effect["detail"]["id"], effect["detail"]["document"]) == ("index", "a", {"n": 1})
    assert sink.server.ask("GET", f"/{sink.topic.name}") is None
