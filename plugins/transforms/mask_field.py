"""Apache's MaskField: replaces the values of fields by an empty value or by a given text."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any, ClassVar, Final, cast

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import ListOf, NonEmpty
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.interop.java.jackson import json_number, json_string
from headrace.plugins.interop.java.numbers import low_bits, parse_decimal
from headrace.plugins.records import Records
from headrace.plugins.schema import DECIMAL, MOST_DIGITS, Field, Schema, SchemaType, literal, logical, scale
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue, only_map, only_struct
from headrace.plugins.transforms.struct_fields import (
    REPLACE_NULLS,
    fails,
    field_value,
    first_text,
    no_object,
    struct_of,
    with_members,
)

_PURPOSE: Final = "mask fields"
_BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
_NOTHING: Final[Mapping[SchemaType, object]] = {
    **dict.fromkeys(_BITS, 0),
    SchemaType.FLOAT32: 0.0,
    SchemaType.FLOAT64: 0.0,
    SchemaType.BOOLEAN: False,
    SchemaType.STRING: "",
    SchemaType.ARRAY: [],
    SchemaType.MAP: {},
}
_JAVA_NOTHING: Final = {
    "java.lang.String": '""',
    "java.lang.Boolean": "false",
    "java.lang.Long": "0",
    "java.lang.Double": "0.0",
    "java.util.ArrayList": "[]",
    "java.util.HashMap": "{}",
}


class MaskField(KeyOrValue):
    """Replaces the named fields by zero, false, an empty text, array or object, or by `replacement`; nulls stay null.

    Decided: decimals are masked at their schema's own scale, because Connect's zero has scale 0, which no converter
    accepts under another one; loses: nothing.
    """

    settings: ClassVar[Settings] = Settings(
        Setting(
            "fields",
            Type.LIST,
            validator=ListOf(empty=False),
            importance=Importance.HIGH,
            documentation="Fields to mask.",
        ),
        Setting(
            "replacement",
            Type.STRING,
            None,
            NonEmpty(),
            Importance.LOW,
            "What fields of numbers and texts get instead; unset: zero, or what is empty.",
        ),
        REPLACE_NULLS,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._fields = tuple(dict.fromkeys(parsed["fields"]))
        self._replacement: str | None = parsed["replacement"]
        self._replace_nulls: bool = parsed["replace.null.with.default"]

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return the struct with its fields masked; a null fails, as in Connect."""
        found = F.when(value.isNull(), F.lit("null"))
        if schema.type is not SchemaType.STRUCT:
            return fails(only_struct(_PURPOSE, F.coalesce(found, F.lit(class_of(schema)))))
        messages = [] if _never_null(schema) else [F.when(value.isNull(), only_struct(_PURPOSE, F.lit("null")))]
        made = []
        for field in schema.fields:
            old = field_value(value, field, self._replace_nulls)
            mask, message = self._mask(field) if field.name in self._fields else (old, None)
            if message is not None:
                messages.append(F.when(old.isNotNull(), F.lit(message)))
            elif field.name in self._fields and not _never_null(field.schema):
                mask = F.when(old.isNotNull(), mask)
            made.append((field, mask))
        return Became(struct_of(made), schema, F.coalesce(*messages) if messages else None)

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return the object with its members masked; missing members are added as null, as in Connect."""
        nothing = F.when(value.isNull(), only_map(_PURPOSE, F.lit("null")))
        made = with_members(value, self._json_mask, dict.fromkeys(self._fields, F.lit("null")))
        return Became(
            made, None, F.coalesce(nothing, no_object(_PURPOSE, value), first_text(value, self._json_message))
        )

    def nothing(self, records: Records) -> Became | None:
        """Fail each tombstone, as Connect does."""
        return fails(only_map(_PURPOSE, F.lit("null")))

    def _mask(self, field: Field) -> tuple[Column, str | None]:
        """Return the mask for values of this field, or the reason why there is none."""
        schema, java = field.schema, class_of(field.schema)
        none = literal(None, schema)
        if self._replacement is None:
            zero = 0 if logical(schema) is not None else _NOTHING.get(schema.type)
            return (none, f"Cannot mask value of type: class {java}") if zero is None else (literal(zero, schema), None)
        if logical(schema) not in (None, DECIMAL) or not _replaceable(schema):
            return none, f"Cannot mask value of type class {java} with custom replacement."
        mask = replacement(self._replacement, schema)
        return (none, self._no_number(schema)) if mask is None else (literal(mask, schema), None)

    def _no_number(self, schema: Schema | None = None) -> str:
        number = None if self._replacement is None else parse_decimal(self._replacement)
        if schema is None or logical(schema) != DECIMAL or number is None:
            article = "" if schema is not None and logical(schema) == DECIMAL else "a "
            return f"Unable to convert {self._replacement} (class java.lang.String) to {article}number"
        return (
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale(schema)}, value has scale {-int(number.as_tuple().exponent)}."
        )

    def _json_masks(self) -> dict[str, str]:
        """Return the mask's JSON by Java class of the masked value."""
        if self._replacement is None:
            return _JAVA_NOTHING
        masks = {"java.lang.String": json_string(self._replacement)}
        if (number := parse_decimal(self._replacement)) is not None:
            masks["java.lang.Long"] = str(low_bits(number, 64))
            masks["java.lang.Double"] = json_number(np.float64(float(number)))
        return masks

    def _json_mask(self, name: Column, json: Column) -> Column:
        def mask(java: Column) -> Column:
            cases: Any = F
            for of, text in self._json_masks().items():
                cases = cases.when(java == of, F.lit(text))
            return cast("Column", cases)

        return F.when(name.isin(*self._fields) & (json != "null"), let(class_of_json(json), mask)).otherwise(json)

    def _json_message(self, name: Column, json: Column) -> Column:
        def message(java: Column) -> Column:
            refused = F.concat(F.lit("Cannot mask value of type class "), java, F.lit(" with custom replacement."))
            number = java.isin("java.lang.Long", "java.lang.Double")
            text = F.when(number, F.lit(self._no_number())).otherwise(refused)
            return F.when(~java.isin(*self._json_masks()), text)

        return F.when(name.isin(*self._fields) & (json != "null"), let(class_of_json(json), message))


def _never_null(schema: Schema) -> bool:
    return not schema.optional and schema.default is None


def _replaceable(schema: Schema) -> bool:
    kinds = {*_BITS, SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.STRING}
    return schema.type in kinds or logical(schema) == DECIMAL


def replacement(text: str, schema: Schema) -> Any:
    """Return the replacement as a value of this schema, parsed as a decimal and cut to it; None if it does not fit."""
    if schema.type is SchemaType.STRING:
        return text
    number = parse_decimal(text)
    if number is None:
        return None
    if schema.type in _BITS:
        return low_bits(number, _BITS[schema.type])
    if logical(schema) != DECIMAL:
        return float(number)
    if number and number.adjusted() >= MOST_DIGITS - scale(schema):
        return None
    scaled = number.quantize(Decimal(1).scaleb(-scale(schema)), context=Context(prec=2 * MOST_DIGITS))
    return scaled if scaled == number else None


class MaskFieldKey(MaskField):
    """MaskField of keys."""

    is_key = True


class MaskFieldValue(MaskField):
    """MaskField of values."""

    is_key = False
