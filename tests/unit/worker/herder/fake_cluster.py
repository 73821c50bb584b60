"""A cluster in one process: herders of several workers over topics in memory and a group that needs no broker.

What is real: the herders, their members, the folds of the topics, the assignor and the bytes of the group protocol.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

from headrace.worker.group.leading import LeaderAssignment
from headrace.worker.group.membership import Assigned, Lost
from headrace.worker.group.protocol import Assignment, Subscription
from headrace.worker.herder.distributed import DistributedHerder
from headrace.worker.herder.services import HerderServices
from headrace.worker.herder.topic_tracking import TopicTracking
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.model import Signed, TaskId
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.signing import ALGORITHM_HEADER, SIGNATURE_HEADER, SessionKey
from headrace.worker.storage.status_topic import KafkaStatusStore
from tests.unit.worker.herder.test_standalone import FakeKafka, FakeLetters, FakeOffsets, FakePlugins, FakeTasks
from tests.unit.worker.storage.fake_topic import CONFIG, FakeLog


class FakeMembership:
    """Takes part in a `FakeGroup`."""

    def __init__(self, group: FakeGroup, url: str, cluster: Callable[[], Any]) -> None:
        self.group, self.url = group, url
        self.lead = LeaderAssignment(url, cluster, group.max_delay_ms)
        self.on_event: Callable[[Any], None] | None = None
        self.allocation: Assignment | None = None
        self.given: Assignment | None = None
        self.generation = -1
        self.unacknowledged = 0
        self.wanted = False
        self.member_id = f"member-{url}"

    @property
    def is_leader(self) -> bool:
        return self.given is not None and self.given.leader == self.member_id

    @property
    def leader_url(self) -> str | None:
        return self.given.leader_url if self.given is not None else None

    def owner_of(self, item: str | TaskId) -> str | None:
        return self.lead.owners.get(item)

    def is_current(self) -> bool:
        return True

    def start(self, on_event: Callable[[Any], None]) -> None:
        self.on_event = on_event
        with self.group.changed:
            self.group.members.append(self)
            self.rejoin()

    def ticked(self) -> None:
        pass

    def acknowledge(self, allocation: Assignment | None) -> None:
        with self.group.changed:
            self.allocation = allocation
            self.unacknowledged -= 1
            self.group.changed.notify_all()

    def rejoin(self) -> None:
        with self.group.changed:
            self.wanted = True
            self.group.changed.notify_all()

    def back_off(self, seconds: float) -> None:
        pass

    def leave(self, timeout_s: float) -> None:
        with self.group.changed:
            if self in self.group.members:
                self.group.members.remove(self)
                self.group.rebalance()

    def lose(self) -> None:
        """The worker learns that it is no member, and joins again."""
        with self.group.changed:
            self.given, self.generation = None, -1
            self.unacknowledged += 1
        assert self.on_event is not None
        self.on_event(Lost("the test says so"))
        self.rejoin()


class FakeGroup:
    """Runs a round whenever a member wants one and nobody is still busy with the last."""

    def __init__(self, max_delay_ms: int, configs: FakeLog) -> None:
        self.max_delay_ms = max_delay_ms
        self.configs = configs
        self.members: list[FakeMembership] = []
        self.changed = threading.Condition()
        self.generation = 0
        self.ended = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def rebalance(self) -> None:
        """Everybody joins again."""
        for member in self.members:
            member.wanted = True
        self.changed.notify_all()

    def _due(self) -> bool:
        busy = any(member.unacknowledged for member in self.members)
        return self.ended or (not busy and any(member.wanted for member in self.members))

    def _run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(self._due)
            with self.configs.lock, self.changed:  # no worker joins between two records of one write
                if self.ended:
                    return
                events = self._round() if self._due() else []
            for member, event in events:
                assert member.on_event is not None
                member.on_event(event)

    def _round(self) -> list[tuple[FakeMembership, Assigned]]:
        last, self.generation = self.generation, self.generation + 1
        said = {}
        for member in self.members:
            member.wanted = False
            said[member.member_id] = Subscription(member.url, member.lead.look(), member.allocation).encode()
        leader = self.members[0]
        told = leader.lead.assignments(leader.member_id, last, self.generation, said)
        events = []
        for member in self.members:
            member.given = Assignment.decode(told[member.member_id])
            member.generation = self.generation
            member.unacknowledged += 1
            events.append((member, Assigned(self.generation, member.member_id, member.given, member is leader)))
        return events


class FakeClient:
    """Posts task configs to the worker that answers at the url, signed as ever."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster

    def post_tasks(self, url: str, connector: str, configs: Sequence[Mapping[str, str]], key: SessionKey) -> None:
        body = json.dumps([dict(config) for config in configs]).encode()
        headers = key.sign(body)
        request = Signed(body, headers[SIGNATURE_HEADER], headers[ALGORITHM_HEADER])
        self.cluster.at(url).herder.put_task_configs(connector, json.loads(body), request)


