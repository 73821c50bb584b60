"""How often something was started, and how often that succeeded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Starts:
    """Counts starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.attempts = self.failures = 0

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """One start; what it raises counts as a failure."""
        with self._lock:
            self.attempts += 1
        try:
            yield
        except Exception:
            with self._lock:
                self.failures += 1
            raise
