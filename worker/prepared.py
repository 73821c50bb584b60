"""What is done to a Kafka range, worked out once for all the jobs of a task.

Decided: the analyzed plan is kept and given another range to read, because to make the same expressions and analyze
them again takes 1,200 calls into the JVM and 0.3 s a job with structs of three fields, twice that behind five
transforms, and so takes 40 ms; loses: it depends on how Spark names the node that reads Kafka.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.plugins.catalyst import catalyst, each, frame_of
from headrace.plugins.contracts import TopicPartition

_READS = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


@dataclass(frozen=True)
class Whole:
    """What rows were before their constants were left out, because those need not travel."""

    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    """All of them, in their order."""

    def rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with all their columns, in their order."""
        if not self.constants:
            return rows
        for name, value in self.constants.items():
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        return rows.select(list(self.columns))


NOTHING_LEFT_OUT: Final = Whole()


class Rows(NamedTuple):
    """A frame without the columns that are constants: each costs every row otherwise."""

    frame: DataFrame
    whole: Whole


class _Made(NamedTuple):
    partitions: frozenset[TopicPartition]
    rows: Rows


class Prepared:
    """`decode` over one range of Kafka after the other; any thread may ask."""

    def __init__(self, decode: Callable[[DataFrame], DataFrame]) -> None:
        """`decode` does the same each time."""
        self._decode = decode
        self._made: _Made | None = None
        self._lock = threading.Lock()

    def over(self, kafka: DataFrame, partitions: Collection[TopicPartition]) -> Rows:
        """The rows of these partitions, decoded."""
        same = frozenset(partitions)
        with self._lock:
            made = self._made
            if made is not None and made.partitions == same:
                again = _over(made.rows.frame, kafka)
                if again is not None:
                    return Rows(again, made.rows.whole)
            decoded = self._decode(kafka)
            rows = without_constants(decoded)
            self._made = _Made(same, rows) if _stays(decoded) else None
            return rows


def _over(frame: DataFrame, other: DataFrame) -> DataFrame | None:
    """What is done in `frame`, done to what `other` reads; None where that cannot be told apart or the JVM is new."""
    session = other.sparkSession
    if frame.sparkSession.sparkContext is not session.sparkContext:
        return None
    reads, nodes = _chain(frame)
    now, _ = _chain(other)
    if not reads.getClass().getName() == now.getClass().getName() == _READS:
        return None
    plan = reads.copy(now.table(), reads.output(), now.catalog(), now.identifier(), now.options(), now.timeTravelSpec())
    plan.setAnalyzed()
    for node in reversed(nodes):
        plan = node.withNewChildren(catalyst(session).seq([plan]))
        plan.setAnalyzed()
    return frame_of(session, plan)


def _stays(frame: DataFrame) -> bool:
    """Whether the plan means the same for other rows: it has no clock, no seed and no query within an expression."""
    plan, spark = frame._jdf.queryExecution().analyzed(), catalyst(frame.sparkSession)
    if plan.containsPattern(spark.clock) or plan.containsPattern(spark.subquery):
        return False
    return all(node.deterministic() for node in _chain(frame)[1])


def _chain(frame: DataFrame) -> tuple[Any, list[Any]]:
    """The first node of the plan that has not just one child, and those above it, the topmost first."""
    node, nodes = frame._jdf.queryExecution().analyzed(), []
    while node.children().size() == 1:
        nodes.append(node)
        node = node.children().head()
    return node, nodes


def without_constants(frame: DataFrame) -> Rows:
    """The frame without the columns that are constants."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() != "Project":
        return Rows(frame, NOTHING_LEFT_OUT)
    types = to_arrow_schema(frame.schema, timezone="UTC")
    constants = {}
    for expression in each(plan.projectList()):
        if expression.nodeName() == "Alias" and expression.child().nodeName() == "Literal":
            name, value = expression.name(), expression.child().value()
            if pa.types.is_string(types.field(name).type) and value is not None:
                value = value.toString()
            if value is None or isinstance(value, str | bool | int):  # others may have another form in the JVM
                constants[name] = pa.scalar(value, types.field(name).type)
    return Rows(frame.drop(*constants), Whole(constants, tuple(frame.columns)))
