"""The positions of a sink's consumer after rests, seeks that fail, and with partitions that come, also once more."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.contracts import RetriableError, TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.errors import CertificateRefused
from headrace.worker.pipeline.stages import Stages
from headrace.worker.tasks import consumer_membership, sink_consumer, static_member
from headrace.worker.tasks.committed_offsets import StableOffsets
from headrace.worker.tasks.fetched import RecordTooLarge
from headrace.worker.tasks.missing_topics import MissingTopics
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.sink_consumer import SinkConsumer
from headrace.worker.tasks.static_member import Fenced
from headrace.worker.tasks.subscription import TopicSubscription

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Message:
    """A record of a partition, its end, or another error."""

    def __init__(
        self, offset: int, end: bool = False, code: int | None = None, of: TopicPartition = P0, size: int = 1
    ) -> None:
        self.key, self.size = (lambda: None), size
        self.headers: Callable[[], list[tuple[str, bytes | None]] | None] = lambda: None
        code = KafkaError._PARTITION_EOF if end else code
        self.offset = lambda: offset
        self.topic, self.partition = (lambda: of.topic), (lambda: of.partition)
        self.error = lambda: None if code is None else KafkaError(code)

    def __len__(self) -> int:
        return self.size


clients: list[Client] = []


class Client:
    """Gives what `script` holds; whatever in it can be called happens first."""

    def __init__(self, config: Any, logger: Any) -> None:
        clients.append(self)
        self.on_commit, self.error_cb = config["on_commit"], config["error_cb"]
        self.script: list[Message | Callable[[], None]] = []
        self.assigned: dict[tuple[str, int], int] = {}
        self.paused: set[int] = set()
        self.seeks_fail = self.away = False
        self.known = 10
        self.assigns = 0
        self.answer: list[Any] | None = None
        self.commits: list[dict[TopicPartition, int]] = []
        self.watermarks = 0, 0
        self.fatal = False
        self.sought: list[tuple[int, int]] = []

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + struct.pack("=i", 1) + b"group\0member\0\1"

    def subscribe(self, _topics: list[str], on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost

    def comes(self, *numbers: int) -> None:
        self.on_assign(self, [Position("t", number) for number in numbers])

    def goes(self, *numbers: int) -> None:
        self.on_lost(self, [Position("t", number) for number in numbers])

    def poll(self, _seconds: float) -> Message | None:
        while self.script:
            step = self.script.pop(0)
            if isinstance(step, Message):
                if step.error() is None:
                    self.assigned[step.topic(), step.partition()] = step.offset() + 1
                return step
            step()
        return None

    def consume(self, most: int, _seconds: float) -> list[Message]:
        taken = (self.poll(0) for _ in range(most))
        return [message for message in taken if message is not None]

    def committed(self, positions: list[Any], timeout: float) -> list[Any]:
        return [Position(p.topic, p.partition, self.known) for p in positions]

    def commit(self, offsets: list[Any], asynchronous: bool) -> list[Any] | None:
        self.commits.append({TopicPartition(p.topic, p.partition): p.offset for p in offsets})
        return self.answer

    def get_watermark_offsets(self, _partition: Any, timeout: float) -> tuple[int, int]:
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.watermarks

    def assign(self, positions: list[Any]) -> None:
        if self.fatal:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        self.assigned = {(p.topic, p.partition): p.offset for p in positions}  # whatever is paused stays so
        self.assigns += 1

    def incremental_assign(self, positions: list[Any]) -> None:
        self.assigned |= {(p.topic, p.partition): p.offset for p in positions}

    def incremental_unassign(self, positions: list[Any]) -> None:
        for p in positions:
            del self.assigned[p.topic, p.partition]

    list_topics: Callable[[float], None]

    def pause(self, positions: list[Any]) -> None:
        self.paused |= {p.partition for p in positions}

    def resume(self, positions: list[Any]) -> None:
        self.paused -= {p.partition for p in positions}

    def seek(self, position: Any) -> None:
        if self.seeks_fail:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.assigned[position.topic, position.partition] = position.offset
        self.sought.append((position.partition, position.offset))


class Rig:
    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        subscription: TopicSubscription | None = None,
        stable: StableOffsets | None = None,
        **config: str,
    ) -> None:
        monkeypatch.setattr(sink_consumer, "Consumer", Client)
        self.ended: list[bool] = []
        """For each end of a batch, whether its partitions were lost."""
        self.remade: set[str] = set()
        self.closed: list[bool] = []
        self.told: list[dict[TopicPartition, int]] = []
        """The positions that the sink was told before Kafka."""
        self.owner: Any = SimpleNamespace(
            open=lambda _: {},
            close=lambda _: self.closed.append(True),
            pre_commit=lambda positions: self.told.append(dict(positions)),
            metrics=SimpleNamespace(committed=lambda _seconds, ok: None, stages=Stages()),
            end_batch=lambda lost: self.ended.append(lost),
            stop=StopToken(),
            abandoned=False,
            may_take=lambda: True,
        )
        self.there = {"t"}
        self.is_answered = True
        """True if the brokers have told which topics they are."""
        self.topic_ids: Any = SimpleNamespace(
            ask=lambda topics: SimpleNamespace(topics=set(topics), is_done=lambda: self.is_answered),
            remade=lambda asked: self.remade & asked.topics,
            ids=lambda topics: dict.fromkeys(self.there & set(topics), "id"),
        )
        self.positions = Positions("earliest")
        self.subscription = subscription or TopicSubscription(["t", "u"], "", 300)
        self.consumer = SinkConsumer(
            config,
            self.subscription,
            self.topic_ids,
            self.positions,
            self.owner,
            self.owner,
            self.owner,
            8 << 20,
            stable,
        )
        self.client = clients.pop()
        self.client.script = [lambda: self.client.comes(0, 1)]
        assert self.fetch() == []
        assert self.client.assigned == {P0: 10, P1: 10}

    def fetch(self, *script: Message | Callable[[], None]) -> list[int]:
        self.client.script += script
        return [message.offset() for message in self.consumer.fetch(0, 2000, 1 << 20)]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


@pytest.mark.parametrize("seeks_fail", [False, True])
def test_each_partition_rests_where_the_task_has_come_to(rig: Rig, seeks_fail: bool) -> None:
    rig.client.seeks_fail = seeks_fail
    rig.positions.go_on({P0: 12, P1: 15})
    for partition in (P0, P1):
        rig.consumer.partitions.rest(partition, time.monotonic() + 60)
    assert rig.client.assigned == {P0: 12, P1: 15}
    assert rig.client.paused == {0, 1}
    assert 50 < (rig.consumer.partitions.wake() or 0) <= 60
    rig.consumer.partitions.rest(P1, 0)
    assert rig.consumer.partitions.wake() is not None
    assert rig.client.paused == {0}


def test_a_partition_that_went_while_held_and_came_back_when_free_is_read(rig: Rig) -> None:
    rig.consumer.partitions.hold()
    rig.fetch(lambda: rig.client.goes(0, 1))
    rig.consumer.partitions.release()
    assert rig.client.paused == {0, 1}
    rig.fetch(lambda: rig.client.comes(0, 1))
    assert not rig.client.paused


@pytest.mark.parametrize(
    "config", [{"group.protocol": "consumer"}, {"partition.assignment.strategy": "cooperative-sticky"}]
)
def test_partitions_that_come_one_by_one_leave_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, str]
) -> None:
    rig = Rig(monkeypatch, **config)
    later = TopicPartition("t", 2)
    rig.positions.go_on({P0: 12})
    rig.fetch(lambda: rig.client.comes(2))
    assert rig.consumer.partitions.assigned == [P0, P1, later]
    assert rig.client.assigned == {P0: 10, P1: 10, later: 10}
    rig.client.seeks_fail = True
    rig.consumer.partitions.seek()
    assert rig.client.assigned == {P0: 12, P1: 10, later: 10}
    assert rig.client.assigns == 0


def test_the_end_of_a_partition_that_went_is_forgotten(rig: Rig) -> None:
    assert rig.fetch(Message(10), Message(20, end=True)) == [10]
    rig.client.script = [lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1)]
    rig.consumer.stay(0)
    assert rig.consumer.partitions.kept == set()
    rig.consumer.partitions.pass_ends()
    assert rig.positions.next(P0) == 10
    assert rig.fetch(Message(10)) == [10]
    assert rig.consumer.partitions.kept == {P0, P1}


def test_what_comes_while_partitions_go_is_read_anew(rig: Rig) -> None:
    back = (lambda: rig.client.goes(0, 1)), (lambda: rig.client.comes(0, 1))
    assert rig.fetch(Message(10), *back, Message(11), Message(12, end=True)) == []
    assert rig.client.assigned == {P0: 10, P1: 10}
    rig.consumer.partitions.pass_ends()
    assert rig.positions.next(P0) == 10


@pytest.fixture
def latest(rig: Rig) -> Rig:
    """Nothing is committed for P0, and what is new in it is wanted."""
    rig.positions.policy, rig.client.known = "latest", -1001
    rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1))
    rig.positions.go_on({P1: 10})
    assert rig.client.assigned[P0] == OFFSET_END
    return rig


@pytest.mark.parametrize("first", [Message(100), Message(100, end=True)], ids=["a record", "its end"])
def test_a_partition_is_read_from_what_it_gave_first_where_another_is_out_of_range(latest: Rig, first: Message) -> None:
    latest.client.watermarks = 15, 20
    latest.fetch(first, Message(10, code=KafkaError._AUTO_OFFSET_RESET, of=P1))
    assert latest.client.assigned == {P0: 100, P1: 20}


def test_a_partition_is_read_from_what_it_gave_first_where_another_topic_was_made_again(latest: Rig) -> None:
    other = TopicPartition("u", 0)
    latest.client.script = [lambda: latest.client.goes(0, 1)]
    latest.client.script += [lambda: latest.client.on_assign(latest.client, [Position("t", 0), Position(*other)])]
    latest.fetch(Message(0, code=KafkaError.UNKNOWN_TOPIC_OR_PART, of=other))
    latest.remade = {"u"}
    assert latest.fetch(Message(100), Message(101), Message(5, of=other)) == []
    assert latest.client.assigned == {P0: 100, other: OFFSET_BEGINNING}, "all that is in it is new"


@pytest.mark.parametrize(("policy", "begin"), [("earliest", 15), ("latest", None)])
def test_a_job_may_begin_where_nothing_was_read_yet(latest: Rig, policy: str, begin: int | None) -> None:
    latest.positions.policy, latest.client.watermarks = policy, (15, 20)
    assert (latest.consumer.partitions.begin(P0), latest.consumer.partitions.begin(P1)) == (begin, 10)
    latest.fetch(Message(17))
    assert latest.consumer.partitions.begin(P0) == 17


def test_where_a_partition_began_is_forgotten_when_it_goes(latest: Rig) -> None:
    assert latest.fetch(lambda: latest.client.goes(0, 1), Message(100)) == []
    latest.fetch(lambda: latest.client.comes(0))
    assert latest.client.assigned == {P0: OFFSET_END}


def test_partitions_that_come_while_nothing_else_does_are_read_once(rig: Rig) -> None:
    rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1))
    assert rig.client.assigns == 2, "at first, and when they came again"


def test_partitions_are_asked_for_until_the_sink_can_take_them(rig: Rig) -> None:
    waited: list[float] = []

    def open_when_it_is_back(_: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if len(waited) < 3:
            raise RetriableError("it is away")
        return {P0: 19}

    rig.owner.open, rig.owner.wait = open_when_it_is_back, waited.append
    assert rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1)) == []
    assert len(waited) == 3
    assert rig.client.assigned == {P0: 19, P1: 10}


def test_what_the_outside_system_says_counts_in_both_directions(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.owner.open = lambda _: {P0: 2, P1: 12}
    assert rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1)) == []
    assert rig.client.assigned == {P0: 2, P1: 12}
    (warning,) = [text for text in caplog.messages if "restored from a backup" in text]
    assert warning.startswith("t-0 goes back from offset 10, which its group has committed, to 2, ")
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == [{P0: 2, P1: 12}]


@pytest.mark.parametrize("known", [10, -1001], ids=["committed", "nothing committed"])
def test_what_came_beside_a_question_that_nobody_answers_comes_again(rig: Rig, known: int) -> None:
    rig.client.known = known
    rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1))
    rig.client.away = True
    if known < 0:
        rig.positions.go_on({P1: 10})
    trouble = Message(10, code=KafkaError._AUTO_OFFSET_RESET, of=P1)
    with pytest.raises(RetriableError):
        rig.fetch(Message(10), Message(11), Message(12, end=True), trouble)
    assert rig.client.assigned == {P0: 10, P1: 10}
    rig.consumer.partitions.pass_ends()
    assert rig.positions.next(P0) == (10 if known > 0 else None)


def test_what_came_beside_an_error_of_the_group_comes_again(rig: Rig) -> None:
    def away(_: object) -> None:
        raise RetriableError("the sink's server is away")

    rig.owner.close = away
    gone = lambda: rig.client.goes(1)  # noqa: E731
    with pytest.raises(RetriableError):
        rig.fetch(gone, Message(10), Message(11))
    assert rig.client.assigned[P0] == 10
    assert rig.consumer.partitions.assigned == [P0], "the other one is another's now, whatever the sink says"
    assert rig.fetch(Message(10), Message(11)) == [10, 11]


@pytest.mark.parametrize(("policy", "goes_on"), [("earliest", 5), ("latest", 20)])
def test_what_kafka_has_no_more_is_passed_over_with_a_word(
    rig: Rig, policy: str, goes_on: int, caplog: pytest.LogCaptureFixture
) -> None:
    rig.positions.policy = policy
    rig.owner.open = lambda _: {P0: 2}
    rig.client.watermarks = 5, 20
    gone = Message(2, code=KafkaError._AUTO_OFFSET_RESET)
    assert rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1), gone) == []
    assert rig.client.assigned == {P0: goes_on, P1: 10}
    assert any("the records 2 to 4 were deleted" in text for text in caplog.messages)


def test_kafka_is_told_nothing_that_the_sink_does_not_have(rig: Rig) -> None:
    rig.positions.go_on({P0: 12})
    rig.consumer.offsets.commit(wait=True)
    assert (rig.told, rig.client.commits) == ([{P0: 12}], [{P0: 12}])

    def away(_: object) -> None:
        raise RetriableError("away")

    rig.positions.go_on({P0: 15})
    rig.owner.pre_commit = away
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == [{P0: 12}]
    rig.owner.pre_commit = rig.told.append
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == [{P0: 12}, {P0: 15}]


@pytest.fixture
def passing(rig: Rig) -> Rig:
    """A commit has begun that has to wait for an answer."""
    rig.is_answered = False
    rig.positions.go_on({P0: 12, P1: 12})
    assert not rig.consumer.offsets.commit_in_passing()
    return rig


def test_a_commit_in_passing_is_of_what_was_reached_when_the_topics_were_asked_for(passing: Rig) -> None:
    passing.positions.go_on({P0: 15})
    assert not passing.consumer.offsets.commit_in_passing()
    assert passing.client.commits == []
    passing.is_answered = True
    assert passing.consumer.offsets.commit_in_passing()
    assert passing.told == passing.client.commits == [{P0: 12, P1: 12}]
    assert passing.consumer.offsets.commit_in_passing()
    assert passing.client.commits[1:] == [{P0: 15}]
    assert passing.consumer.offsets.commit_in_passing()
    assert len(passing.client.commits) == 2


def test_a_commit_in_passing_is_of_nothing_that_comes_again(passing: Rig) -> None:
    passing.positions.go_on({P0: 11})
    passing.is_answered = True
    assert passing.consumer.offsets.commit_in_passing()
    assert passing.client.commits == [{P0: 11, P1: 12}]


def test_a_commit_in_passing_ends_with_the_partitions(passing: Rig) -> None:
    passing.fetch(lambda: passing.client.goes(0, 1), lambda: passing.client.comes(0, 1))
    passing.positions.go_on({P0: 14})
    passing.is_answered = True
    assert passing.consumer.offsets.commit_in_passing()
    assert passing.client.commits == [{P0: 14}]


def test_a_commit_in_passing_is_of_no_topic_that_was_made_again_or_is_gone(passing: Rig) -> None:
    passing.remade = {"t"}
    passing.is_answered = True
    assert passing.consumer.offsets.commit_in_passing()
    assert passing.client.commits == []
    assert passing.client.assigned == {P0: OFFSET_BEGINNING, P1: OFFSET_BEGINNING}
    passing.remade, passing.is_answered = set(), False
    passing.positions.go_on({P0: 3})
    assert not passing.consumer.offsets.commit_in_passing()
    passing.fetch(Message(0, code=KafkaError.UNKNOWN_TOPIC_OR_PART))
    passing.is_answered = True
    assert passing.consumer.offsets.commit_in_passing()
    assert passing.client.commits == []


def test_only_what_the_sink_releases_is_committed(rig: Rig) -> None:
    released: dict[TopicPartition, int] = {}
    rig.owner.pre_commit = lambda positions: rig.told.append(positions) or released
    rig.positions.go_on({P0: 15, P1: 20})
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == []
    released |= {P0: 12, P1: -1}
    rig.consumer.offsets.commit(wait=True)
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == [{P0: 12}]
    assert rig.told == [{P0: 15, P1: 20}] * 3
    released |= {P0: 15, P1: 20}
    rig.consumer.offsets.commit(wait=True)
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == [{P0: 12}, {P0: 15, P1: 20}]
    assert len(rig.told) == 4


def test_what_was_done_of_a_topic_that_was_gone_for_a_moment_is_committed(rig: Rig) -> None:
    rig.positions.go_on({P0: 12})
    rig.there = set()
    rig.fetch(Message(12, code=KafkaError.UNKNOWN_TOPIC_OR_PART))
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == []
    rig.there = {"t"}
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == [{P0: 12}]


def test_a_missing_topic_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    missing = TopicPartition("missing", 0)
    for _ in range(3):
        rig.fetch(Message(0, code=KafkaError.UNKNOWN_TOPIC_OR_PART, of=missing))
    assert len([text for text in caplog.messages if text.endswith("; waiting")]) == 1


@pytest.mark.parametrize("wait", [True, False])
def test_what_kafka_refuses_of_a_commit_is_committed_again(rig: Rig, wait: bool) -> None:
    refused: Any = SimpleNamespace(topic="t", partition=0, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    taken: Any = SimpleNamespace(topic="t", partition=1, error=None)
    rig.positions.go_on({P0: 12, P1: 15})
    rig.client.answer = [refused, taken] if wait else None
    rig.consumer.offsets.commit(wait=wait)
    if not wait:
        rig.client.on_commit(None, [refused, taken])
    rig.client.answer = None
    rig.consumer.offsets.commit(wait=wait)
    assert rig.client.commits == [{P0: 12, P1: 15}, {P0: 12}]


def test_partitions_go_though_nothing_can_be_committed(rig: Rig) -> None:
    rig.positions.go_on({P0: 12})
    rig.owner.pre_commit = lambda _: 1 / 0
    with pytest.raises(ZeroDivisionError):
        rig.fetch(lambda: rig.client.on_revoke(rig.client, [Position("t", 0)]))
    assert rig.closed
    assert rig.consumer.partitions.assigned == [P1]


def test_partitions_that_are_lost_go_whatever_the_batch_fails_of(rig: Rig) -> None:
    rig.owner.end_batch = lambda lost: 1 / 0
    with pytest.raises(ZeroDivisionError):
        rig.fetch(lambda: rig.client.goes(0))
    assert rig.closed
    assert rig.consumer.partitions.assigned == [P1]


def test_a_sink_is_given_the_partitions_of_a_topic_that_was_made_again_anew(rig: Rig) -> None:
    opened: list[TopicPartition] = []
    rig.owner.open = lambda partitions: opened.extend(partitions) or {P0: 99}
    rig.remade = {"t"}
    assert rig.consumer.offsets.restart_remade({"t"})
    assert sorted(opened) == [P0, P1]
    assert rig.positions.next(P0) is None, "it is read from its beginning"


def test_what_came_of_the_former_topic_is_not_handled(rig: Rig) -> None:
    """The records of the new one would pass for handled up to there."""
    rig.remade = {"t"}
    assert rig.fetch(Message(10), Message(10, code=KafkaError._AUTO_OFFSET_RESET, of=P1)) == []
    assert rig.client.assigned == {P0: OFFSET_BEGINNING, P1: OFFSET_BEGINNING}
    assert rig.consumer.partitions.kept == set()
    rig.remade = set()
    assert rig.fetch(Message(0)) == [0]
    assert rig.consumer.partitions.kept == {P0, P1}


def test_an_end_is_not_gone_past_where_what_came_before_it_comes_again(rig: Rig) -> None:
    of_other = TopicPartition("u", 0)
    assert rig.fetch(Message(0, code=KafkaError.UNKNOWN_TOPIC_OR_PART, of=of_other)) == []
    rig.remade = {"u"}
    assert rig.fetch(Message(10), Message(11, end=True), Message(0, of=of_other)) == []
    rig.consumer.partitions.pass_ends()
    assert (rig.positions.next(P0), rig.client.assigned[P0]) == (10, 10)


def test_what_runs_on_a_topic_that_was_made_again_counts_no_more(rig: Rig) -> None:
    rig.positions.go_on({P0: 12, P1: 15})
    assert not rig.consumer.offsets.restart_remade({"t"})
    assert rig.ended == []
    rig.remade = {"t"}
    assert rig.consumer.offsets.restart_remade({"t"})
    assert rig.ended == [True]
    assert rig.positions.next(P0) is None


def test_a_fenced_consumer_has_lost_everything(rig: Rig) -> None:
    text = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
    fatal = Message(0)
    fatal.error = lambda: KafkaError(KafkaError._FATAL, f"Fatal error: {text}")
    rig.positions.go_on({P0: 12})
    with pytest.raises(Fenced):
        rig.fetch(Message(12), fatal)
    assert (rig.ended, rig.closed, rig.consumer.partitions.assigned) == ([True], [True], [])
    rig.consumer.offsets.commit(wait=True)
    assert rig.client.commits == []


@pytest.fixture
def static(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """The consumer is a static member."""
    return Rig(monkeypatch, **{"group.id": "g", "group.instance.id": "a"})


def test_a_fenced_consumer_that_cannot_be_assigned_its_partitions_has_lost_everything(static: Rig) -> None:
    """librdkafka refuses it, by a code that does not say why, before it tells that the consumer was fenced."""
    static.client.fatal = static.client.seeks_fail = True
    with pytest.raises(Fenced):
        static.consumer.partitions.seek()
    assert (static.ended, static.closed, static.consumer.partitions.assigned) == ([True], [True], [])


def test_a_fenced_consumer_that_cannot_subscribe_has_lost_everything(
    static: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    monkeypatch.setattr(static.subscription, "renew", refuse)
    with pytest.raises(Fenced):
        static.consumer.stay(0)
    assert (static.ended, static.closed, static.consumer.partitions.assigned) == ([True], [True], [])


def test_a_fatal_error_of_a_dynamic_member_is_what_it_is(rig: Rig) -> None:
    rig.client.fatal = rig.client.seeks_fail = True
    with pytest.raises(KafkaException):
        rig.consumer.partitions.seek()


class Leaving:
    """A client that gets its id, and gives it up, or not."""

    def __init__(self, joins: bool, leaves: bool) -> None:
        self.joins, self.leaves, self.subscribed = joins, leaves, True

    def memberid(self) -> str:
        return "id" if self.joins and (self.subscribed or not self.leaves) else ""

    def unsubscribe(self) -> None:
        self.subscribed = False

    def poll(self, _seconds: float) -> None: ...


@pytest.mark.parametrize(("joins", "leaves"), [(True, True), (True, False), (False, True)])
def test_a_member_says_where_it_could_not_leave(
    joins: bool, leaves: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(static_member, "LEAVE_S", 0.01)
    client = Leaving(joins, leaves)
    static_member.leave(client, "connect-c", "g-c-0")
    assert not client.subscribed
    told = ["The consumer g-c-0 could not leave its group connect-c" in text for text in caplog.messages]
    assert told == ([] if joins and leaves else [True])


def test_partitions_of_topics_that_are_not_read_are_left_alone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka gives a static member that comes back its former assignment, whatever it is subscribed to now."""
    rig.fetch(lambda: rig.client.goes(0, 1))
    former = [Position("former", 0), Position(*P0)]
    rig.fetch(lambda: rig.client.on_assign(rig.client, former))
    assert (rig.consumer.partitions.assigned, rig.client.assigned) == ([P0], {P0: 10})
    assert any("left alone: former" in text for text in caplog.messages)
    rig.fetch(lambda: rig.client.on_revoke(rig.client, former))
    assert rig.consumer.partitions.assigned == []


