"""Runs a worker's tasks: makes each from its configs and its plugin, and ends it in good time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.config.connector import clients
from headrace.config.connector.config import framework_settings, unserved
from headrace.config.connector.error_handling import ErrorHandling, error_problems
from headrace.config.connector.removed_settings import check_removed
from headrace.config.connector.sink_members import instance_id
from headrace.config.plugin_path import JavaStage
from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.internal_topics import InternalTopics, check_internal_topics
from headrace.plugins.contracts import SinkTask, SourceTask, TaskContext
from headrace.plugins.extensions import Measured, extension
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.converter_retry import RetryBudget
from headrace.worker.engine.programs import Engine
from headrace.worker.hosting.ports import TaskReport
from headrace.worker.kafka.consumer_groups import stable_offsets
from headrace.worker.kafka.group_member import expel
from headrace.worker.kafka.topic_ids import TopicIds
from headrace.worker.kafka.transactions import FencingCheck, Transactions
from headrace.worker.kafka.writer import CLIENT_BYTES
from headrace.worker.logging.redaction import Redaction, current
from headrace.worker.model import Kind, TaskId
from headrace.worker.pipeline.split_transforms import SplitTransforms
from headrace.worker.storage.offset_file import SourceOffsets
from headrace.worker.storage.offset_topic import OffsetTopic
from headrace.worker.tasks.builder import PipelineBuilder, SourceOutput
from headrace.worker.tasks.fetched import ANSWER_BYTES
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.interrupts import Interrupts
from headrace.worker.tasks.metrics import TasksMetrics
from headrace.worker.tasks.poll_interval import PollInterval
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.shared_thread import SharedThread
from headrace.worker.tasks.sink import SinkTaskRunner
from headrace.worker.tasks.sink_input import SinkInput
from headrace.worker.tasks.source import SourceTaskRunner
from headrace.worker.tasks.static_member import INSTANCE, named_by_topics
from headrace.worker.tasks.subscription import TopicSubscription
from headrace.worker.tasks.task import Task
from headrace.worker.tasks.transactional_offsets import Boundary, TransactionalOffsets

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExactlyOnce:
    """A worker's means for sources that send their records and offsets in transactions."""

    offsets: OffsetTopic
    admission: Callable[[TaskId, int | None], FencingCheck]
    """Makes that of a task's start, with the generation of its task configs."""


