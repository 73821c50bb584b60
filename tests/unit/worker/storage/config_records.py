"""Records of a config topic, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headrace.worker.storage.cluster_config import ClusterConfig, Event
from headrace.worker.storage.compacted_topic import TopicRecord

Pair = tuple[str, Any]


def connector(name: str, version: int = 0) -> Pair:
    return f"connector-{name}", {"properties": {"name": name, "v": str(version)}}


def task(name: str, number: int, version: int = 0) -> Pair:
    return f"task-{name}-{number}", {"properties": {"task": str(number), "v": str(version)}}


def commit(name: str, count: int) -> Pair:
    return f"commit-{name}", {"tasks": count}


def tasks(name: str, count: int, version: int = 0) -> list[Pair]:
    """A whole publication."""
    return [*(task(name, number, version) for number in range(count)), commit(name, count)]


def target(name: str, state: str) -> Pair:
    return f"target-state-{name}", {"state": "PAUSED" if state == "STOPPED" else state, "state.v2": state}


def record(pair: Pair, offset: int) -> TopicRecord:
    key, value = pair
    encoded = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
    return TopicRecord(key.encode(), encoded, 0, offset)


def fold_at(log: Iterable[tuple[int, Pair]]) -> tuple[ClusterConfig, list[Event]]:
    """Fold records that stand at these offsets; return the view and its events."""
    cluster, events = ClusterConfig(), list[Event]()
    for offset, pair in log:
        cluster, event = cluster.fold(record(pair, offset))
        events += [] if event is None else [event]
    return cluster, events


def fold(*log: Pair) -> tuple[ClusterConfig, list[Event]]:
    """Fold these records, one behind the other; return the view and its events."""
    return fold_at(enumerate(log))
