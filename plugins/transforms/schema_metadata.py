"""Apache's SetSchemaMetadata: changes the name or version of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Setting, Settings, Type
from headrace.plugins.records import Records
from headrace.plugins.schema import DECIMAL, Schema, SchemaType, logical
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.logical_values import encoded, logically
from headrace.plugins.transforms.struct_fields import REPLACE_NULLS, fails, field_value, struct_of

_PURPOSE: Final = "updating schema metadata"
_NO_FIELDS: Final = "Cannot list fields on non-struct type"


class SetSchemaMetadata(KeyOrValue):
    """Sets `schema.name` and `schema.version` on the schemas, also of null values; values stay the same.

    Decided: any schema can be renamed, because Connect fails for all but structs without need; loses: nothing. If the
    new name makes or ends a logical type, the value is read as that type or written as its underlying one. Only Decimal
    can neither be made nor ended, which fails with Connect's message.
    """

    settings: ClassVar[Settings] = Settings(
        Setting("schema.name", Type.STRING, None, None, Importance.HIGH, "The new name; unset: the old one stays."),
        Setting("schema.version", Type.INT, None, None, Importance.HIGH, "The new version; unset: the old one stays."),
        REPLACE_NULLS,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._name: str | None = parsed["schema.name"]
        self._version: int | None = parsed["schema.version"]
        self._replace_nulls: bool = parsed["replace.null.with.default"]
        if self._name is None and self._version is None:
            message = "Neither schema name nor version configured"
            raise ConfigError(Problem("schema.name", None, message, "Set schema.name, schema.version or both."))

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return the values with the renamed schema."""
        name = schema.name if self._name is None else self._name
        new = replace(schema, name=name, version=schema.version if self._version is None else self._version)
        if schema.type is SchemaType.STRUCT:
            return Became(self._with_defaults(value, schema), new)
        before, after = logical(schema), logical(new)
        if before == after:
            return Became(value, new)
        if DECIMAL in (before, after):
            return fails(F.when(value.isNotNull(), F.lit(_NO_FIELDS)))
        carried = logically(encoded(value, schema), new)
        text = F.concat(encoded(value, schema).cast("string"), F.lit(f" is no {name} that Spark can hold"))
        return Became(carried, new, F.when(value.isNotNull() & carried.isNull(), text))

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Fail every value that is not null, as Connect does."""
        return fails(F.when(value.isNotNull(), F.lit(f"Schema required for [{_PURPOSE}]")))

    def _with_defaults(self, value: Column, schema: Schema) -> Column:
        if not self._replace_nulls or all(field.schema.default is None for field in schema.fields):
            return value
        made = struct_of((field, field_value(value, field, True)) for field in schema.fields)
        return F.when(value.isNotNull(), made)


class SetSchemaMetadataKey(SetSchemaMetadata):
    """SetSchemaMetadata of keys."""

    is_key = True


class SetSchemaMetadataValue(SetSchemaMetadata):
    """SetSchemaMetadata of values."""

    is_key = False