def nobody() -> str:
    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_a_member_has_its_place_back_only_for_what_it_read_before() -> None:
    config = {"group.id": "g", "group.instance.id": "g-c-0"}
    before, after = (static_member.named_by_topics(config, lambda: "t") for _ in range(2))
    other = static_member.named_by_topics(config, lambda: "t, u")
    assert before == after != other
    assert other["group.instance.id"].startswith("g-c-0-")
    assert static_member.named_by_topics(config, nobody) == {"group.id": "g"}, "a dynamic one has what it asks for"


def test_messages_that_are_large_once_decompressed_are_not_taken_all_at_once(rig: Rig) -> None:
    small = [Message(10 + number) for number in range(300)]
    large = [Message(310 + number, size=512 << 10) for number in range(1000)]
    assert rig.fetch(*small, *large) == [*range(10, 313)], "of 2 MiB at most"
    assert rig.client.sought == [(0, 313)], "those that were taken off the client come again"
    rig.client.script[:0] = [Message(310 + number, size=512 << 10) for number in (3, 4, 5)]
    assert rig.fetch() == [313, 314], "their size is known by the first of them"
    assert len(rig.client.sought) == 1


def test_what_is_left_of_each_partition_comes_again_with_its_end(rig: Rig) -> None:
    ends = Message(12, end=True), Message(11, end=True, of=P1)
    assert rig.fetch(Message(10), Message(10, of=P1), Message(11, size=3 << 20), *ends) == [10, 10]
    assert rig.client.sought == [(0, 11), (1, 11)]
    rig.consumer.partitions.pass_ends()
    assert (rig.positions.next(P0), rig.positions.next(P1)) == (10, 10)
    assert rig.fetch(Message(11, size=3 << 20), Message(12)) == [11], "one is taken, however large"


