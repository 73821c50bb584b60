"""The task of the HTTP sinks."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import Column

from headrace.connectors.http.login import Login
from headrace.connectors.http.sink.columns import columns_of
from headrace.connectors.http.sink.options import Nulls, OnError, SinkOptions
from headrace.connectors.http.sink.reports import NO_REPORTS, Reports
from headrace.connectors.http.sink.requests import Place, Request, planned
from headrace.connectors.http.sink.sending import Away, Late, Refused, Sender, Sent
from headrace.plugins.contracts import ArrowWriter, SinkTask, TaskContext, TopicPartition
from headrace.plugins.contracts import Place as TaskPlace
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError, StoppedError
from headrace.plugins.extensions import Effect, PartitionedSink, PreviewedSink
from headrace.plugins.interop.http.client import HttpClient, masked
from headrace.plugins.records import Records
from headrace.plugins.sink_requests import RequestingSink

log = logging.getLogger(__name__)

Mark = tuple[Place, int]
"""A record, and the hash of the request that it was in."""

MOST_AT_ONCE: Final = 8
"""The most requests of a task on their way at the same time."""
LONGEST_S: Final = 60.0
"""The longest time that a batch sends without a break; a task that does not poll Kafka loses its partitions."""


class Outlet(NamedTuple):
    """The outside of a task."""

    client: HttpClient
    login: Login
    reports: Reports = NO_REPORTS


class Vendor(Protocol):
    """The settings of one vendor's sink."""

    def options(self, config: Mapping[str, str]) -> SinkOptions:
        """The behaviour. Errors: ConfigError."""

    def outlet(self, config: Mapping[str, str], worker: Mapping[str, Any]) -> Outlet:
        """The outside, which is not asked for anything yet. Errors: ConfigError."""


class HttpSinkTask(SinkTask, PartitionedSink, RequestingSink, PreviewedSink):
    """Sends each batch; requests of different lanes at the same time."""

    place = TaskPlace.WORKER_PROCESS
    vendor: ClassVar[Vendor]
    _outlet: Outlet | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to connect. Errors: ConfigError."""
        self.options = self.vendor.options(config)
        self._outlet = self.vendor.outlet(config, context.worker)
        self.reports = self._outlet.reports
        self.reports.open()
        self.tolerates = config.get("errors.tolerance", "").strip().lower() == "all"
        self.stopping = context.stopping
        self.sent: set[Mark] = set()
        """The records sent of a batch that may come again."""
        self.unsendable: dict[Mark, str] = {}
        """Its records that could not be sent with all their attempts, and why."""
        self.tried: dict[Mark, int] = {}
        """The attempts that its other records have used up."""
        self.unsent: dict[TopicPartition, int] = {}
        """The first offset of each partition that was left because the task has to end."""
        self.passed: Counter[TopicPartition] = Counter()
        self._left_out: Counter[TopicPartition] = Counter()

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Read the settings. Errors: ConfigError."""
        self.options = self.vendor.options(config)

    def columns(self, records: Records) -> list[Column]:
        """Return what a request needs of each record."""
        return columns_of(records, self.options)

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield the requests, batch by batch. Errors: RecordsFailed."""
        failures, first = list[RecordFailure](), 0
        for rows in batches:
            found = planned(rows, self.options)
            failures += [RecordFailure(first + row, why) for row, why in sorted(found.faults.items())]
            requests = sorted((one for lane in found.lanes.values() for one in lane), key=lambda one: one.rows[0])
            for one in requests:
                row = first + one.rows[0] if len(one.rows) == 1 else None
                body = None if one.body is None else one.body.decode("utf-8", "replace")
                yield Effect(one.method, masked(one.url), {"body": body, "records": len(one.rows)}, row)
            first += rows.num_rows
        if failures:
            raise RecordsFailed(f"{len(failures)} records failed, the first: {failures[0].message}", failures)

    def preview_notes(self) -> Sequence[str]:
        """Return that queries and headers are not shown."""
        return ("The URLs' queries and the headers are not shown, for they may hold secrets.",)

    def writer(self, attempt: str) -> ArrowWriter:
        """Return a writer for one batch."""
        assert self._outlet is not None
        until_s = time.monotonic() + LONGEST_S
        sender = Sender(self._outlet.client, self._outlet.login, self.options, self.stopping, until_s)
        return _Writer(self, sender)

    def commit(self, parts: Sequence[bytes]) -> Mapping[TopicPartition, int]:
        """Note that the batch is outside, but for what was left at the task's end."""
        self._forget()
        self._left_out, self.passed = self.passed, Counter()
        unsent, self.unsent = self.unsent, {}
        return unsent

    def left_out(self) -> Mapping[TopicPartition, int]:
        """Return how many records of the last batch were passed over."""
        return self._left_out

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget what was sent: another task may send these partitions' records."""
        self._forget()

    def _forget(self) -> None:
        self.sent.clear()
        self.unsendable.clear()
        self.tried.clear()

    def stop(self) -> None:
        """Close the connections."""
        if self._outlet is not None:
            self._outlet.client.close()
            self._outlet.reports.close()


