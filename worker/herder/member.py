"""A worker's part in its cluster: follows its group's assignments and the changes of the config topic.

    Assigned -> stop revoked work -> read the config topic as far as the leader had -> start new work
    a change in the config topic -> follow it here, or request a rebalance
    Lost -> stop everything

Changes in a row share a rebalance (`RebalanceBudget`); until then the group is stable.

Work begins only if this worker's configuration is exactly the one that was assigned: the offset of the config topic is
the cluster's clock. All of this is decided on the herder's thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.worker.errors import ConnectError
from headrace.worker.group.membership import Assigned, Lost, Membership
from headrace.worker.group.protocol import Assignment
from headrace.worker.herder.leader_duties import LeaderDuties
from headrace.worker.herder.rebalance_budget import RebalanceBudget
from headrace.worker.herder.rebalance_gate import RebalanceGate
from headrace.worker.hosting.connectors_and_tasks import ConnectorsAndTasks
from headrace.worker.hosting.herder_loop import HerderLoop, note_errors
from headrace.worker.hosting.measures import RebalanceTimes
from headrace.worker.hosting.restart_plan import restart_plan
from headrace.worker.hosting.work import LocalWork
from headrace.worker.logging import logs
from headrace.worker.model import TargetState
from headrace.worker.storage.cluster_config import (
    ClusterConfig,
    ConnectorChanged,
    ConnectorRemoved,
    Event,
    LevelChanged,
    RestartAsked,
    TargetChanged,
    TasksChanged,
)
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.statuses import StatusStore

log = logging.getLogger(__name__)

_TRIES: Final = 5
"""Failed reads of the config topic after which the worker stops its work, as in Connect."""
_AGAIN_S: Final = 1.0
_AIMS: Final = {TargetState.STARTED: "resumed", TargetState.PAUSED: "paused", TargetState.STOPPED: "stopped"}


@dataclass(frozen=True)
class RebalanceTimeouts:
    """A member's waiting times during a rebalance, in seconds."""

    sync_s: float
    """`worker.sync.timeout.ms`: for reading the config topic as far as the leader had."""
    delay_s: float
    """`scheduled.rebalance.max.delay.ms`."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RebalanceTimeouts:
        """Read the time-outs from a worker's parsed settings."""
        return cls(settings["worker.sync.timeout.ms"] / 1000, settings["scheduled.rebalance.max.delay.ms"] / 1000)


