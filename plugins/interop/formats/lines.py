r"""JSON, text and bytes: values one after the other, each with its end mark; plain, or as one gzip stream.

| format | a value | ended by |
|---|---|---|
| JSON | as JsonConverter without schemas prints it; schemaless ones as they came | `\n` |
| text | as Java's `String.valueOf` prints it | `\n` |
| bytes | as it is; BYTES only | `format.bytearray.separator` |

Decided: a file is read as lines without looking into them, JSON's too, because a line is the value that was written;
loses: a line that is not JSON is found only by readers of its value.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats.appending import Appended, Data, binary_parts
from headrace.plugins.interop.formats.format import VALUE, FileWriter, Format
from headrace.plugins.interop.json.writing import NULL_REFUSED, JsonWriter
from headrace.plugins.java_text import java_text
from headrace.plugins.schema import OPTIONAL_BYTES, STRING, Schema, SchemaType, logical, uncarried

MAGIC: Final = b"\x1f\x8b"
_HEADER: Final = MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\xff"
_RAW: Final = -15
"""zlib's sign for deflate without header and check sum."""


class GzipStream:
    """The pieces of one stream."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._crc = self._size = 0
        self._begun = False

    def compressed(self, data: Data) -> list[bytes]:
        """Compresses the next piece."""
        made = zlib.compressobj(self._level, zlib.DEFLATED, _RAW)
        self._crc, self._size = zlib.crc32(data, self._crc), self._size + len(memoryview(data))
        return [*self._header(), made.compress(data), made.flush(zlib.Z_FULL_FLUSH)]

    def _header(self) -> list[bytes]:
        begun, self._begun = self._begun, True
        return [] if begun else [_HEADER]

    def end(self) -> list[bytes]:
        """Ends the stream."""
        check = self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")
        return [*self._header(), zlib.compressobj(wbits=_RAW).flush(), check]


_PIECE_BYTES: Final = 64 << 10
_GZIP_PIECE_BYTES: Final = 256 << 10
_READ_BYTES: Final = 4 << 20
_NEWLINE: Final = b"\n"


class LineFormat(Format):
    """The common part of JSON, text and bytes."""

    def __init__(self, extension: str, gzip_level: int | None, separator: bytes = _NEWLINE) -> None:
        self._gzip_level, self._separator = gzip_level, separator
        self.extension = extension if gzip_level is None else f"{extension}.gz"

    def file(self, local: str, schema: Schema | None) -> FileWriter:
        """Opens a file of lines."""
        return _LineWriter(local, self._gzip_level)

    def layout(self, file: pa.NativeFile) -> Hashable | None:
        """The extension if the file ends with today's separator, else None; gzip streams are not looked into."""
        if self._gzip_level is None:
            file.seek(max(0, file.size() - len(self._separator)))
            if file.read(len(self._separator)) != self._separator:
                return None  # its last value and the next file's first would be one
        return self.extension

    def merge(self, files: Iterable[pa.NativeFile], local: str) -> None:
        """Joins the files; gzip streams in a row are read as one."""
        made = Appended(local)
        for file in files:
            while piece := file.read(_READ_BYTES):
                made.append(piece)


