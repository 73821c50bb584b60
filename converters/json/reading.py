"""JSON bytes to values, as Apache's JsonConverter reads them; Column expressions that never raise for data.

Most documents have the spelling that every converter writes: the same envelope text before the payload and one brace
after it. Their payload is cut out of the bytes without a parser and read in one of the quick ways (`read_quickly`;
`json.positions` and `json.parsing` for structs). All others are marked, parsed as a whole and read value by value, in
the thorough way (`read`, `json.nodes`).

Decided: raw control characters in a string are accepted, and single quotes in a schemaless object, because Spark's
parsers accept them and refusing them would cost a second pass; loses: nothing that Apache reads.
Decided: JSON in UTF-16 or UTF-32, leading zeros inside schemaless arrays and objects, and numbers of more than 38
digits for an int type or a Decimal are refused, because Spark does not read or hold them; loses: such documents, which
Apache reads (it wraps the numbers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.json import marking, numbers, parsing, positions
from headrace.converters.json.defaults import CONTAINERS
from headrace.converters.json.marking import OPTIONS
from headrace.converters.json.nodes import node, null_fault, null_value
from headrace.converters.json.rules import JsonRules
from headrace.plugins.contracts import Decoded
from headrace.plugins.interop.catalyst.java_calls import is_utf8, place_of_byte
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.int64_bits import low_bits
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.quick_decoding import Parts, Step
from headrace.plugins.schema import DECIMAL, INTEGER_BITS, Schema, SchemaType, logical, spark_type

NOT_JSON: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "

_BYTE_ORDER_MARK: Final = "\ufeff"
_MARK_BYTES: Final = len(_BYTE_ORDER_MARK.encode())
_BLANKS: Final = " \t\r\n"
_INTEGER: Final = r"^-?[0-9]{1,18}\z"
_NUMBER: Final = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?\z"
_SCHEMALESS: Final = r'^(?:0|-?[1-9][0-9]{0,17}|true|false|"[^"\\\x00-\x1f]*")\z'
_SCALAR: Final = (
    r'(?s)^(?:"(?:[^"\\]++|\\.)*+"|'
    rf"{numbers.NUMBER}(?=[ \t\r\n]|\z)|"
    r"(?:true|false|null)(?!\p{javaJavaIdentifierPart}))"
)
"""The first value of a document; Jackson reads no more, so anything may follow."""


@dataclass(frozen=True)
class Quick:
    """The payload in bytes of the usual spelling: after `before` and before the closing `tail`."""

    text: Column
    """The whole bytes as a string."""
    before: bytes
    tail: str

    @property
    def left(self) -> int:
        """The number of bytes before the payload."""
        return len(self.before)

    def cut(self, quotes: int = 0) -> Column:
        """The payload's bytes, without `quotes` bytes at each end."""
        around = self.left + len(self.tail) + 2 * quotes
        return F.substring(
            self.text.cast("binary"), F.lit(self.left + quotes + 1), F.octet_length(self.text) - F.lit(around)
        )

    def ends(self, mark: str = "") -> Column:
        """True if `mark` and `tail` end the bytes."""
        return F.endswith(self.text, F.lit(mark + self.tail)) if mark + self.tail else F.lit(True)

    def begins(self, mark: bytes) -> Column:
        """True if the payload begins with `mark`."""
        return F.startswith(self.text, F.lit(self.before + mark).cast("string"))

    def payload(self) -> Column:
        """The payload as text; null if `tail` is missing."""
        return F.when(self.ends(), self.cut().cast("string"))

    def is_null(self) -> Column:
        """True if the payload is `null`."""
        return self.text == F.lit(self.before + b"null" + self.tail.encode()).cast("string")

    def string(self) -> Column:
        """The content of a payload that is one JSON string; null for all other bytes.

        Tests the whole bytes if it can, because each part cut out of them is a copy.
        """
        data, inside = self.text.cast("binary"), self.cut(quotes=1).cast("string")
        framed = (
            self.begins(b'"')
            & self.ends('"')
            & (F.octet_length(self.text) >= F.lit(self.left + len(self.tail) + 2))
            & self._is_utf8()
        )
        backslash = place_of_byte(data, b"\\", self.left) >= 0
        last_quote = F.octet_length(self.text) - F.lit(len(self.tail) + 1)
        plain = F.replace(F.replace(inside, F.lit("\\\\"), F.lit("")), F.lit('\\"'), F.lit(""))
        is_one = place_of_byte(data, b'"', self.left + 1) == last_quote
        return F.when(framed & ~backslash & is_one, inside).when(
            framed & backslash & ~F.contains(plain, F.lit('"')), F.get_json_object(self.cut().cast("string"), "$")
        )

    def _is_utf8(self) -> Column:
        """True for valid UTF-8; a registry's id before the payload need not be."""
        try:
            self.before.decode()
        except UnicodeDecodeError:
            return is_utf8(self.cut())
        return is_utf8(self.text)

    def schemaless_container(self) -> Column:
        """The compact JSON of an object or array; null for all other bytes."""
        whole = self.text
        first = F.substring(self.text.cast("binary"), self.left + 1, 1)
        is_container = first.isin(F.lit(b"{"), F.lit(b"[")) & is_utf8(whole)
        if not self.tail:
            return F.when(is_container, F.get_json_object(whole, "$"))
        return F.when(is_container & self.is_envelope("schema"), F.get_json_object(whole, "$.payload"))

    def is_envelope(self, beside: str) -> Column:
        """True if the bytes are an object with this member and the payload only."""
        return F.json_object_keys(self.text) == F.array(F.lit(beside), F.lit("payload"))

    def parsed(self, schema: Schema, rules: JsonRules) -> Column:
        """The payload, parsed as an array, map or struct; null if the bytes are surely not one."""
        usual = self.ends()
        if schema.type is SchemaType.STRUCT:
            usual &= self.ends("}")
        elif self.tail:
            usual &= self.is_envelope(rules.beside)  # without a struct's brace to prove the end of the payload
        payload = self.cut()
        # The bytes before the payload are valid UTF-8, because they were read as a schema.
        return F.when(usual & is_utf8(payload), parsing.parsed(payload.cast("string"), schema, rules))


