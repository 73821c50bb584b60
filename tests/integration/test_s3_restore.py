"""A backup: topics to objects by the S3 sink with keys and headers, and back by Confluent's S3 source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration import partitions
from tests.integration.s3_server import S3Server
from tests.integration.sink_places import S3
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = pytest.mark.spark

PARTITIONS = 3
FORMATS = "io.confluent.connect.s3.format"
STRUCT = {"type": "struct", "fields": [{"field": "n", "type": "int64"}, {"field": "text", "type": "string"}]}
KEY = {"type": "int32", "optional": False}
JSON = "org.apache.kafka.connect.json.JsonConverter"
TEXT = "org.apache.kafka.connect.storage.StringConverter"
CONVERTERS = {
    "avro": {"key.converter": JSON, "value.converter": JSON},
    "parquet": {"key.converter": JSON, "value.converter": JSON},
    "json": {
        "key.converter": TEXT,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    },
}
Record = tuple[Any, Any, list[tuple[str, bytes]] | None]


@pytest.fixture
def topics(worker: WorkerProcess, broker: str) -> Iterator[tuple[Topic, Topic]]:
    """A topic and the one that it is restored to."""
    made = Topic(broker, "backup", PARTITIONS), Topic(broker, "restored", PARTITIONS)
    yield made
    for topic in made:
        worker.request("DELETE", f"/connectors/{topic.name}")


def send(topic: Topic, kind: str, rows: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    for n in rows:
        key, value = n, {"n": n, "text": f"row {n}"}
        bare = str(key), json.dumps(value)
        described = json.dumps({"schema": KEY, "payload": key}), json.dumps({"schema": STRUCT, "payload": value})
        sent = bare if kind == "json" else described
        headers = [("trace", f"t-{n}".encode()), ("trace", b"again")] if n % 3 else []
        producer.produce(topic.name, sent[1], sent[0], partition=n % PARTITIONS, headers=headers)
    assert producer.flush(60) == 0


def records(topic: Topic, partition: int) -> list[Record]:
    """The records of a partition, without its JSON's spelling."""
    found = []
    for message in partitions.messages(topic.bootstrap, topic.name, partition):
        value = json.loads(message.value())
        payload = value.get("payload", value)
        found.append((json.loads(message.key()), payload, message.headers() or None))
    return found


def payloads(rows: Sequence[Record]) -> list[Record]:
    return [(key["payload"] if isinstance(key, dict) else key, value, headers) for key, value, headers in rows]


@pytest.mark.parametrize("kind", ["avro", *(pytest.param(one, marks=pytest.mark.long) for one in ("json", "parquet"))])
def test_a_backup_comes_back(
    worker: WorkerProcess, topics: tuple[Topic, Topic], s3_server: S3Server, kind: str
) -> None:
    topic, restored = topics
    place = S3(s3_server)
    send(topic, kind, range(60))
    of_kind = f"{FORMATS}.{kind}.{kind.title()}Format"
    beside = {f"store.kafka.{one}": "true" for one in ("keys", "headers")}
    formats = {f"{one}.format.class": of_kind for one in ("keys", "headers")}
    worker.create(
        topic.name,
        **{"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": topic.name, "flush.size": "5"},
        **place.settings,
        **beside,
        **formats,
        **{"format.class": of_kind, "header.converter": TEXT},
        **CONVERTERS[kind],
    )
    eventually(lambda: len(place.paths(topic.name)) == 36, 120, worker.log)
    end = {"avro": "avro", "parquet": "snappy.parquet", "json": "json"}[kind]
    first = f"{topic.name}/partition=0/{topic.name}+0+0000000000"
    assert {f"{first}.{end}", f"{first}.keys.{end}", f"{first}.headers.{end}"} <= set(place.paths(topic.name))

    worker.create(
        restored.name,
        **{"connector.class": "io.confluent.connect.s3.source.S3SourceConnector", "mode": "RESTORE_BACKUP"},
        **place.settings,
        **{"format.class": of_kind, "header.converter": TEXT, "file.min.age.ms": "0", "poll.interval.ms": "100"},
        **{"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"},
        **{"transforms.r.regex": ".*", "transforms.r.replacement": restored.name},
        **CONVERTERS[kind],
    )
    eventually(lambda: all(restored.end(one) == 20 for one in range(PARTITIONS)), 120, worker.log)
    for partition in range(PARTITIONS):
        assert payloads(records(restored, partition)) == payloads(records(topic, partition))
