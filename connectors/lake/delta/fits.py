"""Rows brought to the columns of their tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.delta.fitting import fit_fields
from headrace.connectors.lake.delta.rows import Places, before, by_value, flags, taken
from headrace.connectors.lake.delta.settings import DeltaOptions
from headrace.connectors.lake.delta.shapes import IS_DELETE, TableShape
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Schema

_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
Failures = dict[int, str]
"""By a row's place: why it cannot be written."""
Shape = Callable[[str, int | None], TableShape | None]
"""Returns the table at a path, ready for values of this layout; None: as it is, and None if there is none."""


class Fit(NamedTuple):
    """Rows that fit a table."""

    shape: TableShape
    places: Places
    """Their places among the rows of the batch."""
    rows: pa.RecordBatch


@dataclass(frozen=True)
class RowFits:
    """Finds the rows of each table that fit it."""

    options: DeltaOptions
    layouts: Sequence[Schema]
    shape: Shape
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The offsets before which rows are passed over."""

    def of(self, rows: pa.RecordBatch, failures: Failures) -> Iterator[Fit]:
        """Yield the rows of each table; add those that it cannot hold to the failures."""
        good = flags(rows["layout"].is_valid())
        good[list(failures)] = False
        good &= ~before(rows, self.ends)
        for topic, places in by_value(rows["topic"], np.flatnonzero(good)):
            if self.options.has_topics and _TOPIC.fullmatch(str(topic)) is None:
                text = f"Its topic {topic!r} can be no part of {self.options.path}"
                failures |= dict.fromkeys(places.tolist(), text)
            else:
                yield from self._of_table(self.options.table(str(topic)), rows, places, failures)

    def _of_table(self, path: str, rows: pa.RecordBatch, places: Places, failures: Failures) -> Iterator[Fit]:
        by_layout = [(int(str(layout)), of) for layout, of in by_value(rows["layout"], places)]
        deletes = flags(rows["is_delete"])
        # A delete makes no table and no column: it may have no more than the key.
        writes = [layout for layout, of in by_layout if not deletes[of].all()]
        for layout in writes or (None,):
            shape = self.shape(path, layout)
        if shape is None:
            return
        is_there, fits = before(rows, shape.marks), list[Fit]()
        for layout, of in by_layout:
            for is_delete, some in by_value(rows["is_delete"], of[~is_there[of]]):
                fits.append(self._fit(shape, rows, some, layout, bool(is_delete), failures))
        if len(fits) == 1:
            yield fits[0]
        elif fits:  # rows of several layouts go back into the records' order
            order = np.concatenate([one.places for one in fits])
            table = pa.Table.from_batches([one.rows for one in fits]).take(np.argsort(order)).combine_chunks()
            yield from (Fit(shape, np.sort(order), one) for one in table.to_batches())

    def _fit(
        self, shape: TableShape, rows: pa.RecordBatch, places: Places, layout: int, is_delete: bool, failures: Failures
    ) -> Fit:
        """Bring these rows to the table's columns; of a delete only the key counts."""
        values, count = taken(rows[f"value_{layout}"], places), len(places)
        wanted = [one for one in shape.columns if not is_delete or one.name in shape.ids]
        arrays, bad = dict[str, pa.Array](), np.zeros(count, bool)
        for column, fitted in fit_fields(values, self.layouts[layout], wanted):
            arrays[column.name] = fitted.values
            text = f"The column {column.name} of {shape.path} is of type {column.type}, which does not hold its value"
            failures |= dict.fromkeys(places[fitted.bad & ~bad].tolist(), text)
            bad |= fitted.bad
            if column.name in shape.ids or not column.nullable:
                missing = flags(fitted.values.is_null()) & ~bad
                text = f"The column {column.name} of {shape.path} may not be null"
                failures |= dict.fromkeys(places[missing].tolist(), text)
                bad |= missing
        arrays[IS_DELETE] = pa.array(np.full(count, is_delete))
        made = [arrays.get(one.name, pa.nulls(count, one.type)) for one in shape.held]
        batch = pa.RecordBatch.from_arrays(made, schema=shape.held)
        return Fit(shape, places[~bad], batch.filter(pa.array(~bad)) if bad.any() else batch)
