"""Rules by which converters that write JSON read it, each in its own way."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.plugins.schema import Schema, SchemaType


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
