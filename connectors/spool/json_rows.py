"""JSON objects one after the other, or in one list; read by Arrow's own reader.

Numbers and booleans reach the fields' types as the texts that they are in the file, as the cells of CSV do: so no digit
of a decimal is lost, and a field of strings takes any scalar.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from headrace.connectors.spool.cells import Cells
from headrace.connectors.spool.errors import Unreadable
from headrace.connectors.spool.text_records import Found, TextRecords, escaped
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.schema import Schema

_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _NEWLINE = b'"\\{}\n'
_BETWEEN: Final = np.frombuffer(b" \t\r\n[],", np.uint8)
_BLANKS: Final = np.frombuffer(b" \t\r\n", np.uint8)
_BEFORE_VALUE: Final = np.frombuffer(b":,[", np.uint8)
_AFTER_VALUE: Final = np.frombuffer(b",]}", np.uint8)
_SIGNS: Final = np.frombuffer(b'{}[],:"', np.uint8)
_NO_JSON: Final = "the object is no JSON"
_SCALAR: Final = r"^(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false)$"
_SCALARS: Final = np.frombuffer(b"-0123456789tf", np.uint8)


class _Shape(NamedTuple):
    """The structure of a JSON text, byte by byte."""

    octets: Any
    in_string: Any
    """True within strings, their quotes included."""
    depth: Any
    """The number of objects around each byte, an object's own braces included."""


def _shape(data: bytes) -> _Shape:
    octets = np.frombuffer(data, np.uint8)
    is_quote = octets == _QUOTE
    if _BACKSLASH in data:
        after = escaped(data, _BACKSLASH)
        is_quote[after[after < len(data)]] = False
    opened = np.cumsum(is_quote) % 2 == 1
    in_string = opened | is_quote
    opens, closes = (octets == _OPEN) & ~in_string, (octets == _CLOSE) & ~in_string
    steps = opens.astype(np.int32)
    steps[1:] -= closes[:-1]
    return _Shape(octets, in_string, np.cumsum(steps))


def find_objects(data: bytes, closed: bool) -> Found:
    """Find objects; between them stand blanks, commas, and the brackets of a list."""
    shape = _shape(data)
    ends = np.flatnonzero((shape.octets == _CLOSE) & ~shape.in_string & (shape.depth == 1)) + 1
    foreign = np.flatnonzero((shape.depth < 1) & ~np.isin(shape.octets, _BETWEEN))
    if len(foreign):
        return Found(ends[ends <= foreign[0]], "it is no JSON object")
    rest = data[ends[-1] if len(ends) else 0 :]
    return Found(ends, "it ends within a JSON object" if closed and _OPEN in rest else None)


class JsonTexts(NamedTuple):
    """Objects without what stands between them, and without blanks outside of strings."""

    octets: Any
    in_string: Any
    ends: Any


def compact(data: bytes, ends: Any) -> JsonTexts:
    """Return the texts of objects. Errors: Unreadable for blanks between signs that mean nothing to each other."""
    shape = _shape(data)
    kept = (shape.depth > 0) & (shape.in_string | ~np.isin(shape.octets, _BLANKS))
    places = np.flatnonzero(kept)
    parted = np.flatnonzero(np.diff(places) > 1)
    beside = np.isin(shape.octets[places[parted]], _SIGNS) | np.isin(shape.octets[places[parted + 1]], _SIGNS)
    if not beside.all():
        raise Unreadable(_NO_JSON)  # blanks within a number, say, which would become one
    return JsonTexts(shape.octets[kept], shape.in_string[kept], np.cumsum(kept)[ends - 1])


