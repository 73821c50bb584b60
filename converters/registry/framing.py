"""Confluent's framing: bytes that name a schema in a registry, before a value or in a header of its record.

| first byte | then |
|---|---|
| 0 | the schema's id in four bytes |
| 1 | the schema's GUID in sixteen bytes |

A header of the record may hold the same bytes in place of those before the value. Some kinds of schemas have more bytes
between them and the value.
"""

from __future__ import annotations

import uuid
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

PREFIX: Final = 5
"""The bytes of an id, the first included."""
LONG_PREFIX: Final = 17
"""The bytes of a GUID, the first included."""
_ID: Final = b"\x00"
_GUID: Final = b"\x01"


def id_prefix(schema_id: int) -> bytes:
    """The bytes before a value of the schema with this id."""
    return _ID + schema_id.to_bytes(4, "big")


def prefix_length(data: bytes) -> int:
    """The length of the bytes that name the schema; 0 if these bytes name none."""
    if data[:1] == _ID and len(data) >= PREFIX:
        return PREFIX
    return LONG_PREFIX if data[:1] == _GUID and len(data) >= LONG_PREFIX else 0


def named_schema(prefix: bytes) -> int | str:
    """The id or the GUID in a prefix."""
    if prefix[:1] == _ID:
        return int.from_bytes(prefix[1:PREFIX], "big")
    return str(uuid.UUID(bytes=prefix[1:LONG_PREFIX]))


def prefix_column(data: Column) -> Column:
    """The bytes that name the schema; null if these bytes name none."""
    length = F.octet_length(data)
    by_id = F.startswith(data, F.lit(_ID)) & (length >= F.lit(PREFIX))
    by_guid = F.startswith(data, F.lit(_GUID)) & (length >= F.lit(LONG_PREFIX))
    return F.when(by_id, F.substring(data, 1, PREFIX)).when(by_guid, F.substring(data, 1, LONG_PREFIX))


def with_header(data: Column, headers: Column, side: str) -> Column:
    """The bytes with the last header that names the schema of this side before them, if the record has one."""
    name = F.lit(f"__{side}_schema_id")
    found = F.try_element_at(F.filter(headers, lambda header: header["key"] == name), F.lit(-1))["value"]
    return F.when(F.size(headers) > 0, F.coalesce(F.concat(found, data), data)).otherwise(data)
