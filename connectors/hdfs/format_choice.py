"""The format of the settings."""

from __future__ import annotations

from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.plugins.interop.avro.tree import AvroOptions
from headrace.plugins.interop.formats.avro import AvroFormat
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.interop.formats.lines import BytesFormat, JsonFormat, TextFormat
from headrace.plugins.interop.formats.parquet import ParquetFormat
from headrace.plugins.schema import MOST_DIGITS


def format_of(settings: FormatSettings) -> Format:
    """The format of files."""
    options = AvroOptions(
        metadata=settings.connect_metadata,
        enhanced=settings.enhanced_avro,
        optional_map_keys=settings.optional_map_keys,
        default_precision=MOST_DIGITS,
    )
    gzip_level = settings.gzip_level if settings.gzip else None
    match settings.format:
        case FileFormat.PARQUET:
            return ParquetFormat(options, settings.parquet_codec, settings.codec_in_name)
        case FileFormat.AVRO:
            return AvroFormat(options, settings.avro_codec)
        case FileFormat.JSON:
            return JsonFormat(settings.numeric_decimals, gzip_level)
        case FileFormat.TEXT:
            return TextFormat(gzip_level)
    return BytesFormat(settings.bytes_extension, settings.bytes_separator, gzip_level)
