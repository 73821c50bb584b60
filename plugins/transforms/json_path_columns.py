"""JSON paths over values, as Column expressions: over structs, maps and arrays by their schemas, over JSON as VARIANT.

Results follow Jayway's JsonPath: a number and a text are equal if the text is that number, order is among numbers and
among texts, `!=` and `nin` hold for what is missing, and `=~` has to match the whole text. Strings order by bytes of
UTF-8.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.regex import JavaRegex
from headrace.plugins.schema import DECIMAL, NUMBERS, Schema, SchemaType, logical
from headrace.plugins.transforms.json_path import (
    All,
    Child,
    Compares,
    Every,
    Exists,
    Item,
    Literal,
    Not,
    Number,
    Path,
    Regex,
    Some,
    Step,
    Test,
)

_ORDERS: Final[dict[str, Callable[[Column, Column], Column]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_IS_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ANY_NUMBER: Final = "^(BIGINT|DECIMAL|DOUBLE|FLOAT)"


class UnfitError(Exception):
    """A path compares what cannot be compared; the text says what."""


class _Node(NamedTuple):
    value: Column
    schema: Schema | None
    """None: a VARIANT."""


def matches(path: Path, value: Column, schema: Schema | None, setting: str) -> Column:
    """True if the path leads to something; null if a field on its way, before any filter, is missing or null.

    Errors: UnfitError; ConfigError for a regular expression that Java refuses.
    """
    found = _over(value, schema, lambda root: _Paths(root, setting).matches(path))
    return found.cast("boolean")


def text_at(path: Path, value: Column, schema: Schema | None) -> Column:
    """Return the text at a definite path, as `struct<text, other>`.

    `text` is null if it is missing or null, or something else; then `other` is true. Errors: UnfitError.
    """
    return _over(value, schema, lambda root: _text_at(path, root))


def _text_at(path: Path, root: _Node) -> Column:
    node, there = _followed(root, path.steps)
    if node is None:
        return F.struct(F.lit(None).cast("string").alias("text"), F.lit(False).alias("other"))
    text = _text(node)
    other = there & ~_is_null(node) & text.isNull()
    return F.struct(F.when(there, text).alias("text"), F.coalesce(other, F.lit(False)).alias("other"))


def _over(value: Column, schema: Schema | None, make: Callable[[_Node], Column]) -> Column:
    if schema is None:
        return let(F.try_parse_json(value), lambda variant: make(_Node(variant, None)))
    return make(_Node(value, schema))


class _Paths(NamedTuple):
    """Paths over one root."""

    root: _Node
    setting: str

    def matches(self, path: Path) -> Column:
        first = next((n for n, step in enumerate(path.steps) if not isinstance(step, Child | Item)), len(path.steps))
        node, there = _followed(self.root, path.steps[:first])
        if node is None:
            return F.lit(None)
        there = there & ~_is_null(node)
        if first < len(path.steps):
            there = there & _is_container(node)
        return F.when(there, self._leads(node, path.steps[first:]))

    def _leads(self, node: _Node, steps: Sequence[Step]) -> Column:
        """True if the steps lead to something; never null."""
        if not steps:
            return F.lit(True)
        step, rest = steps[0], steps[1:]
        if isinstance(step, Child | Item):
            then, there = _step(node, step)
            return F.lit(False) if then is None else there & self._leads(then, rest)
        if isinstance(step, Every):
            return self._any(node, lambda one: self._leads(one, rest), of_objects=True)
        test = step.test
        holds: Callable[[_Node], Column] = lambda one: self._holds(test, one) & self._leads(one, rest)  # noqa: E731
        if node.schema is None:
            is_object = F.schema_of_variant(node.value).startswith("OBJECT")
            return _sure(is_object & holds(node)) | self._any(node, holds, of_objects=False)
        if node.schema.type is SchemaType.ARRAY:
            return self._any(node, holds, of_objects=False)
        return node.value.isNotNull() & holds(node) if _has_members(node.schema) else F.lit(False)

    def _any(self, node: _Node, holds: Callable[[_Node], Column], *, of_objects: bool) -> Column:
        """True if it holds for an item of an array, or with `of_objects` a member of an object."""
        schema, value = node.schema, node.value
        if schema is None:
            parts = F.try_variant_get(value, "$", "array<variant>")
            if of_objects:
                parts = F.coalesce(parts, F.map_values(F.try_variant_get(value, "$", "map<string,variant>")))
            return _sure(F.exists(parts, lambda one: holds(_Node(one, None))))
        if schema.type is SchemaType.STRUCT:
            found = [holds(_Node(value.getField(field.name), field.schema)) for field in schema.fields]
            return value.isNotNull() & reduce(operator.or_, found, F.lit(False))
        inner = schema.value_schema
        if inner is None:
            return F.lit(False)
        parts = F.map_values(value) if schema.type is SchemaType.MAP else value
        return _sure(F.exists(parts, lambda one: holds(_Node(one, inner))))

    def _holds(self, test: Test, node: _Node) -> Column:
        """True if the test holds; never null."""
        if isinstance(test, All):
            return reduce(operator.and_, (self._holds(one, node) for one in test.tests))
        if isinstance(test, Some):
            return reduce(operator.or_, (self._holds(one, node) for one in test.tests))
        if isinstance(test, Not):
            return ~self._holds(test.test, node)
        found, there = _followed(self.root if test.path.from_root else node, test.path.steps)
        if isinstance(test, Exists):
            return there
        return self._compares(test, found, there)

    def _compares(self, test: Compares, node: _Node | None, there: Column) -> Column:
        if isinstance(test.to, Regex):
            text = F.lit("") if node is None else F.coalesce(F.when(there, _any_text(node)), F.lit(""))
            return JavaRegex(self.setting, test.to.pattern).matches(text)
        if node is None:
            return F.lit(test.operator in ("!=", "nin"))
        if isinstance(test.to, tuple):
            equal = reduce(operator.or_, (_sure(_equal(node, one)) for one in test.to), F.lit(False))
        elif test.operator in _ORDERS:
            return there & _sure(_ordered(node, _ORDERS[test.operator], test.to))
        else:
            equal = _sure(_equal(node, test.to))
        equal = there & equal
        return ~equal if test.operator in ("!=", "nin") else equal


def _sure(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


def _has_members(schema: Schema) -> bool:
    return schema.type in (SchemaType.STRUCT, SchemaType.MAP)


def _is_null(node: _Node) -> Column:
    return node.value.isNull() if node.schema is not None else node.value.isNull() | F.is_variant_null(node.value)


def _is_container(node: _Node) -> Column:
    if node.schema is None:
        return F.schema_of_variant(node.value).rlike("^(OBJECT|ARRAY)")
    return F.lit(_has_members(node.schema) or node.schema.type is SchemaType.ARRAY)


def _followed(node: _Node, steps: Sequence[Step]) -> tuple[_Node | None, Column]:
    """Return what definite steps lead to, and the rows that have it (never null); None: no row has it."""
    there = F.lit(True)
    for step in steps:
        then, here = _step(node, step)
        if then is None:
            return None, F.lit(False)
        node, there = then, there & here
    return node, there


def _step(node: _Node, step: Step) -> tuple[_Node | None, Column]:
    assert isinstance(step, Child | Item), "other steps are indefinite"
    schema, value = node.schema, node.value
    if schema is None:
        found = _of_variant(value, step)
        return _Node(found, None), found.isNotNull()
    if isinstance(step, Item):
        inner = schema.value_schema
        if schema.type is not SchemaType.ARRAY or inner is None:
            return None, F.lit(False)
        least = step.position + 1 if step.position >= 0 else -step.position
        return _Node(_item(value, step.position), inner), _sure(F.size(value) >= least)
    if schema.type is SchemaType.MAP and schema.key_schema is not None and schema.value_schema is not None:
        if schema.key_schema.type is not SchemaType.STRING:
            return None, F.lit(False)
        found = F.try_element_at(value, F.lit(step.name))
        return _Node(found, schema.value_schema), _sure(F.map_contains_key(value, step.name))
    field = schema.field(step.name) if schema.type is SchemaType.STRUCT else None
    if field is None:
        return None, F.lit(False)
    return _Node(value.getField(field.name), field.schema), value.isNotNull()


def _of_variant(value: Column, step: Child | Item) -> Column:
    if isinstance(step, Child):
        quote = "'" if '"' in step.name else '"'
        return F.try_variant_get(value, f"$[{quote}{step.name}{quote}]", "variant")
    if step.position >= 0:
        return F.try_variant_get(value, f"$[{step.position}]", "variant")
    return _item(F.try_variant_get(value, "$", "array<variant>"), step.position)


def _item(array: Column, index: int) -> Column:
    return F.try_element_at(array, F.lit(index + 1 if index >= 0 else index))


def _equal(node: _Node, literal: Literal) -> Column:
    if literal is None:
        return _is_null(node)
    if isinstance(literal, bool):
        return _boolean(node) == F.lit(literal)
    if isinstance(literal, Number):
        return F.coalesce(_number_is(node, operator.eq, literal.text), _text(node) == F.lit(literal.text))
    equal = _text(node) == F.lit(literal)
    if _IS_NUMBER.fullmatch(literal) is None:
        return equal
    return F.coalesce(equal, _number_is(node, operator.eq, literal))


def _ordered(node: _Node, order: Callable[[Column, Column], Column], literal: Literal) -> Column:
    if isinstance(literal, Number):
        return _number_is(node, order, literal.text)
    return order(_text(node), F.lit(literal)) if isinstance(literal, str) else F.lit(False)


def _text(node: _Node) -> Column:
    """Return the node's text; null if it is not a text. Errors: UnfitError."""
    if node.schema is None:
        is_text = F.schema_of_variant(node.value) == "STRING"
        return F.when(is_text, F.try_variant_get(node.value, "$", "string"))
    _comparable(node.schema)
    return node.value if node.schema.type is SchemaType.STRING else F.lit(None).cast("string")


