"""Singer's messages: what a tap prints, and what is none."""

from __future__ import annotations

import json

import pytest

from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.messages import Inexact, Other, Record, Schema, State, message_of


def line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def test_each_kind_is_read_in_any_case() -> None:
    schema = {"type": "object"}
    assert message_of(line(type="Schema", stream="a", schema=schema, key_properties=["id"])) == Schema(
        "a", schema, ("id",)
    )
    assert message_of(line(type="record", stream="a", record={"id": 1})) == Record("a", {"id": 1}, None)
    assert message_of(line(type="STATE", value={"bookmarks": {"a": 1}})) == State('{"bookmarks":{"a":1}}')
    assert message_of(line(type="ACTIVATE_VERSION", stream="a", version=1)) == Other("ACTIVATE_VERSION")
    assert message_of(line(type="of the future")) == Other("OF THE FUTURE")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:01.5+01:00", 1500), ("1970-01-01T00:00:02", 2000)],
)
def test_the_time_of_extraction_is_utc_unless_it_says_otherwise(text: str, ms: int) -> None:
    message = message_of(line(type="RECORD", stream="a", record={}, time_extracted=text))
    assert isinstance(message, Record)
    assert message.extracted_ms == ms


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("0.1", 0.1),
        ("1e3", 1000.0),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("123456789012.3456789", Inexact("123456789012.3456789")),
        ("0.1000000000000000055511151231257827", Inexact("0.1000000000000000055511151231257827")),
        ("1e400", Inexact("1e400")),
    ],
)
def test_a_fraction_is_a_double_only_if_that_has_all_digits(text: str, read: object) -> None:
    message = message_of(b'{"type": "RECORD", "stream": "a", "record": {"x": %s}}' % text.encode())
    assert isinstance(message, Record)
    assert message.value["x"] == read


@pytest.mark.parametrize(
    "garbage",
    [
        b"Hello\n",
        b"[1]\n",
        b"\xff\xfe\n",
        b"[" * 100_000,
        line(stream="a"),
        line(type="RECORD", stream="a"),
        line(type="RECORD", stream="", record={}),
        line(type="RECORD", stream="a", record=[1]),
        line(type="RECORD", stream="a", record={}, time_extracted="yesterday"),
        line(type="SCHEMA", stream="a", schema={}, key_properties=[1]),
        line(type="STATE"),
        b'{"type": "STATE", "value": NaN}',
    ],
)
def test_what_is_no_message_is_quoted(garbage: bytes) -> None:
    with pytest.raises(SingerError, match="printed what is no message of Singer's") as refused:
        message_of(garbage)
    assert len(str(refused.value)) < 500


def test_records_in_files_are_refused_and_not_passed_over() -> None:
    with pytest.raises(SingerError, match="batch_config"):
        message_of(line(type="BATCH", stream="a", encoding={}, manifest=[]))
