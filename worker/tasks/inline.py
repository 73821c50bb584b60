"""The batches of a sink task that run inline, in the worker: each written until nothing of it is left.

`pipeline/sink.py` decodes, transforms and writes the rows. This module handles attempts and the pauses between them,
rows left by a search for bad records, rows of the retry topic, and rows that the sink holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import PartitionResult, TopicPartition
from headrace.worker.deadletters.converter_retry import ConverterAway
from headrace.worker.deadletters.retry_topic import RetryTopic
from headrace.worker.engine.driver import EngineLost
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.executor import PolledRows
from headrace.worker.pipeline.sink import SinkPipeline
from headrace.worker.tasks.held_rows import HeldRows
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.positions import Positions, ends
from headrace.worker.tasks.sink_consumer import SinkConsumer
from headrace.worker.tasks.sink_loop import SinkLoop

log = logging.getLogger(__name__)


class InlineBatches:
    """Runs the inline batches of one sink task, on the thread that takes them."""

    def __init__(
        self,
        loop: SinkLoop,
        host: TaskHost,
        pipeline: SinkPipeline,
        consumer: SinkConsumer,
        positions: Positions,
        held: HeldRows,
    ) -> None:
        self._loop = loop
        self._host = host
        self._pipeline = pipeline
        self._consumer = consumer
        self._positions = positions
        self._held = held

    def run(self, rows: pa.RecordBatch | None) -> bool:
        """Write all of these rows, or only what is due (None); False if the task was asked to stop before.

        Errors: RetriableError, and the rest of these rows comes again (Invariant 3); EngineLost; RecordError.
        """
        try:
            if rows is None:
                self._write_due()
                return True
            retry = self._pipeline.retry
            if retry is None:
                return self._write(rows)
            rows, again = retry.split(rows)
            if rows.num_rows and not self._write(rows):
                return False
            return again is None or not again.num_rows or self._write_again(retry, self._still_mine(again))
        except RetriableError:
            self._held.drop()
            self._consumer.partitions.seek()
            raise

    def _write_due(self) -> None:
        """Let a sink that holds rows make the due ones durable without new ones."""
        if (due_s := self._held.due_s()) is not None and due_s <= 0:
            with self._host.metrics.attempt():
                self._loop.reached(self._pipeline.run(PolledRows(None)))
            self._go_on_held({})

    def _go_on_held(self, taken: Mapping[TopicPartition, int]) -> None:
        """Note how far a sink that holds rows has `taken` them; partitions without held rows go on from there."""
        if done := self._held.took(taken, self._pipeline.held):
            self._loop.go_on(done)

    def _write(self, rows: pa.RecordBatch, are_retried: bool = False) -> bool:
        """Write these rows until nothing of them is left; False if the task was asked to stop before."""
        loop, failures = self._loop, 0
        while not self._host.stop.is_set():
            try:
                with self._host.metrics.attempt():
                    outcome = self._pipeline.run(PolledRows(rows, failures > 0, are_retried))
            except EngineLost:
                if loop.is_lent:
                    raise
                loop.stay(0.2)
            except RetriableError as error:
                away = isinstance(error, ConverterAway)
                if loop.is_lent or (self._held.may_be and not away):
                    raise  # rows of earlier batches that the sink holds come again, too
                failures += not away
                loop.stay_after(error, failures, "to write a batch")
            else:
                loop.recovered(failures)
                failures = 0
                self._host.retry_budget.succeeded()
                if are_retried:  # their own offsets are long committed
                    loop.count(outcome)
                    break
                loop.reached(outcome)
                rows = self._left(rows, outcome)
                if not rows.num_rows:
                    break
                loop.commit_when_due()
                self._consumer.partitions.hold()
                self._consumer.stay(0)
            rows = self._still_mine(rows)
            if not rows.num_rows:
                break
        else:
            return False
        if not loop.is_paused:
            self._consumer.partitions.release()
        return True

    def _left(self, rows: pa.RecordBatch, outcome: Outcome[TopicPartition]) -> pa.RecordBatch:
        """The rows that are left by a search for bad ones that took too long."""
        if self._held.may_be:
            self._go_on_held(ends(rows))
            return rows.slice(rows.num_rows)
        # Each kernel costs a part of a small batch's work, and most batches are handled as a whole.
        if not outcome.of or outcome.rows == rows.num_rows:
            return rows.slice(rows.num_rows)
        return self._positions.not_handled(rows)

    def _write_again(self, retry: RetryTopic, rows: pa.RecordBatch) -> bool:
        """Write the due ones of these rows of the retry topic; False if the task was asked to stop before."""
        due, rests, others = retry.due(rows)
        if others:
            log.warning("%d records in %s are other connectors'; a retry topic should be one's own", others, retry.name)
            self._host.metrics.moved([PartitionResult(dropped=others)])
        handled = ends(rows) | {partition: rest.offset for partition, rest in rests.items()}
        if due.num_rows and not self._write(due, are_retried=True):
            return False
        kept = self._consumer.partitions.kept
        self._positions.go_on({p: end for p, end in handled.items() if p in kept and not self._loop.abandoned})
        for partition, rest in rests.items():
            if partition in kept:
                self._consumer.partitions.rest(partition, time.monotonic() + (rest.until_ms - retry.clock_ms()) / 1000)
        return True

    def _still_mine(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of partitions that the task has kept since they were fetched; others come again."""
        mine = pa.array([False] * len(rows), pa.bool_())
        for topic, partition in self._consumer.partitions.kept:
            mine = pc.or_(mine, pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], partition)))
        return rows.filter(mine)
