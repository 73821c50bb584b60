"""Positions of a source task's records in Kafka, as sent to its host, which makes Java's RecordMetadata of them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_RECEIPT: Final = np.dtype(
    [("row", "<i8"), ("offset", "<i8"), ("timestamp", "<i8"), ("topic", "<i4"), ("partition", "<i4")]
)
"""Layout that `connectors/java/host/SourceRecords.java` reads for each record."""


def receipts_of(rows: pa.RecordBatch | None, upto: int) -> tuple[list[str], bytes]:
    """Return the topics, and a receipt for each acknowledged row up to `upto`."""
    if rows is None:
        return [], b""
    rows = rows.filter(pc.less_equal(rows["source_offset"].field("row"), upto))
    topics, made = rows["topic"].dictionary_encode(), np.zeros(len(rows), _RECEIPT)
    made["row"], made["topic"] = rows["source_offset"].field("row").to_numpy(), topics.indices.to_numpy()
    for name in ("offset", "timestamp", "partition"):
        made[name] = rows[name].to_numpy()
    return topics.dictionary.to_pylist(), np.sort(made, order="row", kind="stable").tobytes()
