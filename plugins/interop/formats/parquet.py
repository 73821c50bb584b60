"""Parquet files: a struct's fields as columns, the Avro schema in the footer as parquet-avro has it.

| Connect | Parquet |
|---|---|
| INT8, INT16 | INT32 (INT 8, INT 16) |
| INT32, INT64, FLOAT32, FLOAT64, BOOLEAN | INT32, INT64, FLOAT, DOUBLE, BOOLEAN |
| STRING, BYTES | BYTE_ARRAY (STRING), BYTE_ARRAY |
| Decimal | FIXED_LEN_BYTE_ARRAY(16) (DECIMAL(38, scale)) |
| Date | INT32 (DATE) |
| Time | INT32, ms |
| Timestamp | INT64 (TIMESTAMP in ms, UTC) |
| ARRAY | LIST of three levels, `list.element` |
| MAP | MAP of `key_value` |
| STRUCT | a group; of a union, with one optional member for each branch |

A field is REQUIRED unless its schema is optional; a null of a field with a default is that default.

Decided: lists of three levels, though parquet-avro writes those of two by default, because the format asks for them and
items can be null; parquet-avro, Spark and Hive read both; loses: nothing known. Decimals have 38 digits, because
Spark, Hive and pyarrow read no more and parquet-avro would write 64; loses: nothing, for no longer ones come here. Maps
with other keys than texts are maps, because Spark, Hive and pyarrow have them; loses: parquet-avro's reading of them,
because the footer's Avro schema says lists of entries. INT8 and INT16 keep their size.
Time has no annotation, because Spark refuses a whole file for it and Hive does not know it; loses: its logical type,
where the footer's Avro schema is not read.

Decided: rows wait in memory as they came until they are worth a row group, because each row group costs space, and
reading time; loses: memory, which the sink bounds by `flush`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.errors import DataError
from headrace.plugins.interop.avro.tree import AvroOptions
from headrace.plugins.interop.avro.writing import encoding
from headrace.plugins.interop.formats.arrow_types import compact, conform
from headrace.plugins.interop.formats.avro_schema import connect_schema_of, file_schema, refusal_of_avro, required
from headrace.plugins.interop.formats.defaults import filled
from headrace.plugins.interop.formats.format import VALUE, FileWriter, Format
from headrace.plugins.interop.formats.parquet_types import parquet_fields, schema_of_columns
from headrace.plugins.interop.formats.projection import project_array
from headrace.plugins.schema import Schema, SchemaType

AVRO_KEY: Final = b"parquet.avro.schema"
ROW_GROUP_BYTES: Final = 64 << 20
"""The Arrow memory of one row group, if nobody flushes before."""
NULL_REFUSED: Final = "Found null value for non-optional schema"
_BROKEN: Final = re.compile("corrupt|decompress|deserialize|unexpected end", re.IGNORECASE)
"""Marks pyarrow's errors of broken files, although they are OSError as a store's are."""
_NAMES: Final = {"gzip": "gz", "brotli": "br"}
_READ_ROWS: Final = 8192
_MERGED: Final = 64
"""So many small arrays are merged into one, because each has its own cost."""
_GUESSED_SHARE: Final = 0.25
"""A file's share of the Arrow memory, before the first row group tells it."""


