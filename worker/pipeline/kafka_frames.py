"""Kafka's records at given offsets, as Spark frames."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.offsets import TopicPartition
from headrace.worker.pipeline.executor import Ranges

HEADERS: Final = "headers"
_HEADERS: Final = "array<struct<key:string,value:binary>>"
"""Their type in Spark's Kafka source."""
_POLL: Final = "kafka.max.poll.records"
_GROUP: Final = "kafka.group.id"


class KafkaReaders:
    """The options of Spark's Kafka source, by which all jobs of a task read with the same consumers.

    Decided: the jobs of a task share one group id, under which nothing is committed, because Spark pools consumers by
    it, each with what it has fetched. With an id for each job none is ever reused: 200 MB of them filled the heap
    within two minutes, and the names of all jobs stayed for ever; loses: `renew` must be called in time.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self.renew()

    def renew(self) -> None:
        """Keep later jobs from reusing consumers: what they have fetched may be of a topic that was made again."""
        self._group = f"headrace-{uuid4().hex}"

    def options(self, rows: int) -> dict[str, str]:
        """The options with which Kafka's client decompresses at most `rows` records at once."""
        most = int(self._options.get(_POLL, "500"))
        # Consumers of one group must be alike, and the size of records changes all the time.
        polled = most if most <= rows else 1 << (rows.bit_length() - 1)
        return {**self._options, _POLL: str(polled), _GROUP: f"{self._group}-{polled}"}


def in_parts(ranges: Ranges, step: int, most: int) -> list[Ranges]:
    """Cut each range at multiples of `step` into parts of about equal size; about `most` parts in all."""
    parts: list[dict[TopicPartition, tuple[int, int]]] = [{} for _ in range(max(1, most // len(ranges)))]
    for partition, (begin, end) in ranges.items():
        steps = -(-(end - begin) // step)
        cuts = [begin + steps * number // len(parts) * step for number in range(len(parts))]
        for part, first, last in zip(parts, cuts, [*cuts[1:], end], strict=True):
            if first < last:
                part[partition] = first, last
    return [part for part in parts if part]


def kafka_rows(
    session: SparkSession, parts: Sequence[Ranges], options: Mapping[str, str], headers: bool = True
) -> DataFrame:
    """The records at these offsets. Shape: as `to_records` takes it; without `headers` they are null.

    A column that is equal in all rows is a constant and need not travel. Spark makes rows of headers even if there are
    none and none are asked for: a tenth of a job that decodes Avro.
    """
    partitions = {partition for part in parts for partition in part}
    (topic, *others), numbers = {p.topic for p in partitions}, {p.partition for p in partitions}
    place = [
        F.col("topic") if others else F.lit(topic).alias("topic"),
        F.lit(*numbers).alias("partition") if len(numbers) == 1 else F.col("partition"),
    ]
    stamp = F.unix_millis("timestamp").alias("timestamp")
    frame = reduce(DataFrame.unionAll, [_read(session, part, options, headers) for part in parts])
    its = F.col(HEADERS) if headers else F.lit(None).cast(_HEADERS).alias(HEADERS)
    return frame.select(*place, "offset", stamp, its, "key", "value")


def _read(session: SparkSession, ranges: Ranges, options: Mapping[str, str], headers: bool) -> DataFrame:
    assign: dict[str, list[int]] = defaultdict(list)
    begin: dict[str, dict[str, int]] = defaultdict(dict)
    end: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), (first, stop) in ranges.items():
        assign[topic].append(partition)
        begin[topic][str(partition)] = first
        end[topic][str(partition)] = stop
    reader = session.read.format("kafka").options(**options).option("includeHeaders", headers)
    reader = reader.option("failOnDataLoss", "true").option("assign", json.dumps(assign))
    return reader.option("startingOffsets", json.dumps(begin)).option("endingOffsets", json.dumps(end)).load()
