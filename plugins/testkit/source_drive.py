"""A source's outside system as its author describes it, and a drive that moves its rows as the worker does."""

from __future__ import annotations

import json
import pickle
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.plugins.contracts import ArrowReader, Connector, Limit, Place, Plan, SourceTask, TaskContext
from headrace.plugins.extensions import PreviewedSource, SourceProgress, extension
from headrace.plugins.offsets import PartitionResult, SourceOffset
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.source_task import RecordSourceTask
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit.driving import HOSTILE, LARGE, SMALL, Started, start_tasks, survived
from headrace.plugins.testkit.frames import read
from headrace.plugins.testkit.outside import Outside
from headrace.plugins.testkit.promises import broken, holds


class SourceRig(ABC):
    """The outside system of a source under test, empty at first."""

    worker: Mapping[str, Any] = {}
    """Worker settings that the task may read."""
    hostile: Sequence[str] = HOSTILE
    many: int = 2_500
    """More rows than any page of the outside system."""
    has_nulls: bool = False
    """True if it holds rows without a value; `put` is then given None, too."""
    knows_sizes: bool = True
    """False if it cannot tell how large rows are before they are read: plans then keep to their limit of rows only."""
    replays_equal: bool = True
    """True if a split yields the same rows when it is read again; never so for a RecordSource."""
    forgets: bool = False
    """True if it forgets what a RecordSource's `stored` acknowledged, as a queue does."""
    quiet_s: float = 2.0
    """For a RecordSource whose `poll` blocks: after so long without a record there is nothing new."""
    outside: Outside
    """Fails on command; `SourceFaultsContract` needs it."""

    @abstractmethod
    def connector(self) -> Connector:
        """Return a new connector object."""

    @abstractmethod
    def config(self) -> dict[str, str]:
        """Return the connector's config."""

    @abstractmethod
    def put(self, values: Sequence[Any]) -> None:
        """Append these values, texts, to the outside system; for several partitions all to one."""

    def value(self, row: Any) -> Any:
        """Return the value from which this row was made: a `Record` of a RecordSource, else the reader's row, a dict.

        By default the record's value, or the row's column `value`.
        """
        return row.value if isinstance(row, Record) else row["value"]


class SourceRow(NamedTuple):
    """One row that was read."""

    partition: str
    """Its source partition as JSON."""
    value: Any
    offset: dict[str, Any]


