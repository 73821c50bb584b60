"""The fixtures `spark`, `kafka` and `worker` of `headrace[testkit]`; each starts once, if a test asks for it.

Every run of pytest beside this package loads this module, so it imports the rest only in its fixtures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.worker.embedded.kafka_broker import Broker
    from headrace.worker.testing.plugin_worker import PluginWorker


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that need Spark."""
    config.addinivalue_line("markers", "spark: needs a Spark session")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Yield a Spark session as a worker has it, with two cores."""
    from headrace.worker.engine.driver import Spark
    from headrace.worker.engine.driver_jars import driver_jars

    engine = Spark({"spark.master": "local[2]"}, driver_jars())
    engine.start()
    try:
        if not engine.wait_ready(120):
            pytest.fail("Spark did not start within 120 s; its log says why, and so does `headrace doctor`")
        yield engine.session()
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker at `bootstrap_servers`, to `stop()`, `kill()` and `start()` as well."""
    from headrace.worker.embedded.kafka_broker import Broker

    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def plugin_path() -> Sequence[Path]:
    """Override: folders with plugins for the fixture `worker`, beside those of installed packages."""
    return ()


@pytest.fixture(scope="session")
def worker(
    kafka: Broker, plugin_path: Sequence[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PluginWorker]:
    """Yield a standalone worker that runs connectors."""
    from headrace.worker.testing.plugin_worker import PluginWorker

    with PluginWorker(tmp_path_factory.mktemp("worker"), kafka.bootstrap_servers, plugin_path) as worker:
        yield worker