def _boolean(node: _Node) -> Column:
    if node.schema is None:
        is_boolean = F.schema_of_variant(node.value) == "BOOLEAN"
        return F.when(is_boolean, F.try_variant_get(node.value, "$", "boolean"))
    _comparable(node.schema)
    return node.value if node.schema.type is SchemaType.BOOLEAN else F.lit(None).cast("boolean")


def _any_text(node: _Node) -> Column:
    """Return the text of a text, number or boolean; null for others."""
    if node.schema is None:
        plain = F.schema_of_variant(node.value).rlike(f"{_ANY_NUMBER}|^STRING|^BOOLEAN")
        return F.when(plain, F.try_variant_get(node.value, "$", "string"))
    _comparable(node.schema)
    plain_types = (*NUMBERS, SchemaType.STRING, SchemaType.BOOLEAN)
    is_plain = node.schema.type in plain_types or logical(node.schema) == DECIMAL
    return node.value.cast("string") if is_plain else F.lit(None).cast("string")


def _number_is(node: _Node, relation: Callable[[Column, Column], Column], text: str) -> Column:
    """Return the relation of the node's number to this one; null if it is not a number."""
    whole = int(text) if _INTEGER.fullmatch(text) else None
    schema, value = node.schema, node.value
    if schema is None:
        kind = F.schema_of_variant(value)
        near = relation(F.try_variant_get(value, "$", "double"), F.lit(float(text)))
        if whole is None:
            return F.when(kind.rlike(_ANY_NUMBER), near)
        exact = relation(F.try_variant_get(value, "$", "bigint"), F.lit(whole))
        return F.when(kind == "BIGINT", exact).when(kind.rlike(_ANY_NUMBER), near)
    _comparable(schema)
    if logical(schema) == DECIMAL:
        exact_decimal = Decimal(text)
        fits = len(exact_decimal.as_tuple().digits) <= 38 and abs(exact_decimal.adjusted()) <= 37
        return relation(value, F.lit(exact_decimal)) if fits else relation(value.cast("double"), F.lit(float(text)))
    if schema.type not in NUMBERS:
        return F.lit(None).cast("boolean")
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        # By its text, so that a float is the number that it prints.
        double = value.cast("string").cast("double") if schema.type is SchemaType.FLOAT32 else value
        return F.when(~F.isnan(value), relation(double, F.lit(float(text))))
    if whole is None:
        return relation(value.cast("double"), F.lit(float(text)))
    return relation(value.cast("bigint"), F.lit(whole))


def _comparable(schema: Schema) -> None:
    kind = logical(schema)
    if schema.type is SchemaType.BYTES and kind != DECIMAL:
        raise UnfitError("bytes cannot be compared")
    if kind is not None and kind != DECIMAL:
        remedy = "make it a number or a text before, by TimestampConverter"
        raise UnfitError(f"a {kind.rpartition('.')[2]} cannot be compared: {remedy}")
