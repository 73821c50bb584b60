"""`topic.creation.*`: which group a topic is of, and what is wrong with a config."""

from __future__ import annotations

import logging

import pytest

from headrace.config.connector.topic_creation import TopicCreation
from headrace.config.problems import ConfigError

DEFAULT = {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1"}


def creation(**more: str) -> TopicCreation:
    """Parse these keys beside a complete default; `_` stands for `.` in them, below `topic.creation.`"""
    made = TopicCreation.of({**DEFAULT, **{f"topic.creation.{key.replace('_', '.')}": v for key, v in more.items()}})
    assert made is not None
    return made


def wrong(config: dict[str, str]) -> dict[str, str]:
    """Each key that is refused, and why."""
    with pytest.raises(ConfigError) as raised:
        TopicCreation.of(config)
    return {problem.key: str(problem) for problem in raised.value.problems}


def test_without_any_key_the_broker_decides() -> None:
    assert TopicCreation.of({"name": "x", "topic": "topic.creation"}) is None


def test_the_default_takes_every_topic_with_its_topic_configs() -> None:
    group = creation(**{"default_cleanup.policy": "compact", "default_retention.ms": "1"}).group_of("any thing")
    assert (group.name, group.partitions, group.replication_factor) == ("default", 3, -1)
    assert group.config == {"cleanup.policy": "compact", "retention.ms": "1"}


def test_the_first_group_in_the_order_of_the_list_takes_a_topic() -> None:
    made = creation(groups="b, a", a_include="x.*,y", b_include="xy.*", b_exclude="xyz,no.*")
    names = {topic: made.group_of(topic).name for topic in ("xy1", "xyz", "x", "y", "yy", "ax", "X")}
    assert names == {"xy1": "b", "xyz": "a", "x": "a", "y": "a", "yy": "default", "ax": "default", "X": "default"}


def test_a_regex_matches_the_whole_name() -> None:
    made = creation(groups="a", a_include="a|bc", a_exclude="b")
    assert [made.group_of(topic).name for topic in ("a", "bc", "ac", "abc")] == ["a", "a", "default", "default"]


def test_exclusion_wins() -> None:
    assert creation(groups="a", a_include="t.*", a_exclude="t1").group_of("t1").name == "default"


def test_a_group_has_the_defaults_numbers_unless_it_says_its_own() -> None:
    group = creation(groups="a,b", a_include="a", b_include="b", b_partitions="-1", b_replication_factor="2").group_of
    assert (group("a").partitions, group("a").replication_factor) == (3, -1)
    assert (group("b").partitions, group("b").replication_factor) == (-1, 2)
    assert group("b").config == {}


def test_default_may_stand_in_the_list() -> None:
    made = creation(groups="default,a", a_include="a")
    assert [group.name for group in made.groups] == ["a", "default"]


def test_all_that_is_wrong_is_told_at_once_with_key_and_remedy() -> None:
    found = wrong(
        {
            "topic.creation.groups": "a,b",
            "topic.creation.a.include": "ok,(",
            "topic.creation.a.partitions": "0",
            "topic.creation.b.replication.factor": "many",
            "topic.creation.default.partitions": "-2",
        }
    )
    assert set(found) == {
        "topic.creation.default.partitions",
        "topic.creation.default.replication.factor",
        "topic.creation.a.include",
        "topic.creation.a.partitions",
        "topic.creation.b.include",
        "topic.creation.b.replication.factor",
    }
    assert "Invalid regex" in found["topic.creation.a.include"]
    assert "Number of partitions must be positive, or -1" in found["topic.creation.a.partitions"]
    for key, text in found.items():
        assert f"Set {key} to " in text


@pytest.mark.parametrize(("key", "value"), [("include", "a.*"), ("exclude", "b")])
def test_the_default_is_for_what_is_left_over(key: str, value: str) -> None:
    assert set(wrong({**DEFAULT, f"topic.creation.default.{key}": value})) == {f"topic.creation.default.{key}"}
    assert TopicCreation.of({**DEFAULT, "topic.creation.default.include": ".*"}) is not None


def test_a_list_with_a_name_twice_is_refused() -> None:
    assert set(wrong({**DEFAULT, "topic.creation.groups": "a,a"})) == {"topic.creation.groups"}


def test_keys_of_a_group_that_is_not_listed_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        creation(groups="a", a_include="a", ab_include="b", default_x="1")
    assert [record.getMessage().split()[0] for record in caplog.records] == ["topic.creation.ab.include"]
