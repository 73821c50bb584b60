"""Finds the offsets at which the partitions of a task begin: after stored offsets, or as the source cluster answers.

    stored: {"offset": 41, "topic_id": "Yhm…"}    if the topic has this id now, from 42 on; else from its beginning
    stored: {"offset": 41}                        by MirrorMaker, or an operator: of the topic that exists now
    nothing stored                                as auto.offset.reset says

Invariant 2: an offset belongs to the topic with its id, because a topic that was deleted and made again may be longer
than the former one. MirrorMaker's task reads `offset` alone, and so goes on at these offsets.

Decided: a topic that was made again is copied from its beginning, whatever `auto.offset.reset` says of the records from
before the flow, because all of it is new; loses: `latest` for such a topic. With `none` the task fails.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple
from uuid import UUID

from confluent_kafka import KafkaException

from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.copy.fetching import PartitionFetch
from headrace.connectors.mirror.source.cluster import ClusterAdmin, Topic
from headrace.connectors.mirror.topic_ids import parsed, printed
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import SourceOffset, TopicPartition
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

TOPIC_ID: Final = "topic_id"
_ASKED_S: Final = 30.0
"""The source cluster has so long to answer."""


class _TopicNow(NamedTuple):
    """The topic id and the number of partitions that a topic has now."""

    id: UUID
    partitions: int


class SourcePositions:
    """The positions of one task's partitions. Errors of all methods: RetriableError if the cluster does not answer."""

    def __init__(self, alias: str, clients: MirrorClients, reset: str, stopping: StopToken) -> None:
        """`reset` is the consumer's `auto.offset.reset`."""
        self._alias = alias
        self._clients = clients
        self._reset = reset
        self._stopping = stopping

    def after(
        self, stored: Mapping[TopicPartition, SourceOffset | None], known: Collection[TopicPartition]
    ) -> list[PartitionFetch]:
        """Fetches that begin after these offsets, or as the module says.

        A `known` partition without an offset gets no fetch.
        """
        now = self._topics({one.topic for one in stored})
        fetches, new = [], []
        for one, offset in stored.items():
            there = now[one.topic].id if one.topic in now else None
            if offset is not None:
                fetches.append(PartitionFetch(one, offset["offset"] + 1, parsed(offset.get(TOPIC_ID)) or there))
            elif one not in known:
                new.append(one)
        anew = {fetch.partition: fetch for fetch in self._anew(fetches, now)}
        ids = {topic: found.id for topic, found in now.items()}
        first = [PartitionFetch(one, begin, ids.get(one.topic)) for one, begin in self.begins(new).items()]
        return [anew.get(fetch.partition, fetch) for fetch in fetches] + first

    def in_namesakes(self, fetches: Collection[PartitionFetch]) -> list[PartitionFetch]:
        """Fetches in today's topics of the same names, for fetches that brokers refuse.

        A fetch is missing if there is no other topic of its name.
        """
        now = self._topics({fetch.partition.topic for fetch in fetches})
        first = [fetch for fetch in fetches if fetch.topic_id is None and fetch.partition.topic in now]
        return [PartitionFetch(one.partition, one.position, now[one.partition.topic].id) for one in first] + self._anew(
            fetches, now
        )

    def remade(self, fetches: Collection[PartitionFetch]) -> set[str]:
        """The topics of these fetches that were deleted and made again."""
        now = self._topics({fetch.partition.topic for fetch in fetches if fetch.topic_id is not None})
        return {fetch.partition.topic for fetch in fetches if _is_of_former(fetch, now)}

    def begins(self, partitions: Sequence[TopicPartition], reset: str = "") -> dict[TopicPartition, int]:
        """The offsets at which partitions without a usable offset begin, by `reset` or else by `auto.offset.reset`.

        Partitions without an answer are missing. Errors: ValueError for `none`.
        """
        if not partitions:
            return {}
        if self._reset == "none":
            names = ", ".join(map(str, partitions[:5]))
            raise ValueError(
                f"{len(partitions)} partitions have no stored offset, or one that is not there any more ({names}), and "
                "auto.offset.reset is none: set it to earliest or latest, or set their offsets"
            )
        with self._asked(f"where its {len(partitions)} partitions begin") as cluster:
            return cluster.offsets(reset or self._reset, partitions)

    def _anew(self, fetches: Collection[PartitionFetch], now: Mapping[str, _TopicNow]) -> list[PartitionFetch]:
        """Fetches at the beginning for those of former topics, if the topic has such a partition now."""
        of_former = [fetch.partition for fetch in fetches if _is_of_former(fetch, now)]
        there = [one for one in of_former if one.partition < now[one.topic].partitions]
        found = self.begins(there, "earliest")
        for one, begin in found.items():
            log.warning(
                "The topic of %s on %s was deleted and made again: copying begins anew at offset %d; what was copied "
                "before stays in the target cluster, and what was not is lost",
                *(one, self._alias, begin),
            )
        return [PartitionFetch(one, begin, now[one.topic].id) for one, begin in found.items()]

    def _topics(self, names: Collection[str]) -> dict[str, _TopicNow]:
        """The topics of these names that exist now and have an id, as far as the source cluster answers."""
        with self._asked("which topics it has") as cluster:
            found = {name: topic for name, topic in cluster.topics(names).items() if isinstance(topic, Topic)}
        ids = {name: parsed(topic.id) for name, topic in found.items()}
        return {name: _TopicNow(its, found[name].partitions) for name, its in ids.items() if its is not None}

    @contextmanager
    def _asked(self, what: str) -> Iterator[ClusterAdmin]:
        admin = self._clients.source_admin("replication-source-admin")
        try:
            yield ClusterAdmin(self._alias, admin, _ASKED_S, self._stopping)
        except KafkaException as error:
            raise RetriableError(
                f"the source cluster {self._alias} does not say {what}: {error.args[0].str()}; see that its brokers "
                "run and let this connector describe and read its topics"
            ) from error


def _is_of_former(fetch: PartitionFetch, now: Mapping[str, _TopicNow]) -> bool:
    """True if the topic of this name now has another id than the fetch's."""
    there = now.get(fetch.partition.topic)
    return there is not None and fetch.topic_id not in (None, there.id)


def with_topic_id(offset: SourceOffset, topic_id: UUID | None) -> SourceOffset:
    """The offset with the topic id, in the stored form."""
    return offset if topic_id is None else {**offset, TOPIC_ID: printed(topic_id)}


def tell_of_gap(fetch: PartitionFetch, begin: int) -> None:
    """Log the records that are lost if the fetch's position no longer exists."""
    wanted = fetch.taken + 1
    if begin > wanted:
        log.warning(
            "Records of %s-%d were deleted in the source cluster before they were copied: offsets %d to %d, copying "
            "goes on at %d; let its retention be longer than replication may lag",
            *(fetch.partition.topic, fetch.partition.partition, wanted, begin - 1, begin),
        )
    else:
        log.warning(
            "Offset %d of %s-%d is beyond its end: its log was cut, or the topic was deleted and made again; copying "
            "begins anew at %d, and what was copied before stays in the target cluster",
            *(wanted, fetch.partition.topic, fetch.partition.partition, begin),
        )
