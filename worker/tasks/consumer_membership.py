"""The membership of a sink's consumer in its group: it logs in, joins, takes partitions, gives them up, leaves.

Partitions are assigned and revoked in callbacks inside `fetch`, `stay` and `close`, on the task's own thread. An error
in a callback is raised by the call in which it occurred, because librdkafka cannot.

    assigned:  the group's offsets -> open, which may know better -> assign
    revoked:   the batch that runs ends -> commit -> close
    lost:      the batch that runs is discarded -> close

The consumer protocol (KIP-848) and a cooperative assignor add partitions to those that the task has. The other
assignors revoke all partitions and assign them anew.

A static member (`static_member.py`) that was killed has its place back at once; a dynamic one stays in its group until
`session.timeout.ms` has passed (45 s by default, as in Java), and its partitions wait for that long.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.contracts import GroupMember
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.errors import refused
from headrace.worker.kafka.group_member import member_of
from headrace.worker.tasks.committed_offsets import CommittedOffsets, partitions_of
from headrace.worker.tasks.consumer_partitions import ConsumerPartitions
from headrace.worker.tasks.consumer_task import ConsumerTask, RebalanceListener
from headrace.worker.tasks.missing_topics import MissingTopics
from headrace.worker.tasks.static_member import Fenced, is_fenced, leave
from headrace.worker.tasks.subscription import TopicSubscription

log = logging.getLogger(__name__)

_PROBE_S: Final = 2.0
_JOINS_S: Final = 10.0
"""The time in which a consumer should join its group; after that it looks for its topics itself."""


class ConsumerMembership:
    """The place of one consumer in its group; for its task's own thread, except `joined_as`."""

    def __init__(
        self,
        client: Any,
        partitions: ConsumerPartitions,
        task: ConsumerTask,
        listener: RebalanceListener,
        offsets: CommittedOffsets,
        config: Mapping[str, Any],
        subscription: TopicSubscription,
        missing: MissingTopics,
        failures: ClientFailures,
        stop: StopToken,
    ) -> None:
        self.joined_as: GroupMember | None = None
        """The member that was last assigned partitions. It is for other threads: the client does not answer them while
        one of its callbacks hangs."""
        self.error: Exception | None = None
        """The error of a callback, not raised yet."""
        self._client = client
        self._config = config
        self._failures = failures
        self._place = config.get("group.id", ""), config.get("group.instance.id", "")
        self._is_static = "group.instance.id" in config and config.get("group.protocol", "classic") == "classic"
        self._was_fenced = False
        self._subscription = subscription
        self._missing = missing
        self._stop = stop
        self._task = task
        self._listener = listener
        self._partitions = partitions
        self._offsets = offsets
        self._joins_by = time.monotonic() + _JOINS_S

    # -- joining -------------------------------------------------------------------------------------------------------

    @property
    def member(self) -> GroupMember:
        """The consumer as a member of its group."""
        return member_of(self._client)

    def ask_to_join(self) -> None:
        """Subscribe to the existing topics. Errors: LoginRefused."""
        self._check_login()
        with self.fencing():
            self._subscription.renew(
                self._client, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            self._join_for_new()

    def looks_in_s(self) -> float:
        """The seconds until topics are looked for."""
        return min(self._subscription.looks_in_s(), self._missing.looks_in_s())

    def misses(self, topic: str) -> None:
        """Look for a missing topic, so that the consumer joins for it soon."""
        self._missing.add([topic])

    @contextmanager
    def fencing(self) -> Iterator[None]:
        """Raise Fenced in place of the client's own error that says so."""
        try:
            yield
        except KafkaException as error:
            # Once fenced, librdkafka refuses to subscribe and assign by this code alone: static members have no other.
            if not is_fenced(error.args[0]) and not (self._is_static and error.args[0].code() == KafkaError._FATAL):
                raise
            self.fenced()

    def fenced(self) -> NoReturn:
        """Give up everything: another consumer with this one's name reads the partitions. Errors: Fenced."""
        self._was_fenced = True
        self._on_lost(self._client, [Position(*partition) for partition in self._partitions.assigned])
        cause, self.error = self.error, None
        raise Fenced(*self._place) from cause

    def leave(self) -> None:
        """Take a static member out of its group."""
        # Nobody joins a group for missing topics, and an abandoned task may be no member any more.
        joins = not self._task.abandoned and self._subscription.topics - self._offsets.doubted
        if self._is_static and not self._was_fenced and (self._client.memberid() or joins):
            leave(self._client, *self._place)

    def _check_login(self) -> None:
        """Errors: LoginRefused, once no broker has let the client in for a while."""
        refusal = refused(self._failures, self._config)
        if refusal is None:
            return
        try:
            self._client.list_topics(timeout=_PROBE_S)
        except KafkaException:
            raise refusal from None
        self._failures.clear()

    def _join_for_new(self) -> None:
        """Have the client join again for topics that were missing and exist now.

        librdkafka joins only once it has the topics' metadata. If its request for them fails, it does not ask again
        before `metadata.max.age.ms` is over (5 minutes), and says nothing.
        """
        if (now := time.monotonic()) >= self._joins_by:
            self._joins_by = now + _JOINS_S
            self._missing.add(self._subscription.topics)
        if not (new := self._missing.appeared()):
            return
        try:
            # librdkafka compares a list of all topics with what it reads.
            there = self._client.list_topics(timeout=_PROBE_S).topics
        except KafkaException as error:
            log.info("The topics cannot be listed yet: %s", error)
            self._missing.add(new)
            return
        # The broker that listed them may know less than the one that the admin client asked.
        if unlisted := [topic for topic in new if topic not in there or there[topic].error is not None]:
            self._missing.add(unlisted)

    # -- partitions that come and go -----------------------------------------------------------------------------------

    def raise_pending(self) -> None:
        """Raise the error of a callback since the last time, if any."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Open partitions, in as many attempts as the sink needs; return the offsets that it knows better."""
        while True:
            try:
                return self._listener.open(partitions)
            except RetriableError as error:
                if self._stop.is_set():
                    raise
                log.warning("The sink cannot take its partitions yet: %s", error)
                self._task.wait(1.0)

    def _on_assign(self, _client: Any, positions: list[Any]) -> None:
        if self._stop.is_set():
            return  # the member only waits to leave
        try:
            self.joined_as, self._joins_by = self.member, math.inf
            positions = self._subscribed(positions)
            new = partitions_of(positions)
            while not self._offsets.find(positions) and not self._stop.is_set():
                self._task.wait(1.0)
            self._partitions.take(new, self.open(new))
        except Exception as error:
            self.error = error

    def _on_revoke(self, _client: Any, positions: list[Any]) -> None:
        try:
            self._listener.end_batch(lost=False)
        except Exception as error:
            self.error = error
        try:
            try:
                self._offsets.commit(wait=True)
            finally:
                self._give_up(positions)
        except Exception as error:
            self.error = error

    def _on_lost(self, _client: Any, positions: list[Any]) -> None:
        self._joins_by = time.monotonic() + _JOINS_S
        try:
            try:
                self._listener.end_batch(lost=True)
            finally:
                self._give_up(positions)
        except Exception as error:
            self.error = error

    def _subscribed(self, positions: Sequence[Any]) -> list[Any]:
        """Drop positions of topics that are not read: a static member gets its former place back."""
        topics = self._subscription.topics
        if others := sorted({position.topic for position in positions} - topics):
            log.warning(
                "The group %s assigns partitions of topics that are not read any more, and are left alone: %s",
                self._place[0],
                ", ".join(others),
            )
        return [position for position in positions if position.topic in topics]

    def _give_up(self, positions: Sequence[Any]) -> None:
        gone = [partition for partition in partitions_of(positions) if partition in self._partitions.assigned]
        try:
            self._listener.close(gone)
        finally:  # they belong to another member now, whatever the sink says
            self._partitions.give_up(gone)
