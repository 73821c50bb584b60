"""Schemas by their numbers among all that a sink's task has met, and the columns of its rows named by these numbers.

A task meets other schemas as time goes on. Its writer finds a row's schema by a number that stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.schema import Schema


def numbers_among(known: list[Schema | None], schemas: Sequence[Schema | None]) -> list[int]:
    """Return the number of each schema in `known`, to which new ones are added."""
    known.extend(schema for schema in dict.fromkeys(schemas) if schema not in known)
    return [known.index(schema) for schema in schemas]


def numbered_columns(
    side: str, schemas: Sequence[Schema | None], known: list[Schema | None], column: Callable[[int], Column]
) -> list[Column]:
    """Return the number of each row's schema in `known`, and a column for each number; equal schemas share one.

    `side` is `key` or `value`, `column` returns the column of the schema of an index.
    """
    index = F.col(f"{side}_schema")
    of = numbers_among(known, schemas)
    numbers, data = F.lit(None).cast("int"), dict[int, Column]()
    for position, number in enumerate(of):
        is_mine, mine = index == position, column(position)
        numbers = F.when(is_mine, F.lit(number)).otherwise(numbers)
        data[number] = F.when(is_mine, mine).otherwise(data[number]) if number in data else mine
    if of == list(range(len(of))):
        numbers = index
    return [numbers.alias(f"{side}_schema"), *(one.alias(f"{side}_{number}") for number, one in data.items())]


def own_columns_only(side: str, column: Callable[[int], Column]) -> Callable[[int], Column]:
    """Return these columns with null for rows of other schemas, in which a value from before a transform may stand."""
    return lambda index: F.when(F.col(f"{side}_schema") == index, column(index))
