"""Merges the small files of a task's partitions, on a thread beside its commits.

A directory is looked at when enough files have come to it. A failure is logged once and tried again; rows go on.

Decided: the task that owns a partition merges its files, because its marker fences the merge as it does commits: two
merges of the same files would leave rows twice (tested: `test_replacement.py`). Loses: files of topics that no task
reads any more stay as they are.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa

from headrace.connectors.hdfs.compact_settings import CompactSettings
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.sink.commit_marker import CommitMarker
from headrace.connectors.hdfs.sink.replacement import stage
from headrace.connectors.hdfs.sink.small_files import CommittedFile, by_layout, mergeable, newest, runs
from headrace.connectors.hdfs.sink.spec import FileSpec
from headrace.connectors.hdfs.sink.writer import local_folder
from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.samples import Sample
from headrace.plugins.scratch import local_disk

_BACKOFF: Final = Backoff(1, 600)
_LAST_S: Final = 2.0
"""The end of a task waits so long for the file that is being read; the worker grants 5 s for all of it."""
_MOST_PLACES: Final = 10_000
"""The most directories whose files are counted. Another look at a forgotten one does no harm."""
_TURN: Final = threading.Lock()
"""One merge at a time in a process, for its memory."""
_TURN_S: Final = 0.2
"""A task that waits for its turn checks at this interval if it has to end."""

log = logging.getLogger(__name__)


class _PartitionFolder(NamedTuple):
    """The files of a partition in one directory."""

    partition: TopicPartition
    folder: str


@dataclass(eq=False)
class _FolderState:
    marker: CommitMarker
    missing: int = 1
    """So many files have to come until another look is worth it."""
    due_at: float | None = None
    """The time of the next look, by the monotonic clock; None: once files have come."""
    failures: int = 0
    """Failures in a row."""
    error: str = ""
    """The last logged error."""


class _Closing(Exception):
    """The task ends."""


class Compaction:
    """Merges the small files of one task's partitions."""

    def __init__(self, spec: FileSpec, settings: CompactSettings) -> None:
        self._spec, self._settings = spec, settings
        self._places: dict[_PartitionFolder, _FolderState] = {}
        self._replaced = self._failures = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._read = ""
        """The file that is being read."""

    def committed(self, marker: CommitMarker, paths: Iterable[str]) -> None:
        """Learn of newly visible files; waits for nothing."""
        with self._changed:
            for path in paths:
                known = self._places.setdefault(
                    _PartitionFolder(marker.partition, path.rpartition("/")[0]), _FolderState(marker)
                )
                known.marker, known.missing = marker, known.missing - 1
                if known.missing <= 0 and known.due_at is None:
                    known.due_at = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="compaction", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions that go. A merge of theirs comes to nothing once another task has taken them."""
        with self._changed:
            for place in [place for place in self._places if place.partition in partitions]:
                del self._places[place]

    def samples(self) -> Iterable[Sample]:
        """Yield the counts of due directories, replaced files and failures."""
        with self._changed:
            due = sum(known.due_at is not None for known in self._places.values())
            replaced, failures = self._replaced, self._failures
        yield Sample("headrace_compact_due", {}, due, "Directories that are to be looked at for small files")
        yield Sample("headrace_compact_replaced_total", {}, replaced, "Small files that merged ones have replaced")
        yield Sample("headrace_compact_failures_total", {}, failures, "Attempts to merge small files that failed")

    def close(self) -> None:
        """End soon. Files that are not merged are merged when the next file comes to their directory."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_LAST_S)

    # -- on the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with suppress(_Closing):
                while True:
                    self._look(*self._next())
        finally:
            self._spec.store.close()  # it may have connected again after the task's end

    def _next(self) -> tuple[_PartitionFolder, _FolderState]:
        """The place that is due first, once it is. Errors: _Closing."""
        with self._changed:
            while True:
                self._check_open()
                due = ((known.due_at, place) for place, known in self._places.items() if known.due_at is not None)
                at, place = min(due, default=(None, None))
                if at is not None and place is not None and at <= time.monotonic():
                    known = self._places[place]
                    known.missing, known.due_at = 0, None  # a file that comes from now on makes it due again
                    return place, known
                self._changed.wait(None if at is None else at - time.monotonic())

    def _check_open(self) -> None:
        if self._closing:
            raise _Closing

    def _look(self, place: _PartitionFolder, known: _FolderState) -> None:
        """Merge the small files of a directory."""
        try:
            missing = self._merge_all(place, known.marker)
        except _Closing:
            raise
        except DataError as error:
            self._failed(place, known, f"'{self._read}' cannot be read: {error}. Move it away")
        except Exception as error:  # of any kind: rows go on, and it is tried again
            self._failed(place, known, str(error) or type(error).__name__)
        else:
            if known.error:
                log.info("Small files of %s in '%s' are merged again", place.partition, place.folder)
            with self._changed:
                known.missing, known.failures, known.error = missing, 0, ""
                self._bound()

    def _bound(self) -> None:
        """Forget the oldest places."""
        if (over := len(self._places) - _MOST_PLACES) > 0:
            for place in [place for place, known in self._places.items() if known.due_at is None][:over]:
                del self._places[place]

    def _failed(self, place: _PartitionFolder, known: _FolderState, error: str) -> None:
        with self._changed:
            self._check_open()
            if self._places.get(place) is not known:
                return  # its partition has gone, which is why
            self._failures += 1
            known.failures += 1
            known.due_at = time.monotonic() + _BACKOFF.pause(known.failures)
            is_new, known.error = known.error != error, error
        if is_new:
            text = "Small files of %s in '%s' of %s are not merged: %s. Files go on; it is tried again."
            log.warning(text, place.partition, place.folder, self._spec.store.url, error.rstrip("."))

    def _merge_all(self, place: _PartitionFolder, marker: CommitMarker) -> int:
        """Merge until nothing is left to merge; return how many files have to come until something may be."""
        layouts: dict[str, Hashable | None] = {}

        def layout(one: CommittedFile) -> Hashable | None:
            if one.path not in layouts:
                with self._opened(one) as file:
                    layouts[one.path] = self._spec.format.layout(file)
            return layouts[one.path]

        while True:
            since, offset = marker.finish()  # else a merged file is listed with those that it replaces
            found = runs(self._files(place, offset), self._is_small)
            alike = [part for run in newest(found, self._settings) for part in by_layout(run, layout)]
            group = next((some for part in alike if (some := mergeable(part, self._settings)) is not None), None)
            if group is None:
                last = alike[-1] if len(found[-1]) >= self._settings.files and alike else found[-1]
                return max(1, self._settings.files - len(last))
            self._merge(place, marker, since, group)

    def _files(self, place: _PartitionFolder, offset: int | None) -> list[CommittedFile]:
        """The files before the offset: a commit beside this may have named only some of the later ones."""
        if offset is None:
            return []
        entries = [one for one in self._spec.store.entries(place.folder) if not one.is_folder]
        offsets = [(self._spec.names.offsets(one.path, place.partition), one) for one in entries]
        return [CommittedFile(*at, one.path, one.size) for at, one in offsets if at is not None and at[1] < offset]

    def _is_small(self, one: CommittedFile) -> bool:
        return one.size < self._settings.size_bytes and one.path.endswith(self._spec.format.extension)

    def _merge(self, place: _PartitionFolder, marker: CommitMarker, since: int, group: Sequence[CommittedFile]) -> None:
        final = self._spec.names.file_in(place.folder, place.partition, group[0].first, group[-1].last)
        attempt = uuid4().hex
        with self._turn(), local_folder() as beside:
            local = os.path.join(beside, "merged")
            with local_disk("files"):
                self._spec.format.merge(self._each(group), local)
            self._stage(marker, attempt, local, final, group)
        marker.replace(attempt, since)
        with self._changed:
            self._replaced += len(group)
        log.debug("%d small files of %s are merged into '%s'", len(group), place.partition, final)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._check_open()
        while not _TURN.acquire(timeout=_TURN_S):
            self._check_open()
        try:
            yield
        finally:
            _TURN.release()

    def _each(self, group: Sequence[CommittedFile]) -> Iterator[pa.NativeFile]:
        for one in group:
            with self._opened(one) as file:
                yield file

    def _opened(self, one: CommittedFile) -> pa.NativeFile:
        self._check_open()
        self._read = one.path
        try:
            return self._spec.store.open(one.path)
        except FileNotFoundError:
            raise RetriableError(f"'{one.path}' was deleted meanwhile") from None

    def _stage(
        self, marker: CommitMarker, attempt: str, local: str, final: str, group: Sequence[CommittedFile]
    ) -> None:
        folder = marker.staging(attempt)
        try:
            stage(self._spec.store, folder, local, final, [one.path for one in group])
        except BaseException:
            with suppress(RetriableError, StoreError):  # else the partition's next owner deletes it
                self._spec.store.delete(folder)
            raise
