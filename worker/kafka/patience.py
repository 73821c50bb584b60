"""How long a task's thread waits for Kafka's answers to what it has sent."""

from __future__ import annotations

import time
from typing import Final

from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.errors import refused
from headrace.worker.kafka.librdkafka import Producer

STOP_S: Final = 2.0
"""How long a task that has to stop waits for sent records: those that arrived need not be sent again."""


class Patience:
    """Asked between two waits of a producer's task."""

    def __init__(self, producer: Producer, stop: StopToken, why: str) -> None:
        """`why` is what a stop broke off."""
        self._producer = producer
        self._stop = stop
        self._why = why
        self._stop_seen: float | None = None

    def wait_on(self) -> None:
        """Wait no longer once the task has been stopping for a while, or once Kafka lets none in.

        Errors: StoppedError; LoginRefused.
        """
        if (refusal := refused(self._producer.failures, self._producer.config)) is not None:
            raise refusal
        if self._stop.is_set():
            now = time.monotonic()
            self._stop_seen = now if self._stop_seen is None else self._stop_seen
            if now - self._stop_seen >= STOP_S:
                raise StoppedError(self._why)
