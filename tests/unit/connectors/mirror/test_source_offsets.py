"""Offsets that an operator sets: what is refused, in Apache's words."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.connectors.mirror.source_offsets import OffsetError, check_offsets

AT = {"cluster": "A", "partition": 3, "topic": "t"}
SHOWN = "{cluster=A, partition=3, topic=t}"
TEXTS = ("cluster", "topic")


def body(partition: Any, offset: Any) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset}]}


@pytest.mark.parametrize(
    ("partition", "offset"), [(AT, {"offset": 0}), (AT, {"offset": 2**40}), ({"rubbish": True}, None), (None, None)]
)
def test_what_may_be_set(partition: Any, offset: Any) -> None:
    assert check_offsets(body(partition, offset), TEXTS, only_zero=False)


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        (None, {"offset": 0}, "Source partitions may not be null"),
        (
            {"topic": "t", "partition": 3},
            {"offset": 0},
            "Source partition {topic=t, partition=3} is missing the 'cluster' key, which is required",
        ),
        (
            {**AT, "topic": 5},
            {"offset": 0},
            "Source partition {cluster=A, partition=3, topic=5} has an invalid value 5 for the 'topic' key, which must "
            "be a string",
        ),
        (
            {**AT, "partition": "3"},
            {"offset": 0},
            f"Source partition {SHOWN} has an invalid value 3 for the 'partition' key, which must be an integer",
        ),
        (
            {**AT, "partition": 2**31},
            {"offset": 0},
            "Source partition {cluster=A, partition=2147483648, topic=t} has an invalid value 2147483648 for the "
            "'partition' key, which must be an integer",
        ),
        (
            {**AT, "partition": -1},
            {"offset": 0},
            "Source partition {cluster=A, partition=-1, topic=t} has an invalid value -1 for the 'partition' key, "
            "which cannot be negative",
        ),
        (
            AT,
            {"position": 0},
            f"Source offset {{position=0}} for source partition {SHOWN} is missing the 'offset' key, which is required",
        ),
        (
            AT,
            {"offset": None},
            f"Source offset {{offset=null}} for source partition {SHOWN} has an invalid value null for the 'offset' "
            "key, which must be an integer",
        ),
        (
            AT,
            {"offset": -1},
            f"Source offset {{offset=-1}} for source partition {SHOWN} has an invalid value -1 for the 'offset' key, "
            "which cannot be negative",
        ),
    ],
)
def test_what_is_refused(partition: Any, offset: Any, message: str) -> None:
    with pytest.raises(OffsetError) as refused:
        check_offsets(body(partition, offset), TEXTS, only_zero=False)
    assert str(refused.value) == message


def test_offsets_that_only_say_that_there_is_something() -> None:
    assert check_offsets(body({"sourceClusterAlias": "A"}, {"offset": 0}), ["sourceClusterAlias"], has_partition=False)
    with pytest.raises(OffsetError, match="invalid value 1 for the 'offset' key; the only accepted value is 0"):
        check_offsets(body(AT, {"offset": 1}), TEXTS)
