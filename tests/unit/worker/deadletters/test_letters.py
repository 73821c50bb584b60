"""Dead letters page by page, their causes, their replay and deletion, against a topic that plays."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from headrace.worker.deadletters import letter_pages, letter_topic, removal
from headrace.worker.deadletters.letter import Place
from headrace.worker.deadletters.letter_pages import LetterPages
from headrace.worker.deadletters.letter_topic import Clients, LetterTopic
from headrace.worker.deadletters.removal import Removal, remove
from headrace.worker.deadletters.replay import NoTarget, Replay, Wanted
from headrace.worker.deadletters.replayed import Replayed
from headrace.worker.errors import BadRequest, Conflict, NotFound, TimedOut
from headrace.worker.kafka.record_text import LONGEST, RecordText

JAVA = {
    "topic": b"orders",
    "partition": b"0",
    "offset": b"7",
    "connector.name": b"mine",
    "task.id": b"0",
    "stage": b"VALUE_CONVERTER",
    "class.name": b"org.apache.kafka.connect.json.JsonConverter",
    "exception.class.name": b"org.apache.kafka.connect.errors.DataException",
    "exception.message": None,
}
"""As Apache's worker writes them, whose exceptions may have no message."""


@dataclass
class Record:
    """A message of the topic."""

    number: int
    at: int
    value: bytes | None = b"v"
    told: dict[str, bytes | None] = field(default_factory=lambda: dict(JAVA))
    place: int = 0
    own: list[tuple[str, bytes | None]] = field(default_factory=list)

    def topic(self) -> str:
        return "dlq"

    def partition(self) -> int:
        return self.place

    def offset(self) -> int:
        return self.number

    def key(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [*self.own, *((f"__connect.errors.{name}", value) for name, value in self.told.items())]

    def error(self) -> Any:
        return None

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return (lambda: found) if name == "value" else found


class Kafka:
    """A topic, its consumer, producer and admin client."""

    def __init__(self, *partitions: list[Record]) -> None:
        self.partitions = [list(one) for one in partitions]
        for number, records in enumerate(self.partitions):
            for record in records:
                record.place = number
        self.low = [0] * len(partitions)
        self.committed_at: dict[int, tuple[int, str]] = {}
        self.sent: list[bytes | None] = []
        self.waiting: list[Callable[[], None]] = []
        self.fetched = 0
        self._reading: Iterator[Any] = iter(())

    def list_topics(self, topic: str, timeout: float) -> Any:
        numbers = range(len(self.partitions))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=numbers)})

    def get_watermark_offsets(self, at: Any, timeout: float) -> tuple[int, int]:
        return self.low[at.partition], len(self.partitions[at.partition])

    def committed(self, group: str, asked: list[GroupOffset], timeout_s: float) -> Any:
        found = [GroupOffset("dlq", one.partition, *self.committed_at.get(one.partition, (-1001, ""))) for one in asked]
        return SimpleNamespace(result=lambda: found)

    def commit(self, group: str, offsets: list[GroupOffset], timeout_s: float) -> Any:
        self.committed_at |= {one.partition: (one.offset, one.metadata) for one in offsets}
        return SimpleNamespace(result=lambda: offsets)

    def assign(self, places: list[Any]) -> None:
        self._reading = iter([one for at in places for one in self.partitions[at.partition][at.offset :]])

    def poll(self, _seconds: float) -> Any:
        self.fetched += 1
        return next(self._reading, None)

    def produce(self, topic: str, value: bytes | None, key: Any, on_delivery: Any, **more: Any) -> None:
        self.sent.append(value)
        self.waiting.append(lambda: on_delivery(None, SimpleNamespace(topic=lambda: topic)))

    def flush(self, _seconds: float) -> None:
        while self.waiting:
            self.waiting.pop()()

    def close(self) -> None: ...

    def delete_records(self, wanted: list[Any], request_timeout: float) -> dict[Any, Any]:
        for one in wanted:
            self.low[one.partition] = one.offset
        return {number: SimpleNamespace(result=lambda: None) for number in range(len(wanted))}


TOPIC = LetterTopic("mine", "dlq", Clients({"bootstrap.servers": "nowhere:1"}, {}, {}, {}))


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kafka]:
    def play(*partitions: list[Record]) -> Kafka:
        kafka = Kafka(*partitions)
        monkeypatch.setattr(letter_topic, "Producer", lambda _: kafka)
        monkeypatch.setattr(letter_topic, "admin_client", lambda _: kafka)
        monkeypatch.setattr(letter_topic, "kept_client", lambda _: kafka)
        return kafka

    return play


def failed(message: str) -> dict[str, bytes | None]:
    return {**JAVA, "exception.message": message.encode()}


def others(count: int) -> list[Record]:
    return [Record(number, number, told={**JAVA, "connector.name": b"another"}) for number in range(count)]


def places(page: letter_pages.LetterPage) -> list[tuple[int, int]]:
    return [tuple(one.letter.place) for one in page.letters]


