"""Schemas made of the first files of a folder: all fields are optional strings."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.connectors.spool import schemas
from headrace.connectors.spool.csv_rows import CsvRows
from headrace.connectors.spool.errors import BadFile, SpoolError, Unreadable
from headrace.connectors.spool.json_rows import JsonRows, compact, find_objects
from headrace.connectors.spool.options import SpoolOptions
from headrace.connectors.spool.reader import SpoolFile
from headrace.connectors.spool.text_records import TextRecords
from headrace.connectors.spool.text_stream import TextStream
from headrace.plugins.path_bounds import open_allowed
from headrace.plugins.schema import Schema

_LOOKED_AT: Final = 5
"""So many files are looked at, as in the original."""


def with_schemas(options: SpoolOptions, allowed: tuple[str, ...]) -> SpoolOptions:
    """Return the options, with generated schemas if they lack them.

    Errors: SpoolError if there is no file, if files differ, or if one cannot be read.
    """
    if not options.lacks_schema:
        return options
    value, key = generated(options, allowed)
    assert isinstance(options.format, CsvRows | JsonRows)
    return replace(options, value=value, key=key, format=replace(options.format, value=value, key=key))


def generated(options: SpoolOptions, allowed: tuple[str, ...]) -> tuple[Schema, Schema | None]:
    """Return the schemas of values and keys. Errors: as `with_schemas`."""
    files = replace(options.listing, task=0, tasks=1).files()[:_LOOKED_AT]
    if not files:
        raise SpoolError(
            f"There is no file in {options.listing.folder} to make a schema of (input.file.pattern is "
            f"{options.listing.pattern}). Put one there, or set value.schema, and restart the connector."
        )
    names = [_names(options, file, allowed) for file in files]
    for file, its in zip(files, names, strict=True):
        if its != names[0]:
            raise SpoolError(
                f"{file.path} has the fields {', '.join(its)}, but {files[0].path} has {', '.join(names[0])}: no "
                "schema can be made of both. Set value.schema."
            )
    if lacking := [field for field in options.key_fields if field not in names[0]]:
        raise SpoolError(
            f"schema.generation.key.fields names {', '.join(lacking)}, but {files[0].path} has {', '.join(names[0])}."
        )
    key = schemas.generated(options.key_name, options.key_fields) if options.key_fields else None
    return schemas.generated(options.value_name, names[0]), key


def _names(options: SpoolOptions, file: SpoolFile, allowed: tuple[str, ...]) -> Sequence[str]:
    descriptor = open_allowed(file.path, os.O_RDONLY | os.O_CLOEXEC, allowed)
    stream = TextStream(descriptor, file.name, options.charset)
    try:
        records = TextRecords(stream)
        names = _of_csv(options.format, records) if isinstance(options.format, CsvRows) else _of_json(records)
    except BadFile as error:
        raise SpoolError(f"{file.path} cannot be read to make a schema of it: {error}") from error
    finally:
        stream.close()
    if not names:
        raise SpoolError(f"{file.path} is empty: no schema can be made of it. Take it away, or set value.schema.")
    return names


def _of_csv(rows: CsvRows, records: TextRecords) -> Sequence[str]:
    if rows.dialect.has_header:
        return rows.begin(records)
    rows.pass_lines(records)
    first = rows.first_row(records) or ()
    return [f"column{number:02}" for number in range(1, len(first) + 1)]


def _of_json(records: TextRecords) -> Sequence[str]:
    run = records.run(find_objects, 1)
    if run is None:
        return ()
    try:
        return list(json.loads(compact(run.data, run.ends).octets.tobytes()))
    except (ValueError, Unreadable) as error:
        raise BadFile(f"its first object is no JSON: {error}") from error
