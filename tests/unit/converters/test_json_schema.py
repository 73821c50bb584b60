"""Connect schemas in JSON, both ways, with Connect's texts for what is wrong."""

from __future__ import annotations

import json

import pytest

from headrace.converters.json_schema import missing_support, parse_schema, read_json, schema_text
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import STRING, Field, Schema, SchemaType

ORDER = (
    '{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},'
    '{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
    '"parameters":{"scale":"2"},"field":"price"},'
    '{"type":"array","items":{"type":"string","optional":false},"optional":true,"field":"tags"},'
    '{"type":"map","keys":{"type":"int32","optional":false},"values":{"type":"double","optional":true},'
    '"optional":false,"field":"m"}],"optional":false,"name":"Order","version":3}'
)


def test_a_schema_of_every_kind_survives_both_ways() -> None:
    schema = parse_schema(read_json(ORDER))
    assert schema is not None
    assert schema_text(schema) == ORDER
    assert [field.name for field in schema.fields] == ["id", "price", "tags", "m"]
    assert schema.fields[1] == Field(
        "price",
        Schema(
            SchemaType.BYTES,
            optional=True,
            name="org.apache.kafka.connect.data.Decimal",
            version=1,
            parameters={"scale": "2"},
        ),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "Schema must contain 'type' field"),
        ("{}", "Schema must contain 'type' field"),
        ('{"type":"text"}', "Unknown schema type: text"),
        ('{"type":"array"}', "Array schema did not specify the element type"),
        ('{"type":"array","items":null}', "Array schema did not specify the element type"),
        ('{"type":"map","values":{"type":"string"}}', "Map schema did not specify the key type"),
        ('{"type":"map","keys":{"type":"string"}}', "Map schema did not specify the value type"),
        ('{"type":"struct","fields":{}}', 'Struct schema\'s "fields" argument is not an array.'),
        ('{"type":"struct","fields":[{"type":"int8"}]}', "Struct schema's field name not specified properly"),
        ('{"type":"string","parameters":{"a":1}}', "Schema parameters must have string values."),
        ('{"type":"string","default":null}', "Invalid null value for required STRING field"),
        ('{"type":"bytes","default":"?"}', "Invalid bytes field"),
    ],
)
def test_what_is_wrong_is_said_in_connects_words(text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        parse_schema(json.loads(text))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ('{"type":"int8","default":300}', 44),
        ('{"type":"int32","default":"x"}', 0),
        ('{"type":"int64","default":-1.9}', -1),
        ('{"type":"float","default":0.1}', 0.10000000149011612),
        ('{"type":"boolean","default":"true"}', False),
        ('{"type":"bytes","default":"aGk="}', b"hi"),
        ('{"type":"array","items":{"type":"int32"},"default":[1,"x"]}', [1, 0]),
    ],
)
def test_defaults_are_read_as_leniently_as_values(text: str, default: object) -> None:
    schema = parse_schema(json.loads(text))
    assert schema is not None
    assert schema.default == default


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (Schema(SchemaType.FLOAT64, default=1e10), "1.0E10"),
        (Schema(SchemaType.FLOAT64, default=1e-5), "1.0E-5"),
        (Schema(SchemaType.FLOAT64, default=1234567.0), "1234567.0"),
        (Schema(SchemaType.FLOAT32, default=0.10000000149011612), "0.1"),
        (Schema(SchemaType.FLOAT64, default=float("-inf")), '"-Infinity"'),
        (Schema(SchemaType.STRING, default='a"\\\n\x01/é😀'), '"a\\"\\\\\\n\\u0001/é\\uD83D\\uDE00"'),
        (Schema(SchemaType.BYTES, default=b"hi"), '"aGk="'),
        (Schema(SchemaType.BOOLEAN, default=True), "true"),
    ],
)
def test_defaults_are_written_as_jackson_does(schema: Schema, written: str) -> None:
    assert schema_text(schema) == f'{{"type":"{schema.type}","optional":false,"default":{written}}}'


def test_no_number_of_jsons_is_no_json() -> None:
    with pytest.raises(ValueError, match="NaN"):
        read_json('{"a":NaN}')


def test_what_comes_later_is_said_to() -> None:
    assert missing_support(STRING) is None
    assert missing_support(None) is None
    assert "STRUCT" in (missing_support(Schema(SchemaType.STRUCT)) or "")
    assert "Date" in (missing_support(Schema(SchemaType.INT32, name="org.apache.kafka.connect.data.Date")) or "")