class ParquetFormat(Format):
    """Structs alone. Other values are refused, as by Confluent's."""

    keeps_schemas: ClassVar[bool] = True

    def __init__(self, options: AvroOptions, codec: str = "snappy", codec_in_name: bool = False) -> None:
        self._options, self._codec = options, codec
        named = codec_in_name and codec != "none"
        self.extension = f".{_NAMES.get(codec, codec)}.parquet" if named else ".parquet"

    def payload(self, value: Column, schema: Schema | None) -> Column:
        """The struct, with defaults in place of nulls."""
        assert schema is not None
        error, made = self.error(value, schema), filled(value, schema)
        return made if error is None else F.when(error.isNull(), made)

    def error(self, value: Column, schema: Schema | None) -> Column | None:
        """The error for a forbidden null."""
        assert schema is not None
        bare = required(schema)
        nulls = encoding(bare, file_schema(bare, self._options).tree, self._options).nulls
        return None if nulls is None else F.when(value.isNotNull() & nulls(value), F.lit(NULL_REFUSED))

    def refusal(self, schema: Schema | None) -> str | None:
        """Refuses values that are not structs, and structs without fields."""
        if schema is None or schema.type is not SchemaType.STRUCT:
            found = "has no schema" if schema is None else f"is of type {schema.type}"
            return f"Parquet holds structs with a schema, but the value {found}; use another format.class"
        if _lacks_fields(schema):
            return "Parquet has no structs without fields"
        return refusal_of_avro(required(schema), self._options)

    def file(self, local: str, schema: Schema | None) -> FileWriter:
        """A Parquet file."""
        assert schema is not None
        bare = required(schema)
        text = file_schema(bare, self._options).text
        return _ParquetWriter(local, pa.schema(parquet_fields(bare)), text, self._codec)

    def project(self, payload: pa.Array, of: Schema, to: Schema) -> pa.Array:
        """The structs with the other schema's fields."""
        return project_array(payload, required(of), required(to))

    def schema_of(self, file: pa.NativeFile) -> Schema | None:
        """Reads the Avro schema in the footer, or the columns of another program's file."""
        opened = _opened(file)
        text = (opened.metadata.metadata or {}).get(AVRO_KEY)
        if text is None:
            return schema_of_columns(opened.schema_arrow)
        return connect_schema_of(text.decode(), self._options)

    def read(self, file: pa.NativeFile, schema: Schema | None, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows, row group by row group; groups that are skipped as a whole are not read."""
        opened, field = _opened(file), pa.field(VALUE, arrow_type_of_schema(schema))
        for group in range(opened.num_row_groups):
            rows = opened.metadata.row_group(group).num_rows
            if skip >= rows:
                skip -= rows
                continue
            for batch in _batches(opened, group):
                part, skip = batch.slice(min(skip, batch.num_rows)), max(0, skip - batch.num_rows)
                if part.num_rows:
                    yield pa.RecordBatch.from_arrays([_value(part, field)], [VALUE])

    def layout(self, file: pa.NativeFile) -> Hashable | None:
        """The columns and the Avro schema; None for files that would get other columns when pyarrow writes them."""
        opened = _opened(file)
        avro, columns = (opened.metadata.metadata or {}).get(AVRO_KEY), _columns(opened)
        return (columns, avro) if avro is not None and columns == _written(opened.schema_arrow) else None

    def merge(self, files: Iterable[pa.NativeFile], local: str) -> None:
        """Joins rows of small row groups into large ones."""
        writer: _ParquetWriter | None = None
        try:
            for file in files:
                opened = _opened(file)
                if writer is None:
                    avro = opened.metadata.metadata[AVRO_KEY].decode()
                    writer = _ParquetWriter(local, opened.schema_arrow, avro, self._codec)
                for group in range(opened.num_row_groups):
                    for batch in _batches(opened, group):
                        writer.write(batch.to_struct_array())
            assert writer is not None, "of one file at least"
            writer.close()
        except BaseException:
            if writer is not None:
                writer.abort()
            raise


def _columns(opened: Any) -> str:
    """The Parquet schema in Parquet's own words."""
    return str(opened.schema).partition("\n")[2]


def _written(columns: pa.Schema) -> str:
    """The Parquet schema that these columns get when they are written."""
    sink = pa.BufferOutputStream()
    pq.write_table(columns.empty_table(), sink, store_schema=False)
    return _columns(pq.ParquetFile(pa.BufferReader(sink.getvalue())))


def _lacks_fields(schema: Schema) -> bool:
    inner = [schema.key_schema, schema.value_schema, *(field.schema for field in schema.fields)]
    return (schema.type is SchemaType.STRUCT and not schema.fields) or any(_lacks_fields(one) for one in inner if one)


def _opened(file: pa.NativeFile) -> Any:
    try:
        return pq.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise DataError(f"The file is not Parquet, or broken: {error}") from error


def _batches(opened: Any, group: int) -> Iterator[pa.RecordBatch]:
    try:
        yield from opened.iter_batches(_READ_ROWS, row_groups=[group])
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and not _BROKEN.search(str(error)):
            raise
        raise DataError(f"The Parquet file is broken: {error}") from error


def _value(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    try:
        return conform(batch.to_struct_array(), field)
    except pa.ArrowException as error:
        raise DataError(f"The Parquet file has a value that Connect cannot hold: {error}") from error


class _ParquetWriter(FileWriter):
    def __init__(self, local: str, columns: pa.Schema, avro: str, codec: str) -> None:
        super().__init__(local)
        self._columns, self._avro, self._codec = columns, avro, codec
        self._small: list[pa.Array] = []
        self._waiting: list[pa.Array] = []
        self._held = self._gone = 0
        self._sink: pa.NativeFile | None = None
        self._writer: Any = None

    def write(self, payload: pa.Array) -> None:
        kept = compact(payload.drop_null())
        if not len(kept):
            return
        self.rows += len(kept)
        self._small.append(kept)
        self._held += kept.nbytes
        if len(self._small) >= _MERGED:
            self._merge()
        if self._held >= ROW_GROUP_BYTES:
            self.flush()

    def _merge(self) -> None:
        if self._small:
            self._waiting.append(pa.concat_arrays(self._small) if len(self._small) > 1 else self._small[0])
            self._small = []

    @property
    def bytes_written(self) -> int:
        done = 0 if self._sink is None else self._sink.tell()
        return done + int(self._held * (done / self._gone if self._gone else _GUESSED_SHARE))

    @property
    def buffered_bytes(self) -> int:
        return self._held

    def flush(self) -> None:
        self._merge()
        if self._waiting:
            self._open().write_table(self._table(), row_group_size=self.rows)
            self._gone += self._held
            self._waiting, self._held = [], 0

    def _table(self) -> pa.Table:
        parts = [
            pa.chunked_array([conform(array.field(number), column) for array in self._waiting], column.type)
            for number, column in enumerate(self._columns)
        ]
        return pa.Table.from_arrays(parts, schema=self._columns)

    def _open(self) -> Any:
        if self._writer is None:
            self._sink = pa.OSFile(self.local, "wb")
            self._writer = pq.ParquetWriter(self._sink, self._columns, compression=self._codec, store_schema=False)
            self._writer.add_key_value_metadata({AVRO_KEY.decode(): self._avro})
        return self._writer

    def close(self) -> None:
        self.flush()
        self._open().close()
        assert self._sink is not None
        self._sink.close()

    def abort(self) -> None:
        self._small, self._waiting, self._held = [], [], 0
        if self._sink is not None:
            with contextlib.suppress(OSError):
                if self._writer is not None:  # a full disk may have refused its first bytes
                    self._writer.close()
            self._sink.close()
