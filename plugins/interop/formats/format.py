"""The contract of the formats: values to Arrow arrays by expressions, arrays to files, files to batches.

    payload, error (expressions, in the driver) -> file(...).write (anywhere) -> schema_of, read

A file of 500 that are open costs little: nothing is opened before there is something to write, and values that wait in
memory are counted (`FileWriter.buffered_bytes`) and go to the disk when asked (`flush`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar, Final

import pyarrow as pa
from pyspark.sql import Column

from headrace.plugins.contracts import DataError
from headrace.plugins.schema import Schema, uncarried

VALUE: Final = "value"
"""The column of `Format.read`'s batches."""


class FileWriter(ABC):
    """One file in the making, on the local disk; used by one thread at a time."""

    def __init__(self, local: str) -> None:
        self.local = local
        self.rows = 0

    @abstractmethod
    def write(self, payload: pa.Array) -> None:
        """Append these values, all but nulls. It may keep the array's memory until `flush`.

        Errors: OSError if the disk cannot take them; the file is of no use then.
        """

    @property
    @abstractmethod
    def bytes_written(self) -> int:
        """The size of the file as far as it is known, with an estimate for values in memory."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """The bytes in memory that wait for `flush`."""

    @abstractmethod
    def flush(self) -> None:
        """Write out the values in memory. Many small flushes make the file larger and slower to read."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file. It exists, and is readable, even if nothing was written."""

    def abort(self) -> None:  # noqa: B027
        """Let go of everything that is open. The folder's owner deletes the file."""


class Format(ABC):
    """One format with its settings; picklable, so that writers work anywhere."""

    keeps_schemas: ClassVar[bool] = False
    """True if `schema_of` and `project` work: needed for `schema.compatibility` and for Hive."""
    extension: str
    """The end of names, compression included: `.avro`, `.snappy.parquet`, `.json.gz`."""

    @abstractmethod
    def payload(self, value: Column, schema: Schema | None) -> Column:
        """Return the input of `FileWriter.write` for these values; null for null and for values with an `error`.

        Only for schemas without a `refusal`. Never raises for data.
        """

    def error(self, value: Column, schema: Schema | None) -> Column | None:
        """Return the reason why a value cannot be written (string), null if it can; None: all can."""
        return None

    def refusal(self, schema: Schema | None) -> str | None:
        """Return the reason why no value of this schema can be written; None if they can. Cheap, without Spark."""
        return uncarried(schema)

    @abstractmethod
    def file(self, local: str, schema: Schema | None) -> FileWriter:
        """Return a writer of a new file, which appears with the first flush; costs next to nothing."""

    def project(self, payload: pa.Array, of: Schema, to: Schema) -> pa.Array:
        """Return a payload of schema `of` as one of schema `to`; see `compatibility.decide`.

        Errors: DataError if a value does not fit.
        """
        raise DataError(f"Files of this kind cannot change the schema of a value, of {of.name} to {to.name}")

    def schema_of(self, file: pa.NativeFile) -> Schema | None:
        """Return the Connect schema of a file's values; None if it has none, or the format keeps none.

        The file stays open, at any position. Errors: DataError for a file of another kind, or a broken one.
        """
        return None

    @abstractmethod
    def read(self, file: pa.NativeFile, schema: Schema | None, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield a file's values in order, all but the first `skip`, as batches of some thousand rows.

        Their one column is `value`, of `arrow_type_of_schema(schema)`; `schema` is the result of `schema_of`. It reads
        from the file's beginning, and may close it at the end. Errors: as `schema_of`.
        """

    @abstractmethod
    def layout(self, file: pa.NativeFile) -> Hashable | None:
        """Return a key that files share if they can be merged; None: with no other.

        It reads no values. Errors: as `schema_of`.
        """

    @abstractmethod
    def merge(self, files: Iterable[pa.NativeFile], local: str) -> None:
        """Write a new file with the values of these, which have one layout; they may be opened one by one.

        It holds about as much memory as one writer. Errors: as `schema_of`; OSError of the local disk.
        """
