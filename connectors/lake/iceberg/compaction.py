"""Replaces small files and expires old snapshots of a task's tables, on a thread beside its commits.

A table is looked at when enough files have come to it. A failure is logged once and tried again; rows go on. Two tasks
may rewrite the same files: Iceberg lets one of them commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.connectors.lake.iceberg.compact_settings import CompactSettings
from headrace.plugins.backoff import Backoff
from headrace.plugins.samples import Sample

_BACKOFF: Final = Backoff(1, 600)
_LAST_S: Final = 2.0
"""The end of a task waits so long for the file that is being written."""
_FILES: Final = 100
"""Old snapshots are looked for after so many files if none are rewritten."""
_TURN: Final = threading.Lock()
"""One table at a time in a process, for the driver's memory."""
_TURN_S: Final = 0.2

log = logging.getLogger(__name__)


class Compacted(NamedTuple):
    """The outcome of one look at a table."""

    replaced: int
    """Files that are gone."""
    expired: int
    """Snapshots that are gone."""


@dataclass
class _Table:
    missing: int
    """So many files have to come until the next look."""
    due_at: float | None = None
    """The time of the next look, by the monotonic clock; None: once files have come."""
    failures: int = 0
    error: str = ""
    """The last logged error."""


class _Closing(Exception):
    """The task ends."""


class Compaction:
    """The maintenance of one task's tables; `compact` looks at a table once, and rewrites one group of files."""

    def __init__(self, settings: CompactSettings, compact: Callable[[str], Compacted]) -> None:
        self._compact, self._every = compact, settings.files or _FILES
        self._tables: dict[str, _Table] = {}
        self._replaced = self._expired = self._failures = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def committed(self, table: str, files: int) -> None:
        """Learn of a commit with so many files; waits for nothing."""
        with self._changed:
            known = self._tables.setdefault(table, _Table(0))  # what a former process left is looked at soon
            known.missing -= max(1, files)
            if known.missing <= 0 and known.due_at is None:
                known.due_at = time.monotonic()
                self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lake-compaction", daemon=True)
                self._thread.start()

    def samples(self) -> Iterable[Sample]:
        """Yield the counts of replaced files, expired snapshots and failures."""
        yield Sample(
            "headrace_compact_replaced_total", {}, self._replaced, "Small files that merged ones have replaced"
        )
        yield Sample("headrace_compact_expired_total", {}, self._expired, "Snapshots that were expired")
        yield Sample("headrace_compact_failures_total", {}, self._failures, "Attempts to merge small files that failed")

    def end_soon(self) -> None:
        """Look at no more tables; waits for nothing."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def close(self) -> None:
        """End soon; `compact` has to end by itself."""
        self.end_soon()
        if self._thread is not None:
            self._thread.join(_LAST_S)

    # -- on the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(_Closing):
            while True:
                name, table = self._next()
                self._look(name, table)

    def _next(self) -> tuple[str, _Table]:
        """The table that is due first, once it is. Errors: _Closing."""
        with self._changed:
            while True:
                self._check_open()
                at, name = min(
                    ((one.due_at, name) for name, one in self._tables.items() if one.due_at is not None),
                    default=(None, ""),
                )
                if at is not None and at <= time.monotonic():
                    table = self._tables[name]
                    table.missing, table.due_at = self._every, None
                    return name, table
                self._changed.wait(None if at is None else at - time.monotonic())

    def _look(self, name: str, table: _Table) -> None:
        try:
            self._compact_all(name)
        except _Closing:
            raise
        except Exception as error:  # of any kind: rows go on, and it is tried again
            self._failed(name, table, str(error) or type(error).__name__)
        else:
            if table.error:
                log.info("Small files of table %s are merged again", name)
            table.failures, table.error = 0, ""

    def _compact_all(self, name: str) -> None:
        while True:
            self._take_turn()
            try:
                done = self._compact(name)
            finally:
                _TURN.release()
            self._replaced += done.replaced
            self._expired += done.expired
            if not done.replaced:
                return
            log.debug("%d files of table %s were replaced", done.replaced, name)

    def _take_turn(self) -> None:
        self._check_open()
        while not _TURN.acquire(timeout=_TURN_S):
            self._check_open()

    def _failed(self, name: str, table: _Table, error: str) -> None:
        with self._changed:
            self._check_open()
            self._failures += 1
            table.failures += 1
            table.due_at = time.monotonic() + _BACKOFF.pause(table.failures)
            is_new, table.error = table.error != error, error
        if is_new:
            log.warning(
                "Small files of table %s are not merged: %s. Rows go on; it is tried again.", name, error.rstrip(".")
            )

    def _check_open(self) -> None:
        if self._closing:
            raise _Closing
