"""Workers that share a config topic record each change once, also of another worker or of one that died."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.config.problems import ConfigError
from headrace.worker.errors import ConnectError, TooLarge
from headrace.worker.model import TargetState
from headrace.worker.requester import Requester, asked_by
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.history import Move
from headrace.worker.storage.history_topic import HistoryTopic
from tests.unit.worker.storage.fake_topic import CONFIG, NOW_MS, FakeLog

ALICE, BOB = Requester("alice", "10.0.0.1"), Requester("bob", "10.0.0.2")
NEVER, AT_ONCE = (3600.0, 3600.0), (0.0, 0.0)
Shown = list[tuple[str, str | None, str | None]]


class Cluster:
    """The topics that workers share."""

    def __init__(self) -> None:
        self.configs, self.records = FakeLog(), FakeLog()
        self.workers: list[Worker] = []

    @contextmanager
    def worker(self, others_s: tuple[float, float] = NEVER) -> Iterator[Worker]:
        """A worker that waits so long for others to record what they made."""
        worker = Worker(self, others_s)
        self.workers.append(worker)
        try:
            worker.start()
            yield worker
        finally:
            worker.stop()

    def shown(self) -> Shown:
        """All revisions of connector c, as a further worker reads them."""
        with self.worker() as reader:
            return reader.shown()


class Worker:
    """The topics of one worker."""

    def __init__(self, cluster: Cluster, others_s: tuple[float, float]) -> None:
        self.history = HistoryTopic(CONFIG, f"w{len(cluster.workers)}", cluster.records.open, others_s)  # type: ignore[arg-type]
        self.config = ConfigTopic(CONFIG, self.history)
        self.config._topic = cluster.configs.open(None, self.config._take)  # type: ignore[assignment, arg-type]

    def start(self) -> None:
        self.history.start(1)
        self.config.start(1)
        self.history.begin(lambda: self.config.refresh(1))

    def stop(self) -> None:
        self.config.stop()
        self.history.stop()

    def put(self, version: int, who: Requester | None = ALICE) -> None:
        """Configure connector c."""
        if who is None:
            self.config.put_connector("c", {"name": "c", "v": str(version)})
            return
        with asked_by(who):
            self.config.put_connector("c", {"name": "c", "v": str(version)})

    def shown(self) -> Shown:
        """The kinds of its revisions, the version after each, and who asked."""
        return [
            (
                one.change,
                None if one.after is None else one.after.config["v"],
                None if one.requester is None else one.requester.by,
            )
            for one in self.history.revisions("c")
        ]

    def wait(self, expected: Shown) -> None:
        eventually(lambda: self.shown() == expected, lambda: str(self.shown()))


def eventually(holds: Callable[[], bool], said: Callable[[], str]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, said()
        time.sleep(0.01)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_the_worker_that_made_a_change_records_it_with_who_asked(cluster: Cluster) -> None:
    with cluster.worker() as one, cluster.worker() as two:
        one.put(1)
        with asked_by(BOB):
            two.config.put_target("c", TargetState.PAUSED)
        two.wait([("config", "1", "alice"), ("state", "1", "bob")])
        one.put(2)
        with asked_by(BOB):
            one.config.put_stopped("c")
            one.config.remove_connector("c")
        one.wait(
            [
                ("config", "1", "alice"),
                ("state", "1", "bob"),
                ("config", "2", "alice"),
                ("state", "2", "bob"),
                ("delete", None, "bob"),
            ]
        )
        first = one.history.revisions("c")[0]
        assert (first.at_ms, first.before, first.number) == (NOW_MS, None, 1)
    assert cluster.shown()[-1] == ("delete", None, "bob")


def test_what_changes_nothing_is_no_revision(cluster: Cluster) -> None:
    with cluster.worker() as one:
        one.put(1)
        one.put(1)
        with asked_by(BOB):
            one.config.put_target("c", TargetState.STARTED)
        one.put(2)
        one.wait([("config", "1", "alice"), ("config", "2", "alice")])


def test_a_change_of_javas_worker_is_recorded_once(cluster: Cluster) -> None:
    with cluster.worker(AT_ONCE) as one, cluster.worker(AT_ONCE) as two:
        cluster.configs.put("connector-c", '{"properties":{"name":"c","v":"1"}}')
        cluster.configs.put("target-state-c", '{"state":"PAUSED","state.v2":"STOPPED"}')
        expected: Shown = [("config", "1", None), ("state", "1", None)]
        for worker in (one, two):
            worker.wait(expected)
    assert cluster.shown() == expected


def test_what_a_worker_that_died_did_not_record_is_recorded_by_another(cluster: Cluster) -> None:
    with cluster.worker(AT_ONCE) as other:
        with cluster.worker() as dying:
            dying.history._stopping = True  # it dies before it records anything
            dying.put(1, None)
        other.wait([("config", "1", None)])


def test_who_asked_is_known_even_if_another_worker_recorded_the_change_before(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ConnectError("not now")

    with cluster.worker() as one:
        with monkeypatch.context() as patch:
            patch.setattr(one.history._topic, "send_all", fail)
            one.put(1)
            with cluster.worker(AT_ONCE) as other:
                other.wait([("config", "1", None)])
        one.wait([("config", "1", "alice")])
        assert one.history.revisions("c")[0].before is None


def test_a_worker_that_stops_records_what_it_made_before(cluster: Cluster) -> None:
    with cluster.worker() as one:
        for version in range(20):
            one.put(version)
    assert cluster.shown() == [("config", str(version), "alice") for version in range(20)]


def test_changes_of_others_before_an_own_one_come_before_it(cluster: Cluster) -> None:
    with cluster.worker() as one:
        cluster.configs.put("connector-c", '{"properties":{"name":"c","v":"1"}}')
        one.put(2)
        one.wait([("config", "1", None), ("config", "2", "alice")])


def test_what_changed_while_no_worker_ran_is_found_at_the_start(cluster: Cluster) -> None:
    with cluster.worker() as one:
        one.put(1)
        one.wait([("config", "1", "alice")])
    cluster.configs.put("connector-c", '{"properties":{"name":"c","v":"2"}}')
    cluster.configs.put("target-state-c", '{"state":"PAUSED","state.v2":"PAUSED"}')
    expected: Shown = [("config", "1", "alice"), ("config", "2", None)]
    with cluster.worker(AT_ONCE) as one:
        one.wait(expected)
        last = one.history.revisions("c")[-1].after
        assert last is not None
        assert last.target is TargetState.PAUSED
    with cluster.worker(AT_ONCE) as one:
        cluster.configs.put("target-state-c", '{"state":"STARTED","state.v2":"STARTED"}')
        one.wait([*expected, ("state", "2", None)])


def test_a_deletion_of_which_no_record_is_left_is_found_at_the_start(cluster: Cluster) -> None:
    with cluster.worker() as one:
        one.put(1)
        one.wait([("config", "1", "alice")])
    cluster.configs.put("session-key", "null")
    cluster.configs.records = [one._replace(key=b"session-key") for one in cluster.configs.records]
    with cluster.worker(AT_ONCE) as one:
        one.wait([("config", "1", "alice"), ("delete", None, None)])


def test_moved_offsets_are_recorded_in_their_place(cluster: Cluster) -> None:
    with cluster.worker() as one:
        one.put(1)
        with asked_by(BOB):
            one.history.moved("c", [Move({"p": 1}, {"o": 1}, None)])
        one.put(2)
        one.wait([("config", "1", "alice"), ("offsets", "1", "bob"), ("config", "2", "alice")])
        assert one.history.revisions("c")[1].moves == (Move({"p": 1}, {"o": 1}, None),)


def test_a_change_that_is_too_large_is_told_and_holds_up_no_other(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with cluster.worker() as one:
        cluster.records.errors = [TooLarge("It is too large.")]
        one.put(1)
        one.put(2)
        one.wait([("config", "2", "alice")])
    assert "The history lacks a change of connector c: It is too large." in caplog.text


def test_a_history_of_another_config_topic_is_refused(cluster: Cluster) -> None:
    with cluster.worker() as one:
        one.put(1)
        one.put(2)
        one.wait([("config", "1", "alice"), ("config", "2", "alice")])
    cluster.configs.records = []
    with pytest.raises(ConfigError, match="that topic has been made again"), cluster.worker():
        pass


def test_records_of_other_config_topics_are_passed_over(cluster: Cluster) -> None:
    cluster.records.put("k", '{"config.topic":"others","connector":"c","offset":99}')
    with cluster.worker() as one:
        one.put(1)
        one.wait([("config", "1", "alice")])


def test_old_revisions_are_removed_from_the_topic(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.storage.history.MOST", 2)
    with cluster.worker() as one:
        for version in range(4):
            one.put(version)
        one.wait([("config", "2", "alice"), ("config", "3", "alice")])
    assert [value is None for _, value in cluster.records.pairs()].count(True) == 2
    assert cluster.shown() == [("config", "2", "alice"), ("config", "3", "alice")]
