"""A worker of either mode as a whole, without Spark's driver and with no broker: what it serves, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.listeners import Listener
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.interop.jvm import jars
from headrace.plugins.stopping import StopToken
from headrace.worker.engine import driver_jars
from headrace.worker.errors import NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.process import commands
from headrace.worker.process import process as process_module
from headrace.worker.process.distributed import DistributedWorker
from headrace.worker.process.process import Process
from headrace.worker.process.runtime import Address, Runtime
from headrace.worker.process.standalone import StandaloneWorker
from headrace.worker.process.worker import Worker

SECONDS = 60
ADDRESS = Address("http://127.0.0.1:8083/", "127.0.0.1:8083")
COMMON = {
    "bootstrap.servers": "127.0.0.1:1",  # nobody listens there
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


class NoSpark:
    """Spark's driver that never comes."""

    is_local = True
    is_ready = False
    pid = None

    def __init__(self, *given: Any) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def on_change(self, call: Callable[[bool], None]) -> None:
        self.calls.append("on_change")

    def off_change(self, call: Callable[[bool], None]) -> None:
        self.calls.append("off_change")


class FakeServer:
    """Keeps what it is to serve."""

    def __init__(self) -> None:
        self.bound = [Listener("http", "127.0.0.1", 8083)]
        self.served: tuple[Herder, WorkerMetrics, RestClient | None] | None = None
        self.started, self.stopped = threading.Event(), threading.Event()

    def start(self, herder: Herder, metrics: WorkerMetrics, client: RestClient | None) -> None:
        self.served = herder, metrics, client
        self.started.set()

    def stop(self) -> None:
        self.stopped.set()


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "Spark", NoSpark)
    monkeypatch.setattr(jars, "fetch", lambda group: [])
    monkeypatch.setattr(driver_jars, "compiled", lambda name, *_: Path(f"{name}.jar"))


def standalone(runtime: Runtime, folder: Path) -> Worker:
    config = WorkerConfig.standalone({**COMMON, "offset.storage.file.filename": str(folder / "offsets")})
    return StandaloneWorker(runtime, config, ADDRESS, [])


def distributed(runtime: Runtime, folder: Path) -> Worker:
    topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    return DistributedWorker(runtime, WorkerConfig.distributed({**COMMON, **topics, "group.id": "g"}), ADDRESS, None)


@pytest.mark.parametrize("make", [standalone, distributed])
def test_it_serves_its_herder_before_kafka_answers_and_ends_when_it_is_asked_to(
    make: Callable[[Runtime, Path], Worker], tmp_path: Path
) -> None:
    spark: Any = NoSpark()
    runtime = Runtime(Plugins.discover([]), spark, StopToken())
    worker, server = make(runtime, tmp_path), FakeServer()
    process = Process(runtime, server, lambda: server.start(worker.herder, worker.metrics, None), worker)
    codes: list[int] = []
    running = threading.Thread(target=lambda: codes.append(process.run()))
    running.start()
    assert server.started.wait(SECONDS)
    herder, metrics, _client = server.served or pytest.fail("it serves nothing")
    assert (herder.cluster_id, herder.connectors(), herder.health(0.01).status) == (None, [], "starting")
    with pytest.raises(NotFound):
        herder.connector_state("c")
    assert "kafka_connect_worker_connector_count 0\n" in metrics.metrics_text()
    worker.cluster.id = "known"
    assert herder.cluster_id == "known"
    runtime.stopping.set()
    running.join(SECONDS)
    assert (codes, server.stopped.is_set()) == ([0], True)
    assert spark.calls == ["on_change", "off_change", "stop"]


def test_what_fails_once_spark_is_launched_ends_it() -> None:
    begun: list[Any] = []

    def make() -> None:
        with commands.launched({}, Plugins.discover([])) as spark:
            begun.append(spark)
            raise KeyError("a worker that cannot be made")

    with pytest.raises(KeyError):
        make()
    assert begun[0].calls == ["start", "stop"]


def test_spark_is_launched_before_the_workers_modules_are_imported() -> None:
    """The JVM starts on another core meanwhile. A module that imports one of these at its top makes it wait."""
    said = "import sys, headrace.rest.service, headrace.worker.process.commands; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    heavy = {"pyarrow", "numpy", "confluent_kafka", "kafka", "apscheduler", "fastapi", "pydantic"}
    assert not heavy & set(run.stdout.split())


def test_a_standalone_worker_waits_for_no_http_client() -> None:
    said = "import sys, headrace.rest.app, headrace.worker.process.standalone; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert not {"httpx", "rich"} & set(run.stdout.split())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop_it_cleanly(number: signal.Signals) -> None:
    before = signal.signal(number, signal.default_int_handler)  # under nohup a hangup would be ignored
    try:
        with process_module._stop_signals() as stopping:
            os.kill(os.getpid(), number)
            assert stopping.wait(SECONDS)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_under_nohup_a_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with process_module._stop_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("comes", ["before its file is read", "before it is made"])
def test_a_signal_while_a_worker_starts_is_a_clean_end(comes: str, tmp_path: Path) -> None:
    """Its files may be removed at once, too."""
    file = tmp_path / "worker.properties"
    if comes == "before it is made":
        file.write_text("group.id=g\n")

    def parse(_props: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def make(_config: None, _stopping: StopToken) -> Process:
        pytest.fail("it went on")

    def warn(_environ: object) -> None:
        if comes == "before its file is read":
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_module, "warn_of_variables", warn)
        for name in ("show_stacks_on_quit", "keep_freed_memory"):
            patch.setattr(process_module, name, lambda: None)
        patch.setattr(process_module.logs, "set_up", lambda: None)
        patch.setattr(process_module.logs, "take_uncaught", lambda: None)
        assert process_module.run_process(file, parse, make) == 0
