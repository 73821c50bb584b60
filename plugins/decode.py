"""From Kafka's rows to `Records` and back: where the converters' expressions meet the columns of a batch.

Decided: selects one after the other, not one, because the optimizer keeps what is used twice in a select of its own
and so evaluates it once: which schema a row has, where there are several; the value; why there is none. Loses: each row
is copied once more by each. Within one select the program would grow with the square of the number of schemas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.plugins.contracts import Converter, DataError, Decoded
from headrace.plugins.records import Records, error, first_error
from headrace.plugins.schema import Schema, spark_type

LOOK: Final = b"\x02"
"""Stands for the identity of bytes that have to be looked at more thoroughly."""

KEY_STAGE: Final = "KEY_CONVERTER"
VALUE_STAGE: Final = "VALUE_CONVERTER"


@dataclass(frozen=True)
class Side:
    """The keys' or the values' converter as a task uses it, with the identities met so far."""

    converter: Converter
    class_name: str
    """The Java name, or the Python path of a stranger's class; errors bear it."""
    known: tuple[tuple[bytes, Schema | None], ...] = ()
    """Identities and their schemas; `Records` has its indexes into these."""
    hopeless: tuple[tuple[bytes, str], ...] = ()
    """Identities whose bytes can never be read, and why."""
    thorough: frozenset[bytes] = frozenset()
    """Identities of which bytes were met that the converter does not read quickly; `LOOK`: it could not name some."""

    def learned(self, met: Collection[tuple[bytes, str]]) -> Side:
        """This side, able to read the bytes that it called unknown: `met` are identities and the topics they are from.

        Asks the converter, which may ask a server.
        """
        known, hopeless, thorough = dict(self.known), dict(self.hopeless), set(self.thorough)
        for identity, topic in met:
            if identity == LOOK or identity in dict(self.known):
                thorough.add(identity)
            elif identity not in known and identity not in hopeless:
                try:
                    known[identity] = self.converter.resolve(identity, topic)
                except DataError as error:
                    hopeless[identity] = str(error)
        return replace(self, known=tuple(known.items()), hopeless=tuple(hopeless.items()), thorough=frozenset(thorough))


def to_records(rows: DataFrame, key: Side, value: Side) -> Records:
    """Kafka's rows with keys and values decoded, and what is not known yet named.

    Shape: `topic`, `partition`, `timestamp`, `headers`, `key`, `value` (binary) and anything else, which is carried;
    two columns more than `Records` says: `unknown_key` and `unknown_value`, the identity (binary) that has to be
    resolved before this row can be read, null otherwise. A row with an unknown key has no error: nobody can say yet.
    """
    sides = (_Decoding("key", KEY_STAGE, key), _Decoding("value", VALUE_STAGE, value))
    raw = {"key", "value"}
    rest = [F.col(f"`{name}`") for name in rows.columns if name not in raw]
    given = rows.select(*rest, *(side.given() for side in sides))
    if any(side.picks_among_many for side in sides):
        given = given.select(*rest, *(column for side in sides for column in side.given_and_picked()))
    decoded = given.select(*rest, *(column for side in sides for column in side.decoded(given.columns)))
    key_side, value_side = sides
    key_error, value_error = key_side.error(), value_side.error()
    unknown_key = key_side.unknown()
    unknown_value = F.when(key_error.isNull(), value_side.unknown())
    failed = F.when(unknown_key.isNull(), first_error([key_error, value_error]))
    frame = decoded.select(
        *rest,
        *(side.index() for side in sides),
        *(F.col(name) for side in sides for name in side.columns),
        failed.alias("error"),
        F.lit(False).alias("drop"),
        unknown_key.alias("unknown_key"),
        unknown_value.alias("unknown_value"),
    )
    return Records(
        frame, keys=tuple(schema for _, schema in key.known), values=tuple(schema for _, schema in value.known)
    )


