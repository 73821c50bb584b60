"""Measures topics on their way into Parquet files: one task's speed, its memory, and how late the clock's files are.

Throughput counts from the creation of a connector, in a worker that has done the same before, until all its files have
their final names. Plain Spark reads the same offsets, decodes them and writes one set of Parquet files in a session
that has done that before, too.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
from confluent_kafka import Producer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import HadoopSettings, StoreSettings
from headrace.connectors.hdfs.stores.store import Store
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_jars import driver_jars
from tests.bench import avro, structs
from tests.bench.context import Bench, Figures, Run
from tests.bench.latency import percentile, sender, sleep_until
from tests.bench.processes import Cost, Failed, Worker
from tests.bench.sides import JSON, Side
from tests.bench.throughput import BOUND_S, COMMIT_INTERVAL, figures_of
from tests.bench.topics import QUIET
from tests.integration.hdfs_server import QUICK, USER, HdfsServer
from tests.integration.spark_cluster import SparkCluster, python_elsewhere

PARTITIONS = 4
FILES = 4  # of each partition
JSON_FILES = 24  # of all partitions: enough that each job has several
TIMES = 3
ROTATED_PARTITIONS = 10
ROTATE_MS = 2_000
GRACE_MS = 50  # between the moment that a record is sent and the one that the sink has it
SAMPLE_S = 1.0
SOON = {**QUICK, "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10"}
"""HDFS as docs/hdfs-stores.md has it where files must be visible sooner."""
SENT = b'{"schema":{"type":"struct","fields":[{"type":"int64","field":"sent"}]},"payload":{"sent":%d}}'


@dataclass(frozen=True)
class Place:
    """A place for files, of the sink and of Spark itself."""

    settings: Mapping[str, str]
    store: Store
    spark_url: str
    look_s: float = 0.05
    """The time between two looks for files: a name node has work with each."""

    def files(self, folder: str) -> Iterator[tuple[str, int]]:
        """The path of each file below, and how many records its name stands for."""
        for file in self.store.walk(folder):
            _, first, last = file.path.removesuffix(".parquet").rsplit("+", 2)
            yield file.path, int(last) - int(first) + 1

    def records(self, folder: str) -> int:
        """The number of records that the names of all files below stand for."""
        return sum(records for _, records in self.files(folder))

    def check(self, folder: str, count: int) -> None:
        """Errors: Failed unless the files hold each `id` below `count` once."""
        found = []
        for path, _ in self.files(folder):
            with self.store.open(path) as file:
                found.append(pq.read_table(file, columns=["id"])["id"].to_numpy())
        if not np.array_equal(np.sort(np.concatenate(found)), np.arange(count)):
            raise Failed(f"wrong output: the files do not hold each of {count} records once")


def avro_topic(bench: Bench, side: Side, on_hdfs: bool) -> Figures:
    """Avro, four partitions, one task; `plain_s` is the rate of plain Spark, `ratio` ours to it."""
    topic, count = avro_orders(bench)
    with bench.run("files") as run, _place(bench, run, on_hdfs) as place, avro.registry(avro.TEXT) as url:
        figures = _backlog(run, side, place, topic, count, _of_avro(url, count))
        plain, _ = by_spark(bench, place.spark_url, topic, count, avro_value)
    return {**figures, "plain_s": plain, "ratio": figures["rec_s"] / plain}


def on_cluster(bench: Bench, side: Side, executors: int) -> Figures:
    """The same to HDFS, by so many executors of one core each, of a stand-alone cluster on this machine.

    `cpu_pct` is the worker's own share, without them.
    """
    topic, count = avro_orders(bench)
    with bench.run("cluster") as run, _place(bench, run, on_hdfs=True) as place, avro.registry(avro.TEXT) as url:
        python = python_elsewhere(run.directory / "python")
        with SparkCluster(run.directory / "spark", python, workers=executors, cores=1) as cluster:
            of_worker = {**COMMIT_INTERVAL, **cluster.settings(executors)}
            return _backlog(run, side, place, topic, count, _of_avro(url, count), of_worker=of_worker)


def avro_orders(bench: Bench) -> tuple[str, int]:
    """The topic of Avro values, and how many there are."""
    count = bench.size.lines // 3 // (PARTITIONS * FILES) * PARTITIONS * FILES
    return bench.shared_topic("avro-files", lambda: avro.values(count), PARTITIONS), count


def _of_avro(registry: str, count: int) -> dict[str, str]:
    return {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry,
        "flush.size": str(count // PARTITIONS // FILES),
    }


def json_topic(bench: Bench, side: Side, partitions: int) -> Figures:
    """JSON structs, one task, local disk; `ratio` is to the rate of one partition into one appended file, just before.

    Both use all cores for their partition. `of_plain` is to the rate of plain Spark.
    """
    rows, count = structs.as_they_are(bench, side), bench.size.lines
    name = "structs-0" if partitions == 1 else f"structs-by-{partitions}"
    topic = bench.shared_topic(name, lambda: structs.records(count), partitions)
    with bench.run("files-json") as run, _place(bench, run, on_hdfs=False) as place:
        figures = _backlog(run, side, place, topic, count, {"flush.size": str(count // JSON_FILES)})
        plain, _ = by_spark(bench, place.spark_url, topic, count, _json_value)
    ratios = {"ratio": figures["rec_s"] / rows["rec_s"], "of_plain": figures["rec_s"] / plain}
    return {**figures, "rows_s": rows["rec_s"], "plain_s": plain, **ratios}


def memory(bench: Bench, side: Side) -> Figures:
    """PSS of the worker and all that it started, while the structs' topic is written: medians of two quarters."""
    count, samples = bench.size.lines, list[tuple[float, float]]()
    topic = bench.shared_topic("structs-0", lambda: structs.records(count))

    def sample(worker: Worker, done: int) -> None:
        if not samples or time.monotonic() - samples[-1][0] >= SAMPLE_S:
            samples.append((time.monotonic(), worker.memory()["pss_mb"]))

    with bench.run("files-memory") as run, _place(bench, run, on_hdfs=False) as place:
        figures = _backlog(run, side, place, topic, count, {"flush.size": str(count // 100)}, sample)
    found = [size for _, size in samples]
    quarter = max(1, len(found) // 4)
    second, last = statistics.median(found[quarter : 2 * quarter] or found), statistics.median(found[-quarter:])
    return {**figures, "second_mb": second, "last_mb": last, "growth": last / second, "samples": float(len(found))}


def rotation(bench: Bench, side: Side, on_hdfs: bool) -> Figures:
    """Rotation due → file visible: ten partitions with a record a second each, which all end by one clock."""
    with bench.run("rotation") as run, _place(bench, run, on_hdfs) as place:
        topic = run.topic(partitions=ROTATED_PARTITIONS)
        rules = {"flush.size": "1000000", "rotate.schedule.interval.ms": str(ROTATE_MS), "timezone": "UTC"}
        connector = _connector(run, place, topic, 0, rules)
        begin = time.time() + 1
        end = begin + 60 + bench.size.warm_up + bench.size.window
        with (
            run.worker(side, [connector]) as worker,
            sender(_produce, bench.topics.bootstrap, topic, begin, end),
        ):
            worker.until(lambda: place.records(f"topics/{topic}") > 0, "the first file", 55, 0.1)
            measured = time.time() + bench.size.warm_up
            seen, spent = _watch(worker, place, f"topics/{topic}", measured, measured + bench.size.window)
            figures = {**spent.shares(), **worker.memory()}
        took = sorted(at - _due(place, path) for path, at in seen.items())
        shown = {"p50_ms": percentile(took, 50), "p99_ms": percentile(took, 99), "max_ms": took[-1]}
        return {**shown, "files": len(took), **figures}


# -- ours --------------------------------------------------------------------------------------------------------------


def _connector(run: Run, place: Place, topic: str, number: int, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        "name": f"{run.name}-sink-{number}",
        "connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "format.class": "parquet",
        "value.converter": JSON,
        **place.settings,
        **settings,
    }


def _backlog(
    run: Run,
    side: Side,
    place: Place,
    topic: str,
    count: int,
    settings: Mapping[str, str],
    each: Callable[[Worker, int], None] = lambda worker, done: None,
    of_worker: Mapping[str, str] = COMMIT_INTERVAL,
) -> Figures:
    """The topic → files of folders of their own, twice; figures of the second time."""
    connectors = [_connector(run, place, topic, n, {**settings, "topics.dir": str(n)}) for n in range(2)]
    with run.worker(side, [connectors[0]], of_worker) as worker:

        def all_there(number: int) -> bool:
            done = place.records(f"{number}/{topic}")
            each(worker, done)
            return done >= count

        worker.until(lambda: all_there(0), "all records in the first files", BOUND_S, 0.1)
        begin = worker.cost()
        worker.create(connectors[1])
        worker.until(lambda: all_there(1), "all records in the files", BOUND_S, place.look_s)
        figures = figures_of(count, worker.cost() - begin, worker)
    place.check(f"1/{topic}", count)
    return figures


# -- plain Spark -------------------------------------------------------------------------------------------------------


def by_spark(bench: Bench, url: str, topic: str, count: int, value: Callable[[], Column]) -> tuple[float, float]:
    """Records per second and per CPU-second of Spark alone, which writes these structs as Parquet; the medians."""
    ((seconds, cpu),) = spark_costs(bench, url, [(topic, count)], value)
    return count / seconds, count / cpu


def spark_costs(
    bench: Bench, url: str, loads: Sequence[tuple[str, int]], value: Callable[[], Column], codec: str = "snappy"
) -> list[tuple[float, float]]:
    """Seconds and CPU-seconds of Spark alone for each of these topics, in one session, in turn; the medians.

    The session has written the last one before. `codec`: of the files; Spark's default.
    """
    spark = Spark({"spark.master": "local[2]", "spark.hadoop.dfs.replication": "1"}, driver_jars())
    spark.start()
    try:
        if not spark.wait_ready(120):
            raise Failed("Spark did not start")

        def job(number: int, topic: str, count: int) -> Cost:
            return _spark_job(spark.session(), bench, f"{url}/{topic}-{number}", topic, count, value, codec)

        job(0, *loads[-1])
        costs = [[job(number, *load) for load in loads] for number in range(1, TIMES + 1)]
    finally:
        spark.stop()
    return [
        (statistics.median(one.at for one in times), statistics.median(one.side for one in times))
        for times in zip(*costs, strict=True)
    ]


def _spark_job(
    session: SparkSession, bench: Bench, folder: str, topic: str, count: int, value: Callable[[], Column], codec: str
) -> Cost:
    options = {"kafka.bootstrap.servers": bench.topics.bootstrap, "subscribe": topic, "kafka.max.poll.records": "20000"}
    began = avro.cost(bench)
    rows = session.read.format("kafka").options(**options).option("startingOffsets", "earliest").load()
    rows.select(value().alias("v")).select("v.*").write.parquet(folder, compression=codec)
    spent = avro.cost(bench) - began
    if (found := session.read.parquet(folder).count()) != count:
        raise Failed(f"wrong output: Spark wrote {found} records instead of {count}")
    return spent


def avro_value() -> Column:
    return from_avro(F.expr("substring(value, 6)"), json.dumps(_within_spark(avro.SCHEMA)))


def _json_value() -> Column:
    envelope = F.from_json(F.col("value").cast("string"), "payload struct<id: int, customer: string, created: bigint>")
    return envelope["payload"]


def _within_spark(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with decimals of the 38 digits that Spark has."""
    text = json.dumps(schema).replace('"precision": 64', '"precision": 38')
    found: dict[str, Any] = json.loads(text)
    return found


# -- the clock ---------------------------------------------------------------------------------------------------------


def _produce(bootstrap: str, topic: str, begin: float, end: float) -> None:
    """The sender's process: a record a second for each partition, evenly spread."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", **QUIET})
    shift = time.time() - time.monotonic()
    for number in range(round((end - begin) * ROTATED_PARTITIONS)):
        sleep_until(begin - shift + number / ROTATED_PARTITIONS)
        producer.produce(topic, SENT % (time.time_ns() // 1_000_000), partition=number % ROTATED_PARTITIONS)
        producer.poll(0)
    producer.flush(10)


def _watch(worker: Worker, place: Place, folder: str, begin: float, end: float) -> tuple[dict[str, float], Cost]:
    """Watch for new files. Return when each was seen, of those first seen between `begin` and `end`, and the cost.

    Units: ms since 1970.
    """
    known, seen, first = set[str](), dict[str, float](), None
    while (now := time.time()) < end:
        for path, _ in place.files(folder):
            if path not in known:
                known.add(path)
                if now >= begin:
                    seen[path] = time.time() * 1000
        if first is None and now >= begin:
            first = worker.cost()
        worker.check()
        time.sleep(0.005)
    if first is None or not seen:
        raise Failed("no file came within the window")
    return seen, worker.cost() - first


def _due(place: Place, path: str) -> float:
    """The time this file was to end: as the clock passed the first boundary after its first record."""
    with place.store.open(path) as file:
        first: int = pq.read_table(file)["sent"][0].as_py()
    return ((first + GRACE_MS) // ROTATE_MS + 1) * ROTATE_MS


# -- places ------------------------------------------------------------------------------------------------------------


@contextmanager
def _place(bench: Bench, run: Run, on_hdfs: bool) -> Iterator[Place]:
    if not on_hdfs:
        folder = run.directory / "files"
        url = f"file://{folder}"
        yield Place({"store.url": url}, store_of(StoreSettings(url, allowed_paths=("/",))), f"file://{folder}/spark")
        return
    folder = run.directory / "hdfs"
    folder.mkdir()
    before, server, others = set(psutil.Process().children()), HdfsServer(folder, SOON), list(bench.broker_pids)
    try:
        server.start()
        bench.broker_pids += [process.pid for process in set(psutil.Process().children()) - before]
        url = f"{server.web_url}/bench"
        store = store_of(StoreSettings(url, HadoopSettings(user=USER)))
        yield Place({"store.url": url, "hadoop.user": USER}, store, f"{server.url}/bench/spark", look_s=0.5)
    finally:
        server.stop()
        bench.broker_pids[:] = others
