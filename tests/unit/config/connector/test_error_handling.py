"""Settings for records that fail, beyond what Connect knows."""

from __future__ import annotations

import pytest

from headrace.config.connector.config import sink_conflicts
from headrace.config.connector.error_handling import ErrorHandling, error_problems
from headrace.config.connector.settings import SINK as SETTINGS

SINK = {"name": "s", "connector.class": "C", "topics": "a,b"}
RETRY = {**SINK, "errors.retry.topic.name": "r", "errors.retry.timeout": "1000"}


def test_defaults() -> None:
    made = ErrorHandling.of("sink", SINK)
    assert made == ErrorHandling(False, 0, 60_000, False, False, "", 3, False, "")
    assert ErrorHandling.of("source", {"name": "s", "connector.class": "C"}) == made


def test_sources_have_dead_letters_too() -> None:
    config = {"name": "s", "connector.class": "C", "errors.deadletterqueue.topic.name": "d"}
    assert ErrorHandling.of("source", config).dead_letters == "d"
    assert error_problems("source", config) == []
    (problem,) = error_problems("source", {**config, "errors.deadletterqueue.topic.replication.factor": "many"})
    assert problem.key == "errors.deadletterqueue.topic.replication.factor"


def test_a_retry_topic_is_read() -> None:
    assert error_problems("sink", RETRY) == []
    assert ErrorHandling.of("sink", RETRY).retry_topic == "r"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"errors.retry.timeout": "0"}, "needs errors.retry.timeout"),
        ({"errors.deadletterqueue.topic.name": "r"}, "is the dead letter topic, too"),
        ({"topics": "a, r"}, "among the topics"),
        ({"topics": None, "topics.regex": "r|s"}, "among the topics"),
    ],
)
def test_what_a_retry_topic_rules_out(changed: dict[str, str | None], said: str) -> None:
    (problem,) = error_problems("sink", {**RETRY, **changed})
    assert problem.key == "errors.retry.topic.name"
    assert said in problem.message


def test_a_regex_that_is_refused_rules_out_no_retry_topic() -> None:
    assert error_problems("sink", {**RETRY, "topics": None, "topics.regex": "((a{900}){900}"}) == []


@pytest.mark.parametrize("topic", ["errors.retry.topic.name", "errors.deadletterqueue.topic.name"])
def test_a_regex_that_takes_too_long_is_an_error_of_the_config(topic: str) -> None:
    slow = {"name": "s", "topics.regex": "(a|aa)+$", topic: "a" * 40 + "b", "errors.retry.timeout": "1000"}
    if topic == "errors.retry.topic.name":
        (problem,) = error_problems("sink", slow)
        assert "takes longer than" in problem.message
    else:
        found = SETTINGS.validate(slow)
        sink_conflicts(found, None, None)
        assert "takes longer than" in found["topics.regex"].errors[-1]
