"""JSON bytes to values, as Apache's JsonConverter reads them; Column expressions that never raise for data.

Most records have one spelling, the one that every converter writes: the same envelope text before the payload and one
brace after it. For those the payload is cut out of the bytes without parsing anything. The rest goes through a parser,
several times where need be: it is rare, and a lambda that would bind its result is shared between threads *here*.

Decided, because Spark's parsers do so and refusing it would cost a second pass; loses nothing that Apache reads:
raw control characters in a text are accepted, and single quotes in a schemaless object. Refused although Apache reads
it: JSON in UTF-16 or with a byte order mark, an envelope with the same member twice, leading zeros inside schemaless
arrays and objects, and for an int type a number of more than 38 digits (Apache wraps it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.json_schema import INTEGER_BITS
from headrace.converters.json_writing import quoted
from headrace.plugins.contracts import Decoded
from headrace.plugins.schema import Schema, SchemaType, spark_type

NOT_JSON: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "
NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
OPTIONS: Final = {
    "allowSingleQuotes": "false",
    "allowNumericLeadingZeros": "true",
    "allowUnquotedControlChars": "true",
    "allowNonNumericNumbers": "false",
}

_BLANKS: Final = " \t\r\n"
_INTEGER: Final = r"^-?[0-9]{1,18}\z"
_NUMBER: Final = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\z"
_SCHEMALESS: Final = r'^(?:0|-?[1-9][0-9]{0,17}|true|false|"[^"\\\x00-\x1f]*")\z'


@dataclass(frozen=True)
class Quick:
    """Where the payload lies in bytes of the usual spelling: behind `before`, in front of the closing `tail`."""

    text: Column
    """The whole bytes as a string."""
    before: bytes
    tail: str

    @property
    def left(self) -> int:
        """How many bytes come before the payload."""
        return len(self.before)

    def cut(self, quotes: int = 0) -> Column:
        """The payload's bytes, without that many bytes at either end."""
        around = self.left + len(self.tail) + 2 * quotes
        return F.substring(
            self.text.cast("binary"), F.lit(self.left + quotes + 1), F.octet_length(self.text) - F.lit(around)
        )

    def ends(self, mark: str = "") -> Column:
        """Whether `mark` and `tail` end the bytes."""
        return F.endswith(self.text, F.lit(mark + self.tail)) if mark + self.tail else F.lit(True)

    def payload(self) -> Column:
        """The payload's bytes as text, null where `tail` is missing."""
        return F.when(self.ends(), self.cut().cast("string"))

    def string(self) -> Column:
        """The content of a payload that is one JSON text, null where the bytes are any other.

        Asks as much as it can of the whole bytes: each time that a part is cut out of them it is copied.
        """
        inside = self.cut(quotes=1)
        framed = (
            F.startswith(self.text, F.lit(self.before + b'"').cast("string"))
            & self.ends('"')
            & (F.octet_length(self.text) >= F.lit(self.left + len(self.tail) + 2))
            & F.is_valid_utf8(self.text)
        )
        backslash = F.contains(inside.cast("string") if b"\\" in self.before else self.text, F.lit("\\"))
        plain = F.replace(inside.cast("string"), F.lit("\\\\"), F.lit(""))
        plain = F.replace(plain, F.lit('\\"'), F.lit(""))
        return F.when(
            framed & ~backslash & ~F.contains(inside.cast("string"), F.lit('"')),
            inside.cast("string"),
        ).when(framed & backslash & ~F.contains(plain, F.lit('"')), F.get_json_object(self.cut().cast("string"), "$"))

    def container(self) -> Column:
        """An object or array in compact JSON, null where the bytes are any other."""
        whole = self.text
        first = F.substring(self.text.cast("binary"), self.left + 1, 1)
        is_container = first.isin(F.lit(b"{"), F.lit(b"[")) & F.is_valid_utf8(whole)
        if not self.tail:
            return F.when(is_container, F.get_json_object(whole, "$"))
        usual = F.json_object_keys(whole) == F.array(F.lit("schema"), F.lit("payload"))
        return F.when(is_container & usual, F.get_json_object(whole, "$.payload"))


