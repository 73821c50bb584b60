"""Tokens that end what waits."""

from __future__ import annotations

import threading

import pytest

from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken


def test_a_token_is_set_once_and_for_all_who_wait() -> None:
    token, seen = StopToken(), threading.Event()
    waiting = threading.Thread(target=lambda: token.wait(60) and seen.set())
    waiting.start()
    assert not token.is_set()
    token.raise_if_set("nothing is raised")
    token.set()
    waiting.join(60)
    assert seen.is_set()
    with pytest.raises(StoppedError, match="the end was asked for while reading a"):
        token.raise_if_set("reading a")


def test_a_child_is_set_with_its_parent_and_not_the_other_way_round() -> None:
    parent = StopToken()
    first, second = parent.child(), parent.child()
    first.set()
    assert (first.is_set(), second.is_set(), parent.is_set()) == (True, False, False)
    parent.set()
    assert second.is_set()
    assert parent.child().is_set()
    assert second.child().is_set()


def test_a_childs_time_ends_it_and_its_children() -> None:
    parent = StopToken()
    child = parent.child(timeout_s=0)
    assert child.is_set()
    assert child.wait(60)
    assert child.child(timeout_s=60).is_set()
    assert not parent.is_set()
    assert not parent.child(timeout_s=60).is_set()
    assert not parent.wait(0)
