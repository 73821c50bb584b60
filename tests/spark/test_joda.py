"""Joda itself, which is among Spark's jars, as the oracle of patterns, local time and texts."""

from __future__ import annotations

from random import Random
from typing import Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.connectors.hdfs.partitioners.by_time import TimeBasedPartitioner
from headrace.connectors.hdfs.partitioners.extractors import time_of_text
from headrace.connectors.hdfs.partitioners.joda_pattern import LETTERS, JodaPattern
from headrace.plugins.records import Records
from tests.spark.java import java_object

pytestmark = [pytest.mark.spark, pytest.mark.long]

JAVA: Final = """
import java.util.List;
import java.util.Locale;
import org.joda.time.DateTime;
import org.joda.time.DateTimeZone;
import org.joda.time.format.DateTimeFormat;
import org.joda.time.format.DateTimeFormatter;
import org.joda.time.format.ISODateTimeFormat;

public class Joda {
  public String refusal(String pattern) {
    try {
      DateTimeFormat.forPattern(pattern);
      return "";
    } catch (IllegalArgumentException e) {
      return e.getMessage();
    } catch (UnsupportedOperationException e) {
      return "Invalid pattern specification";
    }
  }

  public String directories(String pattern, String locale, String zone, String span, List times) {
    DateTimeZone local = DateTimeZone.forID(zone);
    DateTimeFormatter format =
        DateTimeFormat.forPattern(pattern).withZone(local).withLocale(Locale.forLanguageTag(locale));
    long duration = Long.parseLong(span);
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < times.size(); i++) {
      long there = local.convertUTCToLocal(Long.parseLong((String) times.get(i)));
      long begin = local.convertLocalToUTC(Math.floorDiv(there, duration) * duration, false);
      text.append(new DateTime(begin).toString(format)).append((char) 10);
    }
    return text.toString();
  }

  public String read(List texts) {
    DateTimeFormatter format = ISODateTimeFormat.dateTimeParser().withZoneUTC();
    StringBuilder read = new StringBuilder();
    for (int i = 0; i < texts.size(); i++) {
      String ms = "";
      try {
        ms = "" + format.parseMillis((String) texts.get(i));
      } catch (IllegalArgumentException e) {
      }
      read.append(ms).append((char) 10);
    }
    return read.toString();
  }
}
"""
HOUR_MS: Final = 3_600_000
ZONES: Final = [
    *("UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe"),
    *("Asia/Beirut", "Pacific/Apia", "+05:30", "Africa/Monrovia"),
]
PATTERNS: Final = [
    *("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "yyyyMMdd-HHmm", "xxxx-'W'ww-e", "CC yy xx YY D DDD"),
    *("MMM MMMM EEE EEEE G a", "h hh K k kk m s S SS SSS SSSSS", "Z ZZ ZZZ", "''yyyy'''T'''e", "yyyy年MM月 'o''clock"),
]
TEXTS: Final = [
    *("2026-09-21", "2026-09-21T14:05", "2026-09-21T14:05:06.789Z", "2026-09-21T14:05:06,5+02:00", "T10:00", "2026"),
    *("2026-W39-1", "2026-264", "2026-09-21T14", "2026-09-21T14:30.5", "2026-09-21 14:05:06", "21.09.2026", "", "soon"),
    *("-0001-01-01", "2026-02-30", "2026-09-21T24:00", "2026-09-21T14:05:06.123456789+0230", "2026-9-1T1:2:3"),
]


def partitioner(pattern: str, zone: str, span: int, locale: str = "en-US") -> TimeBasedPartitioner:
    made = TimeBasedPartitioner()
    made.configure(
        {
            "path.format": pattern,
            "timezone": zone,
            "locale": locale,
            "partition.duration.ms": str(span),
            "timestamp.extractor": "Record",
        }
    )
    return made


def directories(spark: SparkSession, made: TimeBasedPartitioner, times: list[int]) -> list[str]:
    frame = spark.createDataFrame([(ms,) for ms in times], "timestamp long").coalesce(1)
    begins = [row[0] for row in frame.select(made.column(Records(frame, (), ()))).collect()]
    return [str(path) for path in made.paths(pa.array(begins, pa.int64())).to_pylist()]


def expected(
    spark: SparkSession, pattern: str, zone: str, span: int, times: list[int], locale: str = "en-US"
) -> list[str]:
    java = java_object(spark, "Joda", JAVA)
    return str(java.directories(pattern, locale, zone, str(span), [str(ms) for ms in times])).split("\n")[:-1]


def moments(random: Random, count: int) -> list[int]:
    """Most of this century, some before 1970; around 2,000 changes of clocks by quarters of an hour among them."""
    near = [1_761_436_800_000 + quarter * 900_000 for quarter in range(24)]
    spring = [1_743_292_800_000 + quarter * 900_000 for quarter in range(24)]
    return [*near, *spring, *(random.randrange(-2_000_000_000_000, 4_000_000_000_000) for _ in range(count))]


@pytest.mark.parametrize("zone", ZONES)
def test_directories_are_those_of_joda(spark: SparkSession, zone: str) -> None:
    assert set("".join(PATTERNS)) >= set(LETTERS)
    random = Random(zone)
    times = moments(random, 400)
    for pattern in PATTERNS:
        span = random.choice([1000, 900_000, HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS, 7 * 24 * HOUR_MS])
        found = directories(spark, partitioner(pattern, zone, span), times)
        wrong = [
            one
            for one in zip(times, found, expected(spark, pattern, zone, span, times), strict=True)
            if one[1] != one[2]
        ]
        assert wrong == [], (pattern, span)


@pytest.mark.parametrize("locale", ["en-US", "de-DE", "fr-FR", "pt-BR", "ja-JP", "ar-EG"])
def test_names_are_those_of_the_locale(spark: SparkSession, locale: str) -> None:
    pattern, times = "EEE EEEE MMM MMMM a G", [month * 31 * 86_400_000 + month * 7_200_000 for month in range(1, 25)]
    found = directories(spark, partitioner(pattern, "UTC", 1000, locale), times)
    assert found == expected(spark, pattern, "UTC", 1000, times, locale)


def test_patterns_are_refused_as_joda_refuses_them(spark: SparkSession) -> None:
    java = java_object(spark, "Joda", JAVA)
    random = Random(3)
    refused = 0
    for _ in range(1_000):
        pattern = "".join(random.choices("yMdBbLQ''/-é=", k=random.randrange(1, 9)))
        try:
            JodaPattern(pattern)
            found = ""
        except ValueError as error:
            found = str(error)
        refused += bool(found)
        assert found == java.refusal(pattern), pattern
    assert 200 < refused < 900


def test_texts_are_read_by_joda(spark: SparkSession) -> None:
    java = java_object(spark, "Joda", JAVA)
    random = Random(5)
    texts = [*TEXTS, *("".join(random.choices("0123456789-T:.Z+W", k=random.randrange(1, 20))) for _ in range(300))]
    texts = [text for text in texts if not text.lstrip("-").isdecimal() or text == "2026"]
    frame = spark.createDataFrame([(text,) for text in texts], "x string").coalesce(1)
    found = [row[0] for row in frame.select(time_of_text(F.col("x"))).collect()]
    wanted = [int(text) if text else None for text in str(java.read(texts)).split("\n")[:-1]]
    wanted = [2026 if text == "2026" else ms for text, ms in zip(texts, wanted, strict=True)]
    assert found == wanted
