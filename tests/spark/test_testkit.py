"""The kits for transforms, predicates and converters pass what is right, and find what is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headrace.converters.json.converter import JsonConverter
from headrace.converters.numbers import IntegerConverter
from headrace.converters.string import StringConverter
from headrace.plugins import Record
from headrace.plugins.contracts import Converter, Decoded, Predicate, Transform
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema, SchemaType
from headrace.plugins.testkit import (
    ConverterContract,
    PredicateContract,
    SinkOnSparkContract,
    TransformContract,
)
from headrace.plugins.transforms.hoist_field import HoistFieldValue
from headrace.plugins.transforms.predicates import RecordIsTombstone, TopicNameMatches
from headrace.plugins.transforms.routing import Filter, RegexRouter
from tests.unit.plugins.planted import SinkShop

pytestmark = pytest.mark.spark


class TestHoistField(TransformContract):
    transform = HoistFieldValue
    config: ClassVar = {"field": "line"}
    examples: ClassVar = [
        (Record({"a": 1}), Record({"line": {"a": 1}})),
        (Record("text", key="k", headers=[("h", b"1")]), Record({"line": "text"}, key="k", headers=[("h", b"1")])),
    ]


class TestRegexRouter(TransformContract):
    transform = RegexRouter
    config: ClassVar = {"regex": "a(.*)", "replacement": "b$1"}
    examples: ClassVar = [
        (Record("text", topic="a1", partition=3), Record("text", topic="b1", partition=3)),
        (Record(None, topic="c", timestamp=7), Record(None)),
    ]


class TestFilter(TransformContract):
    transform = Filter
    examples: ClassVar = [(Record("text"), None), (Record(None), None)]


class TestTombstones(PredicateContract):
    predicate = RecordIsTombstone
    selected: ClassVar = [Record(None, key="k")]
    others: ClassVar = [Record(""), Record({}), Record("null"), Record(0)]


class TestTopicNames(PredicateContract):
    predicate = TopicNameMatches
    config: ClassVar = {"pattern": "a.*"}
    selected: ClassVar = [Record(None, topic="a"), Record("text", topic="ab")]
    others: ClassVar = [Record("a", topic="b")]


@dataclass
class Order:
    id: int
    small: Annotated[int, SchemaType.INT8]
    price: Annotated[Decimal, 2]
    due: date
    at: datetime
    names: list[str]
    counts: dict[str, int]
    note: str | None


class TestStrings(ConverterContract):
    converter = StringConverter
    schemas: ClassVar = [str]


class TestIntegers(ConverterContract):
    converter = IntegerConverter
    schemas: ClassVar = [Annotated[int, SchemaType.INT32]]


class TestJsonWithSchemas(ConverterContract):
    converter = JsonConverter
    examples = 2
    schemas: ClassVar = [Order, bytes, float, list[int]]


class TestJsonWithoutSchemas(ConverterContract):
    converter = JsonConverter
    config: ClassVar = {"schemas.enable": "false"}
    schemas: ClassVar = [None]


class TestOrdersOnSpark(SinkOnSparkContract):
    @pytest.fixture
    def rig(self) -> Any:
        rig = SinkShop()
        yield rig
        rig.outside.close()


# -- wrong ones --------------------------------------------------------------------------------------------------------


class Mine(Transform):
    settings = HoistFieldValue.settings
    version = "1"


class ChangesAllRecords(Mine):
    """Does not ask `Records.changed`, which obeys predicates and failures."""

    def apply(self, records: Records) -> Records:
        return records.with_frame(
            records.frame.withColumns({"topic": F.lit("new"), "error": F.lit(None), "drop": F.lit(False)})
        )


class RaisesForData(Mine):
    def apply(self, records: Records) -> Records:
        return records.changed({"timestamp": F.raise_error(F.lit("no record for me")).cast("long")})


class LosesRows(Mine):
    def apply(self, records: Records) -> Records:
        return records.with_frame(records.frame.where(F.col("value_schema").isNotNull()))


class ForgetsHeaders(Mine):
    def apply(self, records: Records) -> Records:
        return records.changed({"headers": F.lit(None)})


class IsUnsure(Predicate):
    settings = HoistFieldValue.settings
    version = "1"

    def test(self, records: Records) -> Column:
        return F.col("value_1") == "yes"


class Strips(StringConverter):
    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        return Decoded(F.rtrim(super().decode(data, identity, schema).value), F.lit("no text"))


class RaisesForGarbage(StringConverter):
    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        return Decoded(F.decode(data, "UTF-16BE"), F.lit("no text"))


GIVEN = (Record("text", headers=[("h", b"1")]), Record("text", topic="new", headers=[("h", b"1")]))


@pytest.mark.parametrize(
    ("contract", "members", "check", "promise"),
    [
        (TransformContract, {"transform": ChangesAllRecords, "examples": [GIVEN]}, "test_what_failed_or", "stays so"),
        (TransformContract, {"transform": ChangesAllRecords, "examples": [GIVEN]}, "test_a_record_that", "as it was"),
        (TransformContract, {"transform": RaisesForData}, "test_it_never_raises", "no record makes a transform raise"),
        (TransformContract, {"transform": LosesRows}, "test_it_never_raises", "rows stay in place"),
        (TransformContract, {"transform": ForgetsHeaders, "examples": [GIVEN]}, "test_each_example", "becomes Record("),
        (PredicateContract, {"predicate": IsUnsure}, "test_it_is_true_or_false", "true or false, never null"),
        (ConverterContract, {"converter": Strips, "schemas": [str]}, "test_values_come_back", "come back as they went"),
        (ConverterContract, {"converter": RaisesForGarbage}, "test_bytes_of_any_kind", "bytes of any kind are read"),
    ],
)
def test_what_is_wrong_is_found(
    spark: SparkSession, contract: type[Any], members: Mapping[str, Any], check: str, promise: str
) -> None:
    kit = type("Kit", (contract,), dict(members))()
    (name,) = (name for name in dir(kit) if name.startswith(check))
    plugin: Transform | Predicate | Converter = type(kit).made.__wrapped__(kit)
    with pytest.raises(AssertionError, match="broken promise") as found:
        getattr(kit, name)(spark, plugin)
    assert promise in str(found.value)
