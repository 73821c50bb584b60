"""Files that meet records of another schema, as Confluent's `schema.compatibility` has it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plugins.errors import DataError
from headrace.plugins.interop.avro.tree import ENUM, FIELD_DOC, RECORD_DOC, UNION
from headrace.plugins.interop.formats.compatibility import SchemaAction, can_project, decide
from headrace.plugins.schema import DATE, DECIMAL, STRING, TIMESTAMP, Field, Schema, SchemaType
from tests.unit.plugins.interop.formats.schemas import evolved, record, schemas, structs

T = SchemaType
INT = Schema(T.INT32)
LONG = Schema(T.INT64)
SAME, PROJECT, ROTATE = SchemaAction.SAME, SchemaAction.PROJECT, SchemaAction.ROTATE


def enum(*symbols: str) -> Schema:
    """A text that was an Avro enum."""
    return Schema(T.STRING, name="E", parameters={ENUM: "E", **{f"{ENUM}.{one}": one for one in symbols}})


OLD = record(1, a=INT)
NEW = record(2, a=INT, b=Schema(T.STRING, optional=True))
"""A version with one more field, which may be null."""


@pytest.mark.parametrize(
    ("mode", "current", "new", "change"),
    [
        ("NONE", OLD, OLD, SAME),
        ("NONE", OLD, NEW, ROTATE),
        ("NONE", NEW, OLD, ROTATE),
        ("NONE", None, OLD, ROTATE),
        ("NONE", OLD, None, ROTATE),
        ("BACKWARD", OLD, NEW, ROTATE),
        ("BACKWARD", NEW, OLD, PROJECT),
        ("backward", NEW, OLD, PROJECT),
        ("FULL", OLD, NEW, ROTATE),
        ("FULL", NEW, OLD, PROJECT),
        ("FORWARD", OLD, NEW, PROJECT),
        ("FORWARD", NEW, OLD, ROTATE),
        ("BACKWARD", OLD, replace(NEW, version=1), PROJECT),
        ("FORWARD", OLD, replace(NEW, version=1), PROJECT),
        ("FULL", None, None, SAME),
        ("FULL", OLD, replace(OLD, optional=True), SAME),
        ("FULL", replace(OLD, version=None), replace(OLD, version=None), SAME),
    ],
)
def test_the_modes(mode: str, current: Schema | None, new: Schema | None, change: SchemaAction) -> None:
    assert decide(current, new, mode) is change


@pytest.mark.parametrize("mode", ["BACKWARD", "FORWARD", "FULL"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_cannot_be_projected_ends_the_file_whatever_the_version(mode: str, version: int) -> None:
    current, new = record(2, a=LONG, b=STRING), record(version, a=LONG)
    assert decide(current, new, mode) is ROTATE


@pytest.mark.parametrize(
    ("current", "new", "message"),
    [
        (OLD, replace(NEW, version=None), "Schema version required for BACKWARD compatibility"),
        (replace(OLD, version=None), NEW, "Schema version required for BACKWARD compatibility"),
        (OLD, None, "Switch between schema-based and schema-less data is not supported"),
        (None, OLD, "Switch between schema-based and schema-less data is not supported"),
    ],
)
def test_what_is_refused(current: Schema | None, new: Schema | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        decide(current, new, "backward")


OPTIONAL = Schema(T.INT32, optional=True)
GIVEN = Schema(T.INT32, default=5)
UNIONS = [
    Schema(T.STRUCT, name=UNION, fields=tuple(Field(str(kind), Schema(kind, optional=True)) for kind in kinds))
    for kinds in ((T.INT32, T.STRING), (T.INT32, T.STRING, T.BYTES))
]


@pytest.mark.parametrize(
    ("of", "to", "fits"),
    [
        (INT, LONG, True),
        (LONG, INT, False),
        (LONG, Schema(T.FLOAT32), True),
        (Schema(T.FLOAT64), Schema(T.FLOAT32), False),
        (Schema(T.BOOLEAN), INT, False),
        (INT, OPTIONAL, True),
        (OPTIONAL, INT, False),
        (OPTIONAL, GIVEN, True),
        (GIVEN, INT, True),
        (INT, Schema(T.INT32, name=DATE), False),
        (Schema(T.INT32, name="a"), Schema(T.INT32, name="b"), False),
        (Schema(T.INT64, name=TIMESTAMP, version=1), Schema(T.INT64, name=TIMESTAMP, version=2), True),
        (Schema(T.INT32, parameters={"x": "1"}), INT, False),
        (Schema(T.INT32, parameters={RECORD_DOC: "1", f"{FIELD_DOC}a": "2"}), INT, True),
        (
            Schema(T.BYTES, name=DECIMAL, parameters={"scale": "2"}),
            Schema(T.BYTES, name=DECIMAL, parameters={"scale": "3"}),
            False,
        ),
        (enum("A"), enum("A", "B"), True),
        (enum("A", "B"), enum("A"), False),
        (enum("A"), Schema(T.STRING, name="E"), False),
        (UNIONS[0], UNIONS[0], True),
        (UNIONS[0], UNIONS[1], False),
        (Schema(T.ARRAY, value_schema=INT), Schema(T.ARRAY, value_schema=LONG), True),
        (Schema(T.ARRAY, value_schema=OPTIONAL), Schema(T.ARRAY, value_schema=LONG), False),
        (Schema(T.ARRAY), Schema(T.ARRAY), True),
        (Schema(T.ARRAY), Schema(T.ARRAY, value_schema=INT), False),
        (
            Schema(T.MAP, key_schema=STRING, value_schema=INT),
            Schema(T.MAP, key_schema=STRING, value_schema=LONG),
            True,
        ),
        (Schema(T.MAP, key_schema=STRING, value_schema=INT), Schema(T.MAP, key_schema=INT, value_schema=INT), False),
        (record(), record(a=OPTIONAL, b=GIVEN), True),
        (record(), record(a=INT), False),
        (record(a=INT), record(), True),
        (record(a=INT), record(name="S", a=INT), False),
        (record(inner=record()), record(inner=record(a=INT)), False),
        (record(inner=record(a=INT)), record(inner=record(a=LONG)), True),
    ],
)
def test_what_fits(of: Schema, to: Schema, fits: bool) -> None:
    assert can_project(record(value=of), record(value=to)) is fits


@given(structs())
def test_every_schema_fits_itself(schema: Schema) -> None:
    assert can_project(schema, schema)
    for mode in ("NONE", "BACKWARD", "FORWARD", "FULL"):
        assert decide(schema, schema, mode) is SAME


@given(structs(), schemas())
def test_a_field_more_or_less(schema: Schema, added: Schema) -> None:
    larger = replace(schema, fields=(*schema.fields, Field("added", added)))
    assert can_project(larger, schema)
    assert can_project(schema, larger) is (added.optional or added.default is not None)


@given(st.data(), structs())
def test_what_fits_fits_on(data: st.DataObject, schema: Schema) -> None:
    later = data.draw(evolved(schema))
    latest = data.draw(evolved(later))
    assert can_project(schema, later)
    assert can_project(later, latest)
    assert can_project(schema, latest)


@given(structs(), structs(), st.sampled_from(["BACKWARD", "FORWARD", "FULL"]))
def test_a_file_that_goes_on_never_gets_what_does_not_fit(current: Schema, new: Schema, mode: str) -> None:
    change = decide(current, new, mode)
    if change is PROJECT:
        assert can_project(new, current)
        assert current.version is not None
        assert new.version is not None
        assert new.version >= current.version if mode == "FORWARD" else new.version <= current.version
