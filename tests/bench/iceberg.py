"""Costs of Iceberg: appended beside plain Spark and Apache's sink, upserted beside appended; how soon rows are visible.

The catalog is a folder of the local disk. Each throughput counts from the creation of a connector, in a worker that
has done the same before, until a table has all records. Those of appended records are of two loads, the cost of the
larger one less that of a tenth of it: a connector's start is as dear as some hundred thousand records, on each side.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow.parquet as pq
from confluent_kafka import Producer
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import StaticTable

from headrace.worker.cli.plugin_install import install
from headrace.worker.embedded.registry_files import CCOMPAT
from headrace.worker.machine.plugin_archives import Coordinates
from tests.bench import avro, files, structs
from tests.bench.context import Bench, Figures, Run
from tests.bench.debezium import APICURIO, converter
from tests.bench.latency import percentile, sender, sleep_until
from tests.bench.processes import Cost, Failed, Worker
from tests.bench.sides import JSON, Side
from tests.bench.throughput import COMMIT_INTERVAL, rates_of
from tests.bench.topics import QUIET
from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.java_plugins import iceberg as apache_plugins

BOUND_S: Final = 900
KEYS: Final = 100_000
INTERVAL_MS: Final = 5_000
"""The time between two commits of tables, on every side."""
CODEC: Final = "zstd"
"""The codec of Iceberg's tables by default."""
SOON_MS: Final = 1_000
RATE: Final = 10
"""Records a second whose way is watched."""
SAMPLE_S: Final = 1.0
_LOOK_S: Final = 0.05
_UPSERT: Final = "iceberg.tables.upsert-mode-enabled"
_NAMED: Final = {"field": "sent", "type": "int64", "optional": False}
SENT: Final = b'{"schema":{"type":"struct","optional":false,"fields":[%s]},"payload":{"sent":%%d}}' % (
    json.dumps(_NAMED).encode()
)


