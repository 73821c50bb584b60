"""`Records` to Kafka's rows: applies the converters' expressions to the columns of a batch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.plugins.contracts import Encoded
from headrace.plugins.extensions import TopicEncoding
from headrace.plugins.interop.conversion.decode import KEY_STAGE, VALUE_STAGE, ConverterBinding, first_of
from headrace.plugins.records import Records, error, first_error
from headrace.plugins.schema import Schema

UNKNOWN_TOPIC: Final = "unknown_topic"


def to_bytes(records: Records, key: ConverterBinding, value: ConverterBinding) -> DataFrame:
    """Encode keys and values of records; dropped and bad rows keep their place, with null bytes.

    Shape: `topic`, `partition`, `timestamp`, `headers`, `key`, `value` (binary), `error`, `drop`, and the other columns
    of the records' frame. If a converter's bytes depend on the topic, also `unknown_topic`: what `learn_topics` must
    learn before this row can be encoded, else null. The converter decides if a null is a tombstone or an error; a null
    without schema (a null index) is always a tombstone.
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
    unknown = [column for side in sides if (column := side.unknown()) is not None]
    marks = [F.when(alive, F.coalesce(*unknown)).alias(UNKNOWN_TOPIC)] if unknown else []
    return encoded.select(*routing, "key", "value", failed.alias("error"), "drop", *carried, *marks)


def learn_topics(unknown: Collection[str], records: Records, key: ConverterBinding, value: ConverterBinding) -> None:
    """Let the converters learn what `to_bytes` called unknown, or why it cannot be encoded. Errors: RetriableError."""
    for side, schemas, name in ((key, records.keys, "key"), (value, records.values, "value")):
        for mark in unknown:
            of, number, topic = mark.split(":", 2)
            if of == name:
                assert isinstance(side.converter, TopicEncoding), "only such converters call a topic unknown"
                side.converter.learn(topic, schemas[int(number)])


def refresh_topics(key: ConverterBinding, value: ConverterBinding) -> bool:
    """Let the converters learn again what may have changed; return True if bytes are now written differently."""
    changed = [side.converter.refresh() for side in (key, value) if isinstance(side.converter, TopicEncoding)]
    return any(changed)


@dataclass(frozen=True)
class _Encoding:
    """The key's or the value's half of encoding."""

    name: str
    stage: str
    side: ConverterBinding
    schemas: tuple[Schema | None, ...]

    @property
    def own(self) -> list[str]:
        return [f"{self.name}_schema", *(f"{self.name}_{number}" for number in range(len(self.schemas)))]

    @cached_property
    def _encoded(self) -> list[Encoded]:
        return [self._encode(F.col(f"{self.name}_{number}"), schema) for number, schema in enumerate(self.schemas)]

    def _encode(self, value: Column, schema: Schema | None) -> Encoded:
        converter = self.side.converter
        if isinstance(converter, TopicEncoding):
            return converter.encode_for(F.col("topic"), value, schema)
        return Encoded(*converter.encode(value, schema))

    def _has(self, number: int) -> Column:
        return F.col(f"{self.name}_schema") == number

    def data(self, alive: Column) -> Column:
        cases = ((alive & self._has(number), encoded.value) for number, encoded in enumerate(self._encoded))
        return first_of(cases, "binary")

    def error(self) -> Column:
        """Return the errors, evaluated only for rows whose bytes are null."""
        nothing = F.col(self.name).isNull()
        errors = ((self._has(number) & nothing, encoded.error) for number, encoded in enumerate(self._encoded))
        return error(self.stage, self.side.class_name, first_of(errors, "string"))

    def unknown(self) -> Column | None:
        """Return what the converter must learn for a row: `side:schema:topic`; None if it never has to."""
        marks = [
            (self._has(number) & unknown, F.concat(F.lit(f"{self.name}:{number}:"), F.col("topic")))
            for number, encoded in enumerate(self._encoded)
            if (unknown := encoded.unknown) is not None
        ]
        return first_of(marks, "string") if marks else None
