"""Values to JSON text, as Confluent's JsonSchemaConverter writes them; Column expressions.

It differs from `JsonWriter` in maps, whose entries are objects if their keys are no required texts, and in unions, of
which the set field's value is written alone.

Decided: a required field that is null is refused, because its schema would refuse the document; loses: such records,
which Confluent's converter writes.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.json_schema.from_connect import is_object
from headrace.converters.json_schema.options import is_union
from headrace.plugins.interop.json.writing import JsonWriter, joined
from headrace.plugins.schema import Schema


class JsonSchemaWriter(JsonWriter):
    """Writes values by the converter's settings."""

    def of_map(self, value: Column, schema: Schema) -> Column:
        """The text of a map: an object, or an array of objects with key and value."""
        if is_object(schema):
            return super().of_map(value, schema)

        def entry(one: Column) -> Column:
            key, of = self.member(one["key"], schema.key_schema), self.member(one["value"], schema.value_schema)
            return F.concat(F.lit('{"key":'), key, F.lit(',"value":'), of, F.lit("}"))

        return joined(F.transform(F.map_entries(value), entry), "[", "]")

    def of_struct(self, value: Column, schema: Schema) -> Column:
        """The text of a struct; of a union the text of the first field that is set, null if none is."""
        if not is_union(schema):
            return super().of_struct(value, schema)
        texts = [
            F.when(value.getField(field.name).isNotNull(), self.member(value.getField(field.name), field.schema))
            for field in schema.fields
        ]
        return F.coalesce(*texts, F.lit(None).cast("string"))
