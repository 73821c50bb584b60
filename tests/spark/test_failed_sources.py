"""Bad records of a source keep their form before transforms, for their dead letters."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from headrace.config.connector.error_handling import ErrorHandling
from headrace.converters.json.converter import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.interop.conversion.encode import to_bytes
from headrace.plugins.records import Case, Records, source_records
from headrace.plugins.schema import STRING
from headrace.worker.deadletters.failed_records import FAILED
from headrace.worker.deadletters.reporting import Reporter, Reporting
from headrace.worker.deadletters.source_records import BEFORE, KeptRecords, report_rows
from tests.spark.converting import compiled, configured

pytestmark = pytest.mark.spark

_OFFSET = StructType().add("position", LongType()).add("_hidden", IntegerType())
READ = StructType().add("line", StringType()).add("source_offset", _OFFSET).add("split", IntegerType())
ROWS: list[dict[str, Any]] = [
    {"line": line, "source_offset": {"position": n, "_hidden": 1}, "split": 1}
    for n, line in enumerate(["7", "x", None])
]


def transformed(records: Records) -> Records:
    """Numbers of the lines, for another topic; others fail."""
    number = records.value(0).try_cast("int")
    bad = F.when(number.isNull(), F.lit("no number"))
    return records.changed({"topic": F.lit("other")}, values=[Case(F.lit("changed"), STRING, of=0)], message=bad)


def walked(rows: DataFrame) -> DataFrame:
    """As `SourceExpressions` encodes what it reads."""
    side = ConverterBinding(configured(StringConverter()), "StringConverter")
    before = KeptRecords(configured(JsonConverter(), {"schemas.enable": "true"}))
    before, records = before.keep(source_records(rows, F.lit("t"), F.col("line"), STRING))
    return before.show(to_bytes(transformed(records), side, side))


def test_bad_rows_alone_show_what_was_read(spark: SparkSession) -> None:
    rows = compiled(spark, READ, walked, ROWS)
    good, bad, nothing = rows
    assert (good["value"], good[BEFORE]) == (b"changed", None)
    assert (bad["value"], bad["error"]["message"]) == (None, "no number")
    assert json.loads(bad[BEFORE]["value"])["payload"] == "x"
    assert bad[BEFORE]["key"] is None
    assert json.loads(nothing[BEFORE]["value"]) == {}, "a null that its schema forbids is shown without it"
    assert not [name for name in good if name.startswith(BEFORE + "_")]


def test_where_it_was_read_is_told(spark: SparkSession) -> None:
    rows = pa.RecordBatch.from_pylist(compiled(spark, READ, walked, ROWS)[1:2])
    told: list[dict[str, Any]] = []

    class Kept(Reporter):
        def __call__(self, failed: pa.RecordBatch) -> None:
            assert failed.schema == FAILED
            told.extend(failed.to_pylist())

    kept = Kept(Reporting("c", 0, ErrorHandling(True, 0, 0, False, False, "d", 1, True, "")))
    report_rows(kept, [{}, {"file": "a"}], rows, None)
    report_rows(kept, [{}, {"file": "a"}], rows, "a record of 9 bytes for topic t: too large")
    assert [(row["source_partition"], row["source_offset"]) for row in told] == [
        ('{"file": "a"}', '{"position": 1}')
    ] * 2
    assert [row["topic"] for row in told] == ["t"] * 2, "where it was to go before transforms"
    assert [(row["stage"], row["message"]) for row in told] == [
        ("TRANSFORMATION", "no number"),
        ("KAFKA_PRODUCE", "a record of 9 bytes for topic t: too large"),
    ]
