"""Makes a librdkafka client look up brokers again at `bootstrap.servers` once it knows none.

A fenced broker that comes back briefly answers that there are no brokers. librdkafka (2.10 to 2.16) then forgets all
brokers, and in one of ten cases never asks again (confluentinc/librdkafka issue 5301): each request times out, and a
consumer gets nothing, for the process's life.

Decided: the client gets its first brokers again and is not replaced, because a consumer then keeps its place in the
group, and a producer its records and their sequence; loses: a client that nobody polls is not checked.

Source: the comments of librdkafka's rdkafka.h.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from ctypes import c_char_p, c_int, c_int32, c_void_p
from typing import Any, Final, Self

from headrace.plugins.interop.kafka.librdkafka_internals import functions, handle_of

log = logging.getLogger(__name__)

CHECK_EVERY_S: Final = 10.0
_UNKNOWN: Final = -1

_c: Final = functions(
    {  # result, arguments
        "controllerid": (c_int32, c_void_p, c_int),
        "brokers_add": (c_int, c_void_p, c_char_p),
    }
)


class KnownBrokers:
    """Brokers of one client; use it only while the client cannot end, such as in its callbacks."""

    def __init__(
        self, handle: c_void_p, config: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`config`: the client's, for librdkafka."""
        self._handle = handle
        self._servers = str(config.get("bootstrap.servers", ""))
        self._client_id = config.get("client.id", "rdkafka")
        self._clock = clock
        self._check_at = clock() + CHECK_EVERY_S
        self._knew = False

    @classmethod
    def of(cls, client: Any, config: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> Self | None:
        """Watch a confluent-kafka client with this config; None if its handle is unknown."""
        handle = handle_of(client)
        return None if handle is None else cls(c_void_p(handle.value), config, clock)

    def check(self) -> None:
        """Look up brokers again if the last answer named none; does nothing if called again within `CHECK_EVERY_S`."""
        if self._clock() < self._check_at:
            return
        self._check_at = self._clock() + CHECK_EVERY_S
        # Sends no request: returns the controller of the last answer; an answer without brokers has none.
        if _c["controllerid"](self._handle, 0) != _UNKNOWN:
            self._knew = True
            return
        _c["brokers_add"](self._handle, self._servers.encode())
        if self._knew:  # otherwise no broker has answered yet
            log.warning(
                "The Kafka client %s knows no broker any more, as after the answer of one that was fenced: it looks "
                "them up anew at %s",
                self._client_id,
                self._servers,
            )
