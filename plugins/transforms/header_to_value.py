"""Debezium's HeaderToValue: values of headers become fields of the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Importance, Problem, Setting, Settings, Type
from headrace.config.validators import Check, OneOf
from headrace.config.values import invalid
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.records import FETCHED_HEADERS, Case, HeaderValues, Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.change_events import DEBEZIUM_VERSION, RefusedError
from headrace.plugins.transforms.key_or_value import only_struct
from headrace.plugins.transforms.struct_fields import field_value, struct_of, struct_schema, twice

_MOVE: Final = "move"
_COPY: Final = "copy"
_PURPOSE: Final = "Header field insertion"
_MADE_HERE: Final = (
    "A transform before put the header {} there, so that the type of its value is not known in a sink: have that "
    "transform set a field instead"
)
_NO_STRUCT: Final = "{} is no struct of the value, so that it can have no field {}: correct the setting fields"
_Path = tuple[str, ...]
"""Names that lead to a field."""


def _names(name: str, value: Sequence[str]) -> str | None:
    if not value:
        return invalid(name, value, "A value is required")
    if not all(value):
        return invalid(name, value, "A name is empty")
    return invalid(name, value, "A name comes twice") if len(set(value)) < len(value) else None


def _paths(name: str, value: Sequence[str]) -> str | None:
    fault = _names(name, value)
    if fault is None and not all(part for path in value for part in path.split(".")):
        return invalid(name, value, "A name beside a dot is empty")
    return fault


def _setting(name: str, kind: Type, check: Any, doc: str) -> Setting:
    return Setting(name, kind, REQUIRED, check, Importance.HIGH, doc, None, 1)


class HeaderToValue(Transform):
    """Copies or moves the values of headers into new fields; a record with none of these headers stays as it is.

    The last of several headers of one key counts.

    Decided: the struct has a field for each of the headers, null if the record lacks it, in the order of the settings,
    because a plan has its schemas before its records; loses: Debezium's, which has the headers of the first record
    that a task met, in its order, and fails the records with others.
    """

    reads_headers = True
    settings: ClassVar[Settings] = Settings(
        _setting("headers", Type.LIST, Check(_names, "keys of headers"), "The keys of the headers."),
        _setting(
            "fields",
            Type.LIST,
            Check(_paths, "names of fields"),
            "The new fields, in the order of headers; a dot leads into a struct.",
        ),
        _setting("operation", Type.STRING, OneOf(_MOVE, _COPY), "Whether the headers stay (copy) or go (move)."),
    )
    version: ClassVar[str] = DEBEZIUM_VERSION

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Refuse lists of different lengths."""
        headers, fields = (self.settings.parse(config)[name] for name in ("headers", "fields"))
        why = "'fields' config must have the same number of elements as 'headers' config."
        remedy = f"Name {len(headers)} fields."
        return [] if len(headers) == len(fields) else [Problem("fields", config["fields"], why, remedy)]

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        if problems := self.validate(config):
            raise ConfigError(problems)
        self._keys: list[str] = parsed["headers"]
        self._paths: list[_Path] = [tuple(path.split(".")) for path in parsed["fields"]]
        self._moves = parsed["operation"] == _MOVE

    def apply(self, records: Records) -> Records:
        """Return the records with new fields and, for a move, fewer headers."""
        assert records.header_values is not None, "a chain without it is refused"
        named = [_Header(key, records.header_values) for key in self._keys]
        has_some = F.coalesce(F.exists("headers", lambda one: one["key"].isin(*self._keys)), F.lit(False))
        faults = F.coalesce(*(header.fault() for header in named))
        cases, messages, gains = [], [], F.lit(False)
        for number, schema in enumerate(records.values):
            value = records.value(number)
            rows = (F.col("value_schema") == number) & value.isNotNull()
            if schema is None or schema.type is not SchemaType.STRUCT:
                found = class_of_json(value) if schema is None else F.lit(class_of(schema))
                messages.append(F.when(rows, only_struct(_PURPOSE, found)))
                continue
            try:
                made, changed = _struct(value, schema, list(zip(self._paths, named, strict=True)))
            except RefusedError as error:
                messages.append(F.when(rows & has_some, error.message))
                continue
            gains = gains | F.coalesce(rows & has_some, F.lit(False))
            cases.append(Case(made, changed, number, rows & has_some))
        columns = {}
        if self._moves:
            others = F.filter("headers", lambda one: ~one["key"].isin(*self._keys))
            columns["headers"] = F.when(gains, others).otherwise(F.col("headers"))
        message = F.coalesce(*messages, F.when(gains, faults))
        return records.changed(columns, values=cases, message=message)


def _struct(value: Column, schema: Schema, new: Sequence[tuple[_Path, _Header]]) -> tuple[Column, Schema]:
    """Return the struct with new fields, and its schema. Errors: RefusedError."""
    deeper: dict[str, list[tuple[_Path, _Header]]] = {}
    for path, header in new:
        if path[1:]:
            deeper.setdefault(path[0], []).append((path[1:], header))
    for name, [(path, _), *_] in deeper.items():
        found = schema.field(name)
        if found is None or found.schema.type is not SchemaType.STRUCT:
            raise RefusedError(_NO_STRUCT.format(name, path[-1]))
    fields = []
    for field in schema.fields:
        column, of = field_value(value, field, True), field.schema
        if field.name in deeper:
            made, of = _struct(column, of, deeper[field.name])
            column = F.when(column.isNotNull(), made)
        fields.append((Field(field.name, of), column))
    fields += [(Field(path[0], header.values.schema), header.value()) for path, header in new if not path[1:]]
    names = [field for field, _ in fields]
    if (message := twice(names)) is not None:
        raise RefusedError(message)
    return struct_of(fields), struct_schema(schema, names)


@dataclass(frozen=True)
class _Header:
    """The last header of a key."""

    key: str
    values: HeaderValues

    @property
    def found(self) -> Column:
        """The header, null if there is none."""
        return F.try_element_at(F.filter("headers", lambda one: one["key"] == F.lit(self.key)), F.lit(-1))

    def value(self) -> Column:
        """Return the value; null if there is none."""
        data = self.found.getField("value")
        return F.when(data.isNotNull(), self.values.read(data)[0])

    def fault(self) -> Column:
        """Return why it has no value of a known type; null if it has, or is missing."""
        data = self.found.getField("value")
        value, why = self.values.read(data)
        was_fetched = F.coalesce(F.array_contains(FETCHED_HEADERS, self.found), F.lit(False))
        return F.when(self.found.isNotNull() & ~was_fetched, F.lit(_MADE_HERE.format(self.key))).when(
            data.isNotNull() & value.isNull(), why
        )
