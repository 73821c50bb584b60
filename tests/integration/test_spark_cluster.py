"""A worker whose jobs run on a Spark cluster: two executors with a Python that has neither Headrace nor all packages.

One table goes through all of it: PostgreSQL → Avro topic → another table, and files on HDFS.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import hdfs
import httpx
import psutil
import pyarrow.parquet as pq
import pytest
from pyarrow import BufferReader

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.databases import PASSWORD, Database, PostgresqlServer
from tests.integration.hdfs_server import HdfsServer
from tests.integration.spark_cluster import SECRET, SparkCluster, python_elsewhere
from tests.integration.worker_process import Topic, WorkerProcess, eventually, line_count

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.database, pytest.mark.long]

ROWS = 150_000
OF_KAFKA = "of-a-key-that-no-listener-here-asks-for"
READY = "run Headrace's jobs"
TABLE = "id bigint PRIMARY KEY, name text, price numeric(12,2), made timestamp NOT NULL"
SCHEMA = b'{"schema":{"type":"struct","optional":false,"fields":[{"type":"int64","optional":false,"field":"id"}]},'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("spark")
    with SparkCluster(folder, python_elsewhere(folder / "python", lacking=("crc32c", "fastavro"))) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def worker(
    cluster: SparkCluster, broker_process: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    folder = tmp_path_factory.mktemp("worker")
    if not broker_process.is_running:
        broker_process.start()
    settings = {**cluster.settings(), "file.allowed.paths": "/", "task.shutdown.graceful.timeout.ms": "30000"}
    with WorkerProcess(folder, broker_process.bootstrap_servers, settings=settings) as worker:
        worker.wait_ready(120)
        eventually(lambda: READY in worker.log(), 120, lambda: worker.log() + cluster.logs())
        yield worker


@pytest.fixture(scope="module")
def database(postgresql_server: PostgresqlServer) -> Iterator[Database]:
    if not postgresql_server.is_running:
        postgresql_server.start()
    with postgresql_server.database() as database:
        yield database


def create(worker: WorkerProcess, name: str, config: dict[str, str]) -> None:
    worker.request("POST", "/connectors", {"name": name, "config": config})


def into_table(database: Database, topic: Topic, table: str) -> dict[str, str]:
    """A sink that keeps its offsets beside the rows."""
    return {
        "connector.class": "JdbcSink",
        **database.settings,
        "topics": topic.name,
        "table.name.format": table,
        "offsets.table": f"offsets_{table}",
    }


def send_ids(topic: Topic, ids: range, partitions: int = 1) -> None:
    """A record for each id, over the partitions in turn."""
    for partition in range(partitions):
        topic.send([SCHEMA + b'"payload":{"id":%d}}' % one for one in ids[partition::partitions]], partition)


def moved(worker: WorkerProcess, name: str) -> int:
    """The number of rows that jobs of a connector have moved: the driver has no executor of its own."""
    return sum(int(found) for found in re.findall(rf"{name}-0: a job moved (\d+) rows", worker.log()))


def test_executors_are_sent_what_they_lack(cluster: SparkCluster, worker: WorkerProcess) -> None:
    (sent,) = re.findall(r"Sending executors the worker's (.*?) \(", worker.log())
    assert [one.split()[0] for one in sent.split(", ")] == ["crc32c", "fastavro"]
    assert len(cluster.executors()) == 2
    assert "ERROR" not in worker.log()


def test_a_table_goes_through_the_cluster_and_stays_what_it_is(
    cluster: SparkCluster, worker: WorkerProcess, database: Database, registry: str, hdfs_server: HdfsServer
) -> None:
    database.execute(
        f"CREATE TABLE orders ({TABLE})",
        f"CREATE TABLE copied ({TABLE})",
        f"INSERT INTO orders SELECT n, CASE WHEN n % 7 > 0 THEN 'näme ' || n END, n % 1000 / 100.0, "
        f"timestamp '2026-07-01' + n * interval '37 ms' FROM generate_series(1, {ROWS}) n",
        "ANALYZE orders",
    )
    topic = Topic(worker_bootstrap(worker), "orders", partitions=2)
    avro = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry,
    }
    source = {
        "connector.class": "JdbcSource",
        **database.settings,
        **avro,
        "numeric.mapping": "none",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "orders",
        "transforms": "to",
        "transforms.to.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.to.regex": ".*",
        "transforms.to.replacement": topic.name,
    }
    create(worker, "from-table", source)
    eventually(lambda: topic.end(0) + topic.end(1) >= ROWS, 60, lambda: worker.log() + cluster.logs())
    sink = {
        "connector.class": "JdbcSink",
        **database.settings,
        **avro,
        "topics": topic.name,
        "table.name.format": "copied",
        "insert.mode": "insert",
        "pk.mode": "none",
    }
    create(worker, "to-table", sink)
    files = {
        "connector.class": "HdfsSink",
        **avro,
        "topics": topic.name,
        "store.url": f"{hdfs_server.web_url}/cluster",
        "format.class": "parquet",
        "flush.size": "20000",
        "rotate.interval.ms": "500",
    }
    create(worker, "to-files", files)
    count = "SELECT count(*) FROM copied"
    eventually(lambda: database.value(count) >= ROWS, 60, lambda: worker.log() + cluster.logs())
    for one, other in (("orders", "copied"), ("copied", "orders")):
        assert database.rows(f"SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other} LIMIT 3") == []
    eventually(lambda: sum(ids_in_files(hdfs_server, topic.name).values()) >= ROWS, 60, worker.log, every_s=1)
    assert ids_in_files(hdfs_server, topic.name) == Counter(range(1, ROWS + 1))
    for name in ("from-table", "to-table", "to-files"):
        assert moved(worker, name) >= ROWS // 3, (
            "executors did it; where a topic is new, after some batches in the worker"
        )
        worker.wait_states(name, "RUNNING")
        worker.request("DELETE", f"/connectors/{name}")


def ids_in_files(server: HdfsServer, topic: str) -> Counter[int]:
    client: Any = hdfs.InsecureClient(f"http://{urlsplit(server.web_url).netloc}", user="root")
    found: Counter[int] = Counter()
    above = f"/cluster/topics/{topic}"
    if client.status(above, strict=False) is not None:
        for folder, _, names in client.walk(above):
            for name in names:
                with client.read(f"{folder}/{name}") as reader:
                    found.update(pq.read_table(BufferReader(reader.read()))["id"].to_pylist())
    return found


def worker_bootstrap(worker: WorkerProcess) -> str:
    (found,) = re.findall(r"^bootstrap.servers=(.*)$", worker.worker_file.read_text(), re.M)
    return str(found)


def test_no_secret_is_in_sparks_web_pages_event_log_or_command_lines(
    cluster: SparkCluster, worker: WorkerProcess, database: Database
) -> None:
    """Look for secrets of the database, of Kafka's clients and of the cluster, which the tests before have used."""
    (application,) = (one["id"] for one in httpx.get(cluster.ui, timeout=60).json())
    pages = ["environment", "jobs", "stages", "sql?details=true&planDescription=true&length=1000", "allexecutors"]
    shown = {page: httpx.get(f"{cluster.ui}/{application}/{page}", timeout=60).text for page in pages}
    shown |= {path.name: path.read_text() for path in cluster.events.rglob("*") if path.is_file()}
    processes = [worker.jvm(), *cluster.executors()]
    shown |= {f"command line {one.pid}": " ".join(one.cmdline()) for one in processes}
    assert "mapInArrow" in shown["jobs"] or "collect" in shown["jobs"], "they show the jobs of the tests before"
    assert any("JDBCRelation" in text for text in shown.values())
    for secret in (PASSWORD, OF_KAFKA, SECRET):
        for form in {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}:
            assert [name for name, text in shown.items() if form in text] == []