class _Writer:
    """Sends the rows of a batch."""

    def __init__(self, task: HttpSinkTask, sender: Sender) -> None:
        self._task, self._sender = task, sender
        self._ended = threading.Event()
        """Set once a lane cannot go on."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Send these rows. Errors: RecordsFailed; RetriableError; as `sending`."""
        found = planned(rows, self._task.options)
        places = list(zip(*(rows[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True))
        reports = self._task.reports.of(rows)
        self._pass_over([places[row] for row in found.nulls])
        if found.nulls and self._task.options.nulls is Nulls.LOG:
            what = "%d records without a value were passed over, the first is %s-%d@%d"
            log.warning(what, len(found.nulls), *places[found.nulls[0]])
        failures = dict(found.faults)
        self._sender.failed = reports.failed

        def send(lane: Sequence[Request]) -> Sequence[Request]:
            return self._send(lane, places, failures, reports.sent)

        for left in self._in_lanes(list(found.lanes.values()), send):
            self._leave(left, places)
        self._fail(failures, places)

    def _in_lanes(
        self, lanes: Sequence[Sequence[Request]], send: Callable[[Sequence[Request]], Sequence[Request]]
    ) -> Sequence[Sequence[Request]]:
        if len(lanes) < 2:
            return [send(lane) for lane in lanes]
        with ThreadPoolExecutor(min(len(lanes), MOST_AT_ONCE), "http-sink") as pool:
            running = [pool.submit(send, lane) for lane in lanes]
        return [one.result() for one in running]

    def _send(
        self,
        lane: Sequence[Request],
        places: Sequence[Place],
        failures: dict[int, str],
        sent: Callable[[Request, Any], None],
    ) -> Sequence[Request]:
        """Send the requests of a lane, in order; return those left at the task's end.

        Errors: RetriableError; as `sending`.
        """
        task = self._task
        for number, request in enumerate(lane):
            if self._ended.is_set():
                return ()
            if task.stopping.is_set():
                return lane[number:]
            mark = hash((request.method, request.url, request.body))
            marks = {(places[row], mark) for row in request.rows}
            if marks <= task.sent:
                continue
            try:
                result = self._result(request, marks)
            except StoppedError:
                return lane[number:]
            except BaseException:
                self._ended.set()
                raise
            if isinstance(result, Sent):
                sent(request, result.answer)
                task.sent |= marks
            else:
                task.unsendable |= dict.fromkeys(marks, result.message)
                failures.update(dict.fromkeys(request.rows, result.message))
        return ()

    def _result(self, request: Request, marks: Set[Mark]) -> Sent | Refused | Away:
        """Send a request, unless it could not be sent before.

        Errors: RetriableError if its batch has to come again; as `sending`.
        """
        task = self._task
        if marks <= task.unsendable.keys():
            return Refused(task.unsendable[next(iter(marks))])
        if time.monotonic() <= self._sender.until_s:
            result = self._sender.send(request, min(task.tried.get(one, 0) for one in marks))
            if isinstance(result, Away) and task.options.on_error is OnError.FAIL:
                raise RetriableError(result.message)
            if not isinstance(result, Late):
                return result
            task.tried |= dict.fromkeys(marks, result.failures)
        raise RetriableError(f"the batch has been sending for {LONGEST_S:.0f} s; its rest comes next")

    def _leave(self, requests: Sequence[Request], places: Sequence[Place]) -> None:
        for topic, partition, offset in (places[row] for request in requests for row in request.rows):
            at = TopicPartition(topic, partition)
            self._task.unsent[at] = min(self._task.unsent.get(at, offset), offset)

    def _fail(self, failures: Mapping[int, str], places: Sequence[Place]) -> None:
        """Refuse records, or pass them over if the settings say so. Errors: RecordsFailed."""
        if not failures:
            return
        options = self._task.options
        if options.on_error is OnError.FAIL or self._task.tolerates:
            named = [RecordFailure(row, why) for row, why in sorted(failures.items())]
            raise RecordsFailed(f"{len(named)} records failed, the first: {named[0].message}", named)
        if options.on_error is OnError.LOG:
            for row, why in sorted(failures.items()):
                topic, partition, offset = places[row]
                log.error("The record %s-%d@%d was not sent: %s", topic, partition, offset, why)
        self._pass_over([places[row] for row in failures])

    def _pass_over(self, places: Sequence[Place]) -> None:
        self._task.passed.update(TopicPartition(topic, partition) for topic, partition, _ in places)

    def finish(self) -> bytes:
        """Wait until the reports are in Kafka. Errors: RetriableError."""
        self._task.reports.flush()
        return b""

    def abort(self) -> None:
        """Forget the rest: what was sent is remembered, and is not sent again."""
        self._task.passed.clear()
        self._task.unsent.clear()
