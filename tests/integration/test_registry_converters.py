"""Pipes with JSON Schema and with Apicurio's converters, set as in published configs: create, effect, delete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.worker_process import SINK, SOURCE, Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

HOIST = {"transforms": "h", "transforms.h.type": "HoistField$Value", "transforms.h.field": "line"}
NUMERIC = {"decimal.format": "NUMERIC", "use.optional.for.nonrequired": "true"}


APICURIO = {
    "apicurio": "AvroConverter",
    "apicurio-json": "ExtJsonConverter",
    "apicurio-protobuf": "ProtobufConverter",
}
GLOBAL = {"use-id": "globalId", "id-handler": "io.apicurio.registry.serde.Legacy8ByteIdHandler"}


def converter(kind: str, registry: str) -> dict[str, str]:
    """The converter's settings of a connector that a page shows; the host is ours."""
    confluent = {"value.converter.schema.registry.url": registry}
    if kind == "plain":
        return {"value.converter": "io.confluent.connect.json.JsonSchemaConverter", **confluent}
    if kind == "tuned":
        tuned = {f"value.converter.{name}": value for name, value in NUMERIC.items()}
        return {"value.converter": "JsonSchemaConverter", **confluent, **tuned}
    url = registry.replace("/apis/ccompat/v7", "/apis/registry/v2")
    own = {
        "url": url,
        "auto-register": "true",
        "find-latest": "true",
        **(GLOBAL if kind == "apicurio-protobuf" else {}),
    }
    return {
        "value.converter": f"io.apicurio.registry.utils.converter.{APICURIO[kind]}",
        **{f"value.converter.apicurio.registry.{name}": value for name, value in own.items()},
    }


@pytest.mark.parametrize("kind", ["plain", "tuned", *APICURIO])
def test_a_file_goes_through_a_topic_with_schemas_into_a_file(
    worker: WorkerProcess, broker: str, registry: str, tmp_path: Path, kind: str
) -> None:
    topic, source, sink = Topic(broker, f"schemas-{kind}"), tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text('one\ntw\u00f6 "2"\n')
    settings = converter(kind, registry)
    worker.create(
        f"in-{topic.name}", **{"connector.class": SOURCE, "file": str(source), "topic": topic.name, **HOIST, **settings}
    )
    worker.create(f"out-{topic.name}", **{"connector.class": SINK, "file": str(sink), "topics": topic.name, **settings})
    expected = ["Struct{line=one}", 'Struct{line=tw\u00f6 "2"}']
    eventually(lambda: sink.exists() and sink.read_text().splitlines() == expected, 240, worker.log)
    values = topic.values()
    documents = [{"line": "one"}, {"line": 'tw\u00f6 "2"'}]
    if kind == "apicurio-json":
        assert [json.loads(value)["payload"] for value in values] == documents
    else:
        assert [value[0] for value in values] == [0, 0]
    if kind not in APICURIO:
        assert [json.loads(value[5:]) for value in values] == documents
    for name in (f"in-{topic.name}", f"out-{topic.name}"):
        assert worker.request("DELETE", f"/connectors/{name}").status_code == 204
        assert worker.http.get(f"/connectors/{name}").status_code == 404