def test_a_record_that_is_too_large_fails_the_task_after_all_before_it_were_taken(rig: Rig) -> None:
    large = Message(11, size=9 << 20)
    assert rig.fetch(Message(10), large) == [10]
    assert rig.client.sought == [(0, 11)]
    with pytest.raises(RecordTooLarge, match=r"offset 11 of t-0 has 9437184 bytes .* sink\.max\.record\.bytes=8388608"):
        rig.fetch(Message(10, of=P1), large)


def test_a_batch_that_cannot_be_decompressed_fails_the_task_after_all_before_it_were_taken(rig: Rig) -> None:
    bad = Message(11, code=KafkaError._BAD_COMPRESSION)
    assert rig.fetch(Message(10), bad) == [10]
    with pytest.raises(RecordTooLarge, match="The record batch at offset 11 of t-0 cannot be decompressed"):
        rig.fetch(bad)


def test_headers_count(rig: Rig) -> None:
    message = Message(10)
    message.headers = lambda: [("h", b"x" * (9 << 20)), ("none", None)]
    with pytest.raises(RecordTooLarge):
        rig.fetch(message)


def test_partitions_that_come_while_the_task_ends_are_not_opened(rig: Rig) -> None:
    opened: list[TopicPartition] = []
    rig.owner.open = lambda partitions: opened.extend(partitions) or {}
    rig.fetch(lambda: rig.client.goes(0, 1))
    rig.owner.stop.set()
    assert rig.fetch(lambda: rig.client.comes(0, 1)) == []
    assert (opened, rig.consumer.partitions.assigned) == ([], [])


