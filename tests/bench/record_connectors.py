"""Connectors over records and over Arrow batches that do the same. For `plugin.path`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.config import settings as declared
from headrace.plugins import Record, RecordSink, RecordSource, Setting, contracts
from headrace.plugins.records import Records, source_records

FIELDS = {"id": 0, "name": "a name", "city": "a city", "price": 1.25, "count": 7, "weight": 0.5, "open": True}
FIELDS |= {"note": "a note of some length", "kind": None, "at": 1_700_000_000_000}
AT_ONCE = 5_000


class RecordsOut(RecordSource):
    """Ten fields a record; with a `rate`, so many a second, each with the moment at which it was made."""

    settings = (Setting("topic"), Setting("count", 1), Setting("rate", 0))

    def poll(self, after: Any) -> Iterator[Record]:
        begin = time.monotonic()
        for done, n in enumerate(range((after or {"n": 0})["n"] + 1, self.config["count"] + 1)):
            if self.config["rate"]:
                self.stopping.wait(begin + done / self.config["rate"] - time.monotonic())
                yield Record({"at": time.monotonic_ns()}, offset={"n": n})
            else:
                yield Record({**FIELDS, "id": n}, offset={"n": n})


class ArrowTask(contracts.SourceTask):
    """The same, of Arrow batches."""

    row_type = spark.StructType().add("value", spark.StringType())
    offset_type = spark.StructType().add("n", spark.LongType())

    def start(self, config: Mapping[str, str], context: contracts.TaskContext) -> None:
        self._topic, self._count = config["topic"], int(config["count"])

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        return [{}]

    def plan(self, after: Sequence[Any], limit: contracts.Limit) -> contracts.Plan | None:
        begin = 0 if after[0] is None else after[0]["n"]
        upto = min(begin + limit.rows, self._count)
        split = contracts.Split({}, after[0], {"n": upto})
        return contracts.Plan((split,), upto - begin, 200 * (upto - begin)) if upto > begin else None

    def reader(self, plan: contracts.Plan) -> contracts.ArrowReader:
        return ArrowRead(plan.splits[0])

    def records(self, frame: DataFrame) -> Records:
        return source_records(frame, F.lit(self._topic), F.col("value"), None)


class ArrowRead:
    """Reads the split of a plan."""

    def __init__(self, split: contracts.Split) -> None:
        self._split = split

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        begin, end = (self._split.after or {"n": 0})["n"] + 1, (self._split.upto or {})["n"] + 1
        for first in range(begin, end, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, end))
            texts = pa.array([json.dumps({**FIELDS, "id": n}) for n in numbers])
            offsets = pa.StructArray.from_arrays([pa.array(numbers, pa.int64())], names=["n"])
            yield pa.record_batch({"value": texts, "source_offset": offsets})


class _Copied(contracts.Connector):
    version = "1"

    def start(self, config: Mapping[str, str], context: contracts.ConnectorContext) -> None:
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._config]


class ArrowOut(_Copied):
    """The source of Arrow batches."""

    settings = declared.Settings(
        declared.Setting("topic", declared.Type.STRING), declared.Setting("count", declared.Type.INT)
    )
    task_class = "ArrowTask"
    task = ArrowTask


class RecordsIn(RecordSink):
    """Looks at a field of each record."""

    def put(self, records: Sequence[Record]) -> None:
        for record in records:
            assert record.value["count"] == FIELDS["count"]


class ArrowWrite:
    """Looks at the batch."""

    def write(self, rows: pa.RecordBatch) -> None:
        assert len(json.loads(rows.column("value")[0].as_py())) == len(FIELDS)

    def finish(self) -> bytes:
        return b""

    def abort(self) -> None:
        pass


class ArrowSinkTask(contracts.SinkTask):
    """Takes the JSON of each value."""

    def start(self, config: Mapping[str, str], context: contracts.TaskContext) -> None:
        pass

    def columns(self, records: Records) -> list[Column]:
        return [records.value(0).alias("value")]

    def writer(self, attempt: str) -> contracts.ArrowWriter:
        return ArrowWrite()


class ArrowIn(_Copied):
    """The sink of Arrow batches."""

    settings = declared.Settings()
    task_class = "ArrowSinkTask"
    task = ArrowSinkTask
