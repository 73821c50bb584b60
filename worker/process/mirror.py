"""MirrorMaker's dedicated process: for each flow a worker of the cluster with its topics in the flow's target.

Each worker has its herder, group, topics and tasks; the process has one Spark driver, one scheduler and one listener. A
flow whose target does not answer, or that cannot begin for another reason, is tried again while the others go on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, Self

from headrace.config.problems import ConfigError, Problem
from headrace.config.tls import RenewedContext
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.mirror_maker import CONNECTOR_CLASSES, Flow, MirrorMakerConfig, plugin_path
from headrace.config.worker.settings import DISTRIBUTED
from headrace.plugins.backoff import Backoff
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.stopping import StopToken
from headrace.worker.errors import ConnectError
from headrace.worker.herder.flows import Flows, FlowView
from headrace.worker.herder.kept_connectors import KeptConnectors
from headrace.worker.herder.plugins import InstalledPlugins, variables_of, worker_config
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.herder.rest_paths import flow_path
from headrace.worker.logging.logs import worker_context
from headrace.worker.logging.redaction import WORKER, log_text, secrets_of
from headrace.worker.process.commands import launched
from headrace.worker.process.distributed import DistributedWorker
from headrace.worker.process.process import Process, Server, run_process
from headrace.worker.process.runtime import Address, Runtime
from headrace.worker.process.worker import Worker

log = logging.getLogger(__name__)

NO_URL: Final = "NOTUSED"
"""The URL of a process that does not listen for others, as Apache's."""
_BACKOFF: Final = Backoff(1.0, 60.0)


class FlowServer(Server, Protocol):
    """Serves the flows of a process over HTTP."""

    def start(self, flows: Flows, client: RestClient | None) -> None:
        """Answer requests; with a `client`, which forwards them, also those of other processes."""


ServeFlows = Callable[[MirrorMakerConfig], FlowServer]
"""Binds the listeners of a process. Errors: ConfigError if one cannot be bound."""


def run(config_file: Path, targets: Sequence[str], serve: ServeFlows) -> int:
    """Run all flows into these clusters, by default all, until a signal; returns the exit code, as Apache's."""

    def make(given: MirrorSetup, stopping: StopToken) -> Process:
        server = serve(given.config)
        with launched(given.config.spark_conf(), given.plugins) as spark:
            runtime = Runtime(given.plugins, spark, stopping)
            work = MirrorWork(runtime, given, server)
            return Process(runtime, server, work.answer, work, "Kafka MirrorMaker")

    return run_process(config_file, lambda props: MirrorSetup.of(props, targets), make)


@dataclass(frozen=True)
class MirrorSetup:
    """The content of a file, complete before anything starts."""

    config: MirrorMakerConfig
    plugins: Plugins
    workers: Mapping[str, WorkerConfig]
    """The settings of each flow's worker."""

    @classmethod
    def of(cls, props: Mapping[str, str], targets: Sequence[str] = ()) -> Self:
        """Read the setup of a process that writes to these clusters, by default to all.

        Errors: ConfigError with the keys of the file.
        """
        WORKER.learn(secrets_of(props))
        plugins = Plugins.discover(plugin_path(props))
        classes = [plugins.find("connector", name).load() for name in CONNECTOR_CLASSES.values()]
        keys = {setting.name for one in classes for setting in one.settings}
        variables = variables_of(props, plugins)
        try:
            config = MirrorMakerConfig.of(props, keys, targets, variables)
        finally:
            variables.close()
        WORKER.learn(secrets_of(config.originals))
        workers = {str(flow): _worker_config(flow, config, plugins, keys) for flow in config.flows}
        return cls(config, plugins, workers)


def _worker_config(
    flow: Flow, config: MirrorMakerConfig, plugins: Plugins, connector_keys: Collection[str]
) -> WorkerConfig:
    """The settings of a flow's worker, which can run the flow's connectors."""
    # Without those that Apache's passes to its workers too, such as tasks.max: they would log that they are unknown.
    own = {key: value for key, value in flow.worker.items() if key in DISTRIBUTED or key not in connector_keys}
    try:
        worker = worker_config(own, WorkerConfig.distributed, plugins)
    except ConfigError as error:
        named = [flow.of_worker(problem, config.originals) for problem in error.problems]
        raise ConfigError(named, f"The configuration of the worker of {flow}") from error
    if worker.exactly_once != "disabled":
        log.warning(
            "%s is copied at least once: connect-mirror-maker does not serve exactly.once.source.support, so after a "
            "failure some records may be in %s twice. MirrorSourceConnector in a Connect cluster does",
            flow,
            flow.target,
        )
        worker = replace(worker, values={**worker.values, "exactly.once.source.support": "disabled"})
    installed = InstalledPlugins(plugins, worker, exactly_once=False)
    found = [problem for name in flow.connectors for problem in _problems(name, flow.connectors[name], installed)]
    if found:
        named = [flow.of_connector(problem, config.originals) for problem in found]
        once = {(problem.key, problem.message): problem for problem in reversed(named)}
        raise ConfigError(reversed(once.values()), f"The configuration of the connectors of {flow}")
    return worker


