"""The expressions for a source's rows on Spark: records, transforms, converters."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headrace.plugins.contracts import SourceTask
from headrace.plugins.extensions import RowsOfSeveralTypes, TopicEncoding
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.interop.conversion.encode import to_bytes
from headrace.plugins.records import Records
from headrace.plugins.source_rows import DeclaredRows, numbered_type, records_of
from headrace.worker.deadletters.source_records import KeptRecords, unkept
from headrace.worker.pipeline.expression_keys import key_of_function, key_of_side, together
from headrace.worker.pipeline.java_stage import SourceStage
from headrace.worker.pipeline.transforms import Transforms


class EncodedRows(NamedTuple):
    """Rows in the form that Kafka takes, and the records they come from."""

    frame: DataFrame
    records: Records
    """The rows before encoding: converters learn of topics from the schemas of these."""


@dataclass(frozen=True)
class SourceExpressions:
    """The expressions of one source task; a shape names the type of rows (`Split.shape`)."""

    task: SourceTask
    key: ConverterBinding
    value: ConverterBinding
    transforms: Transforms
    before: KeptRecords | None = None
    """Keeps the material of dead letters; None if there are no dead letters."""
    java_stage: SourceStage | None = None
    """The Java stage, and what comes before it; shapes are then those of its rows."""

    @property
    def keep_bytes(self) -> bool:
        """True if rows of bytes reach Kafka as they are, and none is kept for dead letters."""
        converters = self.key.converter.keeps_bytes and self.value.converter.keeps_bytes
        return converters and not self.transforms.steps and self.before is None and self.java_stage is None

    @property
    def expression_key(self) -> Hashable | None:
        """Return all that `encoded` depends on, for rows that bear their topic; None if that is not settled."""
        if self.before is not None or self.java_stage is not None or isinstance(self.task, RowsOfSeveralTypes):
            return None
        if any(isinstance(side.converter, TopicEncoding) for side in (self.key, self.value)):
            return None  # it learns from the task's own records
        records = key_of_function(self.task, "records")
        return together(records, self.transforms.expression_key, key_of_side(self.key), key_of_side(self.value))

    def row_type(self, shape: str) -> StructType:
        """The type of rows of this shape, with their offset and the number of their split."""
        if self.java_stage is not None:
            return self.java_stage.row_type(shape)
        return numbered_type(self.task, shape)

    def declared(self, shape: str) -> DeclaredRows:
        """The declared shape of the rows that readers yield for splits of this shape."""
        return DeclaredRows(self.task, shape)

    def encoded(self, rows: DataFrame, shape: str) -> EncodedRows:
        """Turn rows of this shape into records, transform and encode them."""
        records, before = self._records(rows, shape)
        records = self.transforms.apply(records)
        encoded = to_bytes(records, self.key, self.value)
        return EncodedRows(encoded if before is None else before.show(encoded), records)

    def _records(self, rows: DataFrame, shape: str) -> tuple[Records, KeptRecords | None]:
        if self.java_stage is not None:
            return self.java_stage.records(rows, shape)
        records = records_of(self.task, rows, shape, self.transforms.header_bytes)
        if self.before is None:
            return unkept(records), None
        before, records = self.before.keep(records)
        return records, before
