"""A REST server on a free port, over the standalone herder, the installed plugins and tasks that only say they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import httpx
import pytest

from headrace.config.lint.view import ClusterFacts
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.listeners import Listener, worker_id
from headrace.plugins.interop import discovery
from headrace.rest.app import app
from headrace.rest.security.auth_layer import AuthLayer
from headrace.rest.server import HttpServer
from headrace.worker.herder.dead_letters import DeadLetters
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.offset_changes import OffsetChanges
from headrace.worker.herder.plugins import InstalledPlugins
from headrace.worker.herder.services import HerderServices
from headrace.worker.herder.standalone import StandaloneHerder
from headrace.worker.herder.topic_tracking import TopicTracking
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.hosting.ports import Report
from headrace.worker.model import Config, State, TaskId
from headrace.worker.preview.model import Preview, Wanted
from headrace.worker.storage.offset_file import OffsetFile
from headrace.worker.storage.statuses import MemoryStatusStore
from headrace.worker.tasks.metrics import TasksMetrics


class FakeTasks:
    """Tasks that run in name only; one whose file has no folder fails, as a file task would; sources have read it."""

    def __init__(self, offsets: OffsetFile) -> None:
        self.offsets = offsets
        self.running: dict[TaskId, Report] = {}
        self.configs: dict[str, Mapping[str, str]] = {}

    def start(
        self,
        task: TaskId,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        kind: str,
        paused: bool,
        report: Report,
        generation: int | None = None,
    ) -> None:
        self.running[task] = report
        self.configs[task.connector] = task_config
        folder = os.path.dirname(task_config.get("file", ""))
        if folder and not os.path.isdir(folder):
            report(State.FAILED, f"builtins.FileNotFoundError: {folder}")
        else:
            if kind == "source":
                self.offsets.set(task.connector, {"filename": task_config["file"]}, {"position": 34, "line": 2})
            report(State.PAUSED if paused else State.RUNNING, None)

    def pause(self, task: TaskId) -> None:
        self.running[task](State.PAUSED, None)

    def resume(self, task: TaskId) -> None:
        self.running[task](State.RUNNING, None)

    def stop(self, tasks: Collection[TaskId]) -> None:
        for task in tasks:
            if (report := self.running.pop(task, None)) is not None:
                report(State.UNASSIGNED, None)


SETTINGS = {
    "bootstrap.servers": "127.0.0.1:9092",
    "offset.storage.file.filename": "unused",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


class NoRecords:
    """Previews of sources that have nothing."""

    def preview(self, config: Config, wanted: Wanted, before: Config | None = None) -> Preview:
        return Preview("source", [])


class Worker:
    """A running worker without engine."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        config = WorkerConfig.standalone({**SETTINGS, **settings})
        self.server = HttpServer([Listener("http", "127.0.0.1", 0)])
        plugins = InstalledPlugins(discovery.Plugins.discover(), config)
        self.folder = TemporaryDirectory()
        offsets = OffsetFile(Path(self.folder.name, "offsets"))
        self.tasks = FakeTasks(offsets)
        where = worker_id(self.server.bound[0])
        statuses, starts = MemoryStatusStore(), StartupCounter()
        self.herder = StandaloneHerder(
            HerderServices(
                where,
                config.values,
                SimpleNamespace(id="cluster-1", away_seconds=lambda: 0.0, facts=lambda: ClusterFacts(1, {"in": 1})),
                plugins,
                self.tasks,
                statuses,
                TopicTracking(statuses, config.values),
                OffsetChanges(config, offsets),
                starts,
                DeadLetters(config, discovery.Plugins.discover()),
                NoRecords(),
            )
        )
        self.herder.know()
        self._entrance = AuthLayer.of(config.values, config.originals, {})
        metrics = WorkerMetrics(self.herder, where, TasksMetrics(), starts)
        self.server.start(app(self.herder, metrics, config.values, None, self._entrance))
        self.url = str(self.server.bound[0])
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def stop(self) -> None:
        self.client.close()
        self.server.stop()
        self._entrance.stop()
        self.herder.stop()
        self.folder.cleanup()


@contextmanager
def made_workers() -> Iterator[Callable[..., Worker]]:
    """Makes workers with given settings, which end with the block."""
    made: list[Worker] = []

    def make(**settings: str) -> Worker:
        made.append(Worker({key.replace("_", "."): value for key, value in settings.items()}))
        return made[-1]

    yield make
    for worker in made:
        worker.stop()


@pytest.fixture(scope="module")
def workers() -> Iterator[Callable[..., Worker]]:
    """Makes workers with given settings."""
    with made_workers() as make:
        yield make


@pytest.fixture(scope="module")
def worker(workers: Callable[..., Worker]) -> Worker:
    """A worker with default settings."""
    return workers()
