"""Arrays, maps and structs of the usual form: one run of Spark's JSON parser with the types, and a check of its result.

A quick way gives null if it is not sure of the value; then the thorough way (`json.nodes`) reads it. The parser itself
detects, at any depth, a value of another type (`_CORRUPT`) and, by a member added before the last brace (`_END`), a
payload that ends earlier. Values that it accepts but Connect reads otherwise are detected here (`odd`). Above all, it
gives the text of any JSON for a string. So if a text could be that of a number, boolean, object or array, the document
must show that it is in quotes.

Decided: `_END` has one name for all, because programs of the same schema are shared; loses: a broken document with a
member of this name is read up to the break, while Connect refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.converters.json import numbers
from headrace.converters.json.marking import OPTIONS
from headrace.converters.json.nodes import null_value
from headrace.converters.json.rules import JsonRules
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    TIMESTAMP_END,
    Schema,
    SchemaType,
    logical,
    scale,
    spark_type,
)

_END: Final = "headrace.end"
_CORRUPT: Final = "headrace.corrupt"
_WHOLE: Final = "headrace.whole"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]+")
_SHORT_DECIMAL: Final = 20
"""Base64 characters of 15 bytes, which always have less than 38 digits."""


def parses(schema: Schema, rules: JsonRules) -> bool:
    """True if this way can read values of this schema."""
    return schema.type in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT) and _shape(schema, rules) is not None


def parsed(payload: Column, schema: Schema, rules: JsonRules) -> Column:
    """The parsed payload, from which `value` makes the value; uses every part twice."""
    shape = _shape(schema, rules)
    assert shape is not None
    if isinstance(shape, spark.StructType):
        # `_END` is inside the object, so only the object's own brace can end it.
        inside = F.substring(payload.cast("binary"), F.lit(1), F.octet_length(payload) - F.lit(1)).cast("string")
        text, fields = F.concat(inside, F.lit(f',"{_END}":true}}')), list(shape.fields)
    else:
        text = F.concat(F.lit(f'{{"{_WHOLE}":'), payload, F.lit(f',"{_END}":true}}'))
        fields = [spark.StructField(_WHOLE, shape)]
    fields += [spark.StructField(_END, spark.BooleanType()), spark.StructField(_CORRUPT, spark.StringType())]
    return F.from_json(text, spark.StructType(fields), OPTIONS | {"columnNameOfCorruptRecord": _CORRUPT})


def value(parsed: Column, payload: Column, schema: Schema, rules: JsonRules) -> Column:
    """The value in the result of `parsed`; null if the thorough way is needed."""
    whole = parsed if schema.type is SchemaType.STRUCT else parsed.getField(_WHOLE)
    reader = _ParsedReader(payload, rules)
    odd = [~F.coalesce(parsed.getField(_END), F.lit(False)), parsed.getField(_CORRUPT).isNotNull()]
    if whole is not parsed:
        odd.append(whole.isNull())
    odd += reader.odd_inside(whole, schema, outermost=True)
    return F.when(~F.coalesce(reduce(or_, odd), F.lit(False)), reader.value(whole, schema, never_null=True))


def _shape(schema: Schema | None, rules: JsonRules) -> spark.DataType | None:
    """The type for the parser; None for a schema that it cannot read."""
    assert schema is not None
    kind = logical(schema)
    if kind is not None:
        return {DECIMAL: spark.StringType(), TIMESTAMP: spark.LongType()}.get(kind, spark.IntegerType())
    match schema.type:
        case SchemaType.BYTES:
            return spark.StringType()
        case SchemaType.ARRAY:
            item = _shape(schema.value_schema, rules)
            return None if item is None else spark.ArrayType(item)
        case SchemaType.MAP:
            item = _shape(schema.value_schema, rules)
            return spark.MapType(spark.StringType(), item) if rules.by_name(schema) and item is not None else None
        case SchemaType.STRUCT:
            shapes = [(field.name, _shape(field.schema, rules)) for field in schema.fields]
            if (
                rules.is_union(schema)
                or not shapes
                or any(shape is None or name in (_END, _CORRUPT) for name, shape in shapes)
            ):
                return None
            return spark.StructType([spark.StructField(name, shape) for name, shape in shapes if shape is not None])
    return spark_type(schema)


class _ParsedReader:
    """Walks the parser's result along its schema."""

    def __init__(self, payload: Column, rules: JsonRules) -> None:
        self._payload = payload
        self._rules = rules

    def value(self, parsed: Column, schema: Schema, never_null: bool = False) -> Column:
        """The parser's result, in the type that carries values of the schema."""
        made = parsed if self._is_carried(schema) else self._made(parsed, schema)
        if never_null or not self._rules.replaces(schema):
            return made
        return F.coalesce(made, null_value(schema, self._rules))

    def _is_carried(self, schema: Schema) -> bool:
        """True if the parser's result is already in the carrying type."""
        if logical(schema) is not None:
            return logical(schema) == TIME
        if schema.type in (SchemaType.BYTES, SchemaType.STRUCT) or numbers.is_floating(schema):
            return False
        of = schema.value_schema
        return of is None or (self._is_carried(of) and not self._rules.replaces(of))

    def _made(self, parsed: Column, schema: Schema) -> Column:
        kind = logical(schema)
        if kind == DECIMAL:
            return numbers.decimal_of_bytes(F.try_to_binary(parsed, F.lit("base64")), scale(schema))
        if kind == DATE:
            return F.date_from_unix_date(parsed)
        if kind == TIMESTAMP:
            return F.timestamp_millis(parsed)
        of = schema.value_schema
        match schema.type:
            case SchemaType.ARRAY if of is not None:
                return F.transform(parsed, lambda item: self.value(item, of))
            case SchemaType.MAP if of is not None:
                return F.transform_values(parsed, lambda _, item: self.value(item, of))
            case SchemaType.STRUCT:
                fields = [self.value(parsed.getField(f.name), f.schema).alias(f.name) for f in schema.fields]
                return F.when(parsed.isNotNull(), F.struct(*fields))
            case SchemaType.BYTES:
                return F.try_to_binary(parsed, F.lit("base64"))
        return parsed + F.lit(0).cast(spark_type(schema))  # Jackson's numbers have no negative zero

    def odd(self, parsed: Column, schema: Schema, name: str | None, may_lack: bool = False) -> list[Column]:
        """Tests that are true if the thorough way is needed; for a null value they may be null.

        `may_lack`: the value may be missing, which the document shows by not having any null.
        """
        missing = [] if schema.optional or self._rules.replaces(schema) else [parsed.isNull()]
        if may_lack:
            missing = [one & F.contains(self._payload, F.lit("null")) for one in missing]
        return missing + self.odd_inside(parsed, schema, name)

    def odd_inside(
        self, parsed: Column, schema: Schema, name: str | None = None, outermost: bool = False
    ) -> list[Column]:
        """As `odd`, for a value that is not null."""
        kind = logical(schema)
        if kind == TIME:
            return [(parsed < 0) | (parsed > numbers.TIME_END)]
        if kind == TIMESTAMP:
            return [~parsed.between(-TIMESTAMP_END, TIMESTAMP_END)]
        if kind == DATE:
            return []
        of = schema.value_schema
        match schema.type:
            case SchemaType.STRING:
                return [self._may_be_no_string(parsed, name)]
            case SchemaType.BYTES:
                unread = ~numbers.is_base64(parsed)
                if kind == DECIMAL:
                    unread |= ~F.length(parsed).between(1, _SHORT_DECIMAL)
                return [unread, self._may_be_no_string(parsed, name)]
            case SchemaType.FLOAT32 | SchemaType.FLOAT64:
                return [F.abs(parsed) == F.lit(float("inf"))]  # possibly an exponent that Jackson refuses
            case SchemaType.ARRAY if of is not None:
                return self._odd_items(parsed, of)
            case SchemaType.MAP if of is not None:
                keys = F.map_keys(parsed)
                twice = F.size(F.array_distinct(keys)) != F.size(keys)
                return [twice, *self._odd_items(F.map_values(parsed), of)]
            case SchemaType.STRUCT:
                may_lack = outermost and self._rules.leaves_unset
                fields = [(parsed.getField(f.name), f.schema, f.name) for f in schema.fields]
                inside = [odd for field in fields for odd in self.odd(*field, may_lack)]
                return [parsed.isNotNull() & reduce(or_, inside)] if inside else []
        return []

    def _odd_items(self, items: Column, schema: Schema) -> list[Column]:
        test: Callable[[Column], list[Column]] = lambda item: self.odd(item, schema, None)  # noqa: E731
        if not test(items):
            return []
        return [F.exists(items, lambda item: F.coalesce(reduce(or_, test(item)), F.lit(False)))]

    def _may_be_no_string(self, text: Column, name: str | None) -> Column:
        """True if this may be the text of a number, boolean, object or array.

        It cannot be if every member of this name, in the whole payload, has a string as value.
        """
        suspicious = (
            ((text >= "-") & (text < ":"))
            | ((text >= "[") & (text < "\\"))
            | ((text >= "{") & (text < "|"))
            | (text == "true")
            | (text == "false")
        )
        if name is None or not _PLAIN_NAME.fullmatch(name):
            return suspicious
        strings = F.replace(self._payload, F.lit(f'"{name}":"'), F.lit(""))
        strings = F.replace(strings, F.lit(f'"{name}": "'), F.lit(""))
        # Only \u00… escapes can spell a plain name otherwise.
        elsewhere = F.contains(strings, F.lit(f'"{name}"')) | F.contains(self._payload, F.lit("\\u00"))
        return suspicious & elsewhere
