"""Marked JSON (`json.marking`) to scalars, as leniently as by Jackson; Column expressions for `json.nodes`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.json import marking, numbers
from headrace.converters.json.defaults import TIMESTAMP_TOO_FAR
from headrace.converters.json.marking import content
from headrace.converters.long_decimals import DECIMAL_TOO_LONG
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.int64_bits import low_bits
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    INTEGER_BITS,
    MOST_DIGITS,
    TIMESTAMP,
    TIMESTAMP_END,
    Schema,
    SchemaType,
    logical,
    scale,
)
from headrace.plugins.schema import spark_type as carrier

_INTEGER_TOO_LONG: Final = f"A number of more than {MOST_DIGITS} digits for an integer, which Headrace cannot hold"
_TIME_RANGE: Final = (
    "Time values must use number of milliseconds greater than 0 and less than 86400000"  # 86400000 is allowed, too
)


def node_of(value: Column, fault: Column | None) -> Column:
    """A struct of `v`, a value, and `e`, the error if there is none."""
    why = F.lit(None) if fault is None else fault
    return F.struct(value.alias("v"), why.cast("string").alias("e"))


def scalar_kind(schema: Schema) -> tuple[Hashable, ...]:
    """The kind of a scalar schema: `scalar` gives the same expression for all schemas of a kind."""
    kind = logical(schema)
    if kind is not None:
        return kind, scale(schema) if kind == DECIMAL else 0
    return (schema.type,)


def scalar(raw: Column, schema: Schema) -> Column:
    """`node_of` a scalar, read as for every schema of its kind; for a null both parts are null."""
    is_number, number = marking.is_number(raw), content(raw)
    kind = logical(schema)
    if kind is not None:
        return _decimal(raw, schema) if kind == DECIMAL else _moment(raw, kind)
    if schema.type in INTEGER_BITS:
        value = F.when(is_number, numbers.integer(number)).when(raw.isNotNull(), F.lit(0).cast("long"))
        too_long = F.lit(_INTEGER_TOO_LONG)
        return let(value, lambda long: node_of(low_bits(long, schema), F.when(long.isNull() & is_number, too_long)))
    if numbers.is_floating(schema):
        zero = F.lit(0).cast(carrier(schema))
        return node_of(F.when(is_number, numbers.floating(number, schema)).when(raw.isNotNull(), zero), None)
    if schema.type is SchemaType.BOOLEAN:
        return node_of(raw == "true", None)
    is_string = marking.is_string(raw)
    if schema.type is SchemaType.STRING:
        return node_of(F.when(is_string, content(raw)), None)
    data = F.when(is_string, numbers.from_base64(_base64_text(raw)))
    return let(data, lambda data: node_of(data, F.when(is_string & data.isNull(), F.lit("Invalid bytes field"))))


def _base64_text(raw: Column) -> Column:
    return F.regexp_replace(content(raw), r"[\x00-\x20]", "")  # Jackson skips blanks


def _moment(raw: Column, kind: str) -> Column:
    number = F.when(marking.is_number(raw) & content(raw).rlike(r"^-?[0-9]+\z"), content(raw))
    name = kind.rpartition(".")[2]
    if kind == TIMESTAMP:
        wrong = _wrong(raw, number, name, "integral")
        ms = F.struct(numbers.integer(number).alias("ms"), wrong.alias("e"), raw.isNotNull().alias("given"))
        return let(ms, _timestamp)
    value = number.try_cast("int")
    fault = _wrong(raw, value, name, "integer")
    if kind == DATE:
        return node_of(F.date_from_unix_date(value), fault)
    in_day = value.between(0, numbers.TIME_END)
    return node_of(F.when(in_day, value), F.coalesce(fault, F.when(~in_day, F.lit(_TIME_RANGE))))


def _timestamp(read: Column) -> Column:
    held = F.coalesce(read["ms"].between(-TIMESTAMP_END, TIMESTAMP_END), F.lit(False))
    too_far = F.when(read["given"] & ~held, F.lit(TIMESTAMP_TOO_FAR))
    return node_of(F.when(held, F.timestamp_millis(read["ms"])), F.coalesce(read["e"], too_far))


def _wrong(raw: Column, value: Column, name: str, expected: str) -> Column:
    """Connect's error for a value of another type; null for a right value, and for JSON's null."""
    text = F.lit(f"Invalid type for {name}, underlying representation should be {expected} but was ")
    return F.when(value.isNull() & raw.isNotNull(), F.concat(text, marking.node_type(raw)))


def _decimal(raw: Column, schema: Schema) -> Column:
    digits = scale(schema)
    is_number, is_string = marking.is_number(raw), marking.is_string(raw)

    def read(data: Column) -> Column:
        of_bytes = numbers.decimal_of_bytes(data, digits)
        value = F.when(is_number, numbers.decimal_of_number(content(raw), digits)).otherwise(of_bytes)
        return let(F.struct(data.alias("data"), value.alias("v")), fault)

    def fault(read: Column) -> Column:
        no_bytes = is_string & F.coalesce(F.octet_length(read["data"]) == 0, F.lit(True))
        why = (
            F.when(~is_number & ~is_string, _wrong(raw, read["v"], "Decimal", "numeric or bytes"))
            .when(no_bytes, F.lit("Invalid bytes for Decimal field"))
            .when(read["v"].isNull(), F.lit(DECIMAL_TOO_LONG.format(MOST_DIGITS, digits)))
        )
        return node_of(read["v"], F.when(raw.isNotNull(), why))

    return let(F.when(is_string, numbers.from_base64(_base64_text(raw))), read)
