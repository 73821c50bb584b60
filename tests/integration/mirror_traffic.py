"""Records that come to a topic of a source cluster, its groups, and what a mirror made of both in the target."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Producer

from headrace.connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from tests.integration import group_offsets
from tests.integration.mirror_process import records
from tests.integration.partitions import messages
from tests.integration.worker_process import Topic, eventually

WITHIN_S: Final = 90
_PAUSE_S: Final = 0.02
_AT_ONCE: Final = 4


class Traffic:
    """Numbered records in a topic of a cluster; while it is entered, more come all the time."""

    def __init__(self, bootstrap: str, about: str, partitions: int = 2) -> None:
        self.topic = Topic(bootstrap, about, partitions)
        self.sent: list[list[bytes]] = [[] for _ in range(partitions)]
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._began = time.time_ns() // 1_000_000  # not long ago: retention would drop the records
        self._count = 0
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._over.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def add(self, count: int) -> None:
        """So many more records are there, evenly over the partitions."""
        for number in range(self._count, self._count + count):
            values = self.sent[number % len(self.sent)]
            value = b"record %d" % number
            self._producer.produce(
                self.topic.name,
                value,
                key=b"%d" % (number % 7),
                partition=number % len(self.sent),
                timestamp=self._began + number,
            )
            values.append(value)
        self._count += count
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        while not self._over.wait(_PAUSE_S):
            self.add(_AT_ONCE)

    def wait_copied(self, bootstrap: str, copy: str, log: Callable[[], object]) -> list[Counter[bytes]]:
        """All that was sent until now is in the copy, in its order; how often each record is there."""
        found: list[Counter[bytes]] = []
        for partition, sent in enumerate(self.sent):
            wanted = set(sent)

            def complete(p: int = partition, all_of_them: set[bytes] = wanted) -> bool:
                return all_of_them <= set(values(bootstrap, copy, p))

            eventually(complete, WITHIN_S, log, 0.5)
            copied = values(bootstrap, copy, partition)
            first = list(dict.fromkeys(copied))
            assert first == sent[: len(first)], "in order, nothing else"
            found.append(Counter(copied))
        return found


def values(bootstrap: str, topic: str, partition: int = 0) -> list[bytes]:
    """All values of a partition; none where the topic is not there yet."""
    return [message.value() or b"" for message in messages(bootstrap, topic, partition)]


def commit(topic: Topic, group: str, offsets: Sequence[int]) -> None:
    """The group has these offsets in the topic's partitions, as it has no members."""
    at = [GroupOffset(topic.name, partition, offset) for partition, offset in enumerate(offsets)]
    group_offsets.commit(topic.bootstrap, group, at)


def checkpoints(bootstrap: str, source: str, group: str) -> dict[int, Checkpoint]:
    """The last checkpoints from this cluster of a group of one topic, by partition."""
    return all_checkpoints(bootstrap, source).get(group, {})


def all_checkpoints(bootstrap: str, source: str) -> dict[str, dict[int, Checkpoint]]:
    """The last checkpoints from this cluster, by group and partition; each group is of one topic."""
    found: dict[str, dict[int, Checkpoint]] = {}
    for key, value in records(bootstrap, f"{source}.checkpoints.internal"):
        one = Checkpoint.of(key, value or b"")
        found.setdefault(one.group, {})[one.partition] = one
    return found


def wait_checkpoints(
    bootstrap: str, source: str, group: str, upstream: Sequence[int], log: Callable[[], object]
) -> dict[int, Checkpoint]:
    """The group's checkpoints once they are of these offsets of the source cluster."""

    def there() -> dict[int, Checkpoint] | None:
        found = checkpoints(bootstrap, source, group)
        return found if [found[p].upstream_offset for p in sorted(found)] == list(upstream) else None

    def shown() -> str:
        return f"{checkpoints(bootstrap, source, group)} and not {upstream}; {log()}"

    answer: dict[int, Checkpoint] = eventually(there, WITHIN_S, shown, 0.2)
    return answer


def heartbeats(bootstrap: str) -> list[Heartbeat]:
    """All in the cluster's topic of heartbeats."""
    return [Heartbeat.of(key, value or b"") for key, value in records(bootstrap, "heartbeats")]


def offset_syncs(bootstrap: str, target: str) -> list[OffsetSync]:
    """All in the source cluster's topic of syncs to this cluster."""
    return [
        OffsetSync.of(key, value or b"") for key, value in records(bootstrap, f"mm2-offset-syncs.{target}.internal")
    ]
