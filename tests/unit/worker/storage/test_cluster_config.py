from __future__ import annotations

import time

import pytest

from headrace.worker.model import TargetState, TaskId
from headrace.worker.storage.cluster_config import (
    ClusterConfig,
    ConnectorChanged,
    ConnectorRemoved,
    LevelChanged,
    RestartAsked,
    SessionKeyChanged,
    TargetChanged,
    TasksChanged,
)
from headrace.worker.storage.compacted_topic import TopicRecord
from tests.unit.worker.storage.config_records import Pair, commit, connector, fold, fold_at, record, target, task, tasks

C0, C1 = TaskId("c", 0), TaskId("c", 1)


def test_a_connector_and_its_tasks() -> None:
    cluster, events = fold(connector("c"), *tasks("c", 2))
    assert cluster.connectors == {"c": {"name": "c", "v": "0"}}
    assert cluster.targets == {"c": TargetState.STARTED}
    assert cluster.tasks("c") == (C0, C1)
    assert cluster.task_config(C1) == {"task": "1", "v": "0"}
    assert (cluster.offset, cluster.task_counts, cluster.generations) == (4, {"c": 2}, {"c": 0})
    assert cluster.applied == cluster.connectors
    assert cluster.pending_fencing == {"c"}
    assert events == [ConnectorChanged("c"), TasksChanged("c", (C0, C1))]
    with pytest.raises(KeyError):
        cluster.task_config(TaskId("c", 2))


def test_tasks_count_from_their_commit_on_and_as_one() -> None:
    before, _ = fold(connector("c"), *tasks("c", 2), task("c", 0, 1), task("c", 1, 1))
    assert [before.task_config(one)["v"] for one in before.tasks("c")] == ["0", "0"]
    after, _ = fold(connector("c"), *tasks("c", 2), *tasks("c", 1, 1))
    assert [after.task_config(one)["v"] for one in after.tasks("c")] == ["1"]
    assert after.generations == {"c": 1}


def test_what_the_tasks_were_made_from_is_known_until_they_are_made_anew() -> None:
    cluster, _ = fold(connector("c"), *tasks("c", 1), connector("c", 1))
    assert cluster.applied["c"] != cluster.connectors["c"]
    assert cluster.tasks("c") == (C0,)


def test_no_tasks_is_a_commit_too() -> None:
    cluster, events = fold(connector("c"), *tasks("c", 2), commit("c", 0))
    assert (cluster.tasks("c"), cluster.task_counts) == ((), {"c": 0})
    assert events[-1] == TasksChanged("c", ())


def test_a_commit_that_counts_more_than_there_is_shows_no_tasks_until_the_next() -> None:
    log = [connector("c"), task("c", 1), commit("c", 2)]
    cluster, events = fold(*log)
    assert (cluster.tasks("c"), set(cluster.inconsistent), cluster.task_counts) == ((), {"c"}, {"c": 2})
    assert events[-1] == TasksChanged("c", ())
    cluster, _ = fold(*log, *tasks("c", 2))
    assert (cluster.tasks("c"), cluster.inconsistent) == ((C0, C1), frozenset())