@dataclass(frozen=True)
class Parsed:
    """A payload as parsers see it; the last four columns mean something where the document is good."""

    good: Column
    """Whether the document can be read; cheaper to ask than `fault`."""
    fault: Column
    """What is wrong with the document, in Connect's words; null where nothing is."""
    is_null: Column
    is_string: Column
    is_number: Column
    text: Column
    """The content of a string, else compact JSON."""


def envelope(text: Column) -> Parsed:
    """The payload of a whole document with envelope."""
    inner = F.from_json(text, "payload string", OPTIONS)["payload"]
    # from_json gives a string's content and any other JSON's text alike: only the variant's type tells them apart.
    kind = F.schema_of_variant(F.from_json(text, "payload variant", OPTIONS)["payload"])
    # A variant refuses a lone surrogate, which then can only have stood in a string.
    is_string = (kind == "STRING") | (kind.isNull() & ~inner.rlike(r"^[\[{]"))
    is_number = kind.isin("BIGINT", "DOUBLE") | kind.startswith("DECIMAL")
    good = F.coalesce(_members(text) == _envelope(), F.lit(False)) & F.is_valid_utf8(text)
    is_string = F.coalesce(is_string, F.lit(False))
    return Parsed(good, envelope_fault(text), inner.isNull(), is_string, is_number, inner)


def envelope_fault(text: Column) -> Column:
    """Why this is no document with envelope, null where it is."""
    members = _members(text)
    trimmed = F.ltrim(text, F.lit(_BLANKS))
    no_json = members.isNull() & (
        trimmed.startswith("{") | ((F.length(trimmed) > 0) & F.get_json_object(text, "$").isNull())
    )
    return F.when(no_json | ~F.is_valid_utf8(text), F.lit(NOT_JSON)).when(
        members.isNull() | (members != _envelope()), F.lit(NO_ENVELOPE)
    )


def _envelope() -> Column:
    return F.array(F.lit("payload"), F.lit("schema"))


def _members(text: Column) -> Column:
    """The sorted names of a JSON object's members; null where it is none."""
    return F.sort_array(F.map_keys(F.from_json(text, "map<string,string>", OPTIONS)))


def plain(text: Column) -> Parsed:
    """A whole document that is the payload itself; no bytes at all are neither null nor of any other kind."""
    document = F.regexp_replace(F.ltrim(text, F.lit(_BLANKS)), r"^(-?)0+(?=[0-9])", "$1")
    first = F.substring(document, 1, 1)
    # get_json_object fails for a lone surrogate in a string; from_json makes a `?` of it, as Java does later.
    wrapped = F.from_json(F.concat(F.lit('{"p":'), document, F.lit("}")), "p string", OPTIONS)["p"]
    inner = F.coalesce(F.get_json_object(document, "$"), F.when(first == '"', wrapped))
    is_null = document.rlike(r"^null(?![0-9A-Za-z_$])")
    fault = F.when(~F.is_valid_utf8(text) | (inner.isNull() & ~is_null & (first != "")), F.lit(NOT_JSON))
    return Parsed(fault.isNull(), fault, is_null, first == '"', first.isin(*"-0123456789"), inner)


def read(quick: Quick | None, parsed: Parsed, schema: Schema | None, replace_nulls: bool) -> Decoded:
    """The payload's value under a schema, and why it has none."""
    replaced = schema is not None and schema.default is not None and replace_nulls
    default = F.lit(schema.default if schema is not None and replaced else None).cast(spark_type(schema))
    null_fault = F.lit(None).cast("string")
    if schema is not None and not schema.optional and not replaced:
        null_fault = F.lit(f"Invalid null value for required {schema.type.name} field")
    value = F.when(parsed.good, F.coalesce(_value(parsed, schema), F.when(parsed.is_null, default)))
    fault = F.coalesce(parsed.fault, F.when(parsed.is_null, null_fault).otherwise(_unreadable(parsed, schema)))
    if quick is None:
        return Decoded(value, fault)
    return Decoded(
        F.coalesce(read_quickly(quick, schema), value), F.when(quick.payload() == "null", null_fault).otherwise(fault)
    )


