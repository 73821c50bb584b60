"""Records that a sink sends beside its work, such as reports, to topics of any cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import NewTopic

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.admin_clients import admin_client

_LONGEST_S: Final = 30.0
_MEMORY_BYTES: Final = 8 << 20


class SideTopic(NamedTuple):
    """A topic, as it is made if it is missing."""

    name: str
    partitions: int
    replication_factor: int


class _Record(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes
    headers: list[Any]


class SideTopics:
    """A producer for such topics; any thread may send."""

    def __init__(self, producer: ClientConfig, admin: ClientConfig, topics: Sequence[SideTopic]) -> None:
        self._producer_config, self._admin_config, self._topics = producer, admin, topics
        self._producer: Producer | None = None
        self._failure: KafkaError | None = None
        self._waiting: deque[_Record] = deque()
        """Records that the client does not have, or could not deliver; bounded by its memory."""

    def open(self) -> None:
        """Make the topics that are missing, and the producer. Errors: RetriableError."""
        admin = admin_client(self._admin_config.librdkafka())
        try:
            known = admin.list_topics(timeout=_LONGEST_S).topics
        except KafkaException as error:
            raise RetriableError(f"The brokers of the reports do not answer: {error.args[0].str()}") from error
        lacking = {one.name: one for one in self._topics if one.name not in known}
        wanted = [NewTopic(one.name, one.partitions, one.replication_factor) for one in lacking.values()]
        made = admin.create_topics(wanted, request_timeout=_LONGEST_S) if wanted else {}
        for name, answer in made.items():
            try:
                answer.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    one = lacking[name]
                    size = f"{one.partitions} partitions and {one.replication_factor} replicas"
                    raise RetriableError(
                        f"The topic {name} cannot be made with {size}: {error.args[0].str()}. Make it yourself, or "
                        "have the settings ask for fewer replicas"
                    ) from error
        self._producer = Producer(self._producer_config.librdkafka(_MEMORY_BYTES))

    def send(self, topic: str, key: bytes | None, value: bytes, headers: Mapping[str, str]) -> None:
        """Send a record. Errors: RetriableError; the record is sent with the next one."""
        self._waiting.append(_Record(topic, key, value, [(name, text.encode()) for name, text in headers.items()]))
        self._produce()

    def flush(self) -> None:
        """Wait until all that was sent is in Kafka. Errors: RetriableError; then the next call sends the rest again."""
        assert self._producer is not None
        self._failure = None  # what failed before waits, and is sent again
        self._produce()
        if self._producer.flush(_LONGEST_S):
            raise RetriableError(f"Reports were not acknowledged within {_LONGEST_S:.0f} s")
        self._raise()

    def close(self) -> None:
        """Forget what was not acknowledged."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None
        self._waiting.clear()

    def _produce(self) -> None:
        """Hand all that waits to the client, the oldest first. Errors: RetriableError."""
        assert self._producer is not None
        while True:
            try:
                record = self._waiting.popleft()
            except IndexError:
                return
            try:
                told = partial(self._delivered, record)
                self._producer.produce(record.topic, record.value, record.key, headers=record.headers, on_delivery=told)
            except BufferError:
                self._waiting.appendleft(record)
                self._producer.poll(0.1)
                self._raise()
            except KafkaException as error:
                self._waiting.appendleft(record)
                raise RetriableError(f"A report for {record.topic} cannot be sent: {error}") from error

    def _delivered(self, record: _Record, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._waiting.append(record)
            self._failure = self._failure or error

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise RetriableError(f"A report was not acknowledged: {failure.str()}")
