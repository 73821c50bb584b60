"""Drives a JDBC sink's task by the worker's own pipeline: records in JSON, decoded inline, into a real database."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.config.connector.error_handling import ErrorHandling
from headrace.connectors.jdbc.sink import transactions as sink_transactions
from headrace.connectors.jdbc.sink.connector import JdbcSinkConnector
from headrace.connectors.jdbc.sink.task import JdbcSinkTask
from headrace.converters.json.converter import JsonConverter
from headrace.plugins.contracts import Converter, PartitionResult, Stop, TaskContext, TopicPartition
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.interop.conversion.kafka_rows import KAFKA_ROW
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.failed_records import FailureReport
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import Program, ProjectionPool
from headrace.worker.engine.programs import Engine
from headrace.worker.engine.quota import Quota
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.decoding import Decoding
from headrace.worker.pipeline.executor import PolledRows
from headrace.worker.pipeline.partition_gate import PartitionGate
from headrace.worker.pipeline.sink import SinkPipeline
from headrace.worker.pipeline.sink_expressions import SinkExpressions
from headrace.worker.pipeline.transforms import Transforms
from tests.integration.databases import Database
from tests.spark.converting import configured
from tests.task_scope import task_scope

T0 = TopicPartition("t", 0)
_ROW = to_arrow_schema(KAFKA_ROW)


class Record(NamedTuple):
    """A record of Kafka; key and value as JSON bytes."""

    value: bytes | None
    key: bytes | None = None
    topic: str = "t"
    partition: int = 0


def struct(*fields: tuple[str, Any], name: str | None = None, optional: bool = False) -> dict[str, Any]:
    """A struct's schema in JSON; a field's schema is a type's name (`string?` is optional) or a schema."""
    members = [{**_schema(kind), "field": field} for field, kind in fields]
    return {"type": "struct", "optional": optional, "fields": members, **({} if name is None else {"name": name})}


def with_schema(schema: Any, payload: Any) -> bytes:
    """A value in JsonConverter's envelope."""
    return json.dumps({"schema": _schema(schema), "payload": payload}).encode()


def _schema(kind: Any) -> dict[str, Any]:
    if not isinstance(kind, str):
        return dict(kind)
    return {"type": kind.removesuffix("?"), "optional": kind.endswith("?")}


class _Context:
    def reconfigure(self) -> None: ...

    def fail(self, error: Exception) -> None:
        raise error


class Sinking:
    """A JDBC sink's first task at work; closed at the end."""

    def __init__(
        self,
        engine: Engine,
        database: Database,
        settings: Mapping[str, str] | None = None,
        schemas: bool = True,
        converter: Converter | None = None,
        topic_ids: Mapping[str, str] | None = None,
        kafka_options: Mapping[str, str] | None = None,
    ) -> None:
        self.topic_ids = topic_ids or {}
        self.config = {
            "name": "sink",
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "topics": "t",
            "errors.log.enable": "true",
            **database.settings,
            **(settings or {}),
        }
        json_converter = configured(JsonConverter(), {"schemas.enable": str(schemas).lower()})
        self._key = ConverterBinding(json_converter, "JsonConverter")
        self._value = ConverterBinding(converter or json_converter, "JsonConverter")
        self._kafka_options = kafka_options or {}
        self.said: list[str] = []
        self.positions: dict[TopicPartition, int] = {}
        self._scope = task_scope(engine, ErrorHandling.of("sink", self.config), tell=self._tell)
        self.task = self._started()
        self.pipeline = self._pipeline()
        self.open(T0)

    def _pipeline(self) -> SinkPipeline:
        decoding = Decoding(self._scope, SinkExpressions(self.task, Transforms()), self._key, self._value)
        return SinkPipeline.of(self._scope, self.task, decoding, "JdbcSinkTask", self._kafka_options)

    def _started(self) -> JdbcSinkTask:
        connector = JdbcSinkConnector()
        assert connector.validate(self.config) == []
        connector.start(self.config, _Context())
        (config,) = connector.task_configs(1)
        task = JdbcSinkTask()
        task.start(config, TaskContext("sink", 0, StopToken(), topic_ids=lambda _: self.topic_ids))
        return task

    def open(self, *partitions: TopicPartition) -> None:
        """The task has these partitions, and goes on where it says."""
        self.positions |= self.task.open(partitions)

    def put(self, *records: Record | bytes, there: bool = False) -> list[PartitionResult]:
        """The records at the next offsets, as far as they can be written; `there`: as in an executor.

        Errors: RetriableError, and what else fails a task.
        """
        rows = self.rows(*records)
        reached = list(self._in_a_job(rows) if there else self.pipeline.run(PolledRows(rows)))
        for one in reached:
            assert one.partition is not None
            if one.upto is not None:
                self.positions[one.partition] = max(self.positions.get(one.partition, 0), one.upto + 1)
        return reached

    def all(self, *records: Record | bytes, there: bool = False) -> None:
        """As `put`; all of them are written."""
        reached = self.put(*records, there=there)
        assert all(one.stop is None and one.bad == 0 for one in reached), reached
        assert sum(one.written for one in reached) == len(records)

    def refused(self, *records: Record | bytes) -> str:
        """As `put`; the first record that cannot be written, and why."""
        (stopped,) = [one for one in self.put(*records) if one.stop is not None]
        assert stopped.stop is Stop.FATAL
        assert stopped.reason is not None
        return stopped.reason

    def rows(self, *records: Record | bytes) -> pa.RecordBatch:
        """These records as Kafka gives them; the next ones come behind them only once these are written."""
        positions, made = dict(self.positions), []
        for record in (one if isinstance(one, Record) else Record(one) for one in records):
            place = TopicPartition(record.topic, record.partition)
            offset = positions.get(place, 0)
            positions[place] = offset + 1
            made.append(
                {**place._asdict(), "offset": offset, "timestamp": 1000, "key": record.key, "value": record.value}
            )
        return pa.RecordBatch.from_pylist(made, schema=_ROW)

    def _in_a_job(self, rows: pa.RecordBatch) -> Outcome[TopicPartition]:
        decoded = self.pipeline.decoding.run(rows)
        live = self.task._sink
        packed = pickle.dumps(self.task.writer("attempt"))
        sink_transactions._LIVE.pop(live.name)
        writer = pickle.loads(packed)
        live.keep()
        gate = PartitionGate(writer, tolerate=False)
        try:
            for part in decoded:
                gate.write(part)
            part = gate.finish()
        except BaseException:
            writer.abort()
            raise
        self.task.commit([part])
        return gate.reached()

    def compiled(self) -> bool:
        """True if what was needed last runs inline without a Spark job."""
        return isinstance(self.pipeline.decoding.usual_program(), Program)

    def restarted(self) -> None:
        """Another task of the connector has taken the place of this one, which was not stopped."""
        self.task = self._started()
        self.pipeline = self._pipeline()
        partitions, self.positions = list(self.positions), {}
        self.open(*partitions)

    def _tell(self, reported: FailureReport) -> None:
        self.said += reported.lines

    def stop(self) -> None:
        """The task has ended."""
        self.task.stop()


@pytest.fixture(scope="module")
def shared(engine: Spark) -> Iterator[Engine]:
    """Yield what tasks of a worker share."""
    pool = ProjectionPool(engine, lanes=1)
    yield Engine(pool, Quota(1), Quota(64 << 20))
    pool.stop()
