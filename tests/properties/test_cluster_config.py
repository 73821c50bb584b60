"""The cluster runs the same whatever compaction takes from its config topic, at any point of its progress."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.worker.storage.cluster_config import ClusterConfig
from tests.unit.worker.storage.config_records import Pair, connector, fold_at, record, target, tasks

NAMES = ("a", "a-0", "b")


@st.composite
def logs(draw: st.DrawFn) -> list[Pair]:
    """Draw what leaders and workers write, as `ConfigTopic` does; each write whole."""
    log: list[Pair] = []
    alive: set[str] = set()
    for version in range(draw(st.integers(1, 14))):
        name = draw(st.sampled_from(NAMES))
        if name not in alive:
            if draw(st.booleans()):
                log.append(target(name, draw(st.sampled_from(["STARTED", "PAUSED", "STOPPED"]))))
            log.append(connector(name, version))
            alive.add(name)
            continue
        match draw(st.sampled_from(["config", "tasks", "tasks", "target", "fence", "delete", "key"])):
            case "config":  # without publishing the tasks again, as Apache does
                log.append(connector(name, version))
            case "tasks":
                log += tasks(name, draw(st.integers(0, 3)), version)
            case "target":
                log.append(target(name, draw(st.sampled_from(["STARTED", "PAUSED", "STOPPED"]))))
            case "fence":
                log.append((f"tasks-fencing-{name}", {"task-count": version}))
            case "delete":
                log += [(f"connector-{name}", None), (f"commit-{name}", None), (f"target-state-{name}", None)]
                alive.remove(name)
            case "key":
                key = {"key": "AAEC", "algorithm": "HmacSHA256", "creation-timestamp": version}
                log.append(("session-key", key))
    return log


@st.composite
def compacted(draw: st.DrawFn) -> tuple[list[Pair], list[tuple[int, Pair]]]:
    """A log, and what compaction leaves of it: up to a point the last record of each key, of the deletions there any.

    The last record of all stays: Kafka never compacts the segment that it writes to.
    """
    log = draw(logs())
    point = draw(st.integers(0, len(log)))
    last = {key: offset for offset, (key, _) in enumerate(log[:point])}
    left: list[tuple[int, Pair]] = []
    for offset, (key, value) in enumerate(log):
        cleaned = offset < point and offset != len(log) - 1
        if cleaned and (last[key] != offset or (value is None and draw(st.booleans()))):
            continue
        left.append((offset, (key, value)))
    return log, left


def visible(cluster: ClusterConfig) -> dict[str, Any]:
    """The part that a worker acts on; not how often tasks were committed, nor what they were made from."""
    return {
        "offset": cluster.offset,
        "connectors": cluster.connectors,
        "targets": cluster.targets,
        "tasks": {name: [cluster.task_config(task) for task in cluster.tasks(name)] for name in cluster.connectors},
        "task_counts": cluster.task_counts,
        "fencing_counts": cluster.fencing_counts,
        "pending_fencing": cluster.pending_fencing,
        "inconsistent": cluster.inconsistent,
        "session_key": cluster.session_key,
    }


@settings(max_examples=500)
@given(compacted())
def test_compaction_changes_nothing(logs: tuple[list[Pair], list[tuple[int, Pair]]]) -> None:
    log, left = logs
    whole, _ = fold_at(enumerate(log))
    rest, _ = fold_at(left)
    assert visible(rest) == visible(whole)
    # What the tasks were made from may be forgotten, and is never wrong: then they are published once too often.
    assert all(whole.applied.get(name) == config for name, config in rest.applied.items())


@given(logs(), st.data())
def test_a_snapshot_stays_what_it_was(log: list[Pair], data: st.DataObject) -> None:
    point = data.draw(st.integers(0, len(log)))
    before, _ = fold_at(enumerate(log[:point]))
    was = visible(before)
    for offset, pair in enumerate(log[point:], point):
        before.fold(record(pair, offset))
    again = ClusterConfig(before.offset, before.session_key, before.entries)
    assert visible(again) == was
