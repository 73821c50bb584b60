"""The rows that a sink has taken and not yet made durable, as a `BufferingSink` does; other sinks hold none."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.plugins.contracts import SinkTask
from headrace.plugins.extensions import BufferingSink
from headrace.plugins.offsets import TopicPartition
from headrace.worker.pipeline.executor import Ranges


class HeldRows:
    """The progress of partitions with held rows; for the task's own thread."""

    def __init__(self, sink: SinkTask) -> None:
        self._sink = sink if isinstance(sink, BufferingSink) else None
        self._taken: dict[TopicPartition, int] = {}
        """The next record to fetch."""

    @property
    def may_be(self) -> bool:
        """True for a sink that holds rows."""
        return self._sink is not None

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions with held rows."""
        return self._taken.keys()

    def due_s(self) -> float | None:
        """The seconds until the sink wants a batch, even without rows; None: only with rows."""
        return None if self._sink is None else self._sink.due_s()

    def took(
        self, ends: Mapping[TopicPartition, int], held: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Note that rows were taken up to these offsets, and the first offsets that the sink holds.

        Returns the offsets to go on at in partitions that have no held rows any more.
        """
        # Rows that come again, from the first held one on, may be fewer than were taken before.
        self._taken.update({p: max(end, self._taken.get(p, end)) for p, end in ends.items()})
        done = {p: end for p, end in self._taken.items() if p not in held}
        self.forget(done)
        return done

    def drop(self) -> None:
        """Drop the rows that the sink holds: they come again."""
        if self._sink is not None:
            self._sink.drop()
            self._taken.clear()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget how far these partitions were taken."""
        for partition in partitions:
            self._taken.pop(partition, None)

    def repeated(self, begins: Mapping[TopicPartition, int]) -> int:
        """The number of records that were taken already and come again if partitions go on at `begins`."""
        return sum(max(0, end - begins.get(p, end)) for p, end in self._taken.items())

    def job_ranges(self, ranges: Ranges, highs: Mapping[TopicPartition, int]) -> Ranges:
        """The ranges of a job, as the sink wants them."""
        return ranges if self._sink is None else dict(self._sink.job_ranges(ranges, highs))
