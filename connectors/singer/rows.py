"""Rows of several streams in one batch: their columns, and few shapes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.connectors.singer.schemas import StreamType
from headrace.connectors.singer.tap import Row
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.records import AS_READ
from headrace.plugins.schema import Schema

STATE: Final = "state"
"""The member of an offset: a STATE as JSON text."""
OFFSET: Final = pa.struct([(STATE, pa.string())])
_MOST_TYPES: Final = 16
"""The number of types that a shape has at most, unless a single batch has more."""


class Shape(NamedTuple):
    """The types of the rows of a batch, in the order of their columns."""

    types: tuple[StreamType, ...]

    @property
    def keys(self) -> tuple[Schema, ...]:
        """The schemas of keys; a type without a key has none."""
        return tuple(one.key.schema for one in self.types if one.key is not None)

    @property
    def values(self) -> tuple[Schema, ...]:
        """The schema of each type's values."""
        return tuple(one.value.schema for one in self.types)

    def row_type(self) -> pa.Schema:
        """Return the columns of rows, without `source_offset`."""
        row = [("topic", pa.string()), ("timestamp", pa.int64())]
        for side, schemas in (("key", self.keys), ("value", self.values)):
            row.append((f"{side}_schema", pa.int32()))
            row += [(f"{side}_{number}", arrow_type_of_schema(schema)) for number, schema in enumerate(schemas)]
        return pa.schema([*row, ("failure", pa.string()), (AS_READ, pa.string())])

    def batch(self, rows: Sequence[Row], states: Sequence[str | None], topic_prefix: str) -> pa.RecordBatch:
        """Return rows as a reader yields them."""
        numbers = {id(of): number for number, of in enumerate(self.types)}
        with_keys = [of for of in self.types if of.key is not None]
        key_numbers = {id(of): number for number, of in enumerate(with_keys)}
        of_key = [None if row.failure is not None else key_numbers.get(id(row.type)) for row in rows]
        of_value = [None if row.failure is not None else numbers[id(row.type)] for row in rows]
        columns = [
            pa.array([topic_prefix + row.type.stream for row in rows], pa.string()),
            pa.array([row.timestamp for row in rows], pa.int64()),
            *_side(of_key, [row.key for row in rows], self.keys),
            *_side(of_value, [row.value for row in rows], self.values),
            pa.array([row.failure for row in rows], pa.string()),
            pa.array([row.as_read for row in rows], pa.string()),
            pa.array([(state,) for state in states], OFFSET),
        ]
        return pa.RecordBatch.from_arrays(columns, names=[*self.row_type().names, "source_offset"])


def _side(numbers: Sequence[int | None], packed: Sequence[Any], schemas: Sequence[Schema]) -> Iterator[pa.Array]:
    yield pa.array(numbers, pa.int32())
    for number, schema in enumerate(schemas):
        mine = [value if of == number else None for value, of in zip(packed, numbers, strict=True)]
        yield pa.array(mine, arrow_type_of_schema(schema))


class Shapes:
    """The shapes of a task's batches: few, because each is compiled, though streams take turns."""

    def __init__(self) -> None:
        self._current = Shape(())
        self.by_name: dict[str, Shape] = {}

    def name_of(self, rows: Sequence[Row]) -> str:
        """Return the name of a shape that holds the types of these rows."""
        used = tuple({id(row.type): row.type for row in rows}.values())
        new = [one for one in used if not any(one is known for known in self._current.types)]
        if new:
            joined = (*self._current.types, *new)
            self._current = Shape(joined if len(joined) <= _MOST_TYPES else used)
        for name, shape in self.by_name.items():
            if len(shape.types) == len(self._current.types) and all(map(_is, shape.types, self._current.types)):
                return name
        name = str(len(self.by_name))
        self.by_name[name] = self._current
        return name


def _is(one: StreamType, other: StreamType) -> bool:
    return one is other
