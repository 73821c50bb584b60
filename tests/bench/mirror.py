"""Costs of copying topics from one broker to another: the same MirrorSourceConnector on every side.

The source cluster is a second broker that this measure starts, filled once; the target is the benchmark's own, and
each run writes to a topic of its own, by its alias. Records have a key of ten bytes and a value of text that does not
compress. The window of a throughput begins when half of the records has arrived, and ends when all have.
"""

import base64
import random
import time
from collections.abc import Iterator, Sequence
from itertools import cycle

from confluent_kafka import Consumer, Message, TopicPartition

from tests.bench.context import Bench, Figures, Run
from tests.bench.latency import HELLO, Schedule, latencies, produce, sender, sent_and_seen, watch_topic
from tests.bench.lines import envelope
from tests.bench.processes import Failed, Worker
from tests.bench.sides import MIRROR, Side
from tests.bench.throughput import figures_of
from tests.bench.topics import QUIET, Topics

PARTITIONS = 4
TASKS = 2
KEY_BYTES = 10
RATE = 100  # records a second whose latency is measured
START_BOUND_S = 180
BOUND_S = 300
SAMPLES = 200  # records of each partition that are compared whole
TOPICS_PER_CONNECTOR = 5  # so that the full size has 500 topics
TRICKLES = 5
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
AS_BYTES = {f"{what}.converter": BYTES for what in ("key", "value", "header")}


