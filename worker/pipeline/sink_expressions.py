"""The expressions for Kafka's rows on Spark in a sink: converters, transforms, the sink's projection."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.records import Records
from headrace.worker.engine.shared import shared
from headrace.worker.pipeline.expression_keys import key_of_function, key_of_side, together
from headrace.worker.pipeline.partition_gate import stop_of
from headrace.worker.pipeline.transforms import Transforms

_ORIGIN: Final = ("topic", "partition", "offset")
_RAW: Final = ("timestamp", "headers", "key", "value")
"""The columns that a dead letter has of its record."""


class Projection(Protocol):
    """Selects the columns of records: a sink's task, or a Java stage before it."""

    def columns(self, records: Records) -> Sequence[Column]:
        """The columns, as expressions over the records' frame."""


@dataclass(frozen=True)
class SinkExpressions:
    """The expressions of one sink task, up to the Java stage of its chain, if any."""

    to: Projection
    transforms: Transforms

    def expression_key(self, key: ConverterBinding, value: ConverterBinding) -> Hashable | None:
        """Return all that `decoded` depends on, except `raw`; None if that is not settled."""
        columns = key_of_function(self.to, "columns")
        return together(key_of_side(key), key_of_side(value), self.transforms.expression_key, columns)

    def decoded(self, rows: DataFrame, key: ConverterBinding, value: ConverterBinding, raw: bool = False) -> DataFrame:
        """Turn Kafka's rows into those that `PartitionGate` takes; `raw`: a bad record brings its own bytes."""
        both = None if raw else together(key_of_side(key), key_of_side(value))
        if raw:
            rows = rows.withColumns({f"_raw_{name}": F.col(name) for name in _RAW})
        decoded = self.transforms.headers_read(shared(rows, both, lambda: to_records(rows, key, value)))
        # A transform may send a record elsewhere; its offset still counts for the partition it came from.
        origin = {f"_{name}": F.col(name) for name in _ORIGIN}
        records = self.transforms.apply(decoded.with_frame(decoded.frame.withColumns(origin)))
        came = F.struct(*(F.col(f"_raw_{name}").alias(name) for name in _RAW)) if raw else None
        stop = stop_of(F.col("error"), F.col("unknown_key"), F.col("unknown_value"), came)
        control = [*map(F.col, origin), F.col("drop").alias("_drop"), stop.alias("_stop")]
        return records.frame.select(*control, *self.to.columns(records))
