"""Metrics as lines for StatsD and Graphite."""

from __future__ import annotations

import math

from headrace.plugins.contracts import PartitionResult
from headrace.worker.hosting.measures import RebalanceTimes
from headrace.worker.model import State, Status, TaskId
from headrace.worker.telemetry.lines import graphite, packets, path, statsd
from headrace.worker.telemetry.numbers import Column, collected
from tests.unit.worker.herder.test_metrics import HERE, FakeGroup, worker

COLUMNS = [
    Column("lag", "", [{"task": "0", "connector": "a.b"}, {"task": "1", "connector": "a_b"}], [3, math.nan]),
    Column("level", "", [{}], [-2.5]),
]


def test_a_path_has_the_labels_values_and_no_two_series_share_one() -> None:
    assert path("connect", "lag", {"task": "0", "connector": "orders"}) == "connect.lag.orders.0"
    assert path("", "lag", {}) == "lag"
    names = ["a.b", "a_b", "a b", "a%2Eb", "ä", "a/b", "", "%", "a\nb 1 2"]
    paths = {path("p", "lag", {"connector": name, "task": "0"}) for name in names}
    assert len(paths) == len(names)
    assert all(one.count(".") == 3 and not set(one) & set(" \n:|") for one in paths)


def test_graphite_has_a_line_for_each_value_that_is_known() -> None:
    assert list(graphite(COLUMNS, "p", 12)) == ["p.lag.a%2Eb.0 3 12\n", "p.level -2.5 12\n"]


def test_statsd_has_gauges_and_a_negative_one_is_no_change() -> None:
    assert list(statsd(COLUMNS, "p")) == ["p.lag.a%2Eb.0:3|g", "p.level:0|g\np.level:-2.5|g"]


def test_lines_share_datagrams_up_to_their_size() -> None:
    assert list(packets(["aa", "bb", "cc", "dddddddd", "e"], most=5)) == [b"aa\nbb", b"cc", b"dddddddd", b"e"]
    assert list(packets([])) == []


def test_what_shows_a_state_as_a_label_is_left_out_where_it_would_stay() -> None:
    made = worker({"a": (Status(State.FAILED, HERE), [])}, group=FakeGroup(), rebalances=RebalanceTimes())
    made.names = ["strimzi-jmx", "strimzi-reporter", "confluent"]
    made.tasks.begin(TaskId("a", 0), "sink").moved([PartitionResult(written=5)])
    complete, numbers = ({one.name for one in collected(made, states)} for states in (True, False))
    assert complete - numbers == {
        *(f"kafka_connect_connector_{name}" for name in ("status", "connector_type", "connector_class")),
        *(f"kafka_connect_connector_metrics_{name}_info" for name in ("status", "connector_type", "connector_class")),
        "kafka_connect_connector_connector_version",
        "kafka_connect_connector_metrics_connector_version_info",
        "kafka_connect_connector_metrics",
        *(f"kafka_connect_worker_rebalance_{name}" for name in ("connect_protocol", "leader_name")),
        *(
            f"kafka_connect_connect_worker_rebalance_metrics_{name}{end}"
            for name in ("connect_protocol", "leader_name")
            for end in ("", "_info")
        ),
        "kafka_connect_version_info",
        "kafka_connect_app",
        "kafka_connect_app_info",
        "kafka_connect_app_info_info",
        "kafka_connect_app_info_start_time_ms_info",
    }
    assert "kafka_connect_sink_task_sink_record_send_total" in numbers
    assert "process_cpu_seconds_total" in numbers
