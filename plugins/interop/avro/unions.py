"""Connect's values to Avro's unions; Column expressions.

A struct that represents a union has a field for each branch; at most one is set. Any other value goes to the first
branch of its own type, or else to the first branch that can hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.carrier import AvroEncoding, Expression, carrier_type, present
from headrace.plugins.interop.avro.parsing import branches, kind_of
from headrace.plugins.interop.avro.shapes import any_of
from headrace.plugins.interop.avro.tree import Tree, is_union
from headrace.plugins.schema import Schema, logical

Of = Callable[[Schema | None, Tree, str], AvroEncoding]
"""Returns the encoding of a schema's values in an Avro type; the path is for errors. Errors: DataError."""


class Unions:
    """Writes values in unions; `of` encodes a branch, `connect` and `other` return a branch's schema and carrier."""

    def __init__(self, of: Of, connect: Callable[[Tree], Schema | None], other: Callable[[Tree], Tree]) -> None:
        self._of = of
        self._connect = connect
        self._other = other

    def encoding(self, schema: Schema, tree: list[Any], at: str) -> AvroEncoding:
        """Return the encoding in a union. Errors: DataError if no branch can hold such values."""
        if is_union(schema):
            return self._branches(schema, tree, at)
        others = branches(tree)
        number, made = self._branch(schema, others, at)
        if len(others) == 1:
            return AvroEncoding(_optional(tree, made.carrier), made.value, made.nulls, made.misfits)
        return self._chosen(tree, {number: (None, made)}, made.nulls, made.misfits)

    def _branch(self, schema: Schema, others: list[Tree], at: str) -> tuple[int, AvroEncoding]:
        """Return the number of the branch that can hold such values, and the encoding in it."""
        refused = mismatch(schema, others, at)
        for number in sorted(range(len(others)), key=lambda n: not self._is_own(schema, others[n])):
            try:
                return number, self._of(schema, others[number], at)
            except DataError as error:
                refused = error
        raise refused

    def _is_own(self, schema: Schema, branch: Tree) -> bool:
        target = self._connect(branch)
        return target is not None and target.type is schema.type and logical(target) == logical(schema)

    def _branches(self, schema: Schema, tree: list[Any], at: str) -> AvroEncoding:
        others = branches(tree)
        if len(schema.fields) != len(others):
            raise mismatch(schema, tree, at)
        pairs = zip(schema.fields, others, strict=True)
        parts = [(field, self._of(field.schema, one, f"{at}.{field.name}")) for field, one in pairs]
        nulls = any_of([(field.name, present(one.nulls)) for field, one in parts])
        misfits = any_of([(field.name, present(one.misfits)) for field, one in parts])

        def none_set(column: Column) -> Column:
            unset = F.lit(True)
            for field, _ in parts:
                unset = unset & column.getField(field.name).isNull()
            return unset if nulls is None else unset | nulls(column)

        missing = nulls if "null" in tree else none_set
        if len(others) == 1:
            name, one = parts[0][0].name, parts[0][1]
            return AvroEncoding(
                _optional(tree, one.carrier), lambda column: one.of(column.getField(name)), missing, misfits
            )
        return self._chosen(tree, {n: (field.name, one) for n, (field, one) in enumerate(parts)}, missing, misfits)

    def _chosen(
        self,
        tree: list[Any],
        chosen: Mapping[int, tuple[str | None, AvroEncoding]],
        nulls: Expression | None,
        misfits: Expression | None,
    ) -> AvroEncoding:
        """Encode a union with only the `chosen` branches, each from a field or from the value itself."""
        others = branches(tree)
        carriers = [chosen[n][1].carrier if n in chosen else self._other(one) for n, one in enumerate(others)]
        left = iter(carriers)
        carrier: list[Tree] = ["null" if kind_of(branch) == "null" else next(left) for branch in tree]

        def member(column: Column, number: int) -> Column:
            type_ = carrier_type(carriers[number])
            if number not in chosen:
                return F.lit(None).cast(type_)
            name, one = chosen[number]
            return one.of(column if name is None else column.getField(name)).cast(type_)

        def made(column: Column) -> Column:
            members = [member(column, number).alias(f"member{number}") for number in range(len(others))]
            return F.when(column.isNotNull(), F.struct(*members))

        return AvroEncoding(carrier, made, nulls, misfits)


def _optional(tree: list[Any], carrier: Tree) -> Tree:
    return [carrier if kind_of(branch) != "null" else "null" for branch in tree]


def mismatch(schema: Schema | None, tree: Tree, at: str) -> DataError:
    """Return the error for values that an Avro type cannot hold."""
    what = "schemaless" if schema is None else schema.name or schema.type.name
    where = f" of the field {at[1:]}" if at else ""
    return DataError(f"Values{where} are {what}, which the registered Avro type {kind_of(tree)} does not hold")
