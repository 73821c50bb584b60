"""Kafka's rows to `Records`: applies the converters' expressions to the columns of a batch; `encode` is the reverse.

Decided: several selects instead of one, because the optimizer keeps an expression that is used twice in its own select
and so evaluates it once: the row's schema, if there are several; the value; the error. Loses: each select copies each
row once more. In a single select the program would grow with the square of the number of schemas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, NamedTuple, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.plugins.contracts import Converter, Decoded, HeaderConverter
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.extensions import HeaderFraming
from headrace.plugins.quick_decoding import Parts, QuickDecoding
from headrace.plugins.records import FETCHED_HEADERS, HeaderValues, Records, error, first_error
from headrace.plugins.schema import Schema, sendable, spark_type

LOOK: Final = b"\x02"
"""Identity that marks bytes which need a more thorough look."""
EVERY: Final = b"\x03"
"""Identity that matches any bytes."""
MOST_HOPELESS: Final = 100
"""Maximum number of identities with their own reason in the compiled expressions."""

_LONGEST_REASON: Final = 2_000

KEY_STAGE: Final = "KEY_CONVERTER"
VALUE_STAGE: Final = "VALUE_CONVERTER"
HEADER_STAGE: Final = "HEADER_CONVERTER"


class Hopeless(NamedTuple):
    """An identity that could not be resolved, the reason, and the topic of its bytes."""

    identity: bytes
    reason: str
    topic: str = ""


@dataclass(frozen=True)
class ConverterBinding:
    """A converter bound to a task's keys or values, with the identities known so far."""

    converter: Converter
    class_name: str
    """Java name, or Python path of a class that is not ours, for errors."""
    known: tuple[tuple[bytes, Schema | None], ...] = ()
    """Identities and their schemas, in the order of the indexes in `Records`."""
    hopeless: tuple[Hopeless, ...] = ()
    """At most `MOST_HOPELESS`."""
    rest: frozenset[bytes] = frozenset()
    """More unresolved identities, which share one reason."""
    thorough: frozenset[bytes] = frozenset()
    """Identities with bytes that the quick way could not read; `LOOK`: it could not name the identity of some bytes."""

    @classmethod
    def of(cls, converter: Converter, class_name: str) -> ConverterBinding:
        """Bind a converter that is configured; if all its bytes have one identity, that is known."""
        constant = converter.constant_identity
        known = () if constant is None else ((constant, converter.resolve(constant, "")),)
        return cls(converter, class_name, known)

    def learned(self, met: Collection[tuple[bytes, str]]) -> ConverterBinding:
        """Return this binding with the identities in `met`, which it called unknown; pairs of identity and topic.

        Asks the converter, which may ask a server. Errors: RetriableError, ConfigError; any other counts as an error of
        the records.
        """
        before, known = dict(self.known), dict(self.known)
        hopeless, rest, thorough = {one.identity: one for one in self.hopeless}, set(self.rest), set(self.thorough)
        for identity, topic in met:
            if identity == LOOK or identity in before:
                thorough.add(identity)
            elif not (identity in known or identity in hopeless or identity in rest):
                try:
                    known[identity] = self.converter.resolve(identity, topic)
                except (RetriableError, ConfigError):
                    raise
                except Exception as error:
                    if len(hopeless) < MOST_HOPELESS:
                        hopeless[identity] = Hopeless(identity, reason_of(error), topic)
                    else:
                        rest.add(identity)
        return replace(
            self,
            known=tuple(known.items()),
            hopeless=tuple(hopeless.values()),
            rest=frozenset(rest),
            thorough=frozenset(thorough),
        )

    def asked_again(self) -> ConverterBinding:
        """Resolve the unreadable identities once more, since a registry may know them by now. Errors: as `learned`."""
        met = [(one.identity, one.topic) for one in self.hopeless]
        return replace(self, hopeless=(), rest=frozenset()).learned(met)

    def of_the_rest(self) -> ConverterBinding:
        """Return a binding for bytes of `rest` only: each of them is an error."""
        reason = f"Its schema is one of more than {MOST_HOPELESS} that cannot be read: {self.hopeless[-1].reason}"
        return replace(self, known=(), hopeless=(Hopeless(EVERY, reason),), rest=frozenset(), thorough=frozenset())


def reason_of(error: Exception) -> str:
    """Return a record's message for this error, which need not be a DataError: a schema may be anything."""
    text = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
    return sendable(text[:_LONGEST_REASON])


