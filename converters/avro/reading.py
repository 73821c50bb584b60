"""Avro's binary values to Connect's, by Spark's own decoder; Column expressions that never raise for data.

Spark's decoder gives a struct of nulls for broken bytes, which looks like a record of nulls. So one byte is appended
and read as the last field `end` of a record around the value: only if `end` has the right value did the value end
where the bytes end. If the value is a record, its fields are placed directly in that outer record, after the bytes
that name the schema, because a nested record costs Spark's decoder four times as much.

The decoder's result for most records is already Connect's value, with a field that is never null. For those, the bytes
before it and `end` are left out while decoding (Avro's schema resolution), so that no struct is made from another.
There `end` is null in a union whose other branch is longer than any record, so that decoding fails although it is left
out.

Decided: bytes after a value are an error, unlike in Java, because they mean that the bytes have another schema; loses:
nothing. If the first of them has the value of `end`, they are not detected.
Decided: strings have U+FFFD for invalid UTF-8, as in Java, but such a key of a map is an error of its record, because
no expression can rename keys without raising for keys that become equal; loses: such records.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from headrace.plugins.interop.avro.carrier import Carriers, carrier_type
from headrace.plugins.interop.avro.parsing import branches, kind_of
from headrace.plugins.interop.avro.shapes import struct_of, unfit, unfit_record, value_of
from headrace.plugins.interop.avro.tree import ANYTHING, AvroOptions, Tree
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.schema import DECIMAL, Schema, SchemaType, logical, spark_type

OPTIONS: Final = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
_END: Final = b"\x02"
"""Avro's 1, and the second branch of a union."""
_MOST: Final = 1 << 30
_BEYOND: Final = 1 << 24
"""More bytes than follow a record; Avro's library refuses sizes above the limit that the worker sets for it."""


