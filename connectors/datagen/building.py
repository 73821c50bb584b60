"""Builds the generators of an Avro schema's values from its types and their annotations."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.datagen.arguments import ANNOTATIONS, Arguments, bounded, ordered
from headrace.connectors.datagen.options import Opener, options_of
from headrace.connectors.datagen.patterns import PRINTABLE, Literal, Node, OneOf, Sequenced, pattern
from headrace.connectors.datagen.values import (
    MOST_SPAN,
    MOST_STEP,
    Alternating,
    Booleans,
    Converted,
    Counting,
    CountingFloats,
    Floats,
    Integers,
    Lists,
    Maps,
    Options,
    Structs,
    Texts,
    Unions,
    Values,
    dates,
    joined,
    timestamps,
    unscaled,
)
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.parsing import branches, entry_of, is_anything, kind_of
from headrace.plugins.interop.avro.tree import Tree
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    INTEGER_BITS,
    MOST_DIGITS,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_END,
    Schema,
    SchemaType,
    logical,
    scale,
)

_DAY_MS: Final = 86_400_000
_DAYS: Final = (-719_162, 2_932_897)
"""The days of the years 1 to 9999: dates and times without a range stay among them, since many clients hold no others.
"""
_MOST_ITEMS: Final = 10_000
_MOST_ROW_BYTES: Final = 8 << 20
"""The most that one row may take, if all of its texts and arrays have their greatest lengths."""
_VALUE_BYTES: Final = 8
_STRINGS: Final = pa.string()
_DIGITS: Final = OneOf(b"0123456789")
_COUNTS: Final = ("start", "restart", "step", "initial")


def generator(tree: Tree, schema: Schema, opened: Opener) -> Values:
    """Return the generator of values of this type. Errors: DataError with the path to the part that is to blame."""
    return _Builder(opened).of(tree, schema, "")


class _Builder:
    def __init__(self, opened: Opener) -> None:
        self._opened = opened
        self._counts = True
        """False within arrays and maps."""
        self._copies = 1
        """The most values of the type that is built in one row."""
        self._room = _MOST_ROW_BYTES

    def of(self, tree: Tree, schema: Schema | None, at: str) -> Values:
        if schema is None or is_anything(tree):
            raise DataError(f"{at} is schemaless: nothing says what to generate")
        if isinstance(tree, list):
            return self._union(tree, schema, at)
        kind = "decimal" if logical(schema) == DECIMAL else kind_of(tree)
        arguments = Arguments(tree.get(ANNOTATIONS) if isinstance(tree, dict) else None, kind, at)
        self._take(_VALUE_BYTES, at)
        if arguments.get("options") is not None:
            options = options_of(arguments, tree, schema, self._opened)
            self._take(options.nbytes // len(options), at)
            made: Values = Options(options)
            return self._wrapped(made, arguments) if kind == "string" else made
        if isinstance(tree, dict) and kind in ("record", "array", "map"):
            return self._nested(tree, schema, arguments)
        match kind:
            case "boolean":
                return self._boolean(arguments)
            case "string":
                return self._wrapped(self._string(arguments), arguments)
            case "bytes":
                return self._texts(OneOf(bytes(range(256)), *arguments.length()), at, pa.binary())
            case "fixed" if isinstance(tree, dict):
                return self._texts(OneOf(bytes(range(256)), tree["size"], tree["size"]), at, pa.binary())
            case "enum" if isinstance(tree, dict):
                return Options(pa.array(tree["symbols"]))
            case "decimal":
                return _decimal(tree, schema, arguments)
            case "float" | "double":
                return self._float(schema, arguments)
        return self._integer(schema, arguments)

    def _nested(self, tree: dict[str, Any], schema: Schema, arguments: Arguments) -> Values:
        kind, at = arrow_type_of_schema(schema), arguments.at
        if tree["type"] == "record":
            parts = zip(tree["fields"], schema.fields, strict=True)
            members = tuple(self.of(avro["type"], field.schema, f"{at}.{field.name}") for avro, field in parts)
            return Structs(members, kind)
        if tree["type"] == "array" and entry_of(tree) is not None:
            raise arguments.fault("is an array of a map's entries, which is not generated; write a map")
        lengths = arguments.length(most=_MOST_ITEMS)
        (counts, copies), self._counts = (self._counts, self._copies), False
        self._copies *= lengths[1]
        if tree["type"] == "array":
            made: Values = Lists(self.of(tree["items"], schema.value_schema, f"{at}[]"), *lengths, kind)
        else:
            items = self.of(tree["values"], schema.value_schema, f"{at}{{}}")
            made = Maps(self._keys(arguments), items, *lengths, kind)
        self._counts, self._copies = counts, copies
        return made

    def _keys(self, arguments: Arguments) -> Values:
        rules = arguments.get("keys")
        if rules is None:
            return self._texts(OneOf(PRINTABLE), arguments.at)
        return self.of({"type": "string", ANNOTATIONS: rules}, STRING, f"{arguments.at}{{keys}}")

    def _union(self, tree: list[Any], schema: Schema, at: str) -> Values:
        others = branches(tree)
        if schema.type is SchemaType.STRUCT and len(others) > 1:
            kind = arrow_type_of_schema(schema)
            parts = zip(others, schema.fields, strict=True)
            made = tuple(self.of(branch, field.schema, f"{at}.{field.name}") for branch, field in parts)
        else:
            kind, made = None, (self.of(others[0], schema, at),)
        return Unions(made, len(others) < len(tree), kind) if kind or len(tree) > 1 else made[0]

    def _boolean(self, arguments: Arguments) -> Values:
        if (counted := arguments.bounds("iteration", ("start",))) is not None:
            if not isinstance(counted.get("start"), bool):
                raise arguments.fault("has an iteration whose start is neither true nor false")
            self._check_counts(arguments)
            return Alternating(counted["start"])
        odds = arguments.get("odds")
        if odds is None:
            return Booleans(0.5)
        if isinstance(odds, bool) or not isinstance(odds, int | float) or not 0 <= odds <= 1:
            raise arguments.fault(f"has odds={odds!r}, which is no number from 0 to 1")
        return Booleans(odds)

    def _string(self, arguments: Arguments) -> Values:
        if arguments.get("iteration") is not None:
            as_text = partial(pc.cast, target_type=pa.string())
            return Converted(self._counting(arguments, None, 64, pa.int64()), as_text)
        if arguments.get("regex") is None:
            return self._texts(OneOf(PRINTABLE, *arguments.length()), arguments.at)
        return self._texts(_pattern(arguments), arguments.at)

    def _texts(self, node: Node, at: str, kind: pa.DataType = _STRINGS) -> Values:
        self._take(node.width, at)
        return Texts(node, kind)

    def _take(self, size: int, at: str) -> None:
        """Take so many bytes from those that a row may have. Errors: DataError."""
        self._room -= self._copies * size
        if self._room < 0:
            raise DataError(
                f"{at or 'The record'} is where a row may be larger than {_MOST_ROW_BYTES >> 20} MiB, if all that has "
                "a length, here and before, has its greatest one; set smaller lengths"
            )

    def _wrapped(self, inner: Values, arguments: Arguments) -> Values:
        prefix, suffix = arguments.text("prefix"), arguments.text("suffix")
        if not prefix and not suffix:
            return inner
        return Converted(inner, partial(joined, prefix=prefix, suffix=suffix))

    def _integer(self, schema: Schema, arguments: Arguments) -> Values:
        bits, name = INTEGER_BITS[schema.type], logical(schema)
        plain = (
            pa.int64() if name == TIMESTAMP else pa.int32() if name in (DATE, TIME) else arrow_type_of_schema(schema)
        )
        if arguments.get("iteration") is not None:
            made: Values = self._counting(arguments, name, bits, plain)
        else:
            made = Integers(*_range(arguments, name, bits), plain)
        if name == TIMESTAMP:
            return Converted(made, timestamps)
        return Converted(made, dates) if name == DATE else made

    def _float(self, schema: Schema, arguments: Arguments) -> Values:
        kind = arrow_type_of_schema(schema)
        most = float(np.finfo(np.float32 if schema.type is SchemaType.FLOAT32 else np.float64).max)
        if (counted := arguments.bounds("iteration", _COUNTS)) is not None:
            return CountingFloats(*self._count(arguments, counted, float, (-most, most)), kind)
        if (bounds := arguments.bounds("range", ("min", "max"))) is None:
            return Floats(0.0, 1.0, kind)
        return Floats(*bounded(arguments, bounds, float, (-most, most)), kind)

    def _counting(self, arguments: Arguments, name: str | None, bits: int, kind: pa.DataType) -> Counting:
        counted = arguments.bounds("iteration", _COUNTS)
        assert counted is not None
        least, end = _limits(name, bits)
        start, restart, step, initial = self._count(arguments, counted, int, (least, end - 1))
        if "restart" not in counted:
            restart = max(min(restart, start + MOST_SPAN), start - MOST_SPAN)
        if abs(restart - start) > MOST_SPAN or abs(step) > MOST_STEP:
            raise arguments.fault(f"has an iteration beyond {MOST_SPAN} numbers, or with a step beyond {MOST_STEP}")
        return Counting(start, restart, step, initial, kind)

    def _count(self, arguments: Arguments, counted: Any, kind: Any, ends: tuple[Any, Any]) -> tuple[Any, Any, Any, Any]:
        """Return start, restart, step and initial of numbers with these ends."""
        self._check_counts(arguments)
        start = arguments.number(counted, "start", kind)
        if start is None:
            raise arguments.fault("has an iteration without start")
        restart, step, initial = (arguments.number(counted, name, kind) for name in _COUNTS[1:])
        if restart is None:
            restart = ends[0] if step is not None and step < 0 else ends[1]
        if step is None:
            step = 1 if restart > start else -1
        initial = start if initial is None else initial
        if not ends[0] <= start <= ends[1] or not ends[0] - 1 <= restart <= ends[1] + 1:
            raise arguments.fault(f"has an iteration beyond its type, which goes from {ends[0]} to {ends[1]}")
        if not step or restart == start or (step > 0) != (restart > start):
            raise arguments.fault(f"has an iteration that does not go from {start} to {restart} by {step}")
        if not min(start, restart) <= initial <= max(start, restart) or initial == restart:
            raise arguments.fault(f"has an iteration whose initial {initial} is not from {start} up to {restart}")
        return start, restart, step, initial

    def _check_counts(self, arguments: Arguments) -> None:
        if not self._counts:
            raise arguments.fault(
                "has an iteration within an array or a map, where it would depend on the lengths of all records before"
            )


def _limits(name: str | None, bits: int) -> tuple[int, int]:
    """Return the bounds of a type of integers with this logical type, if any, the last one excluded."""
    if name == TIMESTAMP:
        return -TIMESTAMP_END, TIMESTAMP_END
    return (0, _DAY_MS) if name == TIME else (-(1 << bits - 1), 1 << bits - 1)


def _range(arguments: Arguments, name: str | None, bits: int) -> tuple[int, int]:
    """Return the bounds that the annotations give, the last one excluded."""
    bounds = arguments.bounds("range", ("min", "max"))
    if bounds is None:
        first, last = _DAYS
        usual = {DATE: _DAYS, TIME: (0, _DAY_MS), TIMESTAMP: (first * _DAY_MS, last * _DAY_MS)}
        return usual[name] if name in usual else _limits(name, bits)
    return bounded(arguments, bounds, int, _limits(name, bits))


def _pattern(arguments: Arguments) -> Node:
    try:
        return pattern(arguments.text("regex"))
    except ValueError as error:
        raise arguments.fault(f"has a regex that is not served: {error}") from error


def _decimal(tree: Tree, schema: Schema, arguments: Arguments) -> Values:
    digits, kind = scale(schema), arrow_type_of_schema(schema)
    precision = tree.get("precision") if isinstance(tree, dict) else None
    if not isinstance(precision, int) or not max(1, digits) <= precision <= MOST_DIGITS:
        raise arguments.fault(f"needs a precision from its scale to {MOST_DIGITS}")
    if (bounds := arguments.bounds("range", ("min", "max"))) is None:
        sign = OneOf(b"+-")
        whole, part = (
            OneOf(_DIGITS.octets, precision - digits, precision - digits),
            OneOf(_DIGITS.octets, digits, digits),
        )
        text = Sequenced((sign, Literal(b"0"), whole, Literal(b"."), part, Literal(b"0" if not digits else b"")))
        return Converted(Texts(text, pa.string()), partial(pc.cast, target_type=kind))
    most = 10 ** min(precision, 18)
    low, high = (arguments.number(bounds, name, float) for name in ("min", "max"))
    ends = [
        -most if low is None else round(Decimal(str(low)).scaleb(digits)),
        most if high is None else round(Decimal(str(high)).scaleb(digits)),
    ]
    if ends[0] < -most or ends[1] > most:
        raise arguments.fault(f"has a range beyond {min(precision, 18)} digits")
    return Converted(Integers(*ordered(arguments, *ends), pa.int64()), partial(unscaled, kind=kind))
