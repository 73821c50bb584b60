"""The committed offsets of a sink's group: fetched when partitions come, committed as rows become durable.

They belong to a topic with its id (Invariant 2): none counts if the topic was deleted and made again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from headrace.plugins.offsets import TopicPartition
from headrace.worker.kafka.errors import CONSUMER_RETRIABLE
from headrace.worker.kafka.topic_ids import AskedIds, TopicIds
from headrace.worker.tasks.consumer_partitions import ConsumerPartitions
from headrace.worker.tasks.consumer_task import ConsumerTask, RebalanceListener
from headrace.worker.tasks.metrics import TaskMetrics
from headrace.worker.tasks.positions import Positions

log = logging.getLogger(__name__)

_COMMITTED_TIMEOUT_S: Final = 30.0
_TIMES_TIMEOUT_S: Final = 10.0

StableOffsets = Callable[[Sequence[Position]], Sequence[GroupOffset]]
"""`consumer_groups.stable_offsets` of a group."""


class _Commit(NamedTuple):
    """A commit that has begun."""

    positions: Mapping[TopicPartition, int]
    """The offsets reached when it began."""
    asked: AskedIds
    times_gone: int
    """The assignment's, when it began."""


class CommittedOffsets:
    """The offsets of one consumer's group; for its task's own thread."""

    def __init__(
        self,
        client: Any,
        partitions: ConsumerPartitions,
        task: ConsumerTask,
        listener: RebalanceListener,
        open_anew: Callable[[Sequence[TopicPartition]], object],
        group: str,
        topic_ids: TopicIds,
        positions: Positions,
        metrics: TaskMetrics,
        stable_offsets: StableOffsets | None,
    ) -> None:
        """`open_anew` opens partitions; `stable_offsets`: for a sink that commits offsets itself, in transactions."""
        self.doubted: set[str] = set()
        """Topics that were missing: one of the same name may come."""
        self._client = client
        self._group = group
        self._task = task
        self._metrics = metrics
        self._positions = positions
        self._partitions = partitions
        self._topic_ids = topic_ids
        self._listener = listener
        self._open_anew = open_anew
        self._stable_offsets = stable_offsets
        self._begun: _Commit | None = None
        self._sent = 0.0

    # -- committed -----------------------------------------------------------------------------------------------------

    def commit(self, wait: bool) -> None:
        """Commit the reached offsets, now or with the next call. Invariant 1: their rows are durable."""
        self._begin()
        self._end(wait)

    def commit_in_passing(self) -> bool:
        """As `commit`, in several calls that wait for no answer; True once it has ended."""
        if self._begun is None or self._begun.times_gone != self._partitions.times_gone:
            self._begin()
        if self._begun is not None and not self._begun.asked.is_done():
            return False
        self._end(wait=False)
        return True

    def answered(self, error: KafkaError | None, positions: list[Any]) -> None:
        """Take Kafka's answer to a commit that was not waited for."""
        self._metrics.committed(time.monotonic() - self._sent, ok=error is None)
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            _say_not_committed(error.str())
            self._positions.not_committed(partitions_of(positions))
        else:
            self._note_refused(positions)

    def _begin(self) -> None:
        """Ask if the topics with reached offsets are still the same (Invariant 2)."""
        self._begun = None
        if self._task.abandoned:
            return
        try:
            if new := self._without_doubt(self._positions.uncommitted()):
                asked = self._topic_ids.ask({partition.topic for partition in new})
                self._begun = _Commit(new, asked, self._partitions.times_gone)
        except RetriableError as error:
            _say_not_committed(error)

    def _end(self, wait: bool) -> None:
        """Commit the offsets reached when it began, except in partitions that went, or came back since."""
        begun, self._begun = self._begun, None
        if begun is None or self._task.abandoned:
            return
        try:
            remade = self._forget_remade(begun.asked)
            still = self._positions.uncommitted()
            kept = {p: at for p, at in begun.positions.items() if p in still and p.topic not in self.doubted}
            new = {p: min(at, still[p]) for p, at in kept.items()}
            if new and not remade and (released := self._listener.pre_commit(new)) is not None:
                new = self._positions.uncommitted_of(released)
        except RetriableError as error:
            _say_not_committed(error)
            return
        if not remade:
            self._send(new, wait)
        elif not wait:  # offsets of a former topic would hide as many records of its namesake
            self._partitions.read_anew()

    def _send(self, new: Mapping[TopicPartition, int], wait: bool) -> None:
        if not new:
            return
        try:
            positions = [Position(*partition, offset) for partition, offset in new.items()]
            self._sent = time.monotonic()
            answered = self._client.commit(offsets=positions, asynchronous=not wait)
            self._positions.committed(new)
            self._note_refused(answered or ())
        except KafkaException as error:
            _say_not_committed(error)

    def _note_refused(self, positions: Sequence[Any]) -> None:
        """Note partitions that Kafka left out of an accepted commit."""
        for one in positions:
            if one.error is not None:
                where = one.topic, one.partition, one.error.str()
                log.warning("The offset of %s-%d could not be committed, it will be again: %s", *where)
                self._positions.not_committed(partitions_of([one]))

    # -- asked for -----------------------------------------------------------------------------------------------------

    def find(self, positions: Sequence[Any]) -> bool:
        """Find the first offsets of these partitions that come; False if Kafka does not tell yet."""
        try:
            committed = self._committed(positions)
            # Asked last: commits for a topic that was made again meanwhile must not count.
            remade = self._forget_remade(self._topic_ids.ask({p.topic for p in positions}))
        except (RetriableError, KafkaException) as error:
            _raise_unless_passing(error)
            log.warning("The committed offsets cannot be fetched yet: %s", error)
            return False
        for position in committed:
            if position.offset >= 0 and position.topic not in remade:
                self._positions.found_committed(TopicPartition(position.topic, position.partition), position.offset)
        return self._find_begins(partitions_of(positions))

    def _find_begins(self, partitions: Sequence[TopicPartition]) -> bool:
        """Find the first offsets by a policy of age, for partitions without a commit; False if unknown yet."""
        since_ms = self._positions.since_ms()
        unread = [partition for partition in partitions if self._positions.read_from(partition) is None]
        if since_ms is None or not unread:
            return True
        try:
            asked = [Position(*partition, since_ms) for partition in unread]
            for found in self._client.offsets_for_times(asked, timeout=_TIMES_TIMEOUT_S):
                partition = TopicPartition(found.topic, found.partition)
                # It begins at the end if all records are older.
                begin = found.offset if found.offset >= 0 else self._partitions.watermarks(partition)[1]
                self._positions.began(partition, begin)
        except (RetriableError, KafkaException) as error:
            _raise_unless_passing(error)
            log.warning("Where to begin by auto.offset.reset is not known yet: %s", error)
            return False
        return True

    def _committed(self, positions: Sequence[Any]) -> Sequence[Any]:
        """The group's offsets. Errors: RetriableError, KafkaException."""
        if self._stable_offsets is not None:
            try:
                return self._stable_offsets(positions)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                    raise
                log.warning(
                    "The admin client may not see the offsets of %s, so one that a transaction is about to commit may "
                    "be missed, and records come twice: grant its user Describe of the group",
                    self._group,
                )
        found: Sequence[Any] = self._client.committed(positions, timeout=_COMMITTED_TIMEOUT_S)
        return found

    # -- topics that were made again -----------------------------------------------------------------------------------

    def restart_remade(self, topics: Collection[str]) -> bool:
        """Read those of these topics anew that were made again; True if any. Errors: RetriableError."""
        remade = self._forget_remade(self._topic_ids.ask(topics))
        self.doubted.difference_update(topics)
        if remade:
            self._partitions.read_anew()
        return bool(remade)

    def _forget_remade(self, asked: AskedIds) -> set[str]:
        """Forget all offsets of topics that were made again; returns these. Errors: RetriableError."""
        remade = self._topic_ids.remade(asked)
        if remade:
            self._listener.end_batch(lost=True)  # its jobs reach offsets of the former topic
        self._positions.forget_topics(remade)
        if remade:  # a sink that keeps offsets itself has to forget them, too
            anew = [partition for partition in self._partitions.kept if partition.topic in remade]
            self._partitions.make_again(anew)
            self._open_anew(anew)
        return remade

    def _without_doubt(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The positions of existing topics: others would hide records of a later topic of that name."""
        if doubted := self.doubted.intersection(partition.topic for partition in positions):
            self.doubted -= self._topic_ids.ids(doubted).keys()  # the next look-up shows whether it is a namesake
        return {partition: offset for partition, offset in positions.items() if partition.topic not in self.doubted}


def partitions_of(positions: Sequence[Any]) -> list[TopicPartition]:
    """The partitions of librdkafka's positions."""
    return [TopicPartition(position.topic, position.partition) for position in positions]


def passes(error: KafkaError) -> bool:
    """True for an error of Kafka that a later attempt may not meet."""
    return not error.fatal() and (error.retriable() or error.code() in CONSUMER_RETRIABLE)


def _raise_unless_passing(error: Exception) -> None:
    if isinstance(error, KafkaException) and not passes(error.args[0]):
        raise error


def _say_not_committed(why: object) -> None:
    log.warning("Offsets could not be committed, they will be again: %s", why)
