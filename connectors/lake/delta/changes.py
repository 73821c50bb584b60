"""The rows of a commit that upserts: the last one of each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.delta.shapes import TableShape

_ROW: Final = "row"


def last_rows(rows: Sequence[pa.RecordBatch], shape: TableShape) -> pa.Table:
    """Return the last row of each key, in their order: a merge takes no two rows of one key."""
    table = pa.Table.from_batches(rows, shape.held)
    keys = [f"key{number}" for number, _ in enumerate(shape.ids)]
    found = pa.table([*(table[one] for one in shape.ids), pa.array(np.arange(len(table)))], names=[*keys, _ROW])
    last = found.group_by(keys).aggregate([(_ROW, "max")])[f"{_ROW}_max"]
    return table if len(last) == len(table) else table.take(np.sort(last.to_numpy()))
