"""The brokers that a client of librdkafka knows: looked up anew at `bootstrap.servers` once it knows none.

A broker that has been fenced and comes back says for a moment that there are no brokers. librdkafka (2.10 to 2.16)
then forgets all it knew, and in one of ten cases never asks again (confluentinc/librdkafka issue 5301): each request
ends with a time-out, and a consumer is silent, for as long as the process lives.

Decided: the client is given its first brokers again and not replaced, because a consumer keeps its place in the group
so, and a producer its records and their sequence; loses: nothing is seen of a client that nobody polls.

Source: the comments of librdkafka's rdkafka.h.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from ctypes import c_char_p, c_int, c_int32, c_void_p
from typing import Any, Final, Self

from headrace.plugins.kafka.handle import functions, handle_of

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
    """Those of one client; to be used where the client cannot end meanwhile, as in its callbacks."""

    def __init__(
        self, handle: c_void_p, config: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`config` is librdkafka's of the client."""
        self._handle = handle
        self._servers = str(config.get("bootstrap.servers", ""))
        self._client_id = config.get("client.id", "rdkafka")
        self._clock = clock
        self._check_at = clock() + CHECK_EVERY_S
        self._knew = False

    @classmethod
    def of(cls, client: Any, config: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> Self | None:
        """Those of confluent-kafka's client with this config; None where its handle cannot be had."""
        handle = handle_of(client)
        return None if handle is None else cls(c_void_p(handle.value), config, clock)

    def check(self) -> None:
        """Look brokers up anew where the last answer told of none; does nothing if it did so a moment ago."""
        if self._clock() < self._check_at:
            return
        self._check_at = self._clock() + CHECK_EVERY_S
        # It asks nobody: that is the controller of the last answer, and one without brokers names none.
        if _c["controllerid"](self._handle, 0) != _UNKNOWN:
            self._knew = True
            return
        _c["brokers_add"](self._handle, self._servers.encode())
        if self._knew:  # else none has answered yet
            log.warning(
                "The Kafka client %s knows no broker any more, as after the answer of one that was fenced: it looks "
                "them up anew at %s",
                self._client_id,
                self._servers,
            )