def _problems(name: str, connector: Mapping[str, str], plugins: InstalledPlugins) -> list[Problem]:
    try:
        found = plugins.validate(connector).problems
    except ConnectError as error:
        return [Problem(name, None, error.message)]
    # A value that could not be read is not in the outcome.
    return [replace(one, value=connector.get(one.key)) if one.value is None else one for one in found]


class MirrorWorker(DistributedWorker):
    """The worker of a flow; it gives the flow's connectors their configs while it leads."""

    def __init__(
        self, runtime: Runtime, flow: Flow, config: WorkerConfig, address: Address, tls: RenewedContext | None
    ) -> None:
        """`tls`: for requests to other processes of the flow; None if they do not listen for one another."""
        client = None
        if tls is not None:
            algorithm = config["inter.worker.signature.algorithm"]
            client = RestClient(algorithm, under=flow_path(flow.source, flow.target), tls=tls)
        super().__init__(runtime, config, address, client, {"flow": str(flow)})
        self._kept = KeptConnectors(str(flow), flow.connectors, self.herder, client is not None)
        self.on_role(self._kept.take_role)

    def stop(self) -> None:
        self._kept.stop()
        super().stop()


class FlowRun:
    """One flow of the process, on a thread of its own until its worker has begun."""

    def __init__(self, flow: Flow, make: Callable[[], Worker], flows: Flows, stopping: StopToken) -> None:
        """`make` gives a worker that has not started; it is called again after a failed start."""
        self._flow = flow
        self._make = make
        self._flows = flows
        self._stopping = stopping
        self.worker = self._made()
        self._show(f"It waits for Kafka cluster {flow.target}.")
        self._thread = threading.Thread(target=self._run, name=f"flow-{flow}", daemon=True)

    def start(self) -> None:
        """Start the worker in the background."""
        self._thread.start()

    def stop(self) -> None:
        """End the worker; the process is stopping."""
        if self._thread.is_alive():
            self._thread.join()
        self.worker.stop()

    def _made(self) -> Worker:
        with worker_context(str(self._flow)):
            return self._make()

    def _run(self) -> None:
        failures = 0
        with worker_context(str(self._flow)):
            while not self._stopping.is_set():
                try:
                    self.worker.start()
                except Exception as error:
                    failures += 1
                    self._again(error, _BACKOFF.pause(failures))
                else:
                    self._show(None)
                    return

    def _again(self, error: Exception, pause_s: float) -> None:
        known = isinstance(error, ConnectError | ConfigError)
        text = log_text(error)
        log.error("The flow cannot begin, again in %.0f s: %s", pause_s, text, exc_info=None if known else error)
        self._show(f"It could not begin, and tries again: {WORKER.hide(str(error))}")
        if not self._stopping.wait(pause_s):
            self.worker.stop()
            self.worker = self._made()
            self._show(f"It waits for Kafka cluster {self._flow.target}.")

    def _show(self, waits_for: str | None) -> None:
        self._flows.show(self._flow.source, self._flow.target, FlowView(self.worker, waits_for))


class MirrorWork:
    """All flows of a process."""

    def __init__(self, runtime: Runtime, given: MirrorSetup, server: FlowServer) -> None:
        config = given.config
        self._server = server
        self._tls = config.workers_tls() if config.internal_rest else None
        self._client = RestClient(tls=self._tls) if self._tls is not None else None
        self._flows = Flows(runtime.metrics)
        at = Address.of(config.advertised(server.bound)) if server.bound else None
        self._runs = [
            FlowRun(flow, self._maker(runtime, flow, given.workers[str(flow)], at), self._flows, runtime.stopping)
            for flow in config.flows
        ]

    def _maker(
        self, runtime: Runtime, flow: Flow, config: WorkerConfig, at: Address | None
    ) -> Callable[[], MirrorWorker]:
        # Apache's workers have the flow as their id; with the URL, statuses and metrics tell several processes apart.
        worker_id = str(flow) if at is None else at.worker_id
        address = Address(at.url if at is not None and self._tls is not None else NO_URL, worker_id)
        return lambda: MirrorWorker(runtime, flow, config, address, self._tls)

    def answer(self) -> None:
        """Have the server answer requests."""
        self._server.start(self._flows, self._client)

    def start(self) -> None:
        """Start all flows in the background."""
        log.info("Kafka MirrorMaker starts with %d flows", len(self._runs))
        for one in self._runs:
            one.start()

    def stop(self) -> None:
        """End all flows in parallel: each may have to wait for its tasks."""
        with ThreadPoolExecutor(len(self._runs), "flows-stop") as pool:
            list(pool.map(FlowRun.stop, self._runs))
        if self._client is not None:
            self._client.close()
