"""The offsets of a source task that share transactions with its records: exactly once, as in KIP-618.

    set ... set                       # after each batch, as with any store; nothing is sent
    commit, if a boundary is reached  # offsets follow the records, then Kafka shows both

The offsets of a batch count for the task's next plan at once, and for everybody else once they are committed. After a
failure there is no way back to the plans of batches before the last: a transaction of several batches that is aborted
ends the task, which starts again at its stored offsets.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.config.connector.config import framework_settings
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.java.jackson import java_json
from headrace.plugins.offsets import SourceOffset, SourcePartition, TransactionEnd
from headrace.worker.kafka.librdkafka import ROWS
from headrace.worker.kafka.transactions import TransactionLost, Transactions
from headrace.worker.storage.offset_file import SourceOffsets, partition_name
from headrace.worker.storage.offset_topic import OffsetTopic

log = logging.getLogger(__name__)

_GIVE_UP_S: Final = 2.0


@dataclass(frozen=True)
class Boundary:
    """The point at which a transaction ends (`transaction.boundary`)."""

    interval_s: float
    """Seconds after the first batch's end; 0: with each batch; infinite: as the connector's plans say."""

    @property
    def by_connector(self) -> bool:
        """True if the connector's plans set the boundaries."""
        return math.isinf(self.interval_s)

    @classmethod
    def of(cls, worker: WorkerConfig, connector: Mapping[str, str]) -> Boundary:
        """Read a connector's config."""
        given = framework_settings("source").parse(connector)
        boundary = given["transaction.boundary"].lower()
        if boundary == "connector":
            return cls(math.inf)
        if boundary == "poll":
            return cls(0.0)
        interval_ms = given["transaction.boundary.interval.ms"]
        return cls((worker["offset.flush.interval.ms"] if interval_ms is None else interval_ms) / 1000)


class TransactionalOffsets(SourceOffsets):
    """The offsets of one task, over the cluster's topic; for the task's own thread, except `get`."""

    def __init__(self, topic: OffsetTopic, connector: str, transactions: Transactions, boundary: Boundary) -> None:
        self._topic = topic
        self._connector = connector
        self._transactions = transactions
        self._boundary = boundary
        self._number = self._durable = 0
        self._batches = 0
        self._due = 0.0
        self._pending: dict[str, tuple[SourcePartition, SourceOffset | None]] = {}
        self._committed: dict[str, SourceOffset | None] = {}
        """This task's commits, which the topic's reader may not have met yet."""

    @property
    def durable(self) -> int:
        return self._durable

    def get(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        name = partition_name(partition)
        if (pending := self._pending.get(name)) is not None:
            return pending[1]
        return self._committed[name] if name in self._committed else self._topic.get(connector, partition)

    def set(self, connector: str, partition: SourcePartition, offset: SourceOffset | None) -> int:
        self._number += 1
        self._pending[partition_name(partition)] = partition, None if offset is None else dict(offset)
        return self._number

    def partitions(self, connector: str) -> list[dict[str, Any]]:
        return self._topic.partitions(connector)

    def of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self._topic.of(connector)

    def refresh(self) -> None:
        self._topic.refresh()

    def flush(self) -> None:
        """Do nothing: `end_batch` and `commit` store."""

    def release(self, connector: str, partitions: Collection[SourcePartition]) -> bool:
        return bool(self._pending)

    # -- transactions --------------------------------------------------------------------------------------------------

    def number(self) -> int:
        """A number that `durable` reaches once all that was sent so far is committed."""
        self._number += 1
        return self._number

    def end_batch(self, ends: TransactionEnd | None = None) -> None:
        """Note that a batch is sent and its offsets are set; commit if that is due, or if its plan says so.

        Errors: as `commit`.
        """
        if not self._batches:
            self._due = time.monotonic() + self._boundary.interval_s
        self._batches += 1
        self._transactions.is_touched = False
        if ends is None or not self._boundary.by_connector:
            self.commit_if_due()
            return
        if ends is TransactionEnd.ABORT:
            self._transactions.abort()
        self.commit()

    def due_s(self) -> float:
        """The seconds until the open transaction is to be committed; infinite if none is open."""
        return max(0.0, self._due - time.monotonic()) if self._batches else math.inf

    def commit_if_due(self) -> None:
        """Commit if the time of the open transaction is over. Errors: as `commit`."""
        if self.due_s() <= 0:
            self.commit()

    def commit(self) -> None:
        """Commit the batches that have ended since the last commit, if any. Errors: as `Transactions.commit`."""
        if not self._batches:
            return
        self._batches = 0  # a failed commit is not tried again
        if self._transactions.has_begun or self._pending:
            self._transactions.commit(self._rows())
        self._committed |= {name: offset for name, (_, offset) in self._pending.items()}
        self._pending.clear()
        self._durable = self._number

    def abort(self) -> None:
        """Take back a failed batch. Errors: as `Transactions.abort`; TransactionLost if others are lost with it."""
        if not self._transactions.is_touched:
            return  # it has sent nothing, so earlier ones can be committed
        lost, self._batches = self._batches, 0
        self._pending.clear()
        self._transactions.abort()
        if lost:
            raise TransactionLost(
                f"A batch failed, and the {lost} before it in the same transaction with it. They come again"
            ) from RetriableError("the task starts again at its stored offsets")

    def finish(self) -> None:
        """Commit as the task ends, unless its connector bounds transactions: then the open one comes again.

        Errors: as `commit` and `give_up`.
        """
        if not self._boundary.by_connector:
            self.commit()
            return
        if self._pending:
            log.info("The connector has not ended its transaction: what it sent since the last one comes again")
        self.give_up()
        self._pending.clear()

    def give_up(self) -> None:
        """Abort the open transaction, for at most a moment, so that readers need not wait. Errors: as `abort`."""
        self._batches = 0
        self._transactions.abort(_GIVE_UP_S)

    def _rows(self) -> pa.RecordBatch:
        """The pending offsets as records, under each key that the topic has for their partitions."""
        rows = [
            {
                "topic": self._topic.name,
                "key": key,
                "value": None if offset is None else java_json(offset).encode(),
            }
            for partition, offset in self._pending.values()
            for key in self._topic.keys_of(self._connector, partition)
        ]
        return pa.RecordBatch.from_pylist(rows, schema=ROWS)
