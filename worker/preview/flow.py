"""Records that go through the stages of a chain one after the other, each stage a program of its own.

Decided: a program for each stage, over the columns that the last one made, because the expressions of a whole chain
show only their end, and a program for each beginning of the chain would compile the first transform as often as there
are transforms; loses: what Spark's optimizer does over the bounds of stages, which changes no value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headrace.config.connector.error_handling import ErrorHandling
from headrace.plugins.contracts import Converter
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema
from headrace.worker.deadletters.source_records import shown_side
from headrace.worker.pipeline.java_stage import RunningStage, crossed, crossing, returned
from headrace.worker.pipeline.scope import TaskScope, asking_converters
from headrace.worker.pipeline.transforms import Step, Transforms
from headrace.worker.preview.model import EffectShown, Failure, Outcome, PreviewedRecord, Stage, StageName
from headrace.worker.preview.shown import headers_of, value_and_schema

APPLIED: Final = "_applied"
_SHOWN: Final = ("_shown_key", "_shown_value")


class Progress:
    """The stage at work, for the error of a preview that takes too long."""

    def __init__(self) -> None:
        self.stage = "the start"
        self._since_s = time.monotonic()

    @contextmanager
    def at(self, stage: str) -> Iterator[None]:
        """Name the stage of the work inside."""
        self.stage, self._since_s = stage, time.monotonic()
        yield

    def __str__(self) -> str:
        return f"{self.stage} had taken {time.monotonic() - self._since_s:.1f} s of them"


@dataclass(frozen=True)
class Rows:
    """Records between two stages: the columns of their frame, and their schemas."""

    batch: pa.RecordBatch
    type: StructType
    keys: tuple[Schema | None, ...] = ()
    values: tuple[Schema | None, ...] = ()

    def records(self, frame: DataFrame) -> Records:
        """The records of a frame of these columns."""
        return Records(frame, self.keys, self.values)


@dataclass
class Way:
    """One record's way so far."""

    record: PreviewedRecord
    stages: list[Stage] = field(default_factory=list)
    effects: list[EffectShown] = field(default_factory=list)
    error: Failure | None = None
    filtered: str | None = None

    @property
    def goes_on(self) -> bool:
        """True if it did not fail and was not filtered out."""
        return self.error is None and self.filtered is None

    def told(self) -> PreviewedRecord:
        """The record with its whole way."""
        ended = replace(self.record, error=self.error, filtered=self.filtered)
        return replace(ended, stages=self.stages, effects=self.effects)


