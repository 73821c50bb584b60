"""The one interface to the places where a batch runs: inline, or in a Spark job. The caller does not see which.

Decided: the jobs of a sink are handed over by one call and taken by another (`sink_jobs.py`), because its consumer
polls meanwhile and the next one begins before the first has ended; loses: they are no `Executor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from headrace.plugins.contracts import ArrowReader, Plan
from headrace.plugins.offsets import TopicPartition
from headrace.worker.outcome import Key, Outcome

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""The work of a sink's jobs: offsets `[from, to)` of partitions."""
Work = TypeVar("Work", contravariant=True)


class Executor(Protocol[Work, Key]):
    """A place where batches run."""

    def run(self, work: Work, /) -> Outcome[Key]:
        """Move the batch; what the outcome counts is durable. Errors: those of every step."""


class PlannedBatch(NamedTuple):
    """The work of a source's executors."""

    plan: Plan
    reader: ArrowReader


class PolledRows(NamedTuple):
    """The work of a sink's inline batches."""

    rows: pa.RecordBatch | None
    """None: only rows that a `BufferingSink` holds may be due."""
    failed_before: bool = False
    """True if they failed with a retriable error: records to blame may go to the retry topic, if there is one."""
    are_retried: bool = False
    """True for rows of the retry topic."""