class News:
    """The event that comes while a consumer waits."""

    def __init__(self, rig: Rig) -> None:
        self.waits: list[float] = []
        self.comes: Callable[[], object] = lambda: None
        """Brings it; nothing where it returns False."""
        self.woken = self.closed = 0
        rig.consumer.news = self  # type: ignore[assignment]

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self.comes() is not False and len(self.waits) < 10

    def wake(self) -> None:
        self.woken += 1

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(("may_take", "fetched"), [(True, [[10], []]), (False, [[], [10]])])
def test_a_record_that_was_waited_for_is_taken_if_the_task_still_may(
    rig: Rig, may_take: bool, fetched: list[list[int]]
) -> None:
    news = News(rig)
    rig.owner.may_take, news.comes = (lambda: may_take), lambda: rig.client.script.append(Message(10))

    def fetch() -> list[int]:
        found = [message.offset() for message in rig.consumer.fetch(5.0, 2000, 1 << 20)]
        news.comes = lambda: None
        return found

    assert [fetch(), fetch()] == fetched
    assert news.waits[0] == pytest.approx(5.0, abs=1.0)


def test_what_is_no_record_does_not_end_a_wait(rig: Rig) -> None:
    news, comes = News(rig), iter([[], [Message(10, end=True)], [Message(10, end=True), Message(10)]])
    news.comes = lambda: rig.client.script.extend(next(comes))
    assert [message.offset() for message in rig.consumer.fetch(5.0, 2000, 1 << 20)] == [10]
    assert len(news.waits) == 3


