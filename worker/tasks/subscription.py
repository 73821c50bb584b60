"""The topics that a sink reads: the named ones, and all whose whole name matches a regular expression.

Decided: matched by the worker and not by librdkafka, because librdkafka takes POSIX expressions (neither `\\d` nor
`(?:`), matches the beginning of a name alone, and includes the broker's own topics; loses: a request for all names now
and then.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from confluent_kafka import KafkaException

from headrace.config.connector.config import consumes
from headrace.config.worker.internal_topics import ALL_OPEN, BROKERS_OWN, InternalTopics

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 5.0
_AGAIN_S: Final = 5.0
"""The pause before looking again if the brokers did not answer, or no topic matched."""


class TopicSubscription:
    """The topics to which one consumer is subscribed; for the consumer's own thread only."""

    def __init__(
        self, topics: Collection[str], regex: str, look_every_s: float, closed: InternalTopics = ALL_OPEN
    ) -> None:
        """Without `regex` the topics are fixed. `regex` matches no topic that is `closed`."""
        self._named = frozenset(topics)
        self._regex = regex
        self._every_s = look_every_s
        self._closed = closed
        self._left_out: list[str] = []
        self._look_at = 0.0
        self._current: frozenset[str] = frozenset()

    @property
    def topics(self) -> frozenset[str]:
        """The topics to which the consumer is subscribed now."""
        return self._current

    def signature(self, client: Any) -> str:
        """The inputs of an assignment: the subscription, and its topics' partitions. Errors: KafkaException."""
        there = client.list_topics(timeout=_TIMEOUT_S).topics
        mine = {topic: len(found.partitions) for topic, found in there.items() if self._reads(topic)}
        return repr((sorted(self._named), self._regex, sorted(mine.items())))

    def renew(self, client: Any, **callbacks: Callable[..., None]) -> None:
        """Subscribe the consumer to the existing topics; lists the brokers' topics when due."""
        if time.monotonic() < self._look_at:
            return
        try:
            matching = self._matching(client)
        except KafkaException as error:
            log.warning("The topics that match topics.regex=%s cannot be listed yet: %s", self._regex, error)
            self._look_at = time.monotonic() + _AGAIN_S
            return
        self._look_at = time.monotonic() + (self._every_s if matching else _AGAIN_S)
        if (wanted := self._named | matching) == self._current:
            return
        if self._regex:
            log.info("The topics that match topics.regex=%s: %s", self._regex, ", ".join(sorted(matching)) or "none")
        if wanted:
            client.subscribe(sorted(wanted), **callbacks)
        else:
            client.unsubscribe()
        self._current = wanted

    def looks_in_s(self) -> float:
        """The seconds until the brokers' topics are listed again; infinite without a regex."""
        return max(0.0, self._look_at - time.monotonic()) if self._regex else math.inf

    def _matching(self, client: Any) -> frozenset[str]:
        if not self._regex:
            return frozenset()
        there = client.list_topics(timeout=_TIMEOUT_S).topics
        closed = (topic for topic in there if topic in self._closed and topic not in BROKERS_OWN)
        left_out = sorted(topic for topic in closed if consumes(topic, (), self._regex))
        if left_out and left_out != self._left_out:
            log.warning("Internal topics that match topics.regex=%s are left out: %s", self._regex, ", ".join(left_out))
        self._left_out = left_out
        return frozenset(filter(self._matches, there))

    def _reads(self, topic: str) -> bool:
        return topic in self._named or self._matches(topic)

    def _matches(self, topic: str) -> bool:
        is_internal = topic in BROKERS_OWN or topic in self._closed
        return not is_internal and consumes(topic, (), self._regex)