def test_files_stay_on_the_workers_host_and_the_log_says_so_once(worker: WorkerProcess, tmp_path: Path) -> None:
    lines = 60_000
    (tmp_path / "in.txt").write_text("".join(f"line {number:0150d}\n" for number in range(lines)))
    name = f"lines-{tmp_path.name}"
    create(worker, "file-in", {"connector.class": "FileStreamSource", "file": f"{tmp_path}/in.txt", "topic": name})
    create(worker, "file-out", {"connector.class": "FileStreamSink", "file": f"{tmp_path}/out.txt", "topics": name})
    eventually(lambda: line_count(tmp_path / "out.txt") >= lines, 60, worker.log)
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "in.txt").read_bytes()
    for connector in ("file-in", "file-out"):
        assert worker.log().count(f"{connector}-0: all batches run in this worker and not on the Spark cluster") == 1
        assert moved(worker, connector) == 0
        worker.request("DELETE", f"/connectors/{connector}")


class Killer(threading.Thread):
    """Kills an executor every few seconds, so often or until it is told to stop."""

    def __init__(self, cluster: SparkCluster, every_s: float, kills: int) -> None:
        super().__init__(daemon=True)
        self._cluster, self._every_s, self._kills, self._chance = cluster, every_s, kills, random.Random(kills)
        self._over = threading.Event()
        self.killed = 0

    def run(self) -> None:
        while self.killed < self._kills and not self._over.wait(self._every_s):
            if executors := self._cluster.executors():
                self._chance.choice(executors).kill()
                self.killed += 1

    def stop(self) -> None:
        self._over.set()
        self.join()


