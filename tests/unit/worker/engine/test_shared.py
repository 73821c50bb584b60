"""Work by equal keys is done once for a frame, and again after an error."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from headrace.worker.engine import shared as module
from headrace.worker.engine.shared import shared


class Frame:
    """Stands for a frame."""


class Makes:
    """Notes how often it made something."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> list[int]:
        self.times += 1
        return [self.times]


def test_equal_keys_share_what_the_first_made_of_the_same_frame() -> None:
    frame: Any = Frame()
    other: Any = Frame()
    makes = Makes()
    made = shared(frame, ("a", 1), makes)
    assert shared(frame, ("a", 1), makes) is made
    assert shared(frame, ("a", 2), makes) is not made
    assert shared(other, ("a", 1), makes) is not made
    assert shared(frame, None, makes) is not shared(frame, None, makes)
    assert makes.times == 5


def test_an_error_is_the_callers_and_the_next_makes_it() -> None:
    frame: Any = Frame()

    def fail() -> str:
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        shared(frame, "a", fail)
    assert shared(frame, "a", lambda: "made") == "made"
    assert shared(frame, "a", fail) == "made"


def test_others_wait_for_the_first_and_not_for_other_keys() -> None:
    frame: Any = Frame()
    begun, go_on, got = threading.Event(), threading.Event(), list[str]()

    def slow() -> str:
        begun.set()
        assert go_on.wait(60)
        return "slow"

    threads = [threading.Thread(target=lambda: got.append(shared(frame, "a", slow))) for _ in range(3)]
    threads[0].start()
    assert begun.wait(60)
    for thread in threads[1:]:
        thread.start()
    assert shared(frame, "b", lambda: "quick") == "quick"
    assert not got
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert got == ["slow"] * 3


def test_what_was_used_longest_ago_is_made_again_and_nothing_outlives_its_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    frame: Any = Frame()
    makes = Makes()
    for key in ("a", "b", "a", "c", "a", "b"):
        shared(frame, key, makes)
    assert makes.times == 4
    kept = shared(frame, "kept", Frame)
    gone = weakref.ref(kept)
    del kept, frame
    gc.collect()
    assert gone() is None