def throughput(bench: Bench, side: Side, record: int) -> Figures:
    """A full topic of four partitions → its copy, two tasks, records of so many bytes."""
    count = bench.size.lines // 2 if record < 1_000 else bench.size.lines * 128 // record
    source, topic = bench.second_broker(), _filled(bench, record, count)
    with bench.run("mirror") as run:
        copy = _copy(run, topic)
        with run.worker(side, [_connector(run, topic)], AS_BYTES) as worker:
            _until_there(worker, bench, copy)
            worker.until(lambda: _total(bench.topics, copy) >= count // 2, "half of the records", BOUND_S)
            first, begin = _total(bench.topics, copy), worker.cost()
            worker.until(lambda: _total(bench.topics, copy) >= count, "all records", BOUND_S)
            figures = figures_of(count - first, worker.cost() - begin, worker)
        check_copy(source, topic, bench.topics, copy)
    in_mb = {f"mb_{per}": figures[f"rec_{per}"] * record / 1e6 for per in ("s", "cpu_s")}
    return {**figures, **in_mb}


def latency(bench: Bench, side: Side) -> Figures:
    """Produced at the source → readable at the target, a steady trickle into one partition."""
    source = bench.second_broker()
    with bench.run("mirror-latency") as run:
        topic = f"{run.name}-topic"
        source.create(topic)
        source.fill(topic, [envelope(HELLO)])
        copy = _copy(run, topic)
        with run.worker(side, [_connector(run, topic)], AS_BYTES) as worker:
            _until_there(worker, bench, copy, partitions=1)
            worker.until(lambda: bench.topics.end(copy) > 0, "the first record", START_BOUND_S, 0.1)
            when = Schedule.of(bench)
            with sender(produce, source.bootstrap, [topic], RATE, when.begin, when.end):
                seen, spent = watch_topic(worker, run, copy, when)
            figures = {**spent.shares(), **worker.memory()}
        source.delete(topic)
        expected = round((when.end - when.begin) * RATE)
        return {**latencies([sent_and_seen(seen, expected)], when), **figures}


def idle(bench: Bench, side: Side) -> Figures:
    """All three connectors of MirrorMaker 2 on many topics; a few of these get a record a second."""
    source, topics = bench.second_broker(), _many_topics(bench)
    with bench.run("mirror-idle") as run:
        copies = [_copy(run, topic) for topic in topics]
        busy = copies[:TRICKLES]
        run.made += ["heartbeats", f"{run.name}.checkpoints.internal"]
        connectors = [_connector(run, f"{topics[0].rpartition('-')[0]}-.*"), *_companions(run)]
        with run.worker(side, connectors, AS_BYTES) as worker:
            _until_there(worker, bench, *copies)
            when = time.monotonic()
            window = bench.size.settle + bench.size.idle_window
            with sender(produce, source.bootstrap, topics[:TRICKLES], 1, when, when + START_BOUND_S + window):
                before = [bench.topics.end(copy) for copy in busy]
                worker.until(
                    lambda: all(bench.topics.end(c) > b + 1 for c, b in zip(busy, before, strict=True)),
                    "new records in each busy copy",
                    START_BOUND_S,
                    0.5,
                )
                time.sleep(bench.size.settle)
                arrived, begin = sum(map(bench.topics.end, busy)), worker.cost()
                time.sleep(bench.size.idle_window)
                worker.check()
                figures = {**(worker.cost() - begin).shares(), **worker.memory()}
                arrived = sum(map(bench.topics.end, busy)) - arrived
            if arrived < TRICKLES * (bench.size.idle_window - 2):
                raise Failed(f"wrong output: {arrived} records were copied in {bench.size.idle_window} s")
            return figures


def check_copy(source: Topics, topic: str, target: Topics, copy: str) -> None:
    """Each partition of the copy ends where the original does, and records spread over it are the same.

    Errors: Failed with the first difference.
    """
    for partition in range(PARTITIONS):
        end, copied = source.end(topic, partition), target.end(copy, partition)
        if end != copied:
            raise Failed(f"wrong output: {copied} records in {copy}-{partition} instead of {end}")
        step = max(1, end // SAMPLES)
        offsets = [*range(0, end, step), end - 1]
        originals, copies = (_records(*of, partition, offsets) for of in ((source, topic), (target, copy)))
        for original, found in zip(map(_content, originals), map(_content, copies), strict=True):
            if original != found:
                raise Failed(f"wrong output: {found} in {copy}-{partition} instead of {original}")


def _content(record: Message) -> tuple[object, ...]:
    return (record.offset(), record.key(), record.value(), record.headers(), record.timestamp())


def _records(topics: Topics, topic: str, partition: int, offsets: Sequence[int]) -> Iterator[Message]:
    """The records at these offsets."""
    settings = {
        "bootstrap.servers": topics.bootstrap,
        "group.id": "look",
        "fetch.message.max.bytes": 20_000,
        "fetch.wait.max.ms": 10,
    }
    consumer = Consumer({**settings, "enable.auto.commit": False, **QUIET})
    try:
        for offset in offsets:
            consumer.assign([TopicPartition(topic, partition, offset)])
            record = consumer.poll(10)
            if record is None or record.error() is not None:
                raise Failed(f"wrong output: no record at offset {offset} of {topic}-{partition}")
            yield record
    finally:
        consumer.close()


def _connector(run: Run, topics: str) -> dict[str, str]:
    """The settings that every side has."""
    return {
        **_mirror(run, "MirrorSourceConnector"),
        "topics": topics,
        "tasks.max": str(TASKS),
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
    }


def _companions(run: Run) -> list[dict[str, str]]:
    """The connectors that dedicated MirrorMaker runs beside the one that copies."""
    return [
        {**_mirror(run, "MirrorCheckpointConnector"), "checkpoints.topic.replication.factor": "1"},
        {**_mirror(run, "MirrorHeartbeatConnector"), "heartbeats.topic.replication.factor": "1"},
    ]


def _mirror(run: Run, connector: str) -> dict[str, str]:
    return {
        "name": f"{run.name}-{connector}",
        "connector.class": MIRROR + connector,
        "source.cluster.alias": run.name,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": run.bench.second_broker().bootstrap,
        "target.cluster.bootstrap.servers": run.bench.topics.bootstrap,
    }


def _copy(run: Run, topic: str) -> str:
    """The name of the topic's copy in this run, which drops it at its end."""
    copy = f"{run.name}.{topic}"
    run.made.append(copy)
    return copy


def _until_there(worker: Worker, bench: Bench, *copies: str, partitions: int = PARTITIONS) -> None:
    def there() -> bool:
        return bench.topics.exist(*copies, partitions=partitions)

    worker.until(there, f"the topic {copies[0]}", START_BOUND_S, 0.2)


def _total(topics: Topics, topic: str) -> int:
    return sum(topics.end(topic, partition) for partition in range(PARTITIONS))


def _filled(bench: Bench, record: int, count: int) -> str:
    """The source's topic with so many records of this size, filled once."""
    source, topic = bench.second_broker(), f"full-{record}-{count}"
    if not source.exist(topic, partitions=PARTITIONS):
        source.create(topic, partitions=PARTITIONS)
        keys = (b"%0*d" % (KEY_BYTES, number) for number in range(count))
        source.fill(topic, texts(record - KEY_BYTES, count), cycle(range(PARTITIONS)), keys)
    return topic


def texts(size: int, count: int) -> Iterator[bytes]:
    """So many values of this size, cut from text that is the same in every run and does not compress."""
    pool = base64.b64encode(random.Random(170).randbytes(3 << 20))
    start, room = 0, len(pool) - size
    for _ in range(count):
        yield pool[start : start + size]
        start = (start + 7919) % room


def _many_topics(bench: Bench) -> list[str]:
    """The source's topics, made once, most of them empty."""
    source = bench.second_broker()
    names = [f"idle-{number}" for number in range(bench.size.connectors * TOPICS_PER_CONNECTOR)]
    if not source.exist(names[0], partitions=PARTITIONS):
        source.create(*names, partitions=PARTITIONS)
    return names
