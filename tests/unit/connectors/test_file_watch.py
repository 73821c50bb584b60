"""Sources are woken by what is written into their files, and look by themselves where nothing wakes them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.connectors.file import watch
from headrace.connectors.file.source import FileStreamSourceTask
from headrace.plugins.contracts import Limit, Plan, TaskContext
from headrace.plugins.stopping import StopToken

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

SECONDS: Final = 10
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


def test_a_line_wakes_its_source_which_from_then_on_tells_of_news(source: Watched) -> None:
    source.rest()
    assert not source.task.tells_of_news  # nobody knows yet whether the file system does
    source.write("second\n")
    assert source.is_woken()
    assert source.plan() is not None
    source.rest()
    assert source.task.tells_of_news
    source.write("third\n")
    assert source.is_woken()
    assert not source.task.tells_of_news  # it told, and does not stand again before there was nothing twice
    assert source.plan() is not None


def test_what_was_found_untold_has_the_source_look_often_again(
    source: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.rest()
    source.write("second\n")
    assert source.is_woken()
    source.rest()
    assert source.task.tells_of_news
    monkeypatch.setattr(watch.INOTIFY, "_tell", lambda number: None)  # as on a network file system
    source.write("third\n")
    assert source.plan() is not None
    source.rest()
    assert not source.task.tells_of_news


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
    other.task.stop()
    assert len(watch.INOTIFY._told) == before


def test_without_inotify_a_source_is_only_asked_often(source: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch.INOTIFY, "watch", lambda descriptor, told: None)
    source.rest()
    source.write("second\n")
    assert source.plan() is not None
    source.rest()
    assert not source.task.tells_of_news


def test_news_may_come_before_the_number_of_its_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty(watch.Inotify):
        def watch(self, descriptor: int, told: Callable[[], None]) -> int | None:
            told()
            return 7

    monkeypatch.setattr(watch, "INOTIFY", Hasty())
    news = threading.Event()
    of_file = watch.FileWatch(news.set)
    for _ in range(2):
        of_file.found_nothing(0)
    assert news.is_set()
    assert not of_file.is_reliable, "nothing stands there any more"
