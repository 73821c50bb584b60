"""Sleeps until librdkafka has something for a consumer.

    news.wait(1.0); message = client.poll(0)

Decided: not `client.poll(1.0)`, because confluent-kafka waits in pieces of 0.2 s and takes Python's lock after each:
100 idle sinks woke 880 times a second, a third of the cost of 200 idle connectors; loses: an address is read out of
confluent-kafka's object, only if that has the size known here.

Source: `rd_kafka_queue_io_event_enable` in librdkafka's rdkafka.h.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from ctypes import c_int, c_size_t, c_void_p
from typing import Any, Final, Self

from headrace.plugins.interop.kafka.librdkafka_internals import functions, handle_of

_ONE: Final = (1).to_bytes(8, "little")
_WOKEN: Final = 1 << 32
"""`wake` adds this to the eventfd; librdkafka adds ones."""

_c: Final = functions(
    {  # result, arguments
        "queue_get_consumer": (c_void_p, c_void_p),
        "queue_io_event_enable": (None, c_void_p, c_int, c_void_p, c_size_t),
        "queue_destroy": (None, c_void_p),
    }
)


class ConsumerWakeup:
    """Wakes the thread that waits for a consumer; only `wake` may be called from other threads."""

    def __init__(self, handle: c_void_p) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ready = select.poll()
        self._ready.register(self._descriptor, select.POLLIN)
        self._lock = threading.Lock()
        self._is_open = True
        self._queue = _c["queue_get_consumer"](handle)
        _c["queue_io_event_enable"](self._queue, self._descriptor, _ONE, len(_ONE))

    @classmethod
    def of(cls, client: Any) -> Self | None:
        """Return this consumer's news; None if unavailable: `client.poll` has to wait."""
        handle = handle_of(client) if hasattr(os, "eventfd") else None
        return None if handle is None else cls(handle)

    def wait(self, seconds: float) -> bool:
        """Wait; True if something came since the last poll, False after `seconds` or `wake`."""
        return bool(self._ready.poll(seconds * 1000)) and os.eventfd_read(self._descriptor) < _WOKEN

    def fileno(self) -> int:
        """Return the descriptor that becomes readable after news or `wake`."""
        return self._descriptor

    def seen(self) -> None:
        """Make the descriptor unreadable until more comes; the caller then polls the consumer until it is empty."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)

    def wake(self) -> None:
        """End the current wait, or the next one. Any thread may call it."""
        with self._lock:
            if self._is_open:
                os.eventfd_write(self._descriptor, _WOKEN)

    def close(self) -> None:
        """Detach from the consumer; call before the consumer is closed."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                _c["queue_io_event_enable"](self._queue, -1, None, 0)
                _c["queue_destroy"](self._queue)
                os.close(self._descriptor)
