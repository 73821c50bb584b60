"""Kafka's rows to records and back: schemas side by side, what is unknown, what is bad."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.converters.json.converter import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.interop.conversion.decode import ConverterBinding, Hopeless, to_records
from headrace.plugins.interop.conversion.encode import to_bytes
from headrace.plugins.records import Records, source_records
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Schema, SchemaType
from tests.spark.converting import KAFKA_ROW, compiled, configured, kafka_rows, learned

pytestmark = pytest.mark.spark

TEXT = b'{"schema":{"type":"string","optional":false},"payload":'
NUMBER = b'{"schema":{"type":"int32","optional":false},"payload":'
PAIRS = [
    (b"a", TEXT + b'"first"}'),
    (None, NUMBER + b"2}"),
    (None, None),
    (b"\xff", TEXT + b"null}"),
    (None, b"no json"),
]


@pytest.fixture
def key() -> ConverterBinding:
    return ConverterBinding(configured(StringConverter()), "StringConverter", known=((b"", OPTIONAL_STRING),))


@pytest.fixture
def value() -> ConverterBinding:
    return ConverterBinding(configured(JsonConverter()), "JsonConverter")


def test_what_is_not_known_is_named_and_no_error(
    spark: SparkSession, key: ConverterBinding, value: ConverterBinding
) -> None:
    rows = to_records(kafka_rows(spark, PAIRS), key, value).frame.orderBy("offset").collect()
    assert [row.unknown_key for row in rows] == [None] * 5
    assert [row.unknown_value and bytes(row.unknown_value) for row in rows[:4]] == [TEXT, NUMBER, None, TEXT]
    assert [row.error for row in rows] == [None] * 5
    assert [row.value_schema for row in rows] == [None] * 5


def test_schemas_stand_side_by_side(spark: SparkSession, key: ConverterBinding, value: ConverterBinding) -> None:
    records, _, value = learned(kafka_rows(spark, PAIRS), key, value)
    rows = records.frame.orderBy("offset").collect()
    text, number = (records.values.index(Schema(kind)) for kind in (SchemaType.STRING, SchemaType.INT32))
    assert [row.value_schema for row in rows] == [text, number, None, text, None]
    assert rows[0][f"value_{text}"] == "first"
    assert rows[0][f"value_{number}"] is None
    assert rows[1][f"value_{number}"] == 2
    assert [row.key_0 for row in rows] == ["a", None, None, "\ufffd", None]
    assert [row.key_schema for row in rows] == [0, None, None, 0, None]
    assert [row.offset for row in rows] == [0, 1, 2, 3, 4]
    assert [row.timestamp for row in rows] == [1000, 1001, 1002, 1003, 1004]
    assert not any(row.drop for row in rows)


def test_bad_rows_stay_in_place_and_say_why(
    spark: SparkSession, key: ConverterBinding, value: ConverterBinding
) -> None:
    records, _, value = learned(kafka_rows(spark, PAIRS), key, value)
    assert [one.reason for one in value.hopeless] == [
        "Converting byte[] to Kafka Connect data failed due to serialization error: no JSON value begins with n"
    ]
    errors = [row.error for row in records.frame.orderBy("offset").collect()]
    assert errors[:3] == [None] * 3
    assert errors[3] == Row("VALUE_CONVERTER", "JsonConverter", "Invalid null value for required STRING field")
    assert errors[4] == Row("VALUE_CONVERTER", "JsonConverter", value.hopeless[0].reason)


@pytest.mark.long
def test_the_key_is_converted_first(spark: SparkSession, value: ConverterBinding) -> None:
    both = replace(value, hopeless=(Hopeless(b"\x00bad", "bad"),))
    rows = kafka_rows(spark, [(b"no json", b"no json"), (TEXT + b'"k"}', TEXT + b"null}")])
    first, second = to_records(rows, both, replace(both, known=((TEXT, STRING),))).frame.orderBy("offset").collect()
    assert first.error is None
    assert first.unknown_key is not None
    assert second.error is None, "with an unknown key nobody can say yet what the record's error is"
    records, *_ = learned(rows, value, value)
    assert [row.error.stage for row in records.frame.orderBy("offset").collect()] == [
        "KEY_CONVERTER",
        "VALUE_CONVERTER",
    ]


def test_columns_of_the_frame_are_carried(spark: SparkSession, key: ConverterBinding, value: ConverterBinding) -> None:
    rows = kafka_rows(spark, PAIRS).withColumn("timestampType", F.lit(0))
    row = to_records(rows, key, value).frame.first()
    assert row is not None
    assert row.timestampType == 0


def test_a_null_payload_costs_the_row_not_the_batch_here_too(
    spark: SparkSession, key: ConverterBinding, value: ConverterBinding
) -> None:
    records, key, value = learned(kafka_rows(spark, PAIRS), key, value)

    def build(rows: DataFrame) -> DataFrame:
        return to_records(rows, key, value).frame

    jobs = [row.asDict(recursive=True) for row in records.frame.orderBy("offset").collect()]
    here = compiled(
        spark,
        KAFKA_ROW,
        build,
        [
            {"topic": "t", "partition": 0, "offset": n, "timestamp": 1000 + n, "headers": None, "key": k, "value": v}
            for n, (k, v) in enumerate(PAIRS)
        ],
    )
    assert here == jobs


def source(spark: SparkSession, values: list[str | None]) -> Records:
    schema = StructType.fromDDL("line string, source_offset struct<position: long>, split int")
    rows = [(value, (number,), 0) for number, value in enumerate(values)]
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    return source_records(frame, F.lit("out"), F.col("line"), STRING)


def test_a_sources_records_become_bytes(spark: SparkSession, key: ConverterBinding, value: ConverterBinding) -> None:
    made = to_bytes(source(spark, ["a", 'q"', None]), key, value)
    assert made.columns == [
        "topic",
        "partition",
        "timestamp",
        "headers",
        "key",
        "value",
        "error",
        "drop",
        "source_offset",
        "split",
    ]
    rows = made.orderBy("source_offset").collect()
    assert [row.value and bytes(row.value) for row in rows] == [TEXT + b'"a"}', TEXT + b'"q\\""}', None]
    assert [row.key for row in rows] == [None] * 3
    assert [row.error and row.error.message for row in rows] == [
        None,
        None,
        "Conversion error: null value for field that is required and has no default value",
    ]
    assert rows[0].topic == "out"


def test_what_is_dropped_or_bad_is_not_encoded(
    spark: SparkSession, key: ConverterBinding, value: ConverterBinding
) -> None:
    records = source(spark, ["keep", "drop", None])
    dropped = records.frame.withColumn("drop", F.coalesce(records.value(0) != "keep", F.lit(True)))
    rows = to_bytes(records.with_frame(dropped), key, value).orderBy("source_offset").collect()
    assert [row.value is None for row in rows] == [False, True, True]
    assert [row.error for row in rows] == [None] * 3
    assert [row.drop for row in rows] == [False, True, True]


def test_kafka_to_kafka_gives_the_same_bytes(
    spark: SparkSession, key: ConverterBinding, value: ConverterBinding
) -> None:
    good = [PAIRS[0], PAIRS[1], PAIRS[2], (b"k", b'{"schema":null,"payload":{"a":[1,"b"]}}')]
    records, key, value = learned(kafka_rows(spark, good), key, value)
    rows = to_bytes(records, key, value).orderBy("offset").collect()
    assert [(row.key and bytes(row.key), row.value and bytes(row.value)) for row in rows] == good
