"""The consumer of a sink task: a real member of the group `connect-<name>`.

Partitions are assigned and revoked in callbacks inside `fetch`, `stay` and `close`, on the task's own thread; an error
in a callback is raised by the call that it came in, because librdkafka cannot.

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.contracts import GroupMember
from headrace.plugins.errors import RetriableError
from headrace.plugins.kafka.client_statistics import ClientStatistics
from headrace.plugins.kafka.group_offsets import GroupOffset
from headrace.plugins.offsets import TopicPartition
from headrace.worker.kafka.consumer_news import ConsumerNews
from headrace.worker.kafka.errors import CONSUMER_RETRIABLE, NO_TOPIC, refused
from headrace.worker.kafka.group_member import member_of
from headrace.worker.kafka.rights import said
from headrace.worker.kafka.topic_ids import AskedIds, TopicIds
from headrace.worker.tasks.fetched import Sizes, cut, sizes, undecodable
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.missing_topics import MissingTopics
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.static_member import Fenced, is_fenced, leave
from headrace.worker.tasks.subscription import TopicSubscription

log = logging.getLogger(__name__)

_PIECE = 256
"""The most messages that are taken at once from what has been fetched."""
_COMMITTED_TIMEOUT_S = 30.0
_WATERMARKS_TIMEOUT_S = 10.0
_PROBE_S = 2.0
_AGAIN_S = 0.5
"""The pause before a partition's beginning is asked for again."""
_POLL_S = 0.5
_JOINS_S = 10.0
"""How long a consumer may take to join its group before it looks for its topics itself."""


StableOffsets = Callable[[Sequence[Position]], Sequence[GroupOffset]]
"""`consumer_groups.stable_offsets` of a group."""


class Owner(Protocol):
    """The task that has the consumer."""

    abandoned: bool
    """True once the task may commit nothing any more."""

    def may_take(self) -> bool:
        """True if the task may take records now; asked after a wait for them, in which that may have changed."""

    def wait(self, seconds: float) -> None:
        """Sleep, unless somebody wakes the task."""


