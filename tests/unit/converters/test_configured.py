"""Converters after `configure`, without Spark."""

from __future__ import annotations

import pytest

from headrace.config.problems import ConfigError
from headrace.converters.bytes import ByteArrayConverter
from headrace.converters.json.converter import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.contracts import Converter, DataError
from headrace.plugins.schema import OPTIONAL_BYTES, OPTIONAL_STRING, STRING, Schema, SchemaType


def json_converter(**settings: str) -> JsonConverter:
    converter = JsonConverter()
    named = {name.replace("_", "."): value for name, value in settings.items()}
    converter.configure({"converter.type": "value", **named}, is_key=False)
    return converter


@pytest.mark.parametrize(
    ("identity", "schema"),
    [
        (b'{"schema":{"type":"string","optional":false},"payload":', STRING),
        (b' {"schema" : {"type":"string"} ,\n"payload" : ', STRING),
        (b'{"schema":null,"payload":', None),
        (b'\x01{"type":"int8","optional":true}', Schema(SchemaType.INT8, optional=True)),
        (b"\x01null", None),
    ],
)
def test_an_identity_holds_its_schema(identity: bytes, schema: Schema | None) -> None:
    assert json_converter().resolve(identity, "t") == schema


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        (b'{"schema":{"type":"string"},"more":1,"payload":', "JsonConverter with schemas.enable requires"),
        (b'{"schema":{"type":"string","doc":"\xff"},"payload":', "Converting byte"),
        (b'{"schema":{"type":"string","parameters":{"a":"b","payload":', "Converting byte"),
        (b'{"schema":{"type":"strange"},"payload":', "Unknown schema type: strange"),
        (b"\x01a text", "Schema must contain 'type' field"),
        (b"\x00what was wrong", "what was wrong"),
        (
            b'{"schema":' + b'{"type":"array","items":' * 40 + b'{"type":"int8"}' + b"}" * 40 + b',"payload":',
            "too large",
        ),
        (
            b'{"schema":' + b'{"type":"array","items":' * 9999 + b'{"type":"int8"}' + b"}" * 9999 + b',"payload":',
            "Conv",
        ),
        (
            b'{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"},"payload":',
            "no integer|not an int",
        ),
    ],
)
def test_an_unreadable_identity_has_an_error(identity: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        json_converter().resolve(identity, "t")


def test_schemas_that_are_known_from_the_start() -> None:
    assert json_converter().constant_identity is None
    assert json_converter(schemas_enable="false").constant_identity == b""
    assert json_converter(schemas_enable="false").resolve(b"", "t") is None
    fixed = json_converter(schema_content='{"type":"string"}')
    assert fixed.constant_identity is not None
    assert fixed.resolve(fixed.constant_identity, "t") == STRING
    assert (StringConverter().constant_identity, StringConverter().resolve(b"", "t")) == (b"", OPTIONAL_STRING)
    assert (ByteArrayConverter().constant_identity, ByteArrayConverter().resolve(b"", "t")) == (b"", OPTIONAL_BYTES)


@pytest.mark.parametrize(
    ("converter", "key", "value", "remedy"),
    [
        (JsonConverter(), "schema.content", '{"type":"strange"}', "Unknown schema type: strange"),
        (JsonConverter(), "schema.content", "{", "Give a schema"),
        (JsonConverter(), "decimal.format", "ROMAN", "BASE64"),
        (StringConverter(), "converter.encoding", "EBCDIC", "Use one of UTF-8"),
    ],
)
def test_invalid_settings_are_refused(converter: Converter, key: str, value: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as raised:
        converter.configure({"converter.type": "value", key: value}, is_key=False)
    assert key in str(raised.value)
    assert remedy in str(raised.value)


@pytest.mark.parametrize("name", ["UTF-8", "utf8", "ISO-8859-1", "latin1", "US-ASCII", "UTF_16LE"])
def test_encodings_answer_to_javas_names(name: str) -> None:
    StringConverter().configure({"converter.type": "key", "converter.encoding": name}, is_key=True)