class SourceDrive:
    """Drives a source's task as the worker does, with offsets stored as JSON; `arrived` is what Kafka would have."""

    def __init__(self, rig: SourceRig) -> None:
        self.rig = rig
        self.stored: dict[str, str] = {}
        self.arrived: list[Any] = []
        self._take(self._started())

    @property
    def task(self) -> SourceTask:
        """The task that runs."""
        task: SourceTask = self._running.task
        return task

    @property
    def progress(self) -> SourceProgress:
        """The progress of the task's batches, and its offsets that count."""
        return extension(self.task, SourceProgress)

    @property
    def stopping(self) -> StopToken:
        """Asks the task to end."""
        return self._running.stopping

    def restart(self) -> None:
        """Start another task in place of a crashed one, which is left as it stands."""
        if isinstance(self.task, RecordSourceTask):
            self.task.abandon()
        self._take(self._started())

    def end(self) -> None:
        """End the task as the worker does."""
        self._running.end()

    # -- steps of a batch ----------------------------------------------------------------------------------------------

    def plan(self, limit: Limit = LARGE) -> Plan | None:
        """Return the task's next plan after the stored offsets; None if there is nothing new."""
        plan = self._plan(limit)
        if plan is None and isinstance(self.task, RecordSourceTask):
            plan = self._awaited(self.task, limit)
        return plan

    def planned(self, limit: Limit = LARGE) -> Plan:
        """Return the next plan; there has to be one."""
        plan = self.plan(limit)
        if plan is None:
            broken("if there is something new outside, `plan` returns a plan", f"it is None after {self.stored}")
        return plan

    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader as the worker would run it: pickled unless in the worker process."""
        reader = self.task.reader(plan)
        return reader if self.task.place is Place.WORKER_PROCESS else pickle.loads(pickle.dumps(reader))

    def rows(self, plan: Plan) -> list[SourceRow]:
        """Read every row of the plan."""
        reader = self.reader(plan)
        return [
            SourceRow(to_json(split.partition), self.rig.value(row), offset)
            for number, split in enumerate(plan.splits)
            for batch in reader.read(number)
            for row, offset in zip(self._rows(batch), batch.column("source_offset").to_pylist(), strict=True)
        ]

    def store(self, rows: Sequence[SourceRow]) -> None:
        """Store the offsets of these rows."""
        self._store(_ends(rows))

    def acknowledge(self, rows: Sequence[SourceRow]) -> None:
        """Store the offsets of these rows, and tell the task."""
        self.store(rows)
        self.progress.committed(_ends(rows))

    def deliver(self, plan: Plan, rows: Sequence[SourceRow]) -> None:
        """End a batch all of whose rows arrived: tell the task, and store the offsets."""
        ends = {to_json(split.partition): split.offset_if_empty for split in plan.splits} | _last(rows)
        reached = [_reached(partition, offset) for partition, offset in ends.items() if offset is not None]
        self.progress.delivered(reached)
        self._store(reached)
        self.progress.committed(reached)

    # -- whole batches -------------------------------------------------------------------------------------------------

    def run(self, limit: Limit = LARGE) -> list[Any]:
        """Read, deliver and store everything there is; return its values."""
        before = len(self.arrived)
        while (plan := self.plan(limit)) is not None:
            rows, stored = self.rows(plan), dict(self.stored)
            holds(rows or any(split.offset_if_empty for split in plan.splits), "a plan has rows", f"{plan}")
            self.arrived += [row.value for row in rows]
            self.deliver(plan, rows)
            holds(self.stored != stored, "the offset goes on with each batch", f"still {self.stored} after {rows[-1:]}")
        return self.arrived[before:]

    def previewed(self) -> list[Any] | None:
        """Return the values that a task of its own reads for a preview; None if the source cannot be previewed."""
        task, stopping = type(self.task)(), StopToken()
        if not isinstance(task, PreviewedSource):
            return None
        try:
            task.start_preview(self.rig.config(), TaskContext("under-test", 0, stopping, self.rig.worker))
        except NotImplementedError:
            task.stop()
            return None
        running = dict(vars(self))
        self._take(Started(task, stopping))
        try:
            return [row.value for row in self.rows(self.planned())]
        finally:
            self.end()
            vars(self).update(running)

    def survive(self, limit: Limit = SMALL) -> list[Exception]:
        """Read everything; after an error go on as the worker does, or its operator. Return the errors."""
        return survived(lambda: self.run(limit), lambda: self.progress.undelivered(), self.restart)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _started(self) -> Started:
        started = start_tasks(self.rig.connector(), self.rig.config(), self.rig.worker)
        holds(len(started) == 1, "with tasks.max=1 there is one task", f"it made {len(started)}")
        holds(isinstance(started[0].task, SourceTask), "a source's task is a SourceTask")
        return started[0]

    def _take(self, running: Started) -> None:
        self._running = running
        if isinstance(running.task, RecordSourceTask):
            self._polls = _Polls(running.task)

    def _plan(self, limit: Limit) -> Plan | None:
        after: list[SourceOffset | None] = []
        for partition in self.task.partitions():
            stored = self.stored.get(to_json(partition))
            after.append(None if stored is None else json.loads(stored))
        return self.task.plan(after, limit)

    def _awaited(self, task: RecordSourceTask, limit: Limit) -> Plan | None:
        """Return the next plan once `poll` brought something; None if it was called anew and brought nothing."""
        began, deadline = dict(self._polls.begun), time.monotonic() + self.rig.quiet_s
        while True:
            is_late = time.monotonic() > deadline or self.stopping.is_set()
            is_over = is_late or self._polls.have_ended_since(began)
            plan = self._plan(limit)
            if plan is not None or is_over:
                return plan
            task.plugin.wake()
            time.sleep(0.002)

    def _rows(self, batch: pa.RecordBatch) -> Sequence[Any]:
        if not isinstance(self.task, RecordSourceTask):
            return list(batch.to_pylist())
        failures = [why for why in batch.column("failure").to_pylist() if why is not None]
        holds(not failures, "each record that `poll` yields can be carried", *failures)
        return read(batch, *self.task.schemas)

    def _store(self, reached: Sequence[PartitionResult]) -> None:
        for one in reached:
            for partition, offset in self.progress.offsets_reached(one):
                if offset is None:
                    self.stored.pop(to_json(partition), None)
                else:
                    self.stored[to_json(partition)] = to_json(offset)


class _Polls:
    """Counts the calls of an author's `poll`, by source partition.

    A call that began after a moment has seen all that was there at that moment, and ended once the next one began.
    """

    def __init__(self, task: RecordSourceTask) -> None:
        self.begun: Counter[str] = Counter({to_json(one): 0 for one in task.partitions()})
        self._lock = threading.Lock()
        plugin = task.plugin
        poll = plugin.poll

        def counted(*arguments: Any) -> Any:
            partition = to_json(arguments[1] if len(arguments) > 1 else {})
            with self._lock:
                self.begun[partition] += 1
            return poll(*arguments)

        plugin.poll = counted  # type: ignore[method-assign]

    def have_ended_since(self, began: Mapping[str, int]) -> bool:
        """True if each partition was polled to an end since these counts."""
        return all(self.begun[partition] >= count + 2 for partition, count in began.items())


def _last(rows: Sequence[SourceRow]) -> dict[str, Any]:
    """The last offset of each partition."""
    return {row.partition: row.offset for row in rows}


def _ends(rows: Sequence[SourceRow]) -> list[PartitionResult]:
    """The places of the last rows."""
    return [_reached(partition, offset) for partition, offset in _last(rows).items()]


def _reached(partition: str, offset: SourceOffset) -> PartitionResult:
    return PartitionResult(source_partition=json.loads(partition), source_offset=offset)


def to_json(value: Any) -> str:
    """Return JSON by which equal values are equal texts."""
    return json.dumps(value, sort_keys=True, allow_nan=False)