@pytest.mark.parametrize(
    ("batches", "batch", "kills"),
    [
        pytest.param(3, 100_000, 3, id="short"),
        pytest.param(15, 200_000, 1000, id="long"),
    ],
)
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_executors_that_are_killed_cost_a_retry(
    cluster: SparkCluster, worker: WorkerProcess, database: Database, batches: int, batch: int, kills: int
) -> None:
    topic = Topic(worker_bootstrap(worker), "numbers", partitions=2)
    database.execute("DROP TABLE IF EXISTS numbers", "CREATE TABLE numbers (id bigint)")
    name, before = f"numbers-{batches}", len(worker.log())
    config = {
        **into_table(database, topic, "numbers"),
        "max.retries": "1000",
        "offsets.table": f"offsets_{batches}",
    }
    killer = Killer(cluster, 3.0, kills)
    killer.start()
    try:
        for number in range(batches):
            ids = range(number * batch, (number + 1) * batch)
            send_ids(topic, ids, partitions=2)
            if not number:
                create(worker, name, config)
        sent = batches * batch
        eventually(lambda: database.value("SELECT count(*) FROM numbers") >= sent, 1200, worker.log, every_s=0.5)
    finally:
        killer.stop()
    worker.wait_states(name, "RUNNING")
    assert database.rows("SELECT count(*), count(DISTINCT id), max(id) FROM numbers") == [(sent, sent, sent - 1)]
    assert killer.killed >= min(kills, 2)
    assert "FAILED" not in worker.log()[before:]
    assert "will not go on until it is restarted" not in worker.log()[before:]
    worker.request("DELETE", f"/connectors/{name}")


@pytest.mark.soak
def test_a_master_that_comes_back_empty_costs_a_new_session(
    cluster: SparkCluster, worker: WorkerProcess, database: Database
) -> None:
    topic = Topic(worker_bootstrap(worker), "after-master")
    database.execute("CREATE TABLE after_master (id bigint)")
    before = len(worker.log())
    create(worker, "after-master", into_table(database, topic, "after_master"))
    cluster.kill_master()
    for executor in cluster.executors():
        executor.kill()
    cluster.start_master()
    send_ids(topic, range(100_000))
    eventually(lambda: database.value("SELECT count(*) FROM after_master") >= 100_000, 120, worker.log)
    eventually(lambda: READY in worker.log()[before:], 120, worker.log)
    send_ids(topic, range(100_000, 200_000))
    eventually(lambda: database.value("SELECT count(*) FROM after_master") >= 200_000, 120, worker.log)
    assert database.rows("SELECT count(*), count(DISTINCT id) FROM after_master") == [(200_000, 200_000)]
    assert "will not go on until it is restarted" not in worker.log()[before:]
    worker.wait_states("after-master", "RUNNING")


def test_nothing_of_a_job_outlives_the_worker(cluster: SparkCluster, worker: WorkerProcess) -> None:
    """The last one with this worker: it stops it."""
    assert worker.stop() == 0
    eventually(lambda: not cluster.executors(), 60, cluster.logs)
    assert not [one for one in psutil.process_iter() if _is_python_of(one, cluster)]


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_executors_come_and_go_by_dynamic_allocation(
    cluster: SparkCluster, broker_process: Broker, database: Database, tmp_path: Path
) -> None:
    topic, rows = Topic(broker_process.bootstrap_servers, "now-and-then", partitions=2), 100_000
    send_ids(topic, range(rows), partitions=2)
    database.execute("CREATE TABLE now_and_then (id bigint)")
    settings = {
        **cluster.settings(),
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "2s",
        "spark.ui.enabled": "false",
    }
    with WorkerProcess(tmp_path, broker_process.bootstrap_servers, settings=settings) as worker:

        def shown() -> str:
            return worker.log() + cluster.logs()

        worker.wait_ready(120)
        eventually(lambda: READY in worker.log() and not cluster.executors(), 120, shown)
        create(worker, "now-and-then", into_table(database, topic, "now_and_then"))
        eventually(lambda: moved(worker, "now-and-then") >= rows // 3, 120, shown)
        eventually(lambda: database.value("SELECT count(*) FROM now_and_then") >= rows, 60, shown)
        eventually(lambda: not cluster.executors(), 60, shown)
        worker.wait_states("now-and-then", "RUNNING")
    assert database.rows("SELECT count(*), count(DISTINCT id) FROM now_and_then") == [(rows, rows)]


def test_executors_that_cannot_start_are_told_of_with_the_reason(
    cluster: SparkCluster, broker_process: Broker, tmp_path: Path
) -> None:
    """The master removes such an application; Spark's errors say only that it is stopped."""
    settings = {**cluster.settings(), "spark.ui.enabled": "false", "spark.executorEnv.JAVA_HOME": "/nonexistent"}
    why = 'Cannot run program "/nonexistent/bin/java": error=2, No such file or directory'
    with WorkerProcess(tmp_path, broker_process.bootstrap_servers, settings=settings) as worker:
        worker.wait_ready(120)
        eventually(lambda: why in worker.get("/health")["message"], 120, worker.log)
        assert why in worker.log()
        ended = ("Spark could not be started", "Spark's driver was lost")
        eventually(lambda: any(one in worker.log() for one in ended), 120, worker.log)
        assert why in worker.get("/health")["message"]
        assert "An error occurred while calling" not in worker.log()
        assert worker.stop() == 0


def _is_python_of(process: psutil.Process, cluster: SparkCluster) -> bool:
    try:
        return str(cluster.python) in process.cmdline()
    except psutil.Error:
        return False
