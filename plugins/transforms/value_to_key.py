"""Apache's ValueToKey: makes a new key of fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import ListOf
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.java.class_names import class_of
from headrace.plugins.interop.java.json_members import member, object_of
from headrace.plugins.records import Case, Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, only_map, only_struct
from headrace.plugins.transforms.struct_fields import REPLACE_NULLS, fails, field_value, no_object, struct_of

_PURPOSE: Final = "copying fields from value to key"


class ValueToKey(Transform):
    """Makes the key a struct, or an object, of the listed fields in order; a record without value fails."""

    settings: ClassVar[Settings] = Settings(
        Setting("fields", Type.LIST, REQUIRED, ListOf(empty=False), Importance.HIGH, "The fields of the new key."),
        REPLACE_NULLS,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._fields: list[str] = parsed["fields"]
        self._replace_nulls: bool = parsed["replace.null.with.default"]

    def apply(self, records: Records) -> Records:
        """Return the records with new keys."""
        index = F.col("value_schema")
        cases, messages = [], [F.when(index.isNull(), only_map(_PURPOSE, F.lit("null")))]
        for number, schema in enumerate(records.values):
            value, rows = records.value(number), index == number
            key = self._schemaless(value) if schema is None else self._struct(value, schema)
            if key.value is not None:
                cases.append(Case(key.value, key.schema, holds=rows))
            if key.message is not None:
                messages.append(F.when(rows, key.message))
        return records.changed(keys=cases, message=F.coalesce(*messages))

    def _schemaless(self, value: Column) -> Became:
        message = F.coalesce(no_object(_PURPOSE, value), F.when(value.isNull(), only_map(_PURPOSE, F.lit("null"))))
        return Became(object_of([(name, member(value, name)) for name in self._fields]), None, message)

    def _struct(self, value: Column, schema: Schema) -> Became:
        nothing = F.when(value.isNull(), only_struct(_PURPOSE, F.lit("null")))
        if schema.type is not SchemaType.STRUCT:
            return fails(F.coalesce(nothing, only_struct(_PURPOSE, F.lit(class_of(schema)))))
        fields = []
        for name in self._fields:
            if (field := schema.field(name)) is None:
                return fails(F.coalesce(nothing, F.lit(f"Field does not exist: {name}")))
            fields.append(field)
        values = [field_value(value, field, self._replace_nulls) for field in fields]
        pairs = list(zip(fields, values, strict=True))
        refused = [F.when(one.isNull(), _null_refused(field)) for field, one in pairs if self._may_lack(field.schema)]
        made = struct_of(pairs)
        return Became(made, Schema(SchemaType.STRUCT, fields=tuple(fields)), F.coalesce(nothing, *refused))

    def _may_lack(self, schema: Schema) -> bool:
        """True if a required field can be null, because its default is not used."""
        return not self._replace_nulls and schema.default is not None and not schema.optional


def _null_refused(field: Field) -> Column:
    kind = field.schema.type.name
    return F.lit(f'Invalid value: null used for required field: "{field.name}", schema type: {kind}')
