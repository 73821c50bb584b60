"""Two workers and others at one table: tasks that move in mid-commit, zombies, lost answers, foreign commits."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ServiceUnavailableError

from tests.integration.cluster_worker import ClusterWorker, new_cluster, owners
from tests.integration.iceberg_pipe import KeyedPipe, Pipe
from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

WITHIN_S = 240
COUNT = 2000
SOAK = pytest.mark.soak
KINDS = pytest.mark.parametrize(
    "kind", [pytest.param(Pipe, id="append"), pytest.param(KeyedPipe, id="upsert", marks=SOAK)]
)


@pytest.fixture
def server(iceberg_rest: IcebergRestServer) -> Iterator[IcebergRestServer]:
    """The catalog, which lets go what it holds at the end."""
    yield iceberg_rest
    iceberg_rest.next_commits()


@pytest.fixture(scope="module")
def cluster(broker_process: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterWorker]]:
    """Two workers; the first runs, the second can be started."""
    folder, name = tmp_path_factory.mktemp("cluster"), new_cluster()
    settings = {"task.restart.backoff.ms": "200", "task.shutdown.graceful.timeout.ms": "5000"}
    bootstrap = broker_process.bootstrap_servers  # type: ignore[attr-defined]
    workers = [ClusterWorker(folder / f"w{n}", bootstrap, name, settings) for n in range(2)]
    with contextlib.ExitStack() as stack:
        for worker in workers:
            stack.enter_context(worker)
        for worker in workers:
            worker.wait_ready(180)
        yield workers


@contextlib.contextmanager
def running(worker: WorkerProcess, pipe: Pipe) -> Iterator[str]:
    """The pipe's sink runs."""
    name = pipe.topic.name
    worker.request("PUT", f"/connectors/{name}/config", pipe.config)
    try:
        yield name
    finally:
        worker.request("DELETE", f"/connectors/{name}")


def complete(pipe: Pipe, worker: WorkerProcess) -> None:
    """All that was sent is in the table, once."""
    eventually(pipe.is_complete, WITHIN_S, lambda: f"{pipe.written()} of {pipe.sent}: {worker.log()[-3000:]}", 0.3)


@SOAK
@KINDS
def test_a_worker_that_comes_while_a_commit_hangs(
    cluster: list[ClusterWorker], broker: str, server: IcebergRestServer, kind: type[Pipe]
) -> None:
    one, other = cluster
    pipe = kind(broker, server, server.properties)
    other.stop()
    try:
        with running(one, pipe):
            pipe.send(COUNT)
            complete(pipe, one)
            server.next_commits("hold")
            pipe.send(COUNT)
            eventually(server.held, WITHIN_S, one.log)
            other.start()
            eventually(lambda: len(set(owners(one).values())) == 2, WITHIN_S, one.log)
            server.next_commits()
            pipe.send(COUNT)
            complete(pipe, one)
    finally:
        if other.process.poll() is not None:
            other.start()
        other.wait_ready(180)


@KINDS
def test_a_worker_paused_beyond_its_session_in_mid_commit(
    cluster: list[ClusterWorker], broker: str, server: IcebergRestServer, kind: type[Pipe]
) -> None:
    pipe = kind(broker, server, server.properties, tasks=1)
    with running(cluster[0], pipe) as name:
        pipe.send(COUNT)
        complete(pipe, cluster[0])
        owner = owners(cluster[0])[f"{name}-0"]
        paused, other = sorted(cluster, key=lambda one: one.worker_id != owner)
        server.next_commits("hold")
        pipe.send(COUNT)
        eventually(server.held, WITHIN_S, paused.log)
        with stopped(paused):
            # The other worker's task commits the same records, and more.
            pipe.send(COUNT)
            complete(pipe, other)
            server.next_commits()
        pipe.send(COUNT)
        complete(pipe, other)
        paused.wait_ready(180)
        pipe.send(1)
        complete(pipe, other)


@contextlib.contextmanager
def stopped(worker: WorkerProcess) -> Iterator[None]:
    """The worker and its driver stand still."""
    family = worker.family()
    for process in family:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


