"""Calls of a sink when its task gets partitions, gives them up, and commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.plugins.contracts import SinkTask
from headrace.plugins.extensions import PartitionedSink, extension
from headrace.plugins.offsets import TopicPartition
from headrace.worker.pipeline.sink import SinkPipeline
from headrace.worker.tasks.backlog import Backlog
from headrace.worker.tasks.held_rows import HeldRows


class Rebalances:
    """Tells the sink about its partitions; called by the task's consumer, on the task's own thread."""

    def __init__(self, plugin: SinkTask, pipeline: SinkPipeline, held: HeldRows, backlog: Backlog) -> None:
        self._plugin = extension(plugin, PartitionedSink)
        self._pipeline = pipeline
        self._held = held
        self._backlog = backlog

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Open these partitions; return the offsets that the outside system knows better."""
        # Also of a topic that was made again (Invariant 2).
        self._held.forget(partitions)
        self._backlog.forget(partitions)
        return self._plugin.open(self._of_plugin(partitions))

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Give the outside system these positions before Kafka; return those to commit, None: all.

        Errors: RetriableError.
        """
        given = {partition: positions[partition] for partition in self._of_plugin(list(positions))}
        released = self._plugin.pre_commit(given)
        if released is None:
            return None
        return {p: released.get(p, -1) if p in given else at for p, at in positions.items()}

    def end_batch(self, lost: bool) -> None:
        """End all writing; its outcome counts unless the partitions are lost."""
        self._backlog.end(lost)

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Close these partitions."""
        self._held.forget(partitions)
        self._plugin.close(self._of_plugin(partitions))

    def _of_plugin(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The partitions that the sink knows of: the retry topic is the worker's own."""
        retry = self._pipeline.retry
        return [p for p in partitions if retry is None or p.topic != retry.name]
