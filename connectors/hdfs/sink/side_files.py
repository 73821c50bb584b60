"""Files beside a file of values: keys and headers of the same records, row by row (Confluent's `store.kafka.keys`).

`orders+0+0000000007.avro` has `orders+0+0000000007.keys.avro` and `orders+0+0000000007.headers.avro` beside it.

Decided: a record without headers has an empty list in the file, where Confluent's connector fails, because rows then
stay beside each other and nothing is lost; loses: nothing. A header's value is its text, as in Confluent's files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.hdfs import beside
from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema

_NO_KEY: Final = (
    "The record has no key, but store.kafka.keys=true writes one beside each value: give records keys (ValueToKey), or "
    "leave keys out (store.kafka.keys=false)"
)
_BAD_KEY: Final = "The key cannot be written (keys.format.class): "
_NO_TEXT: Final = (
    "The value of a header is not UTF-8 text, and store.kafka.headers=true writes texts: drop it (DropHeaders), or "
    "leave headers out (store.kafka.headers=false)"
)


class SideFormat(NamedTuple):
    """The format of files of keys or headers."""

    kind: FileFormat
    form: Format

    @classmethod
    def of(cls, settings: FormatSettings | None) -> SideFormat | None:
        """The format of these settings."""
        return None if settings is None else cls(settings.format, format_of(settings))


@dataclass(frozen=True)
class SideFiles:
    """The files that stand beside those of values; none by default."""

    keys: SideFormat | None = None
    headers: SideFormat | None = None
    schemas: list[Schema | None] = field(default_factory=list)
    """The key schemas by number, as in the column `key_layout`; grows as schemas are met."""

    def formats(self, key: int) -> Iterator[tuple[str, str, Format, Schema | None]]:
        """Yield each file's kind, its column for keys of this layout, its format and its schema."""
        if self.keys is not None:
            schema = beside.key_schema(self.keys.kind, self.schemas[key])
            yield beside.KEYS, f"key_{key}", self.keys.form, schema
        if self.headers is not None:
            yield beside.HEADERS, "headers", self.headers.form, beside.headers_schema(self.headers.kind)

    def columns(self, records: Records) -> list[Column]:
        """Return `key_layout` and `key_<layout>`, and `headers`, of rows without one of `errors`."""
        made: list[Column] = []
        if self.keys is not None:
            kind, form = self.keys
            layout = F.lit(None).cast("int")
            for index, schema in enumerate(records.keys):
                number, is_mine = self._number(schema), _is_mine(records, index)
                layout = F.when(is_mine, F.lit(number)).otherwise(layout)
                key, stored = beside.stored_key(kind, records.key(index), schema)
                if form.refusal(stored) is None:
                    made.append(F.when(is_mine, form.payload(key, stored)).alias(f"key_{number}"))
            made.append(layout.alias("key_layout"))
        if self.headers is not None:
            kind, form = self.headers
            made.append(form.payload(beside.stored_headers(kind, F.col("headers")), beside.headers_schema(kind)))
            made[-1] = made[-1].alias("headers")
        return made

    def errors(self, records: Records) -> Iterator[Column]:
        """Yield the reasons why a key or a header cannot be written; each is null if it can."""
        if self.keys is not None:
            kind, form = self.keys
            has_key = F.lit(False)
            for index, schema in enumerate(records.keys):
                is_mine = _is_mine(records, index)
                has_key = has_key | F.coalesce(is_mine, F.lit(False))
                key, stored = beside.stored_key(kind, records.key(index), schema)
                if (refusal := form.refusal(stored)) is not None:
                    yield F.when(is_mine, F.lit(f"{_BAD_KEY}{refusal}"))
                elif (error := form.error(key, stored)) is not None:
                    yield F.when(is_mine, F.concat(F.lit(_BAD_KEY), error))
            yield F.when(~has_key, F.lit(_NO_KEY))
        if self.headers is not None:
            broken = F.exists("headers", lambda one: ~F.is_valid_utf8(one["value"].cast("string")))
            yield F.when(broken, F.lit(_NO_TEXT))

    def _number(self, schema: Schema | None) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        return self.schemas.index(schema)


def _is_mine(records: Records, index: int) -> Column:
    return (F.col("key_schema") == index) & records.key(index).isNotNull()
