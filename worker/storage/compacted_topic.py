"""One internal topic of a cluster: created or checked, read to its end, followed, written to.

    topic = CompactedTopic(TopicSettings.of(worker, "config"), on_record)
    topic.start(timeout_s=60)                 # on_record was called with everything in it
    topic.send(b"connector-c", b"{}")         # -> Future[int], its offset once all replicas have it
    topic.send_all([(key, value), …], timeout_s=30)
    topic.read_to_end(timeout_s=3)            # on_record was called with everything that is in it now
    topic.stop()

`on_record` is called with every `TopicRecord` in the order of its partition, also during `start`, always on the
topic's own thread. An error in it is logged with the record's key, and the next record follows. It must not wait for
this topic (`read_to_end`, `send_all`, `send(…).result()`): that would never end. Callbacks of a future of `send` run
on the thread that receives the brokers' answers and must not wait either.

A value of None is a tombstone. Keys go to the partitions that Java's producer chooses. When a broker goes away, reading
and writing go on once it is back; only callers that wait have a budget.

Errors of waiting: TimedOut when the budget ends (sent records may still arrive), ConnectError if waiting does not help,
StoppedError after `stop`. A future of `send` has RetriableError if sending again may help, else ConnectError.

Decided: the position after transaction markers is taken from librdkafka's end-of-partition events, because nothing
else there counts markers; loses: half a second (an empty fetch) if a marker is a partition's last entry.
Decided: the producer is made with the first `send`, because most workers never write to the config topic; loses:
errors of a producer's settings show only then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics
from headrace.plugins.stopping import StopToken
from headrace.worker.errors import ConnectError, TooLarge
from headrace.worker.kafka.admin import REQUEST_TIMEOUT_S
from headrace.worker.kafka.errors import RETRIABLE
from headrace.worker.kafka.internal_topics import Budget, TopicSettings, asked, prepare
from headrace.worker.kafka.rights import said
from headrace.worker.machine.vital_threads import VitalThread

__all__ = ["CompactedTopic", "TopicRecord", "TopicSettings"]

log = logging.getLogger(__name__)

_READ_BYTES: Final = 4 << 20
_WRITE_BYTES: Final = 16 << 20
"""Limits of librdkafka's buffers for one topic: a host runs many workers with three topics each."""
_LOOK_UP_S: Final = 0.25
_SAY_EVERY_S: Final = 10.0


class TopicRecord(NamedTuple):
    """A record of the topic."""

    key: bytes | None
    value: bytes | None
    """None for a tombstone."""
    partition: int
    offset: int
    timestamp_ms: int = 0


