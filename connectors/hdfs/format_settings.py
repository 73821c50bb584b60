"""The settings of a sink's file formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from headrace.config.setting_group import HIGH, LONG, LOW, SHORT, SettingGroup
from headrace.config.settings import Offer, Setting, Type
from headrace.config.validators import Check, OneOf, OneOfIgnoringCase, Range
from headrace.config.values import invalid


class FileFormat(StrEnum):
    """The formats of files."""

    AVRO = "avro"
    PARQUET = "parquet"
    JSON = "json"
    TEXT = "text"
    BYTES = "bytes"


_FORMATS: Final = {
    "avroformat": FileFormat.AVRO,
    "parquetformat": FileFormat.PARQUET,
    "jsonformat": FileFormat.JSON,
    "stringformat": FileFormat.TEXT,
    "bytearrayformat": FileFormat.BYTES,
    **{str(one): one for one in FileFormat},
}
AVRO_CODECS: Final = ("null", "deflate", "snappy", "bzip2", "zstandard")
PARQUET_CODECS: Final = ("snappy", "gzip", "lz4", "zstd", "brotli", "none")
COMPATIBILITIES: Final = ("NONE", "BACKWARD", "FORWARD", "FULL")
_NULLS: Final = ("fail", "ignore")


@dataclass(frozen=True)
class FormatSettings:
    """The format of files and its details."""

    format: FileFormat
    avro_codec: str = "null"
    parquet_codec: str = "snappy"
    gzip: bool = False
    """For JSON, text and bytes."""
    gzip_level: int = -1
    codec_in_name: bool = False
    """True if Parquet files are called `.snappy.parquet`, as S3's are."""
    numeric_decimals: bool = False
    """True if JSON has decimals as numbers; else as Base64."""
    bytes_extension: str = ".bin"
    bytes_separator: bytes = b"\n"
    connect_metadata: bool = True
    enhanced_avro: bool = True
    optional_map_keys: bool = False


def file_format(name: str) -> FileFormat | None:
    """The format of one of Confluent's classes, or of a short name."""
    return _FORMATS.get(name.rpartition(".")[2].lower())


def _objection_to_format(name: str, value: Any) -> str | None:
    if value is None or file_format(value) is not None:
        return None
    if value.lower().endswith("orcformat"):
        return invalid(name, value, "ORC is not served; Parquet holds the same and Hive reads it")
    return invalid(name, value, f"The formats are {', '.join(FileFormat)}, or Confluent's classes of these")


FORMAT: Final = Check(_objection_to_format, "avro, parquet, json, text, bytes, or Confluent's class of one of these")


def _objection_to_side_format(name: str, value: Any) -> str | None:
    if value is None or file_format(value) in (FileFormat.AVRO, FileFormat.JSON, FileFormat.PARQUET):
        return None
    return invalid(
        name, value, "Keys and headers are written as avro, json or parquet, or Confluent's classes of these"
    )


SIDE_FORMAT: Final = Check(_objection_to_side_format, "avro, json, parquet, or Confluent's class of one of these")


def format_settings(group: SettingGroup, is_s3: bool, default: Any) -> tuple[Setting, ...]:
    """The settings of formats; `default` is that of `format.class`."""
    compression = "s3.compression" if is_s3 else "compression"
    ours = "" if is_s3 else "Headrace's: "
    return (
        group(
            "format.class",
            Type.CLASS,
            default,
            HIGH,
            LONG,
            "Format class",
            "The format of files: avro, parquet, json, text or bytes, or Confluent's class of one of these.",
            FORMAT,
            recommender=Offer(tuple(map(str, FileFormat))),
            is_plugin=False,
        ),
        group(
            "schema.compatibility",
            Type.STRING,
            "NONE",
            HIGH,
            SHORT,
            "Schema Compatibility",
            "What happens where a record has another schema than its file. NONE: the files end. BACKWARD, FULL: older "
            "ones are made to fit the newest. FORWARD: newer ones are made to fit the oldest.",
            OneOfIgnoringCase(*COMPATIBILITIES),
            recommender=Offer(COMPATIBILITIES),
        ),
        group(
            "behavior.on.null.values",
            Type.STRING,
            "fail",
            LOW,
            SHORT,
            "Behavior for null-valued records",
            "A record without value is passed over (ignore), or fails by errors.tolerance (fail).",
            OneOfIgnoringCase(*_NULLS),
            recommender=Offer(_NULLS),
        ),
        *_codecs(group, compression, ours),
        group(
            "json.decimal.format",
            Type.STRING,
            "BASE64",
            LOW,
            SHORT,
            "JSON Decimal Format",
            "Whether JSON has decimals as numbers or as Base64 of their unscaled value.",
            OneOfIgnoringCase("BASE64", "NUMERIC"),
            recommender=Offer(("BASE64", "NUMERIC")),
        ),
        group(
            "format.bytearray.extension",
            Type.STRING,
            ".bin",
            LOW,
            SHORT,
            "Output file extension for ByteArrayFormat",
            "How the names of files of bytes end.",
        ),
        group(
            "format.bytearray.separator",
            Type.STRING,
            None,
            LOW,
            SHORT,
            "Line separator ByteArrayFormat",
            "What stands between records in files of bytes; null: a line end.",
        ),
        *_avro(group),
    )


