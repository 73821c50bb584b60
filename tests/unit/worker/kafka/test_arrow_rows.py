"""Messages of the Kafka client as Arrow rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.plugins.errors import DataError
from headrace.plugins.interop.conversion.kafka_rows import KAFKA_ROW, to_arrow


def message(**fields: Any) -> Message:
    stamp = (TIMESTAMP_CREATE_TIME, 5)
    return Message(**{"topic": "t", "partition": 0, "offset": 0, "timestamp": stamp, **fields})


def test_every_field_of_a_message_has_its_column() -> None:
    given = message(topic="orders", partition=3, offset=2**40, key=b"\x00k", value=b"\xffv", headers=[("a", b"1")])
    assert to_arrow([given]).to_pylist() == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": 2**40,
            "timestamp": 5,
            "headers": [{"key": "a", "value": b"1"}],
            "key": b"\x00k",
            "value": b"\xffv",
        }
    ]


def test_the_columns_are_those_that_programs_are_compiled_for() -> None:
    expected = to_arrow_schema(KAFKA_ROW)
    for messages in ([], [message()], [message(headers=[("a", None)]), message()]):
        made = to_arrow(messages)
        assert [(f.name, f.type) for f in made.schema] == [
            (
                f.name,
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])) if f.name == "headers" else f.type,
            )
            for f in expected
        ]
        assert made.num_rows == len(messages)


def test_rows_keep_the_order_of_the_messages() -> None:
    rows = to_arrow([message(topic=t, partition=p, offset=o) for t, p, o in [("b", 1, 7), ("a", 0, 9), ("b", 1, 8)]])
    assert [(r["topic"], r["partition"], r["offset"]) for r in rows.to_pylist()] == [
        ("b", 1, 7),
        ("a", 0, 9),
        ("b", 1, 8),
    ]


def test_null_and_empty_are_different() -> None:
    rows = to_arrow([message(key=None, value=b""), message(key=b"", value=None)])
    assert rows["key"].to_pylist() == [None, b""]
    assert rows["value"].to_pylist() == [b"", None]


def test_timestamps_of_either_kind_and_none() -> None:
    stamps = [(TIMESTAMP_CREATE_TIME, 0), (TIMESTAMP_LOG_APPEND_TIME, 17), (TIMESTAMP_NOT_AVAILABLE, -1)]
    assert to_arrow([message(timestamp=stamp) for stamp in stamps])["timestamp"].to_pylist() == [0, 17, None]


def test_headers_repeat_and_may_be_null_and_missing() -> None:
    rows = to_arrow([message(headers=[("a", b"1"), ("a", None), ("", b"")]), message(), message(headers=[])])
    assert rows["headers"].to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}],
        None,
        None,
    ]


def test_a_record_whose_headers_cannot_be_read_is_named() -> None:
    class Odd:
        """As confluent-kafka's message with a header whose name is not UTF-8, seen from C code."""

        topic, partition, offset = (lambda self: "orders"), (lambda self: 3), (lambda self: 7)

        def timestamp(self) -> tuple[int, int]:
            return TIMESTAMP_CREATE_TIME, 5

        def headers(self) -> None:
            raise SystemError("returned a result with an exception set")

    odd: Any = Odd()
    with pytest.raises(DataError, match=r"orders-3 at offset 7 .* not UTF-8.*PATCH"):
        to_arrow([odd])
