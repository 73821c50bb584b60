"""Keeps a source's records as they were before a transform or a converter failed, for their dead letters.

A dead letter has topic, timestamp and headers from the source, and its key and value as JSON with their schemas (the
JsonConverter's envelope), or as plain JSON if the envelope cannot show them; a value that the source has read as JSON
is that JSON. A record that Kafka refused (too large) comes without key and value: the dead letter topic would refuse
them, too. The headers `__connect.errors.source.partition` and `.source.offset` tell where it was read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.plugins.contracts import Converter
from headrace.plugins.offsets import SourcePartition
from headrace.plugins.records import AS_READ, Records
from headrace.plugins.schema import Schema
from headrace.worker.deadletters.failed_records import DATA_EXCEPTION, FAILED
from headrace.worker.deadletters.reporting import Reporter

BEFORE: Final = "_before"
"""Column: the record as it was before transforms; null for a good row."""
_KEPT: Final = "_before_"
_PLAIN: Final = ("topic", "timestamp", "headers")
_PRODUCE: Final = {
    "stage": "KAFKA_PRODUCE",
    "class": "org.apache.kafka.connect.runtime.WorkerSourceTask",
    "exception": "org.apache.kafka.common.errors.RecordTooLargeException",
}


@dataclass(frozen=True)
class KeptRecords:
    """Keeps records as a source gave them, in case they fail in a transform or a converter."""

    envelope: Converter
    """Shows a value with its schema."""
    keys: tuple[Schema | None, ...] = ()
    values: tuple[Schema | None, ...] = ()

    def keep(self, records: Records) -> tuple[KeptRecords, Records]:
        """Add to each record a copy of itself."""
        kept = KeptRecords(self.envelope, records.keys, records.values)
        names = [*_PLAIN, *(name for side, schemas in kept._sides for name in _columns(side, schemas))]
        if AS_READ in records.frame.columns:
            names.append(AS_READ)
        kept_frame = records.frame.withColumns({_KEPT + name: F.col(name) for name in names})
        return kept, unkept(records.with_frame(kept_frame))

    def show(self, encoded: DataFrame) -> DataFrame:
        """Replace the copies by the column `_before`."""
        parts = [F.col(_KEPT + name).alias(name) for name in _PLAIN]
        parts += [self._shown(side, schemas, encoded.columns).alias(side) for side, schemas in self._sides]
        rest = [F.col(f"`{name}`") for name in encoded.columns if not name.startswith(_KEPT)]
        return encoded.select(*rest, F.when(F.col("error").isNotNull(), F.struct(*parts)).alias(BEFORE))

    @property
    def _sides(self) -> list[tuple[str, tuple[Schema | None, ...]]]:
        return [("key", self.keys), ("value", self.values)]

    def _shown(self, side: str, schemas: Sequence[Schema | None], columns: Sequence[str]) -> Column:
        shown = shown_side(self.envelope, side, schemas, _KEPT)
        if side == "value" and _KEPT + AS_READ in columns:
            shown = F.coalesce(F.col(_KEPT + AS_READ).cast("binary"), shown)
        return shown


def shown_side(envelope: Converter, side: str, schemas: Sequence[Schema | None], prefix: str = "") -> Column:
    """Each record's key or value as JSON with its schema, or as plain JSON if the envelope cannot show it.

    `prefix`: of the columns of the records' frame.
    """
    shown = F.lit(None).cast("binary")
    for number, schema in enumerate(schemas):
        value = F.col(f"{prefix}{side}_{number}")
        plain = F.to_json(F.struct(value.alias(side))).cast("binary")
        text = F.coalesce(envelope.encode(value, schema).value, plain)
        shown = F.when(F.col(f"{prefix}{side}_schema") == number, text).otherwise(shown)
    return shown


def unkept(records: Records) -> Records:
    """Drop the column that only dead letters show."""
    return records.with_frame(records.frame.drop(AS_READ))


def report_rows(
    reporter: Reporter, partitions: Sequence[SourcePartition], rows: pa.RecordBatch, refusal: str | None
) -> None:
    """Report rows of `KafkaWriter` that are bad, or, with `refusal`, that Kafka refused. Errors: as `Reporter`."""
    names = [*_PLAIN, "error", "source_offset", "split"]
    made = []
    for row in rows.select([name for name in (*names, BEFORE) if name in rows.schema.names]).to_pylist():
        before = row.get(BEFORE) or {}
        error = (
            {**_PRODUCE, "message": refusal} if refusal is not None else {"exception": DATA_EXCEPTION, **row["error"]}
        )
        made.append(
            {
                **{name: before.get(name, row[name]) for name in _PLAIN},
                "key": before.get("key"),
                "value": before.get("value"),
                **error,
                "source_partition": _text(partitions[row["split"]]),
                "source_offset": _text(row["source_offset"]),
            }
        )
    reporter(pa.RecordBatch.from_pylist(made, schema=FAILED))


def _columns(side: str, schemas: Sequence[Schema | None]) -> list[str]:
    return [f"{side}_schema", *(f"{side}_{number}" for number in range(len(schemas)))]


def _text(offset: Mapping[str, Any] | None) -> str:
    """Format as JSON, without members hidden from operators."""
    shown = {name: value for name, value in (offset or {}).items() if not name.startswith("_")}
    return json.dumps(shown, default=str, ensure_ascii=False)