class Member:
    """Follows the group and the config topic; only `heard` and `changed` may be called off the deciding thread."""

    def __init__(
        self,
        membership: Membership,
        config: ConfigTopic,
        statuses: StatusStore,
        local: LocalWork,
        duties: LeaderDuties,
        decider: HerderLoop,
        gate: RebalanceGate,
        timeouts: RebalanceTimeouts,
    ) -> None:
        """`gate`: opened while the group is stable."""
        self._membership = membership
        self._config = config
        self._statuses = statuses
        self._local = local
        self._duties = duties
        self._loop = decider
        self._gate = gate
        self._timeouts = timeouts
        self._work = ConnectorsAndTasks()
        self._assignment: Assignment | None = None
        self._changes: deque[tuple[Event, int]] = deque()
        self._known: frozenset[str] = frozenset()
        self._unreadable = 0
        self._timer: threading.Timer | None = None
        self._budget = RebalanceBudget()
        self._gathering: threading.Timer | None = None
        self._leads: bool | None = None
        self.on_role: Callable[[bool], None] = lambda _leads: None
        """Called in a stable group when this worker begins to lead it (True) or to follow (False)."""
        self.rebalances = RebalanceTimes()
        self.joined = threading.Event()
        """Set once the worker has its first assignment."""

    @property
    def work(self) -> ConnectorsAndTasks:
        """Connectors and tasks assigned to this worker and not revoked."""
        return self._work

    # Events, from other threads.

    def heard(self, event: Assigned | Lost) -> None:
        """Follow an event of the group; its next rebalance waits until then."""
        if isinstance(event, Assigned):
            self._loop.do("taking over the assignment of the group", lambda: self._assigned(event))
        else:
            self._loop.do("stopping all work, being no member of the group", lambda: self._lost(event))

    def changed(self, event: Event, offset: int) -> None:
        """Follow a change of the config topic."""
        self._changes.append((event, offset))
        self._loop.do("following a change of the configuration", self._follow)

    # The group.

    def _assigned(self, event: Assigned) -> None:
        try:
            rejoin = self._took_over(event)
        except Exception:
            log.exception("The assignment of generation %d could not be taken over, joining again", event.generation)
            self._membership.back_off(_AGAIN_S)
            rejoin = True
        self._acknowledge(rejoin)
        if not rejoin:
            self._take_role(event.is_leader)
        self._schedule(event.assignment.delay_ms / 1000)

    def _take_role(self, leads: bool) -> None:
        if leads is not self._leads:
            self._leads = leads
            self.on_role(leads)

    def _took_over(self, event: Assigned) -> bool:
        """Follow an assignment; returns True if another round is needed."""
        assignment = self._assignment = event.assignment
        self.rebalances.ended()
        self._unschedule()
        if not event.is_leader:
            self._config.lead(False)
        given = ConnectorsAndTasks.of(assignment.connectors, assignment.tasks)
        revoked = ConnectorsAndTasks.of(assignment.revoked_connectors, assignment.revoked_tasks)
        _tell_moves(event.generation, self._work, given, revoked)
        self._local.stop(revoked)
        self._work = self._work.without(revoked).with_(given)
        if not self._read_to(assignment):
            return True
        self._follow()
        cluster = self._config.snapshot()
        if assignment.error or cluster.offset != assignment.offset:
            log.info("The assignment is for offset %d of the config topic, not %d", assignment.offset, cluster.offset)
            return True
        # Kafka's own tests look for this line, for "Joined group" and for "Kafka version".
        log.info("Starting connectors and tasks using config offset %d", cluster.offset)
        self._known = frozenset(cluster.connectors)
        self._forget_deleted(revoked, cluster)
        self._local.start(self._work.without(self._local.running), cluster)
        if event.is_leader:
            self._config.lead(True)
            self._duties.clean_up(cluster)
            self._duties.keep_key(cluster)
        # Revoked work needs a next round, which assigns it to other workers; deleted work does not.
        return bool(revoked.connectors & self._known) or any(
            task in cluster.tasks(task.connector) for task in revoked.tasks
        )

    def _forget_deleted(self, revoked: ConnectorsAndTasks, cluster: ClusterConfig) -> None:
        """Remove statuses of deleted work: UNASSIGNED may have been written after the leader had removed them."""
        for name in revoked.connectors - cluster.connectors.keys():
            self._statuses.forget(name)
        for task in revoked.tasks:
            if task not in cluster.tasks(task.connector):
                self._statuses.forget(task)

    def _lost(self, event: Lost) -> None:
        log.warning("Stopping all work: %s", event.why)
        self._gate.close()
        self._unschedule()
        self._leads = None
        self._config.lead(False)
        self._local.stop(self._local.running)
        # Claim the work on joining: if nobody took it, it needs no delay then; if another did, it is revoked from both.
        self._membership.acknowledge(self._allocation())

    def _read_to(self, assignment: Assignment) -> bool:
        """Read the configuration as far as the leader had; returns False on failure, and delays the next join."""
        if self._config.snapshot().offset >= assignment.offset and not assignment.error:
            return True
        try:
            self._config.refresh(self._timeouts.sync_s)
        except ConnectError as error:
            self._unreadable += 1
            pause_s = self._timeouts.delay_s / 10 / max(1, _TRIES - self._unreadable)
            log.warning("The config topic cannot be read (%s); joining the group again in %.0f s", error, pause_s)
            if self._unreadable >= _TRIES:
                self._local.stop(self._local.running)
                self._work, self._unreadable = ConnectorsAndTasks(), 0
            self._gate.close()
            self._membership.back_off(pause_s)
            return False
        self._unreadable = 0
        return True

    def _acknowledge(self, rejoin: bool) -> None:
        """Allow the next rebalance, and request it if `rejoin`; called once for each event of the group."""
        if rejoin:
            self.rejoin()
        self._membership.acknowledge(self._allocation())
        if not rejoin and not self._gate.is_open:
            self.joined.set()
            self._gate.open()

    def _allocation(self) -> Assignment | None:
        if self._assignment is None:
            return None
        return self._assignment.holding(sorted(self._work.connectors), sorted(self._work.tasks))

    def rejoin(self) -> None:
        """Request a rebalance."""
        self._gate.close()
        self.rebalances.began()
        self._membership.rejoin()

    def _schedule(self, delay_s: float) -> None:
        if delay_s <= 0:
            return
        self._timer = threading.Timer(delay_s, lambda: self._loop.do("joining the scheduled rebalance", self.rejoin))
        self._timer.daemon = True
        self._timer.start()

    def _unschedule(self) -> None:
        for timer in (self._timer, self._gathering):
            if timer is not None:
                timer.cancel()
        self._timer = self._gathering = None

    def _rejoin_for_changes(self) -> None:
        """Request a rebalance now, or, if the budget is spent, later for all changes until then."""
        if self._gathering is not None:
            return
        if (wait_s := self._budget.wait_s()) == 0:
            self.rejoin()
            return

        def gathered() -> None:
            if self._gathering is timer:  # no rebalance came meanwhile
                self._gathering = None
                self._rejoin_for_changes()

        doing = "joining with the changes of the configuration that were gathered"
        self._gathering = timer = threading.Timer(wait_s, lambda: self._loop.do(doing, gathered))
        timer.daemon = True
        timer.start()

    # The config topic.

    def _follow(self) -> None:
        rejoin = False
        while self._changes:
            event, offset = self._changes.popleft()
            rejoin |= self._apply(event, self._is_newer(offset))
        if rejoin:
            self._rejoin_for_changes()

    def _is_newer(self, offset: int) -> bool:
        """True if the last assignment was made without the change that ends at `offset`."""
        return self._assignment is None or offset > self._assignment.offset

    def _apply(self, event: Event, newer: bool) -> bool:
        """Follow a change; returns True if it needs a rebalance."""
        cluster = self._config.snapshot()
        match event:
            case ConnectorChanged(name) if name in self._known:
                log.info("Connector %s is reconfigured", name)
                self._connector_changed(name, cluster)
            case ConnectorChanged(name):
                log.info("Connector %s is created", name)
                return newer
            case ConnectorRemoved(name):
                log.info("Connector %s is deleted", name)
                return newer
            case TasksChanged(name):
                return self._tasks_changed(name, cluster, newer)
            case TargetChanged(name):
                if name in cluster.connectors:
                    log.info("Connector %s is %s", name, _AIMS[cluster.targets[name]])
                    self._local.retarget(name, cluster)
            case RestartAsked():
                self._restart(event, cluster)
            case LevelChanged(namespace, level):
                logs.set_level(namespace, level)
        return False

    def _connector_changed(self, name: str, cluster: ClusterConfig) -> None:
        if name in self._work.connectors & self._local.running.connectors and name in cluster.connectors:
            there = self._local.restart_connector(name, cluster)
            note_errors(there, f"restarting connector {name} with its new configuration")

    def _tasks_changed(self, name: str, cluster: ClusterConfig, newer: bool) -> bool:
        """End the running tasks before the rebalance, so that no two generations overlap; returns `newer`."""
        mine = ConnectorsAndTasks.of((), [task for task in self._local.running.tasks if task.connector == name])
        self._local.stop(mine)
        if not newer:
            still = mine.tasks & self._work.tasks & frozenset(cluster.tasks(name))
            self._local.start(ConnectorsAndTasks.of((), still), cluster)
        return newer

    def _restart(self, asked: RestartAsked, cluster: ClusterConfig) -> None:
        if asked.name not in cluster.connectors:
            return
        tasks = cluster.tasks(asked.name)
        plan = restart_plan(self._statuses, asked.name, tasks, asked.include_tasks, asked.only_failed)
        here = plan.common(self._local.running)
        if not here:
            return
        log.info("Restarting %s", here)
        self._local.stop(here)
        self._local.show_restarting(here, cluster)
        self._local.start(here, cluster)

    # The end.

    def leave(self, timeout_s: float) -> None:
        """End all work and leave the group, so that others get the work at once."""
        self._gate.end()
        self._unschedule()
        self._local.stop(self._local.running)
        self._work, self._assignment = ConnectorsAndTasks(), None
        self._membership.leave(timeout_s)


def _tell_moves(
    generation: int, had: ConnectorsAndTasks, given: ConnectorsAndTasks, revoked: ConnectorsAndTasks
) -> None:
    if came := given.without(had):
        log.info("Generation %d gives this worker %s", generation, came)
    if revoked:
        log.info("Generation %d takes %s from this worker", generation, revoked)
    if not came and not revoked:
        log.info("Generation %d changes nothing on this worker", generation)
