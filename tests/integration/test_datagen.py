"""Datagen in a real worker: published configs, the page's examples, its end, its headers, a preview."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from tests.integration.partitions import messages
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PAGE = Path(__file__).parents[2] / "docs" / "datagen.md"
CLASS = "io.confluent.kafka.connect.datagen.DatagenConnector"
STRING = "org.apache.kafka.connect.storage.StringConverter"
PUBLISHED: dict[str, dict[str, Any]] = {
    "the first one of its documentation": {
        "connector.class": CLASS,
        "quickstart": "pageviews",
        "key.converter": STRING,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "max.interval": 100,
        "iterations": 10000000,
        "tasks.max": "1",
    },
    "a tutorial's, with a schema of its own": {
        "connector.class": CLASS,
        "key.converter": STRING,
        "schema.keyfield": "userid",
        "max.interval": 1000,
        "iterations": 10000000,
        "tasks.max": "1",
    },
    "an OLAP database's demo, in Avro": {
        "connector.class": CLASS,
        "quickstart": "clickstream",
        "key.converter": STRING,
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schemas.enable": "false",
        "max.interval": 1000,
        "iterations": 10000000,
        "tasks.max": "1",
        "transforms": "SetSchemaMetadata",
        "transforms.SetSchemaMetadata.type": "org.apache.kafka.connect.transforms.SetSchemaMetadata$Value",
        "transforms.SetSchemaMetadata.schema.name": "clickstream_avro",
    },
}
KEYS = {
    "the first one of its documentation": r"\d+",
    "a tutorial's, with a schema of its own": r"user-\d",
    "an OLAP database's demo, in Avro": r"192\.0\.2\.\d+",
}
LOGINS = """{
  "namespace": "example", "name": "logins", "type": "record",
  // who, and when
  "fields": [
    {"name": "userid", "type": {"type": "string", "arg.properties": {"regex": "user-[1-9]"}}},
    {"name": "at", "type": {"type": "long", "arg.properties": {"iteration": {"start": 1, "step": 10}}}}
  ]
}"""


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that writes it."""
    made = Topic(broker, "made")
    yield made
    worker.http.delete(f"/connectors/{made.name}")


def records(topic: Topic) -> list[Message]:
    return messages(topic.bootstrap, topic.name, 0)


def arrived(worker: WorkerProcess, topic: Topic, count: int) -> list[Message]:
    eventually(lambda: topic.end() >= count, 120, worker.log)
    return records(topic)


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs(worker: WorkerProcess, topic: Topic, registry: str, tmp_path: Path, name: str) -> None:
    config = {**PUBLISHED[name], "kafka.topic": topic.name}
    if "quickstart" not in config:
        (tmp_path / "logins.avsc").write_text(LOGINS, encoding="utf-8")
        config["schema.filename"] = str(tmp_path / "logins.avsc")
    if "Avro" in config.get("value.converter", ""):
        config["value.converter.schema.registry.url"] = registry
    assert worker.http.put(f"/connectors/{topic.name}/config", json=config).status_code == 201
    for message in arrived(worker, topic, 3):
        assert re.fullmatch(KEYS[name], (message.key() or b"").decode())
        assert message.value()
    assert worker.request("DELETE", f"/connectors/{topic.name}").status_code == 204


@pytest.mark.long
def test_a_task_ends_after_its_iterations_and_goes_on_from_there(worker: WorkerProcess, topic: Topic) -> None:
    config = {
        "connector.class": "Datagen",
        "kafka.topic": topic.name,
        "quickstart": "orders",
        "max.interval": "0",
        "iterations": "500",
        "random.seed": "-5",
        "key.converter": STRING,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    worker.create(topic.name, **config)
    worker.wait_states(topic.name, "FAILED")
    assert "has generated its 500 records (iterations) and is done" in worker.trace(topic.name)
    assert topic.end() == 500
    state = {"task.generation": 1, "current.iteration": 500, "random.seed": -5}
    stored = [{"partition": {"task.id": 0}, "offset": state}]
    eventually(lambda: worker.offsets(topic.name) == stored, 60, lambda: worker.offsets(topic.name))
    worker.request("POST", f"/connectors/{topic.name}/restart?includeTasks=true")
    worker.wait_states(topic.name, "FAILED")
    worker.http.put(f"/connectors/{topic.name}/config", json={**config, "iterations": "600"})
    made = arrived(worker, topic, 600)
    assert [int(message.key() or b"") for message in made] == list(range(600))
    assert [json.loads(message.value() or b"")["orderid"] for message in made] == list(range(600))
    headers = {name: int(data or b"") for name, data in made[599].headers() or ()}
    assert headers == {"task.generation": headers["task.generation"], "task.id": 0, "current.iteration": 599}
    assert headers["task.generation"] > 0


def test_the_pages_example_flows(worker: WorkerProcess, topic: Topic) -> None:
    (text,) = re.findall(r"connectors/pageviews/config .*?-d '(\{.*?\})'", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    config = {**json.loads(text), "kafka.topic": topic.name, "max.interval": "20"}
    assert worker.http.put(f"/connectors/{topic.name}/config", json=config).status_code == 201
    values = [json.loads(message.value() or b"") for message in arrived(worker, topic, 20)]
    assert [value["viewtime"] for value in values] == [1 + 10 * number for number in range(len(values))]
    assert "costs a Spark job" not in worker.log()


@pytest.mark.long
def test_a_preview_shows_what_comes(worker: WorkerProcess) -> None:
    config = {"name": f"p{uuid.uuid4().hex[:8]}", "connector.class": CLASS, "kafka.topic": "t", "quickstart": "users"}
    config |= {"random.seed": "1", "max.interval": "1000000", "value.converter.schemas.enable": "false"}
    answer = worker.http.put("/connector-plugins/Datagen/config/preview", json=config)
    assert answer.status_code == 200, answer.text
    shown = answer.json()["records"]
    assert len(shown) > 1
    assert "User_" in json.dumps(shown[0])
    assert "current.iteration" in json.dumps(shown[0]["stages"][0])


@pytest.mark.long
def test_headers_are_the_header_converters(worker: WorkerProcess, topic: Topic) -> None:
    config = {"connector.class": "Datagen", "kafka.topic": topic.name, "quickstart": "users", "max.interval": "10"}
    converter = {"header.converter": "org.apache.kafka.connect.json.JsonConverter"}
    worker.create(topic.name, **config, **converter)
    first = arrived(worker, topic, 1)[0]
    header = json.loads(dict(first.headers() or ())["current.iteration"])
    assert header == {"schema": {"type": "int64", "optional": False}, "payload": 0}
