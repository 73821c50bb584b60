"""Dead letters of a worker's connectors over REST: looked at, replayed, deleted.

A connector's letters are reached with the login by which it writes them (`producer.override.*`, else `producer.*`), and
deleted with that of its admin client, which creates the topic.

Decided: not with the consumer's login, because a source has none, and both may be of different clusters; loses: that
user needs the rights to read the topic and the group `headrace-dlq-<connector>`, and, to replay, to write to the topics
that the records came from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from headrace.config.connector import clients
from headrace.config.connector.config import consumes
from headrace.config.connector.error_handling import ErrorHandling
from headrace.config.problems import ConfigError
from headrace.config.values import Type, read
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.errors import RetriableError
from headrace.worker.deadletters.letter import Place
from headrace.worker.deadletters.letter_pages import CauseCounts, LetterPage, LetterPages
from headrace.worker.deadletters.letter_topic import Clients, LetterTopic, group_of
from headrace.worker.deadletters.removal import ONLY_BEFORE, Removal, remove
from headrace.worker.deadletters.replay import LONGEST_S, Replay, Wanted
from headrace.worker.errors import BadRequest, Conflict, NotFound
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.kafka.record_text import RecordText
from headrace.worker.logging.logs import connector_context
from headrace.worker.model import Config

if TYPE_CHECKING:
    from headrace.plugins.interop.discovery import Plugins

_AT_ONCE: Final = 4
"""The most requests that read dead letters at the same time; each has a Kafka client."""
_WAIT_S: Final = 20.0
_CLIENT_BYTES: Final = 16 << 20
_MOST_REPLAYED: Final = 10_000
_SIDES: Final = ("key", "value")
_NAMING: Final = ("errors.deadletterqueue.topic.name", "topics", "topics.regex")

Others = Callable[[], Mapping[str, Config]]
"""Returns the configs of all other connectors."""


class DeadLetters:
    """Makes the dead letters of single connectors accessible."""

    def __init__(self, worker: WorkerConfig, plugins: Plugins) -> None:
        self.worker, self.plugins = worker, plugins
        self.readers = threading.BoundedSemaphore(_AT_ONCE)
        self.changing = set[str]()
        self.lock = threading.Lock()

    def of(self, connector: ConnectorDefinition, others: Others) -> ConnectorLetters:
        """Return a connector's dead letters; `others` returns the configs of all other connectors."""
        return ConnectorLetters(self, connector, others)


class ConnectorLetters:
    """The dead letters of one connector."""

    def __init__(self, all_: DeadLetters, connector: ConnectorDefinition, others: Others) -> None:
        self._all, self._connector, self._others = all_, connector, others
        self._name = connector.raw["name"]

    def page(self, limit: int, before: Mapping[int, int] | None) -> LetterPage:
        """Read the newest letters, or the newest before these offsets. Errors: BadRequest, ConnectError."""
        with self._reading() as (topic, config, consumer), self._texts(config) as (key, value):
            try:
                return LetterPages(topic, key, value).page(consumer, limit, before)
            except NotFound:  # it is created with the first task
                return LetterPage([], None)

    def causes(self, most: int) -> CauseCounts:
        """Count the causes of the newest letters. Errors: BadRequest, ConnectError."""
        with self._reading() as (topic, config, consumer), self._texts(config) as (key, value):
            try:
                return LetterPages(topic, key, value).causes(consumer, most)
            except NotFound:
                return CauseCounts(0, True, [])

    def replay(self, cause: str | None, places: Collection[Place]) -> Replay:
        """Send letters that were not replayed yet to the topics they came from: those named, or all.

        Errors: BadRequest, NotFound; Conflict while another request does so; ConnectError.
        """
        with self._changing(), self._reading() as (topic, config, consumer):
            made = Replay(topic, lambda name: self._reads(config, name))
            made.run(consumer, Wanted(cause, places, _MOST_REPLAYED, LONGEST_S))
            return made

    def remove(self, upto: Mapping[int, int] | None) -> Removal:
        """Delete letters up to these offsets, or all. Errors: BadRequest; Conflict if others use the topic."""
        with self._changing(), self._reading() as (topic, _, consumer):
            self._check_alone(topic.name)
            return remove(topic, consumer, upto)

    @contextmanager
    def _reading(self) -> Iterator[tuple[LetterTopic, Mapping[str, str], Any]]:
        """Yield the topic, the connector's config and a consumer. Errors: BadRequest, Conflict, KafkaSilent."""
        redaction = self._connector.redaction()
        with connector_context(self._name, "dead-letters", redaction=redaction), ExitStack() as held:
            try:
                config = self._connector.ready
                topic = self._topic(config)
            except (ConfigError, RetriableError) as error:
                raise BadRequest(redaction.hide(str(error))) from error
            if not self._all.readers.acquire(timeout=_WAIT_S):
                raise Conflict(f"{_AT_ONCE} other requests read dead letters; ask again in a moment")
            held.callback(self._all.readers.release)
            yield topic, config, held.enter_context(topic.opened())

    def _topic(self, config: Mapping[str, str]) -> LetterTopic:
        name = ErrorHandling.of(self._connector.kind, config).dead_letters
        if not name:
            key = "errors.deadletterqueue.topic.name"
            raise BadRequest(f"Connector {self._name} has no dead letter topic: its config does not set {key}")
        worker = self._all.worker
        consumer = clients.dead_letter_consumer(worker, config, group_of(self._name))
        made = Clients(
            consumer.librdkafka(_CLIENT_BYTES),
            clients.dead_letter_producer(worker, config, 0).librdkafka(_CLIENT_BYTES),
            clients.dead_letter_admin(worker, config).librdkafka(),
        )
        return LetterTopic(self._name, name, made)

    @contextmanager
    def _texts(self, config: Mapping[str, str]) -> Iterator[tuple[RecordText, RecordText]]:
        worker, plugins = self._all.worker, self._all.plugins
        settings = self._connector.worker
        with ExitStack() as made:
            sides = [RecordText.of_connector(side, config, worker.originals, plugins, settings) for side in _SIDES]
            for side in sides:
                made.callback(side.close)
            yield sides[0], sides[1]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._all.lock:
            if self._name in self._all.changing:
                raise Conflict(f"Another request replays or deletes dead letters of {self._name}; wait for its end")
            self._all.changing.add(self._name)
        try:
            yield
        finally:
            with self._all.lock:
                self._all.changing.discard(self._name)

    def _reads(self, config: Mapping[str, str], topic: str) -> bool:
        return consumes(topic, read("topics", Type.LIST, config.get("topics", "")), config.get("topics.regex", ""))

    def _check_alone(self, topic: str) -> None:
        """Check that no other connector writes dead letters to the topic, or reads it. Errors: Conflict."""
        for name, raw in self._others().items():
            given = {key: value for key in _NAMING if (value := raw.get(key)) is not None}
            config = self._all.worker.variables.resolve(given)
            if config.get(_NAMING[0], "").strip() == topic or self._reads(config, topic):
                raise Conflict(f"Connector {name} uses the topic {topic}, too, and {ONLY_BEFORE}")
