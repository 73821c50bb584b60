"""Shows what a source's config does to some of its rows: read, transformed, converted, and their topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.plugins.arrow_types import arrow_schema_of
from headrace.plugins.contracts import Converter, Limit, Plan, SourceTask, TaskContext
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.extensions import FrameReader, PreviewedSource, TopicEncoding
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.interop.conversion.encode import learn_topics, to_bytes
from headrace.plugins.interop.conversion.kafka_rows import KAFKA_ROW
from headrace.plugins.offsets import SourceOffset, SourcePartition
from headrace.plugins.records import Records
from headrace.plugins.source_rows import DeclaredRows, numbered_type, records_of
from headrace.worker.deadletters.source_records import unkept
from headrace.worker.errors import BadRequest
from headrace.worker.pipeline.chain import Chain
from headrace.worker.pipeline.encoding import unknown_topics
from headrace.worker.pipeline.executors import with_split
from headrace.worker.pipeline.scope import asking_converters
from headrace.worker.preview.flow import Flow, Rows, Way
from headrace.worker.preview.model import Preview, PreviewedRecord, Side
from headrace.worker.preview.shown import bytes_stage, parsed, plain, text_of
from headrace.worker.preview.sink import java_name

_MOST_BYTES: Final = 4 << 20
_NEWS_S: Final = 2.0
"""The time for which a source with nothing new is asked again."""
_PAUSE_S: Final = 0.1
_NOTHING: Final = (
    "The source has nothing new after its stored offsets; from=earliest reads from its beginning, and a sample (a file "
    "of JSON lines) takes the place of what it would read."
)
_ENVELOPE: Final = frozenset({"schema", "payload"})
_OF_SAMPLES: Final = ("key", "value", "topic", "partition", "timestamp", "headers")


@dataclass(frozen=True)
class ReadRows:
    """Rows of one shape that a source's reader gave, and where each came from."""

    shape: str
    batch: pa.RecordBatch
    origins: Sequence[tuple[SourcePartition, Mapping[str, Any]]]


@dataclass(frozen=True)
class SourceReading:
    """Reads some rows of a source, from its stored offsets or from its beginning, and stores none."""

    task: SourceTask
    flow: Flow
    config: Mapping[str, str]
    context: TaskContext
    from_stored: bool

    def read(self, count: int) -> list[ReadRows]:
        """Read at most so many rows. Errors: BadRequest if reading would have an effect; those of the plugin."""
        task = self.task
        if not isinstance(task, PreviewedSource):
            raise BadRequest(
                f"{type(task).__name__} does not say that it can be read without an effect outside (PreviewedSource). "
                "Give a sample: a file of JSON lines, with the records' keys and values."
            )
        try:
            with self.flow.progress.at("the source's start"):
                task.start_preview(self.config, self.context)
        except NotImplementedError as error:
            text = f"{error}. Give a sample: a file of JSON lines, with the records' keys and values."
            raise BadRequest(text) from error
        plan = self._plan(task, Limit(count, _MOST_BYTES))
        return [] if plan is None else list(self._rows(task, plan, count))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Stop the task at the end: its rows' types may come from what it has open."""
        try:
            yield
        finally:
            self.task.stop()

    def _plan(self, task: SourceTask, limit: Limit) -> Plan | None:
        waited_s, failed = 0.0, None
        with self.flow.progress.at("the source's plan"):
            while waited_s < _NEWS_S:
                try:
                    after = self._offsets(task.partitions())
                    if (plan := task.plan(after, limit)) is not None and plan.splits:
                        return plan
                    failed = None
                except RetriableError as error:
                    failed = error
                self.context.stopping.wait(_PAUSE_S)
                self.context.stopping.raise_if_set("planning")
                waited_s += _PAUSE_S
        if failed is not None:
            raise failed
        return None

    def _offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        return self.context.stored_offsets(partitions) if self.from_stored else [None for _ in partitions]

    def _rows(self, task: SourceTask, plan: Plan, count: int) -> Iterator[ReadRows]:
        """Read the plan's splits in turn, until there are enough rows."""
        reader = task.reader(plan)
        spark = self.flow.scope.engine.projections.spark
        for number, split in enumerate(plan.splits):
            declared = DeclaredRows(task, split.shape)
            with self.flow.progress.at("the source's reader"):
                if isinstance(reader, FrameReader):
                    with spark.using():
                        taken = _taken(reader.read(number), count)
                else:
                    taken = _taken(reader.read(number), count)
            for rows in taken:
                whole = with_split(declared.checked(rows), number)
                origins = [(split.partition, _visible(offset)) for offset in rows["source_offset"].to_pylist()]
                yield ReadRows(split.shape, whole, origins)
                count -= len(rows)
            if count <= 0:
                return


