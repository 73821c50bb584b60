"""ProtobufConverter in a worker with a real registry: configs as they are published, their effect, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from headrace.converters.protobuf.messages import file_of, message_at
from tests.integration.worker_process import Topic, WorkerProcess, eventually, line_count

pytestmark = [pytest.mark.kafka, pytest.mark.long]

FIRST = 'syntax = "proto3"; message Order { int32 id = 1; string name = 2; }'
SECOND = """syntax = "proto3";
message Order {
  int32 id = 1; string name = 2;
  oneof note { string text = 3; int64 code = 4; }
  repeated string tags = 5;
}
"""


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of a connector, deleted if the test did not come to it."""
    made = Topic(broker, "protobuf")
    yield made
    if made.name in worker.get("/connectors"):
        worker.request("DELETE", f"/connectors/{made.name}")


def converter(registry: str, side: str = "value") -> dict[str, str]:
    return {
        f"{side}.converter": "io.confluent.connect.protobuf.ProtobufConverter",
        f"{side}.converter.schema.registry.url": registry,
    }


def test_lines_of_a_file_become_messages(worker: WorkerProcess, topic: Topic, registry: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\n")
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "topic": topic.name,
        "file": str(tmp_path / "lines"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        **converter(registry),
        "value.converter.auto.register.schemas": "true",
        "value.converter.schemas.enable": "true",
        "transforms": "HoistField",
        "transforms.HoistField.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.HoistField.field": "line",
    }
    worker.create(topic.name, **config)
    eventually(lambda: len(topic.values()) == 2, 120, worker.log)
    text = SchemaRegistryClient({"url": registry, "timeout": 30}).get_latest_version(f"{topic.name}-value").schema
    kind = GetMessageClass(message_at(file_of(text.schema_str or ""), [0]))
    deserializer = ProtobufDeserializer(kind, {"use.deprecated.format": False})  # type: ignore[arg-type]
    context = SerializationContext(topic.name, MessageField.VALUE)
    assert [deserializer(value, context).line for value in topic.values()] == ["one", "two"]  # type: ignore[union-attr]
    assert worker.request("DELETE", f"/connectors/{topic.name}").status_code == 204


def order(client: SchemaRegistryClient, topic: str, text: str, **fields: object) -> bytes:
    """A record of Confluent's serializer, which registers the schema of this text."""
    kind: type[Message] = GetMessageClass(message_at(file_of(text), [0]))
    made = ProtobufSerializer(kind, client, conf={"use.deprecated.format": False})(  # type: ignore[arg-type]
        kind(**fields), SerializationContext(topic, MessageField.VALUE)
    )
    assert isinstance(made, bytes)
    return made


def test_messages_of_several_versions_are_read(
    worker: WorkerProcess, topic: Topic, registry: str, tmp_path: Path
) -> None:
    client = SchemaRegistryClient({"url": registry, "timeout": 30})
    topic.create()
    first = order(client, topic.name, FIRST, id=1, name="ä")
    second = order(client, topic.name, SECOND, id=2, code=-5, tags=["x", "y"])
    topic.send([first, second, first])
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "topics": topic.name,
        "file": str(tmp_path / "orders"),
        **converter(registry),
        **converter(registry, "key"),
    }
    worker.create(topic.name, **config)
    eventually(lambda: line_count(tmp_path / "orders") == 3, 120, worker.log)
    old = "Struct{id=1,name=ä}"
    assert (tmp_path / "orders").read_text(encoding="utf-8").splitlines() == [
        old,
        "Struct{note_0=Struct{code=-5},id=2,name=,tags=[x, y]}",
        old,
    ]
    assert worker.request("DELETE", f"/connectors/{topic.name}").status_code == 204
