"""Internal topics of a cluster: their settings; each is created or checked before it is read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, NewTopic

from headrace.config.connector import clients
from headrace.config.kafka.client_config import ClientConfig
from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.history import HISTORY_REPLICATION, HISTORY_TOPIC
from headrace.config.worker.settings import INTERNAL_TOPICS_MADE
from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.plugins.stopping import StopToken
from headrace.worker.errors import ConnectError, TimedOut
from headrace.worker.kafka.admin import REQUEST_TIMEOUT_S, answered
from headrace.worker.kafka.errors import NOT_FOR_THIS_CLIENT, RETRIABLE
from headrace.worker.kafka.rights import missing_acl
from headrace.worker.kafka.topic_creation import ensure_topic

log = logging.getLogger(__name__)

T = TypeVar("T")

_BACKOFF: Final = Backoff(0.1, 1.0)
_METADATA_S: Final = 30.0
_SAY_EVERY_S: Final = 10.0


@dataclass(frozen=True)
class TopicSettings:
    """Settings of one internal topic: its name, how to create it, and its clients' configurations."""

    topic: str
    setting: str
    """The worker setting that names it."""
    purpose: str
    """Its content, named in messages."""
    partitions: int
    """-1: the brokers' default."""
    replication_factor: int
    configs: Mapping[str, str]
    consumer: ClientConfig
    producer: ClientConfig
    admin: ClientConfig
    one_partition: bool = False
    """True if the order of all its records matters."""
    may_create: bool = True
    """False if a missing topic is an error."""

    @classmethod
    def of(cls, worker: WorkerConfig, kind: Literal["config", "offset", "status"]) -> TopicSettings:
        """Read the topic's settings from a distributed worker's `<kind>.storage.*`.

        Errors: ConfigError if its clients' settings cannot be served.
        """
        client, purpose = _KINDS[kind]
        if worker.originals.get(f"{kind}.storage.cleanup.policy", "compact") != "compact":
            log.warning("Ignoring '%s.storage.cleanup.policy': the topic is always created with compact.", kind)
        return cls(
            worker[f"{kind}.storage.topic"],
            f"{kind}.storage.topic",
            purpose,
            1 if kind == "config" else worker[f"{kind}.storage.partitions"],
            worker[f"{kind}.storage.replication.factor"],
            worker.storage_topic_config(kind),
            clients.internal_consumer(worker, client),
            clients.internal_producer(worker, client),
            clients.internal_admin(worker),
            one_partition=kind == "config",
            may_create=worker[INTERNAL_TOPICS_MADE.name],
        )

    @classmethod
    def of_history(cls, worker: WorkerConfig) -> TopicSettings:
        """Read the settings of a distributed worker's history topic.

        Errors: ConfigError if its clients' settings cannot be served.
        """
        return cls(
            worker[HISTORY_TOPIC],
            HISTORY_TOPIC,
            "the history of connectors",
            1,
            worker[HISTORY_REPLICATION],
            {},
            clients.internal_consumer(worker, "history"),
            clients.internal_producer(worker, "history"),
            clients.internal_admin(worker),
            one_partition=True,
            may_create=worker[INTERNAL_TOPICS_MADE.name],
        )


_KINDS: Final[Mapping[str, tuple[clients.InternalTopic, str]]] = {
    "config": ("configs", "connector configurations"),
    "offset": ("offsets", "source connector offsets"),
    "status": ("statuses", "connector and task statuses"),
}


class Budget:
    """A deadline for waiting; a set `stopping` ends the wait, too."""

    def __init__(self, seconds: float, stopping: StopToken, waited_for: str) -> None:
        self._until = time.monotonic() + seconds
        self._stopping = stopping
        self._waited_for = waited_for
        self._said = time.monotonic()

    def part(self, seconds: float) -> Budget:
        """Return a budget that ends after `seconds`, or with this one."""
        return Budget(min(seconds, self.left()), self._stopping, self._waited_for)

    def left(self, why: str = "") -> float:
        """Return the seconds left. Errors: TimedOut (with `why`) if there are none; StoppedError."""
        if self._stopping.is_set():
            raise StoppedError(f"{self._waited_for}: the worker is stopping")
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimedOut(f"Timed out while {self._waited_for}{': ' if why else ''}{why}")
        return left

    def pause(self, seconds: float, why: str) -> None:
        """Sleep for `seconds`, at most until the deadline; logs `why` every ten seconds. Errors: as `left`."""
        if time.monotonic() - self._said >= _SAY_EVERY_S:
            self._said = time.monotonic()
            log.warning("Still %s: %s", self._waited_for, why)
        self._stopping.wait(min(seconds, self.left(why)))

    def result(self, future: Future[Any]) -> Any:
        """Wait for the future's result. Errors: as `left`; what the future raises."""
        return answered(future, self.left)


def asked(ask: Callable[[], Mapping[Any, Future[Any]]], budget: Budget) -> dict[Any, Any]:
    """Return all answers to an admin request, repeated after retriable errors. Errors: KafkaException; as `Budget`."""
    return _retried(lambda: {key: budget.result(future) for key, future in ask().items()}, budget)


