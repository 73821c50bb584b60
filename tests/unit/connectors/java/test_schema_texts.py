from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest

from headrace.connectors.java.schema_texts import described
from headrace.connectors.java.schemas import schema_of
from headrace.plugins.schema import DECIMAL, Field, Schema, SchemaType

INT = Schema(SchemaType.INT32)
STRING = Schema(SchemaType.STRING)
DIGITS = "12345678901234567890123456789012345.67"


@pytest.mark.parametrize(
    "schema",
    [
        Schema(SchemaType.INT8, optional=True, default=3, name="n", version=2, doc="d", parameters={"p": "q"}),
        Schema(SchemaType.BYTES, default=b"\x00\xff"),
        Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"}, default=Decimal("-1.50")),
        Schema(SchemaType.ARRAY, value_schema=STRING, default=["a"]),
        Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT, default={"a": 1}),
        Schema(SchemaType.MAP, key_schema=INT, value_schema=Schema(SchemaType.BYTES), default={1: b"x"}),
        Schema(SchemaType.STRUCT, name="s", fields=(Field("a", INT), Field("b", STRING)), default={"a": 1, "b": "x"}),
        None,
    ],
)
def test_what_is_described_is_read_back(schema: Schema | None) -> None:
    assert schema_of(described(schema)) == schema


def test_decimals_keep_all_their_digits() -> None:
    schema = Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": "2"}, default=Decimal(f"-{DIGITS}"))
    node: Any = described(schema)
    number = int.from_bytes(base64.b64decode(node["default"]), "big", signed=True)
    assert number == -int(DIGITS.replace(".", ""))
