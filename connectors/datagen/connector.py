"""DatagenConnector: records that are made up, by a schema."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.datagen.arguments import ANNOTATIONS
from headrace.connectors.datagen.blocks import GENERATION, ITERATION, OFFSET, SEED, BlockReader, Blocks
from headrace.connectors.datagen.pace import Pace
from headrace.connectors.datagen.schemas import generated, misplaced
from headrace.connectors.datagen.settings import SETTINGS, STRING
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.contracts import (
    Connector,
    DataError,
    Limit,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import HeaderValues, PacedSource, PreviewedSource
from headrace.plugins.records import Records, source_records
from headrace.plugins.schema import OPTIONAL_STRING, Schema, SchemaType

TASK_ID: Final = "task.id"
_INT64: Final = Schema(SchemaType.INT64)


class AllGenerated(Exception):
    """A task has generated all of its `iterations`."""


class DatagenTask(SourceTask, PacedSource, PreviewedSource, HeaderValues):
    """Generates the records of one source partition, `{"task.id": n}`."""

    offset_type = OFFSET
    waits_for_news = True

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Go on where the stored offset is. Errors: ConfigError."""
        settings = SETTINGS.parse(config)
        self._task = int(config.get(TASK_ID, context.task))
        self._topic: str = settings["kafka.topic"]
        self._iterations: int = settings["iterations"]
        self._made = generated(settings, context.worker)
        self._blocks = Blocks(self._made.values, self._task)
        self.row_type = pa.schema([pa.field("value", arrow_type_of_schema(self._made.schema), nullable=False)])
        stored = _known(context.stored_offsets(self.partitions())[0])
        self._generation = stored.get(GENERATION, 0)
        self._seed = settings[SEED] if settings[SEED] is not None else secrets.randbits(63)
        self._pace = Pace(settings["max.interval"] / 1000, context.stopping)

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`, without pauses."""
        self.start({**config, "max.interval": "0"}, context)

    def topics(self) -> Sequence[str]:
        """The one topic."""
        return (self._topic,)

    def partitions(self) -> Sequence[SourcePartition]:
        """The task's number."""
        return ({TASK_ID: self._task},)

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Return the records that are due. Errors: AllGenerated once there are none left."""
        stored = _known(after[0])
        number, seed = stored.get(ITERATION, 0), stored.get(SEED, self._seed)
        most = max(1, min(limit.rows, limit.bytes // self._blocks.row_bytes))
        rows = self._pace.due(min(most, self._left(number)))
        if not rows:
            return None
        state = {GENERATION: self._generation + 1, ITERATION: number, SEED: seed}
        split = Split(self.partitions()[0], state, {**state, ITERATION: number + rows})
        return Plan((split,), rows, rows * self._blocks.row_bytes)

    def _left(self, number: int) -> int:
        """Return how many records follow the first `number`. Errors: AllGenerated if none does."""
        if self._iterations < 1:
            return 1 << 62
        if number >= self._iterations:
            raise AllGenerated(
                f"Task {self._task} has generated its {self._iterations} records (iterations) and is done; this is no "
                "fault. For more set iterations to a greater number; for the same records once more stop the "
                "connector and DELETE its offsets."
            )
        return self._iterations - number

    def reader(self, plan: Plan) -> BlockReader:
        """Return a reader of the planned records."""
        return BlockReader(self._blocks, plan.splits[0], self.row_type.append(pa.field("source_offset", OFFSET)))

    def records(self, frame: DataFrame) -> Records:
        """Return the records, with one field as key."""
        key, schema = self._made.key, self._made.schema
        field = schema.field(key)
        return source_records(
            frame,
            F.lit(self._topic),
            F.col("value"),
            schema,
            key=F.lit(None).cast("string") if field is None else F.col("value").getField(key),
            key_schema=OPTIONAL_STRING if field is None else field.schema,
        )

    def header_values(self, records: Records) -> Mapping[str, tuple[Column, Schema]]:
        """Return the generation, the task and the number of each record, which the next record's offset says."""
        state = F.col("source_offset")
        return {
            GENERATION: (state.getField(GENERATION) - 1, _INT64),
            TASK_ID: (F.lit(self._task).cast("long"), _INT64),
            ITERATION: (state.getField(ITERATION) - 1, _INT64),
        }


class DatagenConnector(Connector):
    """Tasks that each generate records of their own."""

    settings = SETTINGS
    version = "0.7.0"
    task_class = "io.confluent.kafka.connect.datagen.DatagenTask"
    task = DatagenTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return the problems of the schema; none if a single setting is wrong: that is reported elsewhere."""
        if SETTINGS.problems(config):
            return []
        try:
            generated(SETTINGS.parse(config), self.worker)
        except ConfigError as error:
            return error.problems
        return []

    def advise(self, config: Mapping[str, str]) -> Iterator[Problem]:
        """Yield annotations that nothing reads."""
        try:
            fields = misplaced(config[STRING]) if config.get(STRING) else []
        except DataError:
            return  # `validate` says so
        if fields:
            why = f"Nothing reads {ANNOTATIONS} of {', '.join(fields)}, because it stands beside the type."
            yield Problem(STRING, None, why, f'Write it within: {{"type": {{"type": "int", "{ANNOTATIONS}": …}}}}.')

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the config with each task's number."""
        return [{**self.given, TASK_ID: str(number)} for number in range(max_tasks)]

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """True: each record has an offset of its own."""
        return True

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept a state, or null, for the number of a task. Errors: ValueError."""
        for item in offsets.get("offsets") or ():
            partition, offset = item.get("partition") or {}, item.get("offset")
            if set(partition) != {TASK_ID} or not _is_number(partition[TASK_ID]):
                raise ValueError(f'The partition {dict(partition)} is none of Datagen\'s; write {{"{TASK_ID}": 0}}.')
            if offset is not None and not _is_state(offset):
                members = ", ".join(f'"{name}": …' for name in OFFSET.names)
                raise ValueError(f"The offset {dict(offset)} is none of Datagen's; write {{{members}}} with integers.")
        return True


def _known(offset: SourceOffset | None) -> Mapping[str, int]:
    return {} if offset is None else offset


def _is_state(offset: Mapping[str, Any]) -> bool:
    counted = all(_is_number(offset[name]) for name in offset.keys() - {SEED})
    is_seed = _is_number(offset.get(SEED, 0), -1 << 63)
    return ITERATION in offset and offset.keys() <= set(OFFSET.names) and counted and is_seed


def _is_number(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value < 1 << 63
