"""Deletes that come before their table is made: a compacted topic may begin with tombstones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.iceberg.sink.columns import Op
from headrace.plugins.contracts import ArrowWriter


@dataclass
class WithoutEarlyDeletes:
    """Passes over the deletes that come before the first row, which makes the table."""

    writer: ArrowWriter
    is_made: bool = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows. Errors: those of the writer."""
        if not self.is_made:
            rows = self._passed_over(rows)
        self.writer.write(rows)

    def finish(self) -> bytes:
        """As the writer."""
        return self.writer.finish()

    def abort(self) -> None:
        """As the writer."""
        self.writer.abort()

    def _passed_over(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        is_row = pc.and_(pc.equal(rows["op"], Op.UPSERT.value), pc.is_null(rows["error"]))
        first = pc.index(is_row, True).as_py()
        self.is_made = first >= 0
        kept = pa.array(np.arange(len(rows)) >= (first if self.is_made else len(rows)))
        for name in ("op", "layout"):
            column = pc.if_else(kept, rows[name], pa.scalar(None, rows[name].type))
            rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
        return rows
