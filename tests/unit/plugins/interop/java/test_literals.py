"""Values that texts stand for; all are Apache's answers unless they say otherwise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pytest

from headrace.plugins.interop.java.literals import Literal, parse_literal
from headrace.plugins.schema import DATE, DECIMAL, STRING, TIME, TIMESTAMP, Schema, SchemaType

BYTE: Final = Schema(SchemaType.INT8)
SHORT: Final = Schema(SchemaType.INT16)
FLOAT: Final = Schema(SchemaType.FLOAT32)
DAYS: Final = Schema(SchemaType.INT32, name=DATE, version=1)
CLOCK: Final = Schema(SchemaType.INT32, name=TIME, version=1)
MOMENT: Final = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)
WHOLE: Final = Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": "0"})


def array(of: Schema | None) -> Schema:
    return Schema(SchemaType.ARRAY, value_schema=of)


def mapping(keys: Schema | None, values: Schema | None) -> Schema:
    return Schema(SchemaType.MAP, key_schema=keys, value_schema=values)


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("1", BYTE, 1),
        (" +1 ", BYTE, 1),
        ("1.0", BYTE, 1),
        ("1,2", BYTE, 1),
        ("300", SHORT, 300),
        ("2147483648", Schema(SchemaType.INT64), 2**31),
        ("9223372036854775808", WHOLE, Decimal(2**63)),
        ("1.5", FLOAT, 1.5),
        ("1.1", FLOAT, 1.100000023841858),
        ("3.5e38", Schema(SchemaType.FLOAT64), 3.5e38),
        ("1e20", FLOAT, 1.0000000200408773e20),
        ("true", Schema(SchemaType.BOOLEAN), True),
        (" null ", None, None),
        ("2024-01-31", DAYS, 19753),
        ("2024-13-01", DAYS, 20089),
        ("0000-00-00", DAYS, -719562),
        ("1500-02-29", DAYS, -171596),
        ("12:34:56.789Z", CLOCK, 45296789),
        ("2024-01-01T12:34:56.789Z", MOMENT, 1704112496789),
        ("[1,300]", array(SHORT), [1, 300]),
        ("[1, 1.5]x", array(FLOAT), [1.0, 1.5]),
        ('["2024-01-01"]', array(DAYS), [19723]),
        ('[1,"a",null]', array(None), ["1", '"a"', None]),
        ('{"a":1 "b":2,}', mapping(STRING, BYTE), {"a": 1, "b": 2}),
        ('{"a\\"b":[true]}', mapping(STRING, array(Schema(SchemaType.BOOLEAN))), {'a\\"b': [True]}),
        ("{12:34:56.789Z:1}", mapping(CLOCK, BYTE), {45296789: 1}),
    ],
)
def test_what_is_more_than_a_text(text: str, schema: Schema | None, value: Any) -> None:
    assert parse_literal(text) == Literal(schema, value)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a", "TRUE", "true,", '"a"', '"1"', "1x", "1e", ".5", "-", "0x10", "NaN", "1\u3000", "1e2147483648"),
        *(
            "[1,,2]",
            "[,1]",
            "[1 2]",
            "[1,2",
            "[a]",
            "[1,null]",
            '["a',
            "[1\\,2]",
            "{a:1}",
            '{"a"}',
            "{null:1}",
            "{1,2}",
        ),
        *("2024-1-01", "[12:34:56Z]", '{"a":1', "[" * 5000),
    ],
)
def test_what_is_only_a_text(text: str) -> None:
    assert parse_literal(text) == Literal(STRING, text)


@pytest.mark.parametrize("text", ["1e400", "1" * 39, "{[1]:2}", '[1,"2024-01-01"]'])
def test_what_spark_cannot_carry_stays_a_text(text: str) -> None:
    """Apache has types for these."""
    assert parse_literal(text) == Literal(STRING, text)
