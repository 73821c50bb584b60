"""Documents that name their schema in a member beside the payload, such as `{"schema":…,"payload":…}`.

An identity is the text before the payload (`{"schema":…,"payload":`), so the first bytes identify documents of the
usual spelling; `_FAULT` and `_ODD` mark the identities of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.json import reading
from headrace.converters.json.marking import OPTIONS
from headrace.converters.json.rules import JsonRules
from headrace.converters.json.schema import read_json
from headrace.plugins.contracts import DataError, Decoded
from headrace.plugins.quick_decoding import Parts, Step
from headrace.plugins.schema import Schema

AFTER: Final = "}"
"""The text after a payload."""
_BLANK: Final = r"[ \t\r\n]*"
_FAULT: Final = b"\x00"
"""First byte of the identity of documents without a readable schema; the error's text follows."""
_ODD: Final = b"\x01"
"""First byte of the identity of documents that are not of the usual spelling; the member beside the payload follows."""


@dataclass(frozen=True)
class Envelope:
    """Reads documents of this form, by a converter's rules."""

    rules: JsonRules

    def before_payload(self, data: Column) -> Column:
        """The text before the payload, if the bytes begin as documents of the usual spelling do; else an empty one."""
        pattern = rf'(?s)^{_BLANK}\{{{_BLANK}"{self.rules.beside}"{_BLANK}:.*?,{_BLANK}"payload"{_BLANK}:{_BLANK}'
        return F.regexp_extract(data.cast("string"), pattern, 0)

    def _is_usual(self, text: Column, before: Column) -> Column:
        # The first `,"payload":` may be inside the schema; then the text before it is no complete member.
        names = F.json_object_keys(F.concat(before, F.lit("null}")))
        wanted = F.array(F.lit(self.rules.beside), F.lit("payload"))
        return (before != "") & F.startswith(text, before) & (names == wanted)

    def identify(self, data: Column) -> Column:
        """The text before the payload, or an identity that begins with `_FAULT` or `_ODD`."""
        before, text = self.before_payload(data), reading.document(data)
        fault = reading.envelope_fault(text, self.rules)
        return (
            F.when(self._is_usual(text, before), before.cast("binary"))
            .when(fault.isNotNull(), F.concat(F.lit(_FAULT), fault.cast("binary")))
            .otherwise(F.concat(F.lit(_ODD), self._beside(text).cast("binary")))
        )

    def quick_identity(self, data: Column) -> Column:
        """The text before the payload, if the member in it is complete; else null."""
        before = self.before_payload(data)
        return F.when(self._is_usual(data.cast("string"), before), before.cast("binary"))

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes; only documents of an unusual spelling are parsed."""
        if identity.startswith(_FAULT):
            return F.coalesce(self.identify(data) == F.lit(identity), F.lit(False))
        if identity.startswith(_ODD):
            return self._beside(reading.document(data)).cast("binary") == F.lit(identity.removeprefix(_ODD))
        return F.startswith(data.cast("string"), F.lit(identity).cast("string"))

    def _beside(self, text: Column) -> Column:
        return F.coalesce(F.from_json(text, "map<string,string>", OPTIONS)[self.rules.beside], F.lit("null"))

    def named(self, identity: bytes) -> Any:
        """The member beside the payload. Errors: DataError."""
        if identity.startswith(_FAULT):
            raise DataError(identity.removeprefix(_FAULT).decode())
        if identity.startswith(_ODD):
            text = identity.removeprefix(_ODD).decode()
            try:
                return read_json(text)
            except (ValueError, RecursionError):
                return text  # a JSON string, without its quotes
        try:
            document = read_json(identity.decode() + "null}")
        except (ValueError, RecursionError) as e:
            raise DataError(f"{reading.NOT_JSON}the schema before the payload cannot be read: {e}") from e
        if document.keys() != {self.rules.beside, "payload"}:
            raise DataError(self.rules.no_envelope)
        return document[self.rules.beside]

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """Steps to the texts of the fields, or to the parsed payload."""
        return [] if identity.startswith(_ODD) else reading.quick_steps(identity, AFTER, schema, self.rules)

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """The value, read from the bytes without a parser; an array, map or struct is read from its parts."""
        if identity.startswith(_ODD):
            return None
        quick = reading.Quick(data.cast("string"), identity, AFTER)
        if not parts:
            return reading.read_quickly(quick, schema)
        assert schema is not None
        return reading.read_parts(quick, parts, schema, self.rules)

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The payload's values, in the thorough way."""
        text = reading.document(data)
        if identity.startswith(_ODD):
            return reading.read(None, reading.envelope(text, self.rules), schema, self.rules)
        quick = reading.Quick(text.cast("string"), identity, AFTER)
        return reading.read(quick, reading.enveloped(quick, self.rules), schema, self.rules)

    def unreadable(self, data: Column) -> Column:
        """The fault of an invalid document; does not compare the payload with its schema."""
        return reading.envelope_fault(reading.document(data), self.rules)
