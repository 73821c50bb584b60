"""The partitions of a sink's consumer, and where it reads each from: held, resting, sought, assigned anew."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.worker.tasks.positions import Positions

log = logging.getLogger(__name__)

_WATERMARKS_TIMEOUT_S: Final = 10.0


class ConsumerPartitions:
    """The partitions of one consumer, read from its `positions` on; for its task's own thread."""

    def __init__(
        self,
        client: Any,
        config: Mapping[str, Any],
        positions: Positions,
        fencing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Within `fencing` the client's error that it is fenced becomes Fenced."""
        self.assigned: list[TopicPartition] = []
        self.gone: set[TopicPartition] = set()
        """Partitions that went since the last fetch, even if they came back, or were made again."""
        self.times_gone = 0
        """The number of times that partitions went, or were made again."""
        self._is_incremental = comes_by_parts(config)
        self._client = client
        self._positions = positions
        self._fencing = fencing
        self._ends: dict[TopicPartition, int] = {}
        self._held = False
        self._resting: dict[TopicPartition, float] = {}

    @property
    def kept(self) -> set[TopicPartition]:
        """The partitions that the task has had since the last fetch, of the same topics."""
        return set(self.assigned) - self.gone

    # -- held, resting -------------------------------------------------------------------------------------------------

    @property
    def are_held(self) -> bool:
        """True between `hold` and `release`; meanwhile the client learns nothing of the partitions' ends."""
        return self._held

    def hold(self) -> None:
        """Hold all partitions, also those that come: none gives records."""
        if not self._held:
            self._pause(self.assigned)
        self._held = True

    def release(self) -> None:
        """Release all partitions except those that rest."""
        awake = [Position(*partition) for partition in self.assigned if partition not in self._resting]
        if self._held and awake:
            self._client.resume(awake)
        self._held = False

    def rest(self, partition: TopicPartition, until: float) -> None:
        """Hold the partition until this instant of `time.monotonic`; it then goes on at its position."""
        self._resting[partition] = until
        self._pause([partition])
        self._seek_back([partition])

    def wake(self) -> float | None:
        """Release partitions whose rest is over; return the seconds until the next one's is."""
        now = time.monotonic()
        over = [partition for partition, until in self._resting.items() if until <= now]
        for partition in over:
            del self._resting[partition]
        if over and not self._held:
            self._client.resume([Position(*partition) for partition in over])
        return min(self._resting.values()) - now if self._resting else None

    # -- where they begin and end --------------------------------------------------------------------------------------

    def note_end(self, partition: TopicPartition, end: int) -> None:
        """Note that a partition ends there, once all fetched records of it are done with."""
        self._ends[partition] = end

    def pass_ends(self, but: Collection[TopicPartition] = ()) -> None:
        """Go past the partitions' ends, as all fetched records are done with, except in `but`."""
        for partition, end in self._ends.items():
            if partition not in self._resting and partition not in but:
                self._positions.pass_gap(partition, end)
        self._ends.clear()

    def begin(self, partition: TopicPartition) -> int | None:
        """The offset to go on at; None if nothing was read yet, unless it starts at its beginning.

        Errors: as `watermarks`.
        """
        if self._positions.start(partition) == OFFSET_BEGINNING:
            return self.watermarks(partition)[0]
        return self._positions.read_from(partition)

    def high(self, partition: TopicPartition) -> int:
        """The next offset to be written, as far as the client knows. Errors: as `watermarks`."""
        if self.are_held:
            return self.watermarks(partition)[1]
        _, high = self._client.get_watermark_offsets(Position(*partition), cached=True)
        return int(high)

    def waiting(self) -> dict[TopicPartition, int]:
        """The number of records that wait in each partition, as far as the client knows without asking.

        Partitions that rest are left out, and those whose position is not known.
        """
        waiting = {}
        for partition in self.assigned:
            if (known := self._positions.next(partition)) is not None and partition not in self._resting:
                _, high = self._client.get_watermark_offsets(Position(*partition), cached=True)
                waiting[partition] = max(0, high - known)
        return waiting

    def watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """First and next offset, asked of the broker under the consumer's isolation level. Errors: RetriableError."""
        try:
            low, high = self._client.get_watermark_offsets(Position(*partition), timeout=_WATERMARKS_TIMEOUT_S)
        except KafkaException as error:
            raise RetriableError(f"the offsets of {partition.topic}-{partition.partition}: {error}") from error
        return low, high

    # -- sought, assigned ----------------------------------------------------------------------------------------------

    def seek(self) -> None:
        """Go on at the positions; messages after them will come again."""
        self._ends.clear()
        self._seek_back(self.assigned)

    def seek_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on at these offsets."""
        try:
            for partition, offset in offsets.items():
                self._client.seek(Position(*partition, offset))
        except KafkaException as error:
            log.warning("Cannot seek, reading anew: %s", error)
            self.read_anew()

    def take(self, new: Sequence[TopicPartition], told: Mapping[TopicPartition, int]) -> None:
        """Read these new partitions, from the offsets that the sink has `told`, beside those that it keeps."""
        self._positions.go_on_as_told(told)
        kept = self.assigned if self._is_incremental else []
        self.assigned = [*kept, *new]
        self._assign(new)

    def read_anew(self) -> None:
        """Read each partition from the task's position on."""
        if self._is_incremental and self.assigned:
            with self._fencing():
                self._client.incremental_unassign([Position(*partition) for partition in self.assigned])
        self._assign(self.assigned)

    def make_again(self, partitions: Collection[TopicPartition]) -> None:
        """Note that the topics of these partitions were made again: fetched messages are of the former ones."""
        self.gone.update(partitions)
        self.times_gone += 1

    def give_up(self, gone: Collection[TopicPartition]) -> None:
        """Forget partitions that belong to another task now."""
        self._positions.give_up(gone)
        self.make_again(gone)
        for partition in gone:
            self._resting.pop(partition, None)
            self._ends.pop(partition, None)
        self.assigned = [partition for partition in self.assigned if partition not in gone]

    def _seek_back(self, partitions: Collection[TopicPartition]) -> None:
        known = {partition: self._positions.read_from(partition) for partition in partitions}
        self.seek_to({partition: offset for partition, offset in known.items() if offset is not None})

    def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._ends.clear()  # the records before them come again
        if not partitions:
            return
        take = self._client.incremental_assign if self._is_incremental else self._client.assign
        with self._fencing():
            # librdkafka keeps a partition paused over its going and coming back.
            self._client.resume([Position(*partition) for partition in partitions])
            take([Position(*p, self._positions.start(p)) for p in partitions])
            self._pause(partitions if self._held else self._resting)

    def _pause(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._client.pause([Position(*partition) for partition in partitions])


def comes_by_parts(config: Mapping[str, Any]) -> bool:
    """True if a consumer with this librdkafka config is assigned partitions, and loses them, one by one."""
    is_new = str(config.get("group.protocol", "classic")).lower() == "consumer"
    return is_new or config.get("partition.assignment.strategy") == "cooperative-sticky"
