"""The rows that the sink's writer gets: URL, body and batch of each record, made by expressions."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.http.sink.options import Body, SinkOptions
from headrace.connectors.http.sink.templates import filled, named_text, names, url_text
from headrace.plugins.interop.json.writing import NULL_REFUSED, JsonWriter
from headrace.plugins.java_text import java_text
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema, SchemaType, logical

_DOTS: Final = "A part of the URL would be . or .., which servers take for another path"
_NO_BODY: Final = "A value of this type has no body: only texts, structs and maps have (DataException)"
_OWN: Final = ("topic", "partition", "offset")


def columns_of(records: Records, options: SinkOptions) -> list[Column]:
    """Return the place of each record, its key's text, URL, batch and body, and why it has none of them."""
    url, url_fault = _url(records, options)
    body, body_fault = _body(records, options)
    # A null with a schema is a null all the same.
    is_null = F.coalesce(records.of_values(lambda value, schema: _is_null(value, schema)), F.lit(True))
    return [
        *(F.col(f"_{name}").alias(name) for name in _OWN),
        F.col("timestamp"),
        named_text(records, "key").alias("key"),
        url.alias("url"),
        filled(options.batch_key, lambda name: F.coalesce(named_text(records, name), F.lit("null"))).alias("batch"),
        is_null.alias("is_null"),
        body.alias("body"),
        F.coalesce(url_fault, F.when(~is_null, body_fault)).alias("fault"),
    ]


def _is_null(value: Column, schema: Schema | None) -> Column:
    return value.isNull() if schema is not None else value.isNull() | (value == "null")


def _url(records: Records, options: SinkOptions) -> tuple[Column, Column]:
    if not options.has_templates:
        return F.lit(options.url), F.lit(None).cast("string")
    texts = {name: named_text(records, name) for name in names(options.url)}
    fault = F.lit(None).cast("string")
    for name, text in texts.items():
        message = f"The record has no {name}, which {options.url_setting} needs (${{{name}}})"
        fault = F.coalesce(fault, F.when(text.isNull(), F.lit(message)), F.when(text.isin(".", ".."), F.lit(_DOTS)))
    return filled(options.url, lambda name: url_text(texts[name])), fault


def _body(records: Records, options: SinkOptions) -> tuple[Column, Column]:
    """The body as bytes, null for none, and why there is none."""
    if not options.replacements:
        body = records.of_values(lambda value, schema: _bytes(value, schema, options))
    else:
        text = records.of_values(lambda value, schema: _bytes(value, schema, options).cast("string"))
        body = _replaced(text, records, options).cast("binary")
    refused = _NO_BODY if options.body is Body.TEXT_OR_JSON else NULL_REFUSED
    return body, F.when(body.isNull(), F.lit(refused))


def _bytes(value: Column, schema: Schema | None, options: SinkOptions) -> Column:
    if options.body is Body.STRING:
        is_bytes = schema is not None and schema.type is SchemaType.BYTES and logical(schema) is None
        return value if is_bytes else java_text(value, schema).cast("binary")
    written = JsonWriter(False, options.numeric_decimals).payload(value, schema, "", "")
    if options.body is Body.JSON:
        return written.cast("binary")
    if schema is None:
        is_object, is_text = F.trim(value).startswith("{"), F.trim(value).startswith('"')
        return F.when(is_object, value).when(is_text, java_text(value, schema)).cast("binary")
    if schema.type is SchemaType.STRING:
        return value.cast("binary")
    return written.cast("binary") if schema.type in (SchemaType.STRUCT, SchemaType.MAP) else F.lit(None).cast("binary")


def _replaced(text: Column, records: Records, options: SinkOptions) -> Column:
    for one in options.replacements:
        by = filled(one.by, lambda name: _quoted(F.coalesce(named_text(records, name), F.lit("null"))))
        text = F.regexp_replace(text, F.lit(one.pattern), by)
    return text


def _quoted(text: Column) -> Column:
    """The text as Java's replacement of itself."""
    backslashes = F.replace(text, F.lit("\\"), F.lit("\\\\"))
    return F.replace(backslashes, F.lit("$"), F.lit("\\$"))
