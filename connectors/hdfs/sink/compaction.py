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
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
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
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.interop.upkeep import Upkeep
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.samples import Sample
from headrace.plugins.scratch import local_disk

_TURN: Final = threading.Lock()
"""One merge at a time in a process, for its memory."""

log = logging.getLogger(__name__)


class _PartitionFolder(NamedTuple):
    """The files of a partition in one directory."""

    partition: TopicPartition
    folder: str


class Compaction:
    """Merges the small files of one task's partitions."""

    def __init__(self, spec: FileSpec, settings: CompactSettings) -> None:
        self._spec, self._settings = spec, settings
        # It may connect again after the task's end.
        self._upkeep = Upkeep("compaction", self._look, self._described, _TURN, ended=lambda: spec.store.close())
        self._markers: dict[TopicPartition, CommitMarker] = {}
        self._replaced = 0
        self._read = ""
        """The file that is being read."""

    def committed(self, marker: CommitMarker, paths: Iterable[str]) -> None:
        """Learn of newly visible files; waits for nothing."""
        self._markers[marker.partition] = marker
        for path in paths:
            self._upkeep.came(_PartitionFolder(marker.partition, path.rpartition("/")[0]))

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions that go. A merge of theirs comes to nothing once another task has taken them."""
        self._upkeep.forget(lambda place: place.partition in partitions)
        for partition in partitions:
            self._markers.pop(partition, None)

    def samples(self) -> Iterable[Sample]:
        """Yield the counts of due directories, replaced files and failures."""
        due, failures = self._upkeep.due, self._upkeep.failures
        yield Sample("headrace_compact_due", {}, due, "Directories that are to be looked at for small files")
        yield Sample(
            "headrace_compact_replaced_total", {}, self._replaced, "Small files that merged ones have replaced"
        )
        yield Sample("headrace_compact_failures_total", {}, failures, "Attempts to merge small files that failed")

    def close(self) -> None:
        """End soon. Files that are not merged are merged when the next file comes to their directory."""
        self._upkeep.close()

    # -- on the thread -------------------------------------------------------------------------------------------------

    def _described(self, place: _PartitionFolder) -> str:
        return f"Small files of {place.partition} in '{place.folder}' of {self._spec.store.url}"

    def _look(self, place: _PartitionFolder) -> int:
        """Merge the small files of a directory; return how many files have to come until another look."""
        if (marker := self._markers.get(place.partition)) is None:
            return 1  # its partition has gone
        try:
            return self._merge_all(place, marker)
        except DataError as error:
            raise RetriableError(f"'{self._read}' cannot be read: {error}. Move it away") from error

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
        with self._upkeep.turn(), local_folder() as beside:
            local = os.path.join(beside, "merged")
            with local_disk("files"):
                self._spec.format.merge(self._each(group), local)
            self._stage(marker, attempt, local, final, group)
        marker.replace(attempt, since)
        self._replaced += len(group)
        log.debug("%d small files of %s are merged into '%s'", len(group), place.partition, final)

    def _each(self, group: Sequence[CommittedFile]) -> Iterator[pa.NativeFile]:
        for one in group:
            with self._opened(one) as file:
                yield file

    def _opened(self, one: CommittedFile) -> pa.NativeFile:
        self._upkeep.check_open()
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
