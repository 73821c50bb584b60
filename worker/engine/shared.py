"""What is made of expressions once for all tasks that would make the same: `shared(frame, key, make)`.

To build the expressions of a sink and have Spark optimize them takes hundreds of calls of its driver, half a second of
processor time: 200 file sinks that differed in their topics and files only took 88 s to start, 137 of processor time,
where Apache Connect takes 16 and 23 s (two cores). So a key has all that expressions depend on
(`pipeline/expression_keys.py`), and of equal keys the first to come makes what the others take: 16 and 20 s.
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
"""So many keys are kept for each frame, each with a plan in the driver's heap; what was used longest ago is made
again when it is needed. What tasks begin with is used by each that starts, and stays."""

_Made = TypeVar("_Made")


@dataclass(eq=False)
class _Once:
    """The thing made for one key, once it is there."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    is_made: bool = False
    made: Any = None


_lock: Final = threading.Lock()
_of_frames: Final[WeakKeyDictionary[DataFrame, OrderedDict[Hashable, _Once]]] = WeakKeyDictionary()


def shared(given: DataFrame, key: Hashable | None, make: Callable[[], _Made]) -> _Made:
    """Return what `make` makes of this frame, made once for equal keys; any thread may call.

    Without a key it is made for each. Errors: those of `make`, which is called again then.
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