@dataclass(frozen=True)
class SourcePreview:
    """Previews one source."""

    flow: Flow
    chain: Chain
    java_converters: Sequence[str]
    """The sides whose converters are Java's, which do not run."""
    effects_of: Callable[[Preview], Preview]
    """Adds what is done outside for the topics of these records."""

    def of_rows(self, task: SourceTask, read: Sequence[ReadRows]) -> Preview:
        """Take a source's rows through the chain."""
        if not read:
            return Preview("source", [], notes=[_NOTHING])
        given: list[tuple[Rows, pa.RecordBatch, list[Way]]] = []
        header_bytes = self.chain.transforms(()).header_bytes
        for rows in read:

            def records(frame: DataFrame, shape: str = rows.shape) -> Records:
                return unkept(records_of(task, frame, shape, header_bytes))

            ways = [Way(PreviewedRecord(source_partition=at, source_offset=to)) for at, to in rows.origins]
            whole = Rows(rows.batch, numbered_type(task, rows.shape))
            given.append((*self.flow.run("the source's records", whole, records), ways))
        return self._through(given)

    def of_sample(self, sample: Sequence[Mapping[str, Any]], envelope: Converter) -> Preview:
        """Take given records through the chain; `envelope`: a JsonConverter for their form. Errors: BadRequest."""
        side = ConverterBinding.of(envelope, "sample")
        ways = [Way(PreviewedRecord()) for _ in sample]
        topic = self.chain.connector.get("topic")
        if topic is None and not all(one.get("topic") for one in sample):
            raise BadRequest("A sample's record names its topic: the config has no setting topic that could.")
        rows = _batch([_sampled({"topic": topic, **one}) for one in sample])
        sides = {"key": side, "value": side}
        return self._through([(*self.flow.decoded(Rows(rows, KAFKA_ROW), sides, lambda records: records), ways)])

    def _through(self, given: Sequence[tuple[Rows, pa.RecordBatch, list[Way]]]) -> Preview:
        chain, split, notes = self.chain, self.chain.split, list[str]()
        java = chain.java_stage(is_source=True)
        before = chain.transforms(split.on_spark if java is None else split.before)
        after = chain.transforms(split.after) if java is not None else None
        sides = self._sides(notes)
        all_ways: list[Way] = []
        for rows, shown, ways in given:
            self.flow.note("read", "", ways, rows, shown)
            rows = self.flow.transformed(rows, ways, before)
            if java is not None and after is not None:
                rows = self.flow.through_java(rows, ways, java, java_name(chain), is_source=True)
                rows = self.flow.transformed(rows, ways, after)
            if sides is not None:
                Conversion(self.flow, *sides).run(rows, ways)
            all_ways += ways
        return self.effects_of(Preview("source", [way.told() for way in all_ways], notes=notes))

    def _sides(self, notes: list[str]) -> tuple[ConverterBinding, ConverterBinding] | None:
        """The converters; None, and a note, if one of them may change something outside."""
        if self.java_converters:
            sides = ", ".join(f"{side}.converter" for side in self.java_converters)
            notes.append(f"{sides} in Java may register schemas: nothing is converted.")
            return None
        try:
            return self.chain.conversion("key", only_asks=True), self.chain.conversion("value", only_asks=True)
        except NotImplementedError as error:
            notes.append(f"{error}: nothing is converted.")
            return None


