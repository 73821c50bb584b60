"""The plan of a change to rows of one kind, worked out once for all the jobs of a task.

Decided: the analyzed plan is kept and given other rows, because to make the same expressions and analyze them again
takes 1,200 calls into the JVM and 0.3 s a job with structs of three fields, twice that after five transforms, and so
takes some 30 ms, in which Spark tells which of the rows' columns are constants; loses: it builds Spark's plans by hand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.plugins.catalyst.internals import catalyst, each, frame_of


@dataclass(frozen=True)
class Whole:
    """The columns of rows whose constants were left out, because those need not travel."""

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
    """A frame, and how it is put together again once its constants were left out."""

    frame: DataFrame
    whole: Whole = NOTHING_LEFT_OUT

    def travelling(self) -> DataFrame:
        """The frame without the columns that are constants: each costs every row otherwise."""
        return self.frame.drop(*self.whole.constants) if self.whole.constants else self.frame


class _Made(NamedTuple):
    """The change done to one frame, kept for others."""

    given: DataFrame
    literals: Mapping[str, str]
    """The constants that were given."""
    nodes: list[Any]
    """The nodes that were added to the plan of `given`, the topmost first."""
    whole: Whole


class CachedPlan:
    """`change` done to one frame after the other; any thread may ask."""

    def __init__(self, change: Callable[[DataFrame], DataFrame]) -> None:
        """`change` does the same each time to rows of the same columns."""
        self._change = change
        self._made: _Made | None = None
        self._lock = threading.Lock()

    def over(self, rows: DataFrame) -> Rows:
        """These rows, changed."""
        with self._lock:
            # What is the same in all rows of a frame may have been reckoned with.
            literals = {name: literal.sql() for name, literal in _literals(rows)}
            made = self._made
            if made is not None and made.literals == literals and _are_alike(made.given, rows):
                return Rows(_over(made, rows), made.whole)
            changed = self._change(rows)
            whole, nodes = _whole(changed), _added(rows, changed)
            self._made = None if nodes is None else _Made(rows, literals, nodes, whole)
            return Rows(changed, whole)


def _are_alike(one: DataFrame, other: DataFrame) -> bool:
    """Whether both have the same columns in the same JVM."""
    same_jvm = one.sparkSession.sparkContext is other.sparkSession.sparkContext
    return same_jvm and one.schema == other.schema


def _over(made: _Made, rows: DataFrame) -> DataFrame:
    """Do to these rows what was done to the frame that was given."""
    session = rows.sparkSession
    spark = catalyst(session)
    plan, names = _plan(rows), each(_plan(made.given).output())
    columns = zip(each(plan.output()), names, strict=True)
    plan = spark.project(spark.seq([spark.named(now, then.name(), then.exprId()) for now, then in columns]), plan)
    plan.setAnalyzed()
    for node in reversed(made.nodes):
        plan = node.withNewChildren(spark.seq([plan]))
        plan.setAnalyzed()
    return frame_of(session, plan)


def _added(given: DataFrame, changed: DataFrame) -> list[Any] | None:
    """The nodes above the plan of `given`, the topmost first.

    None where they are no chain, or mean something else each time: they have a clock, a seed or a query within an
    expression.
    """
    spark, plan = catalyst(given.sparkSession), _plan(changed)
    if plan.containsPattern(spark.clock) or plan.containsPattern(spark.subquery):
        return None
    nodes = list(_chain(plan))
    count = len(nodes) - len(list(_chain(_plan(given))))
    if count < 0 or not nodes[count].fastEquals(_plan(given)) or not all(n.deterministic() for n in nodes[:count]):
        return None
    return nodes[:count]


def _chain(plan: Any) -> Iterator[Any]:
    """The nodes of the plan from the topmost to the first that has not just one child."""
    yield plan
    while plan.children().size() == 1:
        plan = plan.children().head()
        yield plan


def _whole(frame: DataFrame) -> Whole:
    constants, types = {}, to_arrow_schema(frame.schema, timezone="UTC")
    for name, literal in _literals(frame):
        value = literal.value()
        if pa.types.is_string(types.field(name).type) and value is not None:
            value = value.toString()
        if value is None or isinstance(value, str | bool | int):  # others may have another form in the JVM
            constants[name] = pa.scalar(value, types.field(name).type)
    return Whole(constants, tuple(frame.columns))


def _literals(frame: DataFrame) -> Iterator[tuple[str, Any]]:
    """The columns that are the same in all rows."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() != "Project":
        return
    for expression in each(plan.projectList()):
        if expression.nodeName() == "Alias" and expression.child().nodeName() == "Literal":
            yield expression.name(), expression.child()


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()
