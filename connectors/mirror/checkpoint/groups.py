"""The consumer groups of one cluster and their offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.clients import admin_client, answered, explained, group_offsets
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.group_offsets import GroupOffset, without_errors
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_REFUSALS: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.INVALID_GROUP_ID)
"""Errors of single groups. All others are unclear, and so retriable."""
_AT_ONCE: Final = 100
"""So many groups are asked for their offsets at a time: each takes its own request."""

GroupOffsets = Mapping[TopicPartition, GroupOffset]
"""A group's committed offsets, with their metadata."""


class ConsumerGroups:
    """The consumer groups of the cluster with this alias; for one thread at a time.

    Errors of all methods: RetriableError if the cluster does not answer; StoppedError.
    """

    def __init__(self, client: ClientConfig, alias: str, timeout_s: float, stopping: StopToken) -> None:
        self._client = client
        self._alias = alias
        self._timeout_s = timeout_s
        self._stopping = stopping
        self._refused: set[str] = set()

    def states(self) -> dict[str, ConsumerGroupState]:
        """All groups of consumers, with their states."""
        future = admin_client(self._client).list_consumer_groups(request_timeout=self._timeout_s)
        try:
            found = answered(future, self._stopping)
        except KafkaException as raised:
            raise self._away(raised) from raised
        if found.errors:
            # A broker that is away hides its groups: they are not gone.
            raise self._away(found.errors[0])
        return {group.group_id: group.state for group in found.valid}

    def offsets(self, groups: Iterable[str]) -> dict[str, GroupOffsets]:
        """The committed offsets of these groups, without groups that this client may not ask for."""
        client = group_offsets(self._client)
        found: dict[str, GroupOffsets] = {}
        failed: dict[str, KafkaException] = {}
        for some in _parts(groups, _AT_ONCE):
            asked = {group: client.committed(group, timeout_s=self._timeout_s) for group in some}
            for group, future in asked.items():
                try:
                    found[group] = _committed(answered(future, self._stopping))
                except KafkaException as raised:
                    failed[group] = raised
        if away := [raised for raised in failed.values() if raised.args[0].code() not in _REFUSALS]:
            raise self._away(away[0]) from away[0]
        self._say(failed)
        return found

    def move(self, group: str, to: Sequence[GroupOffset]) -> None:
        """Set committed offsets of a group without members.

        Errors: KafkaException, also if a single partition is refused.
        """
        answer = group_offsets(self._client).commit(group, to, self._timeout_s)
        without_errors(answered(answer, self._stopping))

    def _say(self, failed: Mapping[str, KafkaException]) -> None:
        """Log each group that could not be asked, once until it could be."""
        for group, raised in failed.items():
            if group not in self._refused:
                why = raised.args[0].str()
                log.warning("The offsets of group %s in cluster %s cannot be read: %s", group, self._alias, why)
        self._refused = set(failed)

    def _away(self, error: Any) -> RetriableError:
        raised = error if isinstance(error, KafkaException) else KafkaException(error)
        reason = explained(self._client, raised).args[0].str()
        return RetriableError(f"The consumer groups of cluster {self._alias} cannot be read: {reason}")


def _committed(answer: Iterable[GroupOffset]) -> GroupOffsets:
    return {TopicPartition(one.topic, one.partition): one for one in answer if one.error is None and one.offset >= 0}


def _parts(items: Iterable[str], size: int) -> Iterable[Sequence[str]]:
    every = list(items)
    return [every[begin : begin + size] for begin in range(0, len(every), size)]