def read_quickly(quick: Quick, schema: Schema | None) -> Column:
    """The payload's value where the usual form shows it, else null."""
    text = quick.payload()
    if schema is None:
        return F.coalesce(F.when(text.rlike(_SCHEMALESS) & F.is_valid_utf8(text), text), quick.container())
    if schema.type in INTEGER_BITS:
        return F.when(text.rlike(_INTEGER), _low_bits(text.try_cast("long"), schema))
    match schema.type:
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return F.when(text.rlike(_NUMBER), _floating(text, schema))
        case SchemaType.BOOLEAN:
            return F.when(text == "true", F.lit(True)).when(text == "false", F.lit(False))
        case SchemaType.BYTES:
            return _base64(quick.string())
    return quick.string()


def _value(parsed: Parsed, schema: Schema | None) -> Column:
    """With Jackson's lenience: what is no number is 0, no boolean false, no text null."""
    text = parsed.text
    if schema is None:
        whole = text.rlike("^-?[0-9]+$") & parsed.is_number
        long = _integer(text, Schema(SchemaType.INT64)).cast("string")
        number = F.when(whole, long).when(text == "-0.0", F.lit("0.0"))
        return F.when(parsed.is_string, quoted(text)).otherwise(F.coalesce(number, text))
    if schema.type in INTEGER_BITS:
        return F.when(parsed.is_number, _integer(text, schema)).when(~parsed.is_null, F.lit(0).cast(spark_type(schema)))
    match schema.type:
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            number = _floating(F.replace(text, F.lit('"'), F.lit("")), schema)  # "Infinity" comes quoted
            return F.when(parsed.is_number, number).when(~parsed.is_null, F.lit(0).cast(spark_type(schema)))
        case SchemaType.BOOLEAN:
            return F.when(~parsed.is_null, ~parsed.is_string & F.coalesce(text == "true", F.lit(False)))
        case SchemaType.BYTES:
            return F.when(parsed.is_string, _base64(F.regexp_replace(text, r"[\x00-\x20]", "")))
    return F.when(parsed.is_string, text)


def _unreadable(parsed: Parsed, schema: Schema | None) -> Column:
    """Why a document without fault still has no value; null where null is what Connect reads too."""
    if schema is not None and schema.type is SchemaType.BYTES:
        return F.when(parsed.is_string, F.lit("Invalid bytes field"))
    if schema is not None and schema.type in INTEGER_BITS:
        return F.when(parsed.is_number, F.lit(f"{schema.type.name} field has a number of more than 38 digits"))
    return F.lit(None).cast("string")


def _floating(number: Column, schema: Schema) -> Column:
    kind = spark_type(schema)
    return number.try_cast(kind) + F.lit(0).cast(kind)  # Jackson's numbers know no negative zero


def _base64(text: Column) -> Column:
    strict = text.rlike(r"^[A-Za-z0-9+/]*={0,2}\z") & (F.length(text) % 4 == 0)
    return F.when(strict, F.try_to_binary(text, F.lit("base64")))


def _integer(number: Column, schema: Schema) -> Column:
    """What Java's `intValue` gives of a JSON number of any length: no fraction, the low bits; null beyond 38 digits."""
    plain_number = F.coalesce(
        F.when(~number.rlike("[eE]"), number),
        number.try_cast("decimal(38,10)").cast("string"),
        number.try_cast("decimal(38,0)").cast("string"),
    )
    whole = F.regexp_extract(plain_number, "^-?[0-9]+", 0).try_cast("decimal(38,0)")
    two_to_64 = F.lit(str(2**64)).cast("decimal(20,0)")
    unsigned = F.pmod(whole, two_to_64)
    signed = F.when(unsigned >= F.lit(str(2**63)).cast("decimal(20,0)"), unsigned - two_to_64).otherwise(unsigned)
    return _low_bits(signed.try_cast("long"), schema)


def _low_bits(number: Column, schema: Schema) -> Column:
    spare = 64 - INTEGER_BITS[schema.type]
    shifted = F.shiftright(F.shiftleft(number, spare), spare) if spare else number
    return shifted.cast(spark_type(schema))
