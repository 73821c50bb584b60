"""Herder of a worker in a cluster: acts itself, writes to the config topic, or names another worker.

Any worker answers requests that read, from the topics' contents as it knows them, and pauses and resumes. Only the
leader changes configs; only the worker that runs a connector or a task restarts it alone: others raise `Elsewhere`, and
REST forwards the request. While the group rebalances, requests that need it stable wait, `REQUEST_SECONDS` at most.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.worker.errors import AlreadyExists, BadRequest, Conflict, ConnectError, Elsewhere, NotFound, TimedOut
from headrace.worker.group.membership import Membership
from headrace.worker.herder.answers import StatusAnswers
from headrace.worker.herder.leader_duties import LeaderDuties
from headrace.worker.herder.member import Member, RebalanceTimeouts
from headrace.worker.herder.rebalance_gate import RebalanceGate
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.herder.services import HerderServices
from headrace.worker.herder.task_publishing import TaskPublishing
from headrace.worker.herder.zombie_fencing import ZombieFencing
from headrace.worker.hosting.connector import STOP_SECONDS
from headrace.worker.hosting.connectors import LocalConnectors
from headrace.worker.hosting.definition import ConnectorDefinition, patched, validated
from headrace.worker.hosting.herder_loop import REQUEST_SECONDS, HerderLoop
from headrace.worker.hosting.measures import RebalanceTimes
from headrace.worker.hosting.own_groups import check_own_group
from headrace.worker.hosting.restart_plan import restart_plan, shown
from headrace.worker.hosting.task_restarts import TaskRestarts
from headrace.worker.hosting.tasks import LocalTasks
from headrace.worker.hosting.work import LocalWork
from headrace.worker.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    Health,
    Offset,
    Signed,
    TargetState,
    TaskId,
    TaskInfo,
)
from headrace.worker.requester import as_asked
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.signing import SessionKey, verify

if TYPE_CHECKING:  # it needs Kafka's client
    from headrace.worker.herder.dead_letters import ConnectorLetters

T = TypeVar("T")

LEAVE_SECONDS: Final = 5.0


class DistributedHerder(StatusAnswers):
    """Decides together with the other workers of its group."""

    not_yet = "read the connectors of its cluster from the config topic"

    def __init__(
        self,
        services: HerderServices,
        config_topic: ConfigTopic,
        membership: Membership,
        client: RestClient | None,
        fencing: ZombieFencing | None = None,
        other_workers: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`client` posts task configs to the leader; None if workers do not listen for one another.

        `fencing`: None if no source may be exactly-once. `other_workers`: as the method.
        """
        super().__init__(services)
        worker_id, statuses, settings = services.worker_id, services.statuses, services.settings
        self._config = config_topic
        self._membership = membership
        self._fencing = fencing
        self._other_workers = other_workers
        self._verifying = settings["inter.worker.verification.algorithms"]
        self._loop = HerderLoop("DistributedHerder")
        self._gate = RebalanceGate(self._loop)
        self._publishing = TaskPublishing(self._loop, services.plugins, config_topic, membership, client)
        self._local = LocalWork(
            worker_id,
            services.plugins,
            statuses,
            LocalConnectors(
                worker_id,
                statuses,
                self._publishing.publish,
                services.connector_starts,
                services.offset_changes.stored,
            ),
            LocalTasks(worker_id, services.tasks, statuses, TaskRestarts(settings, self._loop)),
            self._publishing.publish,
        )
        self._duties = LeaderDuties(config_topic, statuses, settings)
        timeouts = RebalanceTimeouts.of(settings)
        self._member = Member(
            membership, config_topic, statuses, self._local, self._duties, self._loop, self._gate, timeouts
        )

    @property
    def session_key(self) -> SessionKey | None:
        return self._config.snapshot().session_key

    def other_workers(self) -> Sequence[str]:
        return self._other_workers()

    @property
    def rebalances(self) -> RebalanceTimes:
        """Rebalances of the worker's group."""
        return self._member.rebalances

    def on_role(self, listener: Callable[[bool], None]) -> None:
        """Call `listener` when this worker begins to lead its group (True) or to follow (False).

        It is called on the deciding thread, and must not wait.
        """
        self._member.on_role = listener

    def start(self) -> None:
        """Join the group; call it after the topics have been read to their ends and `know` has been called."""
        self._config.follow(self._member.changed)
        self._membership.start(self._member.heard)

    def tick(self) -> None:
        """Show the group that decisions are taken, and renew the session key; call it every second or so."""
        self._loop.do("ticking", self._tick)

    def _tick(self) -> None:
        self._membership.ticked()
        if self._gate.is_open and self._membership.is_leader:
            self._duties.keep_key(self._config.snapshot())

    # Reading, from any thread.

    def health(self, timeout_seconds: float = 10) -> Health:
        return self._loop.health(self._member.joined, timeout_seconds)

    def connectors(self) -> list[str]:
        return list(self._cluster.connectors)

    def connector_info(self, name: str) -> ConnectorInfo:
        cluster = self._cluster
        config = self._config_of(cluster, name)
        return ConnectorInfo(name, config, list(cluster.tasks(name)), self._kind(config))

    def task_infos(self, name: str) -> list[TaskInfo]:
        cluster = self._cluster
        self._config_of(cluster, name)
        return [TaskInfo(task, cluster.task_config(task)) for task in cluster.tasks(name)]

    def offsets(self, name: str) -> Sequence[Offset]:
        return self._offset_changes.shown(self.definition(name))

    def offsets_at(self, name: str, at_ms: int) -> Sequence[Offset]:
        return self._offset_changes.at(self.definition(name), at_ms)

    def definition(self, name: str) -> ConnectorDefinition:
        cluster = self._cluster
        self._config_of(cluster, name)
        return ConnectorDefinition.of(name, cluster, self.plugins)

    def kind_of(self, name: str) -> str:
        config = self._cluster.connectors.get(name)
        return "unknown" if config is None else self._kind(config)

    # Requests that the leader decides.

    def create(self, name: str, config: Config, target: TargetState = TargetState.STARTED) -> ConnectorInfo:
        wanted = validated(self.plugins, config, target)

        def write() -> ConnectorInfo:
            if name in self._cluster.connectors:
                raise AlreadyExists(f"Connector {name} already exists")
            check_own_group(name, config, self._cluster.connectors, self.plugins)
            self._config.put_connector(name, config, target)
            return ConnectorInfo(name, config, [], wanted.kind, wanted.unread)

        return self._led(f"creating connector {name}", write)

    def configure(self, name: str, config: Config) -> tuple[bool, ConnectorInfo]:
        wanted = validated(self.plugins, config)

        def write() -> tuple[bool, ConnectorInfo]:
            check_own_group(name, config, self._cluster.connectors, self.plugins)
            created = name not in self._cluster.connectors
            self._config.put_connector(name, config, TargetState.STARTED if created else None)
            return created, ConnectorInfo(name, config, list(self._cluster.tasks(name)), wanted.kind, wanted.unread)

        return self._led(f"configuring connector {name}", write)

    def patch(self, name: str, changes: Config) -> ConnectorInfo:
        base = self._led(f"patching connector {name}", lambda: self._config_of(self._cluster, name))
        merged = patched(base, changes)
        wanted = validated(self.plugins, merged)

        def write() -> ConnectorInfo:
            if self._config_of(self._cluster, name) != base:
                raise Conflict(f"The config of connector {name} was changed by another request; patch it again")
            check_own_group(name, merged, self._cluster.connectors, self.plugins)
            self._config.put_connector(name, merged)
            return ConnectorInfo(name, merged, list(self._cluster.tasks(name)), wanted.kind, wanted.unread)

        return self._led(f"patching connector {name}", write)

    def delete(self, name: str) -> None:
        def write() -> None:
            self._config_of(self._cluster, name)
            self._config.remove_connector(name)

        self._led(f"deleting connector {name}", write)

    def stop_connector(self, name: str) -> None:
        def write() -> None:
            self._known(name, "Unknown connector ")
            self._config.put_stopped(name)

        self._led(f"stopping connector {name}", write)

    def restart_with(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorState:
        def write() -> ConnectorState:
            config = self._known(name)
            plan = restart_plan(self.statuses, name, self._cluster.tasks(name), include_tasks, only_failed)
            state = shown(self.statuses, name, plan, self._kind(config))
            self._config.put_restart(name, include_tasks, only_failed)
            return state

        return self._led(f"restarting connector {name}", write)

    def put_task_configs(self, name: str, configs: Sequence[Config], request: Signed) -> None:
        verify(request, self._cluster.session_key, self._verifying)
        given = [{key: value for key, value in config.items() if value is not None} for config in configs]

        def write() -> None:
            self._config_of(self._cluster, name)
            self._config.put_tasks(name, given)

        self._led(f"writing the tasks of connector {name}", write)

    def fence_zombies(self, name: str, request: Signed) -> None:
        verify(request, self._cluster.session_key, self._verifying)

        def is_source() -> None:
            if self._kind(self._config_of(self._cluster, name)) != "source":
                raise BadRequest(f"Connector {name} is not a source connector")

        self._led(f"fencing the former tasks of connector {name}", is_source)
        self._fence(name)

    def dead_letters_to_change(self, name: str) -> ConnectorLetters:
        return self._led(f"changing the dead letters of connector {name}", lambda: self.dead_letters(name))

    # Requests that any worker decides.

    def pause(self, name: str) -> None:
        self._known(name, "Unknown connector ")
        self._config.put_target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._known(name, "Unknown connector ")
        self._config.put_target(name, TargetState.STARTED)

    def set_cluster_level(self, namespace: str, level: str) -> None:
        self.check_known()  # else Kafka might create the config topic with wrong settings
        self._config.put_level(namespace, level)

    # Requests that the owner decides: the worker that runs the connector or task.

    def restart(self, name: str) -> None:
        def begin() -> Future[TargetState]:
            self._known(name)
            self._check_owned(name, self._member.work.connectors)
            return self._local.restart_connector(name, self._cluster)

        try:
            self._gate.ask(f"restarting connector {name}", begin).result(REQUEST_SECONDS)
        except (NotFound, Conflict, TimedOut):
            raise
        except Exception as error:
            raise ConnectError(f"Failed to start connector: {name}") from error

    def restart_task(self, task: TaskId) -> None:
        def begin() -> None:
            self._known(task.connector)
            if task not in self._cluster.tasks(task.connector):
                raise NotFound(f"Unknown task: {task}")
            self._check_owned(task, self._member.work.tasks)
            if not self._local.restart_tasks([task], self._cluster):
                raise ConnectError(f"Failed to start task: {task}")

        self._gate.ask(f"restarting task {task}", begin)

    # The end.

    def drain(self) -> None:
        self._loop.wait(self._loop.ask("leaving the group", self._leave))

    def stop(self) -> None:
        self._loop.wait(self._loop.ask("leaving the group", self._leave))
        self._publishing.stop()
        self._loop.stop(STOP_SECONDS)

    def _leave(self) -> None:
        self._member.leave(LEAVE_SECONDS)

    @property
    def _cluster(self) -> ClusterConfig:
        return self._config.snapshot()

    def _led(self, doing: str, write: Callable[[], T]) -> T:
        """Run `write` on the deciding thread as the leader, and wait for its answer. Errors: Elsewhere; its own."""

        def decide() -> T:
            if not self._membership.is_leader:
                raise Elsewhere(self._membership.leader_url)
            return write()

        return self._gate.ask(doing, as_asked(decide))

    def _check_owned(self, who: str | TaskId, mine: Collection[str | TaskId]) -> None:
        if who in mine:
            return
        leads = self._membership.is_leader
        raise Elsewhere(self._membership.owner_of(who) if leads else self._membership.leader_url)

    def _stopped(self, name: str) -> ConnectorDefinition:
        """Return the connector, which the leader must know as STOPPED. Errors: NotFound; BadRequest; Elsewhere."""

        def stopped() -> ConnectorDefinition:
            configured = self.definition(name)
            configured.check_stopped()
            return configured

        return self._led(f"changing the offsets of connector {name}", stopped)

    def _changeable(self, name: str) -> ConnectorDefinition:
        """Return `_stopped(name)` after fencing a source's former tasks. Errors: as `_stopped`; ConnectError."""
        connector = self._stopped(name)
        if self._fencing is not None and connector.kind == "source":
            self._fence(name)
        return connector

    def _fence(self, name: str) -> None:
        if self._fencing is None:
            raise ConnectError(
                f"This worker leads, and cannot fence the tasks of exactly-once source {name}. Set "
                "exactly.once.source.support to enabled, or to the same value on all workers"
            )
        self._fencing.fence(name)

    def _config_of(self, cluster: ClusterConfig, name: str) -> Config:
        try:
            return cluster.connectors[name]
        except KeyError:
            raise NotFound(f"Connector {name} not found") from None

    def _known(self, name: str, text: str = "Unknown connector: ") -> Config:
        config = self._cluster.connectors.get(name)
        if config is None:
            raise NotFound(text + name)
        return config

    def _kind(self, config: Config) -> str:
        return self.plugins.kind(config.get("connector.class") or "") or "unknown"
