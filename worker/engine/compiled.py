"""Expressions compiled for batches: the chain of projections of a plan, and its input and output columns.

Only a chain of projections over the leaf qualifies: no aggregate, explode, sort or union, nothing that is initialized
for a partition (`rand`), asks another plan (a subquery) or the clock. The only Python function allowed is an
`ArrowFunction`: it cuts the chain in two, and is called between them in the task's own thread.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.plugins.arrow_types import arrow_schema_of
from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction, function_named
from headrace.plugins.interop.catalyst.spark_internals import Catalyst, analyzed, catalyst, each

_numbers: Final = itertools.count(1)


class NotProjectable(Exception):
    """The expressions are not a chain of projections: they can only run in a Spark job."""


class Output(NamedTuple):
    """An output column: an input column passed on unchanged, or one that the projections compute."""

    name: str
    passes: bool
    source: str


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program in the JVM: projections from the leaf upward, each with the attributes it is bound to."""

    columns: list[Output]
    projections: list[tuple[Any, Any]]
    reads: pa.Schema
    """The columns that the projections need; batches on their way into the JVM have no others."""
    gives: pa.Schema
    number: int = field(default_factory=_numbers.__next__)
    """Its name in every lane."""


def refuse_clock(session: SparkSession, frame: DataFrame) -> None:
    """Refuse the time and the user, which the optimizer would fix for good. Errors: NotProjectable."""
    if analyzed(frame).containsPattern(catalyst(session).clock):
        raise NotProjectable("the current time, date or user is another with each batch, which needs a Spark job")


def names_of(plan: Any) -> list[str]:
    return [one.name() for one in each(plan.output())]


def chain_of(plan: Any) -> tuple[list[Any], Any]:
    """The projections of a plan from the leaf upward, and the leaf. Errors: NotProjectable."""
    nodes: list[Any] = []
    while (kind := plan.nodeName()) == "Project":
        nodes.insert(0, plan)
        plan = plan.child()
    if kind not in ("LogicalRDD", "Scan ExistingRDD") and function_of(plan) is None:
        raise NotProjectable(f"a plan with {kind} needs a Spark job")
    if any(not node.deterministic() or node.subqueries().nonEmpty() for node in nodes):
        raise NotProjectable("an expression that is not deterministic, or a subquery, needs a Spark job")
    return nodes, plan


def function_of(node: Any) -> ArrowFunction | None:
    """The function that this node applies, if Python can call it inline."""
    return function_named(node.functionExpr().name()) if node.nodeName() == "MapInArrow" else None


def compiled(session: SparkSession, frame: DataFrame, plan: Any) -> Compiled:
    """Compile a frame with this optimized plan. Errors: NotProjectable."""
    spark = catalyst(session)
    nodes, _ = chain_of(plan)
    columns = [_output(nodes, i, name) for i, name in enumerate(names_of(plan))]
    if all(column.passes for column in columns):
        return Compiled(columns, [], pa.schema([]), pa.schema([]))
    chain = _pruned(spark, nodes, [i for i, column in enumerate(columns) if not column.passes])
    leaf, needed = list(each(nodes[0].child().output())), chain[0].references()
    # If all are constants, some column must still give the number of rows.
    kept = [one for one in leaf if needed.contains(one)] or leaf[:1]
    inputs = [spark.seq(kept), *(node.output() for node in chain[:-1])]
    bound = [(node.projectList(), given) for node, given in zip(chain, inputs, strict=True)]
    reads = arrow_schema_of(StructType.fromJson(json.loads(spark.type_of(kept).json())))
    fields = [field for field, column in zip(frame.schema.fields, columns, strict=True) if not column.passes]
    return Compiled(columns, bound, reads, arrow_schema_of(StructType(fields)))


def _pruned(spark: Catalyst, nodes: list[Any], positions: Collection[int]) -> list[Any]:
    """The projections for the columns at these positions, from the leaf upward, each pruned to what the next needs."""
    chain: list[Any] = []
    for node in reversed(nodes):
        given = list(each(node.projectList()))
        if chain:
            needed = chain[0].references()
            kept = [one for one in given if needed.contains(one.toAttribute())] or given[:1]
        else:
            kept = [given[position] for position in positions]
        chain.insert(0, spark.project(spark.seq(kept), node.child()))
    return chain


def _output(nodes: list[Any], index: int, name: str) -> Output:
    """Follow output column `index` down through the projections, to see if it is a column of the leaf."""
    if not nodes:
        return Output(name, True, name)
    attribute = None
    for node in reversed(nodes):
        expressions = node.projectList()
        position = index if attribute is None else _position(node.output(), attribute)
        expression = expressions.apply(position)
        if expression.nodeName() == "Alias":
            expression = expression.child()
        if expression.nodeName() != "AttributeReference":
            return Output(name, False, name)
        attribute = expression
    return Output(name, True, attribute.name()) if attribute is not None else Output(name, False, name)


def _position(output: Any, attribute: Any) -> int:
    wanted = attribute.exprId()
    return next(index for index, one in enumerate(each(output)) if one.exprId().equals(wanted))
