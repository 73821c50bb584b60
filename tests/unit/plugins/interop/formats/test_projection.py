"""Values brought from one schema to another, as arrays and as Avro's bytes, against the rule written down once more."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.interop.avro.tree import AvroOptions
from headrace.plugins.interop.formats.avro import AvroFormat
from headrace.plugins.interop.formats.avro_schema import file_schema
from headrace.plugins.interop.formats.parquet import ParquetFormat
from headrace.plugins.schema import DATE, TIMESTAMP, Schema, SchemaType, logical
from tests.spark.avro_values import EPOCH, Generator, T, datum, dt, in_order, spelled, without_logical_types
from tests.unit.plugins.interop.formats.schemas import evolved, structs

OPTIONS = AvroOptions(enhanced=True)


def projected(value: Any, of: Schema, to: Schema) -> Any:
    """A value of `Generator` in the other schema."""
    if value is None:
        return default(to)
    match to.type:
        case T.STRUCT:
            found = {field.name: (field.schema, one) for field, one in zip(of.fields, value, strict=True)}
            return tuple(
                projected(found[field.name][1], found[field.name][0], field.schema)
                if field.name in found
                else default(field.schema)
                for field in to.fields
            )
        case T.ARRAY:
            assert of.value_schema is not None
            assert to.value_schema is not None
            return [projected(one, of.value_schema, to.value_schema) for one in value]
        case T.MAP:
            assert of.value_schema is not None
            assert to.value_schema is not None
            return {key: projected(one, of.value_schema, to.value_schema) for key, one in value.items()}
        case T.FLOAT32:
            return pa.scalar(float(value), pa.float32()).as_py()
        case T.FLOAT64:
            return float(value)
    return value


def default(schema: Schema) -> Any:
    """The default as `Generator` would give it."""
    match logical(schema), schema.default:
        case name, int(days) if name == DATE:
            return dt.date(1970, 1, 1) + dt.timedelta(days=days)
        case name, int(ms) if name == TIMESTAMP:
            return EPOCH + dt.timedelta(milliseconds=ms)
    return schema.default


def filled(value: Any, schema: Schema) -> Any:
    """The value as a payload has it: defaults in place of nulls."""
    return projected(value, schema, schema)


def for_arrow(schema: Schema | None, value: Any) -> Any:
    """The value as pyarrow takes it: structs by name."""
    if value is None or schema is None:
        return value
    match schema.type:
        case SchemaType.STRUCT:
            return {f.name: for_arrow(f.schema, one) for f, one in zip(schema.fields, value, strict=True)}
        case SchemaType.ARRAY:
            return [for_arrow(schema.value_schema, one) for one in value]
        case SchemaType.MAP:
            return [(for_arrow(schema.key_schema, k), for_arrow(schema.value_schema, v)) for k, v in value.items()]
    return value


CASES = st.tuples(st.data(), structs(), st.integers(0, 1000))


@settings(max_examples=150)
@given(CASES)
def test_arrays_and_bytes_are_projected_alike(case: tuple[st.DataObject, Schema, int]) -> None:
    data, of, seed = case
    to, generator = data.draw(evolved(of)), Generator(seed)
    values = [None, *(filled(generator.value(of), of) for _ in range(5)), None]
    expected = [None if value is None else projected(value, of, to) for value in values]

    parquet = ParquetFormat(OPTIONS)
    if parquet.refusal(of) is None and parquet.refusal(to) is None:
        array = pa.array([for_arrow(of, value) for value in values], arrow_type_of_schema(of))
        made = parquet.project(array.slice(1), of, to)
        made.validate(full=True)
        assert made.type == arrow_type_of_schema(to)
        assert [spelled(to, one) for one in made.to_pylist()] == [spelled(to, one) for one in expected[1:]]

    payload = pa.array([None if value is None else binary(of, value) for value in values], pa.binary())
    made = AvroFormat(OPTIONS).project(payload.slice(1), of, to)
    found = [None if one is None else in_order(decoded(to, one)) for one in made.to_pylist()]
    assert found == [None if value is None else in_order(datum(to, value)) for value in expected[1:]]


def binary(schema: Schema, value: Any) -> bytes:
    """The value in Avro."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, without_logical_types(file_schema(schema, OPTIONS).text), datum(schema, value))
    return body.getvalue()


def decoded(schema: Schema, data: bytes) -> Any:
    """The value of Avro's bytes."""
    return fastavro.schemaless_reader(io.BytesIO(data), without_logical_types(file_schema(schema, OPTIONS).text), None)
