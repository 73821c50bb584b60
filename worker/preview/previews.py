"""Previews of a worker: two at once, each with a bound in time, in a lane of their own so that no task waits for them.

A preview makes plugins of its own from a config, reads some records, takes them through the chain, and closes all. It
writes nothing: no consumer group, offset, topic, schema or transaction, and it never calls what a plugin writes with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, cast

from headrace.config.connector import clients
from headrace.config.connector.config import framework_settings
from headrace.config.connector.error_handling import ErrorHandling
from headrace.config.connector.topic_creation import TopicCreation
from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.internal_topics import InternalTopics
from headrace.plugins.contracts import Connector, SinkTask, SourceTask, TaskContext
from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.discovery import PluginEntry, Plugins
from headrace.plugins.offsets import SourceOffset, SourcePartition
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.reporting import Reporting
from headrace.worker.engine.bounds import Bounds
from headrace.worker.engine.driver import EngineLost
from headrace.worker.engine.programs import Engine
from headrace.worker.errors import BadRequest, Conflict, ConnectError, Starting, TimedOut
from headrace.worker.hosting.definition import ConnectorDefinition, validated
from headrace.worker.hosting.ports import PluginCatalog
from headrace.worker.kafka.consumer_groups import SinkGroup
from headrace.worker.kafka.writer import CLIENT_BYTES
from headrace.worker.logging.logs import connector_context
from headrace.worker.logging.redaction import Redaction
from headrace.worker.model import Config, Kind
from headrace.worker.pipeline.chain import Chain
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.split_transforms import SplitTransforms
from headrace.worker.preview.differences import compared
from headrace.worker.preview.fetching import Fetching
from headrace.worker.preview.flow import Flow, Progress
from headrace.worker.preview.model import Preview, Wanted
from headrace.worker.preview.sink import SinkPreview
from headrace.worker.preview.source import SourcePreview, SourceReading, envelope_of
from headrace.worker.preview.topics import with_new_topics
from headrace.worker.storage.offset_file import SourceOffsets
from headrace.worker.tasks.host import OpenResources
from headrace.worker.tasks.interrupts import Interrupts

AT_ONCE: Final = 2
LIMIT: Final = "preview.timeout.ms"
_ANSWER_BYTES: Final = 256 << 10
"""Bytes of one answer of a broker to a preview's consumer."""


class WorkerPreviews:
    """`Previews` of one worker."""

    def __init__(
        self,
        worker: WorkerConfig,
        plugins: Plugins,
        catalog: PluginCatalog,
        engine: Engine,
        offsets: SourceOffsets,
    ) -> None:
        """`engine`: of previews alone."""
        self._parts = _Parts(worker, plugins, catalog, engine, offsets)
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def preview(self, config: Config, wanted: Wanted, before: Config | None = None) -> Preview:
        """As `Previews.preview`."""
        if not self._parts.engine.projections.spark.is_ready:
            raise Starting("Spark is not ready yet, and a preview needs it; ask again in a moment")
        if not self._places.acquire(blocking=False):
            raise Conflict(f"{AT_ONCE} previews are running on this worker; ask again in a moment")
        made, run = Future[Preview](), _Run(self._parts, wanted)

        def work() -> None:
            try:
                made.set_result(run.preview(config, before))
            except BaseException as error:  # a plugin's SystemExit would leave the requester waiting
                made.set_exception(error)
            finally:
                self._places.release()

        name = f"preview-{config.get('name')}"
        threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
        limit_s = self._parts.worker[LIMIT] / 1000
        try:
            return made.result(limit_s)
        except TimeoutError:
            if made.done():
                raise
            run.end()
            raise TimedOut(
                f"The preview was given up after {limit_s:g} s ({LIMIT}): {run.progress}. Nothing was changed."
            ) from None


@dataclass(frozen=True)
class _Parts:
    """The parts of a worker that previews need."""

    worker: WorkerConfig
    plugins: Plugins
    catalog: PluginCatalog
    engine: Engine
    offsets: SourceOffsets


@dataclass(frozen=True)
class _Run:
    """One preview, on a thread of its own except `end`."""

    parts: _Parts
    wanted: Wanted
    stop: StopToken = field(default_factory=StopToken)
    progress: Progress = field(default_factory=Progress)
    interrupts: Interrupts = field(default_factory=lambda: Interrupts("preview"))
    resources: OpenResources = field(default_factory=OpenResources)

    def end(self) -> None:
        """Have the work end soon."""
        self.stop.set()
        self.interrupts.begin()
        self.resources.close()

    def preview(self, config: Config, before: Config | None) -> Preview:
        """As `Previews.preview`."""
        at_end = OpenResources()
        try:
            after = self._previewed(config, at_end)
            return after if before is None else compared(self._previewed(before, at_end), after)
        except (ConnectError, StoppedError):
            raise
        except EngineLost as error:
            raise Starting(f"Spark is not ready: {error}") from error
        except Exception as error:
            raise ConnectError(f"The preview failed in {self.progress.stage}: {error}") from error
        finally:
            self.resources.close()
            at_end.close()

    def _previewed(self, config: Config, at_end: OpenResources) -> Preview:
        with self.progress.at("the validation"):
            definition = validated(self.parts.catalog, config)
        redaction = definition.redaction()
        with connector_context(definition.raw["name"], "preview", redaction=redaction):
            try:
                preview = _Previewed.of(self, definition, at_end, redaction).preview()
            except ConfigError as error:
                raise BadRequest(redaction.hide(str(error))) from error
            except (ConnectError, StoppedError, EngineLost):
                raise
            except Exception as error:
                text = redaction.hide(f"{type(error).__name__}: {error}")
                raise ConnectError(f"The preview failed in {self.progress.stage}: {text}") from error
            shown: Preview = _without_secrets(preview, redaction.hide)  # Invariant 6
            return shown


