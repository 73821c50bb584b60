"""Sends a connector's dead letters again, as the records first came, to the topics that they came from.

What was sent is committed for the group `headrace-dlq-<connector>` (`replayed.py`), so each letter is replayed once,
and an interrupted replay goes on from there (records that were acknowledged and not committed yet then come twice).

Decided: a dead letter goes back to the partition that it came from, because its key may be null or its partitioner
another; if another topic is named, the key decides, as that topic may have fewer partitions; loses: nothing known.
Decided: only to topics that the connector reads, if its config is known, because headers of a record that anybody wrote
may name any topic; loses: letters of a topic that was taken out of the config need another topic to be named.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition

from headrace.worker.deadletters.letter import Letter, Place
from headrace.worker.deadletters.letter_topic import LetterTopic
from headrace.worker.deadletters.replayed import Range, Replayed, replayed
from headrace.worker.errors import BadRequest, Conflict, ConnectError, NotFound

LONGEST_S: Final = 10.0
"""The longest time in which a request reads letters."""
_AT_ONCE: Final = 500
_SENT_S: Final = 60.0
_LOOK_EVERY: Final = 100
"""So many letters are sent between two looks for room to remember them."""


class NoTarget(BadRequest):
    """A letter does not say to which topic it can go back."""


class ReplayStopped(ConnectError):
    """Kafka refused a record or did not acknowledge it; what came before was replayed."""


@dataclass(frozen=True)
class Wanted:
    """The letters to replay: all, those with a cause, or some by their places."""

    cause: str | None = None
    places: Collection[Place] = ()
    most: int | None = None
    """At most so many."""
    longest_s: float | None = None
    """No letter is read after this time."""


@dataclass
class Replay:
    """One replay of a connector's letters."""

    topic: LetterTopic
    reads: Callable[[str], bool] = lambda topic: True
    """True for a topic that the connector reads."""
    to: str | None = None
    """The topic to send to instead."""
    dry_run: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    """The letters sent, by topic."""
    before: int = 0
    """The letters that were wanted and had been replayed before."""
    is_over: bool = True
    """False if letters may be left."""

    def run(self, consumer: Any, wanted: Wanted) -> None:
        """Send the wanted letters that were not replayed yet.

        Errors: NoTarget, ReplayStopped; NotFound for a place without a letter; Conflict; KafkaException, KafkaSilent.
        """
        ends = self.topic.ends(consumer)
        done = replayed(self.topic, consumer, ends)
        done = {number: done[number].adding([(0, low)]) for number, (low, _) in ends.items()}
        sending = _Sending(self, consumer, done, wanted.cause is not None or bool(wanted.places))
        until = None if wanted.longest_s is None else time.monotonic() + wanted.longest_s
        try:
            for letter in self._letters(consumer, wanted, ends, sending.done, until):
                if letter.place.offset in sending.done[letter.place.partition]:
                    self.before += bool(wanted.places)
                    continue
                mine = self.topic.has(letter)
                if mine and (wanted.cause is None or letter.cause.id == wanted.cause):
                    if self.counts.total() == wanted.most:
                        self.is_over = False
                        break
                    sending.take(letter)
                elif not mine:
                    sending.passes(letter)
        finally:
            sending.settle()  # a letter that cannot be sent does not bring back those before it

    def _letters(
        self,
        consumer: Any,
        wanted: Wanted,
        ends: dict[int, tuple[int, int]],
        done: dict[int, Replayed],
        until: float | None,
    ) -> Iterator[Letter]:
        if wanted.places:
            yield from self._at(consumer, wanted.places, ends)
            return
        begin = {number: done[number].next for number in ends}
        reading = self.topic.reading(consumer, begin, {number: high for number, (_, high) in ends.items()}, until)
        yield from reading
        self.is_over = reading.is_over

    def _at(self, consumer: Any, places: Collection[Place], ends: dict[int, tuple[int, int]]) -> Iterator[Letter]:
        for place in sorted(set(places)):
            low, high = ends.get(place.partition, (0, 0))
            at, after = {place.partition: place.offset}, {place.partition: place.offset + 1}
            found = list(self.topic.reading(consumer, at, after)) if low <= place.offset < high else []
            if not found or not self.topic.has(found[0]):
                raise NotFound(
                    f"{self.topic.name}-{place.partition} has no dead letter of {self.topic.connector} at offset "
                    f"{place.offset}"
                )
            yield found[0]

    def target(self, letter: Letter) -> tuple[str, int | None]:
        """The topic, and the partition if it is known, to which the letter goes. Errors: NoTarget."""
        if self.to is not None:
            return self.to, None
        told = letter.told
        if letter.is_of_source:
            raise NoTarget(
                f"{letter} is a source's: it shows what was read before transforms, which is not what topic "
                f"{told.get('topic')} has; it can only be sent to a topic of its own"
            )
        if "topic" not in told:
            raise NoTarget(
                f"{letter} does not say where it came from: it can only be sent to a topic that is named; set "
                "errors.deadletterqueue.context.headers.enable=true for those to come"
            )
        if not self.reads(told["topic"]):
            raise NoTarget(
                f"{letter} says that it came from {told['topic']}, which {self.topic.connector} does not read; it can "
                "only be sent to a topic that is named"
            )
        partition = told.get("partition", "")
        return told["topic"], int(partition) if partition.isdecimal() else None


