"""URLs, bodies and batches of the HTTP sink, as Spark's expressions make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.connectors.http.attempts import Retries, Statuses, constant
from headrace.connectors.http.sink.columns import columns_of
from headrace.connectors.http.sink.options import Body, Replacement, SinkOptions
from headrace.plugins import Record
from headrace.plugins.testkit import SinkOnSparkContract, SinkRig
from headrace.plugins.testkit.frames import frame_records
from tests.unit.connectors.http.test_sink import HttpRig

pytestmark = [pytest.mark.spark, pytest.mark.long]

OPTIONS: Final = SinkOptions(
    "http://h/x", "http.api.url", "POST", {}, Body.STRING, Retries(0, Statuses.of("400-"), constant(0))
)


class _Rig(HttpRig):
    """The URL without the rig's templates, so that rows of the expressions are what the rig makes."""


class TestHttpSinkOnSpark(SinkOnSparkContract):
    @pytest.fixture
    def rig(self) -> Iterator[SinkRig]:
        rig = _Rig()
        yield rig
        rig.outside.close()


@dataclass
class Inner:
    name: str | None


@dataclass
class Order:
    id: int
    amount: Annotated[Decimal, 2]
    inner: Inner
    data: bytes


ORDER: Final = Order(7, Decimal("1.50"), Inner("a/b ü"), b"\x00\xff")


def rows(spark: SparkSession, options: SinkOptions, *records: Record, value: Any = None) -> list[dict[str, Any]]:
    made = frame_records(spark, list(records), value=value)
    found: pa.Table = made.frame.select(*columns_of(made, options)).toArrow()
    return found.to_pylist()


def body(spark: SparkSession, value: Any, declared: Any = None, **changes: Any) -> bytes | None:
    (found,) = rows(spark, replace(OPTIONS, **changes), Record(value, key="k"), value=declared)
    assert (found["fault"] is None) is (found["body"] is not None or found["is_null"])
    return found["body"]


@pytest.mark.parametrize(
    ("kind", "value", "declared", "expected"),
    [
        (Body.STRING, "text ü", None, "text ü".encode()),
        (Body.STRING, b"\x00\xff", None, b"\x00\xff"),
        (Body.STRING, 7, None, b"7"),
        (Body.STRING, {"a": [1, None]}, None, b'{"a":[1,null]}'),
        (Body.STRING, Inner("x"), Inner, b"Struct{name=x}"),
        (Body.JSON, 'a"b', None, b'"a\\"b"'),
        (Body.JSON, {"a": [1, None]}, None, b'{"a":[1,null]}'),
        (Body.JSON, Inner(None), Inner, b'{"name":null}'),
        (Body.TEXT_OR_JSON, '{"x', None, b'{"x'),
        (Body.TEXT_OR_JSON, {"a": 1}, None, b'{"a":1}'),
        (Body.TEXT_OR_JSON, Inner("x"), Inner, b'{"name":"x"}'),
        (Body.TEXT_OR_JSON, 7, None, None),
        (Body.TEXT_OR_JSON, [1], None, None),
        (Body.TEXT_OR_JSON, b"x", None, None),
        (Body.JSON, None, None, None),
    ],
)
def test_bodies(spark: SparkSession, kind: Body, value: Any, declared: Any, expected: bytes | None) -> None:
    assert body(spark, value, declared, body=kind) == expected


@pytest.mark.parametrize(("numeric", "expected"), [(False, b'"AJY="'), (True, b"1.50")])
def test_decimals(spark: SparkSession, numeric: bool, expected: bytes) -> None:
    found = body(spark, ORDER, Order, body=Body.JSON, numeric_decimals=numeric)
    assert found == b'{"id":7,"amount":%s,"inner":{"name":"a/b \xc3\xbc"},"data":"AP8="}' % expected


def test_replacements_are_made_in_order_with_key_and_topic(spark: SparkSession) -> None:
    replacements = (Replacement("^", '{"k":"${key}","t":"${topic}","v":"'), Replacement("(.)$", '$1"}'))
    found = rows(spark, replace(OPTIONS, replacements=replacements), Record("a", key="$1\\"), Record("b"))
    assert [one["body"] for one in found] == [b'{"k":"$1\\","t":"t","v":"a"}', b'{"k":"null","t":"t","v":"b"}']


@pytest.mark.parametrize(
    ("url", "value", "declared", "expected"),
    [
        ("http://h/${topic}/${key}", "v", None, "http://h/t/k%2F%3F%20%26%2B%2A~"),
        ("http://h/${id}?n=${inner.name}", ORDER, Order, "http://h/7?n=a%2Fb%20%C3%BC"),
        ("http://h/${a}/${b.c}", {"a": 1, "b": {"c": "..."}}, None, "http://h/1/..."),
        ("http://h/${missing}", {"a": 1}, None, None),
        ("http://h/${missing}", ORDER, Order, None),
        ("http://h/${a}", "text", None, None),
        ("http://h/${a}", {"a": None}, None, None),
    ],
)
def test_urls(spark: SparkSession, url: str, value: Any, declared: Any, expected: str | None) -> None:
    (found,) = rows(spark, replace(OPTIONS, url=url), Record(value, key="k/? &+*~"), value=declared)
    assert found["url"] == expected
    assert (found["fault"] is None) is (expected is not None)


@pytest.mark.parametrize("key", [".", ".."])
def test_a_key_that_is_a_step_in_a_path_is_refused(spark: SparkSession, key: str) -> None:
    (found,) = rows(spark, replace(OPTIONS, url="http://h/${key}"), Record("v", key=key))
    assert "another path" in found["fault"]


def test_a_record_without_a_key_has_no_such_url_and_one_batch(spark: SparkSession) -> None:
    options = replace(OPTIONS, url="http://h/${key}", batch_key="${topic}-${key}")
    found: Sequence[Any] = rows(spark, options, Record("v"), Record("v", key="k"), Record(None, key="k"))
    assert [one["url"] for one in found] == [None, "http://h/k", "http://h/k"]
    assert "http.api.url needs" in found[0]["fault"]
    assert [one["batch"] for one in found] == ["t-null", "t-k", "t-k"]
    assert [one["is_null"] for one in found] == [False, False, True]