@dataclass(frozen=True)
class Flow:
    """Takes records through stages and notes what each became."""

    scope: TaskScope
    envelope: Converter
    progress: Progress

    def run(self, what: str, rows: Rows, build: Callable[[DataFrame], Records]) -> tuple[Rows, pa.RecordBatch]:
        """Run one program; returns the rows after it, and beside them the texts of their keys and values.

        Errors: EngineLost, StoppedError, TooSlow; whatever an expression raises.
        """
        made: list[Records] = []

        def built(frame: DataFrame) -> DataFrame:
            records = build(frame)
            made.append(records)
            sides = (("key", records.keys), ("value", records.values))
            shown = [shown_side(self.envelope, *side).alias(name) for side, name in zip(sides, _SHOWN, strict=True)]
            return records.frame.select(*(f"`{name}`" for name in records.frame.columns), *shown)

        with self.progress.at(what):
            out = self.scope.program(rows.type, built).run(rows.batch, self.scope.bounds)
        names = [name for name in out.schema.names if name not in _SHOWN]
        after = Rows(out.select(names), made[-1].frame.schema, made[-1].keys, made[-1].values)
        return after, out.select(list(_SHOWN))

    def decoded(
        self, given: Rows, sides: Mapping[str, ConverterBinding], finish: Callable[[Records], Records]
    ) -> tuple[Rows, pa.RecordBatch]:
        """Decode Kafka's rows with all schemas that they name, as `run`; `sides`: of `key` and `value`.

        Errors: as `run`; ConverterAway.
        """
        sides = dict(sides)

        def build(frame: DataFrame) -> Records:
            return finish(to_records(frame, sides["key"], sides["value"]))

        while True:
            rows, shown = self.run("the converters", given, build)
            if not (met := _unknown(rows.batch)):
                return rows, shown
            with self.progress.at("the converters' look-up of schemas"), asking_converters():
                for side, identities in met.items():
                    learned = sides[side].learned(identities)
                    if learned == sides[side]:
                        raise ValueError(f"{learned.class_name} does not learn the schemas that it named")
                    sides[side] = learned

    def note(self, stage: StageName, name: str, ways: list[Way], rows: Rows, shown: pa.RecordBatch) -> None:
        """Note on each record that is still on its way what it became."""
        columns = ["topic", "partition", "timestamp", "headers", "error", "drop"]
        columns += [APPLIED] if APPLIED in rows.batch.schema.names else []
        told = zip(ways, rows.batch.select(columns).to_pylist(), shown.to_pylist(), strict=True)
        for way, row, texts in told:
            if not way.goes_on:
                continue
            if row["error"] is not None:
                way.error = self.failure(row["error"]["stage"], row["error"]["class"], row["error"]["message"])
            elif row["drop"]:
                way.filtered = name
            else:
                way.stages.append(_stage(stage, name, row, texts))

    def failure(self, stage: str, class_name: str, message: str) -> Failure:
        """An error of a record, with what becomes of it."""
        return Failure(stage, class_name, message, outcome_of(self.scope.reporting.handling))

    def transformed(self, rows: Rows, ways: list[Way], transforms: Transforms) -> Rows:
        """Take the records through these transforms."""
        for step in transforms.steps:
            name = f"{step.alias} ({step.class_name})"

            def build(frame: DataFrame, given: Rows = rows, step: Step = step) -> Records:
                return step.apply(transforms.ready(given.records(frame)), APPLIED)

            rows, shown = self.run(f"transforms.{name}", rows, build)
            self.note("transform", name, ways, rows, shown)
            rows = _without(rows, APPLIED)
        return rows

    def through_java(self, rows: Rows, ways: list[Way], java: RunningStage, name: str, is_source: bool) -> Rows:
        """Take the records through the Java host."""
        carried: list[StructType] = []

        def begin(frame: DataFrame) -> DataFrame:
            crosses, beside = crossing(java, rows.records(frame))
            carried.append(beside)
            return crosses

        with self.progress.at(f"the Java stage ({name})"):
            program = self.scope.program(rows.type, begin)
            source: dict[str, Any] | None = {} if is_source else None
            shape, crossed_rows = crossed(java, program.run(rows.batch, self.scope.bounds), carried[-1], source)
        kind = StructType([*java.row_type(shape).fields, *carried[-1].fields])
        rows, shown = self.run(name, Rows(crossed_rows, kind), lambda frame: returned(java, frame, shape, carried[-1]))
        self.note("java", name, ways, rows, shown)
        return rows


def _unknown(rows: pa.RecordBatch) -> dict[str, set[tuple[bytes, str]]]:
    """The identities of schemas that are not known yet, by side, with the topic that they were met in."""
    met: dict[str, set[tuple[bytes, str]]] = {}
    for side in ("key", "value"):
        marked = rows.filter(pc.is_valid(rows[f"unknown_{side}"])).select([f"unknown_{side}", "topic"])
        if found := {(row[f"unknown_{side}"], row["topic"] or "") for row in marked.to_pylist()}:
            met[side] = found
    return met


def outcome_of(handling: ErrorHandling) -> Outcome:
    """The fate of a record that fails."""
    if not handling.tolerate:
        return "failed task"
    return "dead letter" if handling.dead_letters else "skipped"


def _stage(stage: StageName, name: str, row: dict[str, Any], texts: dict[str, Any]) -> Stage:
    key, key_schema = value_and_schema(texts["_shown_key"])
    value, value_schema = value_and_schema(texts["_shown_value"])
    return Stage(
        stage,
        name,
        row.get(APPLIED),
        row["topic"],
        row["partition"],
        row["timestamp"],
        key,
        value,
        headers_of(row["headers"]),
        key_schema,
        value_schema,
    )


def _without(rows: Rows, name: str) -> Rows:
    names = [one for one in rows.batch.schema.names if one != name]
    return replace(rows, batch=rows.batch.select(names), type=StructType([rows.type[one] for one in names]))
