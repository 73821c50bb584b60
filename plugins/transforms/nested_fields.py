"""Confluent's ReplaceField: removes and renames fields, also those inside of structs, by paths with dots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Settings
from headrace.plugins.interop.java.distinct_keys import distinct_keys
from headrace.plugins.interop.java.json_members import is_object, members, object_text
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.condition_filter import CONFLUENT_VERSION
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.replace_field import ReplaceField, split_pair
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

_PURPOSE: Final = "field replacement"


class _Changes(NamedTuple):
    """Paths within one struct or object."""

    exclude: frozenset[str]
    include: frozenset[str] | None
    """None: all."""
    renames: Mapping[str, str]

    def keeps(self, name: str) -> bool:
        """True for a field that stays as a whole, but for what is changed inside."""
        return name not in self.exclude and (self.include is None or name in self.include)

    def heads(self) -> set[str]:
        """Names of the fields that are changed inside."""
        paths = (*self.exclude, *(self.include or ()), *self.renames)
        return {path.partition(".")[0] for path in paths if "." in path} - self.exclude

    def inside(self, name: str) -> _Changes:
        """Return what to change inside this field."""
        before = f"{name}."
        whole = self.include is None or name in self.include
        return _Changes(
            frozenset(path[len(before) :] for path in self.exclude if path.startswith(before)),
            None if whole else frozenset(p[len(before) :] for p in self.include or () if p.startswith(before)),
            {path[len(before) :]: new for path, new in self.renames.items() if path.startswith(before)},
        )

    def keeps_inside(self, name: str) -> bool:
        """True for a field that is left out, but for what `include` names inside."""
        return name not in self.exclude and any(path.startswith(f"{name}.") for path in self.include or ())


class NestedReplaceField(KeyOrValue):
    """Removes the fields in `exclude`, keeps only those in `include` if it names any, and renames fields.

    Paths are those of the record as it came. A rename's right side is the new last name alone.
    """

    settings: ClassVar[Settings] = Settings(
        *(one for one in ReplaceField.settings if one.name in ("exclude", "include", "renames"))
    )
    version: ClassVar[str] = CONFLUENT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        include = frozenset(parsed["include"])
        renames: dict[str, str] = dict(map(split_pair, parsed["renames"]))
        self._changes = _Changes(frozenset(parsed["exclude"]), include or None, renames)

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return a struct of the kept fields; its schema is required and has no default, as Connect's."""
        if schema.type is not SchemaType.STRUCT:
            return refused(_PURPOSE, value, schema)
        try:
            made, changed = _struct(value, schema, self._changes)
        except ValueError as error:
            return fails(F.when(value.isNotNull(), F.lit(str(error))))
        return Became(made, changed, holds=present(value, schema))

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return an object of the kept members."""
        return Became(_object(value, self._changes), None, no_object(_PURPOSE, value))


def _struct(value: Column, schema: Schema, changes: _Changes) -> tuple[Column, Schema]:
    """Return the struct of the kept fields, and its schema. Errors: ValueError for a name that comes twice."""
    kept: list[tuple[Field, Column]] = []
    heads = changes.heads()
    for field in schema.fields:
        name, of, column = field.name, field.schema, field_value(value, field, True)
        is_struct = of.type is SchemaType.STRUCT
        if not (changes.keeps(name) or (is_struct and changes.keeps_inside(name))):
            continue
        if is_struct and name in heads:
            made, inner = _struct(column, of, changes.inside(name))
            column, of = F.when(column.isNotNull(), made), replace(inner, optional=of.optional)
        kept.append((Field(changes.renames.get(name, name), of), column))
    fields = [field for field, _ in kept]
    if (message := twice(fields)) is not None:
        raise ValueError(message)
    return struct_of(kept), struct_schema(schema, fields)


def _object(value: Column, changes: _Changes) -> Column:
    """Return the JSON object of the kept members."""
    heads = sorted(changes.heads())

    def keeps(one: Column) -> Column:
        kept = ~one["name"].isin(*changes.exclude) if changes.exclude else F.lit(True)
        if changes.include is None:
            return kept
        inside = [name for name in heads if changes.keeps_inside(name)]
        named = one["name"].isin(*changes.include)
        return kept & (named | (one["name"].isin(*inside) & is_object(one["json"])) if inside else named)

    def changed(one: Column) -> Column:
        name, json = one["name"], one["json"]
        for head in heads:
            inner = _object(one["json"], changes.inside(head))
            json = F.when((one["name"] == head) & is_object(one["json"]), inner).otherwise(json)
        for old, new in changes.renames.items():
            name = F.when(one["name"] == old, F.lit(new)).otherwise(name)
        return F.struct(name.alias("name"), json.alias("json"))

    kept = F.transform(F.filter(members(value), keeps), changed)
    return object_text(distinct_keys(kept, "name") if changes.renames else kept)


class NestedReplaceFieldKey(NestedReplaceField):
    """NestedReplaceField of keys."""

    is_key = True


class NestedReplaceFieldValue(NestedReplaceField):
    """NestedReplaceField of values."""

    is_key = False
