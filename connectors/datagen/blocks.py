"""Rows by their numbers: equal for equal seed, task and number, in any process and order.

A block of rows is drawn at once, by a random generator of its own, which depends on seed, task and the block's number.

Decided: blocks, because a generator that goes on from row to row would have to be stored with each offset, and could
not be asked for a row again; loses: a block is drawn anew for each small batch after the first one of another reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.connectors.datagen.values import Values
from headrace.plugins.contracts import Split

GENERATION: Final = "task.generation"
ITERATION: Final = "current.iteration"
SEED: Final = "random.seed"
OFFSET: Final = pa.struct([(GENERATION, pa.int64()), (ITERATION, pa.int64()), (SEED, pa.int64())])

_MOST_ROWS: Final = 4096
_BLOCK_BYTES: Final = 2 << 20
_SAMPLED: Final = 16
_BITS: Final = (1 << 64) - 1


@dataclass
class Blocks:
    """The rows of one task; picklable."""

    values: Values
    task: int
    row_bytes: int = field(init=False)
    """An estimate."""
    rows: int = field(init=False)
    """The rows of a block: it depends on the schema only."""
    _last: tuple[tuple[int, int], pa.Array] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        sample = self.values.draw(np.random.default_rng(0), 0, _SAMPLED)
        self.row_bytes = max(1, sum(map(_size, sample.flatten())) // _SAMPLED)
        self.rows = max(1, min(_MOST_ROWS, _BLOCK_BYTES // self.row_bytes))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": None}

    def between(self, first: int, end: int, seed: int) -> Iterator[pa.Array]:
        """Yield the values of the rows from `first` up to, and without, `end`, block by block."""
        while first < end:
            number, at = divmod(first, self.rows)
            count = min(end - first, self.rows - at)
            yield self._block(number, seed).slice(at, count)
            first += count

    def _block(self, number: int, seed: int) -> pa.Array:
        if self._last is None or self._last[0] != (number, seed):
            source = np.random.SeedSequence([seed & _BITS, self.task, number])
            drawn = self.values.draw(np.random.Generator(np.random.Philox(source)), number * self.rows, self.rows)
            self._last = (number, seed), drawn
        return self._last[1]


def _size(column: pa.Array) -> int:
    return int(column.nbytes)


@dataclass(frozen=True)
class BlockReader:
    """Reads the rows of a plan's one split."""

    blocks: Blocks
    split: Split
    schema: pa.Schema

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        after, upto = _state(self.split.after), _state(self.split.upto)
        number = after[ITERATION]
        for values in self.blocks.between(number, upto[ITERATION], upto[SEED]):
            rows = len(values)
            offsets = [
                np.full(rows, upto[GENERATION]),
                np.arange(number + 1, number + rows + 1),
                np.full(rows, upto[SEED]),
            ]
            members = pa.StructArray.from_arrays([pa.array(one) for one in offsets], fields=list(OFFSET))
            yield pa.RecordBatch.from_arrays([values, members], schema=self.schema)
            number += rows


def _state(offset: Mapping[str, Any] | None) -> Mapping[str, int]:
    assert offset is not None, "plans say where they begin and end"
    return offset
