"""The offsets at which a task's partitions begin: a stored offset counts only for the topic with its topic id."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from headrace.connectors.mirror.copy.fetching import PartitionFetch
from headrace.connectors.mirror.source.cluster import Topic
from headrace.connectors.mirror.source.positions import SourcePositions, with_topic_id
from headrace.connectors.mirror.topic_ids import NO_ID, parsed, printed
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken

FORMER, NOW = UUID(int=1), UUID(int=2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Source:
    """A cluster whose topics begin at 3 and end at 9."""

    def __init__(self, **topics: Topic) -> None:
        self.there = topics

    def topics(self, names: Any) -> dict[str, Topic]:
        return {name: topic for name, topic in self.there.items() if name in names}

    def offsets(self, reset: str, partitions: Any) -> dict[TopicPartition, int]:
        return {one: {"earliest": 3, "latest": 9}[reset] for one in partitions}


def positions(reset: str = "earliest", **topics: Topic) -> SourcePositions:
    made = SourcePositions("A", Any, reset, StopToken())  # type: ignore[arg-type]

    @contextmanager
    def asked(_: str) -> Any:
        yield Source(**topics)

    made._asked = asked  # type: ignore[method-assign, assignment]
    return made


def now(partitions: int = 2, its: UUID = NOW) -> Topic:
    return Topic(printed(its), partitions)


def begun(fetches: list[PartitionFetch]) -> dict[TopicPartition, tuple[int, UUID | None]]:
    return {fetch.partition: (fetch.position, fetch.topic_id) for fetch in fetches}


def test_ids_are_those_that_kafkas_tools_print() -> None:
    assert parsed("YhmfoqjMRNugs0aJDdi2EQ") == UUID("62199fa2-a8cc-44db-a0b3-46890dd8b611")
    assert printed(UUID("62199fa2-a8cc-44db-a0b3-46890dd8b611")) == "YhmfoqjMRNugs0aJDdi2EQ"
    assert [parsed(text) for text in (None, "", "é", "short", printed(NO_ID))] == [None] * 5


def test_what_is_stored_of_the_topic_that_is_there_goes_on() -> None:
    stored = {T0: with_topic_id({"offset": 41}, NOW), T1: {"offset": 7}}
    assert begun(positions(t=now()).after(stored, ())) == {T0: (42, NOW), T1: (8, NOW)}


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_what_is_stored_of_a_former_topic_counts_no_more(reset: str, caplog: Any) -> None:
    stored = {T0: with_topic_id({"offset": 41}, FORMER), T1: with_topic_id({"offset": 5}, FORMER)}
    assert begun(positions(reset, t=now()).after(stored, ())) == {T0: (3, NOW), T1: (3, NOW)}
    assert "t-0 on A was deleted and made again: copying begins anew at offset 3" in caplog.text
    with pytest.raises(ValueError, match=r"auto\.offset\.reset is none"):
        positions("none", t=now()).after(stored, ())


def test_a_partition_that_is_not_there_any_more_waits() -> None:
    stored = {T0: with_topic_id({"offset": 41}, FORMER), T1: with_topic_id({"offset": 5}, FORMER)}
    assert begun(positions(t=now(1)).after(stored, ())) == {T0: (3, NOW), T1: (6, FORMER)}
    assert begun(positions().after(stored, ())) == {T0: (42, FORMER), T1: (6, FORMER)}


def test_without_a_stored_offset_the_policy_says_where_to_begin() -> None:
    assert begun(positions("latest", t=now()).after({T0: None, T1: None}, {T1})) == {T0: (9, NOW)}


def test_brokers_without_ids_are_asked_by_name() -> None:
    stored = {T0: with_topic_id({"offset": 41}, FORMER), T1: {"offset": 5}}
    found = begun(positions(t=now(its=NO_ID)).after(stored, ()))
    assert found == {T0: (42, FORMER), T1: (6, None)}


def test_a_lane_goes_to_the_topic_that_has_its_name() -> None:
    fetches = [PartitionFetch(T0, 42, FORMER), PartitionFetch(T1, 6, None)]
    assert begun(positions(t=now()).in_namesakes(fetches)) == {T0: (3, NOW), T1: (6, NOW)}
    assert positions(t=now(its=FORMER)).in_namesakes(fetches[:1]) == [], "the broker has not heard of it yet"
    assert positions().in_namesakes(fetches) == [], "it is gone"
    assert positions(t=now()).remade(fetches) == {"t"}
    assert positions(t=now(its=FORMER)).remade(fetches) == set()