def test_an_end_after_markers_is_gone_past_at_once(rig: Rig) -> None:
    news = News(rig)
    rig.client.script = [Message(12, end=True)]
    assert rig.consumer.fetch(5.0, 2000, 1 << 20) == []
    assert news.waits == []
    rig.consumer.partitions.pass_ends()
    assert rig.consumer.partitions.begin(P0) == 12


def test_a_partition_that_is_empty_so_far_began_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.client.known = -1001
    rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0))
    news = News(rig)
    rig.client.script, news.comes = [Message(7, end=True)], lambda: False
    assert rig.consumer.fetch(5.0, 2000, 1 << 20) == []
    assert len(news.waits) == 1
    assert rig.consumer.partitions.begin(P0) == 7


def test_who_is_woken_waits_no_longer(rig: Rig) -> None:
    news = News(rig)
    news.comes = lambda: rig.client.script.append(Message(10)) or False
    assert rig.consumer.fetch(5.0, 2000, 1 << 20) == []
    assert [message.offset() for message in rig.consumer.fetch(5.0, 2000, 1 << 20)] == [10]


def test_records_after_an_end_are_not_left_for_a_wait(rig: Rig) -> None:
    news = News(rig)
    rig.client.script = [Message(10, end=True), Message(10)]
    assert [message.offset() for message in rig.consumer.fetch(0.0, 2000, 1 << 20)] == [10]
    assert news.waits == []


