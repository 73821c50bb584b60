"""JSON Schemas of the drafts 4, 6, 7, 2019-09 and 2020-12 to Connect's, as Confluent's converter reads them.

Decided: fields with the same or no `connect.index` keep the order of the document, because Confluent's converter loses
all but one of them; loses: nothing.
Decided: a schema that contains itself is refused, because no type of Spark's can hold its values; loses: such topics.
Decided: beside `oneOf` with a null, title, description and default are not read, as in Confluent's converter; those of
the other branch are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from headrace.converters.json.defaults import read_value, refuse_invalid
from headrace.converters.json.schema import MOST_PARTS, TOO_LARGE
from headrace.converters.json_schema.documents import Documents, base_of
from headrace.converters.json_schema.options import ENUM, UNION, JsonSchemaOptions
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import DECIMAL, Field, Schema, SchemaType, sendable, uncarried

_NUMBERS: Final = {
    "int8": SchemaType.INT8,
    "int16": SchemaType.INT16,
    "int32": SchemaType.INT32,
    "int64": SchemaType.INT64,
    "float32": SchemaType.FLOAT32,
    "float64": SchemaType.FLOAT64,
    "bytes": SchemaType.BYTES,
}
_KEYWORDS: Final = {
    "object": (
        "properties",
        "additionalProperties",
        "patternProperties",
        "required",
        "minProperties",
        "maxProperties",
        "propertyNames",
    ),
    "array": ("items", "prefixItems", "additionalItems", "contains", "minItems", "maxItems", "uniqueItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"),
}
"""Keywords that tell the type of a schema without `type`."""
_UNIONS: Final = ("oneOf", "anyOf")
_LONGEST_CHAIN: Final = 100
"""The most references that name each other before a schema is met."""
_OF_THE_WHOLE: Final = ("title", "description", "default")


def connect_schema(documents: Documents, options: JsonSchemaOptions, version: int | None = None) -> Schema:
    """The Connect schema; `version`: the registry's, unless the document has one.

    Errors: DataError for a schema that Connect or Spark lacks, naming the place.
    """
    found = _Reader(documents, options).schema(documents.root, "", "the schema", ())
    return found if version is None or found.version is not None else replace(found, version=version)


class _Reader:
    """Walks a document; `base` is its URL, `at` the place for errors, `inside` the parts around, by identity."""

    def __init__(self, documents: Documents, options: JsonSchemaOptions) -> None:
        self._documents = documents
        self._options = options
        self._count = 0

    def schema(self, part: Any, base: str, at: str, inside: tuple[int, ...], optional: bool = False) -> Schema:
        """The Connect schema of a part."""
        part, base = self._followed(part, base, at, inside)
        if id(part) in inside:
            raise DataError(f"The JSON Schema contains itself at {at}, which no type of Spark can hold")
        found = self._schema(part, base, at, (*inside, id(part)))
        return replace(found, optional=True) if optional and not found.optional else found

    def _followed(self, part: Any, base: str, at: str, inside: tuple[int, ...]) -> tuple[Mapping[str, Any], str]:
        """The part that references finally name; counts it, since a short document may name a part very often."""
        self._count += 1
        if self._count > MOST_PARTS:
            raise DataError(TOO_LARGE.format(MOST_PARTS))
        for _ in range(_LONGEST_CHAIN):
            if not isinstance(part, dict) or not part:
                raise DataError(f"The JSON Schema allows any value at {at}, for which Connect has no type")
            base = base_of(part, base)
            if not isinstance(part.get("$ref"), str):
                return part, base
            part, base = self._documents.resolve(part["$ref"], base)
        raise DataError(f"The references of the JSON Schema at {at} do not end")

    def _schema(self, part: Mapping[str, Any], base: str, at: str, inside: tuple[int, ...]) -> Schema:
        kinds = part.get("type")
        if isinstance(kinds, list):
            return self._of_several_types(part, kinds, base, at, inside)
        union = _union_of(part)
        if "allOf" in part or (union and (kinds is not None or _kind(part) is not None)):
            return self._all_of(part, base, at, inside)
        if union is not None:
            return self._union(part, part[union], base, at, inside)
        if "const" in part or isinstance(part.get("enum"), list):
            return self._enum(part, at)
        kind = _kind(part)
        match kind:
            case "string" | "integer" | "number" | "boolean":
                found = _simple(part, kind, at)
            case "array":
                found = self._array(part, base, at, inside)
            case "object":
                found = self._object(part, base, at, inside)
            case _:
                raise DataError(f"The JSON Schema has no type at {at} that Connect knows ({kind or 'none is named'})")
        return _described(found, part, at)

    def _of_several_types(
        self, part: Mapping[str, Any], kinds: Sequence[Any], base: str, at: str, inside: tuple[int, ...]
    ) -> Schema:
        """A list of types is a union of schemas with the same keywords."""
        others = [kind for kind in kinds if kind != "null"]
        if len(others) == 1:
            found = self._schema({**part, "type": others[0]}, base, at, inside)
            return replace(found, optional=found.optional or "null" in kinds)
        shared = {key: value for key, value in part.items() if key not in _OF_THE_WHOLE}
        return self._union(part, [{**shared, "type": kind} for kind in kinds], base, at, inside)

    def _union(
        self, part: Mapping[str, Any], branches: Sequence[Any], base: str, at: str, inside: tuple[int, ...]
    ) -> Schema:
        others = [one for one in branches if not _is_null(one)]
        has_null = len(others) < len(branches)
        single = len(branches) == 1 and self._options.flatten_singletons
        if len(others) == 1 and (single or (has_null and len(branches) == 2)):
            return self.schema(others[0], base, at, inside, optional=has_null)
        fields = tuple(
            Field(f"{UNION}.field.{number}", self.schema(one, base, f"{at}, branch {number}", inside, optional=True))
            for number, one in enumerate(others)
        )
        if not fields:
            raise DataError(f"The JSON Schema allows nothing but null at {at}, for which Connect has no type")
        described = {key: part[key] for key in ("description",) if key in part}
        return _described(Schema(SchemaType.STRUCT, optional=has_null, name=UNION, fields=fields), described, at)

    def _all_of(self, part: Mapping[str, Any], base: str, at: str, inside: tuple[int, ...]) -> Schema:
        """A struct of the properties of all branches, or the most telling branch."""
        properties: dict[str, tuple[Any, str]] = {}
        required: set[str] = set()
        others: list[tuple[Mapping[str, Any], str]] = []
        self._gather(part, base, at, inside, properties, required, others)
        if properties:
            return _described(self._struct(properties, required, at, inside), part, at)
        tests: tuple[Callable[[Mapping[str, Any]], bool], ...] = (
            lambda one: _union_of(one) is not None,
            lambda one: "const" in one,
            lambda one: "enum" in one,
            lambda one: "format" in one,
            lambda one: one.get("type") in (*_SIMPLE, "array"),
        )
        chosen = next((one for test in tests for one in others if test(one[0])), None)
        if chosen is None:
            raise DataError(f"The JSON Schema has an allOf at {at} without properties or a type that Connect knows")
        one, base = chosen
        kind = part.get("type") or next((other.get("type") for other, _ in others if "type" in other), None)
        if (union := _union_of(one)) is not None:
            return self._union(part, one[union], base, at, inside)
        found = self._schema({**({"type": kind} if kind else {}), **one}, base, at, (*inside, id(one)))
        return _described(found, part, at)

    def _gather(
        self,
        part: Mapping[str, Any],
        base: str,
        at: str,
        inside: tuple[int, ...],
        properties: dict[str, tuple[Any, str]],
        required: set[str],
        others: list[tuple[Mapping[str, Any], str]],
    ) -> None:
        """Gathers the properties of a part and all its branches; `others`: the branches without properties."""
        own = {key: value for key, value in part.items() if key not in ("allOf", *_OF_THE_WHOLE)}
        if isinstance(part.get("properties"), dict):
            properties.update({name: (one, base) for name, one in part["properties"].items()})
        if own:
            others.append((own, base))
        required |= set(_names(part.get("required")))
        for key in ("allOf", *_UNIONS):
            for branch in part[key] if isinstance(part.get(key), list) else ():
                if _is_null(branch) or not isinstance(branch, dict) or not branch:
                    continue
                found, inner = self._followed(branch, base, at, inside)
                if id(found) in inside:
                    raise DataError(f"The JSON Schema contains itself at {at}, which no type of Spark can hold")
                if key == "allOf" or "properties" in found or "allOf" in found:
                    self._gather(found, inner, at, (*inside, id(found)), properties, required, others)

    def _enum(self, part: Mapping[str, Any], at: str) -> Schema:
        values = [part["const"]] if "const" in part else part["enum"]
        kind = _kind(part)
        if kind in ("number", "integer", "boolean"):
            return replace(_described(_simple(part, kind, at), part, at), optional=None in values)
        parameters = {ENUM: ""}
        for value in values:
            text = "<NULL>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            parameters[f"{ENUM}.{text}"] = text
        found = Schema(SchemaType.STRING, optional=None in values, parameters=parameters)
        return _described(found, part, at)

    def _array(self, part: Mapping[str, Any], base: str, at: str, inside: tuple[int, ...]) -> Schema:
        items = part.get("items")
        if not isinstance(items, dict):
            raise DataError(f"Array schema did not specify the items type, at {at}")
        if part.get("connect.type") != "map":
            found = self.schema(items, base, f"items of {at}", inside)
            return Schema(SchemaType.ARRAY, value_schema=found)
        entry, inner = self._followed(items, base, at, inside)
        of = entry.get("properties")
        if not isinstance(of, dict) or not {"key", "value"} <= of.keys():
            raise DataError(f"The JSON Schema's map at {at} has no properties key and value in its items")
        key, value = (self.schema(of[name], inner, f"{name} of {at}", inside) for name in ("key", "value"))
        return Schema(SchemaType.MAP, key_schema=key, value_schema=value)

    def _object(self, part: Mapping[str, Any], base: str, at: str, inside: tuple[int, ...]) -> Schema:
        if part.get("connect.type") == "map":
            value = self.schema(part.get("additionalProperties"), base, f"values of {at}", inside)
            return Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=value)
        found = part.get("properties")
        properties = {name: (one, base) for name, one in found.items()} if isinstance(found, dict) else {}
        return self._struct(properties, set(_names(part.get("required"))), at, inside)

    def _struct(
        self, properties: Mapping[str, tuple[Any, str]], required: set[str], at: str, inside: tuple[int, ...]
    ) -> Schema:
        places = {name: place for place, name in enumerate(properties)}
        in_order = sorted(properties, key=lambda name: (_index(properties[name][0], places[name]), places[name]))
        fields = []
        for name in in_order:
            if not name or sendable(name) != name:
                raise DataError(f"The JSON Schema has a property at {at} whose name no field can have: {name!r}")
            part, base = properties[name]
            optional = self._options.optional_unless_required and name not in required
            where = f"property {name}" if at == "the schema" else f"property {name} of {at}"
            fields.append(Field(name, self.schema(part, base, where, inside, optional)))
        return Schema(SchemaType.STRUCT, fields=tuple(fields))


_SIMPLE: Final = ("string", "integer", "number", "boolean")


def _kind(part: Mapping[str, Any]) -> str | None:
    """The type that a part names, or shows by its keywords."""
    kind = part.get("type")
    if isinstance(kind, str):
        return kind
    return next((of for of, keywords in _KEYWORDS.items() if any(key in part for key in keywords)), None)


def _union_of(part: Mapping[str, Any]) -> str | None:
    """The keyword with the branches of a union."""
    return next((key for key in _UNIONS if isinstance(part.get(key), list)), None)


def _is_null(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    return part.get("type") == "null" or ("const" in part and part["const"] is None) or part.get("enum") == [None]


def _index(part: Any, place: int) -> int:
    found = part.get("connect.index") if isinstance(part, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else place


def _names(found: Any) -> Iterator[str]:
    return (one for one in found if isinstance(one, str)) if isinstance(found, list) else iter(())


def _simple(part: Mapping[str, Any], kind: str, at: str) -> Schema:
    of = part.get("connect.type")
    match kind:
        case "boolean":
            return Schema(SchemaType.BOOLEAN)
        case "string":
            return Schema(SchemaType.BYTES if of == "bytes" else SchemaType.STRING)
    if of is None:
        return Schema(SchemaType.INT64 if kind == "integer" else SchemaType.FLOAT64)
    if not isinstance(of, str) or of not in _NUMBERS:
        raise DataError(f"The JSON Schema's connect.type is {of!r} at {at}, which Connect does not know for a number")
    return Schema(_NUMBERS[of])


def _described(schema: Schema, part: Mapping[str, Any], at: str) -> Schema:
    """The schema with its name, version, doc, parameters and default."""
    title, doc, version = part.get("title"), part.get("description"), part.get("connect.version")
    given = part.get("connect.parameters")
    parameters = {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}
    found = replace(
        schema,
        name=title if isinstance(title, str) else schema.name,
        doc=doc if isinstance(doc, str) else schema.doc,
        version=version if isinstance(version, int) and not isinstance(version, bool) else schema.version,
        parameters={**parameters, **schema.parameters},
    )
    if found.name == DECIMAL and found.type is SchemaType.BYTES and "scale" not in found.parameters:
        raise DataError(f"Invalid Decimal schema: no scale parameter found, at {at}")
    default = part.get("default")
    if default is None:
        return found
    if (why := uncarried(found)) is not None:
        raise DataError(why)
    value = read_value(found, _with_decimals(default, at))
    refuse_invalid(found, value)
    return replace(found, default=value)


def _with_decimals(node: Any, at: str) -> Any:
    """The document with decimals for numbers with a fraction."""
    if isinstance(node, float):
        if not math.isfinite(node):
            raise DataError(f"The JSON Schema's default is {node} at {at}, which is no number of JSON")
        return Decimal(str(node))
    if isinstance(node, dict):
        return {key: _with_decimals(value, at) for key, value in node.items()}
    return [_with_decimals(one, at) for one in node] if isinstance(node, list) else node