@dataclass(frozen=True)
class AvroReader:
    """Reads values of one Avro schema: compute `parse` once, because `read` uses its result several times.

    If `is_as_it_is`, `parse_as_it_is` and `read_as_it_is` are quicker, but give null for some valid bytes, too.
    """

    tree: Tree
    schema: Schema | None
    options: AvroOptions
    prefix: int
    """The bytes before a value, which name the schema."""
    bytes_have_length: bool
    """True if bytes that are a value by themselves have their length before them."""

    @property
    def is_raw(self) -> bool:
        """True if the bytes are the value, without any decoding."""
        return self._has_no_length and (self.schema is None or logical(self.schema) != DECIMAL)

    @property
    def _has_no_length(self) -> bool:
        """True if no length precedes the bytes: the schema is bytes alone."""
        return not self.bytes_have_length and kind_of(self.tree) == "bytes"

    @cached_property
    def _record(self) -> tuple[dict[str, Any], bytes] | None:
        """The record type of the values, and the bytes before it in a union; None for other values."""
        others = branches(self.tree) if isinstance(self.tree, list) else [self.tree]
        record = others[0] if others else None
        if self.schema is None or len(others) != 1 or not isinstance(record, dict) or record["type"] != "record":
            return None
        if isinstance(self.tree, list) and len(self.tree) == 1:
            return None
        return record, bytes([2 * self.tree.index(record)]) if isinstance(self.tree, list) else b""

    @property
    def _null(self) -> bytes | None:
        """The bytes of a null after the prefix; None if null is not a value."""
        if self.schema is None:
            return bytes(len(ANYTHING["fields"]))
        if not isinstance(self.tree, list) or "null" not in self.tree:
            return None
        return bytes([2 * self.tree.index("null")])

    def _names(self) -> tuple[str, str]:
        taken = {field["name"] for field in self._record[0]["fields"]} if self._record else set()
        head, end = "head", "end"
        while {head, end} & taken:
            head, end = f"{head}_", f"{end}_"
        return head, end

    def _carrier(self, end: Tree) -> dict[str, Any]:
        """The carrier of all the bytes, with `end` after them."""
        carriers, (head_name, end_name), before = Carriers(wraps=True), self._names(), self.prefix
        if self._record is None:
            body = [("value", carriers.of(self.tree, self.schema))]
        else:
            record, union = self._record
            carrier, before = carriers.of(record, self.schema), self.prefix + len(union)
            assert isinstance(carrier, dict)
            body = [(field["name"], field["type"]) for field in carrier["fields"]]
        head: Tree = {"type": "fixed", "name": carriers.name(), "size": before}
        return carriers.record([(head_name, head), *body, (end_name, end)])

    def parse(self, data: Column) -> Column:
        """The result of Spark's decoder."""
        if self.is_raw:
            return data
        whole = F.concat(data, F.lit(_END))
        if self._has_no_length:
            length = F.octet_length(data) - F.lit(self.prefix)
            # Avro's length is one byte below 64, and Spark cannot hold a decimal of more bytes.
            size = F.when(length < 64, F.unhex(F.lpad(F.hex(length * 2), 2, "0")))
            whole = F.concat(
                F.substring(data, 1, self.prefix), size, F.substring(data, self.prefix + 1, _MOST), F.lit(_END)
            )
        return self._unless_null(data, from_avro(whole, json.dumps(self._carrier("int")), OPTIONS))

    def _unless_null(self, data: Column, parsed: Column) -> Column:
        if self._record is None or not self._record[1]:
            return parsed
        return F.when(F.substring(data, self.prefix + 1, 1) == F.lit(self._record[1]), parsed)

    def read(self, parsed: Column) -> Column:
        """The value in the result of `parse`, null if the bytes have none."""
        if self.is_raw:
            return F.substring(parsed, self.prefix + 1, _MOST)
        good = parsed.getField(self._names()[1]) == 1
        if self._record is not None and self.schema is not None:
            value = struct_of(parsed, self._record[0], self.schema, self.options)
            bad = unfit_record(self._record[0], self.schema)
        else:
            parsed = parsed.getField("value")
            value = value_of(self.tree, self.schema, self.options)(parsed)
            bad = unfit(self.tree, self.schema)
        if bad is not None:
            good = good & ~F.coalesce(bad(parsed), F.lit(False))
        return F.when(good, value).cast(spark_type(self.schema))

    def value(self, data: Column) -> Column:
        """The value in the bytes, in one expression."""
        if self.is_raw:
            return self.read(data)
        return let(self.parse(data), self.read)

    def error(self, data: Column, message: str) -> Column:
        """`message`, for bytes without a value; null for those of a null."""
        if self._null is None:
            return F.lit(message)
        return F.when(F.substring(data, self.prefix + 1, _MOST) != F.lit(self._null), F.lit(message))

    @cached_property
    def is_as_it_is(self) -> bool:
        """True if the decoder's record is the value, except for invalid UTF-8, and has a field that is never null."""
        if self._record is None or self.schema is None or unfit_record(self._record[0], self.schema) is not None:
            return False
        carriers = self._carrier("int")["fields"][1:-1]
        alike = all(
            field.schema.default is None
            and spark_type(field.schema) == carrier_type(carrier["type"])
            and (field.schema.type is SchemaType.STRING or not _holds_text(field.schema))
            for field, carrier in zip(self.schema.fields, carriers, strict=True)
        )
        return alike and any(not field.schema.optional for field in self.schema.fields)

    def parse_as_it_is(self, data: Column) -> Column:
        """The decoder's record, without the bytes before it and `end`."""
        writer = self._carrier([{"type": "fixed", "name": "none", "size": _BEYOND}, "null"])
        reader = {**writer, "fields": writer["fields"][1:-1]}
        options = {**OPTIONS, "avroSchema": json.dumps(reader)}
        return self._unless_null(data, from_avro(F.concat(data, F.lit(_END)), json.dumps(writer), options))

    def read_as_it_is(self, parsed: Column) -> Column:
        """The value in the result of `parse_as_it_is`."""
        assert self.schema is not None
        never_null = next(field.name for field in self.schema.fields if not field.schema.optional)
        good = parsed.getField(never_null).isNotNull()
        for field in self.schema.fields:
            if _holds_text(field.schema):
                good = good & F.coalesce(F.is_valid_utf8(parsed.getField(field.name)), F.lit(True))
        return F.when(good, parsed).cast(spark_type(self.schema))


def _holds_text(schema: Schema) -> bool:
    """True if values are texts or contain texts."""
    match schema.type:
        case SchemaType.ARRAY | SchemaType.MAP:
            return schema.value_schema is None or _holds_text(schema.value_schema) or schema.key_schema is not None
        case SchemaType.STRUCT:
            return any(_holds_text(field.schema) for field in schema.fields)
    return schema.type is SchemaType.STRING
