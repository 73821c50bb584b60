"""Drives a JDBC source's task without Kafka: what it plans, what a plan's rows are, what is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.connectors.jdbc.source.connector import JdbcSourceConnector
from headrace.connectors.jdbc.source.task import JdbcSourceTask
from headrace.plugins.contracts import Limit, PartitionResult, Plan, TaskContext
from headrace.plugins.stopping import StopToken
from headrace.worker.tasks.interrupts import Interrupts
from tests.integration.databases import Database

ALL = Limit(3_000_000, 256 << 20)
WORKER: Mapping[str, Any] = {"file.allowed.paths": ("/",)}


class Sourcing:
    """A task of a JDBC source, and the offsets that are stored for it."""

    def __init__(self, database: Database, stored: Sequence[tuple[Any, Any]] = (), **settings: str) -> None:
        """`_` in a setting stands for `.`."""
        given = {key.replace("_", "."): value for key, value in settings.items()}
        always = {"poll.interval.ms": "0", "table.poll.interval.ms": "3600000", "snapshot.bound": "writers"}
        self.config = {**database.settings, **always, **given}
        self.stored: dict[str, Any] = {_key(partition): offset for partition, offset in stored}
        self.interrupts = Interrupts("under-test")
        self.task = self.started()

    def started(self) -> JdbcSourceTask:
        """A new task, of a connector of its own."""
        connector = JdbcSourceConnector()
        connector.worker = WORKER
        connector.start(self.config, _NoContext())
        (config,) = connector.task_configs(1)
        connector.stop()
        task = JdbcSourceTask()
        context = TaskContext("under-test", 0, StopToken(), WORKER, interrupted_by=self.interrupts.by)
        task.start(config, context)
        return task

    def plan(self, limit: Limit = ALL) -> Plan | None:
        """The next plan behind what is stored."""
        after = [self.stored.get(_key(partition)) for partition in self.task.partitions()]
        plan = self.task.plan(after, limit)
        if plan is not None:
            json.dumps([split.upto for split in plan.splits])
        return plan

    def read(self, plan: Plan) -> list[dict[str, Any]]:
        """The plan's rows inline, with the names of their columns; they count as delivered, and their offsets are
        stored."""
        reached, rows = [], []
        reader = self.task.reader(plan)
        for number, split in enumerate(plan.splits):
            names = [column.name for column in self.task._planning.layouts[split.shape][1].columns]
            last = None
            for batch in reader.read(number):
                for row in batch.to_pylist():
                    last = row.pop("source_offset")
                    rows.append(dict(zip(names, row.values(), strict=True)))
            reached.append(PartitionResult(source_partition=split.partition, source_offset=last))
            if last is not None:
                self.stored[_key(split.partition)] = last
        self.task.delivered(reached)
        return rows

    def poll(self, limit: Limit = ALL) -> list[dict[str, Any]]:
        """The rows of the next plan; none where there is none."""
        plan = self.plan(limit)
        return [] if plan is None else self.read(plan)

    def offset(self) -> Any:
        """The only stored offset."""
        (offset,) = self.stored.values()
        return offset


class _NoContext:
    def reconfigure(self) -> None: ...

    def fail(self, error: Exception) -> None:
        raise error


def _key(partition: Any) -> str:
    return json.dumps(partition, sort_keys=True)
