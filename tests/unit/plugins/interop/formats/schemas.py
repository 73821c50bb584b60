"""Connect schemas for property tests, and later ones that their values fit."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

from hypothesis import strategies as st

from headrace.plugins.schema import DATE, DECIMAL, NUMBERS, STRING, TIME, TIMESTAMP, Field, Schema, SchemaType

T = SchemaType


def record(version: int | None = 1, name: str | None = "R", **fields: Schema) -> Schema:
    """A struct."""
    return Schema(T.STRUCT, name=name, version=version, fields=tuple(Field(n, of) for n, of in fields.items()))


SCALARS = st.sampled_from([*NUMBERS, T.STRING, T.BOOLEAN, T.BYTES])
LOGICAL = {T.BYTES: [DECIMAL], T.INT32: [DATE, TIME], T.INT64: [TIMESTAMP]}
DEFAULTS: dict[SchemaType, Any] = {T.STRING: "x", T.BOOLEAN: True, T.BYTES: b"x", T.FLOAT32: 0.5, T.FLOAT64: 0.5}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Schema:
    """Any schema of a field."""
    kind = draw(st.one_of(SCALARS, st.sampled_from([T.ARRAY, T.MAP, T.STRUCT]) if depth else SCALARS))
    optional = draw(st.booleans())
    match kind:
        case T.ARRAY:
            return Schema(kind, optional, value_schema=draw(schemas(depth - 1)))
        case T.MAP:
            return Schema(kind, optional, key_schema=STRING, value_schema=draw(schemas(depth - 1)))
        case T.STRUCT:
            return replace(draw(structs(depth - 1)), name=None, optional=optional)
    default = DEFAULTS.get(kind, 7) if draw(st.booleans()) else None
    name = draw(st.sampled_from([None, *LOGICAL.get(kind, ())]))
    if name == DECIMAL:
        default = None if default is None else Decimal("1.50")
        return Schema(kind, optional, default, name=name, version=1, parameters={"scale": "2"})
    return Schema(kind, optional, default, name=name)


@st.composite
def structs(draw: st.DrawFn, depth: int = 2) -> Schema:
    """Any struct."""
    some = draw(st.lists(schemas(depth), max_size=4))
    return record(draw(st.integers(1, 3)), **{f"f{n}": one for n, one in enumerate(some)})


@st.composite
def evolved(draw: st.DrawFn, schema: Schema, inner: bool = False) -> Schema:
    """A schema that the values of this one fit."""
    match schema.type:
        case T.ARRAY | T.MAP:
            assert schema.value_schema is not None
            made = replace(schema, value_schema=draw(evolved(schema.value_schema, inner=True)))
        case T.STRUCT:
            kept = [
                Field(f.name, draw(evolved(f.schema, inner=True))) for f in schema.fields if draw(st.integers(0, 4))
            ]
            added = [one for one in draw(st.lists(schemas(1), max_size=2)) if one.optional or one.default is not None]
            new = [Field(f"n{next(NAMES)}", one) for one in added]
            made = replace(schema, fields=tuple(draw(st.permutations([*kept, *new]))))
        case kind if kind in NUMBERS and schema.name is None:
            wider = draw(st.sampled_from(NUMBERS[NUMBERS.index(kind) :]))
            default = schema.default if wider is kind or schema.default is None else DEFAULTS.get(wider, 7)
            made = replace(schema, type=wider, default=default)
        case _:
            made = schema
    return replace(made, optional=schema.optional or draw(st.booleans())) if inner else made


NAMES = count()