@dataclass(frozen=True)
class _Previewed:
    """One config of a preview."""

    run: _Run
    connector: Mapping[str, str] = field(repr=False)
    plugin: type[Connector]
    kind: Kind
    handling: ErrorHandling
    java_converters: Sequence[str]
    context: TaskContext
    chain: Chain
    flow: Flow

    @classmethod
    def of(cls, run: _Run, definition: ConnectorDefinition, at_end: OpenResources, redaction: Redaction) -> _Previewed:
        """Make what its chain needs. Errors: ConfigError."""
        parts, connector, kind = run.parts, definition.ready, definition.kind
        name = connector["name"]
        named = parts.plugins.chosen(kind, connector["connector.class"], connector)
        handling = ErrorHandling.of(kind, connector)
        split = SplitTransforms.of(name, connector, parts.worker.originals, named, parts.plugins, handling)
        java_converters = tuple(split.java_stage.converters) if kind == "source" else ()
        split = _split(split, named, kind == "source")

        def stored(partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
            return [parts.offsets.get(name, partition) for partition in partitions]

        context = TaskContext(
            name,
            0,
            run.stop,
            parts.worker.for_plugins(),
            stored_offsets=stored,
            interrupted_by=run.interrupts.by,
            java_stage=split.java_stage,
        )
        closes = run.resources.on_close, at_end.on_close
        chain = Chain(parts.worker, parts.plugins, connector, context, split, *closes)
        reporting = Reporting(name, 0, handling, {}, redaction)
        bounds = Bounds(run.stop, parts.worker[LIMIT] / 1000)
        scope = TaskScope(f"the preview of {name}", parts.engine, bounds, reporting)
        flow = Flow(scope, chain.envelope(), run.progress)
        return cls(run, connector, named.load(), kind, handling, java_converters, context, chain, flow)

    def preview(self) -> Preview:
        """Preview it. Errors: BadRequest, ConnectError; those of every part."""
        return self._sink() if self.kind == "sink" else self._source()

    def _sink(self) -> Preview:
        worker, wanted = self.run.parts.worker, self.run.wanted
        if wanted.sample is not None:
            raise BadRequest("A sink's records come from its topics: a sample is for sources.")
        settings = framework_settings("sink").parse(self.connector)
        consumer = clients.sink_consumer(worker, self.connector, 0).librdkafka(CLIENT_BYTES, _ANSWER_BYTES)
        fetching = Fetching(consumer, self.run.stop)
        self.run.resources.on_close(fetching.close)
        with self.run.progress.at("the look for topics"):
            closed = InternalTopics.closed_to(self.connector["name"], worker.values)
            topics, regex = settings["topics"] or [], settings["topics.regex"] or ""
            partitions = fetching.partitions(topics, regex, closed)
            begins = fetching.begins(
                wanted.begin, wanted.records, partitions, lambda: SinkGroup(worker, self.connector).offsets()
            )
        with self.run.progress.at("the reading of records"):
            fetched = fetching.fetch(begins, partitions, wanted.records)
        task = cast(SinkTask, self.plugin.task())
        return SinkPreview(self.flow, self.chain, task, self.connector, self.context).of(fetched)

    def _source(self) -> Preview:
        wanted = self.run.wanted
        previewed = SourcePreview(self.flow, self.chain, self.java_converters, self._with_topics)
        if wanted.sample is not None:
            return previewed.of_sample(wanted.sample, self.chain.envelope(envelope_of(wanted.sample)))
        if wanted.begin not in ("stored", "earliest"):
            raise BadRequest(f"from={wanted.begin}: a source is read from stored or earliest.")
        task = cast(SourceTask, self.plugin.task())
        reading = SourceReading(task, self.flow, self.connector, self.context, wanted.begin == "stored")
        with reading.opened():
            return previewed.of_rows(task, reading.read(wanted.records))

    def _with_topics(self, preview: Preview) -> Preview:
        worker = self.run.parts.worker
        creation = TopicCreation.of(self.connector) if worker["topic.creation.enable"] else None
        admin = clients.admin(worker, self.connector, 0).librdkafka()
        with self.run.progress.at("the look for topics"):
            return with_new_topics(preview, creation, admin, self.handling)


def _split(split: SplitTransforms, plugin: PluginEntry, is_source: bool) -> SplitTransforms:
    """The chain as a preview runs it: Java's converters of a source may register schemas, so they do not run."""
    stage = replace(split.java_stage, converters={}) if is_source else split.java_stage
    comes_back = bool(stage) if is_source or not plugin.from_jar else split.comes_back
    return replace(split, java_stage=stage, comes_back=comes_back)


def _without_secrets(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {key: _without_secrets(one, hide) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(one, hide) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        changed = {one.name: _without_secrets(getattr(value, one.name), hide) for one in fields(value)}
        return replace(value, **changed)
    return value
