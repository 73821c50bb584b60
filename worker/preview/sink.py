"""Shows what a sink's config does to some of Kafka's records: decoded, transformed, and as its plugin would write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.plugins.contracts import SinkTask, TaskContext
from headrace.plugins.errors import RecordsFailed
from headrace.plugins.extensions import Effect, PreviewedSink
from headrace.plugins.interop.conversion.kafka_rows import KAFKA_ROW
from headrace.plugins.records import Records
from headrace.worker.pipeline.chain import Chain
from headrace.worker.pipeline.transforms import Transforms
from headrace.worker.preview.flow import Flow, Rows, Way
from headrace.worker.preview.model import EffectShown, Preview, PreviewedRecord
from headrace.worker.preview.shown import bytes_stage, plain

_PUT: Final = "TASK_PUT"
_ORIGIN: Final = ("topic", "partition", "offset")
_NOTHING: Final = "There are no records from there on; from=latest shows the last ones, from=earliest the first."


@dataclass(frozen=True)
class SinkPreview:
    """Previews one sink."""

    flow: Flow
    chain: Chain
    task: SinkTask
    config: Mapping[str, str]
    """The connector's, as its task would get it."""
    context: TaskContext

    def of(self, fetched: pa.RecordBatch) -> Preview:
        """Take these records through the chain, and ask the plugin."""
        ways = [_fetched(row) for row in fetched.to_pylist()]
        if not ways:
            return Preview("sink", [], notes=[_NOTHING])
        split, java = self.chain.split, self.chain.java_stage(is_source=False)
        before = self.chain.transforms(split.on_spark if java is None else split.before)
        rows = self._decoded(fetched, ways, before)
        rows = self.flow.transformed(rows, ways, before)
        if java is not None:
            rows = self.flow.through_java(rows, ways, java, java_name(self.chain), is_source=False)
            rows = self.flow.transformed(rows, ways, self.chain.transforms(split.after))
        return self._written(rows, ways)

    def _decoded(self, fetched: pa.RecordBatch, ways: list[Way], transforms: Transforms) -> Rows:
        """Decode the records, with all schemas that they name."""
        sides = {side: self.chain.conversion(side) for side in ("key", "value")}

        def finish(records: Records) -> Records:
            read = transforms.headers_read(records)
            return read.with_frame(read.frame.withColumns({f"_{name}": F.col(name) for name in _ORIGIN}))

        rows, shown = self.flow.decoded(Rows(fetched, KAFKA_ROW), sides, finish)
        self.flow.note("converted", "", ways, rows, shown)
        return rows

    def _written(self, rows: Rows, ways: list[Way]) -> Preview:
        task = self.task
        if not isinstance(task, PreviewedSink):
            note = f"{type(task).__name__} does not say what it would write (PreviewedSink)."
            return Preview("sink", [way.told() for way in ways], notes=[note])
        try:
            with self.flow.progress.at("the sink's preview"):
                task.start_preview(self.config, self.context)
            effects = self._effects(task, rows, ways)
            return Preview("sink", [way.told() for way in ways], effects, list(task.preview_notes()))
        finally:
            task.stop()

    def _effects(self, task: PreviewedSink, rows: Rows, ways: list[Way]) -> list[EffectShown]:
        """Add the effects of single records to these; returns the others."""

        def build(frame: DataFrame) -> DataFrame:
            return frame.select(*self.task.columns(rows.records(frame)))

        with self.flow.progress.at("the sink's columns"):
            columns = self.flow.scope.program(rows.type, build).run(rows.batch, self.flow.scope.bounds)
        alive = [number for number, way in enumerate(ways) if way.goes_on]
        effects: list[EffectShown] = []
        try:
            with self.flow.progress.at("the sink's preview"):
                for effect in task.preview([columns.take(pa.array(alive, pa.int64()))]):
                    (effects if effect.row is None else ways[alive[effect.row]].effects).append(_shown(effect))
        except RecordsFailed as error:
            failed = {one.row: one for one in error.failures}
            for number in failed or range(len(alive)):
                one = failed.get(number)
                stage = (one.stage if one else None) or _PUT
                by = (one.class_name if one else None) or type(task).__qualname__
                ways[alive[number]].error = self.flow.failure(stage, by, one.message if one else str(error))
        return effects


def java_name(chain: Chain) -> str:
    """The transforms and converters in Java, as a stage's name."""
    stage = chain.split.java_stage
    return ", ".join([*(step.transform.plugin.class_name for step in stage.steps), *sorted(stage.converters)])


def _fetched(row: Mapping[str, Any]) -> Way:
    record = PreviewedRecord(row["topic"], row["partition"], row["offset"], row["timestamp"])
    return Way(record, [bytes_stage("fetched", row)])


def _shown(effect: Effect) -> EffectShown:
    return EffectShown(effect.action, effect.target, plain(effect.detail))
