"""A source task that runs in the Java host: its records arrive in whole batches, and leave as `Records`.

A polled batch is kept until Kafka has all of it, because Java's `poll` returns no record twice; what a failed attempt
left of it is planned again. Rows have numbers as offsets: the host keeps the records, and names the source partitions
and offsets to store once a row is reached (Invariant 5).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headrace.connectors.java.batches import OFFSET, ToldShapes, batch_of
from headrace.connectors.java.connector import stored_texts
from headrace.connectors.java.errors import HostLost
from headrace.connectors.java.hosts import running_host
from headrace.connectors.java.process import JavaHost
from headrace.connectors.java.stage import headers_of, told_stage
from headrace.plugins.arrow_types import arrow_schema_of
from headrace.plugins.contracts import (
    ArrowReader,
    Deliveries,
    Limit,
    PartitionResult,
    Place,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
    TransactionEnd,
)
from headrace.plugins.extensions import PacedSource, RowsOfSeveralTypes, SourceProgress
from headrace.plugins.records import Records

_RECEIPT: Final = np.dtype(
    [("row", "<i8"), ("offset", "<i8"), ("timestamp", "<i8"), ("topic", "<i4"), ("partition", "<i4")]
)
"""Layout that `connectors/java/host/SourceRecords.java` reads for each record."""


def receipts_of(rows: pa.RecordBatch | None, upto: int) -> tuple[list[str], bytes]:
    """Return the topics, and a receipt for each acknowledged row up to `upto`."""
    if rows is None:
        return [], b""
    rows = rows.filter(pc.less_equal(rows["source_offset"].field("row"), upto))
    topics, made = rows["topic"].dictionary_encode(), np.zeros(len(rows), _RECEIPT)
    made["row"], made["topic"] = rows["source_offset"].field("row").to_numpy(), topics.indices.to_numpy()
    for name in ("offset", "timestamp", "partition"):
        made[name] = rows[name].to_numpy()
    return topics.dictionary.to_pylist(), np.sort(made, order="row", kind="stable").tobytes()


log = logging.getLogger(__name__)

START_S: Final = 300.0
TAKE_S: Final = 30.0
COMMIT_S: Final = 60.0
STOP_S: Final = 4.5
WAIT_MS: Final = 400
"""The time that a plan waits for something new."""


class _Polled(NamedTuple):
    """A batch, or the rest of it."""

    shape: str
    rows: pa.RecordBatch
    ends: TransactionEnd | None
    """The end of the open transaction; without rows if nothing else was polled."""

    @property
    def plan(self) -> Plan:
        splits = (Split({}, None, None, self.shape),) if self.rows.num_rows else ()
        return Plan(splits, self.rows.num_rows, self.rows.nbytes, self.ends)

    def after(self, row: int) -> _Polled | None:
        """Return the rest after this row; None if nothing is left."""
        done = row - self.rows["source_offset"][0].as_py()["row"] + 1
        return self._replace(rows=self.rows.slice(done)) if done < self.rows.num_rows else None


class JavaSourceTask(SourceTask, RowsOfSeveralTypes, PacedSource, SourceProgress):
    """Base of the classes that `plugin.source_connector` makes."""

    plugin: ClassVar[Mapping[str, Any]]
    """Class of the connector with its jars, as sent to the host."""
    place = Place.WORKER_PROCESS
    waits_for_news = True
    offset_type = OFFSET

    def __init__(self) -> None:
        self._host: JavaHost | None = None
        self._shapes = ToldShapes()
        self._rest: _Polled | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Start the task in the host. Errors: HostLost, HostTimeout, those of the plugin."""
        self._context = context
        host = running_host()
        self._number = host.number()
        host.offsets[self._number] = self._stored
        self._host = host
        name = f"{context.connector}-{context.task}"
        started = host.call(
            "task.start",
            START_S,
            stop=context.stopping,
            task=self._number,
            plugin=self.plugin,
            name=name,
            config=dict(config),
            stage=told_stage(context.java_stage),
            headers=headers_of(context.java_stage),
            in_transactions=context.in_transactions,
            bounds_transactions=context.bounds_transactions,
        )
        self.wants_deliveries = Deliveries.ALL if started["wants_receipts"] else Deliveries.NONE

    def partitions(self) -> Sequence[SourcePartition]:
        """Return none: the host knows the partitions of rows (`offsets_reached`)."""
        return ()

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Return what was polled, or the rest of it. Errors: HostLost, HostTimeout, the error that ended polling."""
        if self._rest is None:
            self._rest = self._taken()
        return None if self._rest is None else self._rest.plan

    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader of the planned rows."""
        assert self._rest is not None
        return _Rows(self._rest.rows)

    def row_type_of(self, shape: str) -> pa.Schema:
        """Return the columns of a batch of this shape."""
        return arrow_schema_of(self._shapes[shape].row_type())

    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """Return the records of rows of this shape."""
        return self._shapes[shape].records(frame, self.plugin["class"])

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Forget a batch without rows that has ended a transaction."""
        if self._rest is not None and not self._rest.rows.num_rows:
            self._rest = None

    def offsets_reached(self, reached: PartitionResult) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """Return the last offset of each source partition up to the row reached; sends receipts to the plugin."""
        if reached.source_offset is None or self._rest is None:
            return ()
        row = reached.source_offset["row"]
        self._rest = self._rest.after(row)
        wants_receipts = self.wants_deliveries is Deliveries.ALL
        topics, data = receipts_of(reached.acknowledged, row) if wants_receipts else (None, b"")
        found = self._called("task.reached", COMMIT_S, row=row, topics=topics, data=data)
        return [(partition, offset) for partition, offset in found if partition is not None]

    def committed(self, reached: Sequence[PartitionResult]) -> None:
        """Tell the plugin that offsets are stored; in transactions of the records first, and wait for it."""
        host = self._host
        if host is None or host.is_lost:
            return
        if self._context.in_transactions:
            rows = [one.source_offset["row"] for one in reached if one.source_offset is not None]
            self._called("task.commit", COMMIT_S, row=max(rows, default=-1))
        else:
            host.post("task.commit", task=self._number, row=None)

    def stop(self) -> None:
        """End the task in the host; a host in which its poll goes on gets no new plugins."""
        host, self._host = self._host, None
        if host is not None and not host.is_lost:
            host.end_task("task.stop", STOP_S, self._number)

    def _called(self, name: str, limit_s: float, **given: Any) -> Any:
        if self._host is None:
            raise HostLost("The Java task has ended")
        return self._host.call(name, limit_s, task=self._number, **given)

    def _taken(self) -> _Polled | None:
        if self._host is None:
            raise HostLost("The Java task has ended")
        head, data = self._host.call_for_data("task.take", TAKE_S, task=self._number, wait_ms=WAIT_MS)
        if head is None:
            return None
        name = self._shapes.told(head)
        ends = TransactionEnd(head["ends_transaction"]) if "ends_transaction" in head else None
        return _Polled(name, batch_of(data, head, self._shapes[name]), ends)

    def _stored(self, partitions: Sequence[str]) -> list[str | None]:
        return stored_texts(self._context.stored_offsets, partitions)


class _Rows:
    """Yields rows that were already polled."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        yield self._rows
