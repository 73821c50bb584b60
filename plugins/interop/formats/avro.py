"""Avro container files: Spark's encoder makes each value's bytes, and whole runs of these are the blocks.

Values in a block stand one after the other as they do in an Arrow array of their bytes, so a block is a slice of that
array's buffer. The schema in the header is that of Confluent's AvroData.

Decided: blocks of 64 KiB before compression, as Java's writer has, because the rest that waits for its block is then
little in each of 500 open files; loses: a few per cent of size against larger ones.

Decided: decimals have precision 38 if their schema has none, because Spark and Hive refuse a file with Confluent's 64,
and no longer ones come here; loses: the same text of the schema.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.avro.carrier import AvroEncoding
from headrace.plugins.interop.avro.tree import AvroOptions
from headrace.plugins.interop.avro.writing import datum, encoding
from headrace.plugins.interop.formats.appending import Appended, Data, binary_parts
from headrace.plugins.interop.formats.avro_codecs import COMPRESS
from headrace.plugins.interop.formats.avro_container import MAGIC, SYNC_BYTES, Block, blocks, encoded_long, opened
from headrace.plugins.interop.formats.avro_reading import read_values
from headrace.plugins.interop.formats.avro_schema import connect_schema_of, file_schema, refusal_of_avro
from headrace.plugins.interop.formats.format import FileWriter, Format
from headrace.plugins.interop.formats.projection import project_avro
from headrace.plugins.schema import Schema

BLOCK_BYTES: Final = 64 << 10
NULL_REFUSED: Final = "Found null value for non-optional schema"
MISFIT: Final = "A value does not fit its Avro type"


class AvroFormat(Format):
    """Values of all schemas; schemaless ones as Confluent's record `Anything`."""

    keeps_schemas: ClassVar[bool] = True
    extension = ".avro"

    def __init__(self, options: AvroOptions, codec: str = "null") -> None:
        self._options, self._codec = options, codec

    def payload(self, value: Column, schema: Schema | None) -> Column:
        """The bytes of a value."""
        error, made = self.error(value, schema), datum(value, self._encoding(schema))
        good = value.isNotNull() if error is None else value.isNotNull() & error.isNull()
        return F.when(good, made)

    def error(self, value: Column, schema: Schema | None) -> Column | None:
        """The error for a forbidden null, a text that an enum lacks, or bytes of another length than a fixed type's."""
        made, nothing = self._encoding(schema), F.lit(None).cast("string")
        error = nothing
        for test, why in ((made.nulls, NULL_REFUSED), (made.misfits, MISFIT)):
            if test is not None:
                error = F.coalesce(error, F.when(value.isNotNull() & test(value), F.lit(why)))
        return None if error is nothing else error

    def _encoding(self, schema: Schema | None) -> AvroEncoding:
        return encoding(schema, file_schema(schema, self._options).tree, self._options)

    def refusal(self, schema: Schema | None) -> str | None:
        """Refuses names that Avro does not allow."""
        return refusal_of_avro(schema, self._options)

    def file(self, local: str, schema: Schema | None) -> FileWriter:
        """A container file."""
        return _ContainerWriter(local, self.schema_text(schema), self._codec)

    def schema_text(self, schema: Schema | None) -> str:
        """The Avro schema in the header of files of this schema."""
        return file_schema(schema, self._options).text

    def project(self, payload: pa.Array, of: Schema, to: Schema) -> pa.Array:
        """The bytes of the values in the other schema, decoded and encoded one by one."""
        return project_avro(payload, of, to, self._options)

    def schema_of(self, file: pa.NativeFile) -> Schema | None:
        """Reads the Avro schema in the header."""
        header, stream = opened(file)
        stream.detach()  # it would close the file
        return connect_schema_of(header.schema, self._options)

    def read(self, file: pa.NativeFile, schema: Schema | None, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The values, block by block; blocks that are skipped as a whole are not decoded."""
        return read_values(file, schema, self._options, skip)

    def layout(self, file: pa.NativeFile) -> Hashable | None:
        """The Avro schema in the header."""
        header, stream = opened(file)
        stream.detach()
        return header.schema

    def merge(self, files: Iterable[pa.NativeFile], local: str) -> None:
        """Joins blocks until they have their size; no value is decoded."""
        writer: _ContainerWriter | None = None
        for file in files:
            header, stream = opened(file)
            writer = writer or _ContainerWriter(local, header.schema, self._codec)
            for block in blocks(header, stream, 0):
                writer.add(block)
        assert writer is not None, "of one file at least"
        writer.close()


def _text(data: bytes) -> bytes:
    return encoded_long(len(data)) + data


class _ContainerWriter(FileWriter):
    def __init__(self, local: str, schema: str, codec: str) -> None:
        super().__init__(local)
        self._file = Appended(local)
        self._schema, self._codec = schema, codec
        self._sync = os.urandom(SYNC_BYTES)
        self._rest, self._rest_rows = bytearray(), 0

    def _header(self) -> bytes:
        pairs = {b"avro.schema": self._schema.encode(), b"avro.codec": self._codec.encode()}
        entries = b"".join(_text(key) + _text(value) for key, value in pairs.items())
        return MAGIC + encoded_long(len(pairs)) + entries + encoded_long(0) + self._sync

    def write(self, payload: pa.Array) -> None:
        data, positions = binary_parts(payload)
        rows, begin, pieces = len(positions) - 1, 0, list[Data]()
        while begin < rows:
            full = positions[begin] + BLOCK_BYTES - len(self._rest)
            end = int(np.searchsorted(positions, full))  # beyond `rows` if these values do not fill a block
            part = memoryview(data)[positions[begin] : positions[min(end, rows)]]
            if end <= rows and not self._rest:
                pieces += self._block(end - begin, part)
            else:
                self._rest += part
                self._rest_rows += min(end, rows) - begin
                pieces += self._rest_block() if end <= rows else ()
            begin = end
        self.rows += rows
        self._append(pieces)

    def add(self, block: Block) -> None:
        self._rest += block.data
        self._rest_rows += block.rows
        self.rows += block.rows
        if len(self._rest) >= BLOCK_BYTES:
            self.flush()

    def _block(self, rows: int, values: Data) -> tuple[Data, ...]:
        data = COMPRESS[self._codec](values)
        return encoded_long(rows) + encoded_long(len(data)), data, self._sync

    def _rest_block(self) -> tuple[Data, ...]:
        block = self._block(self._rest_rows, self._rest) if self._rest_rows else ()
        self._rest, self._rest_rows = bytearray(), 0
        return block

    def _append(self, pieces: Sequence[Data]) -> None:
        if pieces:
            self._file.append(*(() if self._file.size else (self._header(),)), *pieces)

    @property
    def bytes_written(self) -> int:
        return self._file.size + len(self._rest)

    @property
    def buffered_bytes(self) -> int:
        return len(self._rest)

    def flush(self) -> None:
        self._append(self._rest_block())

    def close(self) -> None:
        self.flush()
        if not self._file.size:
            self._file.append(self._header())
