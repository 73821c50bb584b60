"""Transforms of which there are two, one of keys and one of values: `X$Key` and `X$Value`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.contracts import Transform
from headrace.plugins.records import Case, Records
from headrace.plugins.schema import Schema


class Became(NamedTuple):
    """The new values of one schema."""

    value: Column | None
    """None: they stay as they are, and `message` says which rows fail."""
    schema: Schema | None
    """None: schemaless, as JSON text."""
    message: Column | None = None
    """Why a row fails, null for those that do not; evaluated only for rows of which `holds` is true or None."""
    holds: Column | None = None
    """The rows that become so, the others stay as they are; None: all."""


class KeyOrValue(Transform):
    """Changes keys, or values, schema by schema."""

    is_key: ClassVar[bool]

    @abstractmethod
    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """The new values of this schema, also of nulls; None: they stay as they are."""

    @abstractmethod
    def schemaless(self, value: Column, records: Records) -> Became | None:
        """The new schemaless values (JSON text, or null); None: they stay as they are."""

    def nothing(self, records: Records) -> Became | None:
        """The new value of a null without schema (a tombstone); None: it stays."""
        return None

    def apply(self, records: Records) -> Records:
        """The keys or values changed, whatever their schemas."""
        side = "key" if self.is_key else "value"
        cases, messages = [], []
        for rows, of, became in self._all(records, F.col(f"{side}_schema")):
            whole = rows if became.holds is None else rows & became.holds
            if became.value is not None:
                cases.append(Case(became.value, became.schema, of, whole if of is None else became.holds))
            if became.message is not None:
                messages.append(F.when(whole, became.message))
        message = F.coalesce(*messages) if messages else None
        keys, values = (cases, []) if self.is_key else ([], cases)
        return records.changed(keys=keys, values=values, message=message)

    def _all(self, records: Records, index: Column) -> Iterator[tuple[Column, int | None, Became]]:
        for number, schema in enumerate(records.keys if self.is_key else records.values):
            value = records.key(number) if self.is_key else records.value(number)
            given = self.schemaless(value, records) if schema is None else self.with_schema(value, schema, records)
            if given is not None:
                yield index == number, number, given
        if (given := self.nothing(records)) is not None:
            yield index.isNull(), None, given


def only_struct(purpose: str, found: Column) -> Column:
    """Connect's message for a value that is no struct; `found` names its Java class."""
    return F.concat(F.lit(f"Only Struct objects supported for [{purpose}], found: "), found)


def only_map(purpose: str, found: Column) -> Column:
    """Connect's message for a schemaless value that is no map; `found` names its Java class."""
    return F.concat(F.lit(f"Only Map objects supported in absence of schema for [{purpose}], found: "), found)
