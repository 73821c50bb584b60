"""The changes that a table needs to hold records of another schema.

Decided: decimals are not widened, because Connect's have no precision and each would become one of 38 digits; loses:
larger numbers, which are refused, until the column is widened by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

from headrace.connectors.lake.iceberg.schemas import (
    AddColumn,
    Change,
    Changes,
    Field,
    ListOf,
    MakeOptional,
    MapOf,
    Struct,
    Type,
    Widen,
)

_WIDER: Final = {("int", "long"), ("float", "double")}


@dataclass(frozen=True)
class Evolution:
    """Compares the schemas of a table and of records."""

    ignores_case: bool = False
    keys: Collection[str] = ()
    """The paths of columns that stay required, by dots."""

    def changes(self, table: Struct, record: Struct) -> list[Change]:
        """Return the changes, in their order."""
        return list(self._of_struct(table, record, ()))

    def column(self, table: Struct, name: str) -> Field | None:
        """Return the column for a field of this name."""
        exact = next((one for one in table.fields if one.name == name), None)
        if exact is not None or not self.ignores_case:
            return exact
        return next((one for one in table.fields if one.name.lower() == name.lower()), None)

    def _of_struct(self, table: Struct, record: Struct, path: tuple[str, ...]) -> Iterator[Change]:
        for field in record.fields:
            column = self.column(table, field.name)
            if column is None:
                yield AddColumn(path, field.name, optional(field.type))
                continue
            at = (*path, column.name)
            if column.required and not field.required and not self._is_key(at):
                yield MakeOptional(at)
            yield from self._of_type(column.type, field.type, at)

    def _is_key(self, at: tuple[str, ...]) -> bool:
        """True for a column of the key, and for one around it."""
        return any(f"{key}.".startswith(f"{'.'.join(at)}.") for key in self.keys)

    def _of_type(self, column: Type, value: Type, at: tuple[str, ...]) -> Iterator[Change]:
        match column, value:
            case Struct(), Struct():
                yield from self._of_struct(column, value, at)
            case ListOf(), ListOf():
                inner = (*at, "element")
                if column.element_required and not value.element_required:
                    yield MakeOptional(inner)
                yield from self._of_type(column.element, value.element, inner)
            case MapOf(), MapOf():
                inner = (*at, "value")
                if column.value_required and not value.value_required:
                    yield MakeOptional(inner)
                yield from self._of_type(column.value, value.value, inner)
            case str(), str() if (column, value) in _WIDER:
                yield Widen(at, value)


def added(changes: Changes) -> tuple[str, ...]:
    """Return the paths of the columns that these changes add, by dots."""
    return tuple(".".join((*one.parent, one.name)) for one in changes if isinstance(one, AddColumn))


def optional(kind: Type) -> Type:
    """Return the type with all that is in it optional."""
    match kind:
        case Struct():
            return Struct(tuple(replace(one, type=optional(one.type), required=False) for one in kind.fields))
        case ListOf():
            return replace(kind, element=optional(kind.element), element_required=False)
        case MapOf():
            return replace(kind, value=optional(kind.value), value_required=False)
    return kind
