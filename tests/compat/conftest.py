"""The worker that the tests of its REST API share, and Apache's transforms beside ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.plugins.interop.jvm import jars
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.engine.driver import Spark
from tests.compat.json_oracle import Apache
from tests.compat.rest_worker import MODES, RestWorker, process
from tests.compat.transform_oracle import Chains
from tests.compat.transform_oracle import chains as made_chains


@pytest.fixture(scope="session", params=MODES)
def rest_worker(
    request: pytest.FixtureRequest, broker_process: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestWorker]:
    """A worker of each mode, ready; it logs from WARN on, as the recorded one did."""
    if not broker_process.is_running:
        broker_process.start()
    folder = tmp_path_factory.mktemp(request.param)
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # for this worker alone
            patch.setenv("CONNECT_LOG4J_ROOT_LOGLEVEL", "WARN")
            worker = stack.enter_context(process(request.param, folder, broker_process.bootstrap_servers))
        worker.wait_ready(120)
        one = RestWorker(worker.url, request.param)
        yield one
        one.http.close()


@pytest.fixture(scope="session")
def apache(spark: SparkSession) -> Apache:
    """Apache's JsonConverter; one, because py4j takes equally named classes of two class loaders for the same."""
    return Apache(spark, jars.fetch("connect"))


@pytest.fixture(scope="session")
def chains(engine: Spark) -> Iterator[Chains]:
    """Chains of transforms, of Apache, Debezium and Iceberg, and ours."""
    with made_chains(
        engine, [*jars.fetch("connect"), *jars.fetch("debezium-transforms"), *jars.fetch("iceberg-transforms")]
    ) as both:
        yield both
