"""Builds the pipeline of one task from its connector's config and the worker's config."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka.admin import NewTopic

from headrace.config.connector import clients
from headrace.config.connector.error_handling import RETRY_TOPIC, ErrorHandling
from headrace.config.connector.topic_creation import TopicCreation
from headrace.config.kafka.client_config import ClientConfig
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Type
from headrace.config.values import read
from headrace.config.worker.allowed_files import check_files
from headrace.config.worker.allowed_hosts import HostUnknown, check_hosts
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.internal_topics import InternalTopics
from headrace.plugins.contracts import Place, SinkTask, SourceTask
from headrace.plugins.errors import RetriableError, StoppedError
from headrace.plugins.extensions import BufferingSink, SourceProgress, extension
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.deadletters.reporting import Reporting
from headrace.worker.deadletters.retry_topic import RetryTopic
from headrace.worker.deadletters.source_records import KeptRecords
from headrace.worker.engine.bounds import Bounds
from headrace.worker.engine.programs import Engine
from headrace.worker.kafka.source_topics import SourceTopics
from headrace.worker.kafka.topic_creation import ensure_task_topic
from headrace.worker.kafka.transactions import Transactions
from headrace.worker.kafka.writer import CLIENT_BYTES
from headrace.worker.pipeline.chain import Chain
from headrace.worker.pipeline.decoding import Decoding
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.java_stage import SinkStage, SourceStage
from headrace.worker.pipeline.placement import SourcePlacement
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.sink import SinkPipeline
from headrace.worker.pipeline.sink_expressions import Projection, SinkExpressions
from headrace.worker.pipeline.source import SourcePipeline
from headrace.worker.pipeline.source_expressions import SourceExpressions
from headrace.worker.pipeline.source_producer import ProducerSettings, SourceProducer, producer_config
from headrace.worker.pipeline.split_transforms import SplitTransforms
from headrace.worker.tasks.host import TaskHost

log = logging.getLogger(__name__)

_TOPIC_REMEDY: Final = (
    "Create the topic, or set errors.deadletterqueue.topic.replication.factor to what the brokers have and let the "
    "task create topics"
)
_CHECKPOINTS: Final = "org.apache.kafka.connect.mirror.MirrorCheckpointTask"


@dataclass(frozen=True)
class SourceOutput:
    """The clients and topic creation of a source task, read from the configs before the task starts."""

    producer: ClientConfig
    admin: Mapping[str, Any]
    """The librdkafka configuration."""
    creation: TopicCreation | None
    """Creates missing topics; None: not by the task."""
    transactions: Transactions | None = None
    """The transactions in which its batches are sent; None: at least once."""

    @classmethod
    def of(
        cls, worker: WorkerConfig, connector: Mapping[str, str], task: int, transactions: Transactions | None = None
    ) -> SourceOutput:
        """Errors: ConfigError."""
        return cls(
            clients.source_producer(worker, connector, task, in_transactions=transactions is not None),
            clients.admin(worker, connector, task).librdkafka(),
            TopicCreation.of(connector) if worker["topic.creation.enable"] else None,
            transactions,
        )

    def open_transactions(self) -> None:
        """Begin the task's transactions, if any: earlier starts of it can commit nothing from now on.

        Errors: as `Transactions.open`.
        """
        if self.transactions is not None:
            config = producer_config(self.producer, self.creation is not None)
            self.transactions.open(ProducerSettings.of(config).config)

    def close_transactions(self) -> None:
        """Send nothing more in transactions."""
        if self.transactions is not None:
            self.transactions.close()


@dataclass(frozen=True)
class PipelineBuilder:
    """Builds the pipeline of one task of a connector; on the task's own thread, except `of`."""

    worker: WorkerConfig
    plugins: Plugins
    engine: Engine
    connector: Mapping[str, str]
    """The connector's config."""
    host: TaskHost
    handling: ErrorHandling
    letters_producer: Mapping[str, Any]
    """The librdkafka configuration of the producer of dead letters."""
    split: SplitTransforms
    """The connector's transforms, by where they run."""

    @classmethod
    def of(
        cls,
        worker: WorkerConfig,
        plugins: Plugins,
        engine: Engine,
        connector: Mapping[str, str],
        host: TaskHost,
        handling: ErrorHandling,
        split: SplitTransforms,
    ) -> PipelineBuilder:
        """Errors: ConfigError."""
        producer: Mapping[str, Any] = {}
        if handling.dead_letters or handling.retry_topic:
            producer = clients.dead_letter_producer(worker, connector, host.id.task).librdkafka(CLIENT_BYTES)
        return cls(worker, plugins, engine, connector, host, handling, producer, split)

    def source(self, task: SourceTask, output: SourceOutput) -> SourcePipeline:
        """Build the pipeline of this started source task. Errors: ConfigError, and those of plugins."""
        scope = self._scope()
        self.engine.say_if_bound(scope.about, self._place(task))
        before = KeptRecords(self._chain.envelope()) if self.handling.dead_letters else None
        java_stage: SourceStage | None = None
        if (java := self._chain.java_stage(is_source=True)) is not None:
            java_stage = SourceStage(scope, task, java, self._chain.transforms(self.split.before), before)
        key, value = self._chain.conversion("key"), self._chain.conversion("value")
        transforms = self._chain.transforms(self.split.on_spark if java_stage is None else self.split.after)
        return SourcePipeline.of(
            scope,
            task,
            SourceEncoding(scope, SourceExpressions(task, key, value, transforms, before, java_stage)),
            SourceProducer(
                output.producer,
                SourceTopics(output.creation, output.admin, scope.stop, self._closed),
                extension(task, SourceProgress).wants_deliveries,
                output.transactions,
            ),
            SourcePlacement(self.engine, task, stays_inline=java_stage is not None or output.transactions is not None),
        )

    def sink(self, task: SinkTask) -> SinkPipeline:
        """Build the pipeline of this started sink task. Errors: as `source`."""
        scope, handling = self._scope(), self.handling
        self.engine.say_if_bound(scope.about, self._place(task))
        to: Projection = task
        java_stage: SinkStage | None = None
        if (java := self._chain.java_stage(is_source=False)) is not None:
            java_stage, to = SinkStage(scope, task, java, self._chain.transforms(self.split.after)), java
        key, value = self._chain.conversion("key"), self._chain.conversion("value")
        transforms = self._chain.transforms(self.split.on_spark if java_stage is None else self.split.before)
        consumer = clients.sink_consumer(self.worker, self.connector, self.host.id.task)
        # Decided: with a login by tokens records are read inline only, because the URLs from which Kafka's Java client
        # may fetch tokens are properties of a JVM, also of executors, which start before any connector; loses: reading
        # by executors.
        options = None if consumer.login.is_by_token else consumer.spark()
        retry = None
        if handling.retry_topic:
            if isinstance(task, BufferingSink):
                why = "This sink has one outcome for all records of a file, so that single ones cannot be tried later"
                raise ConfigError(Problem(RETRY_TOPIC, handling.retry_topic, why, "Remove the setting."))
            retry = RetryTopic(self.host.id.connector, handling, self.letters_producer, scope.stop)
        return SinkPipeline.of(
            scope,
            task,
            Decoding(scope, SinkExpressions(to, transforms), key, value),
            self.host.config["task.class"],
            options,
            retry,
            java_stage,
        )

    def create_topics(self) -> None:
        """Create missing topics of failed records. Errors: RetriableError, TopicError, StoppedError."""
        handling, replicas = self.handling, self.handling.replication_factor
        for topic, what in ((handling.dead_letters, "dead letter queue"), (handling.retry_topic, "retry topic")):
            if topic:
                admin = clients.dead_letter_admin(self.worker, self.connector).librdkafka()
                failed = f"Could not initialize {what} with topic={topic}"
                if ensure_task_topic(admin, NewTopic(topic, 1, replicas), self.host.stop, failed, _TOPIC_REMEDY):
                    log.info("Created the %s %s with 1 partition and %d replicas", what, topic, replicas)

    def create_missing_topics(self) -> None:
        """Call `create_topics` after a failure that a missing topic may have caused; errors can wait.

        Errors: TopicError, LoginRefused.
        """
        with contextlib.suppress(RetriableError, StoppedError):
            self.create_topics()

    @property
    def _chain(self) -> Chain:
        host = self.host
        closes = host.resources.on_close, host.at_end.on_close
        return Chain(self.worker, self.plugins, self.connector, host.context, self.split, *closes)

    def _scope(self) -> TaskScope:
        task, host = self.host.id, self.host
        reporting = Reporting(task.connector, task.task, self.handling, self.letters_producer, host.redaction)
        bounds = Bounds(host.stop, self.worker["batch.transform.timeout.ms"] / 1000, self._steps())
        return TaskScope(str(task), self.engine, bounds, reporting, host.reported, host.metrics.stages)

    def _steps(self) -> str:
        """The transforms and converters of a batch, as errors name them."""
        aliases = read("transforms", Type.LIST, self.connector.get("transforms", ""))
        named = [f"transforms.{one} ({self.connector.get(f'transforms.{one}.type', '')})" for one in aliases]
        return " or ".join([*named, "its converters"])

    def check_reach(self) -> None:
        """Check that the worker allows all hosts and files in the configs. Errors: ConfigError, RetriableError."""
        configs = {**self.connector, **self.host.config}
        check_files(configs, self.host.context.worker)
        try:
            check_hosts(configs, self.host.context.worker)
        except HostUnknown as error:
            raise RetriableError(str(error)) from error

    @property
    def _closed(self) -> InternalTopics:
        closed = InternalTopics.closed_to(self.host.id.connector, self.worker.values)
        return replace(closed, keeps_checkpoints=self.host.config.get("task.class") == _CHECKPOINTS)

    def _place(self, task: SourceTask | SinkTask) -> Place:
        return Place.WORKER_PROCESS if self.split.comes_back else task.place
