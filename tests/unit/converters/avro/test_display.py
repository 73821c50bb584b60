"""One record of Avro, read without Spark."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from headrace.converters.avro.display import value_of
from headrace.plugins.contracts import DataError

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}
NODE = {"name": "next", "type": ["null", "R"]}
RECORD = {"type": "record", "name": "R", "fields": [{"name": "price", "type": PRICE}, NODE]}


def written(schema: Any, value: Any) -> tuple[bytes, str]:
    """The bytes, and the text of their schema."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, value)
    return body.getvalue(), json.dumps(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (RECORD, {"price": Decimal("-2.55"), "next": {"price": Decimal("1.00"), "next": None}}),
        ("string", "é"),
        (["null", "int"], None),
    ],
)
def test_a_value_is_read(schema: Any, value: Any) -> None:
    assert value_of(*written(schema, value)) == value


def test_bytes_alone_are_all_that_follows() -> None:
    assert value_of(b"\x01\x02", '"bytes"') == b"\x01\x02"


def test_bytes_without_a_value_are_refused() -> None:
    data, text = written(RECORD, {"price": Decimal(1), "next": None})
    wrong = {
        data[:-1]: "do not follow their schema",
        data + b"\x00": "continue after the value",
    }
    for given, told in wrong.items():
        with pytest.raises(DataError, match=told):
            value_of(given, text)
