"""Apache's ReplaceField: removes and renames fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import Check, ListOf
from headrace.config.values import invalid
from headrace.plugins.interop.java.distinct_keys import distinct_keys
from headrace.plugins.interop.java.json_members import members, object_text
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.struct_fields import (
    REPLACE_NULLS,
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


def _renames(name: str, value: Any) -> str | None:
    wrong = next((one for one in value or () if len(split_pair(one)) != 2), None)
    return None if wrong is None else invalid(name, value, f"Invalid rename mapping: {wrong}")


def split_pair(text: str) -> list[str]:
    """Split `a:b` into its parts without empty ones at the end, as Java does."""
    parts = text.split(":")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _list(name: str, validator: Any, text: str) -> Setting:
    return Setting(name, Type.LIST, [], validator, Importance.MEDIUM, text)


class ReplaceField(KeyOrValue):
    """Removes the fields in `exclude`, keeps only those in `include` if it names any, and renames fields.

    Decided: a field with the same name as the new name of an absent field keeps its own value, because Connect looks
    for the absent one and fails; loses: nothing.
    """

    settings: ClassVar[Settings] = Settings(
        _list("exclude", ListOf(), "Fields to leave out."),
        _list("include", ListOf(), "Fields to keep, all others being left out; empty: all."),
        _list("renames", Check(_renames, "a list of pairs old:new"), "Fields to rename, as pairs old:new."),
        REPLACE_NULLS,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._exclude, self._include = frozenset(parsed["exclude"]), frozenset(parsed["include"])
        self._renames: dict[str, str] = dict(map(split_pair, parsed["renames"]))
        self._replace_nulls: bool = parsed["replace.null.with.default"]

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return a struct of the kept fields; its schema is required and has no default, as Connect's."""
        if schema.type is not SchemaType.STRUCT:
            return refused(_PURPOSE, value, schema)
        kept = [field for field in schema.fields if self._keeps(field.name)]
        fields = [Field(self._renames.get(field.name, field.name), field.schema) for field in kept]
        if (message := twice(fields)) is not None:
            return fails(F.when(value.isNotNull(), F.lit(message)))
        values = (field_value(value, field, self._replace_nulls) for field in kept)
        made = struct_of(zip(fields, values, strict=True))
        return Became(made, struct_schema(schema, fields), holds=present(value, schema))

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return an object of the kept members."""
        kept = members(value)
        if self._include:
            kept = F.filter(kept, lambda one: one["name"].isin(*self._include))
        if self._exclude:
            kept = F.filter(kept, lambda one: ~one["name"].isin(*self._exclude))
        if self._renames:
            kept = distinct_keys(F.transform(kept, self._renamed), "name")
        return Became(object_text(kept), None, no_object(_PURPOSE, value))

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _renamed(self, one: Column) -> Column:
        name = one["name"]
        for old, new in self._renames.items():
            name = F.when(one["name"] == old, F.lit(new)).otherwise(name)
        return F.struct(name.alias("name"), one["json"].alias("json"))


class ReplaceFieldKey(ReplaceField):
    """ReplaceField of keys."""

    is_key = True


class ReplaceFieldValue(ReplaceField):
    """ReplaceField of values."""

    is_key = False
