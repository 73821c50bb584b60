"""A connector's dead letters page by page, the newest first, and the causes of the last ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from headrace.worker.deadletters.letter import Cause, Letter
from headrace.worker.deadletters.letter_topic import LetterTopic
from headrace.worker.deadletters.replayed import Replayed
from headrace.worker.errors import TimedOut
from headrace.worker.kafka.record_text import RecordText, cut, text_of

LONGEST_S: Final = 10.0
"""The longest time of one page, or of one look at the causes."""
_BACK: Final = 8
"""If other connectors' letters lie between them, so many times as many are read the next time."""
_MOST_BACK: Final = 20_000
_MOST_BYTES: Final = 32 << 20
_MOST_HEADERS: Final = 50
_LONGEST_HEADER: Final = 200


@dataclass(frozen=True)
class ShownLetter:
    """A dead letter with its bytes as text; texts beyond a bound are cut, and say so."""

    letter: Letter
    """Without key, value and headers."""
    replayed: bool | None
    """None if the group of what was replayed may not be read."""
    key: str | None
    key_bytes: int | None
    value: str | None
    value_bytes: int | None
    headers: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class LetterPage:
    """Dead letters, the newest first."""

    letters: list[ShownLetter]
    before: dict[int, int] | None
    """The offsets below which older letters lie, by partition; None if there are none."""


@dataclass
class CauseCount:
    """The letters with one cause."""

    cause: Cause
    count: int = 0
    waiting: int = 0
    """The ones of them that were not replayed."""
    first: int | None = None
    """The earliest timestamp."""
    last: int | None = None
    """The latest timestamp."""
    example: ShownLetter | None = None
    """The newest one."""


@dataclass(frozen=True)
class CauseCounts:
    """The causes of the dead letters looked at, the most frequent first."""

    looked_at: int
    is_all: bool
    """True if these are all of the connector's dead letters."""
    causes: list[CauseCount]


@dataclass(frozen=True)
class LetterPages:
    """Reads pages of a connector's dead letters."""

    topic: LetterTopic
    key: RecordText = field(default_factory=RecordText)
    value: RecordText = field(default_factory=RecordText)
    longest_s: float = LONGEST_S

    def page(self, consumer: Any, limit: int, before: Mapping[int, int] | None = None) -> LetterPage:
        """Read the newest letters, or the newest before these offsets. Errors: NotFound, KafkaException, TimedOut."""
        ends = self.topic.ends(consumer)
        done = _replayed(self.topic, ends)
        found: dict[int, list[ShownLetter]] = {number: [] for number in ends}
        back = _Backward(self.topic, consumer, ends, before, time.monotonic() + self.longest_s)
        while sum(map(len, found.values())) < limit and back.goes_on:
            made = back.step(limit, lambda letter: self._shown(letter, done))
            for number, window in made.items():
                found[number] += reversed(window)
        letters = _newest(found, limit)
        reached = {
            number: rest[0].letter.place.offset + 1 if rest else back.begin[number] for number, rest in found.items()
        }
        older = any(reached[number] > low for number, (low, _) in ends.items())
        return LetterPage(letters, reached if older else None)

    def causes(self, consumer: Any, most: int) -> CauseCounts:
        """Count the causes of the newest `most` letters of each partition. Errors: NotFound, KafkaException."""
        ends = self.topic.ends(consumer)
        done = _replayed(self.topic, ends)
        begin = {number: max(low, high - most) for number, (low, high) in ends.items()}
        reading = self.topic.reading(
            consumer,
            begin,
            {number: high for number, (_, high) in ends.items()},
            time.monotonic() + self.longest_s,
        )
        counts: dict[Cause, CauseCount] = {}
        last: dict[Cause, Letter] = {}
        looked_at = 0
        for letter in reading:
            if self.topic.has(letter):
                looked_at += 1
                last[letter.cause] = letter
                _count(counts.setdefault(letter.cause, CauseCount(letter.cause)), letter, done)
        for cause, letter in last.items():
            counts[cause].example = self._shown(letter, done)
        is_all = reading.is_over and all(begin[number] == low for number, (low, _) in ends.items())
        return CauseCounts(looked_at, is_all, sorted(counts.values(), key=lambda one: -one.count))

    def _shown(self, letter: Letter, done: Mapping[int, Replayed] | None) -> ShownLetter:
        most, longest = (None, None) if self.value.longest is None else (_MOST_HEADERS, _LONGEST_HEADER)
        key, value = (self.key.plain, self.value.plain) if letter.is_of_source else (self.key, self.value)
        return ShownLetter(
            replace(letter, key=None, value=None, headers=()),
            None if done is None else letter.place.offset in done[letter.place.partition],
            key(letter.key),
            None if letter.key is None else len(letter.key),
            value(letter.value),
            None if letter.value is None else len(letter.value),
            tuple((cut(name, longest), text_of(data, longest)) for name, data in letter.headers[:most]),
        )


