"""Apache's transforms of headers, whose values are carried as the bytes of the header converter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Importance, Problem, Setting, Settings, Type
from headrace.config.validators import Check, ListOf, OneOf
from headrace.config.values import invalid
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.interop.java.json_members import is_object, member, members, object_text
from headrace.plugins.interop.java.literals import parse_literal
from headrace.plugins.records import HEADERS, Case, Records
from headrace.plugins.schema import Schema, SchemaType, literal
from headrace.plugins.transforms.key_or_value import only_map, only_struct
from headrace.plugins.transforms.struct_fields import REPLACE_NULLS, field_value, struct_of, struct_schema

_MOVE: Final = "move"
_COPY: Final = "copy"


def _not_empty(name: str, value: Any) -> str | None:
    return None if value else invalid(name, value, "Empty list")


def _not_null(name: str, value: Any) -> str | None:
    return invalid(name, value, "entry must be non null") if value is None else None


_LIST: Final = Check(_not_empty, "a comma-separated list of one or more")
_TEXT: Final = Check(_not_null, "a text")


class DropHeaders(Transform):
    """Removes headers with these keys; the others keep their order."""

    settings: ClassVar[Settings] = Settings(
        Setting("headers", Type.LIST, REQUIRED, ListOf(empty=False), Importance.HIGH, "The keys of these headers.")
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._keys: list[str] = self.settings.parse(config)["headers"]

    def apply(self, records: Records) -> Records:
        """Return the records without these headers."""
        return records.changed({"headers": F.filter(F.col("headers"), lambda one: ~one["key"].isin(*self._keys))})


class InsertHeader(Transform):
    """Adds a header with a fixed value, whose type is inferred from the text (`java.literals`)."""

    settings: ClassVar[Settings] = Settings(
        Setting("header", Type.STRING, REQUIRED, _TEXT, Importance.HIGH, "The key of the new header."),
        Setting(
            "value.literal",
            Type.STRING,
            REQUIRED,
            _TEXT,
            Importance.HIGH,
            "Its value: a number, true, a date, an array in [], a map in {}, or else a text.",
        ),
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._key: str = parsed["header"]
        self._literal = parse_literal(parsed["value.literal"])

    def apply(self, records: Records) -> Records:
        """Append the header to each record."""
        schema, value = self._literal
        new, refused = made_header(records, self._key, literal(value, schema), schema)
        return records.changed({"headers": appended([new])}, message=refused)


class _Taken(NamedTuple):
    """Headers and changed values of the rows of one schema."""

    headers: list[Column]
    case: Case | None
    message: Column
    """Null for rows that have the fields."""


class HeaderFrom(Transform):
    """Copies or moves fields into headers; existing headers with the same keys stay, before the new ones.

    Decided: a struct without the field is an error of its record that names the field, because Connect crashes there;
    loses: nothing. An object without the member gets a null header, as in Connect.
    """

    is_key: ClassVar[bool]
    settings: ClassVar[Settings] = Settings(
        Setting("fields", Type.LIST, REQUIRED, _LIST, Importance.HIGH, "The fields that become headers."),
        Setting(
            "headers", Type.LIST, REQUIRED, _LIST, Importance.HIGH, "The keys of the headers, in the order of fields."
        ),
        Setting(
            "operation",
            Type.STRING,
            REQUIRED,
            OneOf(_MOVE, _COPY),
            Importance.HIGH,
            "Whether the fields stay (copy) or go (move).",
        ),
        REPLACE_NULLS,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._fields: list[str] = parsed["fields"]
        self._keys: list[str] = parsed["headers"]
        self._moves = parsed["operation"] == _MOVE
        self._replace_nulls: bool = parsed["replace.null.with.default"]
        if len(self._fields) != len(self._keys):
            text = "'fields' config must have the same number of elements as 'headers' config."
            raise ConfigError(Problem("headers", config["headers"], text, f"Name {len(self._fields)} headers."))

    @property
    def _purpose(self) -> str:
        return f"header {_MOVE if self._moves else _COPY}"

    def apply(self, records: Records) -> Records:
        """Return the records with more headers and, for a move, changed keys or values."""
        index = F.col("key_schema" if self.is_key else "value_schema")
        headers, message = F.col("headers"), only_map(self._purpose, F.lit("null"))
        cases: list[Case] = []
        for number, taken in self._all(records):
            headers = F.when(index == number, appended(taken.headers)).otherwise(headers)
            message = F.when(index == number, taken.message).otherwise(message)
            cases += [] if taken.case is None else [taken.case]
        keys, values = (cases, []) if self.is_key else ([], cases)
        return records.changed({"headers": headers}, keys=keys, values=values, message=message)

    def _all(self, records: Records) -> Iterator[tuple[int, _Taken]]:
        for number, schema in enumerate(records.keys if self.is_key else records.values):
            value = records.key(number) if self.is_key else records.value(number)
            if schema is None:
                yield number, self._from_object(records, value, number)
            else:
                yield number, self._from_struct(records, value, schema, number)

    def _from_struct(self, records: Records, value: Column, schema: Schema, number: int) -> _Taken:
        missing = next((name for name in self._fields if schema.field(name) is None), None)
        null = F.when(value.isNull(), only_struct(self._purpose, F.lit("null")))
        if schema.type is not SchemaType.STRUCT:
            return _Taken([], None, F.coalesce(null, only_struct(self._purpose, F.lit(class_of(schema)))))
        if missing is not None:
            return _Taken([], None, F.coalesce(null, F.lit(f"Field does not exist: {missing}")))
        values = {one.name: field_value(value, one, self._replace_nulls) for one in schema.fields}
        schemas = {one.name: one.schema for one in schema.fields}
        named = zip(self._fields, self._keys, strict=True)
        headers, refused = _headers(made_header(records, key, values[name], schemas[name]) for name, key in named)
        case = None
        if self._moves:
            kept = [one for one in schema.fields if one.name not in self._fields]
            less = struct_of((one, values[one.name]) for one in kept)
            case = Case(F.when(value.isNotNull(), less), struct_schema(schema, kept), number)
        return _Taken(headers, case, F.coalesce(null, refused))

    def _from_object(self, records: Records, value: Column, number: int) -> _Taken:
        named = zip(self._fields, self._keys, strict=True)
        headers, unfit = _headers(made_header(records, key, member(value, name), None) for name, key in named)
        case = None
        if self._moves:
            kept = F.filter(members(value), lambda one: ~one["name"].isin(*self._fields))
            case = Case(object_text(kept), None, number)
        refused = F.when(value.isNull() | ~is_object(value), only_map(self._purpose, class_of_json(value)))
        return _Taken(headers, case, F.coalesce(refused, unfit))


class HeaderFromKey(HeaderFrom):
    """HeaderFrom of keys."""

    is_key = True


class HeaderFromValue(HeaderFrom):
    """HeaderFrom of values."""

    is_key = False


def made_header(records: Records, key: str, value: Column, schema: Schema | None) -> tuple[Column, Column]:
    """Return the header, and why the header converter refuses its value: null if it does not."""
    assert records.header_bytes is not None, "transforms run in a chain, which knows the header converter"
    data, refused = records.header_bytes(value, schema)
    return F.struct(F.lit(key).alias("key"), data.alias("value")), F.when(data.isNull(), refused)


def _headers(made: Iterable[tuple[Column, Column]]) -> tuple[list[Column], Column]:
    """Return the headers, and the reason of the first refused one."""
    headers, refused = zip(*made, strict=True)
    return list(headers), F.coalesce(*refused)


def appended(headers: Sequence[Column]) -> Column:
    """Return the record's headers followed by these."""
    new = F.array(*headers).cast(HEADERS)
    return F.concat(F.coalesce(F.col("headers"), F.array().cast(HEADERS)), new)