@dataclass(frozen=True)
class Conversion:
    """Converts records to Kafka's bytes; a registry is only asked."""

    flow: Flow
    key: ConverterBinding
    value: ConverterBinding

    def run(self, rows: Rows, ways: list[Way]) -> None:
        """Note the bytes of each record that is still on its way, and where they would go."""
        encoded = self._encoded(rows)
        numbers = rows.batch.select(["key_schema", "value_schema"]).to_pylist()
        for way, row, numbered in zip(ways, encoded.to_pylist(), numbers, strict=True):
            if not way.goes_on:
                continue
            sides = (("key", self.key, rows.keys), ("value", self.value, rows.values))
            written = bytes_stage("written", row)
            key, value = _text(self.key, row["key"]), _text(self.value, row["value"])
            registered = {
                name: known
                for name, side, schemas in sides
                if (number := numbered[f"{name}_schema"]) is not None
                and (known := _registered(side.converter, row["topic"], schemas[number])) is not None
            }
            converted = replace(written, stage="converted", key=key, value=value, registered=registered)
            if (error := row["error"]) is None:
                way.stages += [converted, written]
                continue
            way.error = self.flow.failure(error["stage"], error["class"], error["message"])
            if registered:  # the registry's answer is the cause
                way.stages.append(converted)

    def _encoded(self, rows: Rows) -> pa.RecordBatch:
        made: list[Records] = []

        def build(frame: DataFrame) -> DataFrame:
            made.append(rows.records(frame))
            return to_bytes(made[-1], self.key, self.value)

        learned: set[str] = set()
        while True:
            with self.flow.progress.at("the converters"):
                encoded = self.flow.scope.program(rows.type, build).run(rows.batch, self.flow.scope.bounds)
            if not (marks := unknown_topics(encoded)):
                return encoded
            if again := marks & learned:
                raise ValueError(f"a converter was told of {sorted(again)} and still does not know what to write")
            with self.flow.progress.at("the converters' look-up of schemas"), asking_converters():
                learn_topics(marks, made[-1], self.key, self.value)
            learned |= marks


def envelope_of(sample: Sequence[Mapping[str, Any]]) -> bool:
    """True if the keys and values of a sample are JsonConverter's envelopes, false if they are plain JSON.

    Errors: BadRequest if some are and others are not, or for members that a record does not have.
    """
    if unknown := {name for one in sample for name in one} - set(_OF_SAMPLES):
        raise BadRequest(f"A sample's record has {', '.join(_OF_SAMPLES)}, and not {', '.join(sorted(unknown))}.")
    given = [one[side] for one in sample for side in ("key", "value") if one.get(side) is not None]
    enveloped = {isinstance(value, dict) and value.keys() == _ENVELOPE for value in given}
    if len(enveloped) > 1:
        raise BadRequest('Some keys and values of the sample are {"schema": …, "payload": …}, and others are not.')
    return enveloped == {True}


def _batch(sampled: list[dict[str, Any]]) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pylist(sampled, schema=arrow_schema_of(KAFKA_ROW))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise BadRequest(
            f"A record of the sample has a topic, partition or timestamp of another type: {error}"
        ) from error


def _sampled(one: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: None if one.get(side) is None else json.dumps(one[side]).encode() for side in ("key", "value")}
    given = one.get("headers") or {}
    if not isinstance(given, Mapping):
        raise BadRequest("The headers of a sample's record are an object: names and their values.")
    headers = [{"key": name, "value": _header(value)} for name, value in given.items()]
    at = {name: one.get(name) for name in ("topic", "partition", "timestamp")}
    return {**at, "offset": 0, "headers": headers or None, **sides}


def _header(value: Any) -> bytes | None:
    return None if value is None else (value if isinstance(value, str) else json.dumps(value)).encode()


def _taken(batches: Iterator[pa.RecordBatch], count: int) -> list[pa.RecordBatch]:
    """The first rows, so many at most, and one row at least; the reader is closed."""
    taken, left = [], _MOST_BYTES
    for rows in batches:
        part = rows.slice(0, count)
        while len(part) > 1 and part.nbytes > left:
            part = part.slice(0, len(part) // 2)
        taken.append(part)
        count, left = count - len(part), left - part.nbytes
        if count <= 0 or left <= 0 or len(part) < len(rows):
            break
    if isinstance(batches, Generator):
        batches.close()
    return [rows for rows in taken if len(rows)]


def _visible(offset: Mapping[str, Any] | None) -> dict[str, Any]:
    """An offset without the members that are hidden from operators."""
    return {name: plain(value) for name, value in (offset or {}).items() if not name.startswith("_")}


def _text(side: ConverterBinding, data: bytes | None) -> Any:
    """A converted value for people: what its converter reads in it, else its text."""
    if data is None:
        return None
    try:
        shown = side.converter.shown(data)
    except (DataError, RetriableError):
        shown = None
    return text_of(data) if shown is None else parsed(shown)


def _registered(converter: Converter, topic: str, schema: Any) -> Side | None:
    known = converter.registered(topic, schema) if isinstance(converter, TopicEncoding) else None
    if known is None:
        return None
    return Side(known.subject, known.text, known.id, known.refusal is None, known.refusal or "")
