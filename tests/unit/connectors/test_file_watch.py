"""Sources are woken by what is written into their files, and look by themselves where nothing wakes them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.connectors.file import watch
from headrace.connectors.file.source import FileStreamSourceTask
from headrace.plugins.contracts import Limit, Plan, TaskContext
from headrace.plugins.stopping import StopToken

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

SECONDS: Final = 60
LIMIT: Final = Limit(1000, 1 << 20)


class Watched:
    """A source of one file, and whether it was woken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.woken = threading.Event()
        self.task = FileStreamSourceTask()
        context = TaskContext("c", 0, StopToken(), {"file.allowed.paths": [str(path.parent)]}, wake=self.woken.set)
        self.task.start({"file": str(path), "topic": "t"}, context)
        self.offset: Mapping[str, Any] | None = None

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def plan(self) -> Plan | None:
        plan = self.task.plan([self.offset], LIMIT)
        if plan is not None:
            self.offset = plan.splits[0].upto
        return plan

    def rest(self) -> None:
        """Look until nothing is new, twice."""
        while self.plan() is not None:
            pass
        assert self.plan() is None

    def is_woken(self) -> bool:
        woken = self.woken.wait(SECONDS)
        self.woken.clear()
        return woken


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Watched]:
    source = Watched(tmp_path / "in.txt")
    source.write("first\n")
    yield source
    source.task.stop()


def test_a_line_wakes_its_source_which_tells_of_the_next_one_once_nothing_is_new(source: Watched) -> None:
    source.rest()
    assert source.task.tells_of_news
    source.write("second\n")
    assert source.is_woken()
    assert not source.task.tells_of_news  # it told, and does not stand again before there was nothing
    assert source.plan() is not None
    source.rest()
    assert source.task.tells_of_news
    source.write("third\n")
    assert source.is_woken()
    assert source.plan() is not None


def test_a_writer_that_does_not_rest_is_told_of_after_nothing_was_new_twice(
    source: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_REST_S", SECONDS)
    assert source.plan() is not None  # of the first line for a while
    source.write("second\n")
    assert source.is_woken()
    assert source.plan() is not None
    assert source.plan() is None
    assert not source.task.tells_of_news
    assert source.plan() is None
    assert source.task.tells_of_news


def test_a_line_that_comes_alone_is_all_there_is(source: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_REST_S", 0.0)
    for line in ("second\n", "third\n"):
        plan = source.plan()
        assert plan is not None
        assert plan.caught_up
        source.write(line)
        assert source.is_woken()


@pytest.mark.parametrize("more", ["begun", "second\n" * 2000], ids=["a line that is not complete", "more than a batch"])
def test_what_is_not_planned_yet_is_asked_for(source: Watched, more: str) -> None:
    source.write(more)
    plan = source.plan()
    assert plan is not None
    assert not plan.caught_up


def test_a_line_after_the_look_is_told_of(source: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    look = os.fstat

    def then_written(descriptor: int) -> os.stat_result:
        status = look(descriptor)
        source.write("second\n")
        return status

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", then_written)
        plan = source.plan()
    assert plan is not None
    assert source.is_woken()


def test_a_file_that_was_renamed_before_it_was_looked_at_is_not_all(
    source: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_REST_S", 0.0)
    assert source.plan() is not None
    source.write("second\n")
    assert source.is_woken()
    os.rename(source.path, source.path.with_name("in.txt.1"))
    plan = source.plan()
    assert plan is not None
    assert source.task.tells_of_news
    assert not plan.caught_up


def test_a_writer_that_completes_no_line_does_not_wake_its_source_each_time(
    source: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert source.plan() is not None
    for after_s, stands in ((1.0, True), (0.01, False)):
        source.write("x")
        assert source.is_woken()
        now[0] += after_s
        assert source.plan() is None
        assert source.task.tells_of_news is stands


def test_without_inotify_no_plan_is_all(source: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch.INOTIFY, "watch", lambda descriptor, told: None)
    plan = source.plan()
    assert plan is not None
    assert not plan.caught_up


def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inotify tells nothing, as on a network file system."""
    monkeypatch.setattr(watch.INOTIFY, "_tell", lambda number: None)


def test_what_nothing_tells_of_is_looked_for(source: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    untold(monkeypatch)
    for line in ("second\n", "third\n"):
        source.rest()
        assert source.task.tells_of_news
        source.write(line)
        assert source.is_woken()
        assert source.plan() is not None


def test_a_new_file_under_the_name_of_a_renamed_one_wakes_the_source_until_it_is_read(source: Watched) -> None:
    source.rest()
    os.rename(source.path, source.path.with_name("in.txt.1"))
    assert source.is_woken()
    source.rest()
    assert source.task.tells_of_news
    source.write("of the next file\n")
    assert source.is_woken()
    assert source.plan() is None
    assert not source.task.tells_of_news  # that the old file has stood still for a second, nothing tells
    until = time.monotonic() + SECONDS
    while (plan := source.plan()) is None:
        assert time.monotonic() < until
        assert not source.task.tells_of_news
        source.woken.wait(0.05)
    assert plan.splits[0].upto["_generation"] == 1


def test_a_file_that_is_replaced_wakes_its_source(source: Watched) -> None:
    source.rest()
    os.rename(source.path, source.path.with_name("in.txt.1"))
    assert source.is_woken()


def test_two_sources_of_one_file_are_woken_both(source: Watched) -> None:
    other = Watched(source.path)
    for one in (source, other):
        one.rest()
    source.write("second\n")
    assert source.is_woken()
    assert other.is_woken()
    other.task.stop()


def test_a_source_that_ended_leaves_no_watch(source: Watched) -> None:
    before = len(watch.INOTIFY._told)
    other = Watched(source.path.with_name("other.txt"))
    other.write("first\n")
    other.rest()
    assert len(watch.INOTIFY._told) == before + 1
    assert other.task._file.watch in watch._LOOKS._files  # type: ignore[union-attr]
    looked_at = len(watch._LOOKS._files)
    other.task.stop()
    assert len(watch.INOTIFY._told) == before
    assert len(watch._LOOKS._files) == looked_at - 1


def test_without_inotify_a_source_is_only_asked_often(source: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch.INOTIFY, "watch", lambda descriptor, told: None)
    source.rest()
    source.write("second\n")
    assert source.plan() is not None
    source.rest()
    assert not source.task.tells_of_news


def test_news_may_come_before_the_number_of_its_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    telling: list[threading.Thread] = []

    class Hasty(watch.Inotify):
        def watch(self, descriptor: int, told: Callable[[], None]) -> int | None:
            telling.append(threading.Thread(target=told))
            telling[-1].start()
            return 7

    monkeypatch.setattr(watch, "INOTIFY", Hasty())
    news = threading.Event()
    of_file = watch.FileWatch("in.txt", news.set)
    for _ in range(2):
        of_file.found_nothing(0)
    assert news.wait(SECONDS)
    for one in telling:
        one.join(SECONDS)
    assert not of_file.stands, "nothing stands there any more"
