"""Confluent's Drop and TombstoneHandler: keys or values become null, records without a value go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from pyspark.sql import functions as F

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import OneOf
from headrace.plugins.contracts import Transform
from headrace.plugins.records import Case, Records
from headrace.plugins.transforms.condition_filter import CONFLUENT_VERSION
from headrace.plugins.transforms.predicates import RecordIsTombstone

_NULLIFY: Final = "nullify"
_RETAIN: Final = "retain"
_VALIDATE: Final = "validate"
_FORCE_OPTIONAL: Final = "force_optional"
_FAIL: Final = "fail"


class Drop(Transform):
    """Makes keys or values null; a schemaless one is then without schema, as a tombstone."""

    is_key: ClassVar[bool]
    settings: ClassVar[Settings] = Settings(
        Setting(
            "schema.behavior",
            Type.STRING,
            _NULLIFY,
            OneOf(_NULLIFY, _RETAIN, _VALIDATE, _FORCE_OPTIONAL),
            Importance.MEDIUM,
            "What becomes of the schema. nullify: it goes. retain: it stays. validate: it stays, and a record whose "
            "schema is not optional fails. force_optional: it becomes optional.",
        ),
    )
    version: ClassVar[str] = CONFLUENT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._behavior: str = self.settings.parse(config)["schema.behavior"]

    def apply(self, records: Records) -> Records:
        """Return the records without their keys or values."""
        side, schemas = ("key", records.keys) if self.is_key else ("value", records.values)
        index, applies = F.col(f"{side}_schema"), F.lit(True) if records.applies is None else records.applies
        cases, messages, bare = [], [], []
        for number, schema in enumerate(schemas):
            if schema is None or self._behavior == _NULLIFY:
                bare.append(number)
            elif self._behavior == _VALIDATE and not schema.optional:
                why = f"The schema of the {side} is required to be optional, because Drop makes the {side} null"
                messages.append(F.when(index == number, F.lit(why)))
            else:
                optional = schema.optional or self._behavior == _FORCE_OPTIONAL
                cases.append(Case(F.lit(None), replace(schema, optional=optional), number))
        keys, values = (cases, []) if self.is_key else ([], cases)
        done = records.changed(keys=keys, values=values, message=F.coalesce(*messages) if messages else None)
        gone = applies & index.isin(*bare) if bare else F.lit(False)
        return done.with_frame(done.frame.withColumn(f"{side}_schema", F.when(~F.coalesce(gone, F.lit(False)), index)))


class DropKey(Drop):
    """Drop of keys."""

    is_key = True


class DropValue(Drop):
    """Drop of values."""

    is_key = False


class TombstoneHandler(Transform):
    """Leaves out records whose value is null, or fails them.

    Decided: `warn` counts what it leaves out, as each filter does, and writes no line for each record; loses: that line
    of the log.
    """

    settings: ClassVar[Settings] = Settings(
        Setting(
            "behavior",
            Type.STRING,
            "warn",
            OneOf("warn", "ignore", _FAIL),
            Importance.MEDIUM,
            "warn and ignore: records without a value are left out. fail: they fail.",
        ),
    )
    version: ClassVar[str] = CONFLUENT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._fails: bool = self.settings.parse(config)["behavior"] == _FAIL

    def apply(self, records: Records) -> Records:
        """Leave out or fail tombstones."""
        tombstone = RecordIsTombstone().test(records)
        if self._fails:
            return records.changed(message=F.when(tombstone, F.lit("The record has no value, and behavior is fail")))
        return records.changed(drop=tombstone)