def document(data: Column) -> Column:
    """The text of the document in these bytes; as in Jackson, without a byte order mark that something follows."""
    text = data.cast("string")
    is_marked = F.startswith(text, F.lit(_BYTE_ORDER_MARK)) & (F.octet_length(text) > _MARK_BYTES)
    return F.when(is_marked, F.substring(text.cast("binary"), _MARK_BYTES + 1, 2**31 - 1).cast("string")).otherwise(
        text
    )


@dataclass(frozen=True)
class Parsed:
    """A payload for the thorough way."""

    document: Column
    """Struct of `good`, true if it can be read, and `raw`, the payload in marked JSON (`json.marking`).

    `raw` is null if the payload is.
    """
    fault: Column
    """Connect's error for an invalid document, null for a valid one; more expensive than `good`."""
    text: Column
    """The compact JSON of a payload that is not a string, for schemaless values."""


def envelope(text: Column, rules: JsonRules) -> Parsed:
    """The payload of a complete document with envelope."""
    return _in_object(text, ["payload", rules.beside], rules)


def enveloped(quick: Quick, rules: JsonRules) -> Parsed:
    """The payload of a document that begins with a known envelope, so that its schema is known."""
    rest = F.substring(quick.text.cast("binary"), quick.left + 1, 2**31 - 1).cast("string")
    return _in_object(F.concat(F.lit('{"payload":'), rest), ["payload"], rules)


