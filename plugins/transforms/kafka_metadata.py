"""KafkaMetadataTransform of Iceberg's sink: inserts topic, partition, offset and timestamp of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import Check
from headrace.config.values import invalid
from headrace.plugins.interop.java.jackson import json_string
from headrace.plugins.interop.java.json_members import object_text
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.records import Records
from headrace.plugins.schema import STRING, Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.row_changes import ICEBERG_VERSION
from headrace.plugins.transforms.struct_fields import (
    fails,
    field_value,
    json_members,
    no_object,
    present,
    refused,
    set_members,
    struct_of,
    struct_schema,
    twice,
)

_PURPOSE: Final = "KafkaMetadataTransform"
_SCHEMALESS_PURPOSE: Final = "KafkaMetadata transform"
_OF_SINKS: Final = "Only a sink's records have an offset: use InsertField in a source."
_PARTS: Final = {
    "topic": STRING,
    "partition": Schema(SchemaType.INT32),
    "offset": Schema(SchemaType.INT64),
    "timestamp": Schema(SchemaType.INT64, optional=True),
}


def _no_pair(name: str, value: Any) -> str | None:
    if value is None or value.count(",") == 1:
        return None
    return invalid(name, value, "It is a name and a text with one comma between them, as in cluster,eu-1")


class KafkaMetadataTransform(KeyOrValue):
    """Appends the record's place in Kafka to a struct, or sets members of the schemaless object; for sinks."""

    is_key = False
    settings: ClassVar[Settings] = Settings(
        Setting(
            "field_name",
            Type.STRING,
            "_kafka_metadata",
            None,
            Importance.LOW,
            "The field to insert, or what the names of the fields begin with.",
        ),
        Setting(
            "nested",
            Type.BOOLEAN,
            False,
            None,
            Importance.LOW,
            "If true, one struct is inserted; else fields such as _kafka_metadata_topic.",
        ),
        Setting(
            "external_field",
            Type.STRING,
            None,
            Check(_no_pair, "name,text"),
            Importance.LOW,
            "A further field with a fixed text: its name and the text, with a comma between them.",
        ),
    )
    version: ClassVar[str] = ICEBERG_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._name: str = parsed["field_name"]
        self._nested: bool = parsed["nested"]
        self._external: list[str] = (parsed["external_field"] or "").split(",")

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return a struct with the fields added."""
        if schema.type is not SchemaType.STRUCT:
            return refused(_PURPOSE, value, schema)
        parts, values = self._parts()
        new, made = self._fields(parts, values)
        fields = [*schema.fields, *new]
        if (message := _impossible(records) or twice(parts) or twice(fields)) is not None:
            return fails(F.when(value.isNotNull(), F.lit(message)))
        all_values = [*(field_value(value, one, True) for one in schema.fields), *made]
        whole = struct_of(zip(fields, all_values, strict=True))
        return Became(whole, struct_schema(schema, fields), holds=present(value, schema))

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return an object with the members set; a record without a timestamp gets no member for it."""
        if (message := _impossible(records)) is not None:
            return fails(F.when(value.isNotNull(), F.coalesce(no_object(_SCHEMALESS_PURPOSE, value), F.lit(message))))
        new = {"topic": quoted(F.col("topic"))} | {
            part: F.col(part).cast("string") for part in ("partition", "offset", "timestamp")
        }
        if len(self._external) == 2:
            new[self._external[0]] = F.lit(json_string(self._external[1]))
        new = (
            {self._name: object_text(json_members(new))}
            if self._nested
            else {f"{self._name}_{part}": one for part, one in new.items()}
        )
        return Became(set_members(value, new), None, no_object(_SCHEMALESS_PURPOSE, value))

    def _parts(self) -> tuple[list[Field], list[Column]]:
        parts = [Field(part, schema) for part, schema in _PARTS.items()]
        values = [F.col(part) for part in _PARTS]
        if len(self._external) == 2:
            parts.append(Field(self._external[0], STRING))
            # A constant can never be null, which makes another struct type: Spark would copy each struct.
            values.append(F.when(F.col("topic").isNotNull(), F.lit(self._external[1])))
        return parts, values

    def _fields(self, parts: list[Field], values: list[Column]) -> tuple[list[Field], list[Column]]:
        if not self._nested:
            return [Field(f"{self._name}_{one.name}", one.schema) for one in parts], values
        schema = Schema(SchemaType.STRUCT, fields=tuple(parts))
        return [Field(self._name, schema)], [struct_of(zip(parts, values, strict=True))]


def _impossible(records: Records) -> str | None:
    return None if "offset" in records.frame.columns else _OF_SINKS