class JsonFormat(LineFormat):
    """A JSON text in each line."""

    def __init__(self, numeric_decimals: bool = False, gzip_level: int | None = None) -> None:
        super().__init__(".json", gzip_level)
        self._writer = JsonWriter(replace_nulls=True, numeric=numeric_decimals)

    def payload(self, value: Column, schema: Schema | None) -> Column:
        """The line; line ends within a JSON text become blanks."""
        if schema is None:
            broken = F.contains(value, F.lit("\n")) | F.contains(value, F.lit("\r"))
            value = F.when(broken, F.translate(value, "\r\n", "  ")).otherwise(value)
        text = self._writer.payload(value, schema, "", "\n")
        return F.when(value.isNotNull(), text).cast("binary")

    def error(self, value: Column, schema: Schema | None) -> Column | None:
        """The error for a forbidden null."""
        refused = value.isNotNull() & self._writer.payload(value, schema, "", "\n").isNull()
        return None if schema is None else F.when(refused, F.lit(NULL_REFUSED))

    def refusal(self, schema: Schema | None) -> str | None:
        """Refuses lists and maps whose items have no schema."""
        if (why := uncarried(schema)) is not None:
            return why
        lacks = schema is not None and _lacks_schema(schema)
        return "JSON needs a schema for the items of lists and maps" if lacks else None

    def read(self, file: pa.NativeFile, schema: Schema | None, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The lines that are not blank."""
        for lines in _pieces(file, _NEWLINE):
            values = _texts(lines)
            kept = values.filter(pc.not_equal(pc.utf8_trim_whitespace(values), ""))
            part, skip = kept.slice(min(skip, len(kept))), max(0, skip - len(kept))
            if len(part):
                yield pa.RecordBatch.from_arrays([part], [VALUE])


class TextFormat(LineFormat):
    """A text in each line."""

    def __init__(self, gzip_level: int | None = None) -> None:
        super().__init__(".txt", gzip_level)

    def payload(self, value: Column, schema: Schema | None) -> Column:
        """The line."""
        line = F.concat(java_text(value, schema), F.lit("\n"))
        return F.when(value.isNotNull(), line).cast("binary")

    def schema_of(self, file: pa.NativeFile) -> Schema | None:
        """STRING, for each file."""
        return STRING

    def read(self, file: pa.NativeFile, schema: Schema | None, skip: int = 0) -> Iterator[pa.RecordBatch]:
        r"""The lines, which may also end with `\r\n`."""
        for lines in _pieces(file, _NEWLINE):
            values = _texts(lines)
            part, skip = values.slice(min(skip, len(values))), max(0, skip - len(values))
            if len(part):
                yield pa.RecordBatch.from_arrays([pc.replace_substring_regex(part, "\r$", "")], [VALUE])


class BytesFormat(LineFormat):
    """Bytes, each followed by the separator."""

    def __init__(self, extension: str = ".bin", separator: bytes = _NEWLINE, gzip_level: int | None = None) -> None:
        super().__init__(extension, gzip_level, separator)

    def payload(self, value: Column, schema: Schema | None) -> Column:
        """The bytes and the separator."""
        return F.concat(value, F.lit(self._separator))

    def refusal(self, schema: Schema | None) -> str | None:
        """Refuses all values but bytes."""
        if schema is not None and schema.type is SchemaType.BYTES and logical(schema) is None:
            return None
        found = "has no schema" if schema is None else f"is of type {schema.name or schema.type}"
        return f"Files of bytes hold bytes only, but the value {found}; use ByteArrayConverter or another format.class"

    def schema_of(self, file: pa.NativeFile) -> Schema | None:
        """BYTES, for each file."""
        return OPTIONAL_BYTES

    def read(self, file: pa.NativeFile, schema: Schema | None, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The values between the separators."""
        if not self._separator:
            raise DataError("Without a separator nothing tells where a value ends: set format.bytearray.separator")
        for values in _pieces(file, self._separator):
            part, skip = values[skip:], max(0, skip - len(values))
            if part:
                yield pa.RecordBatch.from_arrays([pa.array(part, pa.binary())], [VALUE])


def _lacks_schema(schema: Schema) -> bool:
    items = schema.type in (SchemaType.ARRAY, SchemaType.MAP)
    inner: list[Schema | None] = [schema.value_schema] if items else [field.schema for field in schema.fields]
    return any(one is None or _lacks_schema(one) for one in inner)


def _texts(lines: list[bytes]) -> pa.Array:
    """The lines as texts, with U+FFFD for bytes that are not UTF-8."""
    try:
        return pa.array(lines, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([line.decode("utf-8", "replace") for line in lines], pa.string())


def _pieces(file: pa.NativeFile, separator: bytes) -> Iterator[list[bytes]]:
    """The values between separators, some MiB at once; a value after the last one only if it is not empty.

    Errors: DataError for a broken gzip stream.
    """
    file.seek(0)
    begin = file.read(len(MAGIC))
    file.seek(0)
    data: pa.NativeFile = pa.CompressedInputStream(file, "gzip") if begin == MAGIC else file
    rest = b""
    try:
        while chunk := data.read(_READ_BYTES):
            *whole, rest = (rest + chunk).split(separator)
            yield whole
    except pa.ArrowException as error:
        raise DataError(f"The gzip stream is broken: {error}") from error
    except OSError as error:
        if begin != MAGIC:
            raise
        raise DataError(f"The gzip stream is broken: {error}") from error
    if rest:
        yield [rest]


class _LineWriter(FileWriter):
    def __init__(self, local: str, gzip_level: int | None) -> None:
        super().__init__(local)
        self._file = Appended(local)
        self._stream = None if gzip_level is None else GzipStream(gzip_level)
        self._piece_bytes = _PIECE_BYTES if gzip_level is None else _GZIP_PIECE_BYTES
        self._rest = bytearray()

    def write(self, payload: pa.Array) -> None:
        data, positions = binary_parts(payload)
        self.rows += len(positions) - 1
        part = memoryview(data)[positions[0] : positions[-1]]
        if len(part) < self._piece_bytes:
            self._rest += part
            part = part[:0]
        if len(part) or len(self._rest) >= self._piece_bytes:
            self.flush()
            self._append(part)

    def _append(self, data: Data) -> None:
        if len(data):
            self._file.append(*([data] if self._stream is None else self._stream.compressed(data)))

    @property
    def bytes_written(self) -> int:
        return self._file.size + len(self._rest)

    @property
    def buffered_bytes(self) -> int:
        return len(self._rest)

    def flush(self) -> None:
        rest, self._rest = self._rest, bytearray()
        self._append(rest)

    def close(self) -> None:
        self.flush()
        self._file.append(*([] if self._stream is None else self._stream.end()))
