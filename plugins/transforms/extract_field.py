"""Apache's ExtractField: replaces the whole by one field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.interop.java.json_members import is_object
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema, SchemaType
from headrace.plugins.transforms.field_paths import FIELD_SYNTAX, in_object, in_struct, steps_of
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue, only_map, only_struct
from headrace.plugins.transforms.struct_fields import REPLACE_NULLS, fails

_PURPOSE: Final = "field extraction"


class ExtractField(KeyOrValue):
    """Replaces the key or value by the field's value; a null stays null.

    Decided: an empty path is refused, because Apache fails every record for it; loses: nothing.
    """

    settings: ClassVar[Settings] = Settings(
        Setting("field", Type.STRING, REQUIRED, None, Importance.MEDIUM, "The field to extract."),
        REPLACE_NULLS,
        FIELD_SYNTAX,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._path: str = parsed["field"]
        self._replace_nulls: bool = parsed["replace.null.with.default"]
        self._steps = steps_of("field", self._path, parsed)
        if not self._steps:
            raise ConfigError(Problem("field", self._path, "An empty path leads to no field.", "Name a field."))

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return the field's value and schema."""
        if schema.type is not SchemaType.STRUCT:
            wrong = F.when(value.isNotNull(), only_struct(_PURPOSE, F.lit(class_of(schema))))
            return fails(F.coalesce(wrong, F.lit("Cannot look up fields on non-struct type")))
        found = in_struct(value, schema, self._steps, self._replace_nulls)
        return fails(F.lit(self._lost(found))) if isinstance(found, Schema) else Became(found[1], found[0].schema)

    def _lost(self, schema: Schema) -> str:
        if schema.type is SchemaType.STRUCT:
            return f"Unknown field: {self._path}"
        return "Cannot look up fields on non-struct type"

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return the member's JSON, null if there is none."""
        message = F.when(~is_object(value), only_map(_PURPOSE, class_of_json(value)))
        found, inside = in_object(value, self._steps)
        return Became(found, None, F.coalesce(message, *inside))


class ExtractFieldKey(ExtractField):
    """ExtractField of keys."""

    is_key = True


class ExtractFieldValue(ExtractField):
    """ExtractField of values."""

    is_key = False
