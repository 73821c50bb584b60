"""A connector's duties: each at its time, one at a time, and none ends the others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from headrace.connectors.mirror import duties as module
from headrace.connectors.mirror.duties import Duties


@pytest.fixture
def duties() -> Iterator[Duties]:
    made = Duties("A->B|m")
    yield made
    if not made.stopping.is_set():
        made.stop()


def test_a_duty_is_done_again_after_an_error(duties: Duties, caplog: pytest.LogCaptureFixture) -> None:
    done, times = threading.Event(), []

    def fails_first() -> None:
        times.append(1)
        if len(times) == 1:
            raise ValueError("no broker")
        done.set()

    with caplog.at_level(logging.ERROR):
        duties.every(1, "looking for topics", fails_first, at_once=True)
        assert done.wait(60)
    assert caplog.messages == ["A->B|m: looking for topics failed and will be tried again: no broker"]


def test_what_must_succeed_once_is_tried_until_it_does(duties: Duties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN_S", 1)
    done, left = threading.Event(), [ValueError("1"), ValueError("2")]

    def fails_twice() -> None:
        if left:
            raise left.pop()
        assert not done.is_set()
        done.set()

    duties.once("creating topics", fails_twice)
    assert done.wait(60)


def test_one_duty_at_a_time_in_their_order(duties: Duties) -> None:
    first, second = threading.Event(), threading.Event()
    go_on = threading.Event()

    def blocks() -> None:
        assert go_on.wait(60)
        first.set()

    def follows() -> None:
        assert first.is_set()
        second.set()

    duties.once("one", blocks)
    duties.every(600, "two", follows, at_once=True)
    duties.every(-1, "never", lambda: pytest.fail("disabled"), at_once=True)
    go_on.set()
    assert second.wait(60)


def test_the_stop_reaches_a_duty_that_waits(duties: Duties) -> None:
    began, ended = threading.Event(), threading.Event()

    def waits() -> None:
        began.set()
        assert duties.stopping.wait(60)
        ended.set()

    duties.once("waiting", waits)
    assert began.wait(60)
    duties.stop()
    assert ended.wait(60)
