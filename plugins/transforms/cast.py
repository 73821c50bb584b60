"""Apache's Cast: converts fields, or the whole key or value, to another primitive type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, cast

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import Check
from headrace.config.values import invalid, trimmed
from headrace.plugins.errors import DataError
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType, literal
from headrace.plugins.transforms.cast_values import TARGETS, cast_json, cast_value, not_castable
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.logical_values import logically
from headrace.plugins.transforms.replace_field import split_pair
from headrace.plugins.transforms.struct_fields import (
    REPLACE_NULLS,
    fails,
    field_value,
    first_text,
    no_object,
    present,
    struct_of,
    struct_schema,
    with_members,
)

_PURPOSE: Final = "cast types"
_TYPE_CLASS: Final = "org.apache.kafka.connect.data.Schema.Type"
_NO_FIELDS: Final = "Cannot list fields on non-struct type"
_TOO_MANY: Final = (
    "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their spec"
)


class Cast(KeyOrValue):
    """Casts values as `headrace.plugins.transforms.cast_values` defines; a field's schema becomes the plain type.

    Decided: the default of a struct schema is cast with its fields, because Connect fails for every record if there is
    one; loses: nothing. A whole Timestamp or Date stays logical if cast to its own underlying type, and is written as
    the other type if cast to another, because Connect's schema keeps the name, and its converters then refuse the
    number; loses: nothing.
    """

    settings: ClassVar[Settings] = Settings(
        Setting(
            "spec",
            Type.LIST,
            validator=Check(lambda _, value: _objection(value), "a list of pairs field:type, or one type"),
            importance=Importance.HIGH,
            documentation="Fields and their new types, or one type for the whole value: int8, int16, int32, int64, "
            "float32, float64, boolean or string.",
        ),
        REPLACE_NULLS,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        pairs = [_split(one) for one in parsed["spec"]]
        self._whole = next((SchemaType[kind] for field, kind in pairs if field is None), None)
        self._casts = {field: SchemaType[kind] for field, kind in pairs if field is not None}
        self._replace_nulls: bool = parsed["replace.null.with.default"]
        self._constants: dict[tuple[str, Schema, SchemaType], object] = {}

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Cast the value, or the fields of a struct; nulls keep their schema."""
        if self._whole is None and schema.type is not SchemaType.STRUCT:
            return fails(F.when(value.isNotNull(), F.lit(_NO_FIELDS)))
        try:
            became = self._of_whole(value, schema, records) if self._whole else self._of_fields(value, schema, records)
        except DataError as error:  # a default that cannot be cast
            return fails(F.when(value.isNotNull(), F.lit(str(error))))
        return became._replace(holds=present(value, schema))

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Cast the value, or the members of an object; missing members are added as null."""
        if self._whole is not None:
            made = cast_json(value, self._whole)
            return Became(made.getField("json"), None, made.getField("message"))
        made = with_members(value, self._json, dict.fromkeys(self._casts, F.lit("null")))
        return Became(made, None, F.coalesce(no_object(_PURPOSE, value), first_text(value, self._message)))

    def _json(self, name: Column, json: Column) -> Column:
        return self._by_target(name, json, "json").otherwise(json)

    def _message(self, name: Column, json: Column) -> Column:
        return self._by_target(name, json, "message")

    def _by_target(self, name: Column, json: Column, part: str) -> Column:
        cases: Any = F
        for target in dict.fromkeys(self._casts.values()):
            fields = [field for field, kind in self._casts.items() if kind is target]
            cases = cases.when(name.isin(*fields), cast_json(json, target).getField(part))
        return cast("Column", cases)

    def _of_whole(self, value: Column, schema: Schema, records: Records) -> Became:
        assert self._whole is not None
        default = self._constant(schema.default, schema, self._whole, records)
        new = replace(struct_schema(schema, ()), type=self._whole, optional=schema.optional, default=default)
        made, message = cast_value(value, schema, self._whole)
        return Became(logically(made, new), new, message)

    def _of_fields(self, value: Column, schema: Schema, records: Records) -> Became:
        default: Any = None if schema.default is None else dict(cast("Mapping[str, Any]", schema.default))
        made, messages = [], []
        for field in schema.fields:
            old, target = field_value(value, field, self._replace_nulls), self._casts.get(field.name)
            if target is None:
                made.append((field, old))
                continue
            constant = self._constant(field.schema.default, field.schema, target, records)
            plain = Schema(target, field.schema.optional, constant)
            new, message = cast_value(old, field.schema, target)
            made.append((Field(field.name, plain), new))
            messages += [] if message is None else [message]
            if default is not None:
                default[field.name] = self._constant(default.get(field.name), field.schema, target, records)
        after = struct_schema(schema, [field for field, _ in made])
        after = replace(after, optional=schema.optional, default=default)
        return Became(struct_of(made), after, F.coalesce(*messages) if messages else None)

    def _constant(self, value: object, schema: Schema, target: SchemaType, records: Records) -> object:
        """Cast a default with the expressions for values; starts no job. Errors: DataError."""
        if value is None:
            return None
        asked = (repr(value), schema, target)
        if asked not in self._constants:
            made, message = cast_value(literal(value, schema), schema, target)
            one = records.frame.sparkSession.sql("SELECT * FROM VALUES (0)")
            told = (F.lit(None) if message is None else message).alias("message")
            row = one.select(made.alias("made"), told).collect()[0]
            if row.message:
                raise DataError(row.message)
            self._constants[asked] = row.made
        return self._constants[asked]


def _split(text: str) -> tuple[str | None, str]:
    """Split a spec into field (None for the whole value) and type name."""
    parts = split_pair(text) or [""]
    return (None, trimmed(parts[0]).upper()) if len(parts) == 1 else (trimmed(parts[0]), trimmed(parts[1]).upper())


def _objection(value: Any) -> str | None:
    """Return the fault of a spec in Connect's words, which name the key `renames`; None if there is none."""
    if not value:
        return "Must specify at least one field to cast."
    for one in value:
        if len(split_pair(one)) > 2:
            return invalid("renames", value, f"Invalid rename mapping: {one}")
        _, kind = _split(one)
        if kind not in SchemaType.__members__:
            given = trimmed((split_pair(one) or [""])[-1])
            java = f"java.lang.IllegalArgumentException: No enum constant {_TYPE_CLASS}.{kind}"
            return invalid(f"Invalid type found in casting spec: {given}", java)
        if SchemaType[kind] not in TARGETS:
            return not_castable(SchemaType[kind], to=True)
    whole = [one for one in value if _split(one)[0] is None]
    return _TOO_MANY if whole and len(value) > 1 else None


class CastKey(Cast):
    """Cast of keys."""

    is_key = True


class CastValue(Cast):
    """Cast of values."""

    is_key = False
