"""Offsets as operators are shown them and may change them, in Apache's words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.config.settings import Setting, Settings, Type
from headrace.config.variables import Variables
from headrace.plugins.contracts import RetriableError, TopicPartition
from headrace.worker.errors import BadRequest, ConnectError, TimedOut
from headrace.worker.herder.offset_changes import OFFSET, PARTITION, TOPIC, OffsetChanges
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.model import TargetState
from headrace.worker.storage.history import MemoryHistory
from headrace.worker.storage.offset_file import OffsetFile, SourceOffsets
from headrace.worker.storage.offset_topic import OffsetTopic
from tests.unit.worker.storage.fake_topic import CONFIG, FakeLog

A, B = {"filename": "a"}, {"filename": "b"}
EXTERNALLY = (
    "The Connect framework-managed offsets for this connector have been {0} successfully. However, if this connector "
    "manages offsets externally, they will need to be manually {0} in the system that the connector uses."
)


class Scripted:
    """A connector that answers, or raises, what it is told."""

    settings = Settings(Setting("pin", Type.PASSWORD, None))
    answer: ClassVar[bool | Exception | None] = True
    asked: ClassVar[list[Any]] = []

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool | None:
        Scripted.asked.append((dict(config), offsets))
        if isinstance(Scripted.answer, Exception):
            raise Scripted.answer
        return Scripted.answer


class FakeGroup:
    """A consumer group; all that are made share its state."""

    committed: ClassVar[dict[TopicPartition, int]] = {}
    altered: ClassVar[list[Any]] = []
    deleted: ClassVar[int] = 0

    def __init__(self, _config: Any, connector: Mapping[str, str]) -> None:
        assert connector["name"] == "c"

    def offsets(self, failure: str = "") -> dict[TopicPartition, int]:
        return FakeGroup.committed

    def offsets_at(self, at_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(FakeGroup.committed, at_ms)

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        FakeGroup.altered.append(dict(offsets))

    def delete(self) -> None:
        FakeGroup.deleted += 1


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Scripted.answer, Scripted.asked = True, []
    FakeGroup.committed, FakeGroup.altered, FakeGroup.deleted = {}, [], 0


@pytest.fixture(params=["file", "topic"])
def sources(request: pytest.FixtureRequest, tmp_path: Path) -> SourceOffsets:
    if request.param == "file":
        return OffsetFile(tmp_path / "offsets")
    return OffsetTopic(CONFIG, FakeLog().open)  # type: ignore[arg-type]


def connector(kind: Any, target: TargetState = TargetState.STOPPED, tasks: int = 0) -> ConnectorDefinition:
    config = {"name": "c", "connector.class": "Scripted", "pin": "s3cret"}
    configs = tuple({"n": str(number)} for number in range(tasks))
    return ConnectorDefinition(config, kind, Scripted, target, configs, variables=Variables({}))  # type: ignore[arg-type]


SOURCE, SINK = connector("source"), connector("sink")


def changes(sources: SourceOffsets) -> OffsetChanges:
    return OffsetChanges(CONFIG, sources, FakeGroup)


@pytest.fixture
def sinks(tmp_path: Path) -> OffsetChanges:
    return changes(OffsetFile(tmp_path / "offsets"))


def refused(change: Any) -> ConnectError:
    with pytest.raises(ConnectError) as raised:
        change()
    return raised.value


@pytest.mark.parametrize(
    ("target", "tasks", "fit"),
    [
        (TargetState.STOPPED, 0, True),
        (TargetState.STOPPED, 1, False),
        (TargetState.PAUSED, 0, False),
        (TargetState.STARTED, 1, False),
    ],
)
def test_only_a_stopped_connector_without_tasks_may_be_changed(target: TargetState, tasks: int, fit: bool) -> None:
    wanted = connector("source", target, tasks)
    if fit:
        wanted.check_stopped()
        return
    error = refused(wanted.check_stopped)
    assert (error.status, error.message) == (
        400,
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        "specified connector by issuing a 'PUT' request to the '/connectors/c/stop' endpoint",
    )


def test_a_source_is_shown_without_what_is_hidden(sources: SourceOffsets) -> None:
    sources.set("c", A, {"position": 34, "line": None, "_generation": 0, "_head": 7})
    sources.set("d", B, {"position": 1})
    assert list(changes(sources).shown(SOURCE)) == [(A, {"position": 34})]


def test_a_source_is_altered_one_partition_at_a_time(sources: SourceOffsets) -> None:
    sources.set("c", A, {"position": 34, "line": 3, "_generation": 2, "_head": 7})
    sources.set("c", B, {"position": 5})
    told = changes(sources).alter(SOURCE, [(A, {"position": 17, "_head": 9}), ({"filename": "new"}, {"position": 0})])
    assert told == "The offsets for this connector have been altered successfully"
    assert sources.get("c", A) == {"position": 17}
    assert sources.get("c", B) == {"position": 5}
    assert sources.get("c", {"filename": "new"}) == {"position": 0}
    changes(sources).alter(SOURCE, [(B, None), ({"filename": "unknown"}, None)])
    assert [partition for partition, _ in sources.of("c")] == [A, {"filename": "new"}]


def test_what_was_altered_is_stored(tmp_path: Path) -> None:
    changes(OffsetFile(tmp_path / "offsets")).alter(SOURCE, [(A, {"position": 17})])
    assert OffsetFile(tmp_path / "offsets").get("c", A) == {"position": 17}
    log = FakeLog()
    store = OffsetTopic(CONFIG, log.open)  # type: ignore[arg-type]
    changes(store).alter(SOURCE, [(A, {"position": 17})])
    assert log.pairs() == [('["c",{"filename":"a"}]', '{"position":17}')]


def test_a_source_is_reset_in_all_its_partitions(sources: SourceOffsets) -> None:
    for partition in (A, B):
        sources.set("c", partition, {"position": 1})
    sources.set("d", A, {"position": 1})
    told = changes(sources).reset(SOURCE)
    assert told == "The offsets for this connector have been reset successfully"
    assert (sources.of("c"), sources.of("d")) == ([], [(A, {"position": 1})])
    (asked,) = Scripted.asked
    forgotten = [{"partition": A, "offset": None}, {"partition": B, "offset": None}]
    assert asked[1] == {"offsets": forgotten, "reset": True}
    assert changes(sources).reset(SOURCE) == told


def test_a_connector_that_keeps_offsets_elsewhere_too_is_told_of(sources: SourceOffsets) -> None:
    Scripted.answer = None
    for who in (SOURCE, SINK):
        given = [(A, {"position": 1})] if who is SOURCE else [({"kafka_topic": "t", "kafka_partition": 0}, None)]
        assert changes(sources).alter(who, given) == EXTERNALLY.format("altered")
        assert changes(sources).reset(who) == EXTERNALLY.format("reset")


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_what_the_connector_finds_wrong_changes_nothing(sources: SourceOffsets, kind: Any) -> None:
    sources.set("c", A, {"position": 1})
    who = connector(kind)
    given = [(A, {"position": 2})] if kind == "source" else [({"kafka_topic": "t", "kafka_partition": 0}, None)]
    for raised, status, message in (
        (ValueError("no good with s3cret"), 400, "no good with [hidden]"),
        (RetriableError("database away"), 500, "database away"),
        (ConnectError("cannot"), 500, "cannot"),
        (
            False,
            400,
            "Connector c refuses these offsets and does not say why: check them against what GET /connectors/c/offsets "
            "shows",
        ),
        (
            NotImplementedError(),
            500,
            "Failed to modify offsets for connector c because it doesn't support external modification of offsets",
        ),
    ):
        Scripted.answer = raised
        for change in (lambda: changes(sources).alter(who, given), lambda: changes(sources).reset(who)):
            error = refused(change)
            assert (error.status, error.message) == (status, message)
    assert (sources.get("c", A), FakeGroup.altered, FakeGroup.deleted) == ({"position": 1}, [], 0)


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        (None, {"position": 1}, "Partition objects cannot be null"),
        ([], {"position": 1}, "Offsets must be specified as a Map"),
        (A, 5, "Offsets must be specified as a Map"),
        (A, {"p": {}}, "Offsets may only contain primitive types as values, but field p contains MAP"),
        ({"f": [1]}, None, "Offsets may only contain primitive types as values, but field f contains ARRAY"),
    ],
)
def test_what_is_no_source_offset_is_refused(sources: SourceOffsets, partition: Any, offset: Any, text: str) -> None:
    error = refused(lambda: changes(sources).alter(SOURCE, [(A, {"position": 1}), (partition, offset)]))
    assert (error.status, error.message) == (400, text)
    assert (sources.of("c"), Scripted.asked) == ([], [])


def test_offsets_that_could_not_be_stored_are_told_and_not_stored_later() -> None:
    log = FakeLog()
    store = OffsetTopic(CONFIG, log.open)  # type: ignore[arg-type]
    log.errors = [RetriableError("away")]
    assert (
        "could not be stored in time" in refused(lambda: changes(store).alter(SOURCE, [(A, {"position": 1})])).message
    )
    store.flush()
    assert (log.records, store.get("c", A)) == ([], None)


def test_an_offset_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    store = OffsetFile(folder / "offsets")
    folder.write_text("a file")
    error = refused(lambda: changes(store).alter(SOURCE, [(A, {"position": 1})]))
    assert (error.status, error.message.startswith("The offsets of connector c could not be stored")) == (500, True)


def test_a_store_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = OffsetTopic(CONFIG, FakeLog().open)  # type: ignore[arg-type]

    def late() -> None:
        raise RetriableError("no end in sight")

    monkeypatch.setattr(store, "refresh", late)
    for ask in (
        lambda: changes(store).shown(SOURCE),
        lambda: changes(store).reset(SOURCE),
        lambda: changes(store).alter(SOURCE, [(A, None)]),
    ):
        with pytest.raises(TimedOut, match="no end in sight"):
            ask()


def at(topic: Any = "t", partition: Any = 0) -> dict[str, Any]:
    return {"kafka_topic": topic, "kafka_partition": partition}


def test_a_sink_s_offsets_at_a_time_are_told_and_a_source_s_are_not(sinks: OffsetChanges) -> None:
    FakeGroup.committed = {TopicPartition("t", 1): 5}
    assert list(sinks.at(SINK, 77)) == [({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": 77})]
    assert "its offsets know no time" in refused(lambda: sinks.at(SOURCE, 77)).message


def test_a_sink_is_shown_altered_and_reset(sinks: OffsetChanges) -> None:
    FakeGroup.committed = {TopicPartition("t", 1): 5}
    assert list(sinks.shown(SINK)) == [(at("t", 1), {"kafka_offset": 5})]
    wanted = [(at(), {"kafka_offset": 3}), (at(7, "1"), {"kafka_offset": "12"}), (at("t", 2), None)]
    assert sinks.alter(SINK, wanted) == "The offsets for this connector have been altered successfully"
    assert FakeGroup.altered == [{TopicPartition("t", 0): 3, TopicPartition("7", 1): 12, TopicPartition("t", 2): None}]
    assert Scripted.asked[0][1]["offsets"][1] == {"partition": at("7", 1), "offset": {"kafka_offset": 12}}
    assert sinks.reset(SINK) == "The offsets for this connector have been reset successfully"
    assert Scripted.asked[1][1] == {"offsets": [{"partition": at("t", 1), "offset": None}], "reset": True}
    assert FakeGroup.deleted == 1


PARTITION_TEXT = (
    "Failed to parse the following Kafka partition value in the provided offsets: '{}'. Partition values for sink "
    "connectors need to be integers."
)
OFFSET_TEXT = (
    "Failed to parse the following Kafka offset value in the provided offsets: '{}'. Offset values for sink connectors "
    "need to be integers."
)


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        (None, None, "The partition for a sink connector offset cannot be null or missing"),
        (
            {"topic": "t"},
            {"kafka_offset": 0},
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'",
        ),
        (at(None), None, "Kafka topic names must be valid strings and may not be null"),
        (at(partition=None), None, "Kafka partitions must be valid numbers and may not be null"),
        (at(partition="x"), None, PARTITION_TEXT.format("x")),
        (at(partition=1.0), None, PARTITION_TEXT.format("1.0")),
        (at(partition=True), None, PARTITION_TEXT.format("true")),
        (at(partition=1 << 31), None, PARTITION_TEXT.format("2147483648")),
        (at(partition="1_0"), None, PARTITION_TEXT.format("1_0")),
        (
            at(),
            {"offset": 1},
            "The offset for a sink connector should either be null or contain the key 'kafka_offset'",
        ),
        (at(), {"kafka_offset": None}, OFFSET_TEXT.format("null")),
        (at(), {"kafka_offset": " 1"}, OFFSET_TEXT.format(" 1")),
        (at(), {"kafka_offset": 1 << 63}, OFFSET_TEXT.format("9223372036854775808")),
        (at(), {"kafka_offset": -1}, "Kafka offsets may not be negative, but one of the provided offsets has -1"),
    ],
)
def test_what_is_no_offset_of_a_sink_is_refused(sinks: OffsetChanges, partition: Any, offset: Any, text: str) -> None:
    with pytest.raises(BadRequest) as raised:
        sinks.alter(SINK, [(at(), {"kafka_offset": 3}), (partition, offset)])
    assert raised.value.message == text
    assert (FakeGroup.altered, Scripted.asked) == ([], [])


def test_the_history_is_told_what_moved_and_nothing_of_a_refused_change(
    sources: SourceOffsets, sinks: OffsetChanges
) -> None:
    history = MemoryHistory()
    sources.set("c", A, {"position": 34, "_generation": 2})
    sources.set("c", B, {"position": 5})
    changed = changes(sources)
    changed.alter(SOURCE, [(A, {"position": 1}), (B, {"position": 5})], history)
    changed.reset(SOURCE, history)
    FakeGroup.committed = {TopicPartition("t", 0): 7}
    sinks.alter(SINK, [({TOPIC: "t", PARTITION: "0"}, {OFFSET: "3"}), ({TOPIC: "t", PARTITION: 1}, None)], history)
    sinks.reset(SINK, history)
    Scripted.answer = False
    refused(lambda: sinks.reset(SINK, history))
    at_first = {TOPIC: "t", PARTITION: 0}
    assert [list(one.moves) for one in history.revisions("c")] == [
        [(A, {"position": 34}, {"position": 1})],
        [(A, {"position": 1}, None), (B, {"position": 5}, None)],
        [(at_first, {OFFSET: 7}, {OFFSET: 3})],
        [(at_first, {OFFSET: 7}, None)],
    ]