def to_records(rows: DataFrame, key: ConverterBinding, value: ConverterBinding) -> Records:
    """Decode keys and values of Kafka's rows, and name what is not known yet.

    Shape: `topic`, `partition`, `timestamp`, `headers`, `key`, `value` (binary); other columns pass through. The result
    has two columns more than `Records`: `unknown_key` and `unknown_value`, the identity (binary) to resolve before this
    row can be read, else null. A row with an unknown key has no error yet.
    """
    sides = (_Decoding("key", KEY_STAGE, key), _Decoding("value", VALUE_STAGE, value))
    raw = {"key", "value"}
    rest = [F.col(f"`{name}`") for name in rows.columns if name not in raw]
    given = rows.select(*rest, *(side.given() for side in sides))
    if any(side.picks_among_many for side in sides):
        given = given.select(*rest, *(column for side in sides for column in side.given_and_picked()))
    for step in range(max(side.steps for side in sides)):
        given = given.withColumns({name: part for side in sides for name, part in side.step(step).items()})
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
    side: ConverterBinding

    @property
    def picked(self) -> str:
        return f"{self.name}_schema"

    @property
    def columns(self) -> list[str]:
        return [f"{self.name}_{number}" for number in range(len(self.side.known))]

    def given(self) -> Column:
        """Return the bytes in the form that the converter wants."""
        data, converter = F.col(self.name), self.side.converter
        if isinstance(converter, HeaderFraming):
            data = converter.framed(data, F.col("headers")).alias(self.name)
        reads_text = self._quicker is not None and self._quicker.reads_text
        return data.cast("string").alias(self.name) if reads_text else data

    @property
    def _quicker(self) -> QuickDecoding | None:
        converter = self.side.converter
        return converter if isinstance(converter, QuickDecoding) else None

    @property
    def picks_among_many(self) -> bool:
        """True if finding a row's schema again costs more than carrying it along."""
        return len(self.side.known) + len(self.side.hopeless) > 1 or self.steps > 0

    def given_and_picked(self) -> list[Column]:
        return [F.col(self.name), self._pick().alias(self.picked)]

    def _picked(self, given: Collection[str]) -> Column:
        return F.col(self.picked) if self.picked in given else self._pick()

    @property
    def steps(self) -> int:
        """Number of steps before values: they compute what the quick ways use more than once."""
        return max(map(len, self._steps), default=0)

    def step(self, step: int) -> dict[str, Column]:
        """Return the columns of this step, for each schema with that many steps."""
        return {name: made for steps in self._steps if step < len(steps) for name, made in steps[step].items()}

    @cached_property
    def _steps(self) -> list[list[Parts]]:
        """Columns of each step by name, for each schema."""
        return [self._made(number, *known) for number, known in enumerate(self.side.known)]

    def _made(self, number: int, identity: bytes, schema: Schema | None) -> list[Parts]:
        parts: dict[str, Column] = {}
        steps: list[Parts] = []
        for step in () if self._quicker is None else self._quicker.quick_steps(identity, schema):
            made = step(F.col(self.name), parts)
            if not steps:
                made = {part: F.when(F.col(self.picked) == number, column) for part, column in made.items()}
            steps.append({self._part(number, part): column for part, column in made.items()})
            parts |= {part: _column(self._part(number, part)) for part in made}
        return steps

    def _part(self, number: int, part: str) -> str:
        return f"{self.name}_{number} {part}"

    def _parts(self, number: int) -> Parts:
        names = (name for step in self._steps[number] for name in step)
        return {name.removeprefix(self._part(number, "")): _column(name) for name in names}

    def decoded(self, given: Collection[str]) -> list[Column]:
        pick = self._picked(given)
        values = [
            F.when(pick == number, self._value(number)).cast(spark_type(schema)).alias(name)
            for number, (name, (_, schema)) in enumerate(zip(self.columns, self.side.known, strict=True))
        ]
        return [F.col(self.name), pick.alias(self.picked), *values]

    def _pick(self) -> Column:
        """Return the index of a row's schema; negative for a hopeless identity, which costs most and comes last."""
        data = F.col(self.name)
        numbered = [
            *((identity, number) for number, (identity, _) in enumerate(self.side.known)),
            *((one.identity, -1 - number) for number, one in enumerate(self.side.hopeless)),
        ]
        found = (
            data.isNotNull() if identity == EVERY else data.isNotNull() & self._matches(data, identity)
            for identity, _ in numbered
        )
        return first_of(((holds, F.lit(number)) for holds, (_, number) in zip(found, numbered, strict=True)), "int")

    def _matches(self, data: Column, identity: bytes) -> Column:
        quick = None if self._quicker is None else self._quicker.matches(data, identity)
        return self.side.converter.identify(data) == F.lit(identity) if quick is None else quick

    @cached_property
    def _decoded(self) -> list[Decoded | None]:
        """Thorough ways, for the schemas that need them."""
        data, converter = F.col(self.name), self.side.converter
        return [
            converter.decode(data, identity, schema) if quick is None or identity in self.side.thorough else None
            for (identity, schema), quick in zip(self.side.known, self._quick, strict=True)
        ]

    @cached_property
    def _quick(self) -> list[Column | None]:
        return [self._quick_value(number) for number in range(len(self.side.known))]

    def _quick_value(self, number: int) -> Column | None:
        if self._quicker is None:
            return None
        identity, schema = self.side.known[number]
        return self._quicker.quick_decode(F.col(self.name), self._parts(number), identity, schema)

    def _quick_is_all(self) -> bool:
        """True if bytes of the one known schema leave nothing to find out."""
        side = self.side
        return bool(side.known or side.hopeless) and None not in self._decoded

    def _value(self, number: int) -> Column:
        quick, decoded = self._quick[number], self._decoded[number]
        if quick is None or decoded is None:
            return decoded.value if decoded is not None else cast(Column, quick)
        return F.coalesce(quick, decoded.value)

    def error(self) -> Column:
        """Return the errors, evaluated only for null values; bytes not read quickly are unknown, not yet errors."""
        picked = F.col(self.picked)
        not_read = [
            ((picked == number) & F.col(name).isNull(), decoded.error)
            for number, (name, decoded) in enumerate(zip(self.columns, self._decoded, strict=True))
            if decoded is not None
        ]
        hopeless = [(picked == -1 - n, F.lit(one.reason)) for n, one in enumerate(self.side.hopeless)]
        return error(self.stage, self.side.class_name, first_of([*not_read, *hopeless], "string"))

    def unknown(self) -> Column:
        data, converter = F.col(self.name), self.side.converter
        if converter.constant_identity is not None and self._quick_is_all():
            return F.lit(None).cast("binary")
        quicker = None if LOOK in self.side.thorough else self._quicker
        quick = None if quicker is None else quicker.quick_identity(data)
        identity = converter.identify(data) if quick is None else F.coalesce(quick, F.lit(LOOK))
        unknown = F.when(data.isNotNull() & F.col(self.picked).isNull(), identity)
        for number, name in enumerate(self.columns):
            if self._decoded[number] is None:
                not_read = (F.col(self.picked) == number) & F.col(name).isNull()
                unknown = unknown.when(not_read, F.lit(self.side.known[number][0]))
        return unknown

    def index(self) -> Column:
        picked = F.col(self.picked)
        return F.when(picked >= 0, picked).alias(self.picked) if self.side.hopeless else picked


