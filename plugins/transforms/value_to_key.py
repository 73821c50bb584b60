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
from headrace.plugins.interop.java.json_members import object_of
from headrace.plugins.records import Case, Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.field_paths import FIELD_SYNTAX, in_object, in_struct, steps_of
from headrace.plugins.transforms.key_or_value import Became, only_map, only_struct
from headrace.plugins.transforms.struct_fields import REPLACE_NULLS, fails, no_object, struct_of

_PURPOSE: Final = "copying fields from value to key"


class ValueToKey(Transform):
    """Makes the key a struct, or an object, of the listed fields in order; a record without value fails.

    A field of the key is called as it is listed, even if that is a path (Kafka 4.4).
    """

    settings: ClassVar[Settings] = Settings(
        Setting("fields", Type.LIST, REQUIRED, ListOf(empty=False), Importance.HIGH, "The fields of the new key."),
        REPLACE_NULLS,
        FIELD_SYNTAX,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._fields = {path: steps_of("fields", path, parsed) for path in parsed["fields"]}
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
        found = {path: in_object(value, steps) for path, steps in self._fields.items()}
        nothing = F.when(value.isNull(), only_map(_PURPOSE, F.lit("null")))
        inside = [message for _, messages in found.values() for message in messages]
        made = object_of([(path, json) for path, (json, _) in found.items()])
        return Became(made, None, F.coalesce(no_object(_PURPOSE, value), nothing, *inside))

    def _struct(self, value: Column, schema: Schema) -> Became:
        nothing = F.when(value.isNull(), only_struct(_PURPOSE, F.lit("null")))
        if schema.type is not SchemaType.STRUCT:
            return fails(F.coalesce(nothing, only_struct(_PURPOSE, F.lit(class_of(schema)))))
        pairs, refused = [], []
        for path, steps in self._fields.items():
            found = in_struct(value, schema, steps, self._replace_nulls)
            if isinstance(found, Schema):
                return fails(F.coalesce(nothing, F.lit(_lost(path, found))))
            field, one = Field(path, found[0].schema), found[1]
            pairs.append((field, one))
            if self._may_lack(field.schema, len(steps) > 1):
                refused.append(F.when(one.isNull(), _null_refused(field)))
        made = Schema(SchemaType.STRUCT, fields=tuple(field for field, _ in pairs))
        return Became(struct_of(pairs), made, F.coalesce(nothing, *refused))

    def _may_lack(self, schema: Schema, is_inside: bool) -> bool:
        """True if a required field can be null: inside of a null, or because its default is not used."""
        return not schema.optional and (is_inside or (not self._replace_nulls and schema.default is not None))


def _lost(path: str, schema: Schema) -> str:
    is_struct = schema.type is SchemaType.STRUCT
    return f"Field does not exist: {path}" if is_struct else "Cannot look up fields on non-struct type"


def _null_refused(field: Field) -> Column:
    kind = field.schema.type.name
    return F.lit(f'Invalid value: null used for required field: "{field.name}", schema type: {kind}')
