"""Writes records to Kafka: Arrow batches in, the reached offsets out.

The same writer runs in the worker (inline) and in Spark's Python workers (in a job). Records of a partition keep their
order: the producer is idempotent, and after a failure nothing after the failed record counts as reached.

A record that its topic may refuse for its size is sent alone, once all earlier records have arrived: in a batch with
others, the broker would refuse them all, and records sent after them would arrive first.

Decided: rows go to librdkafka as they lie in Arrow's buffers (librdkafka.py), because 2,000,000 records of 105 bytes
to one partition took 1.1 s of the process's CPU; confluent-kafka's `produce_batch` took 2.4 s and, with the same
linger, 2.1 s (three alternating runs); loses: one more layout of C structs to know.

Decided: a default linger of half a second, because librdkafka's thread spins while a batch has lingered enough and
waits for one of the five requests in flight, which took half of its CPU; loses: a producer of many partitions without
a full batch has to notice by itself that its queue is full (`_send`).

Decided: one record at a time after the broker refused a batch, because a refusal names no record and takes innocent
neighbours with it; loses: a refused batch is sent slowly, and records that its first try delivered arrive twice.

Decided: not Spark's Kafka sink: measured 334k rec/s, against 414k of the slower writer before this one in the same run
(2,000,000 lines of 105 bytes), and it drops timestamps and reports no single records.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException

from headrace.config.kafka.topic_names import refusal as refusal_of_names
from headrace.config.worker.internal_topics import InternalTopics
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.conversion.encode import UNKNOWN_TOPIC
from headrace.plugins.interop.kafka.certificates import stores_of
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics
from headrace.plugins.offsets import Deliveries, Delivery, PartitionResult
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.delivery_wait import DeliveryWait
from headrace.worker.kafka.distinct import is_uniform
from headrace.worker.kafka.errors import NO_TOPIC
from headrace.worker.kafka.librdkafka import Producer
from headrace.worker.kafka.rights import missing_acl
from headrace.worker.kafka.split_progress import SplitProgress

log = logging.getLogger(__name__)

_OF_THE_RECORD = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError._INVALID_ARG,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)
"""Errors of the record itself: retries do not help."""

_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
_OF_THE_TOPIC = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._AUTHENTICATION,
    }
)
"""Errors that an operator must mend: the task fails and names them."""


CLIENT_BYTES = 8 << 20
"""Buffer limit of one client of a task."""
MOST_BYTES = 1_048_588
"""Default of a topic's `max.message.bytes`: its largest record batch."""
BATCH_SIZE = 1_000_000
"""librdkafka's default `batch.size`."""
OVERHEAD_BYTES = 512
"""Upper bound of what Kafka adds to a record's key and value, headers excluded."""
LINGER_MS = 500
"""The time that a batch may wait to be full; delays no record, since `finish` flushes."""
KEPT_BYTES = 32 << 20
"""Limit of unacknowledged keys, values and headers if records may have to be sent again; then all must arrive first."""
_FULL_S = 0.01
"""Pause before a full queue is tried again."""


class ProduceError(Exception):
    """Kafka or the worker refuses a task's records; retries do not help, an operator must act."""


def check_open(closed: InternalTopics, topics: Collection[str]) -> None:
    """Refuse closed topics. Errors: ProduceError."""
    if (why := closed.refusal(topics)) is not None:
        raise ProduceError(why)


class TopicMissing(RetriableError):
    """A topic of a task's records, or a partition of it, does not exist yet or was deleted."""

    def __init__(self, message: str, topics: Collection[str]) -> None:
        """`topics`: all topics of the records; at least one is missing."""
        super().__init__(message)
        self.topics = frozenset(topics)


