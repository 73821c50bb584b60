"""The consumer of a sink task: a real member of the group `connect-<name>`.

Its parts, each for the task's own thread:

    consumer_membership.py  joins the group; partitions come, are revoked or lost, in callbacks; leaves
    consumer_partitions.py  the partitions that it has: held, resting, sought
    committed_offsets.py    the group's committed offsets, of topics that are still the same

This module fetches records, and judges errors that come in their place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics
from headrace.plugins.offsets import TopicPartition
from headrace.worker.kafka.consumer_wakeup import ConsumerWakeup
from headrace.worker.kafka.errors import NO_TOPIC
from headrace.worker.kafka.rights import said
from headrace.worker.kafka.topic_ids import TopicIds
from headrace.worker.tasks.committed_offsets import CommittedOffsets, StableOffsets, passes
from headrace.worker.tasks.consumer_membership import ConsumerMembership
from headrace.worker.tasks.consumer_partitions import ConsumerPartitions
from headrace.worker.tasks.consumer_task import ConsumerTask, RebalanceListener
from headrace.worker.tasks.fetched import Sizes, cannot_be_taken, cut, reason_of, sizes
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.missing_topics import MissingTopics
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.static_member import is_fenced
from headrace.worker.tasks.subscription import TopicSubscription

log = logging.getLogger(__name__)

_PIECE: Final = 256
"""The most messages taken at once from the fetched ones."""
_AGAIN_S: Final = 0.5
"""The pause before a partition's beginning is asked for again."""
_POLL_S: Final = 0.5
# An offset out of range must be reported: librdkafka would pass it over in silence (Invariant 3).
_OWN: Final = {"auto.offset.reset": "error", "enable.partition.eof": True}


