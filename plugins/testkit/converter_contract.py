"""Tests that any converter must pass; they need the fixture `spark`, and Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import Converter
from headrace.plugins.errors import DataError
from headrace.plugins.extensions import TopicEncoding
from headrace.plugins.record_api.columns import Side
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.record_api.unpacking import unpacked
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical
from headrace.plugins.testkit.driving import HOSTILE
from headrace.plugins.testkit.frames import TOPIC
from headrace.plugins.testkit.promises import holds, keeping, same

_SLOW: Final = list(HealthCheck)
GARBAGE: Final = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"null",
    b"{",
    b"\x00\x00\x00\x00\x01",
    b"\xc3",
    b"0" * 9,
    bytes(range(256)),
)


class ConverterContract:
    """Tests that any converter must pass: values of each of `schemas` come back as they went.

    class TestMine(ConverterContract):
        converter = Mine
        schemas = [str, int | None, Order]          # what `schema_of` takes; None: dicts without a schema
    """

    converter: ClassVar[type[Converter]]
    config: ClassVar[Mapping[str, str]] = {}
    schemas: ClassVar[Sequence[Any]] = ()
    examples: ClassVar[int] = 5
    """The tries of each schema, each with some dozen values that Hypothesis draws."""

    @pytest.fixture
    def made(self) -> Converter:
        """Return the converter, configured for values."""
        made = self.converter()
        made.configure({"converter.type": "value", **self.config}, is_key=False)
        return made

    @pytest.mark.spark
    def test_values_come_back_as_they_went(self, spark: SparkSession, made: Converter) -> None:
        holds(self.schemas, "a converter has `schemas`")
        for declared in self.schemas:
            self._come_back(spark, made, None if declared is None else schema_of(declared))

    def _come_back(self, spark: SparkSession, made: Converter, schema: Schema | None) -> None:
        @_drawn(self.examples)
        @given(st.lists(values_of(schema), min_size=25, max_size=50))
        def come_back(values: list[Any]) -> None:
            with keeping(f"values of {schema} are written and read without an error"):
                found = decoded(spark, made, encoded(spark, made, schema, values))
            same(found, values, f"values of {schema} come back as they went")

        come_back()

    @pytest.mark.spark
    def test_bytes_of_any_kind_are_read_or_are_an_error(self, spark: SparkSession, made: Converter) -> None:
        promise = "bytes of any kind are read, or are the error of their record"

        @_drawn(self.examples)
        @given(st.lists(st.one_of(st.sampled_from(GARBAGE), st.binary(max_size=40)), min_size=1, max_size=50))
        def read(garbage: list[bytes]) -> None:
            with keeping(promise):
                decoded(spark, made, garbage, may_fail=True)

        read()


def _drawn(examples: int) -> settings:
    """Return settings without a search for the smallest failure: each try costs Spark jobs."""
    phases = [Phase.explicit, Phase.generate]
    return settings(max_examples=examples, deadline=None, database=None, phases=phases, suppress_health_check=_SLOW)


def values_of(schema: Schema | None) -> st.SearchStrategy[Any]:
    """Return values of this schema as Hypothesis draws them; None: JSON objects."""
    if schema is None:
        return st.dictionaries(
            _TEXT, st.recursive(_LEAF, lambda of: st.lists(of, max_size=3), max_leaves=5), max_size=4
        )
    found = _present(schema)
    return st.none() | found if schema.optional else found


def _present(schema: Schema) -> st.SearchStrategy[Any]:
    kind = logical(schema)
    if kind == DECIMAL:
        scale = int(schema.parameters["scale"])
        return st.integers(-(10**18), 10**18).map(lambda number: Decimal(number).scaleb(-scale))
    if kind is not None:
        return _LOGICAL[kind]
    match schema.type:
        case SchemaType.STRUCT:
            return st.fixed_dictionaries({field.name: values_of(field.schema) for field in schema.fields})
        case SchemaType.ARRAY:
            return st.lists(values_of(schema.value_schema), max_size=4)
        case SchemaType.MAP:
            return st.dictionaries(values_of(schema.key_schema), values_of(schema.value_schema), max_size=4)
    return _SCALARS[schema.type]


_HARD: Final = [text for text in HOSTILE if len(text) < 100]
_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(_HARD)
_INT64: Final = st.integers(-(2**63), 2**63 - 1)
_FLOAT: Final = st.floats(allow_nan=False, allow_infinity=False)
_LEAF: Final = st.none() | st.booleans() | _INT64 | _TEXT
_SCALARS: Final[Mapping[SchemaType, st.SearchStrategy[Any]]] = {
    SchemaType.BOOLEAN: st.booleans(),
    SchemaType.INT8: st.integers(-(2**7), 2**7 - 1),
    SchemaType.INT16: st.integers(-(2**15), 2**15 - 1),
    SchemaType.INT32: st.integers(-(2**31), 2**31 - 1),
    SchemaType.INT64: _INT64,
    SchemaType.FLOAT32: st.floats(allow_nan=False, allow_infinity=False, width=32),
    SchemaType.FLOAT64: _FLOAT,
    SchemaType.STRING: _TEXT,
    SchemaType.BYTES: st.binary(max_size=40),
}
_LOGICAL: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    DATE: st.dates(date(1900, 1, 1), date(2999, 12, 31)),
    TIME: st.integers(0, 86_399_999).map(lambda ms: (datetime.min + timedelta(milliseconds=ms)).time()),
    TIMESTAMP: st.integers(-(2**40), 2**43).map(
        lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    ),
}


def encoded(spark: SparkSession, converter: Converter, schema: Schema | None, values: Sequence[Any]) -> list[bytes]:
    """Return the bytes of these values. Errors: DataError."""
    side = Side((schema,))
    (_, column), _ = side.columns([side.pack(value, 0) for value in values])
    rows = pa.table({"n": range(len(values)), "value": column})
    frame = spark.createDataFrame(rows).coalesce(1)
    if isinstance(converter, TopicEncoding):
        converter.learn(TOPIC, schema)
        made: Any = converter.encode_for(F.lit(TOPIC), F.col("value"), schema)
    else:
        made = converter.encode(F.col("value"), schema)
    return _checked(frame, made.value, made.error, lambda array: array.to_pylist())


def decoded(
    spark: SparkSession, converter: Converter, data: Sequence[bytes | None], may_fail: bool = False
) -> list[Any]:
    """Return the values of these bytes, None of null. Errors: DataError, unless they may fail."""
    rows = pa.table({"n": range(len(data)), "data": pa.array(data, pa.binary())})
    frame = spark.createDataFrame(rows).coalesce(1)
    named = frame.where(F.col("data").isNotNull()).select("n", converter.identify(F.col("data")).alias("identity"))
    identities = {row["n"]: bytes(row["identity"]) for row in named.toArrow().to_pylist()}
    found: dict[int, Any] = {}
    for identity in sorted(set(identities.values())):
        try:
            schema = converter.resolve(identity, TOPIC)
        except DataError:
            if may_fail:
                continue
            raise
        mine = [number for number, one in identities.items() if one == identity]
        made = converter.decode(F.col("data"), identity, schema)
        part = frame.where(F.col("n").isin(mine)).orderBy("n")
        values = _checked(part, made.value, made.error, partial(unpacked, schema=schema), may_fail)
        found |= dict(zip(mine, values, strict=True))
    return [found.get(number) for number in range(len(data))]


def _checked(
    frame: DataFrame, value: Column, error: Column, read: Callable[[Any], list[Any]], may_fail: bool = False
) -> list[Any]:
    """Return the values of a column. Errors: DataError with the first of its errors."""
    failed = F.when(value.isNull(), error).alias("error")
    table = frame.select(value.alias("value"), failed).toArrow()
    errors = [one for one in table.column("error").to_pylist() if one is not None]
    if errors and not may_fail:
        raise DataError(errors[0])
    return read(table.column("value").combine_chunks())
