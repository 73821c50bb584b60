"""CopyValue of Iceberg's sink: copies a field of the value to another name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.plugins.interop.java.json_members import member
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.row_changes import ICEBERG_VERSION
from headrace.plugins.transforms.struct_fields import (
    fails,
    field_value,
    no_object,
    present,
    refused,
    set_members,
    struct_of,
    struct_schema,
    twice,
)

_PURPOSE: Final = "copy value"


class CopyValue(KeyOrValue):
    """Appends a copy of a field to the struct, or sets a member of the schemaless object.

    Names are whole names of the outermost fields: a dot has no meaning. A struct without the field is an error of its
    record, for which Iceberg crashes; an object without the member gets a null.
    """

    is_key = False
    settings: ClassVar[Settings] = Settings(
        Setting("source.field", Type.STRING, REQUIRED, None, Importance.HIGH, "The field to copy."),
        Setting("target.field", Type.STRING, REQUIRED, None, Importance.HIGH, "The name of the copy."),
    )
    version: ClassVar[str] = ICEBERG_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._source: str = parsed["source.field"]
        self._target: str = parsed["target.field"]

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return a struct with the copy as its last field."""
        if schema.type is not SchemaType.STRUCT:
            return refused(_PURPOSE, value, schema)
        if (source := schema.field(self._source)) is None:
            return fails(F.when(value.isNotNull(), F.lit(f"Field does not exist: {self._source}")))
        fields = [*schema.fields, Field(self._target, source.schema)]
        if (message := twice(fields)) is not None:
            return fails(F.when(value.isNotNull(), F.lit(message)))
        values = [field_value(value, one, True) for one in (*schema.fields, source)]
        made = struct_of(zip(fields, values, strict=True))
        return Became(made, struct_schema(schema, fields), holds=present(value, schema))

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return an object with the copy in place of a member of its name."""
        copy = F.coalesce(member(value, self._source), F.lit("null"))
        return Became(set_members(value, {self._target: copy}), None, no_object(_PURPOSE, value))