def _in_object(text: Column, names: list[str], rules: JsonRules) -> Parsed:
    """The member `payload` of an object that must have the members `names` only."""

    def document(marked: Column) -> Column:
        good = F.coalesce(_members(marked) == F.array(*(F.lit(f"s{name}") for name in names)), F.lit(False))
        payload = marking.member(marking.members(marked, ["payload"]), "payload")
        return F.struct((good & is_utf8(text)).alias("good"), payload.alias("raw"))

    payload = F.from_json(text, "payload string", OPTIONS)["payload"]
    return Parsed(let(marking.marked(text), document), _fault(text, names, rules), payload)


def envelope_fault(text: Column, rules: JsonRules) -> Column:
    """The error for a document without a valid envelope; null for a valid one."""
    return _fault(text, ["payload", rules.beside], rules)


def _fault(text: Column, names: list[str], rules: JsonRules) -> Column:
    members = _members(text)
    trimmed = F.ltrim(text, F.lit(_BLANKS))
    no_json = members.isNull() & (
        trimmed.startswith("{") | ((F.length(trimmed) > 0) & F.get_json_object(text, "$").isNull())
    )
    return F.when(no_json | ~is_utf8(text), _not_json(text)).when(
        members.isNull() | (members != F.array(*map(F.lit, names))), F.lit(rules.no_envelope)
    )


def _members(text: Column) -> Column:
    """The sorted names of a JSON object's members; null for anything else."""
    names = F.array_distinct(F.map_keys(F.from_json(text, "map<string,string>", OPTIONS)))
    return F.sort_array(names)


def plain(text: Column) -> Parsed:
    """A document that is the payload itself; as in Jackson, only its first value counts."""
    document = F.ltrim(text, F.lit(_BLANKS))
    first = F.substring(document, 1, 1)
    scalar = F.regexp_extract(document, _SCALAR, 0)
    wrapped = marking.marked(F.concat(F.lit('{"p":'), scalar, F.lit("}")))
    of_scalar = marking.member(marking.members(wrapped, ["p"]), "p")
    is_container = (first == "{") & F.from_json(document, "map<string,string>", OPTIONS).isNotNull()
    is_container |= (first == "[") & F.from_json(document, "array<string>", OPTIONS).isNotNull()
    raw = F.when(is_container, marking.marked(document)).when(first == "", marking.MISSING).otherwise(of_scalar)

    def read(raw: Column) -> Column:
        good = (raw.isNotNull() | (scalar == "null")) & is_utf8(text)
        return F.struct(good.alias("good"), raw.alias("raw"))

    made = let(raw, read)
    number = F.regexp_replace(scalar, r"^(-?)0+(?=[0-9])", "$1")
    compact = F.get_json_object(F.when(is_container, document).otherwise(number), "$")
    return Parsed(made, F.when(~made["good"], _not_json(text)), compact)


def _not_json(text: Column) -> Column:
    """`NOT_JSON` with one of few causes: the text identifies faulty bytes, as a schema does others."""
    document = F.rtrim(F.ltrim(text, F.lit(_BLANKS)), F.lit(_BLANKS))
    first, last = F.substring(document, 1, 1), F.substring(document, -1, 1)
    opened = (first == "{") & (last != "}") | (first == "[") & (last != "]")
    cause = (
        F.when(first == "\0", F.lit("the bytes begin with 0x00, as what a schema registry's converters write does"))
        .when(~is_utf8(text), F.lit("the bytes are not valid UTF-8"))
        .when(first == "", F.lit("there is no document"))
        .when(opened, F.lit("the document does not end with the bracket that closes it"))
        .when(document.rlike(r"^([\[{\"0-9-]|true|false|null)"), F.lit("there is a syntax error within the document"))
        .when(first.rlike("^[!-~]"), F.concat(F.lit("no JSON value begins with "), first))
        .otherwise(F.lit("the document does not begin with a JSON value"))
    )
    return F.concat(F.lit(NOT_JSON), cause)


