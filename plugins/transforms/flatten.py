"""Apache's Flatten: nested fields of structs become fields of one struct, with joined names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.plugins.interop.java.distinct_keys import distinct_keys
from headrace.plugins.interop.java.json_members import is_object, members, object_text
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.struct_fields import (
    fails,
    field_value,
    no_object,
    present,
    refused,
    struct_of,
    struct_schema,
    twice,
)

_PURPOSE: Final = "flattening"
_DEEPEST: Final = 1000
"""JSON that is nested deeper cannot be read."""


class _Unsupported(Exception):
    """A field that cannot be flattened; the text is Connect's."""


class _Leaf(NamedTuple):
    field: Field
    value: Column


class _Parent(NamedTuple):
    name: str
    value: Column
    optional: bool
    """True if it or anything around it is optional."""
    default: Mapping[str, Any] | None
    is_root: bool = False


class Flatten(KeyOrValue):
    """Makes a flat struct or a flat object; arrays stay as they are, and an empty inner object vanishes."""

    settings: ClassVar[Settings] = Settings(
        Setting(
            "delimiter", Type.STRING, ".", None, Importance.MEDIUM, "What stands between the names that are joined."
        )
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._delimiter: str = self.settings.parse(config)["delimiter"]

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return a struct of the leaves; a leaf is optional if it or anything around it is."""
        if schema.type is not SchemaType.STRUCT:
            return refused(_PURPOSE, value, schema)
        default = schema.default if isinstance(schema.default, Mapping) else None
        try:
            leaves = list(self._leaves(schema, _Parent("", value, schema.optional, default, is_root=True)))
        except _Unsupported as error:
            return fails(F.when(value.isNotNull(), F.lit(str(error))))
        fields = [leaf.field for leaf in leaves]
        if (message := twice(fields)) is not None:
            return fails(F.when(value.isNotNull(), F.lit(message)))
        return Became(struct_of(leaves), struct_schema(schema, fields), holds=present(value, schema))

    def _leaves(self, schema: Schema, parent: _Parent) -> Iterator[_Leaf]:
        for field in schema.fields:
            inner = field.schema
            name = self._joined(parent.name, field.name)
            default = inner.default if inner.default is not None else (parent.default or {}).get(field.name)
            optional = parent.optional or inner.optional
            if inner.type is SchemaType.MAP:
                raise _Unsupported(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            if inner.type is SchemaType.STRUCT:
                below = default if isinstance(default, Mapping) else None
                # A nested struct that is null is not replaced by its default; its leaves are null.
                yield from self._leaves(inner, _Parent(name, parent.value.getField(field.name), optional, below))
                continue
            value = field_value(parent.value, field, True)
            if not parent.is_root and inner.default is not None:
                value = F.when(parent.value.isNotNull(), value)
            yield _Leaf(Field(name, _leaf_schema(inner, optional, default)), value)

    def _joined(self, before: str, name: str) -> str:
        return f"{before}{self._delimiter}{name}" if before else name

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return an object of the leaves; the last of equal names counts."""
        # One turn for each possible level, which opens the objects left by the turn before.
        turns = F.least(F.length(value) - F.length(F.replace(value, F.lit("{"), F.lit(""))), F.lit(_DEEPEST))
        opened = F.aggregate(
            F.array_repeat(F.lit(0), F.coalesce(turns - 1, F.lit(0))),
            members(value),
            lambda found, _: F.when(
                F.exists(found, lambda one: is_object(one["json"])), F.flatten(F.transform(found, self._opened))
            ).otherwise(found),
        )
        return Became(object_text(distinct_keys(opened, "name")), None, no_object(_PURPOSE, value))

    def _opened(self, one: Column) -> Column:
        """Return a member as an array: itself, or the members of its object."""

        def named(inner: Column) -> Column:
            joined = F.concat(one["name"], F.lit(self._delimiter), inner["name"])
            name = F.when(one["name"] == "", inner["name"]).otherwise(joined)
            return F.struct(name.alias("name"), inner["json"].alias("json"))

        return F.when(is_object(one["json"]), F.transform(members(one["json"]), named)).otherwise(F.array(one))


def _leaf_schema(schema: Schema, optional: bool, default: Any) -> Schema:
    return Schema(
        schema.type,
        optional=optional,
        default=default,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        value_schema=schema.value_schema,
    )


class FlattenKey(Flatten):
    """Flatten of keys."""

    is_key = True


class FlattenValue(Flatten):
    """Flatten of values."""

    is_key = False