class KafkaWriter:
    """Sends the rows of one batch.

    Shape: rows have `topic, partition, timestamp, headers, key, value, error, drop, source_offset, split`, and may have
    `unknown_topic`: a split ends before the first row with a value there, and goes on inline.
    """

    def __init__(
        self,
        producer: Producer,
        tolerate: bool,
        exact: bool,
        may_go_to: Callable[[Collection[str]], bool] = lambda _: True,
        most_bytes: int = MOST_BYTES,
        report: Callable[[pa.RecordBatch, str | None], None] | None = None,
        rows_share_offsets: bool = False,
        stop: StopToken | None = None,
        atomic: bool = False,
    ) -> None:
        """`exact`: if the broker refuses a batch, find the record (inline); else answer RETRY (job).

        `atomic`: the rows belong to a transaction, which a refused record fails as a whole: ProduceError.

        `may_go_to` is called with topics before rows go there; if it returns False, the answer is RETRY.
        `most_bytes`: the largest record batch that the topics take.
        `report` is called before rows are left out or stop their split: with bad rows and None, or with one row that
        Kafka refused and the reason.
        `rows_share_offsets`: as of the source's task. `stop`: None if only the end of the process stops it.
        """
        self._rows_share_offsets = rows_share_offsets
        self._alone_bytes = max(1, most_bytes - OVERHEAD_BYTES)
        self._producer = producer
        self._tolerate = tolerate
        self._exact = exact
        self._atomic = atomic
        self._may_go_to = may_go_to
        self._report = report
        self._progress: dict[int, SplitProgress] = {}
        self._kept: list[pa.RecordBatch] = []
        self._kept_bytes = 0
        self._patience = DeliveryWait(producer, stop or StopToken(), "records are still unacknowledged")
        self._resent = False
        self._left = 0
        producer.refusals.clear()
        producer.arrivals.clear()
        if producer.receipts is not None:
            producer.receipts.clear()
        producer.failures.clear()

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows. Errors: as `finish`, if it had to wait."""
        if rows.num_rows == 0:
            return
        for split, part in _by_split(rows):
            progress = self._progress.setdefault(split, SplitProgress(self._rows_share_offsets))
            known = _up_to_unknown(part)
            size = known["key"].nbytes + known["value"].nbytes
            for piece, alone in self._pieces(known, size):
                if alone:
                    self._arrive()
                if progress.stop is not None:
                    break
                self._report_bad(piece)
                good = progress.take(piece, self._tolerate)
                if not self._may_go_to(progress.topics):
                    progress.retry("the rows go to a topic that may have to be created")
                    continue
                progress.bytes += values_size(good["key"]) + values_size(good["value"])
                if alone and good.num_rows:
                    progress.restart()
                    self._one_by_one(progress, good)
                    progress.mark()
                    self._mark_receipts()
                else:
                    if self._producer.notes_arrivals:
                        progress.note_places(good)
                    self._send(good)
                    if self._exact and good.num_rows:
                        self._keep(good, size + _headers_size(good))
            if len(known) < len(part):
                progress.end("a converter has to be told first of a topic that the next row goes to")

    def end(self, split: int, why: str) -> None:
        """End a split early; rows written so far count."""
        if split in self._progress:
            self._progress[split].end(why)

    def finish(self) -> dict[int, PartitionResult]:
        """Wait until every row is acknowledged; returns how far each split got.

        Errors: StoppedError; RetriableError; ProduceError; LoginRefused.
        """
        self._arrive()
        return {
            split: replace(
                progress.reached(), deliveries=self._deliveries(progress), acknowledged=self._acknowledged(split)
            )
            for split, progress in self._progress.items()
        }

    def _deliveries(self, progress: SplitProgress) -> tuple[Delivery, ...]:
        """Return the place of the split's last row; empty if another split may have written there after it."""
        alone = all(progress.places.isdisjoint(one.places) for one in self._progress.values() if one is not progress)
        if len(progress.places) != 1 or not alone or self._resent or progress.last_sent is None:
            return ()
        offset = self._producer.arrivals.get(next(iter(progress.places)))
        return () if offset is None else (Delivery(progress.last_sent.as_py(), offset, -1),)

    def _acknowledged(self, split: int) -> pa.RecordBatch | None:
        receipts = self._producer.receipts
        return None if receipts is None else receipts.of(split)

    def _keep(self, rows: pa.RecordBatch, size: int) -> None:
        self._kept.append(rows)
        self._kept_bytes += size
        if self._kept_bytes >= KEPT_BYTES:
            self._arrive()

    def _report_bad(self, rows: pa.RecordBatch) -> None:
        if self._report is not None and rows["error"].null_count < len(rows):
            bad = rows.filter(rows["error"].is_valid())
            self._report(bad if self._tolerate else bad.slice(0, 1), None)

    def _settle(self) -> None:
        refusals = self._producer.refusals[:]
        self._producer.refusals.clear()
        # A refusal that ends a transaction makes librdkafka give up all other records; these come first or alone.
        first = next((one for one in refusals if one.code() not in _GIVEN_UP), None) or self._why_given_up(refusals[0])
        count = len(refusals)
        if first.code() not in _OF_THE_RECORD:
            raise _error_of(first, count, {topic for progress in self._progress.values() for topic in progress.topics})
        if not self._exact:
            for progress in self._progress.values():
                progress.retry(first.str())
            return
        if self._atomic:
            raise _refused_in_a_transaction(first)
        log.warning("Kafka refused %d records (%s); sending this batch again record by record", count, first.str())
        for progress in self._progress.values():
            progress.restart()
        if self._producer.receipts is not None:
            self._producer.receipts.restart()
        for rows in self._kept:
            for split, part in _by_split(rows):
                self._one_by_one(self._progress[split], part)
        for progress in self._progress.values():
            progress.settled()

    def _why_given_up(self, given_up: KafkaError) -> KafkaError:
        if self._atomic:
            try:
                self._producer.commit_transaction(0)
            except KafkaException as raised:
                why: KafkaError = raised.args[0]
                return why
        return given_up

    def _pieces(self, rows: pa.RecordBatch, size: int) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Cut rows of `size` bytes into pieces, in order; True with a row that must be sent alone."""
        if size < self._alone_bytes:  # a quick check: no row can be that large
            yield rows, False
            return
        lengths = [pc.binary_length(rows[name]) for name in ("key", "value")]
        if sum(pc.max(one).as_py() or 0 for one in lengths) < self._alone_bytes:
            yield rows, False
            return
        sizes = pc.add(*(one.fill_null(0) for one in lengths))
        begin = 0
        for index in pc.indices_nonzero(pc.greater_equal(sizes, self._alone_bytes)).to_pylist():
            if index > begin:
                yield rows.slice(begin, index - begin), False
            yield rows.slice(index, 1), True
            begin = index + 1
        if begin < len(rows):
            yield rows.slice(begin), False

    def _arrive(self) -> None:
        """Wait until the rows sent so far have arrived or their splits have stopped."""
        self._flush()
        if self._producer.refusals:
            self._settle()
        for progress in self._progress.values():
            progress.mark()
        self._mark_receipts()
        self._kept.clear()
        self._kept_bytes = 0

    def _mark_receipts(self) -> None:
        if self._producer.receipts is not None:
            self._producer.receipts.mark()

    def _send(self, rows: pa.RecordBatch) -> None:
        if self._producer.receipts is not None:
            rows = self._producer.receipts.sending(rows)
        while rows.num_rows:
            settled = self._producer.produce(rows)
            rows = rows.slice(settled)
            if settled or not rows.num_rows:
                self._producer.poll(_FULL_S if rows.num_rows else 0)
            # No batch is full: flush to make room in the queue.
            elif left := self._producer.flush(_FULL_S):
                self._wait_no_longer(left)

    def _flush(self) -> None:
        while left := self._producer.flush(0.25):
            self._wait_no_longer(left)

    def _wait_no_longer(self, left: int) -> None:
        """Check that waiting for `left` records may go on. Errors: as `DeliveryWait.wait_on`."""
        if left < self._left:  # some broker takes them
            self._producer.failures.clear()
        self._left = left
        self._patience.wait_on()

    def _one_by_one(self, progress: SplitProgress, rows: pa.RecordBatch) -> None:
        self._resent = True
        for index in range(len(rows)):
            if progress.stop is not None:
                return
            row = rows.slice(index, 1)
            self._producer.refusals.clear()
            self._send(row)
            self._flush()
            if not self._producer.refusals:
                progress.sent(row)
                continue
            refusal, topic = self._producer.refusals[0], row["topic"][0].as_py()
            if refusal.code() not in _OF_THE_RECORD:
                raise _error_of(refusal, 1, {topic})
            if self._atomic:
                raise _refused_in_a_transaction(refusal)
            size = sum(len(row[name][0].as_py() or b"") for name in ("key", "value"))
            why = (
                f"KAFKA_PRODUCE: a record of {size} bytes for topic '{topic}': {refusal.str()}; {_remedy(refusal)}, or "
                "set errors.tolerance=all to leave such records out"
            )
            if self._report is not None:
                self._report(row, why.removeprefix("KAFKA_PRODUCE: "))
            progress.refuse(row, why, self._tolerate)
        self._producer.refusals.clear()


def open_producer(
    config: Mapping[str, Any], deliveries: Deliveries = Deliveries.NONE, statistics: ClientStatistics | None = None
) -> Producer:
    """Open a producer with this config."""
    client_log = logging.getLogger("headrace.worker.kafka.writer.client")
    return Producer({"linger.ms": LINGER_MS, **config}, client_log, deliveries, statistics)


class _Kept(threading.local):
    """Producers of each thread; tasks that shared one would get each other's refusals."""

    def __init__(self) -> None:
        self.producers: dict[str, Producer] = {}


