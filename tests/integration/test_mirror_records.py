"""Copies of MirrorSourceConnector are equal, record by record: contents, headers, timestamps, partitions, order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from headrace.connectors.mirror.verify.command import app
from headrace.worker.embedded.kafka_broker import Broker
from tests.container_broker import ContainerBroker
from tests.integration.copied_topics import Record, create, new_name, numbered, records_of, write
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
LONG_AGO, FAR_AWAY = 1, 4_102_444_800_000
AT_ANY_TIME: Final = {"message.timestamp.after.max.ms": "9223372036854775807"}
FEW_MB: Final = {"max.message.bytes": "12000000"}

# Each writes one topic at the source and says how many partitions it has.


def fifty_partitions(source: str, topic: str) -> int:
    create(source, topic, 50)
    for partition in range(50):
        write(source, topic, map(numbered, range(partition, partition + 40)), partition)
    return 50


def compacted(source: str, topic: str) -> int:
    quick = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    create(source, topic, 1, quick)
    write(source, topic, (numbered(number)._replace(key=b"key-%d" % (number % 10)) for number in range(500)))

    def cleaned() -> bool:
        write(source, topic, [numbered(900)._replace(key=b"last")])  # the segment that is written to is not cleaned
        return len(records_of(source, topic)) < 100

    eventually(cleaned, 60)
    return 1


def aborted(source: str, topic: str) -> int:
    create(source, topic)
    producer = Producer({"bootstrap.servers": source, "transactional.id": topic})
    producer.init_transactions()
    for first in range(0, 100, 10):
        producer.begin_transaction()
        for one in map(numbered, range(first, first + 10)):
            producer.produce(topic, one.value, one.key, 0, timestamp=one.timestamp)
        producer.flush(60)
        producer.commit_transaction() if first % 20 == 0 else producer.abort_transaction()
    return 1


def gap_at_the_start(source: str, topic: str) -> int:
    create(source, topic)
    write(source, topic, map(numbered, range(100)))
    admin = AdminClient({"bootstrap.servers": source})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 50)]).values():
        deleted.result(60)
    assert records_of(source, topic)[0].offset == 50
    return 1


def headers(source: str, topic: str) -> int:
    create(source, topic)
    kinds: list[tuple[tuple[str, bytes | None], ...]] = [
        (),
        (("one", b"1"),),
        (("same", b"1"), ("other", b"2"), ("same", b"3"), ("same", b"1")),
        (("empty", b""), ("null", None), ("", b"no name")),
        (("größe", "ü".encode()), ("名前", b"\x00\xff"), ("🙂", b"")),
        (("long", b"x" * 100_000),),
    ]
    write(source, topic, (numbered(n)._replace(headers=kinds[n % len(kinds)]) for n in range(60)))
    return 1


def nulls_and_empties(source: str, topic: str) -> int:
    create(source, topic)
    parts: list[bytes | None] = [None, b"", b"x"]
    write(source, topic, [Record(0, key, value, (), 1_700_000_000_000) for key in parts for value in parts] * 3)
    return 1


def old_and_future(source: str, topic: str) -> int:
    create(source, topic, 1, AT_ANY_TIME)
    times = [LONG_AGO, FAR_AWAY, 1_700_000_000_000, LONG_AGO + 1, FAR_AWAY + 1]
    write(source, topic, [numbered(number)._replace(timestamp=times[number % 5]) for number in range(50)])
    return 1


def append_time(source: str, topic: str) -> int:
    create(source, topic, 1, {"message.timestamp.type": "LogAppendTime"})
    write(source, topic, map(numbered, range(50)))
    return 1


def every_codec(source: str, topic: str) -> int:
    create(source, topic)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        records = (numbered(one) for one in range(number * 200, number * 200 + 200))
        write(source, topic, records, **{"compression.type": codec})
    return 1


def large(source: str, topic: str) -> int:
    create(source, topic, 1, FEW_MB)
    records = [numbered(number)._replace(value=bytes([number]) * 5_000_000) for number in range(6)]
    write(source, topic, [*records, numbered(7)], **{"message.max.bytes": 12_000_000})
    return 1


def one_record_a_batch(source: str, topic: str) -> int:
    create(source, topic)
    write(source, topic, map(numbered, range(2000)), **{"batch.num.messages": 1, "linger.ms": 0})
    return 1


KINDS: Final[dict[str, Callable[[str, str], int]]] = {
    kind.__name__.replace("_", "-"): kind
    for kind in (
        fifty_partitions,
        compacted,
        aborted,
        gap_at_the_start,
        headers,
        nulls_and_empties,
        old_and_future,
        append_time,
        every_codec,
        large,
        one_record_a_batch,
    )
}


class Mirrored:
    """The topics of all kinds at the source, and a connector that copies them."""

    def __init__(self, source: str, target: str, prefix: str) -> None:
        self.source, self.target, self.prefix = source, target, prefix
        self.partitions = {kind: make(source, self.topic(kind)) for kind, make in KINDS.items()}

    def topic(self, kind: str) -> str:
        return f"{self.prefix}-{kind}"

    def settings(self) -> dict[str, str]:
        """The connector's."""
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": self.source,
            "target.cluster.bootstrap.servers": self.target,
            "topics": f"{self.prefix}-.*",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "tasks.max": "2",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,
            "source.consumer.isolation.level": "read_committed",
            "producer.override.max.request.size": "12000000",
        }

    def verified(self, *arguments: str) -> tuple[int, str]:
        """Exit code and report of `headrace mirror verify`."""
        settings = [f"{name}={self.settings()[name]}" for name in ("topics", "source.consumer.isolation.level")]
        servers = ["--source-bootstrap", self.source, "--target-bootstrap", self.target]
        options = [part for setting in settings for part in ("--set", setting)]
        result = CliRunner().invoke(app, ["verify", "A", "B", *servers, *options, *arguments])
        return result.exit_code, result.output


