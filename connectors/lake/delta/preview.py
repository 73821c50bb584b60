"""The changes that a sink would make to its tables, for a preview, which changes none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.connectors.lake.delta.fits import RowFits
from headrace.connectors.lake.delta.rows import errors
from headrace.connectors.lake.delta.settings import DeltaOptions
from headrace.connectors.lake.delta.shapes import IS_DELETE, TableShape
from headrace.connectors.lake.delta.tables import Tables
from headrace.plugins.errors import RecordFailure, RecordsFailed
from headrace.plugins.extensions import Effect
from headrace.plugins.schema import Schema


@dataclass
class TablePreview:
    """The preview of one task."""

    options: DeltaOptions
    layouts: Sequence[Schema]
    tables: Tables
    _made: list[Effect] = field(default_factory=list)
    """New tables and columns that are not told yet."""

    def effects(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield new tables and columns, each before its first row, and the rows.

        Errors: RecordsFailed, last, for rows that cannot be written; RetriableError, LakeError.
        """
        failures, first = list[RecordFailure](), 0
        for batch in batches:
            bad, told = errors(batch), set[int]()
            for shape, places, rows in RowFits(self.options, self.layouts, self._shape).of(batch, bad):
                made, self._made = self._made, []
                yield from made
                for place, row in zip(places.tolist(), rows.to_pylist(), strict=True):
                    told.add(place)
                    yield self._effect(shape, row, first + place)
            for place in sorted({*range(len(batch))} - told - bad.keys()):
                yield Effect("none", self.options.path, {"why": "a null value changes no table"}, first + place)
            failures += [RecordFailure(first + row, why) for row, why in sorted(bad.items())]
            first += len(batch)
        if failures:
            raise RecordsFailed(f"{len(failures)} records failed, the first: {failures[0].message}", failures)

    def _effect(self, shape: TableShape, row: dict[str, object], place: int) -> Effect:
        is_delete = row.pop(IS_DELETE, None)
        if is_delete:
            return Effect("delete", shape.path, {name: row[name] for name in shape.ids}, place)
        return Effect("append" if is_delete is None else "upsert", shape.path, row, place)

    def _shape(self, path: str, layout: int | None) -> TableShape | None:
        if layout is None:
            return self.tables.there(path, ())
        known = self.tables.shapes.get(path)
        if known is not None and layout in known.layouts:
            return known
        there, columns = self.tables.planned(path, self.layouts[layout], None if known is None else known.columns)
        shown = [f"{one.name}: {one.type}" for one in columns if there is None or one.name not in there.names]
        if there is None:
            self._made.append(Effect("create", path, {"columns": shown}))
        elif columns != there:
            self._made.append(Effect("alter", path, {"columns": shown}))
        layouts = frozenset({layout}) if known is None else known.layouts | {layout}
        self.tables.shapes[path] = TableShape(path, columns, self.options.ids, layouts=layouts)
        return self.tables.shapes[path]
