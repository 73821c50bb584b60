"""Apache's ExtractField: replaces the whole by one field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import OneOfIgnoringCase
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.interop.java.json_members import is_object, member
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue, only_map, only_struct
from headrace.plugins.transforms.struct_fields import REPLACE_NULLS, fails, field_value

_PURPOSE: Final = "field extraction"
_NESTED: Final = "nested field access"


class ExtractField(KeyOrValue):
    """Replaces the key or value by the field's value; a null stays null.

    Decided: an empty path is refused, because Apache fails every record for it; loses: nothing.
    """

    settings: ClassVar[Settings] = Settings(
        Setting("field", Type.STRING, REQUIRED, None, Importance.MEDIUM, "The field to extract."),
        REPLACE_NULLS,
        Setting(
            "field.syntax.version",
            Type.STRING,
            "V1",
            OneOfIgnoringCase("V1", "V2"),
            Importance.HIGH,
            "V1: the field is a name. V2: it is a path, its steps between dots, in backticks where a name has dots.",
        ),
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._path: str = parsed["field"]
        self._replace_nulls: bool = parsed["replace.null.with.default"]
        self._steps: tuple[str, ...] = (self._path,)
        if parsed["field.syntax.version"].upper() == "V2":
            try:
                self._steps = steps(self._path)
            except ValueError as error:
                raise ConfigError(Problem("field", self._path, str(error))) from None
        if not self._steps:
            raise ConfigError(Problem("field", self._path, "An empty path leads to no field.", "Name a field."))

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return the field's value and schema."""
        if schema.type is not SchemaType.STRUCT:
            wrong = F.when(value.isNotNull(), only_struct(_PURPOSE, F.lit(class_of(schema))))
            return fails(F.coalesce(wrong, F.lit("Cannot look up fields on non-struct type")))
        field, found = Field("", schema), value
        for number, step in enumerate(self._steps):
            inner = field.schema.field(step) if field.schema.type is SchemaType.STRUCT else None
            if inner is None:
                return fails(F.lit(self._lost(field.schema)))
            replaces = self._replace_nulls or number + 1 < len(self._steps)
            # A field's default applies only if its struct is not null.
            found, field = F.when(found.isNotNull(), field_value(found, inner, replaces)), inner
        return Became(found, field.schema)

    def _lost(self, schema: Schema) -> str:
        if schema.type is SchemaType.STRUCT:
            return f"Unknown field: {self._path}"
        return "Cannot look up fields on non-struct type"

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return the member's JSON, null if there is none."""
        message = F.when(~is_object(value), only_map(_PURPOSE, class_of_json(value)))
        found = value
        for number, step in enumerate(self._steps):
            if number:
                message = F.coalesce(message, let(found, _no_object_inside))
            found = member(found, step)
        return Became(found, None, message)


def _no_object_inside(json: Column) -> Column:
    return F.when(~is_object(json), only_map(_NESTED, class_of_json(json)))


class ExtractFieldKey(ExtractField):
    """ExtractField of keys."""

    is_key = True


class ExtractFieldValue(ExtractField):
    """ExtractField of values."""

    is_key = False


_CLOSING: Final = re.compile(r"(\\?)`(?=\.|\Z)")
"""A backtick that ends a step, unless a backslash precedes it; any other is literal."""


def steps(path: str) -> tuple[str, ...]:
    """Split a path in Connect's syntax V2 into steps; none for an empty path.

    Errors: ValueError, in Connect's words, for an unclosed backtick.
    """
    found: list[str] = []
    at = 0
    while at < len(path):
        step, at = _quoted(path, at) if path[at] == "`" else _plain(path, at)
        found.append(step)
    return (*found, "") if path.endswith(".") else tuple(found)


def _plain(path: str, at: int) -> tuple[str, int]:
    step, _, _ = path[at:].partition(".")
    return step, at + len(step) + 1


def _quoted(path: str, at: int) -> tuple[str, int]:
    """Return the step in backticks that begins at `at`, and the start of the next one."""
    step, begin = "", at + 1
    for closing in _CLOSING.finditer(path, begin):
        if not closing[1]:
            return step + path[begin : closing.start()], closing.end() + 1
        if closing.end() == len(path):
            break
        step, begin = step + path[begin : closing.start()] + "`", closing.end()
    raise ValueError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {at} "
        "to escape it"
    )