def header_values(converter: HeaderConverter) -> HeaderValues | None:
    """Return how the values of headers are read, if the converter has one schema for all."""
    if not isinstance(converter, Converter) or (schema := converter.header_schema) is None:
        return None
    return HeaderValues(schema, partial(converter.decode, identity=converter.constant_identity or b"", schema=schema))


def with_headers_read(records: Records, converter: HeaderConverter, class_name: str) -> Records:
    """Set an error on rows of `to_records` whose headers have bytes that the header converter cannot read.

    Keeps the headers as they are for transforms that read values.
    """
    header = F.col("headers")
    if header_values(converter) is not None:
        records = records.with_frame(records.frame.withColumn(FETCHED_HEADERS, header))
    if converter.unreadable(header.getField("value").getItem(0)) is None:
        return records
    told = F.transform(header, lambda one: F.when(one["value"].isNotNull(), converter.unreadable(one["value"])))
    first = F.get(F.filter(told, lambda message: message.isNotNull()), F.lit(0))
    known = F.col("unknown_key").isNull() & F.col("unknown_value").isNull()
    found = first_error([F.col("error"), F.when(known, error(HEADER_STAGE, class_name, first))])
    return records.with_frame(records.frame.withColumn("error", found))


def _column(name: str) -> Column:
    return F.col("`{}`".format(name.replace("`", "``")))


def first_of(cases: Iterable[tuple[Column, Column]], kind: str) -> Column:
    """Return the value of the first case that holds, null if none does; one flat expression for any number of cases."""
    chosen: Column | None = None
    for holds, value in cases:
        chosen = F.when(holds, value) if chosen is None else chosen.when(holds, value)
    return F.lit(None).cast(kind) if chosen is None else chosen
