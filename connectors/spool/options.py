"""A config's settings as the task needs them, and what is wrong with them together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.spool import schemas
from headrace.connectors.spool.cells import Cells
from headrace.connectors.spool.cleanup import Cleanup, Policy
from headrace.connectors.spool.csv_rows import CsvDialect, CsvRows
from headrace.connectors.spool.json_rows import JsonRows, JsonTextRows
from headrace.connectors.spool.line_rows import LineRows
from headrace.connectors.spool.listing import Listing
from headrace.connectors.spool.reader import RowFormat, WholeFile
from headrace.connectors.spool.settings import ALL, FIELD, KIND, SETTINGS, Kind
from headrace.plugins.interop.avro.tree import AvroOptions
from headrace.plugins.interop.formats.avro import AvroFormat
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.interop.formats.parquet import ParquetFormat
from headrace.plugins.schema import MOST_DIGITS, STRING, TIMESTAMP, Schema, SchemaType, logical

TASK_INDEX: Final = "task.index"
TASK_COUNT: Final = "task.count"
_TYPED: Final = (Kind.CSV, Kind.JSON)
_BYTES: Final = Schema(SchemaType.BYTES)
_ONLY_FALSE: Final = {
    "csv.strict.quotes": "Remove it: what stands outside of quotes is read, too.",
    "csv.ignore.quotations": "Set csv.quote.char to 0 in its place if quotes mean nothing in these files.",
    "csv.keep.carriage.return": "Remove it: carriage returns within quotes are kept anyway.",
}


@dataclass(frozen=True)
class SpoolOptions:
    """The settings of one connector."""

    kind: Kind
    topic: str
    listing: Listing
    cleanup: Cleanup
    halts: bool
    pause_s: float
    timestamp_mode: str
    timestamp_field: str
    has_facts: bool
    charset: str | None
    value: Schema | None
    """None: each file tells its own, or it has to be generated."""
    key: Schema | None
    format: RowFormat | Format | WholeFile
    key_fields: tuple[str, ...] = ()
    key_name: str = ""
    value_name: str = ""
    """Of generated schemas."""

    @property
    def lacks_schema(self) -> bool:
        """True if the schema has to be generated from files."""
        return self.kind in _TYPED and self.value is None


def options_of(config: Mapping[str, str], kind: Kind | None, own: frozenset[str] = frozenset()) -> SpoolOptions:
    """Return the options of a config of this kind; None: the config names it. `own`: files that are never read.

    Errors: ConfigError with all problems.
    """
    values = (ALL if kind is None else SETTINGS[kind]).parse(config)
    kind = Kind(values[KIND]) if kind is None else kind
    found = list(_problems(kind, values))
    key, value = _schemas(kind, values, found)
    if found:
        raise ConfigError(found)
    cells = Cells(
        tuple(values.get("parser.timestamp.date.formats") or ()), values.get("parser.timestamp.timezone") or ""
    )
    return SpoolOptions(
        kind=kind,
        topic=values["topic"],
        listing=_listing(values, config, own),
        cleanup=Cleanup(
            Policy(values["cleanup.policy"]),
            os.path.abspath(values["finished.path"]) if values["finished.path"] else None,
            os.path.abspath(values["error.path"]),
            values["cleanup.policy.maintain.relative.path"],
        ),
        halts=values["halt.on.error"],
        pause_s=values["empty.poll.wait.ms"] / 1000,
        timestamp_mode=values["timestamp.mode"],
        timestamp_field=values.get("timestamp.field") or "",
        has_facts=values["metadata.location"] == "HEADERS",
        charset=_charset(kind, values),
        value=value,
        key=key,
        format=_format(kind, values, cells, value, key),
        key_fields=tuple(values.get("schema.generation.key.fields") or ()),
        key_name=values.get("schema.generation.key.name") or "",
        value_name=values.get("schema.generation.value.name") or "",
    )


def _charset(kind: Kind, values: Mapping[str, Any]) -> str | None:
    """The encoding of texts; None: files are taken as the bytes that they are."""
    if kind is Kind.BINARY:
        return None
    charset: str | None = values.get("csv.file.charset" if kind is Kind.CSV else "file.charset")
    return charset


def _listing(values: Mapping[str, Any], config: Mapping[str, str], own: frozenset[str]) -> Listing:
    return Listing(
        os.path.abspath(values["input.path"]),
        values["input.file.pattern"],
        values["input.path.walk.recursively"],
        values["processing.file.extension"],
        values["file.minimum.age.ms"],
        tuple(values["files.sort.attributes"]),
        int(config.get(TASK_INDEX, 0)),
        int(config.get(TASK_COUNT, 1)),
        own,
    )


def _format(
    kind: Kind, values: Mapping[str, Any], cells: Cells, value: Schema | None, key: Schema | None
) -> RowFormat | Format | WholeFile:
    match kind:
        case Kind.CSV:
            return CsvRows(_dialect(values), cells, value, key)
        case Kind.JSON:
            return JsonRows(cells, value, key)
        case Kind.LINES:
            return LineRows()
        case Kind.JSON_TEXT:
            return JsonTextRows()
        case Kind.BINARY:
            return WholeFile()
        case Kind.AVRO:
            return AvroFormat(AvroOptions(default_precision=MOST_DIGITS))
    return ParquetFormat(AvroOptions(default_precision=MOST_DIGITS))


def _dialect(values: Mapping[str, Any]) -> CsvDialect:
    quote, escape = values["csv.quote.char"], values["csv.escape.char"]
    is_plain = values["csv.rfc.4180.parser.enabled"] or escape == quote
    nulls = values["csv.null.field.indicator"]
    return CsvDialect(
        separator=values["csv.separator.char"],
        quote=quote or None,
        escape=None if is_plain else escape or None,
        ignores_leading_blanks=values["csv.ignore.leading.whitespace"],
        has_header=values["csv.first.row.as.header"],
        skipped_lines=values["csv.skip.lines"],
        null_empty=nulls in ("EMPTY_SEPARATORS", "BOTH"),
        null_quoted=nulls in ("EMPTY_QUOTES", "BOTH"),
    )


def _schemas(kind: Kind, values: Mapping[str, Any], problems: list[Problem]) -> tuple[Schema | None, Schema | None]:
    """The schemas of keys and values; what is wrong with them is added to `problems`."""
    if kind not in _TYPED:
        return None, {Kind.LINES: STRING, Kind.JSON_TEXT: STRING, Kind.BINARY: _BYTES}.get(kind)
    made: list[Schema | None] = []
    for name in ("key.schema", "value.schema"):
        text = values[name].strip()
        try:
            schema = schemas.parsed(text) if text else None
            for field in () if schema is None else schema.fields:
                _check_field(field.name, field.schema, kind)
            made.append(schema)
        except ValueError as error:
            remedy = "See docs/spool.md for an example."
            problems.append(Problem(name, values[name], f"{error}.", remedy))
            made.append(None)
    key, value = made
    if value is None and not values["schema.generation.enabled"] and not problems:
        text = "Nothing says which fields values have."
        problems.append(Problem("value.schema", None, text, "Set it, or set schema.generation.enabled to true."))
    problems += _timestamp_problems(values, value)
    return key, value


def _check_field(name: str, schema: Schema, kind: Kind) -> None:
    try:
        Cells((), "").texts(schema, kind is Kind.JSON)
    except ValueError as error:
        raise ValueError(f"The field {name}: {error}") from error


def _timestamp_problems(values: Mapping[str, Any], value: Schema | None) -> Iterator[Problem]:
    if values["timestamp.mode"] == FIELD:
        name = values["timestamp.field"]
        field = None if value is None else value.field(name)
        if field is None or logical(field.schema) != TIMESTAMP or field.schema.optional:
            text = "It names no field of value.schema of the type Timestamp that is not optional."
            yield Problem("timestamp.field", name, text, "Name such a field, or choose another timestamp.mode.")


def _problems(kind: Kind, values: Mapping[str, Any]) -> Iterator[Problem]:
    for name, remedy in _ONLY_FALSE.items():
        if values.get(name):
            yield Problem(name, "true", "Only false is served.", remedy)
    if kind not in _TYPED and values["timestamp.mode"] == FIELD:
        text = f"Files of the format {kind} have no timestamp.field."
        yield Problem("timestamp.mode", FIELD, text, "Choose PROCESS_TIME or FILE_TIME.")
    if values["cleanup.policy"].startswith("MOVE") and not values["finished.path"]:
        yield Problem("finished.path", None, "cleanup.policy moves files there.", "Name a folder.")
    if kind is Kind.CSV and values["csv.separator.char"] in (values["csv.quote.char"], values["csv.escape.char"]):
        text = "It is the quote or the escape sign, too."
        yield Problem("csv.separator.char", str(values["csv.separator.char"]), text, "Choose three different signs.")
    folder = os.path.realpath(values["input.path"])
    for name in ("finished.path", "error.path"):
        path = os.path.realpath(values[name]) if values[name] else ""
        is_below = path.startswith(folder.rstrip("/") + "/") and values["input.path.walk.recursively"]
        if path == folder or is_below:
            yield Problem(
                name, values[name], "Files there would be read again.", "Name a folder outside of input.path."
            )
