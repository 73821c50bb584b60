"""Rules by which converters that write JSON read it, each in its own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.plugins.schema import Schema, SchemaType

_NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)


@dataclass(frozen=True)
class JsonRules:
    """Rules for reading a value by its Connect schema; the defaults are JsonConverter's."""

    replace_nulls: bool = True
    """True: a null becomes the default of its schema."""
    leaves_unset: bool = False
    """True: a missing member of an object that is in no other is null, although its schema requires one."""
    names_pairs: bool = False
    """True: other maps than those by required texts are arrays of objects with key and value; else arrays of pairs."""
    union: str | None = None
    """The name of structs with one field, if a document holds its value alone."""

    beside: str = "schema"
    """The member that names the schema of the payload beside it, if documents have an envelope."""
    no_envelope: str = _NO_ENVELOPE
    """The error for a document without an envelope."""

    def replaces(self, schema: Schema) -> bool:
        """True if a null of this schema becomes its default."""
        return schema.default is not None and self.replace_nulls

    def is_union(self, schema: Schema) -> bool:
        """True for a struct with one field, whose value alone a document holds."""
        return self.union is not None and schema.type is SchemaType.STRUCT and schema.name == self.union

    def by_name(self, schema: Schema) -> bool:
        """True if a map is an object, with its keys as names."""
        key = schema.key_schema
        return key is not None and key.type is SchemaType.STRING and not (self.names_pairs and key.optional)
