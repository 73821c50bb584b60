"""Fixtures that every kind of test may ask for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest

from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.embedded.registry_server import Registry
from tests import schedule, short_jvms
from tests.container_broker import ContainerBroker
from tests.held_ports import held_port

if TYPE_CHECKING:  # unit tests do not wait for Spark's import
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

    from headrace.worker.engine.driver import Spark
    from headrace.worker.engine.programs import Engine
    from tests.compat.mirror_oracle import MirrorOracle
    from tests.integration.databases import Database, MariadbServer, PostgresqlServer
    from tests.integration.hdfs_server import HdfsServer
    from tests.integration.hive_server import HiveServer
    from tests.integration.iceberg_rest_server import IcebergRestServer
    from tests.integration.opensearch_server import OpenSearchServer
    from tests.integration.s3_server import S3Server
    from tests.integration.sourcing import Sourcing
    from tests.integration.worker_process import WorkerProcess

QUICK_CLEANER: Final = {"log.cleaner.backoff.ms": "500"}
"""Settings of a broker that compacts soon: by default it looks every 15 s."""

# Compiled modules are kept, whatever the machine prefers: each process of a test run loads the same ones.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
short_jvms.use_in_brokers()
# On a busy machine an example may take any time: that is no fault.
_BUSY: Final = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("same", _BUSY, derandomize=True)
hypothesis.settings.register_profile("new", _BUSY, print_blob=True)
hypothesis.settings.load_profile("same")  # `--hypothesis-profile=new` draws other examples at each run


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> schedule.ByPiece | None:
    """`--dist loadfile` keeps modules together, and those that share a fixture of the session."""
    return schedule.ByPiece(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)  # pytest then brings together what has the same parameter of a session's fixture
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the broker `kafka`, what uses Spark `spark`, a database server `database`; long tests go first."""
    items[:] = schedule.in_order(items)
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "engine" in fixtures and not schedule.needs_spark(piece := schedule.piece_of(item.nodeid)):
            raise pytest.UsageError(f"tests/schedule.py: SPARK must name {piece}, which needs the fixture `engine`")
        if {"broker_process", "second_broker_process"} & set(fixtures):
            item.add_marker(pytest.mark.kafka)
        if "engine" in fixtures:
            item.add_marker(pytest.mark.spark)
        if {"postgresql_server", "mariadb_server", "database"} & set(fixtures):
            item.add_marker(pytest.mark.database)


@pytest.fixture(scope="session")
def engine() -> Iterator[Spark]:
    """Spark as a worker has it; the one driver of this test run."""
    from headrace.worker.engine.driver import Spark
    from headrace.worker.engine.driver_jars import driver_jars

    engine = Spark({"spark.master": "local[2]"}, driver_jars())
    engine.start()
    assert engine.wait_ready(120), "Spark did not start; the log says why"
    yield engine
    engine.stop()


@pytest.fixture
def shared(engine: Spark) -> Iterator[Engine]:
    """Yield what tasks of a worker share; one test's programs."""
    from headrace.worker.engine.inline import ProjectionPool
    from headrace.worker.engine.programs import Engine
    from headrace.worker.engine.quota import Quota

    pool = ProjectionPool(engine, lanes=1)
    yield Engine(pool, Quota(1), Quota(1 << 20))
    pool.stop()


@pytest.fixture(scope="session")
def spark(engine: Spark) -> SparkSession:
    """The worker's Spark session, with two cores."""
    return engine.session()


@pytest.fixture(scope="session")
def mirror_oracle(engine: Spark) -> MirrorOracle:
    """MirrorMaker's own client, in Java."""
    from tests.compat.mirror_oracle import MirrorOracle

    return MirrorOracle(engine)


@pytest.fixture(scope="session")
def broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | ContainerBroker]:
    """The broker of this test run, to `stop()`, `kill()` and `start()`; its port and data stay the same.

    HEADRACE_TEST_KAFKA=testcontainers takes it from a container; tests that look into the embedded one's files fail.
    """
    if os.environ.get("HEADRACE_TEST_KAFKA", "embedded") == "testcontainers":
        contained = ContainerBroker()
        contained.start()
        yield contained
        contained.remove()
        return
    broker = Broker(tmp_path_factory.mktemp("kafka"), held_port(), settings=QUICK_CLEANER)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def broker(broker_process: Broker | ContainerBroker) -> str:
    """`bootstrap.servers` of a broker that runs, started again where an earlier test left it down."""
    if not broker_process.is_running:
        broker_process.start()
    return broker_process.bootstrap_servers


@pytest.fixture(scope="session")
def second_broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Another cluster's broker, to `stop()`, `kill()` and `start()`; its port and data stay the same."""
    broker = Broker(tmp_path_factory.mktemp("second-kafka"), held_port(), settings=QUICK_CLEANER)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def second_broker(second_broker_process: Broker) -> str:
    """`bootstrap.servers` of another cluster that runs, started again where an earlier test left it down."""
    if not second_broker_process.is_running:
        second_broker_process.start()
    return second_broker_process.bootstrap_servers


