"""Runs a worker's tasks: builds each from its configs and plugins, and ends it in good time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka.cimpl import NewTopic

from headrace.config import clients
from headrace.config.connector import converter_config, framework_settings, unserved
from headrace.config.error_handling import ErrorHandling, error_problems
from headrace.config.problems import ConfigError
from headrace.config.topic_creation import TopicCreation
from headrace.config.worker import WorkerConfig
from headrace.plugins.contracts import Converter, SinkTask, SourceTask, TaskContext
from headrace.plugins.conversion.decode import Side, with_headers_read
from headrace.plugins.discovery import Plugins
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.converter_retry import RetryBudget
from headrace.worker.deadletters.reporting import Reporting
from headrace.worker.deadletters.retry_topic import RetryTopic
from headrace.worker.deadletters.source_records import Before
from headrace.worker.engine.admission import Admission
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from headrace.worker.engine.programs import Engine
from headrace.worker.hosting.ports import TaskReport
from headrace.worker.kafka.source_topics import SourceTopics
from headrace.worker.kafka.topic_creation import ensure_task_topic
from headrace.worker.model import Kind, TaskId
from headrace.worker.pipeline.transforms import Transforms
from headrace.worker.pipeline.walk import SinkWalk, SourceWalk
from headrace.worker.redaction import secrets_of
from headrace.worker.storage.offset_file import SourceOffsets
from headrace.worker.tasks.metrics import TasksMetrics
from headrace.worker.tasks.poll_interval import PollInterval
from headrace.worker.tasks.sink import SinkTaskRunner
from headrace.worker.tasks.source import SourceTaskRunner
from headrace.worker.tasks.task import Task

log = logging.getLogger(__name__)

CLIENT_BYTES = 8 << 20
"""What one Kafka client may buffer."""
BATCH_BYTES = 64 << 20
"""Bytes of batches that the worker holds at once, over all its tasks."""
_ENVELOPE = "org.apache.kafka.connect.json.JsonConverter"
_TOPIC_REMEDY = (
    "Create the topic, or set errors.deadletterqueue.topic.replication.factor to what the brokers have and let the "
    "task create topics"
)
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
        self._engine = Engine(ProjectionPool(spark), Admission(JOBS), Admission(BATCH_BYTES))
        self._pace = PollInterval()
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
            if problems := error_problems(kind, connector_config):
                raise ConfigError(problems, "The connector")
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
        handling = ErrorHandling.of("source", connector)
        reporting = self._reporting(handling, task, connector, common["secrets"])
        client = clients.source_producer(self._config, connector, task.task)
        creation = TopicCreation.of(connector) if self._config["topic.creation.enable"] else None
        admin = clients.admin(self._config, connector, task.task)
        runner: SourceTaskRunner

        def walk() -> SourceWalk:
            return SourceWalk(
                engine=self._engine,
                task=plugin,
                key=self._conversion("key", connector, runner),
                value=self._conversion("value", connector, runner),
                transforms=self._transforms(connector, runner),
                producer_config=client.librdkafka(CLIENT_BYTES),
                tolerate=handling.tolerate,
                about=str(task),
                stopping=lambda: runner.stopping,
                topics=SourceTopics(creation, admin.librdkafka(), runner.stop_token),
                reporting=reporting if reporting.wanted else None,
                before=Before(self._envelope()) if handling.dead_letters else None,
                tell=runner.reported,
            )

        context = self._context(task, lambda: runner)
        runner = SourceTaskRunner(
            plugin,
            config,
            context,
            walk,
            self._offsets,
            self._pace,
            RetryBudget(handling.retry_timeout_ms, handling.retry_delay_max_ms),
            lambda: self._create_topics(handling, connector, runner.stop_token),
            **common,
        )
        return runner

    def _sink(
        self, plugin: SinkTask, task: TaskId, connector: Mapping[str, str], config: Mapping[str, str], common: Any
    ) -> Task:
        framework = framework_settings("sink").parse(connector)
        handling = ErrorHandling.of("sink", connector)
        reporting = self._reporting(handling, task, connector, common["secrets"])
        put_class = self._plugins.find("sink", connector["connector.class"]).load().task_class
        client = clients.sink_consumer(self._config, connector, task.task)
        runner: SinkTaskRunner

        def walk() -> SinkWalk:
            return SinkWalk(
                engine=self._engine,
                task=plugin,
                key=self._conversion("key", connector, runner),
                value=self._conversion("value", connector, runner),
                transforms=self._transforms(connector, runner),
                kafka_options=client.spark(),
                reporting=reporting,
                about=str(task),
                stopping=lambda: runner.stopping,
                put_class=put_class,
                retry=retry,
                tell=runner.reported,
            )

        stopping = lambda: runner.stopping  # noqa: E731
        retry = None
        if handling.retry_topic:
            retry = RetryTopic(task.connector, handling, reporting.producer, stopping)
        interval_s = self._config["offset.flush.interval.ms"] / 1000
        context = self._context(task, lambda: runner)
        runner = SinkTaskRunner(
            plugin,
            config,
            context,
            walk,
            client.librdkafka(CLIENT_BYTES),
            clients.admin(self._config, connector, task.task).librdkafka(),
            framework["topics"] or [],
            framework["topics.regex"] or "",
            interval_s,
            RetryBudget(handling.retry_timeout_ms, handling.retry_delay_max_ms),
            lambda: self._create_topics(handling, connector, runner.stop_token),
            **common,
        )
        return runner

    def _reporting(
        self, handling: ErrorHandling, task: TaskId, connector: Mapping[str, str], secrets: Collection[str]
    ) -> Reporting:
        """Errors: ConfigError."""
        producer: Mapping[str, Any] = {}
        if handling.dead_letters or handling.retry_topic:
            producer = clients.dead_letter_producer(self._config, connector, task.task).librdkafka(CLIENT_BYTES)
        return Reporting(task.connector, task.task, handling, producer, secrets)

    def _create_topics(self, handling: ErrorHandling, connector: Mapping[str, str], stop: StopToken) -> None:
        """Create the topics of failed records, where missing. Errors: RetriableError, TopicError, StoppedError."""
        replicas = handling.replication_factor
        for topic, what in ((handling.dead_letters, "dead letter queue"), (handling.retry_topic, "retry topic")):
            if topic:
                admin = clients.dead_letter_admin(self._config, connector).librdkafka()
                failed = f"Could not initialize {what} with topic={topic}"
                if ensure_task_topic(admin, NewTopic(topic, 1, replicas), stop, failed, _TOPIC_REMEDY):
                    log.info("Created the %s topic %s with 1 partition and %d replicas", what, topic, replicas)

    def _envelope(self) -> Converter:
        """Shows values with their schemas."""
        converter: Converter = self._plugins.find("converter", _ENVELOPE).load()()
        converter.configure({"converter.type": "value", "schemas.enable": "true"}, False)
        return converter

    def _conversion(self, side: str, connector: Mapping[str, str], runner: Task) -> Side:
        named = converter_config(side, connector, self._config.originals)
        found = self._plugins.find("converter", named.class_name)
        converter: Converter = found.load()()
        converter.configure(named.props, side == "key")
        runner.at_stop(converter.close)
        constant = converter.constant_identity
        known = () if constant is None else ((constant, converter.resolve(constant, "")),)
        return Side(converter, found.class_name, known)

    def _transforms(self, connector: Mapping[str, str], runner: Task) -> Transforms:
        named = converter_config("header", connector, self._config.originals)
        found = self._plugins.find("header_converter", named.class_name)
        converter = found.load()()
        converter.configure(named.props, False)
        runner.at_stop(converter.close)
        worker = {"python.transforms.allowed": self._config["python.transforms.allowed"]}
        made = Transforms.of(connector, self._plugins, converter.encode, worker)
        return replace(made, headers_read=lambda records: with_headers_read(records, converter, found.class_name))

    def _context(self, task: TaskId, runner: Callable[[], Task]) -> TaskContext:
        return TaskContext(
            task.connector,
            task.task,
            lambda: runner().stopping,
            self._config.for_plugins(),
            interrupted_by=lambda interrupt: runner().interrupts.by(interrupt),
        )


def refuse_what_comes_later(connector: Mapping[str, str]) -> None:
    """Errors: ConfigError for settings that this version does not serve."""
    if problems := unserved(connector):
        raise ConfigError(problems, "The connector")
