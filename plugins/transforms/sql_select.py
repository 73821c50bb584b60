"""Splits a SELECT over one record into expressions of its columns and its condition, over a frame's columns.

Spark's own parser and analyser do the work, in a separate session in which names are not case-sensitive. The analysed
plan is a chain of Project and Filter over the record. Its expressions are collapsed into one list, and their attributes
replaced by the frame's columns. So rows stay in place, and everything runs inline.

The record's own columns (`topic`, …) are hidden columns to Spark, like a file's metadata: they can be named, but `*`
omits them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as spark

from headrace.plugins.interop.catalyst.spark_internals import (
    Catalyst,
    analyzed,
    catalyst,
    each,
    empty_frame,
    frame_of,
)
from headrace.plugins.schema import Schema
from headrace.plugins.transforms.sql_functions import drop_others, refusals

RELATION: Final = "records"
_HIDDEN: Final = "__metadata_col"
_CHAIN: Final = ("Project", "Filter", "SubqueryAlias")


_TODAY: Final = re.compile(
    r"""(?ix) (?: \b (?: timestamp (?: _ltz | _ntz )? | date ) \s* \(? | \b (?: try_ )? cast \s* \( )
    \s* ['"] \s* (?: now | today | tomorrow | yesterday ) \b"""
)
"""Texts that Spark reads as the present time, in positions where the parser or a cast does so."""
_CLOCK: Final = "the current time, date or user is another with each attempt; use the record's timestamp"


class UnfitError(ValueError):
    """The SELECT cannot be applied to such records."""


class RefusedError(ValueError):
    """The SELECT cannot be applied to any record."""


class Input(NamedTuple):
    """An input column of the SELECT."""

    name: str
    column: Column
    """Column in the frame."""
    kind: spark.DataType
    """Type, with nullability."""
    schema: Schema | None = None
    """Connect schema; None: it has only the type."""
    optional: bool = True
    shown: bool = False
    """True if `*` includes it."""


@dataclass(frozen=True)
class Selected:
    """A result column of the SELECT."""

    name: str
    column: Column
    """Over the frame's columns; may raise."""
    kind: spark.DataType
    optional: bool
    text: str
    """Expression, for people."""
    source: str | None
    """Name of the input, if selected unchanged."""
    schema: Schema | None
    """Schema of the input or its member, if selected unchanged."""


@dataclass(frozen=True)
class Selection:
    """The SELECT applied to records of one shape."""

    columns: tuple[Selected, ...]
    conditions: tuple[tuple[Column, str], ...]
    """Conditions with their texts, the innermost first."""


class Select:
    """A parsed SELECT."""

    def __init__(self, session: SparkSession, text: str) -> None:
        """Parse the SELECT. Errors: RefusedError if it is not a SELECT, or more than projections and filters."""
        self._session = session.newSession()
        self._session.conf.set("spark.sql.lateralColumnAlias.enableImplicitResolution", "true")
        drop_others(self._session)
        self._spark = catalyst(session)
        self._plan = self._parsed(text)
        self.variants: set[tuple[str, ...]] = set()
        """Names whose JSON members are selected: `name:member`."""
        self.names = tuple(self._named(self._plan))
        """Parts of each name in it."""

    def over(self, inputs: Sequence[Input], frame: DataFrame, only: Sequence[str] | None = None) -> Selection:
        """Apply the SELECT to these columns of the frame; `only` omits all result columns except these names.

        Errors: UnfitError if these inputs do not fit; RefusedError.
        """
        lower_case = [one.name.lower() for one in inputs if one.shown]
        ambiguous = len(set(lower_case)) < len(lower_case)
        self._session.conf.set("spark.sql.caseSensitive", str(ambiguous).lower())
        leaf = self._leaf(inputs)
        plan = self._plan if only is None else self._without_others(only)
        try:
            analysed = analyzed(frame_of(self._session, self._with_relation(plan, leaf, inputs)))
        except PySparkException as error:
            raise UnfitError(_first_line(error)) from error
        except Py4JJavaError as error:  # Spark has no message for some cases
            raise UnfitError(str(error.java_exception.getMessage())) from error
        self._refuse(analysed)
        columns, conditions = self._collapsed(analysed, leaf)
        types = spark.StructType.fromJson(json.loads(analysed.schema().json()))
        given = _Given(self._spark, leaf, inputs, frame)
        return Selection(
            tuple(given.selected(one, kind) for one, kind in zip(each(columns), types.fields, strict=True)),
            tuple((given.column(one), given.text(one)) for one in conditions),
        )

    def _parsed(self, text: str) -> Any:
        try:
            plan = self._spark.parser.parsePlan(text)
        except PySparkException as error:
            raise RefusedError(_first_line(error)) from error
        except Py4JJavaError as error:  # from statements that Spark's parser cannot read without Hive
            raise RefusedError(f"it has to be SELECT … FROM {RELATION} [WHERE …]") from error
        if _TODAY.search(text):
            raise RefusedError(_CLOCK)
        if plan.containsPattern(self._spark.subquery):
            raise RefusedError("a subquery needs more than this record")
        node = plan
        while node.nodeName() in _CHAIN:
            node = node.child()
        if node.nodeName() != "UnresolvedRelation":
            raise RefusedError(f"it has to be SELECT … FROM {RELATION} [WHERE …]: {_words(node)} needs more than that")
        name = ".".join(each(node.multipartIdentifier()))
        if name.lower() != RELATION:
            raise RefusedError(f"FROM has to name {RELATION}, the record, and not {name}")
        if plan.nodeName() != "Project":
            raise RefusedError("it does not begin with SELECT")
        node = plan
        while node.nodeName() in _CHAIN:
            for reason in (reason for one in each(node.expressions()) for reason in refusals(one)):
                raise RefusedError(reason)
            node = node.child()
        return plan

    def _named(self, node: Any) -> Iterator[tuple[str, ...]]:
        kind = node.nodeName()
        if kind == "UnresolvedAttribute":
            yield tuple(each(node.nameParts()))
        if kind in ("UnresolvedStar", "UnresolvedStarExceptOrReplace"):
            target = node.target()
            yield from [tuple(each(target.get()))] if target.isDefined() else []
        if kind == "UnresolvedStarExceptOrReplace":
            yield from (tuple(each(one)) for one in each(node.excepts()))
        if kind == "SemiStructuredExtract":
            self.variants.update(self._named(node.child()))
        inner = node.expressions() if kind in _CHAIN else node.children()
        for one in each(inner):
            yield from self._named(one)
        if kind in _CHAIN:
            yield from self._named(node.child())

    def _leaf(self, inputs: Sequence[Input]) -> Any:
        """Return an empty relation with these columns."""
        fields = [
            spark.StructField(one.name, one.kind, one.optional, None if one.shown else {_HIDDEN: one.name})
            for one in inputs
        ]
        return analyzed(empty_frame(self._session, spark.StructType(fields)))

    def _with_relation(self, plan: Any, leaf: Any, inputs: Sequence[Input]) -> Any:
        attributes = list(zip(inputs, each(leaf.output()), strict=True))
        record = self._spark.project(self._spark.seq([attribute for one, attribute in attributes if one.shown]), leaf)
        hidden = [attribute for one, attribute in attributes if not one.shown]
        record.setTagValue(self._spark.hidden, self._spark.seq(hidden))
        return self._replaced(plan, self._spark.alias_of_plan.apply(RELATION, record))

    def _replaced(self, plan: Any, relation: Any) -> Any:
        if plan.nodeName() == "UnresolvedRelation":
            return relation
        return plan.withNewChildren(self._spark.seq([self._replaced(plan.child(), relation)]))

    def _without_others(self, only: Sequence[str]) -> Any:
        if self._plan.child().nodeName() not in ("Filter", "UnresolvedRelation"):
            return self._plan  # a subquery may depend on any of them
        kept = [one for one in each(self._plan.projectList()) if _name(one).lower() in only]
        return self._spark.project(self._spark.seq(kept), self._plan.child())

    def _refuse(self, plan: Any) -> None:
        node = plan
        if plan.containsPattern(self._spark.clock):
            raise RefusedError(_CLOCK)
        if plan.containsPattern(self._spark.python):
            raise RefusedError("a Python function is none of Spark's expressions: use headrace.transforms.Python")
        while node.nodeName() in _CHAIN:
            if not all(one.deterministic() for one in each(node.expressions())):
                raise RefusedError("a function that is not deterministic gives something else with each attempt")
            node = node.child()
        if node.nodeName() != "LogicalRDD":
            raise RefusedError(f"{_words(node)} needs more than one record, or makes several of one")

    def _collapsed(self, plan: Any, leaf: Any) -> tuple[Any, list[Any]]:
        """Return the plan's columns over the leaf's attributes, and its conditions, the innermost first."""
        kind = plan.nodeName()
        if kind == "LogicalRDD":
            return leaf.output(), []
        columns, conditions = self._collapsed(plan.child(), leaf)
        if kind == "Project":
            return self._spark.inlined(plan.projectList(), columns), conditions
        if kind == "Filter":
            named = self._spark.seq([self._spark.named(plan.condition(), "condition")])
            conditions = [*conditions, self._spark.inlined(named, columns).apply(0).child()]
        return columns, conditions


class _Given:
    """Maps attributes of the analysed SELECT to columns of the frame."""

    def __init__(self, classes: Catalyst, leaf: Any, inputs: Sequence[Input], frame: DataFrame) -> None:
        self._spark = classes
        self._inputs = inputs
        columns = analyzed(frame.select(*(one.column.alias(one.name) for one in inputs)))
        self._ids: list[int] = []
        lower = []
        for attribute, named in zip(each(leaf.output()), each(columns.projectList()), strict=True):
            expression = named.child() if named.nodeName() == "Alias" else named
            lower.append(self._spark.named(expression, attribute.name(), attribute.exprId()))
            self._ids.append(attribute.exprId().id())
        self._lower = self._spark.seq(lower)

    def selected(self, expression: Any, given: spark.StructField) -> Selected:
        bare = _bare(expression)
        source = self._inputs[self._ids.index(bare.exprId().id())] if bare.nodeName() == "AttributeReference" else None
        found = None if isinstance(given.dataType, spark.VariantType) else self._schema(bare)
        column, text = self.column(bare), self.text(bare)
        return Selected(given.name, column, given.dataType, given.nullable, text, source and source.name, found)

    def column(self, expression: Any) -> Column:
        named = self._spark.seq([self._spark.named(expression, "column")])
        return self._spark.column(self._spark.inlined(named, self._lower).apply(0).child())

    def text(self, expression: Any) -> str:
        return str(self._spark.pretty(expression, True))

    def _schema(self, expression: Any) -> Schema | None:
        """Return the Connect schema of an input or of its member."""
        if expression.nodeName() == "AttributeReference":
            return self._inputs[self._ids.index(expression.exprId().id())].schema
        if expression.nodeName() != "GetStructField":
            return None
        struct = self._schema(expression.child())
        if struct is None:
            return None
        field = struct.field(expression.child().dataType().fieldNames()[expression.ordinal()])
        if field is None:
            return None
        return replace(field.schema, optional=field.schema.optional or struct.optional)


def _bare(expression: Any) -> Any:
    while expression.nodeName() == "Alias":
        expression = expression.child()
    return expression


def _name(parsed: Any) -> str:
    """Return a column's name in the parsed SELECT; empty if Spark has to find one."""
    return str(parsed.name()) if parsed.nodeName() in ("Alias", "UnresolvedAttribute") else ""


def _words(node: Any) -> str:
    kind = str(node.nodeName())
    return _WORDS.get(kind, kind)


_WORDS: Final = {
    "Aggregate": "an aggregate",
    "Distinct": "DISTINCT",
    "Generate": "a function that makes rows",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "OneRowRelation": "a SELECT without FROM",
    "Sort": "ORDER BY",
    "UnresolvedHaving": "HAVING",
    "UnresolvedWith": "WITH",
    "Window": "a window",
}


def _first_line(error: PySparkException) -> str:
    text = str(error.getMessage() or error).strip()
    return text.split(";\n")[0].splitlines()[0] if text else type(error).__name__
