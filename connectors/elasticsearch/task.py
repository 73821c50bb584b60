"""The tasks of the sinks: records into documents."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column

from headrace.connectors.elasticsearch import preview
from headrace.connectors.elasticsearch.access import Access
from headrace.connectors.elasticsearch.columns import SinkColumns
from headrace.connectors.elasticsearch.conflicts import Replay
from headrace.connectors.elasticsearch.indices import asking
from headrace.connectors.elasticsearch.options import Flavour
from headrace.connectors.elasticsearch.parsing import options
from headrace.connectors.elasticsearch.target import Link, Target, keep
from headrace.connectors.elasticsearch.writer import BulkWriter, result_of
from headrace.plugins.contracts import ArrowWriter, SinkTask, TaskContext, TopicPartition
from headrace.plugins.extensions import Effect, Measured, PartitionedSink, PreviewedSink
from headrace.plugins.records import Records
from headrace.plugins.samples import Sample

log = logging.getLogger(__name__)


class ElasticsearchSinkTask(SinkTask, PartitionedSink, PreviewedSink, Measured):
    """Writes the records of its partitions into indices; a key's last record wins, whatever comes again or late."""

    flavour: ClassVar[Flavour] = Flavour.CONFLUENT
    _link: Link | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares for records; looks if the server is one. Errors: ConfigError, LoginRefused, RetriableError."""
        self._prepare(config, context)
        assert self._link is not None
        keep(self._target.name, self._link)
        with asking():
            self._link.server.check()
        if not self._target.options.creates:
            for name in dict.fromkeys(self._target.options.resources.values()):
                self._link.indices.ensure(name)

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares to look for indices. Errors: ConfigError."""
        self._prepare(config, context)

    def _prepare(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._context, of = context, options(config, self.flavour)
        self._columns = SinkColumns(of)
        name = f"{context.connector}-{context.task}-{uuid.uuid4()}"
        access = Access.of(config, self.flavour, context.worker)
        self._target = Target(name, access, of, self._columns.mappings)
        self._link = self._target.open()
        self._replays = dict[TopicPartition, Replay]()
        self._mine, self._is_written = set[TopicPartition](), True
        self._counts = Counter[str]()

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yields new indices and documents. Errors: RecordsFailed, RetriableError, LoginRefused, ServerError."""
        assert self._link is not None
        return preview.effects(batches, self._link, self._target.options)

    def preview_notes(self) -> Sequence[str]:
        """Facts that only the server knows."""
        return preview.NOTES

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Expects that their first records come again."""
        self._mine.update(partitions)
        self._replays.update({partition: Replay() for partition in partitions})
        return {}

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forgets these partitions."""
        for partition in partitions:
            self._mine.discard(partition)
            self._replays.pop(partition, None)

    def recover(self) -> Mapping[TopicPartition, int]:
        """Expects that all records come again; a late writer's versions are as old as its records."""
        return self.open(tuple(self._mine))

    def columns(self, records: Records) -> list[Column]:
        """The pieces of bulk requests."""
        return self._columns.columns(records)

    def writer(self, attempt: str) -> ArrowWriter:
        """A writer by bulk requests. After one that failed, records come again."""
        if not self._is_written:
            self.open(tuple(self._mine))
        self._is_written = False
        # A job's writer is made on the job's thread, while the task's own may get partitions.
        replaying = {partition: replay.clean for partition, replay in tuple(self._replays.items())}
        return BulkWriter(self._target, replaying, self._context.stopping)

    def commit(self, parts: Sequence[bytes]) -> None:
        """Takes over what the writers tell of versions; their documents are durable already."""
        self._is_written = True
        for result in map(result_of, parts):
            self._counts.update(result.counts)
            for partition, found in result.replays.items():
                replay = self._replays.get(partition)
                if replay is not None and found.last >= 0:  # else another writer had its records
                    self._follow(partition, replay, found)

    def _follow(self, partition: TopicPartition, replay: Replay, found: Replay) -> None:
        is_first = not replay.superseded and bool(found.superseded)
        replay.add(found)
        if is_first:
            versions = f"higher versions than the offsets of their records, up to {replay.highest}"
            log.warning(
                "%s: documents are there with %s, and stay as they are. After a restart that is so while records come "
                "again; else their keys are in several partitions, or the topic was made again",
                partition,
                "the ids of records" if replay.highest < 0 else versions,
            )
        if not replay.is_over:
            return
        if replay.highest > replay.last:
            log.warning(
                "%s: %d documents had higher versions, up to %d, than its records, the last of which has offset %d; "
                "keys are in several partitions, or the topic was made again. Delete the index to write them anew",
                partition,
                replay.superseded,
                replay.highest,
                replay.last,
            )
        self._replays.pop(partition, None)

    def samples(self) -> Iterator[Sample]:
        """Counts of documents and requests."""
        for what, text in _COUNTED.items():
            yield Sample(f"headrace_elasticsearch_{what}_total", {}, self._counts[what], text)

    def stop(self) -> None:
        """Closes the connections."""
        if self._link is not None:
            self._link.close()
            self._link = None


class AivenElasticsearchSinkTask(ElasticsearchSinkTask):
    """As the base, by the settings of Aiven's Elasticsearch sink."""

    flavour = Flavour.AIVEN_ELASTICSEARCH


class OpenSearchSinkTask(ElasticsearchSinkTask):
    """As the base, by the settings of Aiven's OpenSearch sink."""

    flavour = Flavour.AIVEN_OPENSEARCH


_COUNTED = {
    "written": "Documents written",
    "passed_over": "Records passed over, as the settings say",
    "refused": "Documents that the server refused",
    "superseded": "Documents that were there with a version as high or higher",
    "conflicts": "Documents that were there with a higher version, of another partition or an earlier topic",
    "requests": "Bulk requests",
    "repeated": "Documents sent again after the server was busy",
}
