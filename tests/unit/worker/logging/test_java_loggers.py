"""Levels for Java's logger names act on the loggers that do the same here."""

from __future__ import annotations

import io
import logging
from importlib.util import find_spec

import pytest

from headrace.worker.logging import logs
from headrace.worker.logging.java_loggers import LOGGERS, loggers_for
from tests.unit.worker.logging.test_logs import lines

__all__ = ["lines"]

CONNECT = "org.apache.kafka.connect"


@pytest.mark.parametrize("module", sorted({module for modules in LOGGERS.values() for module in modules}))
def test_each_is_a_module(module: str) -> None:
    assert find_spec(f"headrace.{module}".rstrip(".")) is not None


def test_a_package_reaches_all_below_it() -> None:
    assert "headrace" in loggers_for("org.apache")
    assert "headrace.worker.pipeline.transforms" in loggers_for(f"{CONNECT}.runtime")
    assert loggers_for(f"{CONNECT}.runtime.WorkerSinkTask")[0] == "headrace.worker.tasks.sink"
    assert loggers_for("org.example") == []


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ("io.confluent.connect.jdbc.sink.JdbcSinkTask", ["headrace.connectors.jdbc"]),
        (f"{CONNECT}.json.JsonConverter", ["headrace.converters.json"]),
        (f"{CONNECT}.transforms.Cast", ["headrace.plugins.transforms"]),
        (
            "org.apache.kafka.clients.producer.KafkaProducer",
            ["headrace.worker.kafka.writer", "headrace.worker.kafka.librdkafka"],
        ),
        (f"{CONNECT}.runtime.Unknown", []),
        (f"{CONNECT}.unknown.Unknown", []),
    ],
)
def test_a_class_that_is_not_listed_is_its_package(java: str, ours: list[str]) -> None:
    assert loggers_for(java) == ours


def test_a_level_for_a_java_class_acts_on_ours(lines: io.StringIO) -> None:
    sink = logging.getLogger("headrace.worker.tasks.sink")
    sink.debug("before")
    affected = logs.set_level(f"{CONNECT}.runtime.WorkerSinkTask", "DEBUG")
    assert {f"{CONNECT}.runtime.WorkerSinkTask", "headrace.worker.tasks.sink"} <= set(affected)
    sink.debug("after")
    assert "before" not in lines.getvalue()
    assert "DEBUG after" in lines.getvalue()
    assert logs.level(f"{CONNECT}.runtime.WorkerSinkTask")[0] == "DEBUG"  # type: ignore[index]
    logs.set_level("headrace.worker.tasks.sink", "OFF")


def test_a_java_class_has_the_level_of_ours_before_any_was_set(lines: io.StringIO) -> None:
    found = logs.level(f"{CONNECT}.runtime.WorkerSourceTask")
    assert found is not None
    assert found[0] == "WARN"
    assert logs.level("org.example.Nothing") is None


def test_a_rule_for_a_class_outdoes_one_for_its_package_in_either_order(lines: io.StringIO) -> None:
    rules = [f"{CONNECT}.runtime.WorkerSinkTask=TRACE", f"{CONNECT}.runtime=ERROR"]
    for order in (rules, rules[::-1]):
        logs.set_up(lines, {"CONNECT_LOG4J_LOGGERS": ",".join(order)})
        assert logging.getLogger("headrace.worker.tasks.sink").level == logs.LEVELS["TRACE"]
        assert logging.getLogger("headrace.worker.tasks.task").level == logging.ERROR
