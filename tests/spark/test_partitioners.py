"""Directories of records with several schemas side by side; the same inline and in a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.connectors.hdfs.partitioners.partitioner import partitioner_of
from headrace.plugins.records import Records
from headrace.plugins.schema import DATE, DECIMAL, TIMESTAMP, Field, Schema, SchemaType
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from tests.spark.applying import Given, applied

pytestmark = pytest.mark.spark

TEXT: Final = Schema(SchemaType.STRING, optional=True)
NUMBER: Final = Schema(SchemaType.INT64, optional=True)
PLACE: Final = Schema(SchemaType.STRUCT, optional=True, fields=(Field("city", TEXT),))
DAY: Final = Schema(SchemaType.INT32, name=DATE, version=1)
ORDER: Final = Schema(
    SchemaType.STRUCT,
    fields=(
        Field("country", TEXT),
        Field("n", Schema(SchemaType.INT8)),
        Field("ok", Schema(SchemaType.BOOLEAN)),
        Field("place", PLACE),
        Field("day", DAY),
        Field("price", Schema(SchemaType.FLOAT64)),
        Field("exact", Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": "2"})),
        Field("at", Schema(SchemaType.INT64, name=TIMESTAMP, version=1)),
        Field("text", TEXT),
        Field("ms", NUMBER),
        Field("tags", Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=TEXT)),
    ),
)
OTHER: Final = Schema(SchemaType.STRUCT, fields=(Field("country", Schema(SchemaType.INT32)),))
PLAIN: Final = Schema(SchemaType.STRING)
AT: Final = datetime(2026, 9, 21, 12, 30, 15, 123_000, UTC)
AT_MS: Final = 1_789_993_815_123
BY_DAY: Final = {"partitioner.class": "Daily", "locale": "en-US", "timezone": "Europe/Berlin"}


@pytest.fixture(scope="module")
def pool(engine: Spark) -> Iterator[ProjectionPool]:
    pool = ProjectionPool(engine, lanes=1)
    yield pool
    pool.stop()


def order(**members: Any) -> dict[str, Any]:
    whole = {"country": "DE", "n": -3, "ok": True, "place": {"city": "Ulm"}, "day": date(2026, 9, 21), "price": 1.5}
    whole |= {"exact": Decimal("1.50"), "at": AT, "text": "2026-09-21T23:30:00+02:00", "ms": AT_MS}
    return {**whole, "tags": [("when", "2026-09-20")], **members}


def placed(
    spark: SparkSession,
    pool: ProjectionPool,
    config: Mapping[str, str],
    given: Sequence[Given],
    values: Sequence[Schema | None] = (ORDER,),
) -> list[str | None]:
    """The directory of each record, or `! ` and why it has none."""
    partitioner = partitioner_of(config)

    def apply(records: Records) -> Records:
        path = partitioner.column(records).cast("string")
        return records.changed({"topic": path}, message=partitioner.error(records))

    found = applied(spark, pool, apply, given, values)
    texts = [None if one.error else one.topic for one in found]
    numbers = "Field" not in config["partitioner.class"] and "Default" not in config["partitioner.class"]
    keys = [None if text is None else int(text) for text in texts] if numbers else texts
    paths = partitioner.paths(pa.array(keys, pa.int64() if numbers else pa.string())).to_pylist()
    return [f"! {one.error}" if one.error else path for one, path in zip(found, paths, strict=True)]


def by_field(names: str) -> dict[str, str]:
    return {"partitioner.class": "FieldPartitioner", "partition.field.name": names}


def test_by_partition(spark: SparkSession, pool: ProjectionPool) -> None:
    assert placed(spark, pool, {"partitioner.class": "Default"}, [Given(order())]) == ["partition=3"]


@pytest.mark.parametrize(
    ("names", "members", "expected"),
    [
        ("country", {}, "country=DE"),
        ("country,place.city", {}, "country=DE/place.city=Ulm"),
        ("n,ok,day", {}, "n=-3/ok=true/day=2026-09-21"),
        ("country", {"country": None}, "country=null"),
        ("country", {"country": ""}, "country=__HIVE_DEFAULT_PARTITION__"),
        ("country", {"country": "../a b=ü:1%\n"}, "country=..%2Fa b%3Dü%3A1%25%0A"),
        ("place.city", {"place": None}, "place.city=null"),
        ("tags.when", {}, "tags.when=2026-09-20"),
        ("tags.none", {}, "! Error encoding partition. Field 'tags.none' is not present in the value."),
        ("tags.none", {"tags": None}, "tags.none=null"),
        ("tags.none", {"tags": [("none", None)]}, "tags.none=null"),
        ("nothing", {}, "! Field 'nothing' is not present in the schema."),
        ("place.nothing", {}, "! Field 'place.nothing' is not present in the schema."),
        (
            "n,price",
            {},
            "! Error encoding partition. Field 'price' is of type FLOAT64; integers, booleans, texts and dates can "
            "name a directory.",
        ),
        (
            "exact",
            {},
            "! Error encoding partition. Field 'exact' is of type Decimal; integers, booleans, texts and dates can "
            "name a directory.",
        ),
        (
            "country",
            {"country": "ä" * 124},
            "! Error encoding partition. The value of field 'country' is longer than 255 bytes.",
        ),
    ],
)
def test_by_field(
    spark: SparkSession, pool: ProjectionPool, names: str, members: dict[str, Any], expected: str
) -> None:
    assert placed(spark, pool, by_field(names), [Given(order(**members))]) == [expected]


def test_by_field_of_several_schemas_and_of_none(spark: SparkSession, pool: ProjectionPool) -> None:
    no_struct = "! The value is no struct and no JSON object, and has no fields."
    given = [
        (Given(order()), "country=DE"),
        (Given({"country": 49}, 1), "country=49"),
        (Given('{"country":"D/E"}', 2), "country=D%2FE"),
        (Given('{"country":7}', 2), "country=7"),
        (Given('{"country":false}', 2), "country=false"),
        (Given('{"country":null}', 2), "country=null"),
        (Given('{"land":1}', 2), "! Error encoding partition. Field 'country' is not present in the value."),
        (Given("{}", 2), "! Error encoding partition. Field 'country' is not present in the value."),
        (
            Given('{"country":1.5}', 2),
            "! Error encoding partition. Field 'country' is of type number with a fraction, array or object; integers, "
            "booleans, texts and dates can name a directory.",
        ),
        (Given('["country"]', 2), no_struct),
        (Given("country", 3), no_struct),
        (Given(None, None), "! Error encoding partition. The record has no value."),
        (Given("null", 2), "! Error encoding partition. The record has no value."),
    ]
    found = placed(spark, pool, by_field("country"), [one for one, _ in given], (ORDER, OTHER, None, PLAIN))
    assert found == [path for _, path in given]


@pytest.mark.long
def test_by_a_member_that_is_missing_or_null(spark: SparkSession, pool: ProjectionPool) -> None:
    """In order: there, null, its object null; missing in its object, beside its object, and in no object."""
    documents = ['{"g":{"c":"x"},"k":1}', '{"g":{"c":null},"k":1}', '{"g":null,"k":null}']
    documents += ['{"g":{"d":"c"},"k":1}', '{"c":"x","k":1}', '{"g":5,"k":1}', '{"g":"{\\"c\\":1}","k":1}']
    documents += ['{"g":[{"c":1}],"k":1}', '{"g":{"c":"x"}}']
    missing = "! Error encoding partition. Field 'g.c' is not present in the value."
    found = placed(spark, pool, by_field("g.c,k"), [Given(document) for document in documents], (None,))
    assert found == [
        *("g.c=x/k=1", "g.c=null/k=1", "g.c=null/k=null"),
        *[missing] * 5,
        "! Error encoding partition. Field 'k' is not present in the value.",
    ]


@pytest.mark.parametrize(
    ("field", "members", "expected"),
    [
        ("at", {}, "year=2026/month=09/day=21"),
        ("ms", {}, "year=2026/month=09/day=21"),
        ("ms", {"ms": -1}, "year=1970/month=01/day=01"),
        ("ms", {"ms": -3_600_001}, "year=1969/month=12/day=31"),
        ("text", {}, "year=2026/month=09/day=21"),
        ("text", {"text": "1789993815123"}, "year=2026/month=09/day=21"),
        ("text", {"text": "2026-09-21T22:30"}, "year=2026/month=09/day=22"),
        ("tags.when", {}, "year=2026/month=09/day=20"),
        ("text", {"text": "soon"}, "field 'text' holds no time: soon"),
        ("text", {"text": None}, "field 'text' is null or missing."),
        ("price", {}, "field 'price' is of type FLOAT64, which is no time."),
        ("day", {}, "field 'day' is of type Date, which is no time."),
        ("none", {}, "Field 'none' is not present in the schema."),
    ],
)
def test_by_the_time_of_a_field(
    spark: SparkSession, pool: ProjectionPool, field: str, members: dict[str, Any], expected: str
) -> None:
    config = {**BY_DAY, "timestamp.extractor": "RecordField", "timestamp.field": field}
    if not expected.startswith("year="):
        expected = f"! Unable to determine timestamp using timestamp.extractor RecordField: {expected}"
    assert placed(spark, pool, config, [Given(order(**members))]) == [expected]


@pytest.mark.long
def test_by_the_time_of_members(spark: SparkSession, pool: ProjectionPool) -> None:
    config = {**BY_DAY, "timestamp.extractor": "RecordField", "timestamp.field": "a.t"}
    given = [Given('{"a":{"t":1789993815123}}'), Given('{"a":{"t":"2026-09-20"}}'), Given('{"a":{}}'), Given("7")]
    unable = "! Unable to determine timestamp using timestamp.extractor RecordField: "
    assert placed(spark, pool, config, given, (None,)) == [
        "year=2026/month=09/day=21",
        "year=2026/month=09/day=20",
        f"{unable}field 'a.t' is null or missing.",
        f"{unable}The value is no struct and no JSON object, and has no fields.",
    ]


def test_by_the_records_own_time(spark: SparkSession, pool: ProjectionPool) -> None:
    config = {**BY_DAY, "partitioner.class": "Hourly", "timestamp.extractor": "Record"}
    most = 2**63 - 1
    given = [Given(order(), timestamp=ms) for ms in (AT_MS, None, -1, most)]
    assert placed(spark, pool, config, given) == [
        "year=2026/month=09/day=21/hour=14",
        *["! Unable to determine timestamp using timestamp.extractor Record: the record has no timestamp."] * 2,
        f"! The time {most} ms is not in the years 1 to 9999.",
    ]


def test_by_the_clock(spark: SparkSession, pool: ProjectionPool) -> None:
    config = {**BY_DAY, "partitioner.class": "TimeBased", "path.format": "'ms'=x-DDD-HH-mm-ss-SSS", "timezone": "UTC"}
    config["partition.duration.ms"] = "86400000"
    before = datetime.now(UTC).strftime("ms=%Y-%j-00-00-00-000")
    (found,) = placed(spark, pool, config, [Given(order())])
    assert found in (before, datetime.now(UTC).strftime("ms=%Y-%j-00-00-00-000"))
    assert not partitioner_of(config).is_deterministic
