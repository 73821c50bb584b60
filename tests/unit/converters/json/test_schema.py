"""Connect schemas to JSON and back, with Connect's errors for invalid ones."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.converters.json.schema import (
    MOST_DEPTH,
    MOST_PARTS,
    MOST_WRITTEN,
    parse_schema,
    read_json,
    refusal,
    schema_text,
)
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import DECIMAL, STRING, Field, Schema, SchemaType

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
        ('{"type":"string","default":5}', "Invalid default value"),
        ('{"type":"array","items":{"type":"string"},"default":["a",5]}', "Invalid default value"),
        ('{"type":"struct","fields":[],"default":5}', "Structs should be encoded as JSON objects, but found NUMBER"),
        (
            '{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"},"default":[[1]]}',
            "Found invalid map entry, expected length 2 but found :1",
        ),
        (
            '{"type":"struct","fields":[{"type":"int8","field":"a"},{"type":"int8","field":"a"}]}',
            "Cannot create field because of field name duplication a",
        ),
        (
            '{"type":"int32","name":"org.apache.kafka.connect.data.Date","default":1.0}',
            "Invalid type for Date, underlying representation should be integer but was NUMBER",
        ),
    ],
)
def test_an_invalid_schema_has_connects_error(text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        parse_schema(read_json(text))
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
        ('{"type":"array","items":{"type":"int32"},"default":{"a":1}}', [1]),
        ('{"type":"double","default":-0.0}', 0.0),
        ('{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"},"default":[[1,2]]}', {1: 2}),
        (f'{{"type":"bytes","name":"{DECIMAL}","parameters":{{"scale":"2"}},"default":"AMg="}}', Decimal("2.00")),
        (f'{{"type":"bytes","name":"{DECIMAL}","parameters":{{"scale":"2"}},"default":1.5}}', Decimal("1.50")),
        (
            '{"type":"struct","fields":[{"type":"int8","default":7,"field":"a"},{"type":"int8","field":"b"}],"default":{"b":1}}',
            {"a": 7, "b": 1},
        ),
    ],
)
def test_defaults_are_read_as_leniently_as_values(text: str, default: object) -> None:
    schema = parse_schema(read_json(text))
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


def test_a_number_that_json_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        read_json('{"a":NaN}')


def nested(depth: int) -> Schema:
    schema = STRING
    for _ in range(depth):
        schema = Schema(SchemaType.ARRAY, value_schema=schema)
    return schema


def wide(fields: int) -> Schema:
    return Schema(SchemaType.STRUCT, fields=tuple(Field(f"f{n}", STRING) for n in range(fields)))


def test_a_schema_is_converted_up_to_a_size() -> None:
    assert [refusal(one) for one in (None, STRING, nested(MOST_DEPTH), wide(MOST_PARTS - 1))] == [None] * 4
    assert "too large" in (refusal(nested(MOST_DEPTH + 1)) or "")
    assert f"and {MOST_PARTS} fields" in (refusal(wide(MOST_PARTS)) or "")
    assert refusal(wide(MOST_WRITTEN - 1), MOST_WRITTEN) is None
    assert f"and {MOST_WRITTEN} fields" in (refusal(wide(MOST_WRITTEN), MOST_WRITTEN) or "")


def test_a_hundred_thousand_fields_are_refused_at_once() -> None:
    fields = ",".join(f'{{"type":"int8","field":"f{n}"}}' for n in range(100_000))
    assert "too large" in (refusal(parse_schema(read_json(f'{{"type":"struct","fields":[{fields}]}}'))) or "")


def test_what_spark_cannot_hold_is_refused() -> None:
    decimal = Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": "39"})
    assert "scale 39" in (refusal(Schema(SchemaType.STRUCT, fields=(Field("price", decimal),))) or "")
    by_map = Schema(SchemaType.MAP, key_schema=STRING, value_schema=STRING)
    assert "keys contain maps" in (refusal(Schema(SchemaType.MAP, key_schema=by_map, value_schema=STRING)) or "")
