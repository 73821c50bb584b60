"""Python values as columns: what arrives is what was given, or the field at fault is named."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel

from headrace.plugins.errors import DataError
from headrace.plugins.record_api.columns import Side
from headrace.plugins.schema import SchemaType


class Colour(StrEnum):
    RED = "red"


@dataclass
class Part:
    name: str
    sizes: list[int]


@dataclass
class Order:
    id: int
    small: Annotated[int, SchemaType.INT8] | None = None
    single: Annotated[float, SchemaType.FLOAT32] | None = None
    ratio: float | None = None
    paid: bool | None = None
    text: str | None = None
    data: bytes | None = None
    price: Annotated[Decimal, 2] | None = None
    day: date | None = None
    at: time | None = None
    made: datetime | None = None
    parts: list[Part] | None = None
    by_name: dict[str, Part | None] | None = None


class Model(BaseModel):
    id: int
    price: float


def carried(value: Any, declared: Any = None) -> Any:
    """The value that a column has. Errors: DataError."""
    side, pack = Side.of(declared)
    columns, faults = side.columns([pack(value)])
    if faults:
        raise DataError(faults[0])
    kind = columns[0][0].as_py()
    return None if kind is None else columns[1 + kind][0].as_py()


def refusal(value: Any, declared: Any = None) -> str:
    with pytest.raises(DataError) as refused:
        carried(value, declared)
    return str(refused.value)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, None),
        ("text", "text"),
        ("", ""),
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"x"), b"x"),
        ({"a": [1, {"b": None}], "ü": 1.5}, '{"a":[1,{"b":null}],"ü":1.5}'),
        ([1, 2], "[1,2]"),
        (True, "true"),
        (2**63 - 1, "9223372036854775807"),
        ({"n": -(2**63)}, '{"n":-9223372036854775808}'),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC), "day": date(2026, 1, 2)}, None),
        (Part("a", [1]), '{"name":"a","sizes":[1]}'),
        ({"part": Part("a", [])}, '{"part":{"name":"a","sizes":[]}}'),
        (Model(id=1, price=2.5), '{"id":1,"price":2.5}'),
        ({"colour": Colour.RED}, '{"colour":"red"}'),
        ({"digits": "12345678901234567890"}, '{"digits":"12345678901234567890"}'),
    ],
)
def test_values_without_schema(value: Any, found: Any) -> None:
    if found is None and value is not None:
        found = '{"at":"2026-01-02T00:00:00+00:00","day":"2026-01-02"}'
    assert carried(value) == found


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": {"n": 2**63}}, "field a.n: 9223372036854775808 has more than 64 bits"),
        (2**70, "has more than 64 bits"),
        ({"a": [1.0, float("nan")]}, "field a.[1]: JSON has no number nan"),
        ({"a": float("inf")}, "field a: JSON has no number inf"),
        ({"a": {"price": Decimal("1.5")}}, "field a.price: JSON has no form of Decimal"),
        ({"a": {1: "x"}}, "field a: the key 1 is no text"),
        ({None: "x"}, "the key None is no text"),
        ({(1, 2): "x"}, "the key (1, 2) is no text"),
        ({"a": {"b": "\ud800"}}, "field a.b: the text has half a surrogate pair"),
        ("\ud800", "the text has half a surrogate pair at 0"),
        ({"a": b"x"}, "field a: JSON has no form of bytes"),
        ({"a": {1, 2}}, "field a: JSON has no form of set"),
        ({"m": Model(id=2**63, price=1)}, "field m.id: 9223372036854775808 has more"),
        (Model(id=1, price=float("nan")), "field price: JSON has no number nan"),
    ],
)
def test_values_that_json_would_change_are_refused(value: Any, why: str) -> None:
    assert why in refusal(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["a"] = value
    assert "nested too deeply, or contains itself" in refusal(value)


def test_all_declared_types() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=timezone(timedelta(hours=2)))
    order = Order(
        1, -128, 1.5, 3, False, Colour.RED, b"x", Decimal("1.5"), date(2026, 1, 2), time(1, 2, 3, 4000), at,
        [Part("a", [1, 2]), Part("b", [])], {"x": Part("c", [3]), "y": None},
    )  # fmt: skip
    assert carried(order, Order) == {
        "id": 1,
        "small": -128,
        "single": 1.5,
        "ratio": 3.0,
        "paid": False,
        "text": "red",
        "data": b"x",
        "price": Decimal("1.50"),
        "day": date(2026, 1, 2),
        "at": 3_723_004,
        "made": at,
        "parts": [{"name": "a", "sizes": [1, 2]}, {"name": "b", "sizes": []}],
        "by_name": [("x", {"name": "c", "sizes": [3]}), ("y", None)],
    }
    assert carried({"id": np.int64(5), "ratio": np.float32(0.5), "data": bytearray(b"y")}, Order)["data"] == b"y"
    assert set(carried(Order(2), Order).values()) == {2, None}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"id": "1"}, "field id: '1' is no integer"),
        ({"id": 1.0}, "field id: 1.0 is no integer"),
        ({"id": True}, "field id: True is no integer"),
        ({"id": 2**63}, "field id: "),
        ({"id": None}, "field id: there is nothing, and it is not optional"),
        ({}, "field id: there is nothing"),
        ({"id": 1, "more": 2}, "its schema has no field more"),
        ({"id": 1, "small": 128}, "field small: "),
        ({"id": 1, "single": 1e300}, "field single: 1e+300 is too large for a float of 32 bits"),
        ({"id": 1, "ratio": True}, "field ratio: True is no number"),
        ({"id": 1, "ratio": 2**60 + 1}, "field ratio: "),
        ({"id": 1, "paid": 1}, "field paid: 1 is no boolean"),
        ({"id": 1, "text": b"x"}, "field text: b'x' is no text"),
        ({"id": 1, "text": "\udfff"}, "field text: the text has half a surrogate pair"),
        ({"id": 1, "data": "x"}, "field data: 'x' is no bytes"),
        ({"id": 1, "price": 1.5}, "field price: 1.5 is no Decimal"),
        ({"id": 1, "price": Decimal("1.005")}, "field price: "),
        ({"id": 1, "price": Decimal("NaN")}, "field price: "),
        ({"id": 1, "day": datetime(2026, 1, 2, tzinfo=UTC)}, "field day: "),
        ({"id": 1, "day": 5}, "field day: 5 is no date"),
        ({"id": 1, "at": time(1, tzinfo=UTC)}, "field at: 01:00:00+00:00 has a time zone"),
        ({"id": 1, "made": datetime(2026, 1, 2)}, "field made: 2026-01-02 00:00:00 has no time zone"),
        ({"id": 1, "made": 5}, "field made: 5 is no datetime"),
        ({"id": 1, "parts": "abc"}, "field parts: 'abc' is no list"),
        ({"id": 1, "parts": [{"name": "a", "sizes": "12"}]}, "field parts.[0].sizes: '12' is no list"),
        ({"id": 1, "parts": [{"name": "a", "sizes": [1, None]}]}, "field parts.sizes: it contains None"),
        ({"id": 1, "parts": [None]}, "field parts: it contains None"),
        ({"id": 1, "by_name": [("a", None)]}, "field by_name: [('a', None)] is no dict"),
        ({"id": 1, "by_name": {None: None}}, "field by_name: None is a key of the map"),
        ("text", "'text' is no dict, and no Order"),
    ],
)
def test_values_that_their_schema_would_change_are_refused(value: Any, why: str) -> None:
    assert why in refusal(value, Order)


def test_one_value_at_fault_leaves_the_others_as_they_are() -> None:
    side, pack = Side.of(Order)
    values = [{"id": 1}, {"id": 2, "made": datetime(2026, 1, 1)}, None, {"id": 3}, {"id": 4, "small": 200}]
    columns, faults = side.columns([pack(value) for value in values])
    assert columns[0].to_pylist() == [0, None, None, 0, None]
    assert [row and row["id"] for row in columns[1].to_pylist()] == [1, None, None, 3, None]
    assert sorted(faults) == [1, 4]


def test_an_object_may_be_changed_once_it_was_packed() -> None:
    for declared in (None, Order):
        side, pack = Side.of(declared)
        value: Any = {"id": 1, "parts": [{"name": "a", "sizes": [1]}]}
        packed = pack(value)
        value["parts"][0]["sizes"].append(2)
        value["parts"][0]["name"] = "changed"
        columns, _ = side.columns([packed])
        found = columns[1 + packed.schema][0].as_py() if packed.schema is not None else None
        assert "changed" not in str(found)
        assert "2" not in str(found)


def test_kinds_lie_side_by_side() -> None:
    side, pack = Side.of(None)
    values = [{"a": 1}, "text", None, b"bytes", "more"]
    columns, faults = side.columns([pack(value) for value in values])
    assert [column.to_pylist() for column in columns] == [
        [0, 1, None, 2, 1],
        ['{"a":1}', None, None, None, None],
        [None, "text", None, None, "more"],
        [None, None, None, b"bytes", None],
    ]
    assert not faults


def test_arrow_schemas_and_single_types() -> None:
    declared = pa.schema([pa.field("n", pa.int32(), nullable=False), ("tags", pa.list_(pa.string()))])
    assert carried({"n": 1, "tags": ["a", None]}, declared) == {"n": 1, "tags": ["a", None]}
    assert "field n: " in refusal({"n": 2**31}, declared)
    assert carried(5, int) == 5
    assert "'5' is no integer" in refusal("5", int)
    assert carried({}, pa.schema([])) == {}