def _retried(act: Callable[[], T], budget: Budget, advice: Mapping[int, str] | None = None) -> T:
    """`advice`: further codes that are retried, and what to do about them."""
    advised = advice or {}
    failures = 0
    while True:
        try:
            return act()
        except KafkaException as raised:
            error = raised.args[0]
            if error.code() not in RETRIABLE | advised.keys():
                raise
        failures += 1
        budget.pause(_BACKOFF.pause(failures), f"{error.str()} {advised.get(error.code(), '')}".rstrip())


def prepare(settings: TopicSettings, budget: Budget) -> list[int]:
    """Create the topic, or check that it is compacted; returns its partitions.

    Errors: ConfigError if it cannot be used; ConnectError if it cannot be created or described; as `Budget`.
    """
    admin = admin_client(settings.admin.librdkafka())
    if not settings.may_create:
        _check_there(admin, settings, budget)
    if not settings.may_create or not _created(admin, settings, budget):
        _check_policy(admin, settings, budget)
    partitions = _partitions(admin, settings, budget)
    if settings.one_partition and len(partitions) > 1:
        message = (
            f"Topic '{settings.topic}' supplied via the '{settings.setting}' property is required to have a single "
            f"partition in order to guarantee consistency of {settings.purpose}, but found {len(partitions)} "
            "partitions."
        )
        raise ConfigError(Problem(settings.setting, settings.topic, message, "Name a topic with one partition."))
    return partitions


def _check_there(admin: Any, settings: TopicSettings, budget: Budget) -> None:
    def missing() -> bool:
        topics = TopicCollection([settings.topic])
        try:
            budget.result(admin.describe_topics(topics, request_timeout=REQUEST_TIMEOUT_S)[settings.topic])
        except KafkaException as raised:
            if raised.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return True
            raise
        return False

    try:
        if not _retried(missing, budget):
            return
    except KafkaException:
        return  # what follows tells of it
    message = (
        f"Topic '{settings.topic}' specified via the '{settings.setting}' property is missing. The config "
        f"'{INTERNAL_TOPICS_MADE.name}' is set to 'false', so automatic creation of internal topics is disabled."
    )
    partitions = "one partition" if settings.one_partition else "as many partitions as you like"
    remedy = f"Either enable it or create the topic with 'cleanup.policy=compact' and {partitions}."
    raise ConfigError(Problem(settings.setting, settings.topic, message, remedy))


def _created(admin: Any, settings: TopicSettings, budget: Budget) -> bool:
    configs = {**settings.configs, "cleanup.policy": "compact"}
    new = NewTopic(settings.topic, settings.partitions, settings.replication_factor, config=configs)
    # The missing brokers may still be starting.
    factor = settings.setting.replace(".topic", ".replication.factor")
    too_few = {KafkaError.INVALID_REPLICATION_FACTOR: f"Start the missing brokers, or set {factor} to a lower number."}
    try:
        if not _retried(lambda: ensure_topic(admin, new, budget.left), budget, too_few):
            return False
    except KafkaException as raised:
        error = raised.args[0]
        if error.code() in NOT_FOR_THIS_CLIENT:
            log.info("Topic %s cannot be created (%s): assuming that it exists", settings.topic, error.str())
            return False
        raise ConnectError(f"Unable to create topic(s) '{settings.topic}': {error.str()}") from raised
    log.info("Created topic %s for %s", settings.topic, settings.purpose)
    return True


def _check_policy(admin: Any, settings: TopicSettings, budget: Budget) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, settings.topic)
    try:
        found = asked(lambda: admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S), budget)
    except KafkaException as raised:
        log.info("The cleanup policy of topic %s cannot be read: %s", settings.topic, raised.args[0].str())
        return
    policy = found[resource]["cleanup.policy"].value
    if policy == "compact":
        return
    message = (
        f"Topic '{settings.topic}' supplied via the '{settings.setting}' property is required to have "
        f"'cleanup.policy=compact' to guarantee consistency and durability of {settings.purpose}, but found the topic "
        f"currently has 'cleanup.policy={policy}'. Continuing would likely result in eventually losing "
        f"{settings.purpose} and problems restarting this Connect cluster in the future."
    )
    remedy = (
        f"Change the '{settings.setting}' property in the Connect worker configurations to use a topic with "
        "'cleanup.policy=compact'."
    )
    raise ConfigError(Problem(settings.setting, settings.topic, message, remedy))


def _partitions(admin: Any, settings: TopicSettings, budget: Budget) -> list[int]:
    unseen = (
        f"Could not look up partition metadata for topic '{settings.topic}' in the allotted period. This could "
        "indicate a connectivity issue, unavailable topic partitions, or if this is your first use of the topic it may "
        "have taken too long to create."
    )
    within = budget.part(_METADATA_S)
    topics = TopicCollection([settings.topic])
    try:
        found = asked(lambda: admin.describe_topics(topics, request_timeout=REQUEST_TIMEOUT_S), within)
    except TimedOut as error:
        raise ConnectError(unseen) from error
    except KafkaException as raised:
        # Without Describe, an existing topic looks missing.
        refusal, needed = raised.args[0], "Read, Write and, to create it, Create"
        hint = missing_acl(refusal.code(), needed, [settings.topic]) or refusal.str()
        raise ConnectError(f"{unseen} {hint}") from raised
    return sorted(partition.id for partition in found[settings.topic].partitions)