@dataclass(frozen=True)
class JsonRows:
    """Reads objects as values of a schema."""

    cells: Cells
    value: Schema | None
    key: Schema | None

    def begin(self, records: TextRecords) -> tuple[str, ...]:
        """Pass over nothing; there are no columns."""
        return ()

    def find(self, data: bytes, closed: bool) -> Found:
        """Find objects."""
        return find_objects(data, closed)

    def parse(self, data: bytes, ends: Any, names: Sequence[str]) -> tuple[Any, Any]:
        """Return the values and keys of objects. Errors: Unreadable if one does not fit."""
        text = _with_quoted_scalars(compact(data, ends))
        return self._typed(self.value, text, len(ends)), self._typed(self.key, text, len(ends))

    def _typed(self, schema: Schema | None, text: bytes, rows: int) -> Any:
        if schema is None:
            return pa.nulls(rows)
        columns = pa.schema([(field.name, self.cells.texts(field.schema, True)) for field in schema.fields])
        table = _table(text, columns, rows)
        parts = [
            self.cells.typed(table.column(field.name).combine_chunks(), field.schema, field.name)
            for field in schema.fields
        ]
        return pa.StructArray.from_arrays(parts, fields=list(arrow_type_of_schema(schema)))


def _table(text: bytes, columns: pa.Schema, rows: int) -> pa.Table:
    """The columns of objects that stand a line each. Errors: Unreadable if one is no JSON, or of another type."""
    parsing = arrow_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    reading = arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    try:
        table = arrow_json.read_json(io.BytesIO(text), reading, parsing)
    except pa.ArrowInvalid as error:
        raise Unreadable(f"the object is no JSON, or has another type: {error}") from error
    if table.num_rows != rows:
        raise Unreadable(_NO_JSON)
    return table


def _with_quoted_scalars(texts: JsonTexts) -> bytes:
    """The objects a line each, with quotes around numbers and booleans."""
    octets, outside = texts.octets, ~texts.in_string
    before = np.append(np.uint8(0), octets[:-1])
    was_outside = np.append(True, outside[:-1])
    begins = np.flatnonzero(outside & was_outside & np.isin(octets, _SCALARS) & np.isin(before, _BEFORE_VALUE))
    stops = np.flatnonzero(outside & np.isin(octets, _AFTER_VALUE))
    found = stops[np.searchsorted(stops, begins)]  # an object ends with a brace, so that there is one
    change = np.zeros(len(octets) + 1, np.int32)
    change[begins], change[found] = 1, -1
    scalars = text_array(octets[np.cumsum(change[:-1]) > 0].tobytes(), np.cumsum(found - begins))
    if not pc.all(pc.match_substring_regex(scalars, _SCALAR), min_count=0).as_py():
        raise Unreadable(_NO_JSON)
    places = np.concatenate([begins, found, texts.ends])
    signs = np.repeat(np.array([_QUOTE, _QUOTE, _NEWLINE], np.uint8), [len(begins), len(begins), len(texts.ends)])
    return np.insert(octets, places, signs).tobytes()


@dataclass(frozen=True)
class JsonTextRows:
    """Reads objects as their texts."""

    def begin(self, records: TextRecords) -> tuple[str, ...]:
        """Pass over nothing; there are no columns."""
        return ()

    def find(self, data: bytes, closed: bool) -> Found:
        """Find objects."""
        return find_objects(data, closed)

    def parse(self, data: bytes, ends: Any, names: Sequence[str]) -> tuple[Any, Any]:
        """Return the texts of objects, without blanks outside of strings. Errors: Unreadable if one is no JSON."""
        texts = compact(data, ends)
        _table(_with_lines(texts.octets, texts.ends), pa.schema([]), len(ends))
        return text_array(texts.octets.tobytes(), texts.ends), pa.nulls(len(ends))


def _with_lines(octets: Any, ends: Any) -> bytes:
    return np.insert(octets, ends, np.uint8(_NEWLINE)).tobytes()


def text_array(data: bytes, ends: Any) -> Any:
    """Return texts that stand one after the other. Errors: Unreadable if they are not UTF-8."""
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    made = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))
    if not data.isascii():
        try:
            made.validate(full=True)
        except pa.ArrowInvalid as error:
            raise Unreadable("its text is not UTF-8: set the charset of the files") from error
    return made