def _codecs(group: SettingGroup, compression: str, ours: str) -> tuple[Setting, ...]:
    return (
        group(
            "avro.codec",
            Type.STRING,
            "null",
            LOW,
            SHORT,
            "Avro Compression Codec",
            "How the blocks of Avro files are compressed.",
            OneOf(*AVRO_CODECS),
            recommender=Offer(AVRO_CODECS),
        ),
        group(
            "parquet.codec",
            Type.STRING,
            "snappy",
            LOW,
            SHORT,
            "Parquet Compression Codec",
            "How Parquet files are compressed.",
            OneOf(*PARQUET_CODECS),
            recommender=Offer(PARQUET_CODECS),
        ),
        group(
            f"{compression}.type",
            Type.STRING,
            "none",
            LOW,
            SHORT,
            "Compression Type",
            f"{ours}How files of JSON, text and bytes are compressed; names then end with .gz.",
            OneOf("none", "gzip"),
            recommender=Offer(("none", "gzip")),
        ),
        group(
            f"{compression}.level",
            Type.INT,
            -1,
            LOW,
            SHORT,
            "Compression Level",
            f"{ours}From 1 (fast) to 9 (small); -1: the middle.",
            Range(-1, 9),
        ),
    )


def _avro(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "connect.meta.data",
            Type.BOOLEAN,
            True,
            LOW,
            SHORT,
            "Connect Metadata",
            "Whether schemas in files have Connect's names, versions and documentation as properties.",
        ),
        group(
            "enhanced.avro.schema.support",
            Type.BOOLEAN,
            True,
            LOW,
            SHORT,
            "Enhanced Avro Support",
            "Whether schemas in files keep Avro's enumerations and the names of its packages.",
        ),
        group(
            "allow.optional.map.keys",
            Type.BOOLEAN,
            False,
            LOW,
            SHORT,
            "Allow optional keys of maps",
            "Whether maps whose keys are optional texts become Avro maps rather than lists of entries.",
        ),
        group(
            "schemas.cache.config",
            Type.INT,
            1000,
            LOW,
            SHORT,
            "Schema Cache Size",
            "Accepted for configs of Confluent's connector. A task keeps the schemas of all its open files.",
            Range(1),
        ),
    )


def formats_of(values: Mapping[str, Any], separator: str, is_s3: bool) -> FormatSettings:
    """The format of parsed settings; `separator` is for files of bytes."""
    compression = "s3.compression" if is_s3 else "compression"
    found = file_format(values["format.class"])
    assert found is not None  # its validator said so
    return FormatSettings(
        format=found,
        avro_codec=values["avro.codec"],
        parquet_codec=values["parquet.codec"],
        gzip=values[f"{compression}.type"] == "gzip",
        gzip_level=values[f"{compression}.level"],
        codec_in_name=is_s3,
        numeric_decimals=values["json.decimal.format"].upper() == "NUMERIC",
        bytes_extension=values["format.bytearray.extension"],
        bytes_separator=separator.encode(),
        connect_metadata=values["connect.meta.data"],
        enhanced_avro=values["enhanced.avro.schema.support"],
        optional_map_keys=values["allow.optional.map.keys"],
    )
