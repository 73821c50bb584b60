"""Connect schemas of Python's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, NotRequired, Optional, Required, TypedDict

import pyarrow as pa
import pytest
from pydantic import BaseModel, Field

from headrace.plugins import schema_of
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from headrace.plugins.schema import Field as Member


class Colour(StrEnum):
    RED = "red"


@dataclass
class Inner:
    n: int


@dataclass
class Tree:
    children: list[Tree]


class Typed(TypedDict, total=False):
    a: Required[int]
    b: NotRequired[str]
    c: list[Inner] | None


class Model(BaseModel):
    n: Annotated[int, Field(gt=0)]
    name: str | None = None


INT64 = Schema(SchemaType.INT64)


@pytest.mark.parametrize(
    ("declared", "schema"),
    [
        (int, INT64),
        (bool, Schema(SchemaType.BOOLEAN)),
        (Annotated[int, SchemaType.INT16], Schema(SchemaType.INT16)),
        (Annotated[int, "a note"], INT64),
        (Annotated[Decimal, 2], Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})),
        (date, Schema(SchemaType.INT32, name=DATE, version=1)),
        (time, Schema(SchemaType.INT32, name=TIME, version=1)),
        (datetime, Schema(SchemaType.INT64, name=TIMESTAMP, version=1)),
        (Colour, Schema(SchemaType.STRING)),
        (Optional[int], Schema(SchemaType.INT64, optional=True)),  # noqa: UP045
        (Sequence[int], Schema(SchemaType.ARRAY, value_schema=INT64)),
        (Mapping[str, int], Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=INT64)),
        (Inner, Schema(SchemaType.STRUCT, name="Inner", fields=(Member("n", INT64),))),
        (INT64, INT64),
        (pa.decimal128(10, 3), Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": "3"})),
        (pa.map_(pa.string(), pa.int32()), Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING),
         value_schema=Schema(SchemaType.INT32, optional=True))),
    ],
)  # fmt: skip
def test_types(declared: Any, schema: Schema) -> None:
    assert schema_of(declared) == schema


def test_classes() -> None:
    found = {field.name: (field.schema.type, field.schema.optional) for field in schema_of(Typed).fields}
    assert found == {
        "a": (SchemaType.INT64, False),
        "b": (SchemaType.STRING, True),
        "c": (SchemaType.ARRAY, True),
    }
    found = {field.name: (field.schema.type, field.schema.optional) for field in schema_of(Model).fields}
    assert found == {"n": (SchemaType.INT64, False), "name": (SchemaType.STRING, True)}


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (Any, "the schema is declared as|Any is declared as"),
        (list, "list is declared as"),
        ({"a": int}, "the schema is declared as"),
        (int | str, "is of several types"),
        (list[set[int]], r"\[\] is declared as set"),
        (Decimal, "annotate its scale"),
        (Annotated[Decimal, 50], "cannot be carried: Spark cannot hold decimals of scale 50"),
        (Tree, "Tree contains itself"),
        (pa.duration("s"), "is of Arrow's type duration"),
        (pa.schema([("a", pa.struct([("b", pa.null())]))]), "the schema.a.b is of Arrow's type null"),
    ],
)
def test_what_connect_has_no_type_of_is_named(declared: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        schema_of(declared)
