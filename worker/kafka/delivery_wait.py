"""Limits how long a task's thread waits for Kafka's acknowledgements."""

from __future__ import annotations

import time
from typing import Final

from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.errors import refused
from headrace.worker.kafka.librdkafka import Producer

STOP_S: Final = 2.0
"""The time that a stopping task waits for sent records. A record that arrives need not be sent again."""


class DeliveryWait:
    """Decides between two waits if the producer's task waits on."""

    def __init__(self, producer: Producer, stop: StopToken, why: str) -> None:
        """`why`: the text of StoppedError."""
        self._producer = producer
        self._stop = stop
        self._why = why
        self._stop_seen: float | None = None

    def wait_on(self) -> None:
        """Check that waiting may go on.

        Errors: StoppedError if the task has been stopping for `STOP_S`; LoginRefused if Kafka refuses the login or TLS.
        """
        if (refusal := refused(self._producer.failures, self._producer.config)) is not None:
            raise refusal
        if self._stop.is_set():
            now = time.monotonic()
            self._stop_seen = now if self._stop_seen is None else self._stop_seen
            if now - self._stop_seen >= STOP_S:
                raise StoppedError(self._why)