_kept = _Kept()


def kept_producer(config: Mapping[str, Any], deliveries: Deliveries = Deliveries.NONE) -> Producer:
    """Return this thread's producer with this config; a Python worker keeps it between jobs."""
    key = _key(config)
    if key not in _kept.producers:
        _kept.producers[key] = open_producer(config, deliveries)
    return _kept.producers[key]


def discard_producer(config: Mapping[str, Any]) -> None:
    """Drop this thread's kept producer with this config, and its unsettled records."""
    producer = _kept.producers.pop(_key(config), None)
    if producer is not None:
        producer.purge()


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps([dict(config), stores_of(config)], sort_keys=True, default=str)


def _error_of(refusal: KafkaError, count: int, topics: Collection[str]) -> Exception:
    if (why := refusal_of_names(topics)) is not None:
        return ProduceError(why)
    to = ", ".join(sorted(topics))
    create = "create the topic (a connector's topic.creation.* settings do that)"
    if refusal.code() in _OF_THE_TOPIC:
        remedy = f"{missing_acl(refusal.code(), 'Write', topics) or 'grant what is missing'}, or {create}"
        return ProduceError(f"Kafka refuses the records for {to}: {refusal.str()}; {remedy}")
    text = f"{count} record(s) for {to} could not be delivered: {refusal.str()}"
    if refusal.code() in NO_TOPIC:
        return TopicMissing(f"{text}; {create}, or add partitions to it", topics)
    return RetriableError(text)


