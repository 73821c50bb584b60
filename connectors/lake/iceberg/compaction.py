"""Replaces small files and expires old snapshots of a task's tables, on a thread beside its commits.

A table is looked at when enough files have come to it. A failure is logged once and tried again; rows go on. Two tasks
may rewrite the same files: Iceberg lets one of them commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from headrace.connectors.lake.iceberg.compact_settings import CompactSettings
from headrace.plugins.interop.upkeep import Upkeep
from headrace.plugins.samples import Sample

_FILES: Final = 100
"""Old snapshots are looked for after so many files if none are rewritten."""
_TURN: Final = threading.Lock()
"""One table at a time in a process, for the driver's memory."""

log = logging.getLogger(__name__)


class Compacted(NamedTuple):
    """The outcome of one look at a table."""

    replaced: int
    """Files that are gone."""
    expired: int
    """Snapshots that are gone."""


class Compaction:
    """The maintenance of one task's tables; `compact` looks at a table once, and rewrites one group of files."""

    def __init__(self, settings: CompactSettings, compact: Callable[[str], Compacted]) -> None:
        self._compact, self._every = compact, settings.files or _FILES
        self._upkeep = Upkeep("lake-compaction", self._look, "Small files of table {}".format, _TURN)
        self._replaced = self._expired = 0

    def committed(self, table: str, files: int) -> None:
        """Learn of a commit with so many files; waits for nothing. The first is soon followed by a look."""
        self._upkeep.came(table, max(1, files))

    def samples(self) -> Iterable[Sample]:
        """Yield the counts of replaced files, expired snapshots and failures."""
        failures, replaced = self._upkeep.failures, self._replaced
        yield Sample("headrace_compact_replaced_total", {}, replaced, "Small files that merged ones have replaced")
        yield Sample("headrace_compact_expired_total", {}, self._expired, "Snapshots that were expired")
        yield Sample("headrace_compact_failures_total", {}, failures, "Attempts to merge small files that failed")

    def end_soon(self) -> None:
        """Look at no more tables; waits for nothing."""
        self._upkeep.end_soon()

    def close(self) -> None:
        """End soon; `compact` has to end by itself."""
        self._upkeep.close()

    def _look(self, table: str) -> int:
        """Compact a table until nothing is left; return how many files have to come until another look."""
        while True:
            with self._upkeep.turn():
                done = self._compact(table)
            self._replaced += done.replaced
            self._expired += done.expired
            if not done.replaced:
                return self._every
            log.debug("%d files of table %s were replaced", done.replaced, table)
