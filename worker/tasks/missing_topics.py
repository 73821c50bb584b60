"""Looks often for the topics of a subscription that do not exist yet.

Decided: the admin client asks for them once a second, because librdkafka takes up to a quarter of a minute to look by
itself; after a minute it asks every five seconds, because a sink may wait for days; loses: a small request for each
sink that waits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from typing import Final

from headrace.plugins.errors import RetriableError
from headrace.worker.kafka.topic_ids import AskedIds, TopicIds

_OFTEN_S: Final = 1.0
_AT_FIRST_S: Final = 60.0
_LATER_S: Final = 5.0
_ANSWER_S: Final = 0.05


class MissingTopics:
    """The missing topics of one consumer, for its own thread only. It never waits for an answer."""

    def __init__(self, topic_ids: TopicIds, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic_ids = topic_ids
        self._clock = clock
        self._since: dict[str, float] = {}
        self._look_at = math.inf
        self._asked: AskedIds | None = None

    def add(self, topics: Collection[str]) -> None:
        """Note topics that were missing a moment ago."""
        now = self._clock()
        self._since = dict.fromkeys(topics, now) | self._since
        self._look_at = min(self._look_at, now + _OFTEN_S)

    def appeared(self) -> set[str]:
        """Return each topic that exists now, once. Ask for the missing ones when it is time."""
        if self._clock() < self._look_at:
            return set()
        if self._asked is None:
            self._asked = self._topic_ids.ask(self._since.keys())
        if not self._asked.is_done():
            self._look_at = self._clock() + _ANSWER_S
            return set()
        asked, self._asked = self._asked, None
        try:
            there = set(asked.answer())
        except RetriableError:
            there = set()
        for topic in there:
            self._since.pop(topic, None)
        self._look_at = self._clock() + self._pause_s()
        return there

    def looks_in_s(self) -> float:
        """The seconds until `appeared` has something to do; infinite if nothing is missing."""
        return max(0.0, self._look_at - self._clock())

    def _pause_s(self) -> float:
        if not self._since:
            return math.inf
        return _OFTEN_S if self._clock() - max(self._since.values()) < _AT_FIRST_S else _LATER_S
