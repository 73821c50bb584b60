"""JsonSchemaConverter's options for schemas and values, and the names that these are marked with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.plugins.schema import Schema, SchemaType

ENUM: Final = "io.confluent.connect.json.Enum"
"""The parameter of texts with few values; `ENUM.<value>` stands for each."""
UNION: Final = "io.confluent.connect.json.OneOf"
"""The name of a struct with a field for each branch of a `oneOf`."""
OWN: Final = "io.confluent.connect.json"
"""The beginning of parameters that no schema's text shows."""


@dataclass(frozen=True)
class JsonSchemaOptions:
    """Options for schemas and values."""

    open_objects: bool = True
    """False: objects may have no members but those of their schema."""
    optional_unless_required: bool = False
    """True: a property that `required` does not name is optional."""
    numeric: bool = False
    """True: decimals are numbers, not base64."""
    flatten_singletons: bool = True
    replace_nulls: bool = True
    """True: a null becomes the default of its schema."""


def is_union(schema: Schema) -> bool:
    """True for the struct that stands for a `oneOf`."""
    return schema.type is SchemaType.STRUCT and schema.name == UNION
