"""Decodes one Avro record for people to look at, without Spark; `avro.converter` converts records for tasks."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from headrace.plugins.contracts import DataError


def value_of(data: bytes, text: str, bytes_have_length: bool = False) -> Any:
    """The value, in Python's types, of bytes with a schema of this text. Errors: DataError if they hold none.

    `bytes_have_length`: True if bytes that are a value by themselves have their length before them.
    """
    try:
        schema = fastavro.parse_schema(json.loads(text))
        if not bytes_have_length and schema in ("bytes", {"type": "bytes"}):
            return data
        body = io.BytesIO(data)
        value = fastavro.schemaless_reader(body, schema, None)
    except Exception as error:  # any kind: schema and bytes may be anything
        raise DataError(f"The bytes do not follow their schema: {type(error).__name__}: {error}") from error
    if body.read(1):
        raise DataError("The bytes continue after the value: they do not have this schema")
    return value