def test_pages_go_back_through_all_partitions_and_show_each_letter_once(playing: Callable[..., Kafka]) -> None:
    kafka = playing([Record(n, 10 * n) for n in range(25)], [Record(n, 10 * n + 5) for n in range(7)], [])
    seen, before = list[tuple[int, int]](), None
    for _ in range(9):
        page = LetterPages(TOPIC).page(kafka, 4, before)
        seen += places(page)
        before = page.before
        if before is None:
            break
    assert len(seen) == len(set(seen)) == 32
    assert seen[:2] == [(0, 24), (0, 23)]
    stamps = [10 * number + 5 * partition for partition, number in seen]
    assert stamps == sorted(stamps, reverse=True)


def test_letters_among_those_of_others_are_found(playing: Callable[..., Kafka]) -> None:
    records = others(3_000)
    records[5] = Record(5, 5)
    kafka = playing(records)
    page = LetterPages(TOPIC).page(kafka, 2)
    assert (places(page), page.before) == ([(0, 5)], None)


def test_a_page_is_bounded_in_time_and_bytes(playing: Callable[..., Kafka], monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = playing([Record(n, n, b"\xff" * 100_000) for n in range(40)])
    page = LetterPages(TOPIC).page(kafka, 3)
    assert {len(one.value or "") < LONGEST + 50 for one in page.letters} == {True}
    assert {one.value_bytes for one in page.letters} == {100_000}
    monkeypatch.setattr(letter_pages, "_MOST_BYTES", 500_000)
    crowded = playing(others(5_000))
    for record in crowded.partitions[0]:
        object.__setattr__(record, "value", b"x" * 10_000)
    page = LetterPages(TOPIC).page(crowded, 10)
    assert page.letters == []
    assert 0 < crowded.fetched < 1_000
    assert page.before is not None
    with pytest.raises(TimedOut, match="ask for fewer"):
        LetterPages(TOPIC, longest_s=0.0).page(kafka, 3)


def test_java_s_headers_and_hostile_ones_are_read(playing: Callable[..., Kafka]) -> None:
    forged = [("__connect.errors.topic", b"connect-configs"), ("__connect.errors.x", b"\xff"), ("\u202e", b"\x00\xff")]
    many = [(f"h{number}", b"x" * 5_000) for number in range(300)]
    kafka = playing([Record(0, 1, own=[*forged, *many])])
    (shown,) = LetterPages(TOPIC).page(kafka, 5).letters
    assert shown.letter.told["topic"] == "orders"
    assert "exception.message" not in shown.letter.told
    assert shown.headers[0] == ("\u202e", "0x00ff")
    assert len(shown.headers) == 50
    assert max(len(value or "") for _, value in shown.headers) < 300
    assert shown.letter.cause.message is None


def test_headers_that_cannot_be_read_are_told_and_not_replayed(
    playing: Callable[..., Kafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: Any) -> None:
        raise SystemError("returned a result with an exception set")

    kafka = playing([Record(0, 1)])
    monkeypatch.setattr(Record, "headers", unreadable)
    (shown,) = LetterPages(TOPIC).page(kafka, 5).letters
    assert "not UTF-8" in shown.letter.told["exception.message"]
    for to in (None, "other"):
        with pytest.raises(BadRequest, match="cannot be sent again as it was"):
            Replay(TOPIC, to=to).run(kafka, Wanted())
    assert (kafka.sent, kafka.committed_at) == ([], {})


def test_a_group_that_may_not_be_read_is_no_obstacle(
    playing: Callable[..., Kafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = playing([Record(0, 1)])

    def refused(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    monkeypatch.setattr(kafka, "committed", refused)
    assert LetterPages(TOPIC).page(kafka, 5).letters[0].replayed is None
    assert LetterPages(TOPIC).causes(kafka, 5).causes[0].waiting == 1


def test_letters_that_differ_in_numbers_and_quotes_have_one_cause(playing: Callable[..., Kafka]) -> None:
    told = [failed(f"row {n} has 'value {n}'") for n in range(3)] + [failed("another"), {**JAVA, "stage": b"TASK_PUT"}]
    kafka = playing([Record(n, n, b"%d" % n, one) for n, one in enumerate(told)])
    counts = LetterPages(TOPIC).causes(kafka, 100)
    assert [one.count for one in counts.causes] == [3, 1, 1]
    first = counts.causes[0]
    assert (first.cause.message, first.first, first.last, first.waiting) == ("row … has …", 0, 2, 3)
    assert first.example is not None
    assert first.example.value == "2"
    assert (counts.looked_at, counts.is_all) == (5, True)
    assert not LetterPages(TOPIC).causes(kafka, 4).is_all
    made = Replay(TOPIC)
    made.run(kafka, Wanted(cause=first.cause.id, most=2))
    assert (kafka.sent, made.is_over) == ([b"0", b"1"], False)
    made = Replay(TOPIC)
    made.run(kafka, Wanted(cause=first.cause.id))
    assert (kafka.sent, made.is_over) == ([b"0", b"1", b"2"], True)
    assert [one.waiting for one in LetterPages(TOPIC).causes(kafka, 100).causes] == [0, 1, 1]


def test_single_letters_are_replayed_once_and_all_passes_over_them(playing: Callable[..., Kafka]) -> None:
    kafka = playing([Record(n, n, b"%d" % n) for n in range(6)], [Record(0, 9, b"other")])
    made = Replay(TOPIC)
    made.run(kafka, Wanted(places=[Place(0, 4), Place(0, 2), Place(1, 0)]))
    assert kafka.sent == [b"2", b"4", b"other"]
    made = Replay(TOPIC)
    made.run(kafka, Wanted(places=[Place(0, 4)]))
    assert (made.before, made.counts.total()) == (1, 0)
    Replay(TOPIC).run(kafka, Wanted())
    assert kafka.sent == [b"2", b"4", b"other", b"0", b"1", b"3", b"5"]
    assert kafka.committed_at == {0: (6, ""), 1: (1, "")}
    for gone in (Place(0, 6), Place(7, 0)):
        with pytest.raises(NotFound, match="has no dead letter of mine"):
            Replay(TOPIC).run(kafka, Wanted(places=[gone]))


def test_a_letter_goes_only_to_a_topic_that_its_connector_reads(playing: Callable[..., Kafka]) -> None:
    forged = Record(1, 1, told={"topic": b"connect-configs"})
    kafka = playing([Record(0, 0, b"good"), forged])
    with pytest.raises(NoTarget, match="came from connect-configs, which mine does not read"):
        Replay(TOPIC, lambda topic: topic == "orders").run(kafka, Wanted())
    assert (kafka.sent, kafka.committed_at[0][0]) == ([b"good"], 1)


def test_what_was_replayed_survives_its_commit_and_is_bounded(playing: Callable[..., Kafka]) -> None:
    drawn = random.Random(7)
    chosen = sorted(drawn.sample(range(100, 3_000), 800))
    made = Replayed(100).adding([(offset, offset + 1) for offset in chosen])
    again = Replayed.committed(made.next, made.metadata)
    assert again == made
    assert [offset for offset in range(3_000) if offset in again] == [*range(100), *chosen]
    assert len(made.metadata) < 4_096
    far = Replayed(0).adding([(10**15, 10**15 + 1)])
    assert Replayed.committed(0, far.metadata) == far
    for odd in ("hello", "replayed:%%", "replayed:AAAA", f"replayed:{'A' * 4_000}"):
        assert Replayed.committed(5, odd) == Replayed(5)
    kafka = playing([Record(n, n, told=failed("odd" if drawn.random() < 0.5 else "even")) for n in range(20_000)])
    cause = LetterPages(TOPIC).causes(kafka, 1).causes[0].cause.id
    with pytest.raises(Conflict, match="replay all, or delete"):
        Replay(TOPIC).run(kafka, Wanted(cause=cause))
    sent, (offset, metadata) = len(kafka.sent), kafka.committed_at[0]
    assert sent > 1_000
    assert len(metadata) < 4_096
    Replay(TOPIC).run(kafka, Wanted())
    assert (len(kafka.sent), kafka.committed_at[0]) == (20_000, (20_000, ""))
    assert offset < 20_000


def test_deletion_takes_no_letter_of_another_connector(playing: Callable[..., Kafka]) -> None:
    kafka = playing(
        [*(Record(n, n) for n in range(5)), Record(5, 5, told={**JAVA, "connector.name": b"x"})], [Record(0, 0)]
    )
    assert remove(TOPIC, kafka, {0: 2}) == Removal({0: 3, 1: 0}, True)
    assert remove(TOPIC, kafka, {0: 1}) == Removal({0: 3, 1: 0}, True)
    for upto in (None, {0: 99}):
        with pytest.raises(Conflict, match="at offset 5 is connector x's, and Kafka can only"):
            remove(TOPIC, kafka, upto)
    with pytest.raises(BadRequest, match="no partition 4"):
        remove(TOPIC, kafka, {4: 0})
    assert kafka.low == [3, 0]


def test_deletion_that_takes_long_says_that_more_is_left(
    playing: Callable[..., Kafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = playing([Record(n, n) for n in range(5)])
    monkeypatch.setattr(removal, "_LONGEST_S", 0.0)
    assert remove(TOPIC, kafka, None) == Removal({0: 0}, False)


def test_a_registry_that_is_away_is_asked_once() -> None:
    asked = []

    class Away:
        def shown(self, data: bytes) -> str:
            asked.append(data)
            raise RetriableError("the registry is away")

    text = RecordText(Away())  # type: ignore[arg-type]
    assert [text(b"a"), text(b"\xff"), text(None)] == ["a", "0xff", None]
    assert asked == [b"a"]
