"""A member of ours in a group with Apache's own worker: led by it, and leading it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.worker.group.assignor import Item
from headrace.worker.group.session import Timing
from headrace.worker.model import TaskId
from headrace.worker.storage.config_topic import ConfigTopic
from tests.compat.apache_worker import ApacheWorker
from tests.integration.group_member import GroupMember, Ledger
from tests.integration.test_compacted_topic import worker
from tests.integration.worker_process import SOURCE, eventually

pytestmark = pytest.mark.kafka

FAST = {
    "scheduled.rebalance.max.delay.ms": "2000",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "offset.flush.interval.ms": "1000",
}
TIMING = Timing(6_000, 500, 60_000)
ALL: set[Item] = {"a", "b", "c", "d", *(TaskId(name, 0) for name in "abcd")}


def held_by(java: ApacheWorker) -> set[Item]:
    """The items that Java's worker holds, by what it logged when it joined last.

    Not by the statuses: a task that Java stops soon after its start may be shown as RUNNING for ever.
    """
    said = re.findall(r"got assignment: Assignment\{.*connectorIds=\[(.*?)\], taskIds=\[(.*?)\]", java.log)
    connectors, tasks = said[-1] if said else ("", "")
    found: set[Item] = {name for name in connectors.split(", ") if name}
    return found | {TaskId(task[0], int(task[2:])) for task in tasks.split(", ") if task}


def runs(java: ApacheWorker, items: set[Item]) -> bool:
    """True if all of these, which Java holds, are RUNNING."""
    states = {name: java.get(f"/connectors/{name}/status") for name in "abcd"}
    found: set[Item] = {name for name, shown in states.items() if shown and shown["connector"]["state"] == "RUNNING"}
    for name, shown in states.items():
        found |= {TaskId(name, task["id"]) for task in shown.get("tasks", ()) if task["state"] == "RUNNING"}
    return held_by(java) == items <= found


def half(items: set[Item]) -> bool:
    return sum(isinstance(item, str) for item in items) == 2 and len(items) == 4


def wait_shared(java: ApacheWorker, member: GroupMember) -> None:
    """Java runs one half and the member holds the other."""
    eventually(
        lambda: half(member.held) and runs(java, ALL - member.held),
        60,
        lambda: f"{member.held} {held_by(java)} {java.log[-3000:]}",
    )


def check_alive(java: ApacheWorker) -> None:
    assert java.get("/health").get("status") == "healthy", java.log[-3000:]
    for bad in ("Uncaught exception", "SchemaException", "BufferUnderflow", "Task already exists"):
        assert bad not in java.log


def test_led_by_java_and_leading_it(broker: str, tmp_path: Path) -> None:
    group = "with-java"
    (tmp_path / "lines").write_text("one\n")
    config = {"connector.class": SOURCE, "tasks.max": "1", "file": str(tmp_path / "lines"), "topic": "with-java-lines"}
    topic = ConfigTopic(worker(broker, group))
    ledger = Ledger()

    def join(name: str) -> GroupMember:
        client = {"bootstrap_servers": broker, "client_id": name}
        return GroupMember(name, client, f"group-{group}", topic.snapshot, ledger, 2_000, TIMING).start()

    with ApacheWorker(tmp_path / "java1", broker, group, FAST) as java:
        java.wait_ready()
        for name in "abcd":
            java.request("POST", "/connectors", {"name": name, "config": {**config, "name": name}})
        eventually(lambda: runs(java, ALL), 60, lambda: java.log[-3000:])
        topic.start(60)
        member = join("led")
        wait_shared(java, member)
        assert not member.membership.is_leader
        assert member.membership.leader_url == f"{java.url}/"
        member.leave()
        eventually(lambda: runs(java, ALL), 60, lambda: java.log[-3000:])  # after the delay
        member = join("leads")
        wait_shared(java, member)
        check_alive(java)
    eventually(lambda: member.held == ALL, 60)
    assert member.membership.is_leader

    with ApacheWorker(tmp_path / "java2", broker, group, FAST) as java:
        java.wait_ready()
        wait_shared(java, member)
        assert member.membership.is_leader
        assert {member.membership.owner_of(item) for item in held_by(java)} == {f"{java.url}/"}
        topic.remove_connector("a")  # as the leader writes it
        eventually(lambda: not {"a", TaskId("a", 0)} & (member.held | held_by(java)), 60)
        topic.put_connector("a", {**config, "name": "a"})
        topic.put_tasks("a", [{"file": config["file"], "topic": config["topic"], "task.class": "x", "batch.size": "9"}])
        eventually(lambda: half(member.held) and held_by(java) == ALL - member.held, 60, lambda: java.log[-3000:])
        check_alive(java)
    eventually(lambda: member.held == ALL, 60)
    member.leave()
    topic.stop()
    assert not ledger.twice
