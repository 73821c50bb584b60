"""JsonSchemaConverter's settings and look-ups, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

import pytest

from headrace.config.problems import ConfigError
from headrace.converters.json_schema.converter import JsonSchemaConverter
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import STRING, Field, Schema, SchemaType
from tests.unit.converters.avro.fake_registry import FakeRegistry, registry_of

RECORD = Schema(SchemaType.STRUCT, name="a.R", fields=(Field("x", STRING),))
OWN = '{"type":"object","title":"a.R","properties":{"x":{"type":"string","connect.index":0}}}'


def made(settings: Mapping[str, str] | None = None, is_key: bool = False) -> tuple[JsonSchemaConverter, FakeRegistry]:
    """A converter and its empty registry."""
    side = {"converter.type": "key" if is_key else "value", "schema.registry.url": "http://localhost:1"}
    with patch("headrace.converters.registry.converter.SchemaRegistry", FakeRegistry):
        converter = JsonSchemaConverter()
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
    converter, registry = made({"key.subject.name.strategy": strategy}, is_key=True)
    converter.learn("t", RECORD)
    assert list(registry.subjects) == [subject]
    assert registry.texts == [OWN]


@pytest.mark.parametrize(
    "key", ["generalized.sum.type.support", "json.fail.invalid.schema", "preserve.additional.properties"]
)
def test_settings_that_are_not_served_are_refused_with_what_to_do(key: str) -> None:
    made({key: "false"})
    with pytest.raises(ConfigError, match=f"{key}.*Set {key}=false"):
        made({key: "true"})


def test_a_decimal_format_is_checked() -> None:
    made({"decimal.format": "numeric"})
    with pytest.raises(ConfigError, match=r"decimal\.format"):
        made({"decimal.format": "HEX"})


def test_the_version_is_the_registrys_unless_the_schema_has_one() -> None:
    converter, registry = made()
    for text, version in ((OWN, 1), ('{"type":"string","connect.version":7}', 7)):
        number = registry.register("t-value", text)
        found = converter.resolve(b"\x00" + number.to_bytes(4, "big"), "t")
        assert found is not None
        assert found.version == version


def test_an_unreadable_schema_is_told_with_the_topic() -> None:
    converter, registry = made()
    registry.register("t-value", '{"$ref":"#"}')
    with pytest.raises(DataError, match="error of topic t: The references of the JSON Schema"):
        converter.resolve(b"\x00\x00\x00\x00\x01", "t")


def test_a_record_is_shown_without_asking_the_registry() -> None:
    converter, _ = made()
    assert converter.shown(b'\x00\x00\x00\x00\x09{"a": "\xc3\xbc"}') == '{"a": "ü"}'
    for data in (b"", b'{"a":1}', b"\x00\x00\x00\x00\x09{", b"\x00\x00\x00\x00\x09"):
        with pytest.raises(DataError):
            converter.shown(data)