class WorkerTasks:
    """The tasks that a worker runs in this process."""

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        engine: Engine,
        poll_interval: PollInterval,
        offsets: SourceOffsets,
        topic_used: Callable[[TaskId, str], None],
        owner: str,
        membership_ok: Callable[[], bool] = lambda: True,
        exactly_once: ExactlyOnce | None = None,
    ) -> None:
        """`exactly_once`: None if sources are not; engine and poll interval are the process's.

        `topic_used` is called with each topic that a task uses, with every batch; `membership_ok` before each batch.

        `owner`: the owner of sink tasks' group members, as of `instance_id`.
        """
        self._config = config
        self._plugins = plugins
        self._spark = engine.projections.spark
        self._offsets = offsets
        self._topic_used = topic_used
        self._owner = owner
        self._membership_ok = membership_ok
        self._exactly_once = exactly_once
        self.metrics = TasksMetrics(config["metrics.sample.window.ms"] / 1000, config["metrics.num.samples"])
        self._engine = engine
        self._poll_interval = poll_interval
        self._shared = SharedThread()
        self._tasks: dict[TaskId, Task] = {}
        self._spark.on_change(self._engine_changed)

    def start(
        self,
        task: TaskId,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        kind: Kind,
        paused: bool,
        report: TaskReport,
        generation: int | None = None,
    ) -> None:
        """Start the task; returns at once."""
        with self.metrics.starts.attempt():
            refuse_what_comes_later(connector_config)
            settings = self._config.for_plugins()
            check_internal_topics({**connector_config, **task_config}, task.connector, settings)
            if problems := error_problems(kind, connector_config):
                raise ConfigError(problems, "The connector")
            named = self._plugins.chosen(kind, connector_config["connector.class"], connector_config)
            check_removed(str(task), connector_config, named, self._plugins)
            handling = ErrorHandling.of(kind, connector_config)
            split = SplitTransforms.of(
                str(task), connector_config, self._config.originals, named, self._plugins, handling
            )
            connector = named.load()
            plugin = connector.task()
            interrupts = Interrupts(str(task))
            boundary = self._boundary(kind, connector_config)
            host = TaskHost(
                id=task,
                config=task_config,
                context=self._context(task, interrupts, split.java_stage, boundary),
                spark=self._spark,
                report=report,
                metrics=self.metrics.begin(task, kind, extension(plugin, Measured).samples),
                topic_used=self._topic_used,
                membership_ok=self._membership_ok,
                interrupts=interrupts,
                retry_budget=RetryBudget(handling.retry_timeout_ms, handling.retry_delay_max_ms),
                redaction=current() or Redaction.of(connector_config, connector.settings.mask(connector_config)),
                paused=paused,
            )
            builder = PipelineBuilder.of(
                self._config, self._plugins, self._engine, connector_config, host, handling, split
            )
            if kind == "source":
                runner = self._source(plugin, host, builder, generation, boundary)
            else:
                runner = self._sink(plugin, host, builder)
            self._tasks[task] = runner
            runner.start()

    def pause(self, task: TaskId) -> None:
        """Pause the task, which will report PAUSED."""
        if task in self._tasks:
            self._tasks[task].pause()

    def resume(self, task: TaskId) -> None:
        """Resume the task, which will report RUNNING."""
        if task in self._tasks:
            self._tasks[task].resume()

    def stop(self, tasks: Collection[TaskId]) -> None:
        """End these tasks; those that do not end in time are abandoned."""
        for one in tasks:
            self.metrics.end(one)
        ending = [self._tasks.pop(task) for task in tasks if task in self._tasks]
        for task in ending:
            task.ask_to_stop()
        until = time.monotonic() + self._config["task.shutdown.graceful.timeout.ms"] / 1000
        for task in ending:
            if not task.join(max(0.0, until - time.monotonic())):
                log.error("Task %s did not end in time and is left to itself; it stores no offsets any more", task.id)
                task.abandon()

    def close(self) -> None:
        """End all tasks; none is started any more."""
        self.stop(list(self._tasks))
        self._spark.off_change(self._engine_changed)

    def _engine_changed(self, _ready: bool) -> None:
        for task in list(self._tasks.values()):
            task.engine_changed()

    def _boundary(self, kind: Kind, connector: Mapping[str, str]) -> Boundary | None:
        return Boundary.of(self._config, connector) if kind == "source" and self._exactly_once is not None else None

    def _context(
        self, task: TaskId, interrupts: Interrupts, java_stage: JavaStage, boundary: Boundary | None
    ) -> TaskContext:
        settings = self._config.for_plugins()
        return TaskContext(
            task.connector,
            task.task,
            StopToken(),
            settings,
            interrupted_by=interrupts.by,
            in_transactions=boundary is not None,
            bounds_transactions=boundary is not None and boundary.by_connector,
            java_stage=java_stage,
        )

    def _source(
        self,
        plugin: SourceTask,
        host: TaskHost,
        builder: PipelineBuilder,
        generation: int | None,
        boundary: Boundary | None,
    ) -> Task:
        offsets, transactions = self._offsets, None
        if self._exactly_once is not None and boundary is not None:
            admission = self._exactly_once.admission(host.id, generation)
            transactions = Transactions(str(host.id), admission, host.stop)
            offsets = TransactionalOffsets(self._exactly_once.offsets, host.id.connector, transactions, boundary)
        output = SourceOutput.of(self._config, builder.connector, host.id.task, transactions)
        return SourceTaskRunner(host, plugin, builder, output, offsets, self._poll_interval)

    def _sink(self, plugin: SinkTask, host: TaskHost, builder: PipelineBuilder) -> Task:
        framework = framework_settings("sink").parse(builder.connector)
        settings = clients.sink_consumer(self._config, builder.connector, host.id.task, self._owner)
        consumer = settings.librdkafka(CLIENT_BYTES, ANSWER_BYTES)
        admin_config = clients.admin(self._config, builder.connector, host.id.task)
        admin = admin_config.librdkafka()
        retry = [topic for topic in [builder.handling.retry_topic] if topic]
        every_s = consumer.get("topic.metadata.refresh.interval.ms", 300_000) / 1000
        named = [*(framework["topics"] or []), *retry]
        closed = InternalTopics.closed_to(host.id.connector, self._config.values)
        subscription = TopicSubscription(named, framework["topics.regex"] or "", every_s, closed)
        # A connector's own name is used unchanged.
        ours = consumer.get(INSTANCE) == instance_id(self._owner, host.id.connector, host.id.task)

        def begun() -> Mapping[str, Any]:
            if not ours:
                return consumer
            return named_by_topics(consumer, lambda: subscription.signature(admin_client(admin)))

        records = SinkInput(
            consumer=begun,
            subscription=subscription,
            positions=Positions(consumer["auto.offset.reset"], whole=retry),
            topic_ids=TopicIds(admin),
            commit_interval_s=self._config["offset.flush.interval.ms"] / 1000,
            largest_record=self._config["sink.max.record.bytes"],
            stable_offsets=partial(stable_offsets, admin, consumer["group.id"]),
            expel=partial(expel, admin_config),
        )
        return SinkTaskRunner(host, plugin, builder, records, self._shared)


def refuse_what_comes_later(connector: Mapping[str, str]) -> None:
    """Errors: ConfigError for settings that this version does not serve."""
    if problems := unserved(connector):
        raise ConfigError(problems, "The connector")