def test_more_tasks_than_the_worker_allows_are_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Tasks of any leader: one in Java bounds nothing."""
    cluster = ClusterConfig(most_tasks=2)
    for offset, pair in enumerate([connector("c"), *tasks("c", 2)]):
        cluster, _ = cluster.fold(record(pair, offset))
    assert cluster.tasks("c") == (C0, C1)
    for offset, pair in enumerate([*tasks("c", 50, 1)[:-1], commit("c", 20_000_000)], 4):
        cluster, event = cluster.fold(record(pair, offset))
        assert len(cluster.entry("c").deferred) <= 2
    assert (cluster.offset, event, cluster.tasks("c")) == (55, TasksChanged("c", ()), ())
    assert "Connector c has 20000000 tasks, and this worker allows 2, so none of them runs here" in caplog.text


def test_a_deletion_ends_all_but_fencing_and_generation() -> None:
    cluster, events = fold(
        connector("c"), *tasks("c", 1), ("tasks-fencing-c", {"task-count": 1}), ("connector-c", None), connector("c", 1)
    )
    assert (cluster.tasks("c"), cluster.task_counts, cluster.applied) == ((), {}, {})
    assert (cluster.fencing_counts, cluster.generations) == ({"c": 1}, {"c": 0})
    assert ConnectorRemoved("c") in events


def test_what_stands_behind_a_deletion_stays_dead() -> None:
    cluster, events = fold(connector("c"), ("connector-c", None), *tasks("c", 2), connector("c"))
    assert cluster.tasks("c") == ()
    assert events == [ConnectorChanged("c"), ConnectorRemoved("c"), ConnectorChanged("c")]


def test_a_commit_before_its_connector_keeps_the_tasks() -> None:
    log = [*tasks("c", 2), connector("c", 1)]
    cluster, events = fold(*log)
    assert cluster.tasks("c") == (C0, C1)
    assert cluster.applied == {}, "the connector has to publish its tasks anew"
    assert events == [ConnectorChanged("c")]
    unknown, _ = fold(*log[:-1])
    assert (unknown.tasks("c"), unknown.task_counts, unknown.pending_fencing) == ((), {}, frozenset())


def test_what_was_deleted_here_does_not_come_back_when_the_deletion_is_compacted_away() -> None:
    cluster, _ = fold(*tasks("c", 2)[:-1], ("commit-c", None), connector("c", 1))
    assert cluster.tasks("c") == ()
    known, _ = fold(connector("c"), *tasks("c", 2), ("commit-c", None))
    assert known.tasks("c") == (C0, C1), "as Apache: null says nothing of a connector that is known"


def test_targets() -> None:
    cluster, events = fold(target("c", "STOPPED"), connector("c"), target("c", "STOPPED"))
    assert (cluster.targets["c"], events) == (TargetState.STOPPED, [ConnectorChanged("c")])
    old, events = fold(connector("c"), ("target-state-c", {"state": "PAUSED"}))
    assert (old.targets["c"], events[-1]) == (TargetState.PAUSED, TargetChanged("c"))
    odd, _ = fold(connector("c"), target("c", "PAUSED"), ("target-state-c", {"state": "STARTED", "state.v2": "ODD"}))
    assert odd.targets["c"] is TargetState.PAUSED
    reset, events = fold(connector("c"), target("c", "PAUSED"), ("target-state-c", None))
    assert (reset.targets["c"], events[-1]) == (TargetState.STARTED, TargetChanged("c"))
    assert len(events) == 2, "nobody is told of a target that was forgotten"


def test_what_is_asked_for() -> None:
    key = {"key": "AAEC", "algorithm": "HmacSHA256", "creation-timestamp": 1700000000000}
    cluster, events = fold(
        ("restart-connector-c", {"include-tasks": True, "only-failed": "yes"}),
        ("restart-connector-c", {}),
        ("logger-cluster-org.apache", {"level": "DEBUG"}),
        ("session-key", key),
    )
    assert events == [
        RestartAsked("c", True, False),
        RestartAsked("c", False, False),
        LevelChanged("org.apache", "DEBUG"),
        SessionKeyChanged(),
    ]
    assert cluster.session_key is not None
    assert cluster.session_key.value() == key


def test_fencing() -> None:
    cluster, _ = fold(connector("c"), *tasks("c", 2), ("tasks-fencing-c", {"task-count": 2}))
    assert (cluster.fencing_counts, cluster.pending_fencing) == ({"c": 2}, frozenset())


def test_names_may_look_like_keys() -> None:
    cluster, _ = fold(connector("a-1"), *tasks("a-1", 1), connector("s-fencing-x"), *tasks("s-fencing-x", 1))
    assert cluster.tasks("a-1") == (TaskId("a-1", 0),)
    # As in Apache, whose keys begin alike: task-s-fencing-x-0 is a task, and tasks-fencing-x is not.
    assert cluster.tasks("s-fencing-x") == (TaskId("s-fencing-x", 0),)


@pytest.mark.parametrize(
    "pair",
    [
        ("connector-c", {"props": {}}),
        ("connector-c", []),
        ("task-c-x", {"properties": {}}),
        ("task-c-0", None),
        ("commit-c", {"tasks": "2"}),
        ("commit-c", {"tasks": True}),
        ("commit-c", b'{"tasks":Infinity}'),
        ("target-state-c", {"state": 1}),
        ("target-state-c", "PAUSED"),
        ("session-key", {"key": "geheim"}),
        ("session-key", None),
        ("restart-connector-c", None),
        ("logger-cluster-x", {"level": None}),
        ("tasks-fencing-c", None),
        ("what-else", {}),
    ],
)
def test_what_makes_no_sense_counts_and_changes_nothing(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    before, _ = fold(connector("c"), *tasks("c", 1))
    after, event = before.fold(record(pair, 7))
    assert (after.offset, event) == (8, None)
    assert ClusterConfig(8, after.session_key, before.entries) == after
    assert len(caplog.records) == 1
    assert "geheim" not in caplog.text


def test_what_is_no_json_does_not_count() -> None:
    before, _ = fold(connector("c"))
    assert before.fold(TopicRecord(b"connector-c", b"\xff{", 0, 7)) == (before, None)
    assert before.fold(TopicRecord(None, b"{}", 0, 7))[0].offset == 8


def test_offsets_are_those_of_records_not_their_number() -> None:
    cluster, _ = fold_at([(0, connector("c")), (5, commit("c", 0))])
    assert cluster.offset == 6


def test_a_thousand_connectors_of_four_tasks_load_in_a_moment() -> None:
    log = [pair for n in range(1000) for pair in (connector(f"c{n}"), *tasks(f"c{n}", 4), target(f"c{n}", "PAUSED"))]
    encoded = [record(pair, offset) for offset, pair in enumerate(log)]
    began, cluster = time.thread_time(), ClusterConfig()
    for one in encoded:
        cluster, _ = cluster.fold(one)
    took = time.thread_time() - began
    assert len(cluster.connectors) == 1000
    assert len(cluster.tasks("c999")) == 4
    assert took < 3.0
