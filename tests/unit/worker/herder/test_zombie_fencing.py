"""Zombie fencing: whom the leader fences, when, and what a task asks before it begins."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.plugins.errors import RetriableError
from headrace.worker.errors import Conflict, ConnectError
from headrace.worker.herder.zombie_fencing import TaskAdmission, TaskAdmissions, ZombieFencing
from headrace.worker.model import TargetState, TaskId
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.signing import SessionKey
from tests.unit.worker.storage.fake_topic import CONFIG, FakeLog


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def config(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConfigTopic]:
    monkeypatch.setattr("headrace.worker.storage.config_topic.CompactedTopic", log.open)
    topic = ConfigTopic(CONFIG)
    topic.start(1)
    topic.put_connector("c", {"name": "c"}, TargetState.STARTED)
    yield topic
    topic.stop()


class Fenced:
    """Notes who was fenced."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.meanwhile = lambda: None

    def __call__(self, config: Mapping[str, Any], count: int) -> None:
        assert config["name"] == "c"
        self.counts.append(count)
        self.meanwhile()


def tasks(count: int) -> list[dict[str, str]]:
    return [{"number": str(number)} for number in range(count)]


def test_each_commit_of_tasks_has_those_before_fenced_once(config: ConfigTopic, log: FakeLog) -> None:
    fenced = Fenced()
    fencing = ZombieFencing(config, fenced)
    config.put_tasks("c", tasks(3))
    fencing.fence("c")  # before, sources were not exactly-once: nobody to fence
    assert fenced.counts == []
    assert log.pairs()[-1] == ("tasks-fencing-c", '{"task-count":3}')
    config.put_tasks("c", tasks(2))
    fencing.fence("c")
    fencing.fence("c")
    assert fenced.counts == [3]
    assert log.pairs()[-1] == ("tasks-fencing-c", '{"task-count":2}')


def test_a_single_task_is_fenced_by_its_successor(config: ConfigTopic) -> None:
    fenced = Fenced()
    fencing = ZombieFencing(config, fenced)
    for count in (1, 1, 2, 1, 0, 1):
        config.put_tasks("c", tasks(count))
        fencing.fence("c")
    assert fenced.counts == [1, 2, 1]


def test_tasks_that_are_written_meanwhile_are_not_taken_for_fenced(config: ConfigTopic) -> None:
    fenced = Fenced()
    fencing = ZombieFencing(config, fenced)
    config.put_tasks("c", tasks(2))
    fencing.fence("c")
    config.put_tasks("c", tasks(3))
    fenced.meanwhile = lambda: config.put_tasks("c", tasks(4))
    with pytest.raises(Conflict, match="new task configurations"):
        fencing.fence("c")
    assert "c" in config.snapshot().pending_fencing
    fenced.meanwhile = lambda: config.put_tasks("c", [])
    with pytest.raises(Conflict, match="new task configurations"):
        fencing.fence("c")


def test_who_asks_meanwhile_waits_for_the_round_and_asks_for_no_other(config: ConfigTopic) -> None:
    fenced, inside, go_on = Fenced(), threading.Event(), threading.Event()
    fencing = ZombieFencing(config, fenced)
    config.put_tasks("c", tasks(2))
    fencing.fence("c")
    config.put_tasks("c", tasks(2))

    def wait() -> None:
        inside.set()
        assert go_on.wait(60)

    fenced.meanwhile = wait
    threads = [threading.Thread(target=fencing.fence, args=("c",)) for _ in range(2)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert fenced.counts == [2]


class Asked:
    """A leader elsewhere."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, SessionKey | None]] = []
        self.error: Exception | None = None

    def fence(self, url: str, name: str, key: SessionKey | None) -> None:
        self.asked.append((url, name, key))
        if self.error is not None:
            raise self.error


def admission(config: ConfigTopic, client: Any, leads: bool = False, current: bool = True) -> TaskAdmission:
    membership: Any = SimpleNamespace(is_leader=leads, leader_url="http://leader", is_current=lambda: current)
    cluster = TaskAdmissions(config, membership, ZombieFencing(config, Fenced()), client)
    return cluster.of(TaskId("c", 0), config.snapshot().generations["c"])


def test_a_task_has_the_leader_fence_and_begins_if_it_is_still_of_the_newest_tasks(config: ConfigTopic) -> None:
    config.put_tasks("c", tasks(1))
    leader = Asked()
    asks = admission(config, leader)
    asks.fence()
    assert leader.asked == [("http://leader", "c", None)]
    asks.check()
    config.put_tasks("c", tasks(1))
    with pytest.raises(ConnectError, match="Cannot start source task c-0 with exactly-once support"):
        asks.check()


def test_a_task_of_the_leader_s_own_is_fenced_without_rest(config: ConfigTopic) -> None:
    config.put_tasks("c", tasks(1))
    admission(config, None, leads=True).fence()
    assert "c" not in config.snapshot().pending_fencing


def test_what_may_be_well_later_is_asked_again(config: ConfigTopic) -> None:
    config.put_tasks("c", tasks(1))
    leader = Asked()
    leader.error = Conflict("rebalancing")
    with pytest.raises(RetriableError, match="rebalancing"):
        admission(config, leader).fence()
    with pytest.raises(RetriableError, match="no member"):
        admission(config, leader, current=False).check()
    with pytest.raises(RetriableError, match="do not listen"):
        admission(config, None).fence()
