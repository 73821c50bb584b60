"""Apache's HoistField: wraps the whole in the one field of a struct or object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.plugins.interop.java.json_members import object_of
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.struct_fields import fails, struct_of


class HoistField(KeyOrValue):
    """Makes a struct with one field or an object with one member, also of a tombstone."""

    settings: ClassVar[Settings] = Settings(
        Setting("field", Type.STRING, REQUIRED, None, Importance.MEDIUM, "The name of the one field.")
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._field: str = self.settings.parse(config)["field"]

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return a struct whose field keeps the schema."""
        if not self._field:
            return fails(F.lit("fieldName cannot be null."))
        field = Field(self._field, schema)
        refused = f'Invalid value: null used for required field: "{self._field}", schema type: {schema.type.name}'
        message = None if schema.optional else F.when(value.isNull(), F.lit(refused))
        return Became(struct_of([(field, value)]), Schema(SchemaType.STRUCT, fields=(field,)), message)

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return an object with the value, or null."""
        return Became(object_of([(self._field, value)]), None)

    def nothing(self, records: Records) -> Became | None:
        """Return an object with null."""
        return Became(object_of([(self._field, F.lit("null"))]), None)


class HoistFieldKey(HoistField):
    """HoistField of keys."""

    is_key = True


class HoistFieldValue(HoistField):
    """HoistField of values."""

    is_key = False
