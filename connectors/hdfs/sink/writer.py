"""Writes rows to files on the local disk; stages whole files in the store, for the task's commit.

Inline the files live on over the batches in the task's `Files`. In a job a writer has its own for a range of offsets,
and throws away the files that the range leaves unfinished.

Decided: a file is written on the local disk and copied to the store once it is whole, because then memory is bounded
however many files are open (500 directories of Parquet), no store sees half a file, and a store that is away keeps
nothing open. Loses: each file is written twice, and needs room on the local disk meanwhile (TMPDIR says where).
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.sink.parallel_uploads import Uploads
from headrace.connectors.hdfs.sink.partition_files import ClosedFile, PartitionFiles, RefusedRecord
from headrace.connectors.hdfs.sink.spec import Begin, FileSpec
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.scratch import ScratchFolder, local_disk, scratch_folder

MEMORY_BYTES: Final = 64 << 20
"""The most memory of all open files of a process."""
_FOLDERS: Final = "headrace-files"


class Files:
    """The files of some partitions in this process."""

    def __init__(self, spec: FileSpec) -> None:
        self.spec = spec
        self._partitions: dict[TopicPartition, PartitionFiles] = {}
        self._folder: ScratchFolder | None = None
        self._staged: dict[TopicPartition, StagingAttempt] = {}
        self._uploads = Uploads(spec.store)

    def add(
        self, rows: pa.RecordBatch, begins: Mapping[TopicPartition, Begin]
    ) -> dict[TopicPartition, list[RefusedRecord]]:
        """Take good rows; return those that cannot be written. Errors: RetriableError of the local disk; DataError."""
        refused = {}
        with local_disk("files"):
            for partition, some in by_partition(rows):
                files = self._of(partition, begins.get(partition, Begin(None)))
                if found := files.add(some):
                    refused[partition] = found
                self._upload(files)
                self._bound_memory()
        return refused

    def stage(self) -> list[WrittenPart]:
        """Stage whole files; return how far each partition is. Errors: RetriableError, StoreError."""
        now = self.spec.clock()
        for files in self._partitions.values():
            with local_disk("files"):
                files.end_if_due(now)
            self._upload(files)
        try:
            self._uploads.finish()
        except BaseException:
            self._delete_staged()
            raise
        staged, self._staged = self._staged, {}
        parts = []
        for partition, files in self._partitions.items():
            attempt = staged.get(partition, StagingAttempt())
            parts.append(WrittenPart(partition, attempt.name, files.held, files.take_done(), tuple(attempt.files)))
        return parts

    def _upload(self, files: PartitionFiles) -> None:
        for file in files.take_closed():
            attempt = self._staged.setdefault(files.of, StagingAttempt())
            staged = Staged.of(file, self._folder_of(files.of, attempt) if self.spec.store.renames else "")
            attempt.files.append(staged)
            self._uploads.begin({**file.beside, file.local: staged.path})

    def _folder_of(self, partition: TopicPartition, attempt: StagingAttempt) -> str:
        return f"{self.spec.names.partition_folder(partition)}/{attempt.name}/"

    def _delete_staged(self) -> None:
        """Delete files that were staged in vain, or each try would fill the store further; best effort."""
        staged, self._staged = self._staged, {}
        with suppress(RetriableError, StoreError):  # else the partition's next owner deletes it
            for partition, attempt in staged.items():
                if self.spec.store.renames:
                    self.spec.store.delete(self._folder_of(partition, attempt).rstrip("/"))

    def due_s(self) -> float | None:
        """The seconds until the clock ends open files of any partition; None: it does not."""
        return min((s for files in self._partitions.values() if (s := files.due_s()) is not None), default=None)

    def drop(self, partitions: Sequence[TopicPartition] | None = None) -> None:
        """Throw away the files of these partitions; None: of all, and the staged files of a failed batch, too."""
        if partitions is None and self._staged:
            with suppress(RetriableError, StoreError):
                self._uploads.finish()
            self._delete_staged()
        for partition in list(self._partitions) if partitions is None else partitions:
            if (files := self._partitions.pop(partition, None)) is not None:
                files.drop()
        if not self._partitions and self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _of(self, partition: TopicPartition, begin: Begin) -> PartitionFiles:
        if self._folder is None:
            self._folder = local_folder()
        if partition not in self._partitions:
            self._partitions[partition] = PartitionFiles(self.spec, partition, self._folder.name, begin)
        return self._partitions[partition]

    def _bound_memory(self) -> None:
        writers = [writer for files in self._partitions.values() for writer in files.writers]
        waiting = sum(writer.buffered_bytes for writer in writers)
        for writer in sorted(writers, key=lambda one: one.buffered_bytes, reverse=True):
            if waiting <= MEMORY_BYTES:
                return
            waiting -= writer.buffered_bytes
            writer.flush()


def local_folder() -> ScratchFolder:
    """A folder of this process for unfinished files, beside those of its user's other processes. Errors: OSError."""
    above = Path(tempfile.gettempdir(), f"{_FOLDERS}-{os.getuid()}")
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    if above.stat().st_uid != os.getuid():
        raise OSError(errno.EPERM, "It belongs to another user; remove it, or set TMPDIR", str(above))
    return scratch_folder("files", parent=above)


