"""The values of `options`, from the schema or from a file, as an Arrow array of the type's values."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import fastavro
import pyarrow as pa

from headrace.connectors.datagen.arguments import Arguments, is_unicode, number_of
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.parsing import LOGICAL_TYPE, branches, kind_of
from headrace.plugins.interop.avro.tree import Tree
from headrace.plugins.schema import DATE, DECIMAL, TIMESTAMP, Schema, SchemaType, logical, scale

MOST_FILE_BYTES: Final = 64 << 20

Opener = Callable[[str], int]
"""Opens a file that may be read, by its path; returns the descriptor."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS: Final[Mapping[SchemaType, Callable[[Any], int | float]]] = {
    SchemaType.INT8: int,
    SchemaType.INT16: int,
    SchemaType.INT32: int,
    SchemaType.INT64: int,
    SchemaType.FLOAT32: float,
    SchemaType.FLOAT64: float,
}


def options_of(arguments: Arguments, tree: Tree, schema: Schema, opened: Opener) -> pa.Array:
    """Return the options as values of this type. Errors: DataError; ConfigError for a file that may not be read."""
    given = arguments.get("options")
    if isinstance(given, dict):
        given = _of_file(arguments, given, tree, opened)
    if not isinstance(given, list) or not given:
        raise arguments.fault("has options that are no list of values")
    try:
        values = [_value(one, tree, schema, arguments) for one in given]
        return pa.array(values, arrow_type_of_schema(schema))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise arguments.fault(f"has an option that its type does not hold: {error}") from error


def _of_file(arguments: Arguments, given: dict[str, Any], tree: Tree, opened: Opener) -> Any:
    path, encoding = given.get("file"), given.get("encoding")
    if not isinstance(path, str) or encoding not in ("json", "binary"):
        raise arguments.fault('has options that name no file and encoding, as {"file": "/a/b", "encoding": "json"}')
    try:
        data = contents(path, opened, MOST_FILE_BYTES)
        if len(data) > MOST_FILE_BYTES:
            raise arguments.fault(f"has options in {path}, which is larger than {MOST_FILE_BYTES >> 20} MiB")
        if encoding == "json":
            return json.loads(data)
        return fastavro.schemaless_reader(io.BytesIO(data), {"type": "array", "items": _plain(tree)}, None)
    except OSError as error:
        raise arguments.fault(f"has options in {path}, which cannot be read: {error.strerror}") from error
    except (ValueError, EOFError, IndexError, KeyError, RecursionError) as error:
        raise arguments.fault(f"has options in {path}, which is no list of such values: {error}") from error


def contents(path: str, opened: Opener, most: int) -> bytes:
    """Return the bytes of a file, one more than `most` of a larger one. Errors: OSError; ConfigError as `opened`."""
    if "\0" in path:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    descriptor = opened(path)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "It is no file but a directory, a device or a pipe")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(descriptor)


def _plain(tree: Tree) -> Tree:
    """Return the schema without logical types, so that values are read as the schema writes them."""
    if isinstance(tree, list):
        return [_plain(one) for one in tree]
    if isinstance(tree, dict):
        return {
            key: _plain(one) if isinstance(one, dict | list) else one
            for key, one in tree.items()
            if key != LOGICAL_TYPE
        }
    return tree


def _value(given: Any, tree: Tree, schema: Schema, arguments: Arguments) -> Any:
    """Return one option as Arrow takes it."""
    if isinstance(tree, list):
        return _of_union(given, tree, schema, arguments)
    if logical(schema) == DECIMAL:
        return _decimal(given, schema, arguments)
    match schema.type:
        case SchemaType.STRUCT if isinstance(given, dict) and isinstance(tree, dict):
            return _record(given, tree, schema, arguments)
        case SchemaType.ARRAY if isinstance(given, list) and isinstance(tree, dict) and schema.value_schema:
            return [_value(one, tree["items"], schema.value_schema, arguments) for one in given]
        case SchemaType.MAP if isinstance(given, dict) and isinstance(tree, dict) and schema.value_schema:
            return [(key, _value(one, tree["values"], schema.value_schema, arguments)) for key, one in given.items()]
        case SchemaType.BYTES if isinstance(given, str | bytes):
            return _bytes(given, tree, arguments)
        case SchemaType.STRING if isinstance(given, str) and is_unicode(given):
            return _text(given, tree, arguments)
        case SchemaType.BOOLEAN if isinstance(given, bool):
            return given
    kind = _NUMBERS.get(schema.type)
    number = None if kind is None else number_of(given, kind)
    if number is None:
        raise arguments.fault(f"has the option {given!r:.80}, which is no {kind_of(tree)}")
    return _instant(number, logical(schema))


def _instant(number: Any, name: str | None) -> Any:
    if name == DATE:
        return date(1970, 1, 1) + timedelta(days=number)
    return _EPOCH + timedelta(milliseconds=number) if name == TIMESTAMP else number


def _text(given: str, tree: Tree, arguments: Arguments) -> str:
    if isinstance(tree, dict) and tree["type"] == "enum" and given not in tree["symbols"]:
        raise arguments.fault(f"has the option {given!r:.80}, which is none of its symbols")
    return given


def _bytes(given: str | bytes, tree: Tree, arguments: Arguments) -> bytes:
    data = given.encode() if isinstance(given, str) else given
    if isinstance(tree, dict) and tree["type"] == "fixed" and len(data) != tree["size"]:
        raise arguments.fault(f"has the option {given!r:.80}, which has {len(data)} bytes and not {tree['size']}")
    return data


def _decimal(given: Any, schema: Schema, arguments: Arguments) -> Decimal:
    if isinstance(given, bytes):
        return Decimal(int.from_bytes(given, "big", signed=True)).scaleb(-scale(schema))
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise arguments.fault(f"has the option {given!r:.80}, which is no decimal")
    try:
        return round(Decimal(str(given)), scale(schema))
    except ArithmeticError as error:
        raise arguments.fault(f"has the option {given!r:.80}, which is no decimal") from error


def _record(given: dict[str, Any], tree: dict[str, Any], schema: Schema, arguments: Arguments) -> dict[str, Any]:
    members = {}
    for field, avro in zip(schema.fields, tree["fields"], strict=True):
        if field.name not in given:
            raise arguments.fault(f"has an option without its field {field.name}: {given!r:.80}")
        members[field.name] = _value(given[field.name], avro["type"], field.schema, arguments)
    return members


def _of_union(given: Any, tree: list[Any], schema: Schema, arguments: Arguments) -> Any:
    """Return an option of a union, as the value of the first branch that takes it."""
    if given is None and "null" in tree:
        return None
    others = branches(tree)
    for number, branch in enumerate(others):
        alone = len(others) == 1
        try:
            made = _value(given, branch, schema if alone else schema.fields[number].schema, arguments)
        except DataError:
            continue
        return made if alone else {schema.fields[number].name: made}
    raise arguments.fault(f"has the option {given!r:.80}, which no branch of its union takes")