@dataclass(frozen=True)
class _Decoding:
    """The key's or the value's half of decoding."""

    name: str
    stage: str
    side: Side

    @property
    def picked(self) -> str:
        return f"{self.name}_schema"

    @property
    def columns(self) -> list[str]:
        return [f"{self.name}_{number}" for number in range(len(self.side.known))]

    def given(self) -> Column:
        """The bytes as the converter wants them."""
        data = F.col(self.name)
        return data.cast("string").alias(self.name) if self.side.converter.reads_text else data

    @property
    def picks_among_many(self) -> bool:
        """Whether to find the schema of a row costs more than to carry it along."""
        return len(self.side.known) + len(self.side.hopeless) > 1

    def given_and_picked(self) -> list[Column]:
        """The bytes, and which schema they have."""
        return [F.col(self.name), self._pick().alias(self.picked)]

    def decoded(self, given: Collection[str]) -> list[Column]:
        """The bytes, which schema they have, and a column of values for each schema."""
        pick = F.col(self.picked) if self.picked in given else self._pick()
        values = [
            F.when(pick == number, self._value(number)).cast(spark_type(schema)).alias(name)
            for number, (name, (_, schema)) in enumerate(zip(self.columns, self.side.known, strict=True))
        ]
        return [F.col(self.name), pick.alias(self.picked), *values]

    def _pick(self) -> Column:
        """Which schema a row has; below zero: which of the hopeless ones. Those come last, they cost most."""
        data, converter = F.col(self.name), self.side.converter
        numbered = [
            *((identity, number) for number, (identity, _) in enumerate(self.side.known)),
            *((identity, -1 - number) for number, (identity, _) in enumerate(self.side.hopeless)),
        ]
        return _first_of(
            ((data.isNotNull() & converter.matches(data, identity), F.lit(number)) for identity, number in numbered),
            "int",
        )

    def _decode(self, number: int) -> Decoded:
        identity, schema = self.side.known[number]
        return self.side.converter.decode(F.col(self.name), identity, schema)

    def _quick(self, number: int) -> Column | None:
        identity, schema = self.side.known[number]
        if identity in self.side.thorough:
            return None
        return self.side.converter.quick_decode(F.col(self.name), identity, schema)

    def _quick_is_all(self) -> bool:
        """Whether there is nothing to find out about bytes of which one schema is known."""
        side = self.side
        return bool(side.known or side.hopeless) and all(self._quick(n) is None for n in range(len(side.known)))

    def _value(self, number: int) -> Column:
        quick = self._quick(number)
        return self._decode(number).value if quick is None else quick

    def error(self) -> Column:
        """Asked only of rows whose value is null; what could not be read quickly is no error yet, but unknown."""
        picked = F.col(self.picked)
        not_read = [
            ((picked == number) & F.col(name).isNull(), self._decode(number).error)
            for number, name in enumerate(self.columns)
            if self._quick(number) is None
        ]
        hopeless = [(picked == -1 - n, F.lit(reason)) for n, (_, reason) in enumerate(self.side.hopeless)]
        return error(self.stage, self.side.class_name, _first_of([*not_read, *hopeless], "string"))

    def unknown(self) -> Column:
        data, converter = F.col(self.name), self.side.converter
        if converter.constant_identity is not None and self._quick_is_all():
            return F.lit(None).cast("binary")
        quick = None if LOOK in self.side.thorough else converter.quick_identity(data)
        identity = converter.identify(data) if quick is None else F.coalesce(quick, F.lit(LOOK))
        unknown = F.when(data.isNotNull() & F.col(self.picked).isNull(), identity)
        for number, name in enumerate(self.columns):
            if self._quick(number) is not None:
                not_read = (F.col(self.picked) == number) & F.col(name).isNull()
                unknown = unknown.when(not_read, F.lit(self.side.known[number][0]))
        return unknown

    def index(self) -> Column:
        picked = F.col(self.picked)
        return F.when(picked >= 0, picked).alias(self.picked) if self.side.hopeless else picked


def to_bytes(records: Records, key: Side, value: Side) -> DataFrame:
    """Records with keys and values encoded; rows that are dropped or bad keep their place, with null bytes.

    Shape: `topic`, `partition`, `timestamp`, `headers`, `key`, `value` (binary), `error`, `drop`, and what the records'
    frame carries besides. Whether a null is a tombstone or an error is the converter's to say; a null without schema
    (a null index) is always a tombstone.
    """
    sides = (_Encoding("key", KEY_STAGE, key, records.keys), _Encoding("value", VALUE_STAGE, value, records.values))
    routing = ["topic", "partition", "timestamp", "headers"]
    own = {*routing, "error", "drop"}.union(*(side.own for side in sides))
    carried = [F.col(f"`{name}`") for name in records.frame.columns if name not in own]
    alive = F.col("error").isNull() & ~F.col("drop")
    inputs = [F.col(name) for side in sides for name in side.own]
    encoded = records.frame.select(
        *routing, "error", "drop", *carried, *inputs, *(side.data(alive).alias(side.name) for side in sides)
    )
    failed = F.when(alive, first_error([side.error() for side in sides])).otherwise(F.col("error"))
    return encoded.select(*routing, "key", "value", failed.alias("error"), "drop", *carried)


@dataclass(frozen=True)
class _Encoding:
    """The key's or the value's half of encoding."""

    name: str
    stage: str
    side: Side
    schemas: tuple[Schema | None, ...]

    @property
    def own(self) -> list[str]:
        return [f"{self.name}_schema", *(f"{self.name}_{number}" for number in range(len(self.schemas)))]

    def _encode(self, number: int) -> Decoded:
        return self.side.converter.encode(F.col(f"{self.name}_{number}"), self.schemas[number])

    def _has(self, number: int) -> Column:
        return F.col(f"{self.name}_schema") == number

    def data(self, alive: Column) -> Column:
        numbers = range(len(self.schemas))
        return _first_of(((alive & self._has(number), self._encode(number).value) for number in numbers), "binary")

    def error(self) -> Column:
        """Asked only of rows whose bytes are null."""
        nothing = F.col(self.name).isNull()
        numbers = range(len(self.schemas))
        errors = ((self._has(number) & nothing, self._encode(number).error) for number in numbers)
        return error(self.stage, self.side.class_name, _first_of(errors, "string"))


def _first_of(cases: Iterable[tuple[Column, Column]], kind: str) -> Column:
    """The value of the first case that holds, null where none does; one flat expression, however many there are."""
    chosen: Column | None = None
    for holds, value in cases:
        chosen = F.when(holds, value) if chosen is None else chosen.when(holds, value)
    return F.lit(None).cast(kind) if chosen is None else chosen
