"""Waits for answers of Kafka's admin clients (`plugins/interop/kafka/admin_clients.py`)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

REQUEST_TIMEOUT_S: Final = 10.0
"""The client fails a request after this time."""
_CHECK_EVERY_S: Final = 0.25


def answered(future: Future[Any], check: Callable[[], object]) -> Any:
    """Wait for the answer to a request; calls `check` every quarter of a second, which raises to give up.

    Errors: KafkaException; what `check` raises.
    """
    while True:
        try:
            return future.result(_CHECK_EVERY_S)
        except TimeoutError:
            check()
