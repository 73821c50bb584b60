"""Texts read by SimpleDateFormat patterns, against Java's own as Apache's TimestampConverter uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.plugins.interop.java.dates import parsed_ms
from tests.compat.transform_oracle import TEXT, Chain, Chains, Link, Record

pytestmark = pytest.mark.spark


def read_alike(spark: SparkSession, chains: Chains, patterns: Sequence[str], texts: Sequence[str]) -> None:
    """Every text by every pattern."""
    columns = [parsed_ms(F.col("text"), pattern).alias(str(n)) for n, pattern in enumerate(patterns)]
    frame = spark.createDataFrame(pa.table({"text": texts}))
    ours = [list(row) for row in frame.select(*columns).collect()]
    for n, pattern in enumerate(patterns):
        link = Link("TimestampConverter$Value", {"target.type": "unix", "format": pattern})
        records = [Record(text.encode()) for text in texts]
        answers = chains.apache(Chain((link,), value=TEXT), records)
        wanted = [int(one.value or b"") if isinstance(one, Record) else None for one in answers]
        rows = zip(texts, wanted, (row[n] for row in ours), strict=True)
        assert [(pattern, *row) for row in rows if row[1] != row[2]] == []


USUAL: Final = {
    "yyyy-MM-dd": ["2024-02-29", "2024-2-9", "2024-13-45", "2024-00-00", "-5-01-01", "2024--1-05", " 2024- 1-\t05x"],
    "yyyy-MM-dd'T'HH:mm:ss.SSSX": [
        *("2024-05-17T12:30:59.123Z", "2024-05-17T12:30:59.123+02", "2024-05-17T12:30:59.123456Z", "2024-05-17"),
        *("2024-05-17T25:61:61.1Z", "2024-05-17t12:30:59.123Z", "1582-10-15T00:00:00.000Z", "1582-10-14T00:00:00.000Z"),
        *("1582-10-04T23:59:59.999Z", "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2024-05-17T12:30:59.5"),
        *("2024-05-17T12:30:59.123z", "2024-05-17T12:30:59.123+2", "2024-05-17T12:30:59.123-2359", ""),
    ],
    "yyyyMMddHHmmss": [
        "20240517123059",
        "202405171230591",
        "2024051712305",
        "2024 5171230 9",
        "2024-517123059",
        "2024",
    ],
    "yyyyMMdd": ["20240517", "2024051", "202405", "20240517999", "0000 101", "00000000"],
    "dd/MMM/yyyy:HH:mm:ss Z": [
        *(
            "17/May/2024:12:30:59 +0200",
            "17/MAY/2024:12:30:59 -0730",
            "1/january/2024:0:0:0 GMT",
            "1/Jan/2024:0:0:0 EST",
        ),
        *("1/Jan/2024:0:0:0 +2400", "1/Jan/2024:0:0:0 GMT+3:00", "1/Jan/2024:0:0:0 UTC", "1/Jan/2024:0:0:0 X"),
        *("1/Foo/2024:0:0:0 UTC", "1/Jan/2024:0:0:0 gmt-13:45", "1/Jan/2024:0:0:0 pdt", "1/Jan/2024:0:0:0 GMT+25:00"),
    ],
    "EEE, d MMM yyyy hh:mm:ss a z": [
        *("Fri, 17 May 2024 01:30:59 PM UTC", "monday, 17 may 2024 12:30:59 am GMT", "Sat, 1 Dec 2024 12:00:00 pm CET"),
        *("Fri 17 May 2024 01:30:59 PM UTC", "Fri, 17 May 2024 13:30:59 AM UTC", "Fri, 17 May 2024 01:30:59 XM UTC"),
    ],
    "yy.M.d H": ["24.5.17 7", "99.1.1 0", "50.6.6 24", "2024.5.17 7", "7.1.1 1", "-7.1.1 1", "007.1.1 1"],
    "D yyyy 'o''clock' kk:mm": ["138 2024 o'clock 24:05", "1 2023 o'clock 01:00", "366 2023 o'clock 12:00", "1 2024 x"],
    "YYYY-MM-dd": ["2024-05-17", "2023-01-01", "1999-12-31"],
    "yyyy-MM-dd HH:mm:ssXXX": ["2024-05-17 12:30:59+05:30", "2024-05-17 12:30:59Z", "2024-05-17 12:30:59+0530"],
    "HH:mm:ss": ["12:30:59", "99999999999:0:0", "12:30", "-1:00:00", "12:30:59.5"],
    "KK:mm a": ["00:30 PM", "11:59 AM", "12:00 pm"],
    "a": ["AM", "pm"],
    "ss": ["99999999999999999999", "-99999999999999999999", "4294967296", "1e3"],
}


def test_texts_are_read_as_java_reads_them(spark: SparkSession, chains: Chains) -> None:
    for patterns in (list(USUAL)[:7], list(USUAL)[7:]):
        read_alike(spark, chains, patterns, [text for pattern in patterns for text in USUAL[pattern]])


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text("0123456789-:T. \tZ+", min_size=8, max_size=26), min_size=100, max_size=150), st.randoms())
def test_any_text_is_read_as_java_reads_it(spark: SparkSession, chains: Chains, texts: list[str], random: Any) -> None:
    usual = [text for texts in USUAL.values() for text in texts]
    mixed = [one[: (at := random.randrange(len(one) + 1))] + two[at:] for one, two in zip(usual, texts, strict=False)]
    read_alike(spark, chains, ["yyyy-MM-dd'T'HH:mm:ss.SSSX", "yyyyMMddHHmmss"], [*texts, *mixed])
