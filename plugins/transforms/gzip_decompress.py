"""Confluent's GzipDecompress: replaces bytes by what gzip compressed in them."""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Settings
from headrace.plugins.interop.catalyst.java_calls import gunzipped
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema, SchemaType, logical
from headrace.plugins.transforms.condition_filter import CONFLUENT_VERSION
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.struct_fields import fails

_MOST_BYTES: Final = 8 << 20
"""The most that one record may become."""


class GzipDecompress(KeyOrValue):
    """Decompresses bytes; nulls stay null.

    Decided: what becomes more than 8 MiB fails its record, because a few bytes of gzip can be gigabytes; loses: larger
    records, which Kafka takes none of by default.
    """

    settings: ClassVar[Settings] = Settings()
    version: ClassVar[str] = CONFLUENT_VERSION

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return the decompressed bytes."""
        if schema.type is not SchemaType.BYTES or logical(schema) is not None:
            return fails(F.when(value.isNotNull(), _no_bytes(F.lit(class_of(schema)))))
        made = let(
            gunzipped(value, _MOST_BYTES + 1), lambda data: F.struct(data.alias("data"), _why(data).alias("why"))
        )
        return Became(F.when(value.isNotNull(), made.getField("data")), schema, made.getField("why"), value.isNotNull())

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Fail the record: JSON has no bytes."""
        return fails(F.when(value.isNotNull(), _no_bytes(class_of_json(value))))


def _no_bytes(found: Column) -> Column:
    return F.concat(F.lit("Only bytes can be decompressed, found: "), found)


def _why(data: Column) -> Column:
    beyond = F.octet_length(data) > _MOST_BYTES
    return F.when(data.isNull(), F.lit("The bytes are not compressed by gzip, or are damaged")).when(
        beyond, F.lit(f"The bytes would become more than {_MOST_BYTES} bytes")
    )


class GzipDecompressKey(GzipDecompress):
    """GzipDecompress of keys."""

    is_key = True


class GzipDecompressValue(GzipDecompress):
    """GzipDecompress of values."""

    is_key = False