class _Backward:
    """Reads a topic backward, window by window; each window is read forward."""

    def __init__(
        self,
        topic: LetterTopic,
        consumer: Any,
        ends: Mapping[int, tuple[int, int]],
        before: Mapping[int, int] | None,
        until: float,
    ) -> None:
        self._topic, self._consumer, self._until = topic, consumer, until
        self._low = {number: low for number, (low, _) in ends.items()}
        given = before or {}
        self.begin = {number: max(low, min(high, given.get(number, high))) for number, (low, high) in ends.items()}
        """The offsets down to which all was read."""
        self._span = 0
        self._bytes = 0
        self._steps = 0

    @property
    def goes_on(self) -> bool:
        """True if there are older letters, and there is time and room for them."""
        is_first = self._steps == 0
        return any(self.begin[number] > low for number, low in self._low.items()) and (
            is_first or (self._bytes < _MOST_BYTES and time.monotonic() < self._until)
        )

    def step(self, limit: int, shown: Callable[[Letter], ShownLetter]) -> dict[int, list[ShownLetter]]:
        """Read one window of each partition; empty if the time is over before its end. Errors: TimedOut for the first.

        Letters are shown as they come, so that large ones are not kept.
        """
        self._span = min(_MOST_BACK, self._span * _BACK or limit)
        begin = {number: max(self._low[number], end - self._span) for number, end in self.begin.items()}
        reading = self._topic.reading(self._consumer, begin, self.begin, self._until)
        found: dict[int, list[ShownLetter]] = {number: [] for number in begin}
        for letter in reading:
            self._bytes += letter.size
            if self._topic.has(letter):
                found[letter.place.partition].append(shown(letter))
        self._steps += 1
        if not reading.is_over:
            if self._steps == 1:
                raise TimedOut(
                    f"Kafka did not give {limit} records of {self._topic.name} in time; ask for fewer, or again"
                )
            return {}
        self.begin = begin
        return found


def _newest(found: Mapping[int, list[ShownLetter]], limit: int) -> list[ShownLetter]:
    """Take the newest letters out of the partitions' lists, which begin with their newest."""
    taken: list[ShownLetter] = []
    while len(taken) < limit and any(found.values()):
        newest = max((letters for letters in found.values() if letters), key=lambda one: one[0].letter.timestamp or 0)
        taken.append(newest.pop(0))
    return taken


def _count(count: CauseCount, letter: Letter, done: Mapping[int, Replayed] | None) -> None:
    count.count += 1
    count.waiting += done is None or letter.place.offset not in done[letter.place.partition]
    stamps = [stamp for stamp in (letter.timestamp, count.first, count.last) if stamp is not None]
    if stamps:
        count.first, count.last = min(stamps), max(stamps)


def _replayed(topic: LetterTopic, partitions: Iterable[int]) -> dict[int, Replayed] | None:
    """As `LetterTopic.replayed`; None if the group may not be read. Errors: KafkaException."""
    try:
        return topic.replayed(partitions)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return None
        raise
