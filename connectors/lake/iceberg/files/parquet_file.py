"""One Parquet file on the local disk, which holds no descriptor while nobody writes to it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files.reopened_file import ReopenedFile

_CODECS: Final = {
    "zstd": "ZSTD",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "brotli": "BROTLI",
    "lz4": "LZ4",
    "lz4_raw": "LZ4",
    "uncompressed": "NONE",
    "none": "NONE",
}
_TARGET_BYTES: Final = 512 << 20
_ROW_GROUP_BYTES: Final = 128 << 20
_MOST_BYTES: Final = 1 << 62
_DICTIONARY_BYTES: Final = 1 << 20
"""Arrow's default, half of Iceberg's: columns of many values give up their dictionary sooner, a sixth of the time."""


@dataclass(frozen=True)
class ParquetOptions:
    """A table's wishes for its Parquet files; the defaults are Iceberg's, but for dictionaries."""

    codec: str
    level: int | None
    page_bytes: int
    dictionary_bytes: int
    row_group_bytes: int
    target_bytes: int

    @classmethod
    def of(cls, properties: Mapping[str, str], is_delete: bool = False) -> ParquetOptions:
        """Return the options in a table's properties. Errors: LakeError for a wrong one."""
        read = _Properties(properties, "write.delete." if is_delete else "write.")
        form = read.text("format.default", "parquet").lower()
        if form != "parquet":
            raise LakeError(f"The table's property write.format.default is {form}; this connector writes Parquet only")
        codec = read.text("parquet.compression-codec", "zstd").lower()
        if codec not in _CODECS:
            raise LakeError(
                f"The table's property write.parquet.compression-codec is {codec}; use {', '.join(_CODECS)}"
            )
        return cls(
            codec=_CODECS[codec],
            level=_level(read, _CODECS[codec]),
            page_bytes=read.number("parquet.page-size-bytes", 1 << 20),
            dictionary_bytes=read.number("parquet.dict-size-bytes", _DICTIONARY_BYTES),
            row_group_bytes=read.number("parquet.row-group-size-bytes", _ROW_GROUP_BYTES),
            target_bytes=read.number("target-file-size-bytes", _TARGET_BYTES),
        )

    def writer_arguments(self) -> dict[str, Any]:
        """Return the arguments of pyarrow's writer."""
        return {
            "compression": self.codec,
            "compression_level": self.level,
            "data_page_size": self.page_bytes,
            "dictionary_pagesize_limit": self.dictionary_bytes,
            "store_schema": False,
            "store_decimal_as_integer": True,
        }


def _level(read: _Properties, codec: str) -> int | None:
    """The level of compression; None: that of the codec, which may have but one. Errors: LakeError."""
    name = "parquet.compression-level"
    if read.text(name, "") in ("", "null") or codec == "NONE" or not pa.Codec.supports_compression_level(codec):
        return None
    least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    return read.number(name, 0, least, most)


@dataclass(frozen=True)
class _Properties:
    """Properties of a table; those of delete files default to those of data files."""

    of: Mapping[str, str]
    prefix: str

    def text(self, name: str, default: str) -> str:
        return self.of.get(f"{self.prefix}{name}", self.of.get(f"write.{name}", default))

    def number(self, name: str, default: int, least: int = 1, most: int = _MOST_BYTES) -> int:
        text = self.text(name, str(default))
        try:
            number = int(text)
        except ValueError:
            raise LakeError(f"The table's property write.{name} is {text}, which is no number; correct it") from None
        if not least <= number <= most:
            raise LakeError(f"The table's property write.{name} is {text}; set it to a number from {least} to {most}")
        return number


class ParquetFile:
    """A file in the making."""

    def __init__(self, local: str, columns: pa.Schema, options: ParquetOptions) -> None:
        self.local = local
        self.rows = 0
        self._options = options
        self._sink = ReopenedFile(local)
        self._writer = pq.ParquetWriter(pa.PythonFile(self._sink, "w"), columns, **options.writer_arguments())

    def write(self, rows: pa.Table) -> None:
        """Append rows as a row group. Errors: OSError."""
        self._writer.write_table(rows, row_group_size=len(rows))
        self.rows += len(rows)
        self._sink.release()

    @property
    def bytes(self) -> int:
        """The bytes in the file so far."""
        return self._sink.tell()

    def close(self) -> None:
        """Complete the file. Errors: OSError."""
        self._writer.close()
        self._sink.close()

    def abort(self) -> None:
        """Let go of the file, and delete it."""
        with contextlib.suppress(OSError, pa.ArrowException):  # what it lacks may find no room on the disk, either
            self._writer.close()
        self._sink.release()
        with contextlib.suppress(OSError):
            os.unlink(self.local)