def read(quick: Quick | None, parsed: Parsed, schema: Schema | None, rules: JsonRules) -> Decoded:
    """The payload's value under a schema, or the error, in the thorough way.

    A payload that is exactly `null` needs no parser.
    """
    is_null = F.lit(False) if quick is None else quick.is_null()
    if schema is None:
        value, fault = _schemaless(parsed), parsed.fault
        null: Column = F.lit(None)
    else:
        found = let(parsed.document, lambda one: F.when(one["good"], node(one["raw"], schema, rules)))
        # With a fault further inside, `v` still has the rest of the value.
        value = let(found, lambda one: F.when(one["e"].isNull(), one["v"]))
        if quick is not None and parsing.parses(schema, rules) and positions.is_flat(schema):
            payload = quick.cut().cast("string")
            of_parser = let(quick.parsed(schema, rules), lambda one: parsing.value(one, payload, schema, rules))
            value = F.coalesce(of_parser, value)
        fault = F.coalesce(parsed.fault, found["e"])
        null = null_value(schema, rules)
    nullable = F.lit(None) if schema is None else null_fault(schema, rules)
    return Decoded(
        F.when(is_null, null).otherwise(value).cast(spark_type(schema)),
        F.when(is_null, nullable.cast("string")).otherwise(fault),
    )


def _schemaless(parsed: Parsed) -> Column:
    """The compact JSON of a value, with integers in 64 bits as by Java's `longValue`."""
    text = parsed.text

    def read(raw: Column) -> Column:
        number = marking.content(raw)
        whole = numbers.integer(number).cast("string")
        of_number = F.when(number.rlike("^-?[0-9]+$"), whole).when(text == "-0.0", F.lit("0.0"))
        return F.when(marking.is_string(raw), quoted(marking.content(raw))).otherwise(
            F.coalesce(F.when(marking.is_number(raw), of_number), text)
        )

    return let(parsed.document, lambda one: F.when(one["good"] & one["raw"].isNotNull(), read(one["raw"])))


def quick_steps(before: bytes, tail: str, schema: Schema | None, rules: JsonRules) -> Sequence[Step]:
    """Steps to the parts that `read_parts` uses several times; empty if `read_quickly` is enough."""
    if schema is None or not parsing.parses(schema, rules):
        return []
    if positions.is_flat(schema):
        return positions.steps(before, tail, schema)
    return [lambda text, _: {"parsed": Quick(text, before, tail).parsed(schema, rules)}]


def read_parts(quick: Quick, parts: Parts, schema: Schema, rules: JsonRules) -> Column:
    """The value in the parts from `quick_steps`; null if the thorough way is needed.

    Decided: Spark's JSON parser is not part of a flat struct's quick way, because it cannot be compiled together with
    the expressions around it, so that each row is copied twice (a third of the whole cost); loses: structs written with
    blanks or in another order make the worker compile the thorough program, in which the parser comes first.
    """
    if positions.is_flat(schema):
        return positions.value(quick.text, parts, quick.before, quick.tail, schema, rules)
    return parsing.value(parts["parsed"], quick.cut().cast("string"), schema, rules)


def read_quickly(quick: Quick, schema: Schema | None) -> Column | None:
    """The payload's value if it has the usual form, else null; None if the schema has no quick way."""
    text = quick.payload()
    if schema is None:
        return F.coalesce(F.when(text.rlike(_SCHEMALESS) & is_utf8(text), text), quick.schemaless_container())
    if schema.type in CONTAINERS or logical(schema) == DECIMAL:
        return None
    if schema.type in INTEGER_BITS:
        if logical(schema) is not None:
            return None
        return F.when(text.rlike(_INTEGER), low_bits(text.try_cast("long"), schema))
    match schema.type:
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return F.when(text.rlike(_NUMBER), numbers.floating(text, schema))
        case SchemaType.BOOLEAN:
            return F.when(text == "true", F.lit(True)).when(text == "false", F.lit(False))
        case SchemaType.BYTES:
            return numbers.from_base64(quick.string())
    return quick.string()
