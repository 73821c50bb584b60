"""Encodes a source's rows: expressions by the shape of rows, compiled inline and cached as plans of jobs.

Tasks with equal expression keys share what is compiled inline (`engine/shared.py`): their rows then bear the topic,
which the expressions pass on. If an expression reads it, such as RegexRouter's, each task has a program of its own, in
which the topic is a constant: Spark's optimizer does that work once, and not for each row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType

from headrace.plugins.interop.conversion.encode import UNKNOWN_TOPIC, learn_topics, refresh_topics
from headrace.plugins.offsets import SourcePartition
from headrace.plugins.records import Records
from headrace.plugins.source_rows import DeclaredRows, numbered_type, topic_of
from headrace.worker.engine.bounds import Bounds
from headrace.worker.engine.compiled import NotProjectable
from headrace.worker.engine.inline import Program
from headrace.worker.engine.plan_cache import CachedPlan, Whole
from headrace.worker.pipeline.scope import TaskScope, asking_converters
from headrace.worker.pipeline.shape_programs import RowProgram, ShapePrograms
from headrace.worker.pipeline.source_expressions import SourceExpressions

_MOST_PLANS: Final = 16
"""The number of shapes whose plans for jobs are kept."""


class SourceEncoding:
    """The programs and plans of one source task; those used longest ago are dropped first."""

    def __init__(self, scope: TaskScope, expressions: SourceExpressions) -> None:
        self._scope = scope
        self._expressions = expressions
        self._plans: OrderedDict[str, CachedPlan] = OrderedDict()
        self._records: dict[str, Records] = {}
        self._programs = ShapePrograms(
            scope,
            self._made,
            lambda: expressions.task.topics(),
            lambda shape: self._records.pop(shape, None),
        )
        self._declared: OrderedDict[str, DeclaredRows] = OrderedDict()

    def encode(self, rows: pa.RecordBatch, shape: str, partition: SourcePartition | None = None) -> pa.RecordBatch:
        """Transform the rows of this partition and turn them into bytes.

        A converter that has to learn of a topic first does so. Errors: ConverterAway, EngineLost, StoppedError;
        ValueError if a converter does not learn.
        """
        if self._expressions.java_stage is not None:
            rows, shape = self._expressions.java_stage.run(rows, shape, partition)
        encoded = self._programs.of(shape).run(rows, self._scope.bounds)
        while unknown := unknown_topics(encoded):
            with asking_converters():
                learn_topics(unknown, self._records[shape], self._expressions.key, self._expressions.value)
            self._programs.drop(shape)
            self._plans.pop(shape, None)
            encoded = self._programs.of(shape).run(rows, self._scope.bounds)
            if again := unknown & unknown_topics(encoded):
                raise ValueError(f"a converter was told of {sorted(again)} and still does not know what to write")
        return encoded

    @property
    def keeps_bytes(self) -> bool:
        """True if rows of bytes reach Kafka as they are."""
        return self._expressions.keep_bytes

    def row_type(self, shape: str) -> StructType:
        """The type of rows of this shape, before encoding."""
        return self._expressions.row_type(shape)

    def declared(self, shape: str) -> DeclaredRows:
        """The declared shape of the rows that readers yield for splits of this shape; checks it."""
        declared = self._declared.pop(shape, None) or self._expressions.declared(shape)
        self._declared[shape] = declared
        if len(self._declared) > self._programs.most:
            self._declared.popitem(last=False)
        return declared

    def cached_plan(self, shape: str) -> CachedPlan:
        """The plan that encodes rows of this shape in a job."""
        plan = self._plans.pop(shape, None) or CachedPlan(partial(self._encoded, shape=shape))
        self._plans[shape] = plan
        if len(self._plans) > _MOST_PLANS:
            self._plans.popitem(last=False)
        return plan

    def refresh(self) -> None:
        """Drop all programs and plans if a converter now writes otherwise. Errors: ConfigError."""
        if refresh_topics(self._expressions.key, self._expressions.value):
            self._programs.clear()
            self._plans.clear()

    def warm_up(self) -> None:
        """Compile the first program if no other source has warmed the JVM up; nothing waits for it yet."""
        known = hasattr(self._expressions.task, "row_type") and self._expressions.java_stage is None
        pool = self._scope.engine.projections
        if known and pool.spark.is_ready and pool.is_first("source"):
            self._programs.of("")

    def _made(self, shape: str) -> RowProgram:
        """Errors: EngineLost; those of plugins."""
        build = partial(self._encoded, shape=shape)
        return self._shared(shape, build) or self._scope.program(self._expressions.row_type(shape), build)

    def _shared(self, shape: str, build: Callable[[DataFrame], DataFrame]) -> RowProgram | None:
        task, key = self._expressions.task, self._expressions.expression_key
        if key is None:
            return None
        row_type, constants = numbered_type(task, shape), {}
        if (topic := topic_of(task)) is not None:
            row_type = row_type.add("topic", StringType())
            constants["topic"] = pa.scalar(topic, pa.string())
        try:
            program = self._scope.engine.projections.compile(row_type, build, key, self._scope.bounds)
        except NotProjectable:
            return None  # a program of its own meets that, too, and logs why
        return (
            _Bearing(program, Whole(constants, tuple(row_type.names))) if program.reads.isdisjoint(constants) else None
        )

    def _encoded(self, rows: DataFrame, shape: str) -> DataFrame:
        encoded = self._expressions.encoded(rows, shape)
        self._records[shape] = encoded.records
        return encoded.frame


@dataclass(frozen=True)
class _Bearing:
    """A program that tasks share; adds the topic to the rows of one."""

    program: Program
    whole: Whole

    @property
    def generation(self) -> int:
        return self.program.generation

    def run(self, batch: pa.RecordBatch, bounds: Bounds) -> pa.RecordBatch:
        return self.program.run(self.whole.rows(batch), bounds)


def unknown_topics(encoded: pa.RecordBatch) -> set[str]:
    """The marks of what a converter has to learn before these rows can be encoded."""
    if UNKNOWN_TOPIC not in encoded.schema.names or encoded[UNKNOWN_TOPIC].null_count == len(encoded):
        return set()
    return set(pc.unique(encoded[UNKNOWN_TOPIC].drop_null()).to_pylist())