class SinkConsumer:
    """Reads the partitions that its group gives it, from its `positions` on; for the task's own thread only."""

    def __init__(
        self,
        config: Mapping[str, Any],
        subscription: TopicSubscription,
        topic_ids: TopicIds,
        positions: Positions,
        host: TaskHost,
        task: ConsumerTask,
        listener: RebalanceListener,
        largest_record: int,
        stable_offsets: StableOffsets | None = None,
    ) -> None:
        """`largest_record`: the most bytes of a record; `stable_offsets`: as for `CommittedOffsets`."""
        self._group: str = config.get("group.id", "")
        self._positions = positions
        self._task = task
        self._stages = host.metrics.stages
        self._largest_record = largest_record
        self._longest_s = int(config.get("max.poll.interval.ms", 300_000)) / 4000
        failures = ClientFailures()
        self._statistics = ClientStatistics("consumer", config)
        callbacks = {"error_cb": failures, "on_commit": lambda *answer: self.offsets.answered(*answer)}
        client = {**config, **_OWN, **callbacks, **self._statistics.settings()}
        self._client: Any = Consumer(client, logger=logging.getLogger(f"{__name__}.client"))
        self._statistics.watch(self._client)
        self.news = ConsumerWakeup.of(self._client)
        """Signals messages; None if only polling shows them."""
        self.partitions = ConsumerPartitions(self._client, config, positions, lambda: self.membership.fencing())
        shared = self._client, self.partitions, task, listener
        self.offsets: CommittedOffsets = CommittedOffsets(
            *shared,
            lambda partitions: self.membership.open(partitions),
            self._group,
            topic_ids,
            positions,
            host.metrics,
            stable_offsets,
        )
        missing = MissingTopics(topic_ids)
        self.membership: ConsumerMembership = ConsumerMembership(
            *shared, self.offsets, config, subscription, missing, failures, host.stop
        )

    # -- records -------------------------------------------------------------------------------------------------------

    def fetch(self, wait_s: float, most: int, most_bytes: int) -> list[Any]:
        """The messages available now, at most `most`, waiting for the first; none if the task may not take them.

        They end soon after `most_bytes` (decompressed); each takes three times as much memory.

        Errors: RetriableError, and the messages will come again; RecordTooLarge; DataError for unreadable headers.
        """
        self.partitions.gone.clear()
        first = self._polled(wait_s)
        messages, their = list[Any](), Sizes(0, 0)
        if first is not None:
            with self._stages.timed("read"):
                messages, their = self._following(first, most, most_bytes)
        self._note_begins(messages)
        try:
            self.membership.raise_pending()
            return self._judged(messages, their, 2 * most_bytes) if messages else []
        except RetriableError:
            self.partitions.seek()  # the client has gone past these messages, so seek back (Invariant 3)
            raise

    def _following(self, first: Any, most: int, most_bytes: int) -> tuple[list[Any], Sizes]:
        """Take the first message and those after it, in pieces: their size is not known before."""
        messages, piece = list[Any](), [first]
        together = Sizes(0, 0)
        while piece:
            taken, largest = sizes(piece)
            messages += piece
            together = Sizes(together.all + taken, max(together.largest, largest))
            left = most_bytes - together.all
            if left <= 0 or len(messages) >= most:
                break
            piece = self._client.consume(min(most - len(messages), _PIECE, max(1, left // max(1, largest))), 0)
        return messages, together

    def _judged(self, messages: Sequence[Any], their: Sizes, most_bytes: int) -> list[Any]:
        """The records among them, if they still are this task's and of the topics that it knows."""
        if not self.partitions.gone:
            messages, left = cut(messages, their, most_bytes, self._largest_record)
            self.partitions.seek_to(left)
        for message in messages:
            if message.error() is not None:
                self._judge(message)
        if self.partitions.gone:  # while these came: they may be from before or after
            self.partitions.read_anew()
            return []
        good = [message for message in messages if message.error() is None]
        doubted = self.offsets.doubted and self.offsets.doubted.intersection(message.topic() for message in good)
        return [] if doubted and self.offsets.restart_remade(doubted) else good

    def _note_begins(self, messages: Sequence[Any]) -> None:
        """Note the first of these messages as the beginning of a partition that is read anew.

        With the policy `latest` it would else begin at its later end, and the records before that would be lost
        (Invariant 3). The first message may also be the news that the partition's end was reached.
        """
        unread = {partition for partition in self.partitions.assigned if self._positions.read_from(partition) is None}
        for message in messages:
            if not unread:
                return
            error = message.error()
            partition = TopicPartition(message.topic(), message.partition())
            is_at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if partition in unread and (error is None or is_at_end or cannot_be_taken(message)):
                self._positions.began(partition, message.offset())
                unread.remove(partition)

    def stay(self, seconds: float) -> None:
        """Stay a member of the group; nothing is fetched while the partitions are held."""
        message = self._polled(seconds)
        self.membership.raise_pending()
        if message is not None and message.error() is not None:
            self._judge(message)

    def _polled(self, seconds: float) -> Any:
        self.membership.ask_to_join()
        with self.membership.fencing():
            if self.news is None:
                return self._client.poll(min(seconds, _POLL_S))
            before, waits_s = self.partitions.assigned, min(seconds, self._longest_s, self.membership.looks_in_s())
            until = time.monotonic() + waits_s
            message = self._client.poll(0)
            # A message that is no record is not worth a step of the task, which costs as much as half a record.
            while (message is None or self._is_no_news(message)) and not self._is_rebalanced(before):
                if message is None:
                    left_s = until - time.monotonic()
                    if left_s <= 0 or not self.news.wait(left_s) or not self._task.may_take():
                        return None
                message = self._client.poll(0)
            return message

    def _is_no_news(self, message: Any) -> bool:
        """True if it only says that a partition ends at the task's position; notes where an unread one began."""
        if message.error() is None or message.error().code() != KafkaError._PARTITION_EOF:
            return False
        known = self._positions.next(TopicPartition(message.topic(), message.partition()))
        if known is not None and known < message.offset():
            return False  # markers follow the last record and have to be passed
        self._note_begins([message])
        return True

    def _is_rebalanced(self, before: Sequence[TopicPartition]) -> bool:
        """True if a callback has failed, or partitions came or went since the task had `before`."""
        return self.membership.error is not None or self.partitions.assigned is not before

    def interrupt(self) -> None:
        """End a `fetch` or `stay` that waits; any thread may call."""
        if self.news is not None:
            self.news.wake()

    def _judge(self, message: Any) -> None:
        error: KafkaError = message.error()
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self.partitions.note_end(TopicPartition(message.topic(), message.partition()), message.offset())
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._out_of_range(TopicPartition(message.topic(), message.partition()), error)
        elif cannot_be_taken(message):
            raise reason_of(message)
        elif is_fenced(error):
            self.membership.fenced()
        elif not passes(error):
            of_group = code == KafkaError.GROUP_AUTHORIZATION_FAILED
            names = [self._group] if of_group else [name for name in (message.topic(),) if name]
            raise KafkaException(KafkaError(code, said(error, "Read", names)))
        else:
            if code in NO_TOPIC and message.topic() is not None:
                self.membership.misses(message.topic())
                if message.topic() in self.offsets.doubted:
                    return  # logged before: librdkafka says so with every rebalance
                self.offsets.doubted.add(message.topic())
            log.warning("Kafka: %s; waiting", error.str())

    def _out_of_range(self, partition: TopicPartition, error: KafkaError) -> None:
        """Go on from an offset that does not exist: retention deleted it, or the topic was made again."""
        if self.offsets.restart_remade({partition.topic}):
            return
        begin = self._positions.read_from(partition)
        if self._positions.policy == "error":
            raise KafkaException(KafkaError(error.code(), self._without_offset(partition, begin)))
        if begin is None:  # its leader may not know a new partition yet, and librdkafka does not ask again
            log.warning("Where %s-%d begins is not known yet: %s", *partition, error.str())
            self._task.wait(_AGAIN_S)
            self.partitions.seek_to({partition: self._positions.start(partition)})
            return
        low, high = self.partitions.watermarks(partition)
        self._positions.go_on({partition: self._positions.in_topic(partition, begin, low, high)})
        self.partitions.read_anew()

    def _without_offset(self, partition: TopicPartition, begin: int | None) -> str:
        """The error and its remedy if there is no offset to go on at, and no `auto.offset.reset`."""
        what = "has no committed offset of" if begin is None else f"goes on at offset {begin}, which is not there, of"
        return (
            f"The group {self._group} {what} {partition.topic}-{partition.partition}, and auto.offset.reset=none. "
            "Set consumer.override.auto.offset.reset to earliest or latest, or stop the connector, set the offset by "
            "PATCH /connectors/…/offsets, and resume it"
        )

    def close(self) -> None:
        """Commit the reached offsets and leave the group; that revokes the partitions, which closes them."""
        try:
            self.offsets.commit(wait=True)
            self.membership.leave()
        finally:
            self._statistics.end()
            if self.news is not None:
                self.news.close()
            self._client.close()
