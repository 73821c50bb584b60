"""Finds which logs of a task have news: all files are looked at now and then, those that change often at each look."""

from __future__ import annotations

import logging
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from headrace.connectors.logs.files.directories import Directories, Watches
from headrace.connectors.logs.files.follow import Begin, FollowedLog
from headrace.connectors.logs.files.globs import Globs
from headrace.connectors.logs.files.rotation import readings
from headrace.connectors.logs.files.settings import LogFilesSettings

MOST_LOGS: Final = 64
"""The most logs of a plan."""
_HOT_S: Final = 60.0
_MANY: Final = 1_000
_REST: Final = 20
"""A look at many files comes after so many times what the last one took."""

log = logging.getLogger(__name__)


class Logs:
    """The logs of one task, by path."""

    def __init__(
        self,
        settings: LogFilesSettings,
        number: int,
        allowed: tuple[str, ...],
        has_offset: Callable[[str], bool],
        told: Callable[[], None],
        is_first: bool,
    ) -> None:
        """`has_offset` says if an offset is stored for a log; `is_first`: the connector never looked before."""
        self.followed: dict[str, FollowedLog] = {}
        self.is_first = is_first
        self._settings, self._number, self._allowed = settings, number, allowed
        self._has_offset, self._wake = has_offset, told
        self._globs = Globs(settings.paths, settings.exclude)
        self._directories = Directories()
        self._watches = Watches(self._told)
        self._is_told = False
        self._scanned: float | None = None
        self._began_ns = time.time_ns()
        self._first_look = 0.0
        self._took_s = 0.0
        self._seen: dict[str, object] = {}
        self._settled: dict[str, object] = {}
        self._hot: dict[str, float] = {}
        self._orphans: set[str] = set()
        self._turn = 0
        self.is_watched = False
        self._idle = 0

    def look(self) -> list[str]:
        """The logs that may have something to read, some of them in turn if there are many."""
        self._directories.forget()
        now = time.monotonic()
        since = now - self._scanned if self._scanned is not None else math.inf
        rest = _REST * self._took_s if len(self.followed) > _MANY else 0.0
        is_due = since >= max(self._settings.scan_s, rest)
        if is_due or (since >= rest / 2 and (self._is_told or self._globs.have_changed())):
            self._is_told = False
            self._scan(now)
            self._took_s = time.monotonic() - now
        for path in [path for path, since in self._hot.items() if now - since > _HOT_S]:
            del self._hot[path]
        for path in self._hot:
            self._see(path, _status(path), now)
        news = [path for path, one in self.followed.items() if self._is_news(path, one, now)]
        if len(news) <= MOST_LOGS:
            return news
        self._turn = (self._turn + MOST_LOGS) % len(news)
        return (news + news)[self._turn : self._turn + MOST_LOGS]

    def state(self, path: str) -> object:
        """The state of a log's files as they were seen."""
        return self._seen.get(path), self.followed[path].state()

    def settle(self, path: str, state: object) -> None:
        """Notes that there is nothing to read in this state."""
        self._settled[path] = state
        one = self.followed[path]
        if self._seen.get(path) is None and not one.is_open and one.due is None:
            for known in (self.followed, self._seen, self._settled, self._hot):
                known.pop(path, None)

    def found(self, nothing: bool) -> None:
        """Notes if a look found nothing: the second such look in a row has the directories watched."""
        self._idle = self._idle + 1 if nothing else 0
        waits = any(one.due is not None for one in self.followed.values())
        # Watches that stand only now tell nothing of what came just before: another look does.
        self.is_watched = self._idle > 1 and self._watches.stand(list(self._globs.directories))
        self.is_watched = self.is_watched and not waits and not self._is_told

    def bound_open(self, kept: set[str]) -> None:
        """Closes files beyond the most that may be open, the longest idle first, but for those of a plan."""
        opened = [path for path, one in self.followed.items() if one.is_open and path not in kept]
        opened.sort(key=lambda path: self._hot.get(path, 0.0))
        for path in opened[: max(0, len(opened) + len(kept) - self._settings.most_open)]:
            state = self._settled.get(path)
            self.followed[path].close()
            if state is not None:
                self._settled[path] = self.state(path)

    def close(self) -> None:
        """Closes all files and watches."""
        self._watches.close()
        for one in self.followed.values():
            one.close()

    def _told(self) -> None:
        self._is_told = True
        self._wake()

    def _is_news(self, path: str, one: FollowedLog, now: float) -> bool:
        return self._settled.get(path) != self.state(path) or (one.due is not None and now >= one.due)

    def _scan(self, now: float) -> None:
        files = self._globs.files()
        lives = set(self._lives(files))
        first = self._scanned is None
        self._first_look = now if first else self._first_look
        self._scanned = now
        for path in lives:
            if zlib.crc32(path.encode("utf-8", "surrogateescape")) % self._settings.tasks != self._number:
                continue
            if path not in self.followed:
                self.followed[path] = self._follow(path, first)
            self._see(path, files.get(path), now)
        for path in self.followed.keys() - lives:
            self._see(path, _status(path), now)

    def _follow(self, path: str, first: bool) -> FollowedLog:
        began = self._began_ns
        at_end = first and self.is_first and self._settings.start_at == "end"
        all_files = self._settings.start_at == "beginning"

        def wants(rotated: str, status: os.stat_result) -> bool:
            is_new = not first and status.st_mtime_ns >= began
            return not self._globs.excludes(rotated) and (all_files or is_new or self._globs.match(rotated))

        settings = self._settings
        begin = Begin(at_end, wants)
        return FollowedLog(path, self._allowed, settings.reading, settings.timeout_s, begin, self._directories)

    def _see(self, path: str, status: os.stat_result | None, now: float) -> None:
        shown = None if status is None else (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if self._seen.get(path) != shown:
            if path in self._seen or now > self._first_look:
                self._hot[path] = now
            self._seen[path] = shown

    def _lives(self, files: dict[str, os.stat_result]) -> Iterator[str]:
        """The logs of these files; a rotated file belongs to the log whose name it has, if that is there or known."""
        for path in files:
            if (live := self._live_of(path, files)) is not None:
                yield live
            elif (there := next(filter(os.path.isfile, _bases(path)), None)) is not None:
                self._tell_orphan(path, there)
            else:
                yield path

    def _live_of(self, path: str, files: dict[str, os.stat_result]) -> str | None:
        """The log of a rotated file; None if that is none that is there or known."""
        bases = _bases(path)
        live = next((base for base in bases if base in files or base in self.followed), None)
        if live is None:
            live = next((base for base in bases if self._has_offset(base)), None)
        # While `app.log.1` is compressed, `app.log.1.gz` lies beside it, and is of the same log.
        return None if live is None else self._live_of(live, files) or live

    def _tell_orphan(self, path: str, live: str) -> None:
        if path not in self._orphans:
            self._orphans.add(path)
            log.warning("%s is a rotated file of %s, which no pattern of `paths` names: it is not read. Name the live "
                        "file; its rotated files need no pattern.", path, live)  # fmt: skip


def _bases(path: str) -> list[str]:
    """The live files that a file may be a rotated one of."""
    directory, name = os.path.split(path)
    return [os.path.join(directory, base) for base, _ in readings(name)]


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
