"""AvroConverter's look-ups in its registry, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from headrace.config.problems import ConfigError, Problem
from headrace.converters.avro.converter import AvroConverter
from headrace.plugins.contracts import DataError, RetriableError
from headrace.plugins.interop.avro.tree import FIXED_SIZE
from headrace.plugins.schema import STRING, Field, Schema, SchemaType
from tests.unit.converters.avro.fake_registry import FakeRegistry, registry_of

RECORD = Schema(SchemaType.STRUCT, name="a.R", fields=(Field("x", STRING),))
WIDER = '{"type":"record","name":"R","namespace":"a","fields":[{"name":"y","type":"int","default":1}]}'


def avro(settings: Mapping[str, str] | None = None, is_key: bool = False) -> tuple[AvroConverter, FakeRegistry]:
    """A converter and its empty registry."""
    side = {"converter.type": "key" if is_key else "value", "schema.registry.url": "http://localhost:1"}
    with patch("headrace.converters.registry.converter.SchemaRegistry", FakeRegistry):
        converter = AvroConverter()
        converter.configure({**side, **(settings or {})}, is_key)
    return converter, registry_of(converter)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("AssociatedNameStrategy", "t-key"),
        ("TopicNameStrategy", "t-key"),
        ("RecordNameStrategy", "a.R"),
        ("TopicRecordNameStrategy", "t-a.R"),
    ],
)
def test_subjects_are_named_as_the_strategy_says(strategy: str, subject: str) -> None:
    for name in (strategy, f"io.confluent.kafka.serializers.subject.{strategy}"):
        converter, registry = avro({"key.subject.name.strategy": name}, is_key=True)
        converter.learn("t", RECORD)
        assert list(registry.subjects) == [subject]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("value.subject.name.strategy", "com.acme.Mine"),
        ("generalized.sum.type.support", "true"),
        ("use.latest.with.metadata", "a"),
        ("use.latest.with.metadata", "a=b,=c"),
        ("context.name.strategy", "com.acme.Mine"),
        ("value.schema.id.serializer", "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"),
        ("subject.name.strategy.fallback.type", "RECORD"),
        ("propagate.schema.tags", "true"),
        ("rule.executors", "x"),
        ("validation.rules.enable", "true"),
        ("schema.format", "resolved"),
    ],
)
def test_unsupported_settings_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        avro({key: value})


def test_settings_with_the_only_supported_value_are_accepted() -> None:
    package = "io.confluent.kafka.serializers"
    avro(
        {
            "context.name.strategy": f"{package}.context.NullContextNameStrategy",
            "value.schema.id.deserializer": f"{package}.schema.id.DualSchemaIdDeserializer",
            "subject.name.strategy.fallback.type": "TOPIC",
            "rule.service.loader.enable": "true",
            "validation.rules.enable": "false",
            "propagate.schema.tags": "false",
        }
    )


def target(settings: Mapping[str, str], registered: list[str], schema: Schema = RECORD) -> object:
    """The result of `learn`: the prefix, or the error's text."""
    converter, registry = avro(settings)
    for text in registered:
        registry.register("t-value", text)
    converter.learn("t", schema)
    found = converter._targets[schema, "t"]
    return found.refusal or found.prefix


OWN = '{"type":"record","name":"R","namespace":"a","fields":[{"name":"x","type":"string"}],"connect.name":"a.R"}'
OFF = {"auto.register.schemas": "false"}
FAILED = "Failed to serialize Avro data from topic t : "


def test_the_schema_to_write_with() -> None:
    assert target({}, ['"int"']) == b"\x00\x00\x00\x00\x02"
    assert target(OFF, ['"int"', OWN]) == b"\x00\x00\x00\x00\x02"
    assert str(target(OFF, [])).startswith(FAILED + "Schema not found")
    assert target({**OFF, "use.latest.version": "true"}, [OWN, WIDER]) == b"\x00\x00\x00\x00\x02"
    assert target({**OFF, "use.schema.id": "1"}, [WIDER, OWN]) == b"\x00\x00\x00\x00\x01"
    strict = str(target({**OFF, "use.latest.version": "true"}, ['"int"']))
    assert strict.startswith(FAILED + 'Incompatible schema "int" for schema {')
    assert strict.endswith("Set latest.compatibility.strict=false to disable this check")
    lenient = {**OFF, "use.latest.version": "true", "latest.compatibility.strict": "false"}
    assert "which the registered Avro type int does not hold" in str(target(lenient, ['"int"']))


