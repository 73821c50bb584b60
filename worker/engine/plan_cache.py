"""The plan of a change to rows of one kind, worked out once for all the jobs of a task.

Decided: the analyzed plan is kept and given other rows, because making the same expressions and analyzing them again
takes 1,200 calls into the JVM and 0.3 s a job with structs of three fields, twice that after five transforms. This way
takes some 30 ms. In these Spark tells which columns of the rows are constants, copies, or not read; loses: it builds
Spark's plans by hand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.plugins.arrow_types import arrow_schema_of
from headrace.plugins.interop.catalyst.spark_internals import analyzed, catalyst, each, frame_of, optimized


@dataclass(frozen=True)
class Whole:
    """The columns of rows from which constants and copies were left out, because those need not travel."""

    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    """All columns in their order."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Columns that are equal to another one, which travels."""

    def rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Restore all columns in their order."""
        if not (self.constants or self.copies):
            return rows
        for name, value in self.constants.items():
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        for name, other in self.copies.items():
            rows = rows.append_column(name, rows[other])
        return rows.select(list(self.columns))


NOTHING_LEFT_OUT: Final = Whole()


class Rows(NamedTuple):
    """A frame, and the way to restore its constants and copies after they were left out."""

    frame: DataFrame
    whole: Whole = NOTHING_LEFT_OUT
    unread: frozenset[str] = frozenset()
    """The input columns that the frame does not use."""

    def travelling(self) -> DataFrame:
        """The frame without the columns that are constants or copies, as each costs every row."""
        return self.frame.drop(*self.whole.constants, *self.whole.copies)


class _Made(NamedTuple):
    """The change applied to one frame, kept for others."""

    given: DataFrame
    literals: Mapping[str, str]
    """The constants of `given`."""
    nodes: list[Any]
    """The nodes added to the plan of `given`, the topmost first."""
    whole: Whole
    unread: frozenset[str]

    def reckons_with(self, literals: Mapping[str, str]) -> bool:
        """True if it was made for rows of these constants, as far as it reads them."""
        unread = self.unread - self.literals.keys()
        return all(self.literals.get(name) == literals.get(name) for name in {*self.literals, *literals} - unread)


class CachedPlan:
    """`change` applied to one frame after the other; any thread may ask."""

    def __init__(self, change: Callable[[DataFrame], DataFrame]) -> None:
        """`change` does the same each time to rows of the same columns."""
        self._change = change
        self._made: _Made | None = None
        self._lock = threading.Lock()

    def over(self, rows: DataFrame) -> Rows:
        """Apply the cached plan to `rows`."""
        with self._lock:
            # The plan may have used values that are equal in all rows of a frame.
            literals = {name: literal.sql() for name, literal in _literals(rows)}
            made = self._made
            if made is not None and made.reckons_with(literals) and _are_alike(made.given, rows):
                return Rows(_over(made, rows), made.whole, made.unread)
            changed = self._change(rows)
            whole, unread, nodes = _whole(rows, changed), _unread(changed), _added(rows, changed)
            self._made = None if nodes is None else _Made(rows, literals, nodes, whole, unread)
            return Rows(changed, whole, unread if self._made else frozenset())


def _are_alike(one: DataFrame, other: DataFrame) -> bool:
    """True if both have the same columns in the same JVM."""
    same_jvm = one.sparkSession.sparkContext is other.sparkSession.sparkContext
    return same_jvm and one.schema == other.schema


def _over(made: _Made, rows: DataFrame) -> DataFrame:
    """Apply the kept change to these rows."""
    session = rows.sparkSession
    spark = catalyst(session)
    plan, names = analyzed(rows), each(analyzed(made.given).output())
    columns = zip(each(plan.output()), names, strict=True)
    plan = spark.project(spark.seq([spark.named(now, then.name(), then.exprId()) for now, then in columns]), plan)
    plan.setAnalyzed()
    for node in reversed(made.nodes):
        plan = node.withNewChildren(spark.seq([plan]))
        plan.setAnalyzed()
    return frame_of(session, plan)


def _added(given: DataFrame, changed: DataFrame) -> list[Any] | None:
    """The nodes above the plan of `given`, the topmost first.

    None if they are no chain, or vary each time: they have a clock, a seed or a query within an expression.
    """
    spark, plan = catalyst(given.sparkSession), analyzed(changed)
    if plan.containsPattern(spark.clock) or plan.containsPattern(spark.subquery):
        return None
    nodes = list(_chain(plan))
    count = len(nodes) - len(list(_chain(analyzed(given))))
    if count < 0 or not nodes[count].fastEquals(analyzed(given)) or not all(n.deterministic() for n in nodes[:count]):
        return None
    return nodes[:count]


def _chain(plan: Any) -> Iterator[Any]:
    """Yield the nodes of the plan from the topmost to the first that has not just one child."""
    yield plan
    while plan.children().size() == 1:
        plan = plan.children().head()
        yield plan


def _whole(given: DataFrame, frame: DataFrame) -> Whole:
    constants, types = {}, arrow_schema_of(frame.schema)
    for name, literal in _literals(frame):
        value = literal.value()
        if pa.types.is_string(types.field(name).type) and value is not None:
            value = value.toString()
        if value is None or isinstance(value, str | bool | int):  # others may have another form in the JVM
            constants[name] = pa.scalar(value, types.field(name).type)
    first: dict[Any, str] = {}
    copies = {
        name: other for name, source in _sources(given, frame) if (other := first.setdefault(source, name)) != name
    }
    return Whole(constants, tuple(frame.columns), copies)


def _literals(frame: DataFrame) -> Iterator[tuple[str, Any]]:
    """Yield columns that are equal in all rows, also of rows that are read in parts."""
    for column in _columns(frame):
        if all(one.nodeName() == "Alias" and one.child().nodeName() == "Literal" for _, one in column):
            (_, first), *others = column
            if all(one.child().fastEquals(first.child()) for _, one in others):
                yield first.name(), first.child()


def _sources(given: DataFrame, frame: DataFrame) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield columns that only rename a lower column, at most a given one; with its id in each part."""
    names = {one.exprId().id() for one in each(analyzed(given).output())}
    for column in _columns(frame):
        ids = [_source(part, one, names) for part, one in column]
        if None not in ids:
            yield column[0][1].name(), tuple(one for one in ids if one is not None)