@KINDS
def test_answers_that_are_lost(worker: WorkerProcess, broker: str, server: IcebergRestServer, kind: type[Pipe]) -> None:
    pipe = kind(broker, server, server.properties)
    with running(worker, pipe) as name:
        pipe.send(10)
        complete(pipe, worker)
        for fault in ("applied-504", "applied-cut", "applied-503", "409", "503", "504", "cut"):
            server.next_commits(fault, "", fault, fault)
            pipe.send(COUNT // 4)
            complete(pipe, worker)
        server.next_commits()
        pipe.send(COUNT)
        complete(pipe, worker)
        worker.wait_states(name, "RUNNING", "RUNNING")


@SOAK
@KINDS
def test_offsets_that_kafka_has_lost(
    worker: WorkerProcess, broker: str, server: IcebergRestServer, kind: type[Pipe]
) -> None:
    pipe = kind(broker, server, server.properties)
    with running(worker, pipe) as name:
        pipe.send(COUNT)
        complete(pipe, worker)
        worker.request("PUT", f"/connectors/{name}/stop")
        group = f"connect-{name}"
        admin = AdminClient({"bootstrap.servers": broker})

        def is_deleted() -> bool:
            try:
                admin.delete_consumer_groups([group])[group].result(30)
            except Exception as error:  # its members leave a moment later
                return "GROUP_ID_NOT_FOUND" in str(error)
            return True

        eventually(is_deleted, WITHIN_S, worker.log)
        pipe.send(COUNT)
        worker.request("PUT", f"/connectors/{name}/resume")
        complete(pipe, worker)


@SOAK
@KINDS
def test_a_worker_killed_before_it_heard_of_its_commit(
    cluster: list[ClusterWorker], broker: str, server: IcebergRestServer, kind: type[Pipe]
) -> None:
    pipe = kind(broker, server, server.properties, tasks=1)
    with running(cluster[0], pipe) as name:
        pipe.send(COUNT)
        complete(pipe, cluster[0])
        owner = owners(cluster[0])[f"{name}-0"]
        killed, other = sorted(cluster, key=lambda one: one.worker_id != owner)
        server.next_commits("applied-hold")
        pipe.send(COUNT)
        eventually(server.held, WITHIN_S, killed.log)
        killed.kill_family()
        server.next_commits()
        pipe.send(COUNT)
        complete(pipe, other)
        killed.start()
        killed.wait_ready(180)
        pipe.send(1)
        complete(pipe, other)


@pytest.mark.soak
@KINDS
def test_others_write_and_compact_meanwhile(
    worker: WorkerProcess, broker: str, server: IcebergRestServer, kind: type[Pipe]
) -> None:
    pipe = kind(broker, server, server.properties)
    with running(worker, pipe):
        pipe.send(COUNT)
        complete(pipe, worker)
        with repeating(lambda: foreign_append(pipe, server)) as appended:
            for _ in range(4):
                pipe.send(COUNT)
                with suppress(AssertionError):  # a conflict with the sink is the compaction's loss
                    pipe.table.compact()
            complete(pipe, worker)
        complete(pipe, worker)
        assert pipe.table.compact() > 0
        pipe.send(COUNT)
        complete(pipe, worker)
        foreign = [row for row in pipe.table.rows("id") if row["part"] < 0]
        assert len(foreign) == appended[0]
    pipe.check()


def foreign_append(pipe: Pipe, server: IcebergRestServer) -> bool:
    """Append one row by pyiceberg; False if the sink was quicker."""
    try:
        table = load_catalog("foreign", **server.properties).load_table(pipe.table.name)
        schema = table.schema().as_arrow()
        table.append(pa.Table.from_pylist([{"id": -1, "part": -1, "n": 0, "op": "I"}], schema=schema))
    except (CommitFailedException, ServiceUnavailableError, NoSuchTableError):
        return False
    return True


@contextlib.contextmanager
def repeating(act: Callable[[], bool]) -> Iterator[list[int]]:
    """Do it again and again on a thread; the answer tells how often it succeeded."""
    enough, succeeded = threading.Event(), [0]

    def run() -> None:
        while not enough.wait(0.3):
            succeeded[0] += act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield succeeded
    finally:
        enough.set()
        thread.join()
