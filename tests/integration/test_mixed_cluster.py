"""Apache's own worker and ours in one cluster, as real processes: work moves between them, and either leads.

Whatever is compared is what operators see: both REST APIs, the consumer groups of the sinks, and the lines that come
out. Workers are killed only after all that was moved is stored, so that every line must come out exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.cluster_worker import new_cluster
from tests.integration.mixed_cluster import (
    WITHIN_S,
    Mixed,
    Pipe,
    Worker,
    check_well,
    java_worker,
    leader,
    move,
    our_worker,
    statuses,
    wait_shared,
)
from tests.integration.worker_process import eventually

pytestmark = pytest.mark.long


def test_a_java_cluster_moves_over_and_back(broker: str, tmp_path: Path) -> None:
    cluster = new_cluster()
    pipe = Pipe("lines", broker, tmp_path, tasks=2)
    with java_worker(tmp_path / "java", broker, cluster) as java:
        java.wait_ready()
        pipe.create(java)
        wait_shared(pipe.items, [java])
        move([pipe], "Java alone")
        with our_worker(tmp_path / "ours", broker, cluster) as ours:
            ours.wait_ready()
            wait_shared(pipe.items, [java, ours])
            move([pipe], "both")
            check_well(java)
            assert java.stop() == 143, "Java's own for SIGTERM; ours is 0, below"
            wait_shared(pipe.items, [ours])
            move([pipe], "ours alone")
            java.start()
            java.wait_ready()
            wait_shared(pipe.items, [java, ours])
            move([pipe], "both again")
            assert ours.stop() == 0
            wait_shared(pipe.items, [java])
            move([pipe], "Java alone again")
        check_well(java)


@pytest.fixture(scope="module")
def mixed(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    """Everything runs, shared among all three, and Java leads."""
    if not broker_process.is_running:
        broker_process.start()
    mixed = Mixed(tmp_path_factory.mktemp("mixed"), broker_process.bootstrap_servers)
    first, second = mixed.ours
    with mixed.java as java:
        java.wait_ready()
        with first, second:
            first.wait_ready()
            second.wait_ready()
            for pipe, through in zip(mixed.pipes, mixed.ours, strict=True):
                pipe.create(through)
            wait_shared(mixed.items, mixed.workers)
            assert leader(java) == java.url
            yield mixed


def test_everything_runs_once_and_all_workers_show_the_same(mixed: Mixed) -> None:
    move(mixed.pipes, "shared")
    # Java's worker and ours are members of one consumer group: one for each task.
    assert [len(members) for members in mixed.members(mixed.pipes).values()] == [3, 3]
    wait_shared(mixed.items, mixed.workers)
    for pipe in mixed.pipes:
        for path in (f"/connectors/{pipe.source}/topics", f"/connectors/{pipe.sink}/topics"):
            shown = [[used["topics"] for used in worker.get(path).values()] for worker in mixed.workers]
            assert shown == [[[pipe.topic.name]]] * len(mixed.workers)
    for worker in mixed.ours:
        assert list(worker.get("/series")["skipped"]) == [f"{mixed.java.url}/"]
    check_well(mixed.java)


def test_log_levels_are_set_in_the_whole_cluster(mixed: Mixed) -> None:
    paths = [f"/admin/loggers/asked.of.worker{number}" for number in range(len(mixed.workers))]
    for worker, path in zip(mixed.workers, paths, strict=True):
        worker.request("PUT", f"{path}?scope=cluster", {"level": "DEBUG"})

    def levels() -> set[str]:
        shown = [worker.get("/admin/loggers") for worker in mixed.workers]
        return {each.get(path.rpartition("/")[2], {}).get("level") for each in shown for path in paths}

    eventually(lambda: levels() == {"DEBUG"}, WITHIN_S)
    check_well(mixed.java)


def test_every_worker_takes_every_request_while_java_leads(mixed: Mixed) -> None:
    assert leader(mixed.java) == mixed.java.url
    ask_everything(mixed, "javaled")


def test_every_worker_takes_every_request_while_headrace_leads(mixed: Mixed) -> None:
    move(mixed.pipes, "before Java is killed")
    for pipe in mixed.pipes:
        pipe.wait_stored(mixed.ours[0])
    check_well(mixed.java)
    mixed.java.kill()
    wait_shared(mixed.items, mixed.ours)
    move(mixed.pipes, "without Java")
    mixed.java.start()
    mixed.java.wait_ready()
    wait_shared(mixed.items, mixed.workers)
    assert leader(mixed.java) in [worker.url for worker in mixed.ours]
    ask_everything(mixed, "ourled")


def test_java_leads_again_once_ours_are_killed(mixed: Mixed) -> None:
    move(mixed.pipes, "before ours are killed")
    for pipe in mixed.pipes:
        pipe.wait_stored(mixed.java)
    for worker in mixed.ours:
        worker.kill_family()
    wait_shared(mixed.items, [mixed.java])
    assert leader(mixed.java) == mixed.java.url
    move(mixed.pipes, "without ours")
    for worker in mixed.ours:
        worker.start()
        worker.wait_ready()
    wait_shared(mixed.items, mixed.workers)
    assert leader(mixed.java) == mixed.java.url
    move(mixed.pipes, "with ours again")
    assert [len(members) for members in mixed.members(mixed.pipes).values()] == [3, 3]
    check_well(mixed.java)


def ask_everything(mixed: Mixed, about: str) -> None:
    """Each worker is asked to do each thing once, with a pipe of its own, and all of them show that it was done."""
    # Names of their own: the offsets of deleted sources stay.
    extras = [Pipe(f"{about}{n}", mixed.bootstrap, mixed.folder, tasks=2) for n in range(len(mixed.workers))]
    asked = list(zip(mixed.workers, extras, strict=True))
    for through, pipe in asked:
        pipe.create(through)
    wait_all_run(mixed, extras)
    move(extras, about)
    refuse(mixed, asked)
    pause_and_resume(mixed, asked)
    restart(mixed, asked)
    for through, pipe in asked:
        pipe.tasks = 3
        through.request("PUT", f"/connectors/{pipe.sink}/config", pipe.configs[pipe.sink])
        through.request("PATCH", f"/connectors/{pipe.source}/config", {"batch.size": "1000"})
    wait_all_run(mixed, extras)
    shown = [ask(worker, "GET", f"/connectors/{extra.source}") for worker in mixed.workers for extra in extras]
    assert all(one["config"]["batch.size"] == "1000" for one in shown)
    move(extras, f"{about} with more tasks")
    stop_and_set_back(mixed, asked)
    for through, pipe in asked:
        for name in pipe.configs:
            through.request("DELETE", f"/connectors/{name}")
    for _, pipe in asked:
        wait_recorded(mixed, pipe.sink)
    wait_shared(mixed.items, mixed.workers)
    move(mixed.pipes, about)
    check_well(mixed.java)


def wait_recorded(mixed: Mixed, name: str) -> None:
    """Each of ours has every change of the connector's config and state in its history once, also Java's."""
    expected = ["config", "state", "state", "config", "state", "delete"]

    def recorded() -> list[list[str]]:
        shown = [worker.get(f"/connectors/{name}/history") for worker in mixed.ours]
        return [[one["change"] for one in reversed(each) if one["change"] != "offsets"] for each in shown]

    eventually(lambda: recorded() == [expected, expected], WITHIN_S, lambda: str(recorded()))


def refuse(mixed: Mixed, asked: Sequence[tuple[Worker, Pipe]]) -> None:
    """Check that the impossible is refused with the same words, whichever worker is asked and whichever leads."""
    name = asked[0][1].sink
    existing = {"name": name, "config": asked[0][1].configs[name]}
    for method, path, body, status in (
        ("POST", "/connectors", existing, 409),
        ("DELETE", "/connectors/unknown", None, 404),
        ("PUT", "/connectors/unknown/stop", None, 404),
        ("POST", "/connectors/unknown/restart?includeTasks=true", None, 404),
        ("POST", f"/connectors/{name}/tasks/7/restart", None, 404),
        ("DELETE", f"/connectors/{name}/offsets", None, 400),
        ("POST", f"/connectors/{name}/tasks", [], 400),
    ):
        answers = [httpx.request(method, worker.url + path, json=body, timeout=60) for worker in mixed.workers]
        assert [answer.status_code for answer in answers] == [status] * len(answers), answers
        assert all(answer.json() == answers[0].json() for answer in answers), [answer.text for answer in answers]


def pause_and_resume(mixed: Mixed, asked: Sequence[tuple[Worker, Pipe]]) -> None:
    names = [(through, name) for through, pipe in asked for name in pipe.configs]
    for ask, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        for through, name in names:
            through.request("PUT", f"/connectors/{name}/{ask}")
        wait_states(mixed, {name for _, name in names}, state)


def restart(mixed: Mixed, asked: Sequence[tuple[Worker, Pipe]]) -> None:
    """Every connector is restarted, with all its tasks, and then one of its tasks alone."""
    before = mixed.members([pipe for _, pipe in asked])
    for through, pipe in asked:
        for name in pipe.configs:
            shown = through.request("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=false").json()
            assert {one["state"] for one in (shown["connector"], *shown["tasks"])} == {"RESTARTING"}
    pipes = [pipe for _, pipe in asked]

    def restarted(kept: int) -> bool:
        now = mixed.members(pipes)
        return all(len(now[sink]) == len(before[sink]) and len(now[sink] & before[sink]) == kept for sink in before)

    eventually(lambda: restarted(0), WITHIN_S, lambda: f"{before}, then {mixed.members(pipes)}")
    wait_states(mixed, {name for pipe in pipes for name in pipe.configs}, "RUNNING")
    before = mixed.members(pipes)
    for through, pipe in asked:
        through.request("POST", f"/connectors/{pipe.source}/restart")
        for name in pipe.configs:
            through.request("POST", f"/connectors/{name}/tasks/0/restart")
    eventually(lambda: restarted(1), WITHIN_S, lambda: f"{before}, then {mixed.members(pipes)}")
    wait_states(mixed, {name for pipe in pipes for name in pipe.configs}, "RUNNING")


def stop_and_set_back(mixed: Mixed, asked: Sequence[tuple[Worker, Pipe]]) -> None:
    """Stopped connectors have no tasks, and their offsets are what any worker was asked to make them."""
    for through, pipe in asked:
        for name in pipe.configs:
            through.request("PUT", f"/connectors/{name}/stop")
    stopped = {name for _, pipe in asked for name in pipe.configs}
    wait_states(mixed, stopped, "STOPPED")
    for through, pipe in asked:
        assert ask(through, "GET", f"/connectors/{pipe.sink}/tasks") == []
        [read] = ask(through, "GET", f"/connectors/{pipe.source}/offsets")["offsets"]
        wanted = {"offsets": [{"partition": read["partition"], "offset": {"position": 3}}]}
        ask(through, "PATCH", f"/connectors/{pipe.source}/offsets", wanted)
        ask(through, "DELETE", f"/connectors/{pipe.sink}/offsets")
    set_back: list[tuple[list[Any], list[Any]]] = [([{"position": 3}], []) for _ in asked for _ in mixed.workers]
    eventually(lambda: [offsets(worker, pipe) for _, pipe in asked for worker in mixed.workers] == set_back, WITHIN_S)


def ask(worker: Worker, method: str, path: str, body: Any = None) -> Any:
    """The good answer, once the group has no rebalance to come: until then workers refuse."""

    def asked() -> httpx.Response | None:
        answer = httpx.request(method, worker.url + path, json=body, timeout=60)
        return None if "rebalance" in answer.text else answer

    answer: httpx.Response = eventually(asked, WITHIN_S)
    assert answer.is_success, answer.text
    return answer.json()


def offsets(worker: Worker, pipe: Pipe) -> tuple[list[Any], list[Any]]:
    """The offsets of a pipe's source and of its sink, as the worker shows them."""
    read, written = (worker.get(f"/connectors/{name}/offsets")["offsets"] for name in (pipe.source, pipe.sink))
    return [one["offset"] for one in read], [one["offset"] for one in written]


def wait_states(mixed: Mixed, connectors: set[str], state: str) -> None:
    """All workers show this state of these connectors, and of the tasks that they have."""

    def all_are() -> bool:
        shown = [statuses(worker) for worker in mixed.workers]
        states = {one["state"] for each in shown for item, one in each.items() if item.split("-")[0] in connectors}
        return states == {state}

    eventually(all_are, WITHIN_S, lambda: mixed.shown())


def wait_all_run(mixed: Mixed, extras: Sequence[Pipe]) -> None:
    wait_shared(mixed.items.union(*(pipe.items for pipe in extras)), mixed.workers)
