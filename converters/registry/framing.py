"""Bytes that name a schema in a registry, before a value or in a header of its record.

A `Framing` knows the forms of such bytes; Confluent's are

| first byte | then |
|---|---|
| 0 | the schema's id in four bytes |
| 1 | the schema's GUID in sixteen bytes |

A header of the record may hold the same bytes in place of those before the value. Some kinds of schemas have more bytes
between them and the value.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

ID: Final = b"\x00"
GUID: Final = b"\x01"


@dataclass(frozen=True)
class IdForm:
    """One form of the bytes that name a schema, told by those that it starts with."""

    start: bytes
    length: int
    """All bytes, those of `start` included."""


@dataclass(frozen=True)
class Framing:
    """The forms of the bytes that name a schema; the first whose start fits counts."""

    forms: Sequence[IdForm]

    def length(self, data: bytes) -> int:
        """The length of the bytes that name the schema; 0 if these bytes name none."""
        found = next((form.length for form in self.forms if data.startswith(form.start)), 0)
        return found if found <= len(data) else 0

    def column(self, data: Column) -> Column:
        """The bytes that name the schema; null if these bytes name none."""
        size, nothing = F.octet_length(data), F.lit(None).cast("binary")

        def or_else(others: Column, form: IdForm) -> Column:
            found = F.when(size >= F.lit(form.length), F.substring(data, 1, form.length))
            return F.when(F.startswith(data, F.lit(form.start)), found).otherwise(others)

        return reduce(or_else, reversed(self.forms), nothing)

    def framed(self, data: Column, headers: Column) -> Column:
        """The bytes with those of a header before them, in one of the forms."""
        return data


CONFLUENT: Final = (IdForm(ID, 5), IdForm(GUID, 17))


@dataclass(frozen=True)
class ConfluentFraming(Framing):
    """Confluent's forms, and the header of this side if headers count."""

    header: str | None

    def framed(self, data: Column, headers: Column) -> Column:
        """The bytes with the last header that names the schema before them, if the record has one."""
        if self.header is None:
            return data
        named = F.filter(headers, lambda header: header["key"] == F.lit(self.header))
        found = F.try_element_at(named, F.lit(-1))["value"]
        return F.when(F.size(headers) > 0, F.coalesce(F.concat(found, data), data)).otherwise(data)


def id_prefix(schema_id: int) -> bytes:
    """Confluent's bytes before a value of the schema with this id."""
    return ID + schema_id.to_bytes(4, "big")


def named_schema(prefix: bytes) -> int | str:
    """The id or the GUID in Confluent's bytes."""
    return int.from_bytes(prefix[1:], "big") if prefix[:1] == ID else str(uuid.UUID(bytes=prefix[1:]))
