"""The terms of `partition-by`."""

from __future__ import annotations

import pytest

from headrace.connectors.lake.iceberg.partition_terms import Term, term_of


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("a", Term("a", "identity", "a")),
        (" a.b ", Term("a.b", "identity", "a.b")),
        ("days(ts)", Term("ts", "day", "ts_day")),
        ("DAY( ts )", Term("ts", "day", "ts_day")),
        ("year(ts)", Term("ts", "year", "ts_year")),
        ("months(ts)", Term("ts", "month", "ts_month")),
        ("hours(a.ts)", Term("a.ts", "hour", "a.ts_hour")),
        ("bucket(id, 16)", Term("id", "bucket[16]", "id_bucket")),
        ("truncate(a b,4)", Term("a b", "truncate[4]", "a b_trunc")),
    ],
)
def test_terms(text: str, term: Term) -> None:
    assert term_of(text) == term


@pytest.mark.parametrize(
    "text", ["", "bucket(a)", "bucket(a, x)", "bucket(a, 0)", "day(a, 2)", "week(a)", "day(", "a)", "a,b"]
)
def test_what_is_no_term_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no term"):
        term_of(text)
