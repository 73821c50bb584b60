"""Zombie fencing of exactly-once sources: ends the producers of a connector's former tasks before new ones begin.

    a task begins -> its worker asks the leader
    the leader, once for each commit of task configs -> fences the producers of all former tasks
                                                     -> writes how many there will be to fence the next time

A task that begins after that, and sees in the config topic that its configs are the newest, is the only one that
writes with its `transactional.id` (`kafka/transactions.py`).
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, Producer

from headrace.config.connector import clients
from headrace.config.kafka.client_config import ClientConfig
from headrace.config.variables import Variables
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.settings import TASKS_BOUND
from headrace.plugins.errors import RetriableError
from headrace.worker.errors import ConnectError
from headrace.worker.group.membership import Membership
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.model import Config, TaskId
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.signing import SessionKey

_AT_ONCE: Final = 8
"""Producers fenced at the same time."""
_FENCED_S: Final = 30.0
"""Longest time to fence one producer."""
_CLIENT_BYTES: Final = 1 << 20
_READ_S: Final = 30.0
"""Longest time to read the config topic to its end."""

FenceProducers = Callable[[Config, int], None]
"""Fences the producers of the first tasks, by their count, of a connector with this config. Errors: ConnectError."""


class ZombieFencing:
    """The leader's part; waits for Kafka, so any thread but the deciding one may call it."""

    def __init__(self, config: ConfigTopic, fence_producers: FenceProducers) -> None:
        self._config = config
        self._fence_producers = fence_producers
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def fence(self, name: str) -> None:
        """Fence the connector's former tasks, unless done since its task configs were written.

        Errors: Conflict if new configs are written meanwhile; ConnectError.
        """
        with self._locks[name]:  # concurrent callers find it done
            cluster = self._config.refresh(_READ_S)
            if name not in cluster.pending_fencing:
                return
            generation, count = cluster.generations.get(name), len(cluster.tasks(name))
            former = cluster.fencing_counts.get(name, 0)
            if former and (former, count) != (1, 1):  # a single task is fenced by its successor's start
                self._fence_producers(cluster.connectors[name], former)
            self._config.put_fencing(name, count, generation)


@dataclass(frozen=True)
class TaskAdmissions:
    """Makes the admission (a `transactions.FencingCheck`) for each start of a task."""

    config: ConfigTopic
    membership: Membership
    fencing: ZombieFencing
    client: RestClient | None
    """Posts to the leader; None if workers do not listen for one another."""

    def of(self, task: TaskId, generation: int | None) -> TaskAdmission:
        """Make the admission of a task with configs of this generation."""
        return TaskAdmission(self, task, generation)


@dataclass(frozen=True)
class TaskAdmission:
    """Checks of one task, on its own thread."""

    cluster: TaskAdmissions
    task: TaskId
    generation: int | None

    def fence(self) -> None:
        """Have the producers of the connector's former tasks fenced. Errors: RetriableError."""
        name, membership = self.task.connector, self.cluster.membership
        try:
            if membership.is_leader:
                self.cluster.fencing.fence(name)
            else:
                self._client().fence(self._leader_url(), name, self._key())
        except ConnectError as error:
            raise RetriableError(f"the former tasks of {name} could not be fenced: {error}") from error

    def check(self) -> None:
        """Check that this task may still run.

        Errors: ConnectError if there are newer task configs; RetriableError if that cannot be known, or if this worker
        is no member of the group.
        """
        try:
            cluster = self.cluster.config.refresh(_READ_S)
        except ConnectError as error:
            raise RetriableError(f"whether {self.task} is still to run cannot be known: {error}") from error
        begin = f"Cannot start source task {self.task} with exactly-once support as the connector has already"
        if cluster.generations.get(self.task.connector) != self.generation:
            raise ConnectError(f"{begin} generated a new set of task configs")
        if not self.cluster.membership.is_current():
            raise RetriableError(
                f"{self.task} may have been given to another worker; this one is no member of the group"
            )

    def _client(self) -> RestClient:
        if self.cluster.client is None:
            raise ConnectError("workers do not listen for one another")
        return self.cluster.client

    def _leader_url(self) -> str:
        if (url := self.cluster.membership.leader_url) is None:
            raise ConnectError("the leader is not known yet")
        return url

    def _key(self) -> SessionKey | None:
        return self.cluster.config.snapshot().session_key


def producer_fencing(worker: WorkerConfig, variables: Variables) -> FenceProducers:
    """Make a function that fences with the tasks' producer settings; `variables` resolve connectors' configs."""

    def fence(config: Config, count: int) -> None:
        if count > (most := worker[TASKS_BOUND.name]):
            raise ConnectError(
                f"the config topic counts {count} former tasks of {config['name']}, and this worker allows a connector "
                f"{most}: raise {TASKS_BOUND.name} of every worker, or make the connector anew under another name"
            )
        connector = variables.resolve({key: value for key, value in config.items() if value is not None})
        made = [clients.source_producer(worker, connector, task, in_transactions=True) for task in range(count)]
        with ThreadPoolExecutor(_AT_ONCE, "fencing") as pool:
            for task, begun in enumerate([pool.submit(_fence_producer, one) for one in made]):
                try:
                    begun.result()
                except KafkaException as raised:
                    why = f"the producer of former task {config['name']}-{task} cannot be fenced"
                    raise ConnectError(f"{why}: {raised.args[0].str()}") from raised

    return fence


def _fence_producer(client: ClientConfig) -> None:
    """Abort open transactions of this `transactional.id`, whose producers can send no more. Errors: KafkaException."""
    log = logging.getLogger(f"{__name__}.client")
    Producer(client.librdkafka(_CLIENT_BYTES), logger=log).init_transactions(_FENCED_S)
