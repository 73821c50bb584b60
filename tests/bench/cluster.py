"""Distributed workers of one side as a cluster: started, asked over REST, seen by the broker, killed."""

import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import httpx

from tests.bench.context import Run
from tests.bench.processes import Failed, Family, free_port, write_properties
from tests.bench.sides import SAME_FOR_ALL, Side

# The groups of workers and those of sinks; Kafka's consumers would otherwise be missed only after 45 s.
GROUP_TIMES = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "3000"}
START_BOUND_S = 180
STATE_BOUND_S = 120
COUNTED_S = 2.0  # processor time is counted over this long
AT_REST_PCT = 15.0
LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Member:
    """One worker."""

    url: str
    root: subprocess.Popen[bytes]

    @property
    def id(self) -> str:
        """Its name in statuses."""
        return self.url.removeprefix("http://")


@dataclass(frozen=True)
class Part:
    """The state of a connector or of a task, as a status shows it."""

    state: str
    worker: str


class Cluster(Family):
    """Workers of one group, none at first; they have nothing to do until connectors are created."""

    def __init__(
        self, run: Run, side: Side, delay_ms: int = 0, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`delay_ms` is `scheduled.rebalance.max.delay.ms`; `settings`: more of the workers'."""
        super().__init__(side, run.directory, run.bench.broker_pids)
        self.run = run
        self.group = f"{run.name}-group"
        self.members: list[Member] = []
        self._http = httpx.Client(timeout=60)
        self._started = 0
        topics = {f"{kind}.storage.topic": f"{run.name}-{kind}" for kind in ("config", "offset", "status")}
        run.made.extend(topics.values())
        self._settings = {
            **SAME_FOR_ALL,
            "bootstrap.servers": run.bench.topics.bootstrap,
            "group.id": self.group,
            **topics,
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            **GROUP_TIMES,
            **{f"consumer.{key}": value for key, value in GROUP_TIMES.items()},
            "scheduled.rebalance.max.delay.ms": str(delay_ms),
            **side.worker,
            **settings,
        }

    def start(self, count: int) -> Self:
        """So many workers are in the group and have come to rest; one after the other, as the cores are few."""
        for _ in range(count):
            member = self.start_one()
            self.until(lambda m=member: self._is_healthy(m), "a worker healthy", START_BOUND_S, 0.1)  # type: ignore[misc]
            self.wait_at_rest()
        return self

    def start_one(self) -> Member:
        """The process of one more worker."""
        self._started += 1
        directory = self.directory / f"worker-{self._started}"
        directory.mkdir()
        url = f"http://127.0.0.1:{free_port()}"
        properties = write_properties(directory / "worker.properties", {**self._settings, "listeners": url})
        command = [*self.side.command(directory, "distributed"), str(properties)]
        member = Member(url, self.spawn(command, directory / "worker.log"))
        self.members.append(member)
        return member

    def lose(self, member: Member, signal: int) -> float:
        """The worker is no member any more and was sent the signal; when.  It may still take a while to end."""
        self.members.remove(member)
        self.dismiss(member.root)
        at = time.monotonic()
        member.root.send_signal(signal)
        return at

    def wait_at_rest(self) -> None:
        """All workers together use little processor time: what a start leaves to do has been done."""

        def at_rest() -> bool:
            begin = self.cost()
            time.sleep(COUNTED_S)
            return (self.cost() - begin).shares()["cpu_pct"] <= AT_REST_PCT * len(self.members)

        self.until(at_rest, "the workers at rest", START_BOUND_S, 0)

    # -- REST ----------------------------------------------------------------------------------------------------------

    def create(self, connector: Mapping[str, str]) -> None:
        """The connector has been asked for.  Errors: Failed."""
        self._ask("POST", "/connectors", {"name": connector["name"], "config": dict(connector)})

    def delete(self, name: str) -> None:
        """The connector has been removed.  Errors: Failed."""
        self._ask("DELETE", f"/connectors/{name}")

    def parts(self, *names: str) -> dict[str, Part]:
        """The states shown now of these connectors (`name`) and their tasks (`name-0`)."""
        found: dict[str, Part] = {}
        for name in names:
            answer = self._http.get(f"{self.members[0].url}/connectors/{name}/status")
            if answer.is_success:
                status = answer.json()
                shown = {name: status["connector"], **{f"{name}-{t['id']}": t for t in status["tasks"]}}
                found |= {who: Part(one["state"], one["worker_id"]) for who, one in shown.items()}
        return found

    def wait_running(self, tasks: Mapping[str, int]) -> float:
        """Return when these connectors and so many tasks of each were seen RUNNING, shared evenly among all workers."""
        ids = {member.id for member in self.members}
        return self.until(
            lambda: shared(self.parts(*tasks), tasks, ids),
            f"{dict(tasks)} RUNNING and shared among {len(ids)} workers",
            STATE_BOUND_S,
            LOOK_EVERY_S,
        )

    def is_stable(self) -> bool:
        """True if the broker sees the group whole, or empty: no rebalance is under way."""
        return self.run.bench.topics.group(self.group)[0] in ("Stable", "Empty", "Dead")

    def _is_healthy(self, member: Member) -> bool:
        try:
            answer = self._http.get(f"{member.url}/health")
        except httpx.TransportError:
            return False
        return answer.is_success and answer.json().get("status") == "healthy"

    def _ask(self, method: str, path: str, json: Any = None) -> None:
        answer = self._http.request(method, self.members[0].url + path, json=json)
        if not answer.is_success:
            raise Failed(f"{self.side.name}: {method} {path}: {answer.status_code} {answer.text[:300]}")


def shared(parts: Mapping[str, Part], tasks: Mapping[str, int], workers: set[str]) -> bool:
    """True if all is RUNNING, and the tasks lie on these workers alone, on none two more than on another."""
    wanted = {*tasks, *(f"{name}-{n}" for name, count in tasks.items() for n in range(count))}
    if set(parts) != wanted or any(p.state != "RUNNING" or p.worker not in workers for p in parts.values()):
        return False
    loads = Counter(dict.fromkeys(workers, 0))
    loads.update(part.worker for who, part in parts.items() if who not in tasks)
    return max(loads.values()) - min(loads.values()) <= 1
