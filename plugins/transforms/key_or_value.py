"""Base of transforms in two variants, of keys and of values: `X$Key` and `X$Value`."""

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
    """New values for one schema."""

    value: Column | None
    """None: unchanged; `message` says which rows fail."""
    schema: Schema | None
    """None: schemaless, as JSON text."""
    message: Column | None = None
    """Error of a row, null if it has none; evaluated only for rows for which `holds` is true or None."""
    holds: Column | None = None
    """Rows that change; None: all."""


class KeyOrValue(Transform):
    """Changes keys or values, schema by schema."""

    is_key: ClassVar[bool]

    @abstractmethod
    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return the new values for this schema, including nulls; None: unchanged."""

    @abstractmethod
    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return the new schemaless values (JSON text or null); None: unchanged."""

    def nothing(self, records: Records) -> Became | None:
        """Return the new value of a null without schema (a tombstone); None: unchanged."""
        return None

    def apply(self, records: Records) -> Records:
        """Return the records with changed keys or values, for all schemas."""
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
    """Return Connect's message for a value that is not a struct; `found` is its Java class."""
    return F.concat(F.lit(f"Only Struct objects supported for [{purpose}], found: "), found)


def only_map(purpose: str, found: Column) -> Column:
    """Return Connect's message for a schemaless value that is not a map; `found` is its Java class."""
    return F.concat(F.lit(f"Only Map objects supported in absence of schema for [{purpose}], found: "), found)
