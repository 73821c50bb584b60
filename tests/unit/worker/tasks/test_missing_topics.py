"""The intervals at which a waiting sink looks for its topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.worker.tasks.missing_topics import MissingTopics


class Played:
    """Brokers that know some topics, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.there: set[str] = set()
        self.asked = 0
        self.is_answered = True
        ids: Any = SimpleNamespace(ask=self._ask)
        self.missing = MissingTopics(ids, lambda: self.now)

    def _ask(self, topics: Any) -> Any:
        self.asked += 1
        found = self.there & set(topics)
        return SimpleNamespace(is_done=lambda: self.is_answered, answer=lambda: dict.fromkeys(found, "id"))

    def after(self, seconds: float) -> set[str]:
        self.now += seconds
        return self.missing.appeared()


def test_a_topic_that_appears_is_told_once_within_about_a_second() -> None:
    played = Played()
    assert played.missing.looks_in_s() == float("inf")
    played.missing.add(["t", "u"])
    assert (played.after(0.5), played.asked) == (set(), 0)
    assert (played.after(0.5), played.asked) == (set(), 1)
    played.there.add("t")
    assert played.after(1) == {"t"}
    assert played.after(1) == set()
    played.there.add("u")
    assert played.after(1) == {"u"}
    assert played.missing.looks_in_s() == float("inf")


def test_who_waits_for_long_asks_less_often() -> None:
    played = Played()
    played.missing.add(["t"])
    for _ in range(60):
        played.after(1)
    assert played.asked == 60
    for _ in range(60):
        played.after(1)
    assert played.asked == 72


def test_it_never_waits_for_an_answer() -> None:
    played = Played()
    played.missing.add(["t"])
    played.there.add("t")
    played.is_answered = False
    assert played.after(1) == set()
    assert played.missing.looks_in_s() < 0.1
    played.is_answered = True
    assert played.after(0.1) == {"t"}
    assert played.asked == 1
