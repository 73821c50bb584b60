"""A poll of a link waits for news, and ends before where it was asked to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy.fetching import FetchLimits, PartitionFetch
from headrace.connectors.mirror.copy.link import Link
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken

LONG_S = 60


class Silent:
    """A fetcher whose brokers were asked and have no news."""

    asks_all = True
    news: frozenset[TopicPartition] = frozenset()

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.asked = threading.Event()
        self.times = 0

    async def know(self, fetches: Any) -> None:
        pass

    def top_up(self, fetches: Any, needed: Any) -> Iterator[Any]:
        self.times += 1
        self.asked.set()
        return iter(())


def test_a_look_ends_the_poll_of_a_task_that_has_to_stop() -> None:
    client = ClientConfig("consumer", {"bootstrap.servers": "127.0.0.1:1", "isolation.level": "read_committed"})
    link, stop = Link(client, "A", "B", FetchLimits()), StopToken()
    fetcher: Any = Silent(link._fetcher.cluster)
    link._fetcher = fetcher
    fetches = {TopicPartition("t", 0): PartitionFetch(TopicPartition("t", 0), 0)}
    polling = threading.Thread(target=lambda: link.poll(fetches, LONG_S, stop))
    began = time.monotonic()
    polling.start()
    assert fetcher.asked.wait(LONG_S)
    link.look()  # for nothing: it goes on waiting
    stop.set()
    while polling.is_alive() and time.monotonic() < began + LONG_S:
        link.look()
        polling.join(0.05)
    assert time.monotonic() - began < LONG_S / 2
    assert fetcher.times < 10, "it waits without looking around"
    link.close()