@pytest.fixture(scope="session")
def standalone_worker(
    broker_process: Broker | ContainerBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """The standalone worker of this test run, with the plugins of the tests' own."""
    from tests.integration.stranger_plugins import choosy
    from tests.integration.worker_process import WorkerProcess

    folder = tmp_path_factory.mktemp("standalone")
    settings = {
        "plugin.path": str(choosy(folder / "plugins")),
        "file.allowed.paths": "/",
        "task.shutdown.graceful.timeout.ms": "30000",
        "preview.timeout.ms": "120000",
        "python.transforms.allowed": "choosy_plugin",
    }
    if not broker_process.is_running:
        broker_process.start()
    with WorkerProcess(folder, broker_process.bootstrap_servers, settings=settings) as worker:
        yield worker


@pytest.fixture(scope="module")
def worker(standalone_worker: WorkerProcess, broker_process: Broker | ContainerBroker) -> Iterator[WorkerProcess]:
    """The standalone worker, ready; connectors that the module's tests leave are deleted at its end."""
    if not broker_process.is_running:
        broker_process.start()
    yield standalone_worker.wait_ready(120)
    for name in standalone_worker.get("/connectors"):
        standalone_worker.request("DELETE", f"/connectors/{name}")


@pytest.fixture(scope="session")
def worker_with_java(
    broker_process: Broker | ContainerBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """The worker with Java plugins of this test run, ready; each test deletes the connectors that it makes."""
    from tests.integration.java_plugins import java_worker

    if not broker_process.is_running:
        broker_process.start()
    with java_worker(tmp_path_factory.mktemp("java"), broker_process.bootstrap_servers) as worker:
        yield worker


@pytest.fixture(scope="session")
def registry_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """The schema registry of this test run, to `stop()`, `kill()` and `start()`; its port and data stay the same."""
    registry = Registry(tmp_path_factory.mktemp("registry"), held_port())
    registry.start()
    yield registry
    registry.stop()


@pytest.fixture
def registry(registry_process: Registry) -> str:
    """`schema.registry.url` of a registry that runs, started again where an earlier test left it down."""
    if not registry_process.is_running:
        registry_process.start()
    return registry_process.url


@pytest.fixture(scope="session")
def hdfs_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """The HDFS of this test run, whose nodes are to `kill()` and `start()`; its ports and data stay the same."""
    from tests.integration.hdfs_server import HdfsServer

    server = HdfsServer(tmp_path_factory.mktemp("hdfs"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def hdfs_server(hdfs_process: HdfsServer) -> HdfsServer:
    """An HDFS that runs, its nodes started again where an earlier test left them down."""
    if not hdfs_process.is_running:
        hdfs_process.start()
    return hdfs_process


@pytest.fixture(scope="session")
def opensearch_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearchServer]:
    """The OpenSearch of this test run, to `kill()` and `start()`; its port and data stay the same."""
    from tests.integration.opensearch_server import OpenSearchServer

    server = OpenSearchServer(tmp_path_factory.mktemp("opensearch"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def opensearch(opensearch_process: OpenSearchServer) -> OpenSearchServer:
    """An OpenSearch that runs, started again if an earlier test left it down."""
    if not opensearch_process.is_running:
        opensearch_process.start()
    return opensearch_process


@pytest.fixture(scope="session")
def hive_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveServer]:
    """The Hive metastore of this test run, to `kill()` and `start()`; its port and tables stay the same."""
    from tests.integration.hive_server import HiveServer

    server = HiveServer(tmp_path_factory.mktemp("hive"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def hive_server(hive_process: HiveServer) -> HiveServer:
    """A Hive metastore that runs, started again where an earlier test left it down."""
    if not hive_process.is_running:
        hive_process.start()
    return hive_process


@pytest.fixture(scope="session")
def iceberg_rest_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRestServer]:
    """The REST catalog of this test run, to `kill()` and `start()`; its port and tables stay the same."""
    from tests.integration.iceberg_rest_server import IcebergRestServer

    server = IcebergRestServer(tmp_path_factory.mktemp("iceberg-rest"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def iceberg_rest(iceberg_rest_process: IcebergRestServer) -> IcebergRestServer:
    """A REST catalog that runs and breaks nothing, started again if an earlier test left it down."""
    if not iceberg_rest_process.is_running:
        iceberg_rest_process.start()
    iceberg_rest_process.next_commits()
    return iceberg_rest_process


@pytest.fixture(scope="session")
def s3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The S3 of this test run, to `kill()` and `start()`; its port stays the same, its objects do not."""
    from tests.integration.s3_server import S3Server

    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def s3_server(s3_process: S3Server) -> S3Server:
    """An S3 that runs, started again, empty, where an earlier test left it down."""
    if not s3_process.is_running:
        s3_process.start()
    return s3_process


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """The PostgreSQL of this test run, to `stop()`, `kill()` and `start()`; its port and data stay the same."""
    from tests.integration.databases import PostgresqlServer

    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbServer]:
    """The MariaDB of this test run, to `stop()`, `kill()` and `start()`; its port and data stay the same."""
    from tests.integration.databases import MariadbServer

    with MariadbServer() as server:
        yield server


@pytest.fixture
def postgresql(postgresql_server: PostgresqlServer) -> Iterator[Database]:
    """An empty PostgreSQL database of this test's own."""
    if not postgresql_server.is_running:
        postgresql_server.start()
    with postgresql_server.database() as database:
        yield database


@pytest.fixture
def mariadb(mariadb_server: MariadbServer) -> Iterator[Database]:
    """An empty MariaDB database of this test's own."""
    if not mariadb_server.is_running:
        mariadb_server.start()
    with mariadb_server.database() as database:
        yield database


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """An SQLite file of this test's own."""
    from tests.integration.databases import sqlite_database

    database = sqlite_database(tmp_path)
    yield database
    database.engine.dispose()


@pytest.fixture
def open_sources() -> Iterator[list[Sourcing]]:
    """JDBC sources that are stopped at the end of the test."""
    opened: list[Sourcing] = []
    yield opened
    for one in opened:
        one.task.stop()


@pytest.fixture(params=["postgresql", pytest.param("mariadb", marks=pytest.mark.long), "sqlite"])
def database(request: pytest.FixtureRequest) -> Database:
    """An empty database of this test's own, in each database in turn."""
    found: Database = request.getfixturevalue(request.param)
    return found
