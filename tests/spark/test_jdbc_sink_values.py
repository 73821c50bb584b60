"""Values in a JDBC sink whose schemas only Debezium's sources know."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import time_text
from headrace.connectors.jdbc.dialects.sqlite.dialect import SqliteDialect
from headrace.connectors.jdbc.sink.columns import SinkColumns, _Projection
from headrace.connectors.jdbc.sink.record_sides import NoRow, SideCase
from headrace.connectors.jdbc.sink.values import value_of
from headrace.plugins.schema import Schema, SchemaType

pytestmark = [pytest.mark.spark, pytest.mark.long]

INT32, INT64, STRING = (SchemaType.INT32, "int"), (SchemaType.INT64, "bigint"), (SchemaType.STRING, "string")
SECOND = 1_000_000
HOUR = 3600 * SECOND
AT_MICROS = 1577934245678901
MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("name", "kind", "given", "expected", "wrong"),
    [
        ("MicroTime", INT64, 3723 * SECOND + 1, "01:02:03.000001", False),
        ("MicroTime", INT64, 0, "00:00:00.000000", False),
        ("MicroTime", INT64, 24 * HOUR, "24:00:00.000000", False),
        ("MicroTime", INT64, 838 * HOUR + 3599 * SECOND, "838:59:59.000000", False),
        ("MicroTime", INT64, -25 * HOUR - 1, "-25:00:00.000001", False),
        ("MicroTime", INT64, MOST, None, True),
        ("MicroTime", INT64, -MOST - 1, None, True),
        ("MicroTime", INT64, None, None, False),
        ("NanoTime", INT64, 3723 * SECOND * 1000 + 1999, "01:02:03.000001", False),
        ("Time", INT32, 3723004, 3723004, None),
        ("Date", INT32, 18262, date(2020, 1, 1), None),
        ("Timestamp", INT64, AT_MICROS // 1000, AT_MICROS // 1000 * 1000, False),
        ("Timestamp", INT64, MOST, None, True),
        ("MicroTimestamp", INT64, AT_MICROS, AT_MICROS, None),
        ("NanoTimestamp", INT64, AT_MICROS * 1000 + 999, AT_MICROS, None),
        ("ZonedTimestamp", STRING, "2020-01-02T04:04:05.678901+01:00", AT_MICROS, False),
        ("ZonedTimestamp", STRING, "nonsense", None, True),
    ],
)
def test_debeziums_moments(
    spark: SparkSession, name: str, kind: tuple[SchemaType, str], given: Any, expected: Any, wrong: bool | None
) -> None:
    schema = Schema(kind[0], name=f"io.debezium.time.{name}", optional=True)
    made = value_of("x", F.col("x"), schema, SinkOptions())
    column = F.unix_micros(made.column) if "Timestamp" in name else made.column
    found = F.lit(None) if made.wrong is None else made.wrong
    ((value, is_wrong),) = spark.createDataFrame([(given,)], f"x {kind[1]}").select(column, found).collect()
    assert (value, is_wrong) == (expected, wrong)


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (3723004, "01:02:03.004"),
        (86_400_000, "24:00:00.000"),
        (90_000_000, "25:00:00.000"),
        (-3_600_000, "-01:00:00.000"),
        (-(2**31), "-596:31:23.648"),
        (None, None),
    ],
)
def test_a_time_does_not_begin_anew_behind_a_day(spark: SparkSession, millis: int | None, text: str | None) -> None:
    ((found,),) = spark.createDataFrame([(millis,)], "x int").select(time_text(F.col("x"), 3)).collect()
    assert found == text


@pytest.mark.parametrize(("named", "is_asked"), [("${topic}", False), ("a_${source.table}", True)])
def test_only_where_a_table_may_have_no_name_a_plan_asks_for_it(
    spark: SparkSession, named: str, is_asked: bool
) -> None:
    options = SinkOptions(table_format=named, passes_deletes=True)
    rows = _Projection(SinkColumns(options, SqliteDialect().sink_sql(options).form), F.col("name_of_table"))
    rows.add(SideCase(F.lit(True), ""), SideCase(F.lit(True), NoRow.TOMBSTONE))
    (layout,) = (column for column in rows.columns() if "AS layout" in str(column))
    assert ("name_of_table" in str(layout)) == is_asked