class Rebalances(Protocol):
    """The listener of the task's partitions; called on the task's own thread."""

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Open partitions that come; where to go on in those for which the outside system knows better."""

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Let the outside system have these positions, too, before Kafka has them; those to commit now, None: all.

        Errors: RetriableError.
        """

    def end_batch(self, lost: bool) -> None:
        """Let nothing be written any more; what was reached counts unless the partitions are lost."""

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Close partitions that go."""


class _Commit(NamedTuple):
    """A commit that has begun."""

    positions: Mapping[TopicPartition, int]
    """What was reached when it began."""
    asked: AskedIds


class SinkConsumer:
    """Reads the partitions that its group gives it, from where `positions` says; for the task's own thread only."""

    def __init__(
        self,
        config: Mapping[str, Any],
        subscription: TopicSubscription,
        topic_ids: TopicIds,
        positions: Positions,
        host: TaskHost,
        owner: Owner,
        rebalances: Rebalances,
        largest_record: int,
        stable_offsets: StableOffsets | None = None,
    ) -> None:
        """`largest_record`: the most bytes of one; `stable_offsets`: where others commit offsets in transactions."""
        self.assigned: list[TopicPartition] = []
        self.joined_as: GroupMember | None = None
        """Its place in the group when it was last assigned partitions. It is for other threads: the client does not
        answer them while one of its callbacks hangs."""
        self._gone: set[TopicPartition] = set()
        self._topic_ids = topic_ids
        self._positions = positions
        self._host = host
        self._owner = owner
        self._rebalances = rebalances
        self._largest_record = largest_record
        self._stable_offsets = stable_offsets
        self._doubted: set[str] = set()
        self._missing = MissingTopics(topic_ids)
        self._joins_by = time.monotonic() + _JOINS_S
        self._ends: dict[TopicPartition, int] = {}
        self._commit: _Commit | None = None
        self._error: Exception | None = None
        self._held = False
        self._resting: dict[TopicPartition, float] = {}
        self._commit_sent = 0.0
        # An offset that is out of range must be reported: librdkafka would pass it over in silence (Invariant 3).
        self._place = config.get("group.id", ""), config.get("group.instance.id", "")
        self._static = "group.instance.id" in config and config.get("group.protocol", "classic") == "classic"
        self._was_fenced = False
        self._is_incremental = comes_by_parts(config)
        self._config = config
        self._failures = ClientFailures()
        own = {"auto.offset.reset": "error", "enable.partition.eof": True, "on_commit": self._on_commit}
        own["error_cb"] = self._failures
        self._statistics = ClientStatistics("consumer", config)
        client = {**config, **own, **self._statistics.settings()}
        self._client: Any = Consumer(client, logger=logging.getLogger(f"{__name__}.client"))
        self._statistics.watch(self._client)
        self.news = ConsumerNews.of(self._client)
        """Tells that something is there; None where only polling tells."""
        self._longest_s = int(config.get("max.poll.interval.ms", 300_000)) / 4000
        self._subscription = subscription

    # -- records -------------------------------------------------------------------------------------------------------

    def fetch(self, wait_s: float, most: int, most_bytes: int) -> list[Any]:
        """The messages that are there now, at most so many, waiting for the first; none if they may not be taken then.

        They end soon after `most_bytes`, decompressed, each of which takes three times as much.

        Errors: RetriableError, and the messages will come again; TooLarge.
        """
        self._gone.clear()
        first = self._polled(wait_s)
        messages, their = list[Any](), Sizes(0, 0)
        if first is not None:
            messages, their = self._following(first, most, most_bytes)
        self._note_begins(messages)
        try:
            self._raise_pending()
            return self._judged(messages, their, 2 * most_bytes) if messages else []
        except RetriableError:
            self.seek()  # these messages are lost, and the client has gone past them (Invariant 3)
            raise

    def _following(self, first: Any, most: int, most_bytes: int) -> tuple[list[Any], Sizes]:
        """The first message and those after it, taken in pieces: how large the next ones are, nobody knows before."""
        messages, piece = [first], [first]
        together = Sizes(0, 0)
        while piece:
            taken, largest = sizes(piece)
            together = Sizes(together.all + taken, max(together.largest, largest))
            left = most_bytes - together.all
            if left <= 0 or len(messages) >= most:
                break
            piece = self._client.consume(min(most - len(messages), _PIECE, max(1, left // max(1, largest))), 0)
            messages += piece
        return messages, together

    def _judged(self, messages: Sequence[Any], their: Sizes, most_bytes: int) -> list[Any]:
        """Those that are records, where they still are this task's and of the topics that it knows."""
        if not self._gone:
            messages, left = cut(messages, their, most_bytes, self._largest_record)
            self._seek(left)
        for message in messages:
            if message.error() is not None:
                self._judge(message)
        if self._gone:  # while these came: they may be from before or after
            self._reassign()
            return []
        good = [message for message in messages if message.error() is None]
        doubted = self._doubted and self._doubted.intersection(message.topic() for message in good)
        return [] if doubted and self.restart_remade(doubted) else good

    def _note_begins(self, messages: Sequence[Any]) -> None:
        """Whatever becomes of these messages, a partition that is read anew is read from the first of them on.

        From the policy `latest` it would be read from its end as it is then, and what came meanwhile be lost
        (Invariant 3). The first may also be the news that the partition's end was reached.
        """
        unread = {partition for partition in self.assigned if self._positions.read_from(partition) is None}
        for message in messages:
            if not unread:
                return
            error = message.error()
            partition = TopicPartition(message.topic(), message.partition())
            if partition in unread and (error is None or error.code() == KafkaError._PARTITION_EOF):
                self._positions.began(partition, message.offset())
                unread.remove(partition)

    @property
    def member(self) -> GroupMember:
        """Its place in the group."""
        return member_of(self._client)

    @property
    def kept(self) -> set[TopicPartition]:
        """The partitions that the task has, and has had since the last `fetch`, of the same topics."""
        return set(self.assigned) - self._gone

    def stay(self, seconds: float) -> None:
        """Still a member of the group; nothing is fetched while the partitions are held."""
        message = self._polled(seconds)
        self._raise_pending()
        if message is not None and message.error() is not None:
            self._judge(message)

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

    def _polled(self, seconds: float) -> Any:
        self._check_login()
        callbacks = {"on_assign": self._on_assign, "on_revoke": self._on_revoke, "on_lost": self._on_lost}
        with self._fencing():
            self._subscription.renew(self._client, **callbacks)
            self._join_for_new()
            if self.news is None:
                return self._client.poll(min(seconds, _POLL_S))
            looks_in_s = min(self._subscription.looks_in_s(), self._missing.looks_in_s())
            before, waits_s = self.assigned, min(seconds, self._longest_s, looks_in_s)
            until = time.monotonic() + waits_s
            message = self._client.poll(0)
            # What is no record is not worth a step of the task, which costs as much as half a record.
            while (message is None or self._is_no_news(message)) and self._error is None and self.assigned is before:
                if message is None:
                    left_s = until - time.monotonic()
                    if left_s <= 0 or not self.news.wait(left_s) or not self._owner.may_take():
                        return None
                message = self._client.poll(0)
            return message

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

    def _is_no_news(self, message: Any) -> bool:
        """Whether it says no more than that a partition ends where the task is; where an unread one began, is noted."""
        if message.error() is None or message.error().code() != KafkaError._PARTITION_EOF:
            return False
        known = self._positions.next(TopicPartition(message.topic(), message.partition()))
        if known is not None and known < message.offset():
            return False  # after the last record there are markers to go past
        self._note_begins([message])
        return True

    def interrupt(self) -> None:
        """End a `fetch` or `stay` that waits; any thread may call."""
        if self.news is not None:
            self.news.wake()

    def hold(self) -> None:
        """No partition gives records, nor does one that comes."""
        if not self._held:
            self._pause(self.assigned)
        self._held = True

    def release(self) -> None:
        """All partitions give records again, but for those that rest."""
        awake = [Position(*partition) for partition in self.assigned if partition not in self._resting]
        if self._held and awake:
            self._client.resume(awake)
        self._held = False

    def rest(self, partition: TopicPartition, until: float) -> None:
        """The partition gives no records until this instant of `time.monotonic`, then those from its position on."""
        self._resting[partition] = until
        self._pause([partition])
        self._seek_back([partition])

    def wake(self) -> float | None:
        """Partitions whose rest is over give records again; in how many seconds the next one's will be over."""
        now = time.monotonic()
        over = [partition for partition, until in self._resting.items() if until <= now]
        for partition in over:
            del self._resting[partition]
        if over and not self._held:
            self._client.resume([Position(*partition) for partition in over])
        return min(self._resting.values()) - now if self._resting else None

    def pass_ends(self, but: Collection[TopicPartition] = ()) -> None:
        """Go past the partitions' ends: all records that were fetched are done with, `but` those of some partitions."""
        for partition, end in self._ends.items():
            if partition not in self._resting and partition not in but:
                self._positions.pass_gap(partition, end)
        self._ends.clear()

    def begin(self, partition: TopicPartition) -> int | None:
        """Where to go on; None where nothing was read yet, unless it is read from its beginning. Errors: as `high`."""
        if self._positions.start(partition) == OFFSET_BEGINNING:
            return self.watermarks(partition)[0]
        return self._positions.read_from(partition)

    def high(self, partition: TopicPartition) -> int:
        """The next offset to be written, as far as the client knows."""
        if self._held:  # meanwhile the client learns nothing of the ends
            return self.watermarks(partition)[1]
        _, high = self._client.get_watermark_offsets(Position(*partition), cached=True)
        return int(high)

    def lag(self) -> int:
        """Records that wait in Kafka, as far as the client knows without asking."""
        waiting = 0
        for partition in self.assigned:
            if (known := self._positions.next(partition)) is not None and partition not in self._resting:
                _, high = self._client.get_watermark_offsets(Position(*partition), cached=True)
                waiting += max(0, high - known)
        return waiting

    def watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """First and next offset, asked of the broker under the consumer's isolation level. Errors: RetriableError."""
        try:
            low, high = self._client.get_watermark_offsets(Position(*partition), timeout=_WATERMARKS_TIMEOUT_S)
        except KafkaException as error:
            raise RetriableError(f"the offsets of {partition.topic}-{partition.partition}: {error}") from error
        return low, high

    def seek(self) -> None:
        """Go on at the positions; messages from after them will come again."""
        self._ends.clear()
        self._seek_back(self.assigned)

    def _seek_back(self, partitions: Collection[TopicPartition]) -> None:
        known = {partition: self._positions.read_from(partition) for partition in partitions}
        self._seek({partition: offset for partition, offset in known.items() if offset is not None})

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            for partition, offset in offsets.items():
                self._client.seek(Position(*partition, offset))
        except KafkaException as error:
            log.warning("Cannot seek, reading anew: %s", error)
            self._reassign()

    def restart_remade(self, topics: Collection[str]) -> bool:
        """Whether one of these topics was deleted and made again, in which case it is read anew (Invariant 2)."""
        remade = self._forget_remade(self._topic_ids.ask(topics))
        self._doubted.difference_update(topics)
        if remade:
            self._reassign()
        return bool(remade)

    def _forget_remade(self, asked: AskedIds) -> set[str]:
        """Those of the topics that were made again; no offset of them is known any more. Errors: RetriableError."""
        remade = self._topic_ids.remade(asked)
        if remade:
            self._commit = None
            self._rebalances.end_batch(lost=True)  # what its jobs reach are offsets of the former topic
        self._positions.forget_topics(remade)
        if remade:  # a sink that keeps offsets itself has to forget them, too
            anew = [partition for partition in self.kept if partition.topic in remade]
            self._gone.update(anew)  # what was fetched of them is of the former topic
            self._opened(anew)
        return remade

    def _judge(self, message: Any) -> None:
        error: KafkaError = message.error()
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self._ends[TopicPartition(message.topic(), message.partition())] = message.offset()
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._out_of_range(TopicPartition(message.topic(), message.partition()), error)
        elif code == KafkaError._BAD_COMPRESSION:
            raise undecodable(message)
        elif is_fenced(error):
            self._fenced()
        elif not _passes(error):
            of_group = code == KafkaError.GROUP_AUTHORIZATION_FAILED
            names = [self._place[0]] if of_group else [name for name in (message.topic(),) if name]
            raise KafkaException(KafkaError(code, said(error, "Read", names)))
        else:
            if code in NO_TOPIC and message.topic() is not None:
                self._missing.add([message.topic()])
                if message.topic() in self._doubted:
                    return  # logged before: librdkafka says so with every rebalance
                self._doubted.add(message.topic())
            log.warning("Kafka: %s; waiting", error.str())

    def _out_of_range(self, partition: TopicPartition, error: KafkaError) -> None:
        """Go on from an offset that is not there: retention deleted it, or the topic was made again."""
        if self.restart_remade({partition.topic}):
            return
        begin = self._positions.read_from(partition)
        if self._positions.policy == "error":
            raise KafkaException(KafkaError(error.code(), self._without_offset(partition, begin)))
        if begin is None:  # its leader may not know a new partition yet, and librdkafka does not ask again
            log.warning("Where %s-%d begins is not known yet: %s", *partition, error.str())
            self._owner.wait(_AGAIN_S)
            self._seek({partition: self._positions.start(partition)})
            return
        low, high = self.watermarks(partition)
        self._positions.go_on({partition: self._positions.in_topic(partition, begin, low, high)})
        self._reassign()

    def _without_offset(self, partition: TopicPartition, begin: int | None) -> str:
        """The error and its remedy if there is no offset to go on at, and no `auto.offset.reset`."""
        what = "has no committed offset of" if begin is None else f"goes on at offset {begin}, which is not there, of"
        return (
            f"The group {self._place[0]} {what} {partition.topic}-{partition.partition}, and auto.offset.reset=none. "
            "Set consumer.override.auto.offset.reset to earliest or latest, or stop the connector, set the offset by "
            "PATCH /connectors/…/offsets, and resume it"
        )

    def _reassign(self) -> None:
        """The consumer reads each of its partitions from where the task has come to."""
        if self._is_incremental and self.assigned:
            with self._fencing():
                self._client.incremental_unassign([Position(*partition) for partition in self.assigned])
        self._assign(self.assigned)

    def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        """The consumer reads these partitions from where the task has come to, beside those that it keeps."""
        self._ends.clear()  # before them are records that come again
        if not partitions:
            return
        take = self._client.incremental_assign if self._is_incremental else self._client.assign
        with self._fencing():
            # librdkafka keeps a partition paused over its going and coming back.
            self._client.resume([Position(*partition) for partition in partitions])
            take([Position(*p, self._positions.start(p)) for p in partitions])
            self._pause(partitions if self._held else self._resting)

    def _pause(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._client.pause([Position(*partition) for partition in partitions])

    # -- the group -----------------------------------------------------------------------------------------------------

    def commit(self, wait: bool) -> None:
        """Commit the reached offsets, now or when this is called again. Invariant 1: their rows are durable."""
        self._begin_commit()
        self._end_commit(wait)

    def commit_in_passing(self) -> bool:
        """As `commit`, by several calls none of which waits for an answer; whether it has ended."""
        if self._commit is None:
            self._begin_commit()
        if self._commit is not None and not self._commit.asked.is_done():
            return False
        self._end_commit(wait=False)
        return True

    def _begin_commit(self) -> None:
        """Ask whether the topics are still the same of which something was reached (Invariant 2)."""
        self._commit = None
        if self._owner.abandoned:
            return
        try:
            if new := self._without_doubt(self._positions.uncommitted()):
                self._commit = _Commit(new, self._topic_ids.ask({partition.topic for partition in new}))
        except RetriableError as error:
            _say_not_committed(error)

    def _end_commit(self, wait: bool) -> None:
        """Commit what was reached when it began, but for what is not the task's any more, or came back since."""
        begun, self._commit = self._commit, None
        if begun is None or self._owner.abandoned:
            return
        try:
            remade = self._forget_remade(begun.asked)
            still = {p: at for p, at in self._positions.uncommitted().items() if p.topic not in self._doubted}
            new = {p: min(offset, still[p]) for p, offset in begun.positions.items() if p in still}
            if new and not remade and (released := self._rebalances.pre_commit(new)) is not None:
                new = self._positions.uncommitted_of(released)
        except RetriableError as error:
            _say_not_committed(error)
            return
        if remade:
            # Offsets of a former topic would hide as many records of its namesake.
            if not wait:
                self._reassign()
            return
        if not new:
            return
        try:
            positions = [Position(*partition, offset) for partition, offset in new.items()]
            self._commit_sent = time.monotonic()
            answered = self._client.commit(offsets=positions, asynchronous=not wait)
            self._positions.committed(new)
            self._note_refused(answered or ())
        except KafkaException as error:
            _say_not_committed(error)

    def _without_doubt(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Those of topics that are there: of one that is gone a namesake may come, whose records they would hide."""
        if doubted := self._doubted.intersection(partition.topic for partition in positions):
            self._doubted -= self._topic_ids.ids(doubted).keys()  # the next look-up shows whether it is a namesake
        return {partition: offset for partition, offset in positions.items() if partition.topic not in self._doubted}

    def close(self) -> None:
        """Commit the reached offsets and leave the group; that revokes the partitions, which closes them."""
        try:
            self.commit(wait=True)
            # Nobody joins a group for topics that are not there, and an abandoned task may be no member any more.
            has_place = self._static and not self._was_fenced
            joins = not self._owner.abandoned and self._subscription.topics - self._doubted
            if has_place and (self._client.memberid() or joins):
                leave(self._client, *self._place)
        finally:
            self._statistics.end()
            if self.news is not None:
                self.news.close()
            self._client.close()

    def _on_commit(self, error: KafkaError | None, positions: list[Any]) -> None:
        self._host.metrics.committed(time.monotonic() - self._commit_sent, ok=error is None)
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            _say_not_committed(error.str())
            self._positions.not_committed(_partitions(positions))
        else:
            self._note_refused(positions)

    def _note_refused(self, positions: Sequence[Any]) -> None:
        """Of a commit that was taken some partitions may have been left out."""
        for one in positions:
            if one.error is not None:
                where = one.topic, one.partition, one.error.str()
                log.warning("The offset of %s-%d could not be committed, it will be again: %s", *where)
                self._positions.not_committed(_partitions([one]))

    def _on_assign(self, _client: Any, positions: list[Any]) -> None:
        if self._host.stop.is_set():
            return  # the member only waits to leave
        try:
            self.joined_as, self._joins_by = self.member, math.inf
            positions = self._subscribed(positions)
            new = _partitions(positions)
            while not self._ask_committed(positions) and not self._host.stop.is_set():
                self._owner.wait(1.0)
            self._positions.go_on_as_told(self._opened(new))
            kept = self.assigned if self._is_incremental else []
            self.assigned = [*kept, *new]
            self._assign(new)
        except Exception as error:
            self._error = error

    def _subscribed(self, positions: Sequence[Any]) -> list[Any]:
        """Those of topics that are read: a static member gets its place back as it was."""
        topics = self._subscription.topics
        if others := sorted({position.topic for position in positions} - topics):
            log.warning(
                "The group %s assigns partitions of topics that are not read any more, and are left alone: %s",
                self._place[0],
                ", ".join(others),
            )
        return [position for position in positions if position.topic in topics]

    def _opened(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        while True:
            try:
                return self._rebalances.open(partitions)
            except RetriableError as error:
                if self._host.stop.is_set():
                    raise
                log.warning("The sink cannot take its partitions yet: %s", error)
                self._owner.wait(1.0)

    def _ask_committed(self, positions: list[Any]) -> bool:
        """Whether Kafka has told where the group has come to in these partitions."""
        try:
            committed = self._committed(positions)
            # Asked last: what was committed for a topic that was made again meanwhile must not count.
            remade = self._forget_remade(self._topic_ids.ask({p.topic for p in positions}))
        except (RetriableError, KafkaException) as error:
            if isinstance(error, KafkaException) and not _passes(error.args[0]):
                raise
            log.warning("The committed offsets cannot be fetched yet: %s", error)
            return False
        for position in committed:
            if position.offset >= 0 and position.topic not in remade:
                self._positions.found_committed(TopicPartition(position.topic, position.partition), position.offset)
        return self._find_begins(_partitions(positions))

    def _find_begins(self, partitions: Sequence[TopicPartition]) -> bool:
        """Find where a policy of age begins in partitions without a committed offset; False if it is not known yet."""
        since_ms = self._positions.since_ms()
        unread = [partition for partition in partitions if self._positions.read_from(partition) is None]
        if since_ms is None or not unread:
            return True
        try:
            asked = [Position(*partition, since_ms) for partition in unread]
            for found in self._client.offsets_for_times(asked, timeout=_WATERMARKS_TIMEOUT_S):
                partition = TopicPartition(found.topic, found.partition)
                # It begins at the end if all records are older.
                self._positions.began(partition, found.offset if found.offset >= 0 else self.watermarks(partition)[1])
        except (RetriableError, KafkaException) as error:
            if isinstance(error, KafkaException) and not _passes(error.args[0]):
                raise
            log.warning("Where to begin by auto.offset.reset is not known yet: %s", error)
            return False
        return True

    def _committed(self, positions: list[Any]) -> Sequence[Any]:
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
                    self._place[0],
                )
        found: Sequence[Any] = self._client.committed(positions, timeout=_COMMITTED_TIMEOUT_S)
        return found

    def _on_revoke(self, _client: Any, positions: list[Any]) -> None:
        try:
            self._rebalances.end_batch(lost=False)
        except Exception as error:
            self._error = error
        try:
            try:
                self.commit(wait=True)
            finally:
                self._give_up(positions)
        except Exception as error:
            self._error = error

    def _on_lost(self, _client: Any, positions: list[Any]) -> None:
        self._joins_by = time.monotonic() + _JOINS_S
        try:
            try:
                self._rebalances.end_batch(lost=True)
            finally:
                self._give_up(positions)
        except Exception as error:
            self._error = error

    @contextmanager
    def _fencing(self) -> Iterator[None]:
        """Errors: Fenced in place of the client's own error that says so."""
        try:
            yield
        except KafkaException as error:
            # Once fenced, librdkafka refuses to subscribe and assign by this code alone: static members have no other.
            if not is_fenced(error.args[0]) and not (self._static and error.args[0].code() == KafkaError._FATAL):
                raise
            self._fenced()

    def _fenced(self) -> None:
        """Give up everything: its partitions are read by another consumer with this one's name. Errors: Fenced."""
        self._was_fenced = True
        self._on_lost(self._client, [Position(*partition) for partition in self.assigned])
        cause, self._error = self._error, None
        raise Fenced(*self._place) from cause

    def _give_up(self, positions: list[Any]) -> None:
        gone = [partition for partition in _partitions(positions) if partition in self.assigned]
        try:
            self._rebalances.close(gone)
        finally:  # they are another's now, whatever the sink says
            self._commit = None
            self._positions.give_up(gone)
            self._gone.update(gone)
            for partition in gone:
                self._resting.pop(partition, None)
                self._ends.pop(partition, None)
            self.assigned = [partition for partition in self.assigned if partition not in gone]

    def _raise_pending(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


def comes_by_parts(config: Mapping[str, Any]) -> bool:
    """True if a consumer with this librdkafka config is assigned partitions, and loses them, one by one."""
    is_new = str(config.get("group.protocol", "classic")).lower() == "consumer"
    return is_new or config.get("partition.assignment.strategy") == "cooperative-sticky"


def _say_not_committed(why: object) -> None:
    log.warning("Offsets could not be committed, they will be again: %s", why)


def _partitions(positions: Sequence[Any]) -> list[TopicPartition]:
    return [TopicPartition(position.topic, position.partition) for position in positions]


def _passes(error: KafkaError) -> bool:
    return not error.fatal() and (error.retriable() or error.code() in CONSUMER_RETRIABLE)