@dataclass(frozen=True)
class Staged:
    """A whole file in the store."""

    path: str
    """The staged path; the final path if the store does not rename."""
    final: str
    topic: str
    directory: str
    layout: int

    @classmethod
    def of(cls, file: ClosedFile, above: str) -> Staged:
        """The file, staged in this folder."""
        return cls(f"{above}{file.path}", file.path, file.topic, file.directory, file.layout)


@dataclass
class StagingAttempt:
    """The files of one partition that are staged together, in a folder of this name."""

    name: str = field(default_factory=lambda: uuid4().hex)
    files: list[Staged] = field(default_factory=list)


@dataclass(frozen=True)
class WrittenPart:
    """A writer's files of one partition."""

    partition: TopicPartition
    attempt: str
    held: int | None
    """The first offset that is not in whole files."""
    done: tuple[int, int] | None
    """The first and last offset in whole files."""
    files: tuple[Staged, ...]

    @property
    def first(self) -> int | None:
        """Its first offset; None: it had no rows."""
        return self.held if self.done is None else self.done[0]

    def to_json(self) -> Any:
        """The part as JSON values."""
        files = [list(vars(file).values()) for file in self.files]
        return [*self.partition, self.attempt, self.held, self.done, files]

    @classmethod
    def of_json(cls, values: Any) -> WrittenPart:
        """The part of these JSON values."""
        topic, number, attempt, held, done, files = values
        staged = tuple(Staged(*file) for file in files)
        return cls(TopicPartition(topic, number), attempt, held, done and tuple(done), staged)


_KEPT: Final[WeakValueDictionary[str, Files]] = WeakValueDictionary()


def keep(name: str, files: Files) -> None:
    """Make writers of this name in this process write to these files, as long as their task has them."""
    _KEPT[name] = files


@dataclass
class FilesWriter:
    """Writes the rows of one batch, or of one partition of it."""

    name: str
    spec: FileSpec
    begins: Mapping[TopicPartition, Begin]
    _own: Files | None = field(default=None, repr=False)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows to their files. Errors: RecordsFailed; as `Files.add`.

        Inline the bad ones are named; all rows after one that is not tolerated are left. In a job one fails the batch.
        """
        bad, good = rows["error"].is_valid(), rows["layout"].is_valid()
        failures = [RecordFailure(row, rows["error"][row].as_py()) for row in pc.indices_nonzero(bad).to_pylist()]
        if failures:
            good = pc.and_(good, pc.invert(bad) if self.spec.tolerates else _before_first(rows, bad))
        some = rows.filter(good) if good.false_count else rows
        if len(some) and (refused := self._files.add(some, self.begins)):
            failures = sorted([*failures, *_failures(rows, refused)])
        if failures and self.name not in _KEPT:
            raise RecordsFailed(failures[0].message)
        if failures:
            raise RecordsFailed(failures[0].message, failures)

    def finish(self) -> bytes:
        """Stage whole files; return the answer for `parts_of`. Errors: RetriableError, StoreError."""
        parts = self._files.stage()
        self._end()
        return json.dumps([part.to_json() for part in parts]).encode()

    def abort(self) -> None:
        """Throw away the open files: inline also the rows of batches before this one, which come again, too."""
        self._files.drop()
        self._end()

    @property
    def _files(self) -> Files:
        if (kept := _KEPT.get(self.name)) is not None:
            return kept
        if self._own is None:
            self._own = Files(self.spec)
        return self._own

    def _end(self) -> None:
        if self._own is not None:
            self._own.drop()
            self.spec.store.close()
            self._own = None


def parts_of(part: bytes) -> list[WrittenPart]:
    """The parts in an answer of `finish`."""
    return [WrittenPart.of_json(values) for values in json.loads(part)]


def _failures(
    rows: pa.RecordBatch, refused: Mapping[TopicPartition, Sequence[RefusedRecord]]
) -> Iterator[RecordFailure]:
    """The failures of refused rows, by their index among all rows."""
    for partition, found in refused.items():
        places = pc.indices_nonzero(_is_of(rows, partition)).to_numpy()
        offsets = rows["offset"].to_numpy()[places]
        for one in found:
            yield RecordFailure(int(places[np.searchsorted(offsets, one.offset)]), one.why)


def _before_first(rows: pa.RecordBatch, bad: pa.Array) -> pa.Array:
    """True for the rows of each partition before its first bad one."""
    good = np.ones(len(rows), bool)
    table = pa.table({"topic": rows["origin_topic"], "partition": rows["origin_partition"], "at": rows["offset"]})
    for row in table.filter(bad).group_by(["topic", "partition"]).aggregate([("at", "min")]).to_pylist():
        after = pc.and_(
            _is_of(rows, TopicPartition(row["topic"], row["partition"])),
            pc.greater_equal(rows["offset"], row["at_min"]),
        )
        good &= ~after.to_numpy(zero_copy_only=False)
    return pa.array(good)


def by_partition(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Yield each partition's rows."""
    places = pa.table({"topic": rows["origin_topic"], "partition": rows["origin_partition"]})
    found = places.group_by(["topic", "partition"]).aggregate([]).to_pylist()
    for one in found:
        partition = TopicPartition(one["topic"], one["partition"])
        yield partition, rows if len(found) == 1 else rows.filter(_is_of(rows, partition))


def _is_of(rows: pa.RecordBatch, partition: TopicPartition) -> pa.Array:
    return pc.and_(
        pc.equal(rows["origin_topic"], partition.topic), pc.equal(rows["origin_partition"], partition.partition)
    )