def test_what_has_no_avro_schema_is_an_error_of_its_records() -> None:
    bad = Schema(SchemaType.STRUCT, name="R", fields=(Field("a-b", STRING),))
    assert str(target({}, [], bad)).startswith("Illegal character in: a-b (set scrub.invalid.names=true of this")
    assert "must only be a record schema" in str(
        target({"value.subject.name.strategy": "RecordNameStrategy"}, [], STRING)
    )


def test_there_is_one_look_up_for_a_topic() -> None:
    converter, registry = avro()
    registry.refused["t-value"] = "no"
    converter.learn("t", STRING)
    registry.refused.clear()
    converter.learn("t", STRING)
    assert registry.subjects == {}


def moving(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Makes the converter's clock stand still, and moves it on."""
    now = [100.0]
    monkeypatch.setattr("headrace.converters.registry.converter.time", SimpleNamespace(monotonic=lambda: now[0]))

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def test_a_refused_look_up_is_repeated_after_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    move = moving(monkeypatch)
    converter, registry = avro()
    registry.refused["t-value"] = "the registry is read-only"
    converter.learn("t", STRING)
    registry.refused.clear()
    assert not converter.refresh()
    move(31)
    assert converter.refresh()
    assert converter._targets[STRING, "t"].prefix == b"\x00\x00\x00\x00\x01"
    move(1_000_000)
    assert not converter.refresh(), "an id stays what it is"


def test_a_repeated_refusal_and_an_unavailable_registry_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    move = moving(monkeypatch)
    converter, registry = avro()
    registry.refused["t-value"] = "no"
    converter.learn("t", STRING)
    move(31)
    assert not converter.refresh()
    move(31)
    with patch.object(registry, "register", side_effect=RetriableError("away")) as register:
        assert not converter.refresh()
        assert not converter.refresh()
        assert register.call_count == 1
    assert converter._targets[STRING, "t"].refusal == FAILED + "no"


def test_a_latest_schema_is_followed_as_its_setting_says(monkeypatch: pytest.MonkeyPatch) -> None:
    move = moving(monkeypatch)
    for ttl, followed in (("60", True), ("-1", False)):
        converter, registry = avro({**OFF, "use.latest.version": "true", "latest.cache.ttl.sec": ttl})
        registry.register("t-value", OWN)
        converter.learn("t", RECORD)
        move(61)
        assert not converter.refresh(), "nothing is new"
        registry.register("t-value", WIDER)
        move(61)
        assert converter.refresh() is followed
        assert converter._targets[RECORD, "t"].prefix[-1] == (2 if followed else 1)


def test_any_fault_of_a_schema_is_an_error_of_its_records() -> None:
    fixed = Schema(SchemaType.BYTES, name="a.F", parameters={FIXED_SIZE: "x"})
    assert "ValueError: invalid literal" in str(target({}, [], fixed))
    deep = STRING
    for _ in range(2_000):
        deep = Schema(SchemaType.ARRAY, value_schema=deep)
    with patch.object(Schema, "__hash__", lambda self: 0), patch.object(Schema, "__eq__", lambda self, other: True):
        assert "RecursionError" in str(target({}, [], deep))


def test_a_client_without_access_to_versions_reads_without_them() -> None:
    converter, registry = avro()
    registry.register("t-value", OWN)
    with patch.object(
        registry, "version_of", side_effect=ConfigError(Problem("schema.registry.url", "http://h", "403"))
    ):
        found = converter.resolve(b"\x00\x00\x00\x00\x01", "t")
    assert found is not None
    assert (found.name, found.version) == ("a.R", None)


def test_closing_the_converter_closes_its_registry() -> None:
    converter, registry = avro()
    with patch.object(registry, "close") as close:
        converter.close()
    close.assert_called_once_with()


def test_identities_are_resolved() -> None:
    converter, registry = avro()
    registry.register("t-value", '"int"')
    registry.register("t-value", OWN)
    found = converter.resolve(b"\x00\x00\x00\x00\x02", "t")
    assert found is not None
    assert (found.name, found.version) == ("a.R", 2)
    mirrored = converter.resolve(b"\x00\x00\x00\x00\x02", "elsewhere.t")
    assert mirrored is not None
    assert mirrored.version is None
    for identity, message in ((b"", "Unknown magic byte!"), (b"\x00\x00\x00\x00\x09", "Schema 9 not found")):
        with pytest.raises(DataError, match=f"^Failed to deserialize data for topic t to Avro: {message}"):
            converter.resolve(identity, "t")
