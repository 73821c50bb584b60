"""Runs a worker's tasks: builds each from its configs and plugins, and ends it in good time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from headrace.config import clients
from headrace.config.connector import converter_config, framework_settings
from headrace.config.problems import ConfigError
from headrace.config.topic_creation import TopicCreation
from headrace.config.worker import WorkerConfig
from headrace.plugins.contracts import Converter, SinkTask, SourceTask, TaskContext
from headrace.plugins.decode import Side
from headrace.plugins.discovery import Plugins
from headrace.worker.capabilities import unserved
from headrace.worker.engine import Engine
from headrace.worker.herder import Kind, TaskId, TaskReport
from headrace.worker.here import Lanes
from headrace.worker.hidden import secrets_of
from headrace.worker.offsets import SourceOffsets
from headrace.worker.pace import Pace
from headrace.worker.sink_task import SinkTaskRunner
from headrace.worker.source_task import SourceTaskRunner
from headrace.worker.spark import Spark
from headrace.worker.task import Task
from headrace.worker.task_metrics import TasksMetrics
from headrace.worker.topics import SourceTopics
from headrace.worker.turns import Turns
from headrace.worker.walk import SinkWalk, SourceWalk

log = logging.getLogger(__name__)

CLIENT_BYTES = 8 << 20
"""What one Kafka client may buffer."""
BATCH_BYTES = 64 << 20
"""Bytes of batches that the worker holds at once, over all its tasks."""
JOBS = 2
"""Spark jobs at once; more wait their turn."""


class WorkerTasks:
    """The tasks that run in this process."""

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        spark: Spark,
        offsets: SourceOffsets,
        may_move: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_move` is asked before each batch."""
        self._config = config
        self._plugins = plugins
        self._spark = spark
        self._offsets = offsets
        self._may_move = may_move
        self.topic_used: Callable[[TaskId, str], None] = lambda _task, _topic: None
        """Told each topic that a task uses, with every batch."""
        self.metrics = TasksMetrics(config["metrics.sample.window.ms"] / 1000, config["metrics.num.samples"])
        self._engine = Engine(Lanes(spark), Turns(JOBS), Turns(BATCH_BYTES))
        self._pace = Pace()
        self._tasks: dict[TaskId, Task] = {}
        spark.on_change(self._engine_changed)

    def start(
        self,
        task: TaskId,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        kind: Kind,
        paused: bool,
        report: TaskReport,
    ) -> None:
        """The task is about to run; returns at once."""
        with self.metrics.starts.attempt():
            refuse_what_comes_later(connector_config)
            connector = self._plugins.find(kind, connector_config["connector.class"]).load()
            plugin = connector.task()
            common = {
                "task": task,
                "spark": self._spark,
                "report": report,
                "metrics": self.metrics.begin(task, kind),
                "paused": paused,
                "secrets": secrets_of(connector_config, connector.settings.mask(connector_config)),
                "topic_used": self.topic_used,
                "may_move": self._may_move,
            }
            make = self._source if kind == "source" else self._sink
            runner = self._tasks[task] = make(plugin, task, connector_config, task_config, common)
            runner.start()

    def pause(self, task: TaskId) -> None:
        """The task will report PAUSED."""
        if task in self._tasks:
            self._tasks[task].pause()

    def resume(self, task: TaskId) -> None:
        """The task will report RUNNING."""
        if task in self._tasks:
            self._tasks[task].resume()

    def stop(self, tasks: Collection[TaskId]) -> None:
        """All have been asked to end, and have ended or are abandoned."""
        for one in tasks:
            self.metrics.end(one)
        ending = [self._tasks.pop(task) for task in tasks if task in self._tasks]
        for task in ending:
            task.ask_to_stop()
        until = time.monotonic() + self._config["task.shutdown.graceful.timeout.ms"] / 1000
        for task in ending:
            if not task.join(max(0.0, until - time.monotonic())):
                log.error("task %s did not end in time and is left to itself; it stores no offsets any more", task.id)
                task.abandon()

    def close(self) -> None:
        """Nothing runs any more."""
        self.stop(list(self._tasks))
        here, there = self._engine.lanes.rows, self._engine.rows_there
        log.info("Spark's expressions were applied to %d rows here and %d rows in jobs", here, there)
        self._engine.lanes.stop()

    def _engine_changed(self, _ready: bool) -> None:
        for task in list(self._tasks.values()):
            task.engine_changed()

    def _source(
        self, plugin: SourceTask, task: TaskId, connector: Mapping[str, str], config: Mapping[str, str], common: Any
    ) -> Task:
        framework = framework_settings("source").parse(connector)
        client = clients.source_producer(self._config, connector, task.task)
        creation = TopicCreation.of(connector) if self._config["topic.creation.enable"] else None
        admin = clients.admin(self._config, connector, task.task)
        runner: SourceTaskRunner

        def walk() -> SourceWalk:
            return SourceWalk(
                engine=self._engine,
                task=plugin,
                key=self._conversion("key", connector),
                value=self._conversion("value", connector),
                producer_config=client.librdkafka(CLIENT_BYTES),
                tolerate=framework["errors.tolerance"] == "all",
                about=str(task),
                stopping=lambda: runner.stopping,
                topics=SourceTopics(creation, admin.librdkafka(), lambda: runner.stopping),
            )

        context = self._context(task, lambda: runner.stopping)
        runner = SourceTaskRunner(plugin, config, context, walk, self._offsets, self._pace, **common)
        return runner

    def _sink(
        self, plugin: SinkTask, task: TaskId, connector: Mapping[str, str], config: Mapping[str, str], common: Any
    ) -> Task:
        framework = framework_settings("sink").parse(connector)
        client = clients.sink_consumer(self._config, connector, task.task)
        runner: SinkTaskRunner

        def walk() -> SinkWalk:
            return SinkWalk(
                engine=self._engine,
                task=plugin,
                key=self._conversion("key", connector),
                value=self._conversion("value", connector),
                kafka_options=client.spark(),
                tolerate=framework["errors.tolerance"] == "all",
                about=str(task),
                stopping=lambda: runner.stopping,
            )

        topics = framework["topics"] or ["^" + framework["topics.regex"]]
        interval_s = self._config["offset.flush.interval.ms"] / 1000
        context = self._context(task, lambda: runner.stopping)
        runner = SinkTaskRunner(
            plugin,
            config,
            context,
            walk,
            client.librdkafka(CLIENT_BYTES),
            clients.admin(self._config, connector, task.task).librdkafka(),
            topics,
            interval_s,
            **common,
        )
        return runner

    def _conversion(self, side: str, connector: Mapping[str, str]) -> Side:
        named = converter_config(side, connector, self._config.originals)
        found = self._plugins.find("converter", named.class_name)
        converter: Converter = found.load()()
        converter.configure(named.props, side == "key")
        constant = converter.constant_identity
        known = () if constant is None else ((constant, converter.resolve(constant, "")),)
        return Side(converter, found.class_name, known)

    def _context(self, task: TaskId, stopping: Callable[[], bool]) -> TaskContext:
        return TaskContext(
            task.connector, task.task, stopping, {"file.allowed.paths": self._config["file.allowed.paths"]}
        )


def refuse_what_comes_later(connector: Mapping[str, str]) -> None:
    """Errors: ConfigError for settings that this version does not serve."""
    if problems := unserved(connector):
        raise ConfigError(problems, "The connector")
