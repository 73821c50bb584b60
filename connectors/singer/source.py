"""SingerSource: the streams of a tap into topics.

A tap's STATE covers all messages before it, of all streams, so the connector has one task and one source partition,
whose offset is the last STATE. A row's offset is the last STATE before the row that follows it: once the row has
arrived, a run from that STATE misses nothing. A STATE that comes when its rows are on their way already is stored
alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.executables import executable
from headrace.connectors.singer.rows import OFFSET, STATE, Shape, Shapes
from headrace.connectors.singer.settings import (
    DISCOVER,
    NO_CATALOG,
    SOURCE,
    json_setting,
    process_config,
)
from headrace.connectors.singer.tap import Taken, Tap, TapCommand
from headrace.plugins.contracts import (
    ArrowReader,
    Connector,
    ConnectorContext,
    Limit,
    PartitionResult,
    Place,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import PacedSource, RowsOfSeveralTypes, SourceProgress
from headrace.plugins.records import ERROR, HEADERS, TRANSFORMATION, Records, error

CONFIG: Final = "tap.config."
TAP: Final = "tap"
_SOON_S: Final = 5.0
_AT_ONCE: Final = 5_000


class SingerSourceTask(SourceTask, RowsOfSeveralTypes, PacedSource, SourceProgress):
    """Runs a tap from the stored STATE on, and again after each pause."""

    place = Place.WORKER_PROCESS
    coalesces = True
    offset_type = OFFSET
    _tap: Tap | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to run the tap. Errors: ConfigError."""
        self._command = tap_command(config, context.worker)
        settings = SOURCE.parse(config)
        self._prefix: str = settings["topic.prefix"]
        self._interval_s: float = settings["sync.interval.ms"] / 1000
        self._partition = partition_of(self._command.executable)
        self._wake = context.wake
        self._shapes = Shapes()
        self._due = 0.0
        self._expected: SourceOffset | None = None
        self._is_broken = False

    @property
    def tells_of_news(self) -> bool:
        """True as long as the tap runs, and if its next run is not soon."""
        return self._tap is not None or self._due - time.monotonic() > _SOON_S

    def partitions(self) -> Sequence[SourcePartition]:
        """Return the one that stands for the tap's STATE."""
        return [self._partition]

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Return what the tap sent since the last batch; start it when it is due. Errors: SingerError."""
        (stored,) = after
        tap = self._running(stored)
        if tap is None:
            return None
        taken = tap.take(limit.rows, limit.bytes)
        offset = None if taken.state is None else {STATE: taken.state}
        if taken.rows:
            self._taken, self._expected = taken, offset or stored
            split = Split(self._partition, stored, None, self._shapes.name_of(taken.rows))
            return Plan((split,), len(taken.rows), sum(row.size for row in taken.rows))
        if offset is not None and offset != stored:
            self._taken, self._expected = taken, offset
            shape = self._shapes.name_of(())
            return Plan((Split(self._partition, stored, None, shape, offset_if_empty=offset),), 0, 0)
        if tap.is_over():
            self._end_run()
            self._due = time.monotonic() + self._interval_s
        return None

    def _running(self, stored: SourceOffset | None) -> Tap | None:
        """Return the run that goes on after the stored offset; None if none is due."""
        if self._tap is not None and (self._is_broken or self._expected != stored):
            self._end_run()
        if self._tap is None and time.monotonic() >= self._due:
            state = None if stored is None else stored.get(STATE)
            self._is_broken, self._expected = False, stored
            self._tap = Tap(self._command, state, self._wake)
        return self._tap

    def _end_run(self) -> None:
        if self._tap is not None:
            self._tap.stop()
            self._tap = None

    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader of what was taken."""
        return _Reader(self._shapes.by_name[plan.splits[0].shape], self._taken, self._prefix)

    def row_type_of(self, shape: str) -> pa.Schema:
        """Return the columns of rows of these streams."""
        return self._shapes.by_name[shape].row_type()

    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """Make records of the rows, each with its stream's schemas."""
        of = self._shapes.by_name[shape]
        failed = error(TRANSFORMATION, "SingerSource", F.col("failure")).cast(ERROR)
        kept = [F.col(name) for name in frame.columns if name != "failure"]
        added = [
            F.lit(None).cast("int").alias("partition"),
            F.lit(None).cast(HEADERS).alias("headers"),
            failed.alias("error"),
            F.lit(False).alias("drop"),
        ]
        return Records(frame.select(*kept, *added), of.keys, of.values)

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Run the tap again from the stored STATE, if not all arrived."""
        self._is_broken = self._is_broken or not reached or any(one.stop is not None for one in reached)

    def undelivered(self) -> None:
        """Run the tap again from the stored STATE."""
        self._is_broken = True

    def offsets_reached(self, reached: PartitionResult) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """Return the last STATE that was reached, if there was one."""
        state = (reached.source_offset or {}).get(STATE)
        return () if state is None else ((self._partition, {STATE: state}),)

    def stop(self) -> None:
        """End the tap."""
        self._end_run()


class _Reader:
    """Yields what was taken."""

    def __init__(self, shape: Shape, taken: Taken, topic_prefix: str) -> None:
        self._shape, self._taken, self._topic_prefix = shape, taken, topic_prefix

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield some thousand rows at a time."""
        rows, states = self._taken.rows, self._taken.states
        for first in range(0, len(rows), _AT_ONCE):
            end = first + _AT_ONCE
            yield self._shape.batch(rows[first:end], states[first:end], self._topic_prefix)


def tap_command(config: Mapping[str, str], worker: Mapping[str, Any]) -> TapCommand:
    """Return what a config has run. Errors: ConfigError."""
    settings = SOURCE.parse(config)
    catalog: str = settings["tap.catalog"]
    if catalog not in (DISCOVER, NO_CATALOG):
        json_setting("tap.catalog", catalog)
    return TapCommand(
        executable("tap.command", settings["tap.command"], worker),
        process_config(CONFIG, config, worker),
        catalog,
        settings["streams"],
        json_setting("tap.metadata", settings["tap.metadata"]),
        settings["tap.stall.timeout.ms"] / 1000,
        settings["numbers.as"] == "string",
    )


def partition_of(executable: Path) -> SourcePartition:
    """Return the source partition of a tap; its folder may move."""
    return {TAP: executable.name}


class SingerSourceConnector(Connector):
    """Runs one tap in one task: its messages have one order."""

    settings = SOURCE
    undeclared = (CONFIG,)
    version = "0.3.0"
    task_class = "headrace.connectors.singer.source.SingerSourceTask"
    task = SingerSourceTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return the problems of the tap's name and config, and of settings that are JSON."""
        if self.settings.problems(config):
            return []  # reported elsewhere
        try:
            tap_command(config, self.worker)
        except ConfigError as refused:
            return refused.problems
        return []

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config. Errors: ConfigError."""
        tap_command(config, self.worker)
        self.given = dict(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """False: after a restart the records behind the last STATE come again."""
        return False

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept a STATE as JSON text, and null. Errors: SingerError."""
        for item in offsets.get("offsets") or ():
            if (item.get("partition") or {}).keys() != {TAP}:
                raise SingerError(f'The partition of a tap is {{"{TAP}": name}}')
            if (offset := item.get("offset")) is not None:
                _check_state(offset)
        return True


def _check_state(offset: Mapping[str, Any]) -> None:
    try:
        if isinstance(json.loads(offset[STATE]), dict) and offset.keys() == {STATE}:
            return
    except (KeyError, TypeError, ValueError):
        pass
    raise SingerError(f'The offset of a tap is {{"{STATE}": text}}, whose text is a JSON object: its STATE')
