"""The real registry and our client, beside Confluent's own Python clients: what one writes the other reads."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.config.settings import ConfigError
from headrace.converters.avro.references import standing_alone
from headrace.converters.registry.client import RegistryError, SchemaRegistry
from headrace.plugins.contracts import DataError, RetriableError
from headrace.worker.embedded.registry_server import Registry
from tests.held_ports import held_port
from tests.unit.converters.registry.scripted_registry import forwarding, identity, scripted

QUICK = {"max.retries": "2", "retries.wait.ms": "5", "retries.max.wait.ms": "10"}


@pytest.fixture
def ours(registry: str) -> Iterator[SchemaRegistry]:
    with closing(SchemaRegistry({"schema.registry.url": registry, **QUICK}, standing_alone)) as client:
        yield client


@pytest.fixture
def theirs(registry: str) -> SchemaRegistryClient:
    # By default it waits without end, and Apicurio on a busy machine was seen to lose an answer; then it asks again.
    return SchemaRegistryClient({"url": registry, "timeout": 30})


def record(name: str, /, **fields: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]})


def read(text: str, message: bytes) -> Any:
    assert message[0] == 0
    return fastavro.schemaless_reader(io.BytesIO(message[5:]), json.loads(text), None)


@pytest.mark.parametrize(
    ("topic", "schema", "value"),
    [
        ("plain", '"string"', "ü"),
        ("rows", record("Row", id="long", name=["null", "string"]), {"id": 1, "name": "x"}),
        (
            "odd/näme",
            record("Odd", e={"type": "enum", "name": "E", "symbols": ["A", "B"]}, m={"type": "map", "values": "int"}),
            {"e": "B", "m": {"k": 1}},
        ),
    ],
)
def test_what_confluents_serializer_wrote_our_client_resolves(
    topic: str, schema: str, value: Any, ours: SchemaRegistry, theirs: SchemaRegistryClient
) -> None:
    message = AvroSerializer(theirs, schema)(value, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(message, bytes)
    subject, schema_id = f"{topic}-value", int.from_bytes(message[1:5], "big")
    text = ours.schema(schema_id, subject)
    assert json.loads(text) == json.loads(schema)
    assert read(text, message) == value
    assert ours.version_of(subject, text) == 1
    assert ours.lookup(subject, text) == (schema_id, 1)
    assert ours.latest(subject) == (schema_id, 1, text)


def test_what_our_client_registered_confluents_deserializer_reads(
    ours: SchemaRegistry, theirs: SchemaRegistryClient
) -> None:
    schema = record("Back", id="int")
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(schema)), {"id": 5})
    message = b"\0" + ours.register("back-value", schema).to_bytes(4, "big") + body.getvalue()
    context = SerializationContext("back", MessageField.VALUE)
    assert AvroDeserializer(theirs)(message, context) == {"id": 5}


def test_the_same_text_has_one_id_whoever_registers_it_and_how_often(
    registry: str, ours: SchemaRegistry, theirs: SchemaRegistryClient
) -> None:
    schema = record("Once", id="int")
    first = ours.register("once-value", schema)
    with closing(SchemaRegistry({"schema.registry.url": registry}, standing_alone)) as another:
        assert another.register("once-value", schema) == first
        assert another.register("once-more-value", schema) == first
    assert theirs.register_schema("once-value", Schema(schema, "AVRO")) == first
    assert theirs.get_versions("once-value") == [1]


def test_an_incompatible_schema_is_refused_with_its_field_and_a_compatible_one_is_not(ours: SchemaRegistry) -> None:
    ours.register("grow-value", record("Grow", id="int"))
    for fields, named in (({"id": "string"}, "id"), ({"id": "int", "added": "string"}, "added")):
        with pytest.raises(DataError, match=rf"is field '{named}'") as caught:
            ours.register("grow-value", record("Grow", **fields))
        assert isinstance(caught.value, RegistryError)
        assert caught.value.status == 409
    ours.register("grow-value", record("Grow", id="long"))
    assert ours.latest("grow-value")[1] == 2


def test_what_is_not_there_is_said_with_the_registrys_code(ours: SchemaRegistry) -> None:
    known = record("Known", id="int")
    ours.register("known-value", known)
    for code, ask in (
        (40403, lambda: ours.schema(2_000_000_000)),
        (40401, lambda: ours.lookup("absent-value", known)),
        (40403, lambda: ours.lookup("known-value", '"int"')),
        (40401, lambda: ours.latest("absent-value")),
        (42201, lambda: ours.register("bad-value", '{"type":"nonsense"}')),
    ):
        with pytest.raises(RegistryError) as caught:
            ask()
        assert caught.value.code == code


def test_only_the_registrys_own_path_passes_the_check(registry: str, ours: SchemaRegistry) -> None:
    ours.check()
    root = registry.removesuffix("/apis/ccompat/v7")
    for url in (root, f"{root}/apis/registry/v3", f"{root}/apis/ccompat"):
        with closing(SchemaRegistry({"schema.registry.url": url, **QUICK}, standing_alone)) as other:
            for ask in (
                other.check,
                lambda: other.schema(1),
                lambda: other.register("s", '"int"'),
                lambda: other.lookup("s", '"int"'),
                lambda: other.latest("s"),
            ):
                with pytest.raises(ConfigError, match=r"^schema.registry.url .*No schema registry answers there: 404"):
                    ask()


def test_references_stand_alone_and_are_found_again(ours: SchemaRegistry, theirs: SchemaRegistryClient) -> None:
    inner = '{"type":"record","name":"Inner","namespace":"a.b","fields":[{"name":"x","type":"int"}]}'
    theirs.register_schema("inner-value", Schema(inner, "AVRO"))
    reference = [SchemaReference("a.b.Inner", "inner-value", 1)]
    outer = Schema(record("Outer", one="a.b.Inner", two=["null", "a.b.Inner"]), "AVRO", reference)
    schema_id = theirs.register_schema("outer-value", outer)
    value = {"one": {"x": 1}, "two": {"x": 2}}
    configured = {"auto.register.schemas": False, "use.latest.version": True}
    serializer = AvroSerializer(theirs, outer, conf=configured)
    message = serializer(value, SerializationContext("outer", MessageField.VALUE))
    assert isinstance(message, bytes)
    text = ours.schema(schema_id, "outer-value")
    assert read(text, message) == value
    assert ours.latest("outer-value") == (schema_id, 1, text)
    assert ours.lookup("outer-value", text) == (schema_id, 1)
    assert ours.register("outer-value", text) == schema_id


def test_login_and_tls_stand_in_front_of_it(registry: str, tmp_path: Path) -> None:
    server = identity("front")
    (tmp_path / "ca.pem").write_text(server.certificate_pem)
    address, path = registry[: registry.index("/", 8)], registry[registry.index("/", 8) :]
    basic = "Basic " + base64.b64encode(b"me:s3cret").decode()
    with scripted((200, forwarding(address, basic)), context=server.server_context(tmp_path)) as front:
        config = {
            "schema.registry.url": front.url + path,
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info": "me:s3cret",
            "schema.registry.ssl.truststore.location": str(tmp_path / "ca.pem"),
        }
        with closing(SchemaRegistry(config, standing_alone)) as client:
            schema_id = client.register("fronted-value", record("Fronted", id="int"))
            assert json.loads(client.schema(schema_id))["name"] == "Fronted"
        with closing(SchemaRegistry({**config, "basic.auth.user.info": "me:wr0ng"}, standing_alone)) as client:
            with pytest.raises(ConfigError, match=r"401 to GET .*basic\.auth\.user\.info") as caught:
                client.schema(schema_id)
            assert "wr0ng" not in str(caught.value)


def test_while_it_is_away_it_is_retriable_and_after_a_kill_all_is_there(
    ours: SchemaRegistry, registry_process: Registry
) -> None:
    schema = record("Survivor", id="int")
    schema_id = ours.register("survivor-value", schema)
    registry_process.kill()
    assert Registry.running_on(registry_process.data_dir) is None
    assert ours.register("survivor-value", schema) == schema_id  # remembered
    with pytest.raises(RetriableError, match=r"does not answer GET /schemas/ids/.*3 attempts"):
        ours.schema(schema_id)
    registry_process.start()
    assert json.loads(ours.schema(schema_id)) == json.loads(schema)
    assert ours.lookup("survivor-value", schema) == (schema_id, 1)


def command(*arguments: object, state: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "headrace.worker.cli.commands", "registry", *map(str, arguments)]
    env = {**os.environ, "XDG_STATE_HOME": str(state)}
    return subprocess.run(line, capture_output=True, text=True, env=env, cwd=state, timeout=240, check=False)


@pytest.fixture
def daemon_folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    command("stop", state=tmp_path)


def test_the_daemon_from_start_to_stop(daemon_folder: Path) -> None:
    port = held_port()
    started = command("start", "--port", port, "--daemon", state=daemon_folder)
    assert started.returncode == 0, started.stderr
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    assert url in started.stdout
    with closing(SchemaRegistry({"schema.registry.url": url}, standing_alone)) as client:
        assert client.register("s", '"int"') >= 1

    again = command("start", "--port", port, state=daemon_folder)
    assert (again.returncode, "already running" in again.stdout) == (0, True)
    assert command("status", state=daemon_folder).returncode == 0
    stopped = command("stop", state=daemon_folder)
    assert (stopped.returncode, "stopped" in stopped.stdout) == (0, True)
    assert Registry.running_on(daemon_folder / "headrace" / "registry") is None
    assert command("status", state=daemon_folder).returncode == 1