class CompactedTopic:
    """A topic with the last value of each key, followed from its beginning. Any thread may call it."""

    def __init__(self, settings: TopicSettings, on_record: Callable[[TopicRecord], None]) -> None:
        self.settings = settings
        self.partitions: tuple[int, ...] = ()
        """The partitions' numbers; empty before `start`."""
        self._on_record = on_record
        self._stopping = StopToken()
        self._moved = threading.Condition()
        self._reached: dict[int, int] = {}
        self._follower: threading.Thread | None = None
        self._said = -_SAY_EVERY_S
        self._trouble = ""
        self._sending = threading.Lock()
        self._producer: Producer | None = None
        self._heard: threading.Thread | None = None
        self._pending: set[Future[int]] = set()

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.settings.topic

    def start(self, timeout_s: float) -> None:
        """Create or check the topic, pass everything in it to `on_record`, and follow it. Call `stop` after an error.

        Errors: ConfigError if the topic cannot be used; TimedOut; ConnectError; StoppedError.
        """
        budget = self._budget(timeout_s, "getting ready")
        self.partitions = tuple(prepare(self.settings, budget))
        config = self.settings.consumer.librdkafka(_READ_BYTES) | {"enable.partition.eof": True}
        statistics = ClientStatistics("consumer", config)
        consumer = Consumer(config | statistics.settings(), logger=logging.getLogger(f"{__name__}.client"))
        statistics.watch(consumer)
        consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in self.partitions])
        self._reached = dict.fromkeys(self.partitions, 0)
        self._follower = VitalThread(target=self._follow, args=(consumer,), name=f"internal-topic-{self.topic}")
        self._follower.start()
        self._wait_until_read(budget)

    def read_to_end(self, timeout_s: float) -> None:
        """Wait until `on_record` was called with everything that is in the topic now, or was sent from here.

        Errors: TimedOut; ConnectError; StoppedError.
        """
        if threading.current_thread() is self._follower:
            raise RuntimeError(f"topic {self.topic} cannot be waited for on the thread that reads it")
        budget = self._budget(timeout_s, "reading to the end")
        with self._sending:
            sent = set(self._pending)
        while wait_for(sent, min(_LOOK_UP_S, budget.left("records sent before have not arrived"))).not_done:
            continue
        self._wait_until_read(budget)

    def send(self, key: bytes, value: bytes | None) -> Future[int]:
        """Send a record; the future has its offset once all replicas have it. Waits only while the buffer is full.

        Errors of the future: RetriableError; ConnectError.
        """
        future = Future[int]()
        future.set_running_or_notify_cancel()  # a sent record cannot be cancelled
        with self._sending:
            self._pending.add(future)
        try:
            self._produce(key, value, future)
        except KafkaException as raised:
            self._settle(future, raised.args[0], None)
        except RetriableError as error:
            self._forget(future)
            future.set_exception(error)
        return future

    def send_all(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> list[int]:
        """Send records and wait until all replicas have them; within a partition they keep this order.

        Returns their offsets. Errors: TimedOut (some may still arrive); ConnectError; StoppedError.
        """
        budget = self._budget(timeout_s, "writing")
        try:
            return [budget.result(future) for future in [self.send(key, value) for key, value in records]]
        except RetriableError as error:
            raise ConnectError(str(error)) from error

    def withdraw(self) -> None:
        """Drop what was sent and has not arrived, which else would follow once the brokers answer; its futures fail."""
        with self._sending:
            producer = self._producer
        if producer is not None:
            producer.purge()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Wait for sent records, or give them up after `timeout_s`; then stop reading and writing."""
        until = time.monotonic() + timeout_s
        with self._sending:
            sent = set(self._pending)
        wait_for(sent, timeout_s)
        self._stopping.set()
        with self._moved:
            self._moved.notify_all()
        self.withdraw()
        for thread in (self._follower, self._heard):
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(1.0, until - time.monotonic()))

    def _budget(self, timeout_s: float, doing: str) -> Budget:
        return Budget(timeout_s, self._stopping, f"{doing}: topic {self.topic} ({self.settings.setting})")

    def _wait_until_read(self, budget: Budget) -> None:
        ends = self._ends(budget)
        with self._moved:
            while any(self._reached[number] < end for number, end in ends.items()):
                self._moved.wait(min(_LOOK_UP_S, budget.left(self._trouble)))

    def _ends(self, budget: Budget) -> dict[int, int]:
        admin = admin_client(self.settings.admin.librdkafka())
        spec: Any = OffsetSpec
        latest = {TopicPartition(self.topic, number): spec.latest() for number in self.partitions}
        # Uncommitted, so that the end of open transactions is awaited, as in Apache.
        options = {"isolation_level": IsolationLevel.READ_UNCOMMITTED, "request_timeout": REQUEST_TIMEOUT_S}
        try:
            found = asked(lambda: admin.list_offsets(latest, **options), budget)
        except KafkaException as raised:
            why = said(raised.args[0], "Read", [self.topic])
            raise ConnectError(f"Failed to get end offsets of topic {self.topic}: {why}") from raised
        return {place.partition: answer.offset for place, answer in found.items()}

    def _follow(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            try:
                message = consumer.poll(_LOOK_UP_S)
                if message is not None:
                    self._take(message)
            except KafkaException as raised:
                self._say(raised.args[0])
                self._stopping.wait(_LOOK_UP_S)
        consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        partition, offset = message.partition(), message.offset()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                self._say(error)
                return
        elif partition is not None and offset is not None:
            record = TopicRecord(message.key(), message.value(), partition, offset, message.timestamp()[1])
            try:
                self._on_record(record)
            except Exception:
                log.exception("Ignoring the record of key %r in %s-%d at %d", record.key, self.topic, *record[2:])
            offset += 1
        if partition is not None and offset is not None:
            with self._moved:
                self._reached[partition] = offset
                self._trouble = ""
                self._moved.notify_all()

    def _say(self, error: KafkaError) -> None:
        self._trouble = said(error, "Read", [self.topic])
        if time.monotonic() - self._said >= _SAY_EVERY_S:
            self._said = time.monotonic()
            log.warning("Topic %s cannot be read at the moment: %s", self.topic, self._trouble)

    def _produce(self, key: bytes, value: bytes | None, future: Future[int]) -> None:
        producer = self._made_producer()
        until = time.monotonic() + self.settings.producer["max.block.ms"] / 1000

        def arrived(error: KafkaError | None, sent: Message) -> None:
            self._settle(future, error, sent)

        while not self._stopping.is_set():
            try:
                producer.produce(self.topic, value, key, on_delivery=arrived)
                return
            except BufferError:
                if time.monotonic() >= until:
                    raise RetriableError(f"topic {self.topic}: too much waits to be sent") from None
                self._stopping.wait(0.05)
        raise RetriableError(f"topic {self.topic}: nothing is sent any more, the worker is stopping")

    def _made_producer(self) -> Producer:
        with self._sending:
            if self._producer is None:
                config = self.settings.producer.librdkafka(_WRITE_BYTES)
                statistics = ClientStatistics("producer", config)
                client_log = logging.getLogger(f"{__name__}.client")
                self._producer = Producer(config | statistics.settings(), logger=client_log)
                statistics.watch(self._producer)
                self._heard = threading.Thread(
                    target=self._hear, args=(self._producer,), name=f"internal-topic-{self.topic}-sent", daemon=True
                )
                self._heard.start()
            return self._producer

    def _hear(self, producer: Producer) -> None:
        while not self._stopping.is_set():
            producer.poll(_LOOK_UP_S)
        producer.flush(1.0)  # calls back for purged records

    def _settle(self, future: Future[int], error: KafkaError | None, sent: Message | None) -> None:
        self._forget(future)
        if error is None:
            offset = None if sent is None else sent.offset()
            future.set_result(-1 if offset is None else offset)
        elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            future.set_exception(too_large(self.topic))
        elif error.code() in RETRIABLE:
            future.set_exception(RetriableError(f"topic {self.topic}: {error.str()}"))
        else:
            why = said(error, "Write", [self.topic])
            future.set_exception(ConnectError(f"topic {self.topic}: {why}"))

    def _forget(self, future: Future[int]) -> None:
        with self._sending:
            self._pending.discard(future)


def too_large(topic: str) -> TooLarge:
    """Return the error for a record that is too large for the producer or the brokers."""
    return TooLarge(
        f"It is larger than the topic {topic} takes. Make it smaller; or let an operator raise max.message.bytes of "
        "the topic, and max.request.size of the worker."
    )


MakeTopic = Callable[[TopicSettings, Callable[[TopicRecord], None]], CompactedTopic]
"""Makes a store's topic."""
