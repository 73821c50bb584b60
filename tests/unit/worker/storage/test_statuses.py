"""The status store, traces and the masking of secrets."""

from __future__ import annotations

from headrace.worker.logging.redaction import Redaction, trace_of
from headrace.worker.model import State, Status, TaskId
from headrace.worker.storage.statuses import MemoryStatusStore

RUNNING = Status(State.RUNNING, "a:1", generation=2)


def test_keeps_the_last_status_of_connectors_and_tasks_apart() -> None:
    store = MemoryStatusStore()
    store.put("c", RUNNING)
    store.put(TaskId("c", 10), RUNNING)
    store.put(TaskId("c", 2), Status(State.FAILED, "a:1", trace="x"))
    store.put(TaskId("d", 0), RUNNING)
    assert store.get("c") == RUNNING
    assert list(store.tasks("c")) == [2, 10]
    store.forget(TaskId("c", 2))
    assert list(store.tasks("c")) == [10]
    assert store.get(TaskId("c", 2)) is None


def test_a_connector_takes_the_statuses_of_its_tasks_with_it() -> None:
    store = MemoryStatusStore()
    for who in ("c", TaskId("c", 0), TaskId("d", 0), "e", TaskId("e", 3)):
        store.put(who, RUNNING)
    assert store.connectors() == ["c", "d", "e"]
    store.forget("c")
    assert (store.get("c"), store.tasks("c"), store.connectors()) == (None, {}, ["d", "e"])
    store.forget(TaskId("d", 0))
    store.forget(TaskId("d", 1))
    assert store.connectors() == ["e"]
    assert list(store.tasks("e")) == [3]


def test_put_safe_gives_way_to_another_worker_of_a_later_generation() -> None:
    store = MemoryStatusStore()
    store.put("c", RUNNING)
    assert not store.put_safe("c", Status(State.UNASSIGNED, "b:1", generation=1))
    assert store.get("c") == RUNNING
    assert store.put_safe("c", Status(State.UNASSIGNED, "b:1", generation=2))
    assert store.put_safe("c", Status(State.FAILED, "b:1", generation=1))
    assert store.get("c") == Status(State.FAILED, "b:1", generation=1)


def test_topics_are_sorted_and_forgotten_by_connector() -> None:
    store = MemoryStatusStore()
    for topic in ("z", "a", "z"):
        store.put_topic(TaskId("c", 0), topic)
    store.put_topic(TaskId("d", 0), "d")
    assert store.topics("c") == ["a", "z"]
    store.forget_topics("c")
    assert (store.topics("c"), store.topics("d")) == ([], ["d"])


def test_a_trace_begins_as_in_java_and_names_the_cause() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ConnectionError("outer s3cret") from inner
    except ConnectionError as error:
        trace = trace_of(error, Redaction(["s3cret"]))
    assert trace.startswith("ConnectionError: outer [hidden]\nTraceback")
    assert "KeyError: 'inner'" in trace
    assert "s3cret" not in trace
