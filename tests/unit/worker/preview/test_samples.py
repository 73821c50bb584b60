"""Samples that take the place of a source's records: what is refused before anything runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.converters.json.converter import JsonConverter
from headrace.worker.errors import BadRequest
from headrace.worker.preview.source import SourcePreview, envelope_of

SCHEMA = {"type": "int32", "optional": False}
ENVELOPE = {"schema": SCHEMA, "payload": 1}


def refusal(sample: list[dict[str, Any]], **config: str) -> str:
    converter, unused = JsonConverter(), SimpleNamespace()
    converter.configure({"converter.type": "value", "schemas.enable": "false"}, False)
    preview = SourcePreview(unused, SimpleNamespace(connector=config), (), lambda one: one)  # type: ignore[arg-type]
    with pytest.raises(BadRequest) as raised:
        preview.of_sample(sample, converter)
    return str(raised.value)


def test_a_record_of_unknown_topic_is_refused() -> None:
    assert "names its topic" in refusal([{"topic": "t", "value": 1}, {"value": 2}])


@pytest.mark.parametrize("one", [{"partition": "x"}, {"timestamp": "now"}, {"topic": 7}, {"partition": 2**40}])
def test_a_member_of_another_type_is_refused(one: dict[str, Any]) -> None:
    assert "another type" in refusal([one], topic="t")


def test_headers_are_an_object() -> None:
    assert "headers" in refusal([{"headers": ["a"]}], topic="t")


def test_envelopes_are_told_from_plain_json() -> None:
    assert envelope_of([{"value": ENVELOPE}, {"key": None, "value": ENVELOPE}])
    assert not envelope_of([{"value": {"schema": 1}}, {"value": 7}])
    assert not envelope_of([])
    with pytest.raises(BadRequest, match="others are not"):
        envelope_of([{"key": 1, "value": ENVELOPE}])
    with pytest.raises(BadRequest, match="and not offset"):
        envelope_of([{"value": 1, "offset": 7}])