class FakeWorker:
    """One worker: its herder, and what it runs."""

    def __init__(self, cluster: FakeCluster, number: int) -> None:
        self.id = f"host:{number}"
        self.url = f"http://{self.id}/"
        self.tasks = FakeTasks()
        self.config = ConfigTopic(CONFIG)
        self.config_follows = self.config._topic = cluster.configs.open(None, self.config._take)  # type: ignore[assignment, arg-type]
        self.membership = FakeMembership(cluster.group, self.url, self.config.snapshot)
        self.statuses = KafkaStatusStore(CONFIG, self.membership, cluster.statuses.open)
        services = HerderServices(
            self.id,
            CONFIG.values,
            FakeKafka(),
            FakePlugins(),  # type: ignore[arg-type]
            self.tasks,
            self.statuses,
            TopicTracking(self.statuses, CONFIG.values),
            FakeOffsets(),  # type: ignore[arg-type]
            StartupCounter(),
            FakeLetters(),  # type: ignore[arg-type]
            Mock(),
        )
        self.herder = DistributedHerder(
            services,
            self.config,
            self.membership,  # type: ignore[arg-type]
            FakeClient(cluster),  # type: ignore[arg-type]
        )

    def start(self) -> None:
        self.statuses.start(1)
        self.config.start(1)
        self.herder.know()
        self.herder.start()

    def stop(self) -> None:
        self.herder.stop()
        self.config.stop()
        self.statuses.stop()

    @property
    def running(self) -> set[str]:
        """Its tasks."""
        return {str(task) for task in self.tasks.running}


class FakeCluster:
    """Workers that share topics and a group."""

    def __init__(self, max_delay_ms: int = 0) -> None:
        self.configs, self.statuses = FakeLog(), FakeLog()
        self.group = FakeGroup(max_delay_ms, self.configs)
        self.workers: list[FakeWorker] = []

    def add(self, on_role: Callable[[bool], None] | None = None) -> FakeWorker:
        """One more worker, joining."""
        worker = FakeWorker(self, 8083 + len(self.workers))
        if on_role is not None:
            worker.herder.on_role(on_role)
        self.workers.append(worker)
        worker.start()
        return worker

    def at(self, url: str) -> FakeWorker:
        return next(worker for worker in self.workers if worker.url == url)

    @property
    def leader(self) -> FakeWorker:
        return next(worker for worker in self.workers if worker.membership.is_leader)

    @property
    def follower(self) -> FakeWorker:
        return next(worker for worker in self.workers if not worker.membership.is_leader)


@contextmanager
def fake_cluster(workers: int, max_delay_ms: int = 0) -> Iterator[FakeCluster]:
    """So many workers, joining."""
    cluster = FakeCluster(max_delay_ms)
    try:
        for _ in range(workers):
            cluster.add()
        yield cluster
    finally:
        for worker in cluster.workers:
            worker.stop()
        with cluster.group.changed:
            cluster.group.ended = True
            cluster.group.changed.notify_all()