@dataclass(frozen=True)
class Table:
    """A table in the folder of a Hadoop catalog."""

    warehouse: Path
    name: str

    @property
    def metadata(self) -> Path:
        """Its current metadata. Errors: FileNotFoundError if there is none, also for moments as it is replaced."""
        folder = self.warehouse.joinpath(*self.name.split(".")) / "metadata"
        version = (folder / "version-hint.text").read_text().strip()
        return folder / f"v{version}.metadata.json"

    def added(self) -> int:
        """Return the count of rows that were ever added."""
        return sum(int(one["summary"].get("added-records", 0)) for one in self._load().get("snapshots", ()))

    def _load(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.metadata.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return found

    def static(self) -> StaticTable:
        """The table of this moment by pyiceberg."""
        return StaticTable.from_metadata(str(self.metadata))

    def check(self, count: int) -> None:
        """Errors: Failed unless it has each `id` below `count` once."""
        ids = self.static().scan(selected_fields=("id",)).to_arrow()["id"].to_numpy()
        if not np.array_equal(np.sort(ids), np.arange(count)):
            raise Failed(f"wrong output: the table does not hold each of {count} records once")


def append_avro(bench: Bench, side: Side) -> Figures:
    """Avro, four partitions, two tasks; `plain_…`: plain Spark into Parquet; `ratio`, `cpu_ratio`: ours to it."""
    few, many = _sizes(bench.size.lines // 3)
    loads = [(bench.shared_topic(f"avro-{count}", partial(avro.values, count), files.PARTITIONS), count)
             for count in (few, many)]  # fmt: skip
    with bench.run("iceberg") as run, avro.registry(avro.TEXT) as url:
        figures = _rate(run, side, loads, _of_avro(side, url))
        if side.jars:
            return figures
        url = f"file://{run.directory}/spark"
        small, large = files.spark_costs(bench, url, loads, files.avro_value, codec=CODEC)
    plain, plain_cpu = ((many - few) / (whole - start) for start, whole in zip(small, large, strict=True))
    ratios = {"ratio": figures["rec_s"] / plain, "cpu_ratio": figures["rec_cpu_s"] / plain_cpu}
    return {**figures, "plain_s": plain, "plain_cpu_s": plain_cpu, **ratios}


def append_json(bench: Bench, side: Side) -> Figures:
    """JSON structs with their schema, four partitions, two tasks; Apache's sink comes from its jar."""
    sizes = _sizes(bench.size.lines)
    loads = [(bench.shared_topic(f"structs-{count}", partial(structs.records, count), files.PARTITIONS), count)
             for count in sizes]  # fmt: skip
    with bench.run("iceberg-json") as run:
        return _rate(run, side, loads, {})


def upsert(bench: Bench, side: Side) -> Figures:
    """Changes of 100,000 keys, upserted; `ratio`: records per CPU-second to those of the same topic appended."""
    count = bench.size.lines // 12
    topic = bench.shared_topic("changes", lambda: _changes(count), files.PARTITIONS)
    keyed = {_UPSERT: "true", "iceberg.tables.default-id-columns": "id"}
    with bench.run("iceberg-upsert") as run:
        loads = [_Load(topic, count, settings) for settings in ({}, {}, keyed, keyed)]
        _, appended, _, upserted = (one.whole for one in _backlog(run, side, loads, check=False))
        _check_changes(run, Table(run.directory / "warehouse", "db.t3"), count)
    return {**upserted, "append_cpu_s": appended["rec_cpu_s"], "ratio": upserted["rec_cpu_s"] / appended["rec_cpu_s"]}


def memory(bench: Bench, side: Side) -> Figures:
    """PSS of the worker and all that it started, while a topic is appended: medians of two quarters."""
    (topic, count), samples = _structs(bench), list[tuple[float, float]]()

    def sample(worker: Worker) -> None:
        if not samples or time.monotonic() - samples[-1][0] >= SAMPLE_S:
            samples.append((time.monotonic(), worker.memory()["pss_mb"]))

    with bench.run("iceberg-memory") as run:
        figures = _backlog(run, side, [_Load(topic, count, {})], sample)[0].whole
    found = [size for _, size in samples]
    quarter = max(1, len(found) // 4)
    second, last = statistics.median(found[quarter : 2 * quarter] or found), statistics.median(found[-quarter:])
    return {**figures, "second_mb": second, "last_mb": last, "growth": last / second}


def latency(bench: Bench, side: Side) -> Figures:
    """Record sent → visible in the table, ten records a second, a commit each second; and how large metadata gets."""
    with bench.run("iceberg-latency") as run:
        topic = run.topic()
        connector = _connector(run, topic, 0, {"iceberg.control.commit.interval-ms": str(SOON_MS)})
        table = Table(run.directory / "warehouse", "db.t0")
        begin = time.time() + 1
        end = begin + 60 + bench.size.warm_up + bench.size.window
        with (
            run.worker(side, [connector], _settings(run, side)) as worker,
            sender(_produce, bench.topics.bootstrap, topic, begin, end),
        ):
            worker.until(lambda: table.added() > 0, "the first rows", 59, 0.1)
            measured = time.time() + bench.size.warm_up
            seen, spent = _watch(worker, table, measured, measured + bench.size.window)
            figures = {**spent.shares(), **worker.memory()}
        took = sorted(at - sent for snapshot, at in seen.items() for sent in _sent(table, snapshot))
        shown = {"p50_ms": percentile(took, 50), "p99_ms": percentile(took, 99), "max_ms": took[-1]}
        kept = {"metadata_kb": table.metadata.stat().st_size / 1e3, "commits": float(len(seen))}
        return {**shown, **kept, **figures}


# -- throughput --------------------------------------------------------------------------------------------------------


def _sizes(count: int) -> tuple[int, int]:
    """A tenth of the count, and the count: what a table's first records cost beside the rest is in both."""
    return count // 10, count


def _rate(run: Run, side: Side, loads: Sequence[tuple[str, int]], settings: Mapping[str, str]) -> Figures:
    """Figures of the records that the second load has more than the first; `start_cpu_s`: what no record costs.

    The worker has moved the larger load before.
    """
    few, many = loads
    _, small, large = _backlog(run, side, [_Load(topic, count, settings) for topic, count in (many, few, many)])
    more = large.load.count - small.load.count
    if (spent := large.spent - small.spent).side <= 0:
        raise Failed(f"{more} records more cost no processor time more: take more --lines")
    figures = large.figures(more, spent)
    return {**figures, "start_cpu_s": small.spent.side - small.load.count / figures["rec_cpu_s"]}


@dataclass(frozen=True)
class _Load:
    """A topic that goes to a table of its own."""

    topic: str
    count: int
    settings: Mapping[str, str]


@dataclass(frozen=True)
class _Moved:
    """The cost of moving a load."""

    load: _Load
    spent: Cost
    memory: Figures

    def figures(self, count: float, spent: Cost) -> Figures:
        """Of so many records that this was spent on."""
        return {**rates_of(count, spent), **self.memory}

    @property
    def whole(self) -> Figures:
        """Of all records, with the connector's start."""
        return self.figures(self.load.count, self.spent)


def _backlog(
    run: Run,
    side: Side,
    loads: Sequence[_Load],
    each: Callable[[Worker], None] = lambda worker: None,
    check: bool = True,
) -> list[_Moved]:
    """The loads → tables `db.t0`, `db.t1` … one after the other; the first has the worker's start in it."""
    connectors = [_connector(run, load.topic, number, load.settings) for number, load in enumerate(loads)]
    tables = [Table(run.directory / "warehouse", f"db.t{number}") for number in range(len(loads))]
    found = []
    with run.worker(side, connectors[:1], _settings(run, side)) as worker:

        def is_complete(connector: Mapping[str, str], load: _Load, table: Table) -> bool:
            each(worker)
            if _UPSERT in connector:  # a commit has one row of a key
                group = f"connect-{connector['name']}"
                return run.bench.topics.committed(group, load.topic, files.PARTITIONS) >= load.count
            return table.added() >= load.count

        for number, one in enumerate(zip(connectors, loads, tables, strict=True)):
            begin = worker.cost()
            if number:
                worker.create(connectors[number])
            worker.until(lambda: is_complete(*one), f"all of db.t{number}", BOUND_S, _LOOK_S)  # noqa: B023
            found.append(_Moved(one[1], worker.cost() - begin, worker.memory()))
    if check:
        for table, load in zip(tables, loads, strict=True):
            table.check(load.count)
    return found


def _connector(run: Run, topic: str, number: int, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        "name": f"{run.name}-sink-{number}",
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "2",
        "topics": topic,
        "value.converter": JSON,
        "iceberg.tables": f"db.t{number}",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": f"file://{run.directory}/warehouse",
        "iceberg.control.topic": f"{run.name}-control-{number}",
        "iceberg.control.commit.interval-ms": str(INTERVAL_MS),
        "iceberg.kafka.auto.offset.reset": "earliest",
        **settings,
    }


def _settings(run: Run, side: Side) -> dict[str, str]:
    """The worker's: Apache Connect has the sink, and Apicurio's converters, on its plugin.path."""
    if not side.jars:
        return {**COMMIT_INTERVAL}
    plugins = apache_plugins(run.directory / "plugins")
    install(Coordinates.parse(APICURIO), plugins)
    return {**COMMIT_INTERVAL, "plugin.path": str(plugins), "plugin.discovery": "hybrid_warn"}


def _of_avro(side: Side, url: str) -> dict[str, str]:
    """The converter of values: Apache Connect has none of its own."""
    of_side = converter(side, f"{url}{CCOMPAT}") if side.jars else converter(side, url)
    return {f"value.converter{name}": value for name, value in of_side.items()}


def _structs(bench: Bench) -> tuple[str, int]:
    count = bench.size.lines
    return bench.shared_topic("structs-by-4", lambda: structs.records(count), files.PARTITIONS), count


# -- changes -----------------------------------------------------------------------------------------------------------


def _change(number: int) -> dict[str, Any]:
    """The change of this number; all of a key are in one partition."""
    return {"id": number * 7_919 % KEYS, "customer": f"customer-{number:08d}", "created": number}


def _changes(count: int) -> Iterator[bytes]:
    """By partition in turn: as `KEYS` is a multiple of their number, a key stays in its own."""
    return (structs.BEFORE + json.dumps(_change(number)).encode() + b"}" for number in range(count))


def _check_changes(run: Run, table: Table, count: int) -> None:
    """Errors: Failed unless the table has the last change of each key, by Iceberg's own reader."""
    server = IcebergRestServer(run.directory / "reader")
    server.start()
    try:
        catalog = {"type": "hadoop", "warehouse": f"file://{table.warehouse}"}
        rows = server.tool("rows", catalog, table.name)
    finally:
        server.kill()
    wanted = {row["id"]: row for row in map(_change, range(count))}
    found = Counter(row["id"] for row in rows)
    if set(found.values()) != {1} or {row["id"]: row for row in rows} != wanted:
        raise Failed(f"wrong output: the table does not hold the last change of each of {len(wanted)} keys")


# -- the clock ---------------------------------------------------------------------------------------------------------


def _produce(bootstrap: str, topic: str, begin: float, end: float) -> None:
    """The sender's process."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", **QUIET})
    shift = time.time() - time.monotonic()
    for number in range(round((end - begin) * RATE)):
        sleep_until(begin - shift + number / RATE)
        producer.produce(topic, SENT % (time.time_ns() // 1_000_000))
        producer.poll(0)
    producer.flush(10)


def _watch(worker: Worker, table: Table, begin: float, end: float) -> tuple[dict[int, float], Cost]:
    """The snapshots first seen between `begin` and `end`, with their times; units: ms since 1970."""
    known, seen, first = set[int](), dict[int, float](), None
    while (now := time.time()) < end:
        for snapshot in (one["snapshot-id"] for one in table._load().get("snapshots", ())):
            if snapshot not in known:
                known.add(snapshot)
                if now >= begin:
                    seen[snapshot] = time.time() * 1000
        if first is None and now >= begin:
            first = worker.cost()
        worker.check()
        time.sleep(0.005)
    if first is None or not seen:
        raise Failed("nothing was committed within the window")
    return seen, worker.cost() - first


def _sent(table: Table, snapshot: int) -> Iterator[int]:
    """The times at which the records of this snapshot were sent."""
    static = table.static()
    found = static.snapshot_by_id(snapshot)
    if found is None:
        raise Failed(f"snapshot {snapshot} is gone")
    for manifest in found.manifests(static.io):
        if manifest.added_snapshot_id == snapshot:
            for entry in manifest.fetch_manifest_entry(static.io):
                if entry.status is ManifestEntryStatus.ADDED:
                    yield from pq.read_table(urlsplit(entry.data_file.file_path).path)["sent"].to_pylist()
