"""The schema of a config, as a generator of its values."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.datagen.arguments import ANNOTATIONS
from headrace.connectors.datagen.building import generator
from headrace.connectors.datagen.options import Opener, contents
from headrace.connectors.datagen.quickstarts import QUICKSTARTS, Quickstart
from headrace.connectors.datagen.settings import FILE, KEY_FIELD, QUICKSTART, STRING
from headrace.connectors.datagen.values import Values
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.parsing import is_anything, parsed
from headrace.plugins.interop.avro.to_connect import connect_schema
from headrace.plugins.interop.avro.tree import AvroOptions
from headrace.plugins.path_bounds import allowed_paths, open_allowed
from headrace.plugins.schema import Schema, SchemaType, uncarried

MOST_BYTES: Final = 16 << 20
_SOURCES: Final = (QUICKSTART, STRING, FILE)
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')


@dataclass(frozen=True)
class Generated:
    """The generator of a config's records."""

    schema: Schema
    key: str
    """The field that is the key; empty if keys are null."""
    values: Values


def generated(settings: Mapping[str, Any], worker: Mapping[str, Any]) -> Generated:
    """Return what these parsed settings generate. Errors: ConfigError with all problems."""
    given = [name for name in _SOURCES if settings[name]]
    if len(given) != 1:
        fault = f"Exactly one of {', '.join(_SOURCES)} has to be set"
        raise ConfigError([Problem(name, settings[name] or None, fault, _advice(given)) for name in given or _SOURCES])
    (name,) = given
    allowed = allowed_paths(worker) if name != QUICKSTART else ()

    def opened(path: str) -> int:
        return open_allowed(os.path.abspath(path), os.O_RDONLY | os.O_NONBLOCK, allowed)

    quickstart = _quickstart(settings[name]) if name == QUICKSTART else None
    text = settings[name] if name == STRING else _read(settings[name], opened) if name == FILE else ""
    shown = settings[name] if name != STRING else None
    try:
        made = _generated(text if quickstart is None else json.dumps(quickstart.schema), opened)
    except DataError as error:
        raise ConfigError(Problem(name, shown, f"{error}", "Correct the schema.")) from error
    key = settings[KEY_FIELD] or ("" if quickstart is None else quickstart.key)
    if key and made.schema.field(key) is None:
        fields = ", ".join(field.name for field in made.schema.fields)
        raise ConfigError(Problem(KEY_FIELD, key, "The record has no such field.", f"It has {fields}."))
    return Generated(made.schema, key, made.values)


def misplaced(text: str) -> list[str]:
    """Return the fields whose annotations stand beside their type, where nothing reads them. Errors: DataError."""
    waiting, found = [parsed(_COMMENT.sub(r"\1", text))], []
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            fields = part.get("fields", ())
            found += [field["name"] for field in fields if ANNOTATIONS in field]
            waiting += [field["type"] for field in fields] + [part[key] for key in ("items", "values") if key in part]
    return found


def _advice(given: Iterable[str]) -> str:
    return "Keep one of them." if given else "For a first try: quickstart=pageviews."


def _quickstart(name: str) -> Quickstart:
    found = QUICKSTARTS.get(name.lower())
    if found is None:
        known = ", ".join(sorted(QUICKSTARTS))
        raise ConfigError(Problem(QUICKSTART, name, "There is no such quickstart.", f"There are {known}."))
    return found


def _read(path: str, opened: Opener) -> str:
    """Return a file's text. Errors: ConfigError."""
    try:
        data = contents(path, opened, MOST_BYTES)
        if len(data) <= MOST_BYTES:
            return data.decode()
        fault = f"The file is larger than {MOST_BYTES >> 20} MiB."
    except OSError as error:
        fault = f"The file cannot be read: {error.strerror}."
    except UnicodeDecodeError:
        fault = "The file is no text in UTF-8."
    advice = "Name a file on each worker; for a ready schema set quickstart."
    raise ConfigError(Problem(FILE, path, fault, advice))


def _generated(text: str, opened: Opener) -> Generated:
    tree = parsed(_COMMENT.sub(r"\1", text))
    if not isinstance(tree, dict) or tree["type"] != "record" or is_anything(tree):
        raise DataError("The schema is no record")
    schema = connect_schema(tree, AvroOptions())
    assert schema is not None
    assert schema.type is SchemaType.STRUCT
    if (why := uncarried(schema)) is not None:
        raise DataError(why)
    return Generated(schema, "", generator(tree, schema, opened))
