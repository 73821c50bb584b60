"""SingerSink: records of topics into a target, each topic a stream.

Offsets are committed once the target has printed a STATE that covers their records. The stream's schema is that of the
records; the fields of a key that is a struct are its key properties.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.singer.executables import executable
from headrace.connectors.singer.json_schemas import json_line, object_schema
from headrace.connectors.singer.settings import SINK, process_config
from headrace.connectors.singer.target import Target
from headrace.plugins.contracts import (
    ArrowWriter,
    Connector,
    ConnectorContext,
    Place,
    RecordFailure,
    RecordsFailed,
    SinkTask,
    TaskContext,
    TopicPartition,
)
from headrace.plugins.errors import DataError
from headrace.plugins.extensions import Effect, PartitionedSink, PreviewedSink
from headrace.plugins.numbered_schemas import numbered_columns, own_columns_only
from headrace.plugins.record_api.unpacking import values_of
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema, SchemaType
from headrace.plugins.sink_requests import RequestingSink, SinkRequests

CONFIG: Final = "target.config."


class Streamed(NamedTuple):
    """A record on its way to the target."""

    stream: str
    extracted: int | None
    key_schema: int | None
    """Number of the schema in `SingerSinkTask.schemas`; None: a null without schema."""
    key: Any
    value_schema: int | None
    value: Any


class SingerSinkTask(SinkTask, PartitionedSink, RequestingSink, PreviewedSink):
    """Feeds one target."""

    place = Place.WORKER_PROCESS
    _target: Target | None = None
    _failure: Exception | None = None

    def __init__(self) -> None:
        self._sent_types: dict[str, dict[str, Any]] = {}

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to run the target. Errors: ConfigError."""
        settings = SINK.parse(config)
        self._executable = executable("target.command", settings["target.command"], context.worker)
        self._config = process_config(CONFIG, config, context.worker)
        self._stall_s: float = settings["target.stall.timeout.ms"] / 1000
        self.ignores_nulls: bool = settings["behavior.on.null.values"] == "ignore"
        self._interrupted_by = context.interrupted_by
        self.schemas: list[Schema | None] = []
        self._types: dict[tuple[int | None, int | None], dict[str, Any]] = {}

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`: no target runs before the first message is sent."""
        self.start(config, context)

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield the messages that a target that has just begun would be sent."""
        failures, first = list[RecordFailure](), 0
        for rows in batches:
            for number, stream, lines in self.messages(rows, failures, first):
                for line in lines.splitlines():
                    message = json.loads(line)
                    yield Effect(message["type"], stream, {"message": message}, number)
            first += rows.num_rows
        _raise(failures)

    def preview_notes(self) -> Sequence[str]:
        """Return that the target decides what becomes of the messages."""
        return (f"Only {self._executable.name} knows what it stores of these messages; a STATE follows each batch.",)

    def columns(self, records: Records) -> list[Column]:
        """Return all of a record that a message carries; columns of schemas bear their numbers in `schemas`."""
        return [
            F.col("topic"),
            F.col("timestamp"),
            *numbered_columns("key", records.keys, self.schemas, own_columns_only("key", records.key)),
            *numbered_columns("value", records.values, self.schemas, own_columns_only("value", records.value)),
        ]

    def writer(self, attempt: str) -> ArrowWriter:
        """Return a writer for one batch."""
        return _Writer(self)

    def send(self, stream: str, lines: bytes) -> None:
        """Send messages of a stream to the target, which is started if none runs. Errors: SingerError."""
        self._run(lambda target: target.write(stream, lines))

    def end_batch(self) -> None:
        """Send the STATE of a batch. Errors: SingerError."""
        self._run(Target.end_batch)

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Have the target store all that it has. Errors: SingerError if it does not."""
        if self._failure is not None:
            return {}
        if self._target is not None and not self._target.is_durable:
            self._run(Target.finish)
            self._close()
        return None

    def requests(self) -> SinkRequests:
        """Ask for nothing. Errors: SingerError of a target that has ended between batches."""
        self._raise_failure()
        if self._target is not None:
            self._run(Target.check)
        return SinkRequests()

    def _run(self, call: Callable[[Target], None]) -> None:
        """Call a run; what it had not stored when it failed, it has lost, and must come again."""
        self._raise_failure()
        try:
            if self._target is None:
                self._target = Target(self._executable, self._config, self._stall_s)
            with self._interrupted_by(self._target.kill):
                call(self._target)
        except Exception as error:
            self._failure = error
            self._close()
            raise

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _close(self) -> None:
        self._sent_types.clear()  # the next run knows none
        if self._target is not None:
            self._target.close()
            self._target = None

    def stop(self) -> None:
        """End the target."""
        self._close()

    # -- messages ------------------------------------------------------------------------------------------------------

    def messages(
        self, rows: pa.RecordBatch, failures: list[RecordFailure], first: int = 0
    ) -> Iterator[tuple[int, str, bytes]]:
        """Yield the number of each record, from `first` on, its stream and its messages; add failures to the list.

        Errors: RecordsFailed if a record cannot be read.
        """
        for number, record in enumerate(self._records(rows), first):
            if record.value is None and self.ignores_nulls:
                continue
            try:
                yield number, record.stream, self._message_of(record)
            except DataError as error:
                failures.append(RecordFailure(number, f"The record cannot be given to the target: {error}"))

    def _records(self, rows: pa.RecordBatch) -> Iterable[Streamed]:
        try:
            keys, values = (values_of(rows, side, self.schemas) for side in ("key", "value"))
        except (ValueError, OverflowError) as error:  # Arrow's moments that Python does not have
            raise RecordsFailed(f"A record of the batch cannot be read: {error}") from error
        names = ("topic", "timestamp", "key_schema", "value_schema")
        topics, times, of_keys, of_values = (rows.column(name).to_pylist() for name in names)
        return map(Streamed, topics, times, of_keys, keys, of_values, values)

    def _message_of(self, record: Streamed) -> bytes:
        """Return the RECORD, after a SCHEMA if the stream has another one than before. Errors: DataError."""
        if record.value is None:
            raise DataError(
                "it has no value, which Singer cannot express; behavior.on.null.values=ignore passes it over"
            )
        schema = self._type_of(record)
        keys = record.key if schema["key_properties"] else {}
        message = {"type": "RECORD", "stream": record.stream, "record": {**keys, **record.value}}
        if record.extracted is not None:
            message["time_extracted"] = datetime.fromtimestamp(record.extracted / 1000, UTC).isoformat()
        line = json_line(message)
        if self._sent_types.get(record.stream) is schema:
            return line
        self._sent_types[record.stream] = schema
        return json_line({"type": "SCHEMA", "stream": record.stream, **schema}) + line

    def _type_of(self, record: Streamed) -> dict[str, Any]:
        numbers = record.key_schema, record.value_schema
        if numbers not in self._types:
            key, value = (None if number is None else self.schemas[number] for number in numbers)
            self._types[numbers] = _type_of(key, value)
        return self._types[numbers]


def _type_of(key: Schema | None, value: Schema | None) -> dict[str, Any]:
    """Return the rest of the SCHEMA of records with these schemas. Errors: DataError."""
    if value is None or value.type is not SchemaType.STRUCT:
        what = "no schema" if value is None else f"a schema of the type {value.type}"
        raise DataError(
            f"its value has {what}; a target needs structs with a schema, so set a converter that reads one"
        )
    keys = key.fields if key is not None and key.type is SchemaType.STRUCT else ()
    fields = {field.name: field.schema for field in (*keys, *value.fields)}
    return {"schema": object_schema(fields), "key_properties": [field.name for field in keys]}


class _Writer:
    """Sends a batch's records."""

    def __init__(self, task: SingerSinkTask) -> None:
        self._task = task
        self._has_sent = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Send these rows. Errors: RecordsFailed, with rows of this call; SingerError."""
        failures, stream, lines = list[RecordFailure](), "", bytearray()
        for _, of_record, message in self._task.messages(rows, failures):
            if of_record != stream:
                self._send(stream, lines)
                stream, lines = of_record, bytearray()
            lines += message
        self._send(stream, lines)
        _raise(failures)

    def finish(self) -> bytes:
        """Send the STATE that covers them. Errors: SingerError."""
        if self._has_sent:
            self._task.end_batch()
        return b""

    def abort(self) -> None:
        """Do nothing: what was sent comes again."""

    def _send(self, stream: str, lines: bytearray) -> None:
        if lines:
            self._has_sent = True
            self._task.send(stream, bytes(lines))


def _raise(failures: Sequence[RecordFailure]) -> None:
    if failures:
        raise RecordsFailed(f"{len(failures)} records failed, the first: {failures[0].message}", failures)


class SingerSinkConnector(Connector):
    """Runs a target in each task."""

    settings = SINK
    undeclared = (CONFIG,)
    version = "0.3.0"
    task_class = "headrace.connectors.singer.sink.SingerSinkTask"
    task = SingerSinkTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return the problems of the target's name and config."""
        if self.settings.problems(config):
            return []  # reported elsewhere
        try:
            self._check(config)
        except ConfigError as refused:
            return refused.problems
        return []

    def needs_schema(self, config: Mapping[str, str]) -> str:
        """The target: its SCHEMA messages are made of the values' schemas."""
        return "target.command"

    def _check(self, config: Mapping[str, str]) -> None:
        executable("target.command", SINK.parse(config)["target.command"], self.worker)
        process_config(CONFIG, config, self.worker)

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config. Errors: ConfigError."""
        self._check(config)
        self.given = dict(config)

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept all: Kafka's offsets are all that it has."""
        return True