def test_what_is_there_is_not_waited_for(rig: Rig) -> None:
    news = News(rig)
    rig.client.script = [Message(10)]
    assert len(rig.consumer.fetch(5.0, 2000, 1 << 20)) == 1
    assert rig.consumer.fetch(0.0, 2000, 1 << 20) == []
    assert news.waits == []


def test_partitions_that_come_or_an_error_end_a_wait_before_it_begins(rig: Rig) -> None:
    news = News(rig)
    rig.client.script = [lambda: rig.client.goes(0, 1)]
    assert rig.consumer.fetch(5.0, 2000, 1 << 20) == []
    rig.client.script = [lambda: rig.client.comes(0)]
    assert rig.consumer.fetch(5.0, 2000, 1 << 20) == []
    rig.owner.end_batch = raising(RuntimeError("the sink is broken"))
    rig.client.script = [lambda: rig.client.on_revoke(rig.client, [Position("t", 0)])]
    with pytest.raises(RuntimeError, match="broken"):
        rig.consumer.fetch(5.0, 2000, 1 << 20)
    assert news.waits == []


def raising(error: Exception) -> Callable[..., None]:
    def fail(**_: object) -> None:
        raise error

    return fail


def test_a_member_of_its_group_is_polled_in_good_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, **{"max.poll.interval.ms": "6000"})
    news = News(rig)
    rig.consumer.fetch(5.0, 2000, 1 << 20)
    assert news.waits[0] == pytest.approx(1.5, abs=0.5)


