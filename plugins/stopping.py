"""Stop tokens: set once and never cleared, the one way to ask something to end."""

from __future__ import annotations

import threading
import time
from weakref import WeakSet

from headrace.plugins.errors import StoppedError


class StopToken:
    """Tells threads to end soon; any thread may set it or wait for it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._until: float | None = None
        self._children: WeakSet[StopToken] = WeakSet()
        self._lock = threading.RLock()  # a signal handler may set the token while its thread holds the lock

    def set(self) -> None:
        """Set the token and all its children."""
        with self._lock:
            self._event.set()
            children = list(self._children)
        for child in children:
            child.set()

    def is_set(self) -> bool:
        """True if the token was set or its time is over."""
        return self._event.is_set() or (self._until is not None and time.monotonic() >= self._until)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the token; return True if it is set."""
        left_s = seconds if self._until is None else min(seconds, self._until - time.monotonic())
        self._event.wait(max(0.0, left_s))
        return self.is_set()

    def raise_if_set(self, doing: str) -> None:
        """Raise once the token is set; `doing` goes into the message. Errors: StoppedError."""
        if self.is_set():
            raise StoppedError(f"the end was asked for while {doing}")

    def child(self, timeout_s: float | None = None) -> StopToken:
        """Return a token that is set with this one, by itself, or after `timeout_s` seconds."""
        child = StopToken()
        child._until = None if timeout_s is None else time.monotonic() + timeout_s
        with self._lock:
            self._children.add(child)
            if self._event.is_set():
                child._event.set()
        if self._until is not None:
            child._until = self._until if child._until is None else min(self._until, child._until)
        return child
