"""The commands that run one worker: its settings, Spark's driver, its listeners, and then all else.

Decided: the modules of a worker and of its REST service are imported once Spark's JVM is launched, because either takes
about as long, and on two cores they run in parallel; loses: imports in functions, this module has to stay light, and a
taken port is found while a JVM begins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headrace.config.properties import read_connector
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_jars import driver_jars
from headrace.worker.process.process import Process, Serve, run_worker


def standalone(worker_file: Path, connector_files: Sequence[Path], serve: Serve) -> int:
    """Run a standalone worker until a signal ends it; returns the process's exit code, as Apache's."""

    def make(config: WorkerConfig, stopping: StopToken) -> Process:
        connectors = [read_connector(path) for path in connector_files]
        plugins = Plugins.of_worker(config.values)
        with launched(config.spark_conf(), plugins) as spark:
            server = serve(config)
            from headrace.worker.process.runtime import Address, Runtime
            from headrace.worker.process.standalone import StandaloneWorker

            runtime = Runtime(plugins, spark, stopping)
            worker = StandaloneWorker(runtime, config, Address.of(config.advertised(server.bound)), connectors)
            return Process(runtime, server, lambda: server.start(worker.herder, worker.metrics, None), worker)

    return run_worker(worker_file, WorkerConfig.standalone, make)


def distributed(worker_file: Path, serve: Serve) -> int:
    """Run a worker of a cluster until a signal ends it; returns the process's exit code, as Apache's."""

    def make(config: WorkerConfig, stopping: StopToken) -> Process:
        plugins = Plugins.of_worker(config.values)
        with launched(config.spark_conf(), plugins) as spark:
            server = serve(config)
            from headrace.worker.herder.rest_client import RestClient
            from headrace.worker.process.distributed import DistributedWorker
            from headrace.worker.process.runtime import Address, Runtime

            runtime = Runtime(plugins, spark, stopping)
            client = RestClient(config["inter.worker.signature.algorithm"], tls=config.workers_tls())
            worker = DistributedWorker(runtime, config, Address.of(config.advertised(server.bound)), client)
            return Process(runtime, server, lambda: server.start(worker.herder, worker.metrics, client), worker)

    return run_worker(worker_file, WorkerConfig.distributed, make)


@contextlib.contextmanager
def launched(spark_conf: Mapping[str, str], plugins: Plugins) -> Iterator[Spark]:
    """Yield Spark, whose driver begins to start; an error inside ends it. Errors: jars.Unavailable."""
    spark = Spark(spark_conf, driver_jars(), plugins.paths)
    spark.start()
    try:
        yield spark
    except BaseException:
        spark.stop()
        raise
