"""Differences between two previews of the same records."""

from __future__ import annotations

from typing import Any

from headrace.worker.preview.differences import compared
from headrace.worker.preview.model import EffectShown, Failure, Preview, PreviewedRecord, Stage


def of_sink(offset: int, value: Any, **more: Any) -> PreviewedRecord:
    stages = [Stage("fetched", value="bytes"), Stage("converted", topic="t", value=value)]
    return PreviewedRecord("t", 0, offset, stages=stages, **more)


def differences(before: PreviewedRecord, after: PreviewedRecord) -> dict[str, Any]:
    (record,) = compared(Preview("sink", [before]), Preview("sink", [after])).records
    assert record.differences is not None
    return {one.path: (one.before, one.after) for one in record.differences}


def test_fields_are_compared_in_depth() -> None:
    before, after = {"a": 1, "b": [1, {"c": 2}], "d": 1}, {"a": 1.0, "b": [1, {"c": 3}], "e": None}
    assert differences(of_sink(0, before), of_sink(0, after)) == {
        "value.a": (1, 1.0),
        "value.b[1].c": (2, 3),
        "value.d": (1, None),
        "value.e": (None, None),
    }
    assert differences(of_sink(0, before), of_sink(0, before)) == {}


def test_what_is_done_with_a_record_is_compared() -> None:
    failure = Failure("TRANSFORMATION", "X", "no", "skipped")
    found = differences(of_sink(0, 1), of_sink(0, 1, error=failure))
    assert found["error"] == (
        None,
        {"stage": "TRANSFORMATION", "class_name": "X", "message": "no", "outcome": "skipped"},
    )
    assert differences(of_sink(0, 1, filtered="x"), of_sink(0, 1))["filtered"] == ("x", None)
    before, after = ([EffectShown("insert", target)] for target in ("a", "b"))
    found = differences(of_sink(0, 1, effects=before), of_sink(0, 1, effects=after))
    assert found == {"effects[0].target": ("a", "b")}


def test_a_sources_bytes_are_compared_if_nothing_else_differs() -> None:
    def record(value: Any, data: str) -> PreviewedRecord:
        stages = [Stage("read", value=value), Stage("converted", value=value), Stage("written", value=data)]
        return PreviewedRecord(source_partition={"f": 1}, source_offset={"n": 1}, stages=stages)

    assert differences(record(1, "1"), record(1, "one")) == {"written.value": ("1", "one")}
    assert differences(record(1, "1"), record(2, "2")) == {"value": (1, 2)}


def test_records_are_paired_by_their_origin() -> None:
    before = Preview("sink", [of_sink(1, "a"), of_sink(2, "b")])
    after = compared(before, Preview("sink", [of_sink(2, "c"), of_sink(3, "d")]))
    first, second = after.records
    assert first.differences is not None
    assert [one.before for one in first.differences] == ["b"]
    assert second.differences is None
    assert after.notes == ["1 records were not read by the config before, and cannot be compared."]
