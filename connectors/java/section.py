"""The part of a chain that runs in the Java host for a task that runs here: a batch crosses as a whole, and comes back.

    columns -> (rows -> apply) -> rows of a shape -> records

As for Java tasks, the host's end fails the task, which starts anew in a new host and takes its batch again.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from headrace.connectors.java.batches import ToldShapes, batch_of
from headrace.connectors.java.chain import chain_of
from headrace.connectors.java.errors import HostLost
from headrace.connectors.java.hosts import running_host
from headrace.connectors.java.process import JavaHost
from headrace.connectors.java.sink_batches import NumberedSchemas, bytes_of
from headrace.plugins.contracts import SourcePartition, TaskContext
from headrace.plugins.jars import JavaChain
from headrace.plugins.records import Records
from headrace.plugins.stopping import StopToken

START_S: Final = 300.0
APPLY_S: Final = 280.0
"""Shorter than the default `max.poll.interval.ms`, after which a sink's consumer would lose its partitions; a source's
records may be tried again for longer."""
STOP_S: Final = 4.5


class HostSection:
    """One task's part of its chain in a host, as `plugins/java_section.py` says."""

    def __init__(self) -> None:
        self._host: JavaHost | None = None
        self._given_up = StopToken()
        self._schemas = NumberedSchemas()
        self._shapes = ToldShapes()

    def start(self, chain: JavaChain, context: TaskContext, is_source: bool) -> None:
        """Start it in the host. Errors: HostLost, HostTimeout, those of the plugins."""
        self._context = context
        self._named = _named(chain)
        self._limit_s = math.inf if is_source else APPLY_S
        host = running_host()
        self._number = host.number()
        self._host = host
        host.call(
            "section.start",
            START_S,
            stop=context.stopping,
            task=self._number,
            chain=chain_of(chain),
            is_source=is_source,
        )

    def columns(self, records: Records) -> Sequence[Column]:
        """The columns that `sink_batches` describes."""
        return self._schemas.columns(records)

    def apply(self, rows: pa.RecordBatch, source: SourcePartition | None = None) -> tuple[str, pa.RecordBatch]:
        """What becomes of each of these rows. Errors: HostLost, HostTimeout, StoppedError, JavaError."""
        if self._host is None:
            raise HostLost("The Java part of the chain has ended")
        partition = None if source is None else json.dumps(source)
        with self._schemas.told_with(rows) as told, self._context.interrupted_by(self._give_up):
            head, data = self._host.call_for_data(
                "section.apply",
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
        """The columns that `apply` makes."""
        return self._shapes[shape].row_type()

    def records(self, frame: DataFrame, shape: str) -> Records:
        """The records of a frame with these columns, and all else that it has."""
        return self._shapes[shape].records(frame, self._named)

    def stop(self) -> None:
        """End it in the host; a host in which a call goes on gets no new plugins."""
        host, self._host = self._host, None
        if host is not None and not host.is_lost:
            host.end_task("section.stop", STOP_S, self._number)

    def end_waits(self) -> None:
        """End a wait for another try; the call that goes on is left alone."""
        self._post("section.end_waits")

    def _give_up(self) -> None:
        self._given_up.set()
        self._post("section.interrupt")

    def _post(self, name: str) -> None:
        host = self._host
        if host is not None:
            with contextlib.suppress(HostLost):
                host.post(name, task=self._number)


def _named(chain: JavaChain) -> str:
    """The class that is named where a record cannot be carried: the last one that makes keys or values."""
    converters = [chain.converters[side] for side in ("value", "key", "header") if side in chain.converters]
    parts = [link.transform for link in reversed(chain.links)] or converters
    return parts[0].plugin.class_name
