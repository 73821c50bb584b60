"""The Avro schemas in files, and the Connect schemas in them, as Confluent's AvroData maps them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.plugins.errors import DataError
from headrace.plugins.interop.avro.from_connect import avro_tree
from headrace.plugins.interop.avro.parsing import parsed
from headrace.plugins.interop.avro.to_connect import connect_schema
from headrace.plugins.interop.avro.tree import AvroOptions, NameNotAllowed, Tree, schema_text
from headrace.plugins.schema import Schema, uncarried

_KEPT = 1000


@dataclass(frozen=True)
class FileSchema:
    """The Avro schema of a file's values."""

    tree: Tree
    text: str


@lru_cache(_KEPT)
def file_schema(schema: Schema | None, options: AvroOptions) -> FileSchema:
    """The Avro schema of these values.

    Errors: DataError for names that Avro does not allow, and for two types of one name.
    """
    tree = avro_tree(schema, options)
    return FileSchema(tree, schema_text(tree))


def connect_schema_of(text: str, options: AvroOptions) -> Schema | None:
    """The Connect schema of a file with this Avro schema; None for schemaless values.

    Errors: DataError if Connect or Spark cannot hold it.
    """
    schema = connect_schema(parsed(text), options)
    if (why := uncarried(schema)) is not None:
        raise DataError(why)
    return schema


def refusal_of_avro(schema: Schema | None, options: AvroOptions) -> str | None:
    """The reason why values of this schema have no Avro schema; None if they have one."""
    if (why := uncarried(schema)) is not None:
        return why
    try:
        file_schema(schema, options)
    except NameNotAllowed as error:
        rename = "let a transform (ReplaceField) rename it, or choose a format.class that takes any name (JsonFormat)"
        return f"Avro cannot hold such values: {error} ({rename})"
    except DataError as error:
        return f"Avro cannot hold such values: {error}"
    return None


def required(schema: Schema) -> Schema:
    """The same schema for values that are never null."""
    return replace(schema, optional=False, default=None) if schema.optional or schema.default is not None else schema