def test_topics_that_are_looked_for_are_looked_for_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = SimpleNamespace(topics={"t": SimpleNamespace(partitions=[0, 1])})
    monkeypatch.setattr(Client, "list_topics", lambda _self, timeout: listed, raising=False)
    rig = Rig(monkeypatch, TopicSubscription([], "t.*", 2.0))
    news = News(rig)
    rig.consumer.fetch(5.0, 2000, 1 << 20)
    assert 1.0 < news.waits[0] <= 2.0


def test_a_new_topic_is_looked_for_until_the_consumers_broker_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The admin client may have asked a broker that knows it sooner; without the list nobody joins for it."""
    unavailable = SimpleNamespace(error=KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    lists = [{}, {"u": unavailable}, {"u": SimpleNamespace(error=None)}, {}]
    now = 0.0
    there: Any = SimpleNamespace(ask=lambda _: SimpleNamespace(is_done=lambda: True, answer=lambda: {"u": "id"}))
    monkeypatch.setattr(sink_consumer, "MissingTopics", lambda _: MissingTopics(there, lambda: now))
    rig = Rig(monkeypatch)
    rig.client.list_topics = lambda timeout: SimpleNamespace(topics=lists.pop(0))  # type: ignore[assignment]
    rig.fetch(Message(0, code=KafkaError.UNKNOWN_TOPIC_OR_PART, of=TopicPartition("u", 0)))
    for _ in range(5):
        now += 1
        rig.fetch()
    assert len(lists) == 1


def test_a_consumer_that_does_not_join_looks_for_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 0.0, list[set[str]]()

    def ask(topics: Any) -> Any:
        asked.append(set(topics))
        return SimpleNamespace(is_done=lambda: True, answer=dict)

    looks: Any = SimpleNamespace(ask=ask)
    monkeypatch.setattr(sink_consumer, "MissingTopics", lambda _: MissingTopics(looks, lambda: now))
    monkeypatch.setattr(consumer_membership, "time", SimpleNamespace(monotonic=lambda: now))
    rig = Rig(monkeypatch)
    rig.fetch()
    now += 60
    rig.fetch()
    assert asked == [], "it has joined"
    rig.fetch(lambda: rig.client.goes(0, 1))
    now += 60
    rig.fetch()
    now += 1
    rig.fetch()
    assert asked == [{"t", "u"}]


@pytest.mark.parametrize(("policy", "begins"), [("earliest", OFFSET_BEGINNING), ("latest", OFFSET_END)])
def test_a_partition_that_its_leader_does_not_know_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, policy: str, begins: int
) -> None:
    rig = Rig(monkeypatch)
    rig.positions.policy, rig.client.known = policy, -1001
    waits: list[float] = []
    rig.owner.wait = waits.append
    rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1))
    assert rig.fetch(Message(begins, code=KafkaError._AUTO_OFFSET_RESET)) == []
    assert rig.client.sought == [(0, begins)]
    assert len(waits) == 1
    assert rig.fetch(Message(0)) == [0]


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_ID, KafkaError.INCONSISTENT_TOPIC_ID])
def test_a_topic_id_that_a_broker_does_not_know_is_waited_for(rig: Rig, code: int) -> None:
    assert rig.fetch(Message(10, code=code)) == []
    assert rig.fetch(Message(10)) == [10]


def test_a_wait_can_be_ended_and_ends_before_the_client(rig: Rig) -> None:
    news = News(rig)
    rig.consumer.interrupt()
    assert news.woken == 1
    rig.client.close = lambda: news.waits.append(news.closed)  # type: ignore[attr-defined]
    rig.consumer.close()
    assert news.waits == [1]


def test_a_refused_login_ends_the_task_once_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(sink_consumer, "ClientFailures", lambda: ClientFailures(lambda: now))
    rig = Rig(monkeypatch)
    failures = rig.client.error_cb
    answers: list[bool] = [True, False]

    def list_topics(timeout: float) -> None:
        assert timeout
        if not answers.pop(0):
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    rig.client.list_topics = list_topics
    refusal = KafkaError(KafkaError._SSL, "SSL handshake failed: certificate has expired")
    failures(refusal)
    rig.fetch()
    now = 6.0
    rig.fetch()
    assert failures.seconds is None, "another broker lets it in"
    failures(refusal)
    now = 12.0
    with pytest.raises(CertificateRefused, match=r"certificate has expired.*ssl\.truststore"):
        rig.fetch()


def test_it_begins_where_no_open_transaction_can_move_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = [
        [Position("t", 0, 10), Position("t", 1, 10)],
        RetriableError("a transaction is open"),
        [Position("t", 0, 17), Position("t", 1, 18)],
    ]

    def stable(positions: Sequence[Any]) -> Sequence[Any]:
        assert [(p.topic, p.partition) for p in positions] == [P0, P1]
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        found: Sequence[Any] = answer
        return found

    waits = list[float]()
    rig = Rig(monkeypatch, stable=stable)
    rig.owner.wait = waits.append
    rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1))
    assert (rig.client.assigned, waits) == ({P0: 17, P1: 18}, [1.0])
    answers.append(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
    rig.fetch(lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1))
    assert rig.client.assigned == {P0: 10, P1: 10}
    assert "grant its user Describe of the group" in caplog.text
