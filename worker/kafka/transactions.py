"""Transactions of one source task: what is sent between two commits becomes visible together or never (KIP-618).

    transactions.open(config)        # at the task's start, and when the producer's settings change
    transactions.begin()             # before records are sent; no effect within a transaction
    transactions.commit(offsets)     # the records, and these rows of the offsets topic
    transactions.abort()             # after a failure: none of it becomes visible

A producer is opened between two checks. `FencingCheck.fence` has the producers of the connector's former tasks fenced.
`FencingCheck.check` then refuses a task that was assigned elsewhere meanwhile. Its opening may have fenced the new
owner, which starts again; without the check, two writers would go on.

Decided: a transaction that can be neither committed nor aborted ends the task, which starts again at its stored
offsets, because only a start makes both checks; loses: if Kafka is away for longer than a transaction may last, such
tasks are FAILED for a moment before they start again.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics
from headrace.plugins.offsets import Deliveries
from headrace.plugins.stopping import StopToken
from headrace.worker.errors import ConnectError
from headrace.worker.kafka.delivery_wait import DeliveryWait
from headrace.worker.kafka.librdkafka import Producer
from headrace.worker.kafka.writer import open_producer

_PIECE_S: Final = 0.2
"""Longest wait of one call; between two calls reports are noted and the task's stop is checked."""
_OPEN_S: Final = 30.0
"""The time that transactions may take to start before it is logged and tried again."""
_LATE: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError._TIMED_OUT,
    }
)
"""Codes for a producer that was replaced, or whose transaction lasted too long."""


class FencingCheck(Protocol):
    """One task's checks with the cluster's leader and configuration."""

    def fence(self) -> None:
        """Have the producers of the connector's former tasks fenced. Errors: RetriableError; ConnectError."""

    def check(self) -> None:
        """Errors: ConnectError if the task is another worker's by now; RetriableError if that cannot be known."""


class TransactionLost(ConnectError):
    """A transaction was neither committed nor aborted; only a new start of the task knows where to go on."""


class Transactions:
    """Transactions of one task, for its thread only."""

    def __init__(self, about: str, admission: FencingCheck, stop: StopToken) -> None:
        """`about`: the task's name in errors."""
        self._about = about
        self._admission = admission
        self._stop = stop
        self._producer: Producer | None = None
        self._opened_with: tuple[Mapping[str, Any], Deliveries] | None = None
        self._begun = False
        self.is_touched = False
        """True if records were sent since the owner set this to False."""

    def open(self, config: Mapping[str, Any], deliveries: Deliveries = Deliveries.NONE) -> Producer:
        """Return a producer with this librdkafka configuration, which has a `transactional.id`, and these `deliveries`.

        Within a transaction it is the producer that the transaction began with.

        Errors: RetriableError; ConnectError; LoginRefused; StoppedError.
        """
        if self._producer is not None and (self._begun or self._opened_with == (config, deliveries)):
            return self._producer
        self.close()
        self._admission.fence()
        # Fencing may have taken long; a task that was assigned elsewhere must not fence its new owner.
        self._stop.raise_if_set("its transactions began")
        self._admission.check()
        producer = open_producer(config, deliveries, ClientStatistics("producer", config))
        try:
            self._until_done(producer, producer.init_transactions, _OPEN_S)
        except KafkaException as raised:
            raise _not_opened(self._about, raised.args[0]) from raised
        self._admission.check()
        self._producer, self._opened_with = producer, (config, deliveries)
        return producer

    @property
    def has_begun(self) -> bool:
        """True if a transaction is open."""
        return self._begun

    def begin(self) -> None:
        """Begin a transaction, unless one is open. Errors: TransactionLost."""
        self.is_touched = True
        if self._begun:
            return
        with self._or_lost():
            self._opened.begin_transaction()
        self._begun = True

    def commit(self, offsets: pa.RecordBatch) -> None:
        """Commit what was sent since `begin`, and these rows of `Producer`'s shape.

        Errors: TransactionLost; LoginRefused; StoppedError.
        """
        producer = self._opened
        self.begin()
        with self._or_lost():
            self._send(producer, offsets)
            self._until_done(producer, producer.commit_transaction)
        self._begun = False

    def abort(self, most_s: float = math.inf) -> None:
        """Abort what was sent since `begin`, within `most_s`. Errors: TransactionLost; LoginRefused; StoppedError."""
        if not self._begun:
            return
        producer = self._opened
        with self._or_lost():
            self._until_done(producer, producer.abort_transaction, most_s)
        producer.waiting()
        producer.refusals.clear()  # not to be taken for refusals of the next batch
        self._begun = self.is_touched = False

    def listen(self) -> None:
        """Take in the producer's reports."""
        if self._producer is not None:
            self._producer.poll(0)

    def close(self) -> None:
        """Stop sending; `transaction.timeout.ms` or the task's next start ends an open transaction."""
        if self._producer is not None:
            self._producer.purge()
            self._producer, self._begun = None, False

    @property
    def _opened(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _send(self, producer: Producer, rows: pa.RecordBatch) -> None:
        while rows.num_rows:
            rows = rows.slice(producer.produce(rows))
            self._flush(producer)
        self._flush(producer)
        if producer.refusals:
            first = producer.refusals[0]
            producer.refusals.clear()
            raise KafkaException(first)

    def _flush(self, producer: Producer) -> None:
        patience = self._patience(producer)
        while producer.flush(_PIECE_S):
            patience.wait_on()

    def _until_done(self, producer: Producer, step: Callable[[float], None], most_s: float = math.inf) -> None:
        """Repeat a call while its errors are retriable. Errors: KafkaException; LoginRefused; StoppedError."""
        patience, until = self._patience(producer), time.monotonic() + most_s
        while True:
            try:
                return step(_PIECE_S)
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.fatal() or error.txn_requires_abort() or not error.retriable() or time.monotonic() > until:
                    raise
            producer.poll(0)
            patience.wait_on()

    def _patience(self, producer: Producer) -> DeliveryWait:
        return DeliveryWait(producer, self._stop, "a transaction is not finished")

    @contextlib.contextmanager
    def _or_lost(self) -> Iterator[None]:
        """Raise Kafka's refusals within as TransactionLost; its retriable cause lets the task restart automatically."""
        try:
            yield
        except KafkaException as raised:
            raise self._lost(raised.args[0]) from RetriableError(str(raised))

    def _lost(self, error: KafkaError) -> TransactionLost:
        why = f"The transaction of {self._about} could not be finished: {error.str()}."
        if error.code() in _LATE:
            why += (
                " It lasted longer than Kafka allows, or a newer start of the task has taken its place. Against the "
                "former, set producer.override.transaction.timeout.ms higher, or let transactions be smaller: "
                "transaction.boundary=poll, or a smaller transaction.boundary.interval.ms."
            )
        return TransactionLost(f"{why} What it sent since the last one is not visible, and comes again")


def _not_opened(about: str, error: KafkaError) -> Exception:
    if error.retriable():
        return RetriableError(f"the transactions of {about} cannot begin yet: {error.str()}")
    if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return ConnectError(
            f"Kafka does not allow {about} its transactions: {error.str()}. Grant Describe and Write on its "
            "TransactionalId, which is <group.id>-<connector>-<task>"
        )
    return ConnectError(f"The transactions of {about} cannot begin: {error.str()}")
