"""Inspects files before they are read: topic, format, schema, and the pieces of large Parquet files."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.format_settings import FileFormat
from headrace.connectors.hdfs.source.backup import Destination, kinds_beside, stem_of
from headrace.connectors.hdfs.source.listing import Listing, format_by_name
from headrace.connectors.hdfs.source.progress import Piece
from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.schema import Schema

log = logging.getLogger(__name__)

_THREADS: Final = 8
_MOST_PIECES: Final = 64
_GROWTH: Final = {FileFormat.PARQUET: 4, FileFormat.AVRO: 2}
"""The growth of rows from files to memory, roughly."""
_GZIP_GROWTH: Final = 5
_ROW_BYTES: Final = 200


@dataclass(frozen=True)
class BesideFile:
    """A file of keys or headers."""

    column: str
    """`keys` or `headers`."""
    path: str
    kind: FileFormat
    schema: Schema | None


class Shape(NamedTuple):
    """All that decides the type of rows, and their topic."""

    topic: str
    kind: FileFormat
    schema: Schema | None
    beside: tuple[tuple[str, FileFormat, Schema | None], ...] = ()
    """Column, format and schema of keys and headers."""


@dataclass(frozen=True)
class Inspected:
    """The contents of a file."""

    to: Destination
    kind: FileFormat
    schema: Schema | None
    bounds: tuple[tuple[int, int], ...] = ((0, -1),)
    rows: int | None = None
    """Known if the file tells."""
    problem: str | None = None
    """The reason why it cannot be read."""
    beside: tuple[BesideFile, ...] = ()
    """The files of its keys and headers."""

    @property
    def shape(self) -> Shape:
        """The key of rows of one type."""
        return Shape(
            self.to.topic, self.kind, self.schema, tuple((one.column, one.kind, one.schema) for one in self.beside)
        )


@dataclass
class Inspection:
    """Inspects files, several at a time; for the task's thread."""

    listing: Listing

    def __post_init__(self) -> None:
        self._formats: dict[FileFormat, Format] = {}
        self._known: dict[str, Inspected] = {}

    def inspect(self, sizes: Mapping[str, int]) -> dict[str, Inspected]:
        """Inspects the files of these sizes; omits those that are gone. Errors: RetriableError, StoreError."""
        new = [file for file in sizes if file not in self._known]
        self._known = {file: self._known[file] for file in sizes if file in self._known}
        with ThreadPoolExecutor(_THREADS) as threads:
            looks = threads.map(lambda file: self._look(file, sizes[file]), new)
            self._known |= {file: look for file, look in zip(new, looks, strict=True) if look is not None}
        return dict(self._known)

    def format(self, kind: FileFormat) -> Format:
        """The format that reads such files."""
        if kind not in self._formats:
            self._formats[kind] = format_of(self.listing.settings.formats(kind))
        return self._formats[kind]

    def estimated(self, found: Inspected, piece: Piece) -> tuple[int, int]:
        """The rows and bytes left of a piece, roughly."""
        growth = _GZIP_GROWTH if piece.file.endswith(".gz") else _GROWTH.get(found.kind, 1)
        size = piece.size * growth // piece.pieces
        rows = size // _ROW_BYTES + 1 if found.rows is None else found.rows // piece.pieces
        left = max(0, rows - piece.rows)
        return left, size * left // max(rows, 1)

    def _look(self, file: str, size: int) -> Inspected | None:
        kind, to = self.listing.format_of(file), self.listing.destination_of(file)
        assert kind is not None
        assert to is not None
        reads = self.format(kind)
        try:
            beside = self._beside(file) if self.listing.settings.restores else ()
            if not reads.keeps_schemas:
                return Inspected(to, kind, reads.schema_of(None), beside=beside)
            with self.listing.store.open(file) as opened:
                schema = reads.schema_of(opened)
                bounds, rows = self._bounds(opened, size) if kind is FileFormat.PARQUET else (((0, -1),), None)
            return Inspected(to, kind, schema, bounds, rows, beside=beside)
        except FileNotFoundError:
            log.warning("%s is gone; it was there when files were looked for", file)
            return None
        except DataError as error:
            return Inspected(to, FileFormat.TEXT, None, problem=f"{file} cannot be read: {error}")

    def _beside(self, file: str) -> tuple[BesideFile, ...]:
        """The files of its keys and headers, each read by the format that its name tells. Errors: DataError."""
        stem = stem_of(file)
        paths = kinds_beside(stem, (entry.path for entry in self.listing.store.beginning_with(f"{stem}.")))
        found = []
        for column, path in sorted(paths.items()):
            kind = format_by_name(path)
            assert kind is not None
            if kind is FileFormat.JSON:
                found.append(BesideFile(column, path, kind, None))
                continue
            with self.listing.store.open(path) as opened:
                found.append(BesideFile(column, path, kind, self.format(kind).schema_of(opened)))
        return tuple(found)

    def _bounds(self, opened: pa.NativeFile, size: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """The rows of each piece, whole row groups, and their count."""
        footer: Any = pq.ParquetFile(opened).metadata
        count = min(_MOST_PIECES, footer.num_row_groups, math.ceil(size / self.listing.settings.split_bytes))
        if count <= 1 or self.listing.settings.restores:
            return ((0, -1),), footer.num_rows
        ends, rows = [0], 0
        for group in range(footer.num_row_groups):
            rows += footer.row_group(group).num_rows
            if rows >= footer.num_rows * len(ends) // count or group == footer.num_row_groups - 1:
                ends.append(rows)
        pairs = [(begin, end) for begin, end in pairwise(ends) if end > begin]
        return tuple(pairs), footer.num_rows
