"""Names of addresses, asked for beside the messages: a name server that does not answer holds nothing up for long."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final

_WAIT_S: Final = 1.0
_MOST: Final = 10_000
_AT_ONCE: Final = 100
"""The most addresses that are asked for at once: senders of datagrams can pretend any."""


class Names:
    """The names of senders' addresses; for one thread."""

    def __init__(self, kept_ms: int) -> None:
        self._kept_s = kept_ms / 1_000
        self._known: dict[str, tuple[str, float]] = {}
        self._pool = ThreadPoolExecutor(4, "syslog-names")

    def of(self, addresses: Collection[str]) -> dict[str, str]:
        """The name of each address; the address itself if none is found in time."""
        now = time.monotonic()
        if len(self._known) > _MOST:
            self._known.clear()
        asked = [one for one in addresses if one not in self._known or self._known[one][1] < now][:_AT_ONCE]
        futures = {self._pool.submit(_name, one): one for one in asked}
        for future in wait(futures, _WAIT_S).done:
            self._known[futures[future]] = future.result(), now + self._kept_s
        for future, one in futures.items():
            if future.cancel() or not future.done():
                self._known[one] = one, now + self._kept_s
        return {one: self._known[one][0] if one in self._known else one for one in addresses}

    def close(self) -> None:
        """Asks for no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _name(address: str) -> str:
    try:
        return socket.gethostbyaddr(address)[0]
    except OSError:
        return address