def _source(part: Any, column: Any, given: Set[int]) -> int | None:
    """The id of the lowest column that this one renames; None for a computed one."""
    while True:
        number: int = column.exprId().id()
        if number in given:
            return number
        if column.nodeName() == "Alias":
            column = column.child()
            if column.nodeName() != "AttributeReference":
                return None
            continue
        part = part.children().head()
        below = [one for one in each(part.projectList()) if one.exprId().id() == number] if _is_project(part) else []
        if not below or (below[0].nodeName() == "Alias" and below[0].child().nodeName() != "AttributeReference"):
            return number
        column = below[0]


def _columns(frame: DataFrame) -> Iterator[tuple[tuple[Any, Any], ...]]:
    """Yield each column as (part, expression) in each part of the rows; nothing if a part ends in no projection."""
    plan = optimized(frame)
    parts = list(each(plan.children())) if plan.nodeName() == "Union" else [plan]
    if all(map(_is_project, parts)):
        lists = [[(part, column) for column in each(part.projectList())] for part in parts]
        yield from zip(*lists, strict=True)


def _is_project(node: Any) -> bool:
    return bool(node.nodeName() == "Project")


def _unread(frame: DataFrame) -> frozenset[str]:
    todo, there, used = [optimized(frame)], set(), set()
    while todo:
        node = todo.pop()
        if children := list(each(node.children())):
            used |= {one.name() for one in each(node.references().toSeq())}
            todo += children
        else:
            there |= {one.name() for one in each(node.output())}
    return frozenset(there - used)
