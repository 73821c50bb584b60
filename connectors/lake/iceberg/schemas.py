"""Iceberg's schemas: fields with ids, from and to the JSON of table metadata, and as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Struct:
    """The type of a struct, and the schema of a table."""

    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ListOf:
    """The type of a list."""

    element_id: int
    element: Type
    element_required: bool = False


@dataclass(frozen=True)
class MapOf:
    """The type of a map."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool = False


Type = str | Struct | ListOf | MapOf
"""A primitive type has Iceberg's name, such as `long`, `decimal(10,2)`, `timestamptz` or `fixed[16]`."""


@dataclass(frozen=True)
class Field:
    """A column of a table, or a field of a struct."""

    id: int
    name: str
    type: Type
    required: bool = False
    write_default: Any = None
    """The value of rows that have none (format version 3), as Iceberg's JSON of single values; None: null."""


@dataclass(frozen=True)
class AddColumn:
    """A change of a table: a new optional column, or a field of the struct at `parent`; its ids are given by the table.

    In `parent`, a list's element is `element`, a map's value `value`.
    """

    parent: tuple[str, ...]
    name: str
    type: Type


@dataclass(frozen=True)
class Widen:
    """A change of a table: the column at this path gets a wider type (int to long, float to double, more digits)."""

    path: tuple[str, ...]
    type: str


@dataclass(frozen=True)
class MakeOptional:
    """A change of a table: the column at this path may be null."""

    path: tuple[str, ...]


Change = AddColumn | Widen | MakeOptional
Changes = Sequence[Change]
