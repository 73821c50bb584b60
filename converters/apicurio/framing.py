"""Apicurio's framing: zero and an id in four or eight bytes before a value, or an id in a header of its record.

What a header says is put before the bytes of a record as `1` (the id of the content) or `2` (a global id) and the
eight bytes of the header.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.registry.framing import Framing, IdForm

_ID: Final = b"\x00"
_IN_HEADERS: Final = {"contentIds": b"\x01", "globalIds": b"\x02"}
_NOTHING: Final = b"\xff"
"""Put before bytes that name no schema, which might begin as if a header did."""
_BYTES_IN_HEADER: Final = 8


def forms(sizes: Sequence[int], in_headers: bool) -> tuple[IdForm, ...]:
    """The forms of ids of these sizes; of two, the longer one begins with zeros."""
    before = len(_ID)
    named = [IdForm(start, before + _BYTES_IN_HEADER) for start in _IN_HEADERS.values()] if in_headers else []
    short, *long = sizes
    padded = [IdForm(bytes(before + size - short), before + size) for size in long]
    return (*named, *padded, IdForm(_ID, before + short))


@dataclass(frozen=True)
class ApicurioFraming(Framing):
    """Apicurio's forms, and the headers if they count."""

    use: str
    """The kind of ids before values: contentIds or globalIds."""
    headers: Mapping[str, str] | None
    """The names of headers by the kind of their ids."""

    def framed(self, data: Column, headers: Column) -> Column:
        """The bytes with the id of a header before them, if the record has one; that of the content wins."""
        if self.headers is None:
            return data
        named = F.when(F.startswith(data, F.lit(_ID)), data).otherwise(F.concat(F.lit(_NOTHING), data))
        for kind in ("globalIds", "contentIds"):
            found = last_header(headers, self.headers[kind])
            whole = F.concat(F.lit(_IN_HEADERS[kind]), found, self.body(data, headers))
            named = F.when(F.octet_length(found) == F.lit(_BYTES_IN_HEADER), whole).otherwise(named)
        return named

    def body(self, data: Column, headers: Column) -> Column:
        """The bytes that follow the id of a header."""
        return data

    def named(self, prefix: bytes) -> tuple[str, int]:
        """The kind and the number of the id in these bytes."""
        kinds = {start: kind for kind, start in _IN_HEADERS.items()}
        return kinds.get(prefix[:1], self.use), int.from_bytes(prefix[1:], "big", signed=True)


def last_header(headers: Column, name: str) -> Column:
    """The value of the last header of this name; null if there is none."""
    return F.try_element_at(F.filter(headers, lambda header: header["key"] == F.lit(name)), F.lit(-1))["value"]