@pytest.fixture(scope="module")
def mirrored(
    broker_process: Broker | ContainerBroker, second_broker_process: Broker, worker: WorkerProcess
) -> Iterator[Mirrored]:
    """Everything is copied."""
    mirrored = Mirrored(second_broker_process.bootstrap_servers, broker_process.bootstrap_servers, new_name("records"))
    worker.request("POST", "/connectors", {"name": mirrored.prefix, "config": mirrored.settings()})
    worker.wait_states(mirrored.prefix, "RUNNING", "RUNNING", within_s=120)
    try:
        eventually(
            lambda: mirrored.verified()[0] == 0, 120, lambda: mirrored.verified()[1] + worker.log()[-3000:], every_s=1
        )
        yield mirrored
    finally:
        worker.request("DELETE", f"/connectors/{mirrored.prefix}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_equal(mirrored: Mirrored, kind: str) -> None:
    topic = mirrored.topic(kind)
    for partition in range(mirrored.partitions[kind]):
        ours = records_of(mirrored.source, topic, partition)
        theirs = records_of(mirrored.target, f"A.{topic}", partition)
        assert ours, "the test has records"
        assert [one.content for one in theirs] == [one.content for one in ours]


def test_the_append_time_of_the_source_is_the_creation_time_of_the_copy(mirrored: Mirrored) -> None:
    topic = mirrored.topic("append-time")
    assert {one.timestamp_type for one in records_of(mirrored.source, topic)} == {2}
    assert {one.timestamp_type for one in records_of(mirrored.target, f"A.{topic}")} == {1}


def test_verify_finds_all_of_it_equal(mirrored: Mirrored) -> None:
    code, said = mirrored.verified("--hash", "--json")
    assert code == 0, said
    report: Any = json.loads(said)
    assert {one["topic"] for one in report["topics"]} == {mirrored.topic(kind) for kind in KINDS}
    compared = [one["comparison"] for topic in report["topics"] for one in topic["partitions"]]
    assert len(compared) == 60
    assert not any(one["repeated"] for one in compared)
