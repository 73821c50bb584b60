"""The names that beans of Java plugins have in /metrics."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from headrace.connectors.java import beans, hosts
from headrace.connectors.java.process import Answer
from headrace.plugins.samples import Sample


def sample(domain: str, keys: str, path: list[str], value: Any = 1.0) -> Sample:
    (found,) = beans.samples(json.dumps([[domain, keys, path, value]]))
    return found


def test_names_are_those_of_the_jmx_exporter_without_rules() -> None:
    found = sample("debezium.postgres", "type=connector-metrics,context=streaming,server=db-1", ["TotalEvents"])
    assert found.name == "debezium_postgres_connector_metrics_TotalEvents"
    assert found.labels == {"context": "streaming", "server": "db-1"}


def test_keys_that_no_label_may_have_and_quoted_values() -> None:
    keys = r'type=x,client-id="a, \"b\" \\ \n*=:",0=z,node="with = and ,"'
    assert sample("9.d", keys, ["a.b--c", "used"], 7) == Sample(
        "_9_d_x_a_b_c_used",
        {"client_id": 'a, "b" \\ \n*=:', "_0": "z", "node": "with = and ,"},
        7.0,
        "a.b--c.used of the Java beans 9.d:type=x",
    )


def test_what_is_no_number_to_json() -> None:
    assert math.isnan(sample("d", "type=x", ["a"], "NaN").value)
    assert sample("d", "type=x", ["a"], "-Infinity").value == -math.inf


class FakeHost:
    """Answers when a test says so."""

    pid, is_lost, is_retired = 1, False, False

    def __init__(self) -> None:
        self.asked: list[hosts.Future[Answer]] = []

    def ask(self, name: str, **given: Any) -> hosts.Future[Answer]:
        self.asked.append(hosts.Future())
        return self.asked[-1]


def test_a_host_that_does_not_answer_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host, running = FakeHost(), hosts._Running()
    monkeypatch.setattr(hosts, "_hosts", [host])
    monkeypatch.setattr(hosts, "_SCRAPE_S", 0.01)
    assert running.samples() == running.samples() == []
    assert len(host.asked) == 1
    assert "The beans of the Java host 1 are missing in /metrics: it does not answer" in caplog.text
    answer = json.dumps([["d", "type=x", ["a"], 5.0]] * 2)
    host.asked[0].set_result((answer, bytearray()))
    assert running.samples() == []
    host.asked[1].set_result((answer, bytearray()))
    monkeypatch.setattr(host, "ask", lambda name, **given: host.asked[1])
    assert [one.value for one in running.samples()] == [5.0], "two of one name are one"
