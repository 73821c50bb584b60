"""Herders of several workers of a cluster, over topics and a group in memory."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest

from headrace.worker.errors import AlreadyExists, BadRequest, ConnectError, Elsewhere, NotFound
from headrace.worker.model import Signed, State, Status, TargetState, TaskId
from tests.unit.worker.herder.fake_cluster import FakeCluster, fake_cluster
from tests.unit.worker.herder.test_standalone import CONFIG, SECONDS, Scripted, until


@pytest.fixture(autouse=True)
def forgotten_connectors() -> None:
    Scripted.forget()


def config(name: str, **more: str) -> dict[str, str]:
    return {**CONFIG, "name": name, **more}


def settled(cluster: FakeCluster, **tasks: int) -> None:
    """Every connector runs once, and so many tasks of it, evenly shared."""

    def settled_now() -> bool:
        running = [task for worker in cluster.workers for task in worker.running]
        wanted = Counter({f"{name}-{number}": 1 for name, count in tasks.items() for number in range(count)})
        shares = [len(worker.running) for worker in cluster.workers]
        states = cluster.workers[0].statuses
        connectors = all((status := states.get(name)) is not None and status.state is State.RUNNING for name in tasks)
        return Counter(running) == wanted and max(shares) - min(shares) <= 1 and connectors

    until(settled_now)


def everywhere(cluster: FakeCluster, name: str) -> list[Any]:
    return [worker.herder.connector_state(name) for worker in cluster.workers]


def test_one_worker_runs_what_is_created() -> None:
    with fake_cluster(1) as cluster:
        herder = cluster.workers[0].herder
        info = herder.create("c", config("c"))
        assert (info.tasks, info.type) == ([], "sink")
        settled(cluster, c=2)
        assert [str(task) for task in herder.connector_info("c").tasks] == ["c-0", "c-1"]
        assert herder.task_infos("c")[1].config["part"] == "1"
        assert herder.health(1).status == "healthy"
        with pytest.raises(AlreadyExists):
            herder.create("c", config("c"))
        herder.delete("c")
        until(lambda: not cluster.workers[0].running)
        until(lambda: cluster.workers[0].statuses.get("c") is None)
        with pytest.raises(NotFound):
            herder.connector_info("c")


def test_work_is_shared_and_each_worker_sees_all_of_it() -> None:
    with fake_cluster(3) as cluster:
        until(lambda: any(worker.membership.is_leader for worker in cluster.workers))
        for name in ("a", "b", "c"):
            cluster.leader.herder.create(name, config(name))
        settled(cluster, a=2, b=2, c=2)
        owners = {state.connector.worker_id for name in "abc" for state in everywhere(cluster, name)}
        assert owners == {worker.id for worker in cluster.workers}


def test_a_worker_that_comes_takes_a_share_and_what_stays_is_not_interrupted() -> None:
    with fake_cluster(1) as cluster:
        first = cluster.workers[0]
        for name in ("a", "b"):
            first.herder.create(name, config(name))
        settled(cluster, a=2, b=2)
        started = len(first.tasks.starts)
        cluster.add()
        settled(cluster, a=2, b=2)
        assert len(first.tasks.starts) == started
        first.stop()
        cluster.workers.remove(first)
        settled(cluster, a=2, b=2)


def test_what_only_the_leader_does_is_elsewhere_for_others() -> None:
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        follower, leader = cluster.follower, cluster.leader
        for ask in (
            lambda: follower.herder.create("c", config("c")),
            lambda: follower.herder.configure("c", config("c")),
            lambda: follower.herder.delete("c"),
            lambda: follower.herder.stop_connector("c"),
            lambda: follower.herder.restart_with("c", include_tasks=True, only_failed=False),
        ):
            with pytest.raises(Elsewhere) as raised:
                ask()
            assert raised.value.url == leader.url


def test_a_restart_is_for_the_owner_and_the_leader_knows_it() -> None:
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        for name in ("a", "b"):
            cluster.leader.herder.create(name, config(name))
        settled(cluster, a=2, b=2)
        leader, follower = cluster.leader, cluster.follower
        theirs = next(iter(follower.tasks.running))
        with pytest.raises(Elsewhere) as raised:
            leader.herder.restart_task(theirs)
        assert raised.value.url == follower.url
        before = len(follower.tasks.starts)
        follower.herder.restart_task(theirs)
        assert len(follower.tasks.starts) == before + 1
        with pytest.raises(NotFound, match="Unknown task: a-7"):
            leader.herder.restart_task(TaskId("a", 7))


def test_a_new_config_reaches_the_tasks() -> None:
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        leader = cluster.leader.herder
        leader.create("c", config("c"))
        settled(cluster, c=2)
        created, info = leader.configure("c", {**config("c"), "of": "y", "tasks.max": "3"})
        assert (created, info.config["of"]) == (False, "y")
        settled(cluster, c=3)
        assert {start[2]["of"] for worker in cluster.workers for start in worker.tasks.starts[-1:]} == {"y"}
        patched = leader.patch("c", {"tasks.max": "1", "of": None})
        assert "of" not in patched.config
        settled(cluster, c=1)
        until(lambda: sorted(leader.connector_state("c").tasks) == [0])


def test_any_worker_pauses_and_resumes() -> None:
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        cluster.leader.herder.create("c", config("c"))
        settled(cluster, c=2)
        follower = cluster.follower.herder
        follower.pause("c")
        until(lambda: {task.state for task in follower.connector_state("c").tasks.values()} == {State.PAUSED})
        until(lambda: follower.connector_state("c").connector.state is State.PAUSED)
        follower.resume("c")
        settled(cluster, c=2)
        until(lambda: {task.state for task in follower.connector_state("c").tasks.values()} == {State.RUNNING})
        with pytest.raises(NotFound, match="Unknown connector x"):
            follower.pause("x")


def test_what_happens_to_a_connector_is_named_at_info(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), fake_cluster(1) as cluster:
        herder = cluster.workers[0].herder
        herder.create("c", config("c"))
        settled(cluster, c=2)
        herder.configure("c", config("c", more="1"))
        until(lambda: "Connector c is reconfigured" in caplog.messages)
        acts = {
            "paused": herder.pause,
            "resumed": herder.resume,
            "stopped": herder.stop_connector,
            "deleted": herder.delete,
        }
        for said, act in acts.items():
            act("c")
            until(lambda said=said: f"Connector c is {said}" in caplog.messages)  # type: ignore[misc]
        assert caplog.messages.count("Connector c is created") == 1
        moves = [text for text in caplog.messages if text.startswith("Generation ")]
        assert any("gives this worker tasks [c-0, c-1]" in text for text in moves)
        assert not any("[]" in text for text in moves)


def test_a_stopped_connector_has_no_tasks_and_its_offsets_may_change() -> None:
    with fake_cluster(1) as cluster:
        herder = cluster.workers[0].herder
        herder.create("c", config("c"))
        settled(cluster, c=2)
        with pytest.raises(BadRequest, match="must be in the STOPPED state"):
            herder.reset_offsets("c")
        herder.stop_connector("c")
        until(lambda: herder.connector_state("c").connector.state is State.STOPPED)
        until(lambda: not herder.connector_state("c").tasks)
        assert herder.connector_info("c").tasks == []
        assert herder.reset_offsets("c") == "reset"
        herder.resume("c")
        settled(cluster, c=2)


def test_what_a_resume_makes_of_a_connector_that_is_stopped_meanwhile_is_nothing() -> None:
    """A connector that is slow to start, as those of jars are, used to get back the tasks that its stop had removed."""
    with fake_cluster(1) as cluster:
        (worker,) = cluster.workers
        herder = worker.herder
        herder.create("c", config("c"))
        settled(cluster, c=2)
        herder.pause("c")
        until(lambda: herder.connector_state("c").connector.state is State.PAUSED)
        Scripted.hold = threading.Event()
        herder.resume("c")
        until(lambda: Scripted.begun == 2)
        worker.config_follows.lags = True  # what any worker writes arrives later than what the leader waits for
        herder.stop_connector("c")
        Scripted.hold.set()
        until(lambda: herder.connector_state("c").connector.state is not State.PAUSED)
        herder.health(SECONDS)  # it has decided over the tasks of the connector that has started
        worker.config_follows.start(1)
        until(lambda: herder.connector_state("c").connector.state is State.STOPPED)
        until(lambda: not herder.connector_state("c").tasks)
        assert herder.connector_info("c").tasks == []
        assert herder.reset_offsets("c") == "reset"


def test_the_last_of_states_that_are_asked_for_at_once_is_reached(caplog: pytest.LogCaptureFixture) -> None:
    wanted = {"pause": State.PAUSED, "resume": State.RUNNING, "stop_connector": State.STOPPED}
    with fake_cluster(1) as cluster:
        herder = cluster.workers[0].herder

        def is_there(state: State, count: int) -> bool:
            seen, info = herder.connector_state("c"), herder.connector_info("c")
            states = [seen.connector.state, *(task.state for task in seen.tasks.values())]
            return states == [state] * (1 + count) and len(info.tasks) == count

        herder.create("c", config("c"))
        settled(cluster, c=2)
        Scripted.slow_s = 0.02
        for asked in itertools.product(wanted, repeat=2):
            for act in asked * 2:
                getattr(herder, act)("c")
            state = wanted[asked[1]]
            # A stop has taken the tasks away, and only the next resume brings them back.
            count = 0 if "stop_connector" in asked and state is not State.RUNNING else 2
            until(lambda: is_there(state, count))  # noqa: B023
            herder.resume("c")
            until(lambda: is_there(State.RUNNING, 2))
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_connector_can_begin_stopped() -> None:
    with fake_cluster(1) as cluster:
        herder = cluster.workers[0].herder
        herder.create("c", config("c"), TargetState.STOPPED)
        until(lambda: (status := herder.statuses.get("c")) is not None and status.state is State.STOPPED)
        assert herder.connector_info("c").tasks == []


def test_a_deletion_needs_one_rebalance() -> None:
    """A second one would wait for the heartbeat of each worker that lost nothing."""
    names = [f"c{number}" for number in range(11)]
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        for name in names:
            cluster.leader.herder.create(name, config(name))
        settled(cluster, **dict.fromkeys(names, 2))
        before = cluster.group.generation
        for left in range(10, 0, -1):
            cluster.leader.herder.delete(names[left])
            settled(cluster, **dict.fromkeys(names[:left], 2))
            cluster.leader.herder.restart_with(names[0], include_tasks=False, only_failed=False)  # waits to be stable
        # Some take two: a worker that reads of the deletion after it has joined, and before it is told so, joins again.
        assert cluster.group.generation - before < 2 * 10


def test_a_deleted_connector_has_no_status_however_late_its_worker_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        cluster.leader.herder.create("c", config("c"))
        settled(cluster, c=2)
        leader, follower = cluster.leader, cluster.follower
        stop = follower.tasks.stop

        def stop_late(tasks: Collection[TaskId]) -> None:
            until(lambda: not leader.statuses.tasks("c"))
            stop(tasks)
            for task in tasks:  # as where it has not read yet that the leader removed them
                follower.statuses.put(task, Status(State.UNASSIGNED, follower.id))

        monkeypatch.setattr(follower.tasks, "stop", stop_late)
        leader.herder.delete("c")
        until(lambda: not follower.running)
        until(lambda: not any(worker.statuses.tasks("c") or worker.statuses.get("c") for worker in cluster.workers))


def test_changes_that_come_in_a_row_share_their_rebalances() -> None:
    names = [f"c{number}" for number in range(40)]
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        before = cluster.group.generation
        for name in names:
            cluster.leader.herder.create(name, config(name))
        settled(cluster, **dict.fromkeys(names, 2))
        for name in names:
            cluster.leader.herder.delete(name)
        until(lambda: not any(worker.running for worker in cluster.workers))
        assert cluster.group.generation - before < len(names)


def test_a_restart_of_all_parts_goes_through_the_topic_to_their_owners() -> None:
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        leader = cluster.leader.herder
        leader.create("c", config("c"))
        settled(cluster, c=2)
        before = sum(len(worker.tasks.starts) for worker in cluster.workers)
        state = leader.restart_with("c", include_tasks=True, only_failed=False)
        assert state.connector.state is State.RESTARTING
        assert {task.state for task in state.tasks.values()} == {State.RESTARTING}
        until(lambda: sum(len(worker.tasks.starts) for worker in cluster.workers) == before + 2)
        settled(cluster, c=2)


def test_unsigned_task_configs_are_refused() -> None:
    with fake_cluster(1) as cluster:
        until(lambda: cluster.workers[0].config.snapshot().session_key is not None)
        with pytest.raises(BadRequest, match="missing required signature"):
            cluster.workers[0].herder.put_task_configs("c", [], Signed(b"[]", None, None))
        with pytest.raises(ConnectError) as raised:
            cluster.workers[0].herder.put_task_configs("c", [], Signed(b"[]", "AAAA", "HmacSHA256"))
        assert raised.value.status == 403


def test_a_worker_that_is_no_member_stops_everything_and_comes_back() -> None:
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        cluster.leader.herder.create("c", config("c"))
        settled(cluster, c=2)
        lost = cluster.follower
        running = set(lost.running)
        lost.membership.lose()
        until(lambda: any({str(task) for task in stop} >= running for stop in lost.tasks.stops))
        settled(cluster, c=2)


def test_a_task_that_cannot_start_is_failed_and_a_leader_is_told_all() -> None:
    with fake_cluster(2) as cluster:
        until(lambda: all(worker.membership.leader_url for worker in cluster.workers))
        for worker in cluster.workers:
            worker.tasks.broken = {TaskId("c", 1)}
        cluster.leader.herder.create("c", config("c", pin="1234-5678"))
        statuses = cluster.follower.statuses
        until(lambda: (status := statuses.get(TaskId("c", 1))) is not None and status.state is State.FAILED)
        trace = cluster.follower.herder.task_state(TaskId("c", 1)).trace or ""
        assert "no room" in trace
        assert "1234-5678" not in trace


def test_a_worker_is_told_when_it_begins_to_lead_and_to_follow() -> None:
    with fake_cluster(0) as cluster:
        roles: list[list[bool]] = [[], []]
        for told in roles:
            cluster.add(told.append)
        until(lambda: sorted(roles) == [[False], [True]])
        leader, follower = cluster.leader, cluster.follower
        follows = roles[cluster.workers.index(follower)]
        leader.stop()
        cluster.workers.remove(leader)
        until(lambda: follows == [False, True])
