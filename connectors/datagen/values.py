"""Generators of columns: each draws values of one Avro type for consecutive rows.

`first` is the number of the first row, for values that count. Within arrays and maps there is none (None): how many
values came before is not known there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.datagen.patterns import Node, texts

Random = np.random.Generator

MOST_SPAN: Final = 1 << 62
"""The most numbers of one round of a count, so that a block of rows stays within 64 bits."""
MOST_STEP: Final = 1 << 49


class Values(ABC):
    """Draws values of one type; picklable."""

    @abstractmethod
    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        """Return so many values."""


@dataclass(frozen=True)
class Options(Values):
    """Any of given values, each as likely as another."""

    values: pa.Array

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        return self.values.take(pa.array(rng.integers(0, len(self.values), rows)))


@dataclass(frozen=True)
class Texts(Values):
    """Texts or bytes of a pattern."""

    node: Node
    kind: pa.DataType

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        return texts(self.node, rng, rows, self.kind)


@dataclass(frozen=True)
class Converted(Values):
    """Values of another generator, in the type that Spark carries."""

    inner: Values
    convert: Callable[[pa.Array], pa.Array]

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        return self.convert(self.inner.draw(rng, first, rows))


@dataclass(frozen=True)
class Integers(Values):
    """Integers from `least` up to, and without, `end`."""

    least: int
    end: int
    kind: pa.DataType

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        return pa.array(rng.integers(self.least, self.end - 1, rows, np.int64, endpoint=True), self.kind)


@dataclass(frozen=True)
class Floats(Values):
    """Floating-point numbers from `least` up to, and without, `end`."""

    least: float
    end: float
    kind: pa.DataType

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        part, number = rng.random(rows), self.kind.to_pandas_dtype()
        made = (self.least * (1 - part) + self.end * part).astype(number)
        # Rounded numbers may reach the end, which is excluded.
        below = np.nextafter(number(self.end), number(self.least))
        return pa.array(np.minimum(made, below), self.kind)


@dataclass(frozen=True)
class Booleans(Values):
    """True with this chance."""

    odds: float

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        return pa.array(rng.random(rows) < self.odds)


@dataclass(frozen=True)
class Counting(Values):
    """Integers that go from `start` to `restart` by `step`, row by row, and round again; the first is `initial`."""

    start: int
    restart: int
    step: int
    initial: int
    kind: pa.DataType

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        assert first is not None, "a count within an array or a map is refused"
        up = 1 if self.restart > self.start else -1
        span, step = abs(self.restart - self.start), self.step * up
        base = ((self.initial - self.start) * up + first * step) % span
        made: npt.NDArray[np.int64] = self.start + up * ((base + np.arange(rows, dtype=np.int64) * step) % span)
        return pa.array(made, self.kind)


@dataclass(frozen=True)
class CountingFloats(Values):
    """As `Counting`, of floating-point numbers."""

    start: float
    restart: float
    step: float
    initial: float
    kind: pa.DataType

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        assert first is not None, "a count within an array or a map is refused"
        moved = (self.initial - self.start) + (first + np.arange(rows, dtype=np.float64)) * self.step
        return pa.array(self.start + np.fmod(moved, self.restart - self.start)).cast(self.kind)


@dataclass(frozen=True)
class Alternating(Values):
    """True and false in turn."""

    start: bool

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        assert first is not None, "a count within an array or a map is refused"
        return pa.array((first + np.arange(rows)) % 2 == (0 if self.start else 1))


@dataclass(frozen=True)
class Structs(Values):
    """Structs of these members."""

    members: tuple[Values, ...]
    kind: pa.StructType

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        drawn = [member.draw(rng, first, rows) for member in self.members]
        return pa.StructArray.from_arrays(drawn, fields=list(self.kind))


@dataclass(frozen=True)
class Unions(Values):
    """One of several branches, each as likely as another; the last is null if `has_null`.

    `kind`: a struct with a member for each branch. None: there is one branch, and the value is its own.
    """

    branches: tuple[Values, ...]
    has_null: bool
    kind: pa.StructType | None

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        chosen = rng.integers(0, len(self.branches) + self.has_null, rows)
        drawn = [_only(one.draw(rng, first, rows), chosen == number) for number, one in enumerate(self.branches)]
        if self.kind is None:
            return drawn[0]
        nothing = pa.array(chosen == len(self.branches))
        return pa.StructArray.from_arrays(drawn, fields=list(self.kind), mask=nothing)


def _only(values: pa.Array, kept: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the values with nulls where they are not kept."""
    return values.take(pa.array(np.arange(len(values)), mask=~kept))


@dataclass(frozen=True)
class Lists(Values):
    """Arrays of `least` to `most` items."""

    items: Values
    least: int
    most: int
    kind: pa.DataType

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        counts = rng.integers(self.least, self.most + 1, rows)
        return pa.ListArray.from_arrays(_ends(counts), self.items.draw(rng, None, int(counts.sum())), type=self.kind)


@dataclass(frozen=True)
class Maps(Values):
    """Maps of up to `least` to `most` entries: a key that is drawn twice is one entry."""

    keys: Values
    items: Values
    least: int
    most: int
    kind: pa.MapType

    def draw(self, rng: Random, first: int | None, rows: int) -> pa.Array:
        counts = rng.integers(self.least, self.most + 1, rows)
        owners = np.repeat(np.arange(rows), counts)
        keys = self.keys.draw(rng, None, len(owners))
        items = self.items.draw(rng, None, len(owners))
        numbers = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        kept = np.sort(np.unique(owners * (len(owners) + 1) + numbers, return_index=True)[1])
        at = pa.array(kept)
        ends = _ends(np.bincount(owners[kept], minlength=rows))
        return pa.MapArray.from_arrays(ends, keys.take(at), items.take(at), type=self.kind)


def _ends(counts: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())


def unscaled(numbers: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return decimals of these unscaled numbers."""
    low = numbers.to_numpy(zero_copy_only=False)
    halves = np.stack([low, low >> 63], axis=1)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(halves.tobytes())])


def timestamps(millis: pa.Array) -> pa.Array:
    """Return timestamps of these milliseconds."""
    micros = pc.multiply(millis, 1000)
    return micros.cast(pa.timestamp("us", tz="UTC"))


def dates(days: pa.Array) -> pa.Array:
    """Return dates of these days since 1970."""
    return days.cast(pa.date32())


def joined(values: pa.Array, prefix: str, suffix: str) -> pa.Array:
    """Return texts with others around them."""
    return pc.binary_join_element_wise(prefix, values, suffix, "")
