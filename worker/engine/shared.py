"""Programs made once for all tasks that would make the same: `shared(frame, key, make)`.

To build the expressions of a sink and have Spark optimize them takes hundreds of calls of its driver, half a second of
processor time: 200 file sinks that differed in their topics and files only took 88 s to start, 137 of processor time,
where Apache Connect takes 16 and 23 s (two cores). So a key has all that expressions depend on
(`pipeline/expression_keys.py`), and the first task with a key makes the program that others with an equal key take: 16
and 20 s.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

MOST: Final = 32
"""The number of keys kept for each frame, each with a plan in the driver's heap; those used longest ago are made again
when needed. Programs that tasks begin with are used by each start, and stay."""

_Made = TypeVar("_Made")


@dataclass(eq=False)
class _Once:
    """The thing made for one key, once it is made."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    is_made: bool = False
    made: Any = None


_lock: Final = threading.Lock()
_of_frames: Final[WeakKeyDictionary[DataFrame, OrderedDict[Hashable, _Once]]] = WeakKeyDictionary()


def shared(given: DataFrame, key: Hashable | None, make: Callable[[], _Made]) -> _Made:
    """Return the result of `make` for this frame, made once for equal keys; any thread may call.

    Without a key it is made each time. Errors: those of `make`, which the next caller calls again.
    """
    if key is None:
        return make()
    with _lock:
        of_it = _of_frames.setdefault(given, OrderedDict())
        once = of_it.setdefault(key, _Once())
        of_it.move_to_end(key)
        if len(of_it) > MOST:
            of_it.popitem(last=False)
    with once.lock:  # others with this key wait for the first
        if not once.is_made:
            once.made, once.is_made = make(), True
        made: _Made = once.made
        return made
