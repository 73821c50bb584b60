"""The load of a sink task: the records that wait, their size, and the number of small batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.offsets import TopicPartition
from headrace.worker.pipeline.placement import FEW, JOB_ROWS, is_few, is_worth_a_job
from headrace.worker.tasks.fetched import Fetched, sizes

FETCH_ROWS: Final = 10_000
FETCH_BYTES: Final = 4 << 20
_LAG_S, NO_LAG_S = 0.4, 1.0
"""The age that the figures may reach while records wait (these are soon handled), and else."""
_MEASURED_ROWS, _MEASURED_BYTES = 32, 64 << 10
"""The least batch whose size counts: the size of records matters only if many wait."""
_ROW_BYTES: Final = 50
"""Bytes of a row beside those of its record."""


class Load:
    """The figures of one sink task; for its own thread."""

    def __init__(self) -> None:
        self.lag = 0
        """The records that waited at the last measurement."""
        self.waiting: Mapping[TopicPartition, int] = {}
        """The same, of each partition."""
        self.mean_bytes = 200.0
        self.large_bytes = 200
        """About the largest record that came lately; units: bytes."""
        self._small_batches = 0
        """Small batches since the last measurement."""
        self._measured = 0.0

    @property
    def most_rows(self) -> int:
        """The most records to fetch at once."""
        return max(1, min(FETCH_ROWS, int(FETCH_BYTES / self.mean_bytes)))

    def of(self, messages: list[Any]) -> Fetched:
        """Judge these messages, at most `most_rows`."""
        most = self.most_rows
        taken, largest = sizes(messages)
        self.large_bytes = max(largest, int(0.9 * self.large_bytes))
        if len(messages) >= _MEASURED_ROWS or taken >= _MEASURED_BYTES:
            self.mean_bytes = 0.8 * self.mean_bytes + 0.2 * (taken / len(messages) + _ROW_BYTES)
        full = len(messages) >= min(most, JOB_ROWS // 20) or taken >= FETCH_BYTES
        # From distant brokers little comes at once, however much waits.
        full = full or self.is_worth_a_job(self.lag)
        return Fetched(is_few(len(messages), taken), full, taken)

    def estimated_bytes(self, count: int) -> int:
        """Estimate the bytes of so many records, by the mean size of those before."""
        return int(count * max(0.0, self.mean_bytes - _ROW_BYTES))

    def is_worth_a_job(self, count: int) -> bool:
        """True if so many of these records are worth a Spark job."""
        return is_worth_a_job(count, count * self.mean_bytes)

    def took(self, rows: pa.RecordBatch | None) -> None:
        """Count a batch, if it is a small one."""
        self._small_batches += rows is not None and rows.num_rows <= FEW.rows

    @property
    def _age_s(self) -> float:
        return _LAG_S if self.lag else NO_LAG_S

    def measure(self, waiting: Callable[[], Mapping[TopicPartition, int]]) -> float | None:
        """Measure anew if due; returns the number of small batches a second since the last time."""
        now = time.monotonic()
        if (since_s := now - self._measured) < self._age_s:
            return None
        pace, self._small_batches, self._measured = self._small_batches / since_s, 0, now
        self.waiting = waiting()
        self.lag = sum(self.waiting.values())
        return pace
