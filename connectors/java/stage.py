"""The Java stage of a chain, as sent to the host. A batch of a task in the worker goes to the host and returns:

    columns -> (rows -> apply) -> rows of a shape -> records

As for Java tasks, the host's end fails the task, which restarts in a new host and takes its batch again.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from headrace.config.plugin_path import ConfiguredJar, JarPlugin, JavaStage
from headrace.connectors.java.batches import ToldShapes, batch_of
from headrace.connectors.java.errors import HostLost
from headrace.connectors.java.hosts import running_host
from headrace.connectors.java.process import JavaHost
from headrace.connectors.java.sink_batches import NumberedSchemas, bytes_of
from headrace.plugins.contracts import SourcePartition, TaskContext
from headrace.plugins.records import Records
from headrace.plugins.stopping import StopToken

START_S: Final = 300.0
APPLY_S: Final = 280.0
"""Below the default `max.poll.interval.ms`, after which a sink's consumer would lose its partitions. A source's records
may be retried for longer."""
STOP_S: Final = 4.5


class HostStage:
    """The stage of one task in the worker: the `RunningStage` of `worker/pipeline/java_stage.py`."""

    def __init__(self) -> None:
        self._host: JavaHost | None = None
        self._given_up = StopToken()
        self._schemas = NumberedSchemas()
        self._shapes = ToldShapes()

    def start(self, stage: JavaStage, context: TaskContext, is_source: bool) -> None:
        """Start the stage in the host. Errors: HostLost, HostTimeout, those of the plugins."""
        self._context = context
        self._blamed = _blamed(stage)
        self._limit_s = math.inf if is_source else APPLY_S
        host = running_host()
        self._number = host.number()
        self._host = host
        host.call(
            "stage.start",
            START_S,
            stop=context.stopping,
            task=self._number,
            stage=told_stage(stage),
            is_source=is_source,
        )

    def columns(self, records: Records) -> Sequence[Column]:
        """Return the columns that `sink_batches` describes."""
        return self._schemas.columns(records)

    def apply(self, rows: pa.RecordBatch, source: SourcePartition | None = None) -> tuple[str, pa.RecordBatch]:
        """Apply the stage to these rows; return a shape and a result for each.

        Errors: HostLost, HostTimeout, StoppedError, JavaError.
        """
        if self._host is None:
            raise HostLost("The Java stage has ended")
        partition = None if source is None else json.dumps(source)
        with self._schemas.told_with(rows) as told, self._context.interrupted_by(self._give_up):
            head, data = self._host.call_for_data(
                "stage.apply",
                self._limit_s,
                stop=self._given_up,
                data=bytes_of(rows),
                task=self._number,
                partition=partition,
                **told,
            )
        shape = self._shapes.told(head)
        return shape, batch_of(data, head, self._shapes[shape]).drop_columns(["source_offset"])

    def row_type(self, shape: str) -> StructType:
        """Return the columns of the results of `apply`."""
        return self._shapes[shape].row_type()

    def records(self, frame: DataFrame, shape: str) -> Records:
        """Return the records of a frame with these and any other columns."""
        return self._shapes[shape].records(frame, self._blamed)

    def stop(self) -> None:
        """End the stage in the host; a host in which one of its calls goes on gets no new plugins."""
        host, self._host = self._host, None
        if host is not None and not host.is_lost:
            host.end_task("stage.stop", STOP_S, self._number)

    def end_waits(self) -> None:
        """End a wait for a retry; the current call continues."""
        self._post("stage.end_waits")

    def _give_up(self) -> None:
        self._given_up.set()
        self._post("stage.interrupt")

    def _post(self, name: str) -> None:
        host = self._host
        if host is not None:
            with contextlib.suppress(HostLost):
                host.post(name, task=self._number)


def _blamed(stage: JavaStage) -> str:
    """Return the class named if a record cannot be carried: the last one that makes keys or values."""
    converters = [stage.converters[side] for side in ("value", "key", "header") if side in stage.converters]
    makers = [step.transform for step in reversed(stage.steps)] or converters
    return makers[0].plugin.class_name


def named(plugin: JarPlugin) -> dict[str, Any]:
    """Return a class with its jars, as sent to the host; without jars it is one of Connect's own."""
    jars = [str(jar) for jar in plugin.jars]
    return {"class": plugin.class_name, "location": str(plugin.location), "jars": jars}


def headers_of(stage: JavaStage) -> Mapping[str, Any] | None:
    """Return the host's header converter, if the stage has none; None: the default one."""
    return None if stage.headers is None else _configured(stage.headers)


def told_stage(stage: JavaStage) -> dict[str, Any] | None:
    """Return what the host needs to make this stage; None if there is nothing to do."""
    if not stage:
        return None
    steps = [
        {
            "transform": _configured(step.transform),
            "predicate": None if step.predicate is None else _configured(step.predicate),
            "negate": step.negate,
        }
        for step in stage.steps
    ]
    return {
        "steps": steps,
        "converters": {side: _configured(one) for side, one in stage.converters.items()},
        "tolerate": stage.tolerate,
        "retry_ms": stage.retry_timeout_ms,
        "most_delay_ms": stage.retry_delay_max_ms,
    }


def _configured(given: ConfiguredJar) -> Mapping[str, Any]:
    return {"plugin": named(given.plugin), "config": dict(given.config)}