@dataclass
class _Sending:
    replay: Replay
    consumer: Any
    done: dict[int, Replayed]
    """What was replayed and committed, by partition."""
    selects: bool
    """True if letters may be left between those that are sent."""
    taken: dict[int, list[Range]] = field(default_factory=dict)
    """What was taken since then."""
    on_their_way: set[Place] = field(default_factory=set)
    refusal: str = ""

    def __post_init__(self) -> None:
        self.producer = None if self.replay.dry_run else self.replay.topic.producer()

    def take(self, letter: Letter) -> None:
        """Send one letter. Errors: NoTarget, ReplayStopped if it cannot be sent; it is not committed then."""
        topic, partition = self.replay.target(letter)
        if self.selects:
            self._check_room(letter.place.partition)
        if self.producer is not None:
            self._produce(letter, topic, partition)
        self.replay.counts[topic] += 1
        self.passes(letter)
        if len(self.on_their_way) >= _AT_ONCE:
            self.settle()

    def passes(self, letter: Letter) -> None:
        """Note that the letter needs no replay any more."""
        ranges, offset = self.taken.setdefault(letter.place.partition, []), letter.place.offset
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = ranges[-1][0], offset + 1
        else:
            ranges.append((offset, offset + 1))

    def settle(self) -> None:
        """Wait for sent letters and commit them but those that did not arrive. Errors: ReplayStopped if one did not."""
        if self.producer is None or not self.taken:
            return
        self.producer.flush(_SENT_S)
        changed = {number: self._settled(number) for number in self.taken}
        offsets = [
            TopicPartition(self.replay.topic.name, number, one.next, metadata=one.metadata)
            for number, one in changed.items()
        ]
        self.consumer.commit(offsets=offsets, asynchronous=False)
        self.done |= changed
        self.taken.clear()
        if self.on_their_way:
            why = self.refusal or f"{len(self.on_their_way)} records were not acknowledged within {_SENT_S:.0f} s"
            raise ReplayStopped(f"the replay stopped: {why}; the next goes on there")

    def _check_room(self, number: int) -> None:
        """Check now and then that what was replayed can be remembered. Errors: Conflict."""
        if self.replay.counts.total() % _LOOK_EVERY == 0 and self._settled(number).is_full:
            raise Conflict(
                "The letters that were replayed lie too far apart from each other to be remembered: replay all, or "
                "delete old ones, before others are replayed by their cause or place"
            )

    def _settled(self, number: int) -> Replayed:
        """What was replayed of a partition, but for what is on its way."""
        return self.done[number].adding(self._arrived(number))

    def _arrived(self, number: int) -> Iterator[Range]:
        missing = sorted(place.offset for place in self.on_their_way if place.partition == number)
        for first, end in self.taken.get(number, ()):
            for offset in (one for one in missing if first <= one < end):
                yield first, offset
                first = offset + 1
            yield first, end

    def _produce(self, letter: Letter, topic: str, partition: int | None) -> None:
        send = partial(
            self.producer.produce,  # type: ignore[union-attr]
            topic,
            letter.value,
            letter.key,
            headers=list(letter.headers),
            timestamp=letter.timestamp or 0,
            on_delivery=partial(self._delivered, letter.place),
            **({} if partition is None else {"partition": partition}),
        )
        try:
            try:
                send()
            except BufferError:
                self.settle()
                send()
        except (KafkaException, BufferError, OverflowError) as error:
            raise ReplayStopped(f"{letter} cannot be sent to {topic}: {error}") from error
        self.on_their_way.add(letter.place)

    def _delivered(self, place: Place, error: Any, message: Any) -> None:
        if error is None:
            self.on_their_way.discard(place)
        else:
            self.replay.counts[message.topic()] -= 1
            self.refusal = f"a record for {message.topic()} was refused: {error}"
