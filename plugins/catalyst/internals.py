"""Spark's parser, analyser, plans and expressions, where they have to be taken apart: internals of classic Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, SparkSession


class Catalyst:
    """Spark's own classes and objects, each looked up once: a look-up costs a call into the JVM for each dot."""

    def __init__(self, jvm: Any) -> None:
        sql = jvm.org.apache.spark.sql
        inner, patterns = sql.catalyst, sql.catalyst.trees.TreePattern
        self.to_seq = jvm.PythonUtils.toSeq
        self.nothing, self.none = self.to_seq([]), scala_object(jvm.scala, "None")
        self.parser = scala_object(inner.parser, "CatalystSqlParser")
        self.subquery, self.clock, self.python = (
            getattr(patterns, name)() for name in ("PLAN_EXPRESSION", "CURRENT_LIKE", "PYTHON_UDF")
        )
        self.project, self.alias_of_plan = (
            inner.plans.logical.Project,
            scala_object(inner.plans.logical, "SubqueryAlias"),
        )
        self.hidden = self.project.hiddenOutputTag()
        self.inlined = scala_object(inner.optimizer, "CollapseProject").buildCleanedProjectList
        self.dataset = scala_object(sql.classic, "Dataset")
        self.to_column, self.to_expression = sql.classic.ExpressionUtils.column, sql.classic.ExpressionUtils.expression
        self.alias, self.new_id = inner.expressions.Alias, inner.expressions.NamedExpression.newExprId
        self.attempt = inner.expressions.TryEval
        self.pretty = scala_object(inner.util, "package").toPrettySQL

    def seq(self, items: Sequence[Any]) -> Any:
        """A Scala sequence."""
        return self.to_seq(list(items)) if items else self.nothing

    def named(self, expression: Any, name: str, as_id: Any = None) -> Any:
        """The expression under a name."""
        as_id = self.new_id() if as_id is None else as_id
        return self.alias(expression, name, as_id, self.nothing, self.none, self.nothing)


_known: WeakKeyDictionary[Any, Catalyst] = WeakKeyDictionary()


def catalyst(session: SparkSession) -> Catalyst:
    """The classes of the JVM that this session is in."""
    return catalyst_of(session._jvm)


def catalyst_of(jvm: Any) -> Catalyst:
    """The classes of this JVM."""
    if jvm not in _known:
        _known[jvm] = Catalyst(jvm)
    return _known[jvm]


def attempted(column: Column, session: SparkSession) -> Column:
    """The column's value; null where it raises, whatever it raises."""
    classes = catalyst(session)
    return Column(classes.to_column(classes.attempt(classes.to_expression(column._jc))))


def frame_of(session: SparkSession, plan: Any) -> DataFrame:
    """The frame of a logical plan."""
    return DataFrame(catalyst(session).dataset.ofRows(session._jsparkSession, plan), session)


def optimized(frame: DataFrame) -> Any:
    """The plan of a frame as the optimizer leaves it."""
    return frame._jdf.queryExecution().optimizedPlan()


def each(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def scala_object(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