def _refused_in_a_transaction(refusal: KafkaError) -> ProduceError:
    return ProduceError(
        f"KAFKA_PRODUCE: Kafka refuses a record of the batch: {refusal.str()}; none of the batch is in its topics: "
        f"{_remedy(refusal)}. Within transactions no record that Kafka refuses can be left out, whatever "
        "errors.tolerance is"
    )


def _remedy(refusal: KafkaError) -> str:
    if refusal.code() == KafkaError._INVALID_ARG:
        return "no name of a topic or of a header may contain NUL: have a transform rename or drop it"
    return "raise max.message.bytes of the topic and producer.override.max.request.size"


def values_size(column: pa.Array) -> int:
    """Return the bytes of a column's texts or bytes, without what Arrow keeps beside them."""
    offsets = column.buffers()[1]
    if offsets is None or not len(column):
        return 0
    is_large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    at = memoryview(offsets).cast("B").cast("q" if is_large else "i")
    return int(at[column.offset + len(column)] - at[column.offset])


def _up_to_unknown(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows before the first that its converter cannot encode yet (`encode.UNKNOWN_TOPIC`)."""
    if UNKNOWN_TOPIC not in rows.schema.names or rows[UNKNOWN_TOPIC].null_count == len(rows):
        return rows
    return rows.slice(0, pc.index(rows[UNKNOWN_TOPIC].is_valid(), True).as_py())


def _headers_size(rows: pa.RecordBatch) -> int:
    headers = rows["headers"]
    return 0 if headers.null_count == len(headers) else int(headers.nbytes)


def _by_split(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    splits = rows["split"]
    if is_uniform(splits):
        yield splits[0].as_py(), rows
        return
    for split in pc.unique(splits).to_pylist():
        yield split, rows.filter(pc.equal(splits, split))
