"""Reports failed records: a line in the log, and a dead letter that Kafka has acknowledged.

The same code runs in the worker (inline) and in Spark's Python workers (in a job), whose log lines return to the worker
with the reached offsets.

    [topic, partition, offset, headers, key, value] as they came  +  __connect.errors.* headers  ->  dead letter topic

Decided: a dead letter is acknowledged before its batch goes on (Invariant 3), and if it cannot be sent the batch is
tried again, because Apache's worker only counts such a loss; loses: a sink stands still while its dead letter topic
cannot be written to, and records sent before the failure are sent again.

As in Apache, a dead letter has its record's own timestamp, which the topic's retention goes by: an old record's letter
is deleted early unless `retention.ms` of the dead letter topic is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from headrace.config.connector.error_handling import ErrorHandling
from headrace.plugins.errors import RetriableError, StoppedError
from headrace.plugins.offsets import Stop
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.failed_records import FailureReport, context, line
from headrace.worker.kafka.delivery_wait import STOP_S
from headrace.worker.kafka.librdkafka import ROWS
from headrace.worker.kafka.writer import KafkaWriter, ProduceError, discard_producer, kept_producer
from headrace.worker.logging.redaction import Redaction

log = logging.getLogger(__name__)

FULL_LINES: Final = 100
"""Failed records of a batch that are logged one by one; the others are counted."""
SEND_S: Final = 30.0
"""Longest time to send dead letters; then the batch is tried again."""

_LETTERS: Final = pa.schema(
    [
        *ROWS,
        ("error", pa.struct([("stage", pa.string()), ("class", pa.string()), ("message", pa.string())])),
        ("drop", pa.bool_()),
        ("source_offset", pa.struct([("number", pa.int64())])),
        ("split", pa.int32()),
    ]
)
"""Rows of `KafkaWriter`."""


class DeadLetterError(Exception):
    """Dead letters cannot be written; retries do not help, an operator must act."""


class NotSentYet(RetriableError):
    """Dead letters could not be sent now; the records of their batch are not to blame."""


@dataclass(frozen=True)
class Reporting:
    """A task's settings for reports of failed records; small and picklable."""

    connector: str
    task: int
    handling: ErrorHandling
    producer: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """librdkafka configuration for sending dead letters."""
    redaction: Redaction = field(default_factory=Redaction, repr=False)
    """Masks secrets in dead letters' headers; a Python worker knows none by itself (Invariant 6)."""

    @property
    def wanted(self) -> bool:
        """True if single records are reported at all."""
        return bool(self.handling.dead_letters) or self.handling.log

    @property
    def wants_bytes(self) -> bool:
        """True if a failed record's own bytes are needed."""
        return bool(self.handling.dead_letters) or (self.handling.log and self.handling.log_records)


class Reporter:
    """Reports the failed records of one batch."""

    def __init__(self, reporting: Reporting, stop: StopToken | None = None) -> None:
        self.reporting = reporting
        self.reported = FailureReport()
        self._who = reporting.connector, reporting.task
        self._stop = stop or StopToken()

    def __call__(self, failed: pa.RecordBatch) -> None:
        """Send the dead letter and make the log line of each of these records. Shape: `FAILED`.

        Errors: NotSentYet; StoppedError; DeadLetterError.
        """
        handling = self.reporting.handling
        if failed.num_rows and handling.dead_letters:
            self._send(failed)
        if failed.num_rows and handling.log:
            for row in failed.slice(0, max(0, FULL_LINES - len(self.reported.lines))).to_pylist():
                self.reported.lines.append(line(*self._who, self._masked(row), handling.log_records))
            self.reported.logged += failed.num_rows

    def _masked(self, row: dict[str, Any]) -> dict[str, Any]:
        message = row["message"]
        return row if message is None else {**row, "message": self.reporting.redaction.hide(message)}

    def _send(self, failed: pa.RecordBatch) -> None:
        handling = self.reporting.handling
        self.reported.sent += failed.num_rows
        letters = []
        for row in failed.to_pylist():
            told = context(*self._who, self._masked(row)) if handling.context_headers else []
            letters.append({**row, "topic": handling.dead_letters, "headers": [*(row["headers"] or []), *told]})
        try:
            send(letters, self.reporting.producer, "dead letters", self._stop)
        except (NotSentYet, DeadLetterError):
            self.reported.refused += failed.num_rows
            raise


def send(letters: list[dict[str, Any]], producer: Mapping[str, Any], what: str, stop: StopToken) -> None:
    """Send records in order, and wait until Kafka has them. Shape: dicts of `topic, timestamp, headers, key, value`.

    Errors: NotSentYet; StoppedError; DeadLetterError.
    """
    rows = [
        {**letter, "partition": None, "error": None, "drop": False, "source_offset": {"number": number}, "split": 0}
        for number, letter in enumerate(letters)
    ]
    in_time = stop.child(SEND_S - STOP_S)  # once its token is set, the writer waits for `STOP_S` more
    writer = KafkaWriter(kept_producer(producer), tolerate=False, exact=True, stop=in_time)
    try:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=_LETTERS))
        reached = writer.finish()
    except StoppedError:
        discard_producer(producer)
        if stop.is_set():
            raise
        raise NotSentYet(f"{what} for {letters[0]['topic']} were not acknowledged within {SEND_S:.0f} s") from None
    except RetriableError as error:
        discard_producer(producer)
        raise NotSentYet(f"{what} cannot be sent yet: {error}") from error
    except ProduceError as error:
        discard_producer(producer)
        raise DeadLetterError(f"{what} cannot be sent: {error}") from error
    if any(one.stop is Stop.FATAL for one in reached.values()):
        reason = next(one.reason for one in reached.values() if one.stop is Stop.FATAL) or ""
        raise DeadLetterError(
            f"{what} are refused, so the record can go nowhere: {reason.partition('; ')[0]}; raise max.message.bytes "
            "of that topic and producer.override.max.request.size, and restart the task"
        )
