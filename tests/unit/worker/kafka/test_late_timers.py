"""Whose threads may wake late: those of Kafka clients, and no others."""

import contextlib
import os
import sys
import threading
from pathlib import Path

import pytest

from headrace.worker.kafka.late_timers import SLACK_NS, late_timers
from headrace.worker.kafka.writer import open_producer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has timer slack")


def slack_ns(thread: str | None = None) -> int:
    """That of a thread; without one, of this."""
    return int(Path(f"/proc/{thread or threading.get_native_id()}/timerslack_ns").read_text())


def threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def test_only_threads_that_are_started_meanwhile_wake_late() -> None:
    before = slack_ns()
    seen: list[int] = []
    with late_timers():
        inside = threading.Thread(target=lambda: seen.append(slack_ns()))
        inside.start()
        inside.join()
    outside = threading.Thread(target=lambda: seen.append(slack_ns()))
    outside.start()
    outside.join()
    assert seen == [SLACK_NS, before]
    assert slack_ns() == before < SLACK_NS


def test_the_slack_of_a_thread_comes_back_after_an_error() -> None:
    before = slack_ns()
    with pytest.raises(ValueError, match="no client"), late_timers():
        raise ValueError("no client")
    assert slack_ns() == before


def test_the_threads_of_a_producer_wake_late() -> None:
    others = threads()
    producer = open_producer({"bootstrap.servers": "127.0.0.1:1"})
    slacks = set()
    for thread in threads() - others:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            slacks.add(slack_ns(thread))
    del producer
    assert slacks == {SLACK_NS}
