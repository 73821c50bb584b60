"""Java's own SimpleDateFormat as the oracle of `formatted`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from random import Random
from typing import Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from headrace.plugins.interop.java.dates import LETTERS, formatted, parsed_ms, pattern_problem
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from tests.spark.java import java_object

pytestmark = pytest.mark.spark

JAVA: Final = """
import java.text.SimpleDateFormat;
import java.util.Date;
import java.util.List;
import java.util.Locale;
import java.util.TimeZone;

public class Dates {
  public String refusal(String pattern) {
    try {
      new SimpleDateFormat(pattern, Locale.US);
      return "";
    } catch (IllegalArgumentException e) {
      return e.getMessage();
    }
  }

  public String format(String pattern, List times) {
    SimpleDateFormat format = new SimpleDateFormat(pattern, Locale.US);
    format.setTimeZone(TimeZone.getTimeZone("UTC"));
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < times.size(); i++) {
      text.append(format.format(new Date(Long.parseLong((String) times.get(i))))).append((char) 10);
    }
    return text.toString();
  }
}
"""
DAY_MS: Final = 86_400_000
PATTERNS: Final = [
    *("yyyyMMdd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "yyyy-MM-dd'T'HH:mm:ssXXX", "dd/MM/yy hh:mm a", "EEE, d MMM yyyy"),
    *(
        "HHmmss",
        "yyyy",
        "''yyyy'''T'''",
        "'${topic}'",
        "yyyy年MM月",
        "EEEE d MMMM yyyy HH:mm:ss.SSSSSS z",
        "YYYYww",
        "%d yy",
    ),
    *("G y yyyyy YY", "M L LLL MMMM", "E EEEE GGGG", "zzzz Z ZZ X XXX", "DD dd", "w W F u"),
    *("aa HH kk", "K hh m", "ss SS S"),
]


def moments() -> list[int]:
    """Around the ends of weeks and years, the change of the calendar, and the ends of what can be printed."""
    epoch = date(1970, 1, 1).toordinal()
    new_years = [(date(year, 1, 1).toordinal() - epoch) * DAY_MS for year in range(1999, 2030)]
    days = [turn + shift * DAY_MS + 1 for turn in new_years for shift in (-7, -3, -1, 0, 1, 6)]
    cutover = -141_427 * DAY_MS
    ancient = [-62_135_769_600_000, -62_135_769_600_001, -62_167_219_200_000, -99_999_999_999_999, -20_000_000_000_000]
    late = [253_402_300_799_999, 253_402_300_800_000, 253_402_214_400_001, 9_000_000_000_000_000]
    clock = [0, -1, 1, 43_200_000, 43_199_999, 1_709_210_096_789, 1_700_000_000_005]
    return [*days, *(cutover + shift for shift in (-DAY_MS, -1, 0, 1, DAY_MS)), *ancient, *late, *clock]


def formats(spark: SparkSession, pattern: str, times: list[int]) -> list[str]:
    java = java_object(spark, "Dates", JAVA)
    return str(java.format(pattern, [str(ms) for ms in times])).split("\n")[:-1]


def test_every_letter_is_printed_as_java_does(spark: SparkSession) -> None:
    assert set(LETTERS) <= set("".join(PATTERNS))
    times = moments()
    columns = [formatted(F.col("ms"), pattern) for pattern in PATTERNS]
    rows = spark.createDataFrame([(ms,) for ms in times], "ms long").coalesce(1).select(*columns).collect()
    wrong = []
    for number, pattern in enumerate(PATTERNS):
        both = zip(times, (row[number] for row in rows), formats(spark, pattern, times), strict=True)
        wrong += [(pattern, *one) for one in both if one[1] != one[2]]
    assert wrong == []


def test_patterns_are_refused_as_java_refuses_them(spark: SparkSession) -> None:
    random = Random(1)
    patterns = ["".join(random.choices("yMXXXb'''-é", k=random.randrange(1, 9))) for _ in range(1_000)]
    java = java_object(spark, "Dates", JAVA)
    refused = {pattern: why for pattern in patterns if (why := str(java.refusal(pattern)))}
    assert {pattern for pattern in patterns if pattern_problem(pattern)} == set(refused)
    words = {pattern: why for pattern, why in refused.items() if "b" not in pattern or "XXXX" not in pattern}
    assert {pattern: pattern_problem(pattern) for pattern in words} == words
    assert len(set(words.values())) == 3


def test_threads_and_tasks_have_their_own_formatters(spark: SparkSession, engine: Spark) -> None:
    """A formatter that two of them shared would mix up their values."""
    times = [1_700_000_000_000 + number * 97_000_003 for number in range(20_000)]
    pattern = "yyyy-MM-dd HH:mm:ss.SSS z"
    there_and_back = parsed_ms(formatted(F.col("ms"), pattern), pattern).alias("back")
    frame = spark.createDataFrame(pa.table({"ms": times})).repartition(4).select("ms", there_and_back)
    assert frame.where("ms <> back or back is null").count() == 0
    pool = ProjectionPool(engine, lanes=2)
    try:
        schema = StructType([StructField("ms", LongType())])
        program = pool.compile(schema, lambda frame: frame.select(there_and_back))
        parts = [times[begin::2] for begin in range(2)]
        batches = [pa.record_batch({"ms": part}) for part in (*parts, *parts)]
        with ThreadPoolExecutor(len(batches)) as threads:
            answers = list(threads.map(program.run, batches))
        assert [answer.column("back").to_pylist() for answer in answers] == [*parts, *parts]
    finally:
        pool.stop()
