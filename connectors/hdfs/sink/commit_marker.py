"""The commit marker of a Kafka partition in the store, in messages its token: an empty file whose name tells the end
of its committed files.

    at+<next offset>+<topic id>+<owner>         all before this offset is in files with their final names
    commit+<next offset>+<topic id>+<attempt>   so it will be once the files of this attempt have them

It lies in a folder of the partition, beside a folder for each attempt that holds staged files under their final paths.

    take:     at+… is renamed to bear the new owner; attempts are deleted
              commit+… : the attempt's files get their final names, then it becomes at+…
    commit:   at+…<owner> is renamed to commit+…; the files get their final names; it becomes at+…<owner>
    replace:  a commit of the same offset, whose file takes the place of others (`replacement`)

Decided: one rename is the commit and the fence, because a store renames a source for one caller only: an owner whose
partition was taken finds no source, so that a zombie commits nothing (tested: `test_commit_marker.py`). Any task can
end a commit that has begun, over and over, with the same outcome. Nothing is appended, leased or listed: a start
reads one folder a partition, however many files there are. Loses: two more renames a commit; S3, which cannot
rename, has none.

Invariant 2: the topic's id is in the name, because offsets of a topic that was made again mean other records.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final, NamedTuple
from uuid import uuid4

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.sink.names import Names
from headrace.connectors.hdfs.sink.parallel_uploads import each
from headrace.connectors.hdfs.sink.replacement import NOTE, delete_replaced
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition

log = logging.getLogger(__name__)

_AT: Final = "at"
_COMMIT: Final = "commit"
_NOWHERE: Final = "kafka"
"""Stands for an offset: Kafka's counts."""
_NO_ID: Final = "-"
_TAKES: Final = 5
_SAFE: Final = str.maketrans("+/", "-_")
"""Replaces Base64's signs by some that a name may have."""
_UNSAFE: Final = re.compile(r"[^\w.-]")


class MarkerName(NamedTuple):
    """A marker's name, parsed."""

    kind: str
    offset: int | None
    topic_id: str
    by: str
    """The owner, or the attempt."""

    @classmethod
    def parse(cls, name: str) -> MarkerName | None:
        """Parse a name; None for a name of something else."""
        parts = name.split("+")
        if len(parts) != 4 or parts[0] not in (_AT, _COMMIT):
            return None
        if parts[1] == _NOWHERE:
            return cls(parts[0], None, *parts[2:])
        return cls(parts[0], int(parts[1]), *parts[2:]) if parts[1].isdigit() else None

    def __str__(self) -> str:
        offset = _NOWHERE if self.offset is None else f"{self.offset:010d}"
        return f"{self.kind}+{offset}+{self.topic_id}+{self.by}"


@dataclass
class CommitMarker:
    """The marker of one partition, for its present owner; any thread may call."""

    store: Store
    partition: TopicPartition
    task: str
    """Part of an owner's name, for people."""
    names: Names
    at: MarkerName | None = None
    _asked: MarkerName | None = None
    """The requested name of a rename that has not been answered."""
    _ownership: int = 0
    """The number of times that this task has become the owner."""
    _is_taken: bool = False
    """True if a commit has met another owner."""
    _merging: str = ""
    """The attempt of `replace` that has not ended, as far as is known."""
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def folder(self) -> str:
        """The marker's folder."""
        return self.names.partition_folder(self.partition)

    @property
    def offset(self) -> int | None:
        """The next offset to commit; None if Kafka's counts."""
        return None if self.at is None else self.at.offset

    def seen(self) -> int | None:
        """The next offset to commit as the store has it, also of another owner; None: Kafka's or files' names.

        Changes nothing. Errors: RetriableError, StoreError.
        """
        found, _ = self._look()
        return None if found is None else found.offset

    def staging(self, attempt: str) -> str:
        """The folder in which an attempt stages its files, under their final paths."""
        return f"{self.folder}/{attempt}"

    def take(self, topic_id: str | None) -> int | None:
        """Become the owner; return the next offset, None if Kafka's counts. Errors: RetriableError, StoreError.

        Without a marker, the names of the partition's files tell the offset.
        """
        topic_id = None if topic_id is None else topic_id.translate(_SAFE)
        for _ in range(_TAKES):
            found, attempts = self._look()
            if found is None:
                self._create(topic_id)
                continue
            if found.kind == _COMMIT:
                self.at = found
                self._publish(found)
                self._end_commit()
                continue
            mine = self._mine(found, topic_id, _new_owner(self.task))
            if self.store.rename(self._path(found), self._path(mine)):
                self.at, self._is_taken = mine, False
                self._ownership += 1
                self._delete(attempts)
                return mine.offset
        raise RetriableError(f"Other tasks take the partition {self.partition} at the same time; it is tried again")

    def commit(
        self, end: int, attempt: str, files: Sequence[tuple[str, str]] | None = None, first: int | None = None
    ) -> None:
        """Make an attempt's staged files visible, all or none; `end` is the next offset after their last.

        `files`: their staged and final paths; None: all that the attempt has staged. `first`: their first offset.
        Errors: RetriableError, after which `resume` ends what has begun; StoreError.
        """
        with self._lock:
            self._resume()
            if first is not None and self.offset is not None and first < self.offset:
                # A stale job committed first, or this is the stale job.
                raise RetriableError(
                    f"Files of {self.partition} from offset {first} on are not committed: there are files up to offset "
                    f"{self.offset - 1} already. What comes after these is read again."
                )
            if not self._is_renamed(MarkerName(_COMMIT, end, self._known.topic_id, attempt)):
                self._is_taken = True
                raise self._lost()
            self._publish(self._known, files)
            self._end_commit()

    def replace(self, attempt: str, since: int) -> None:
        """Replace files by the merged file that this attempt has staged. Errors: as `commit`.

        `since`: the result of `finish` before they were listed; an owner in between may have merged them already.
        """
        with self._lock:
            self._merging = attempt
            self._resume()
            if since != self._ownership:
                self._delete_merging()
                raise RetriableError(f"Another task has written {self.partition} meanwhile; its files are listed anew")
            if not self._is_renamed(self._known._replace(kind=_COMMIT, by=attempt)):
                self._delete_merging()
                raise self._lost()
            self._publish(self._known)
            self._end_commit()
            self._merging = ""

    def resume(self) -> None:
        """End a commit that has begun and then failed; if another owner made it fail, take the partition again.

        Nothing may be held of the partition. The other owner may be a zombie that was the last to take it, and would
        stop this owner for good. Errors: RetriableError, StoreError.
        """
        with self._lock:
            self._resume()
            if self._is_taken:
                self.take(None)

    def finish(self) -> tuple[int, int | None]:
        """End a commit that has begun and then failed, and never take the partition; for `replace`.

        Returns the ownership and the next offset: all files before it have their names. Errors: as `commit`.
        """
        with self._lock:
            self._resume()
            self._delete_merging()
            return self._ownership, self.offset

    def move(self, offset: int | None) -> None:
        """Set the next offset, or None to let Kafka's count. Errors: as `commit`."""
        with self._lock:
            self._resume()
            self._rename_to(self._known._replace(offset=offset))

    def move_on(self, offset: int) -> None:
        """Set the next offset, unless the marker is as far already. Errors: as `commit`."""
        with self._lock:
            self._resume()  # a commit whose answer was lost may be further
            if self.offset is None or self.offset < offset:
                self._rename_to(self._known._replace(offset=offset))

    def discard(self, attempt: str) -> None:
        """Delete the folder of an attempt that has ended, or leave it to the partition's next owner."""
        try:
            self._delete([attempt])
        except RetriableError as error:
            log.info("The folder of an attempt is left for the next owner of %s to delete: %s", self.partition, error)

    @property
    def _known(self) -> MarkerName:
        assert self.at is not None, "taken first"
        return self.at

    def _resume(self) -> None:
        if self._asked is not None:
            if self._look()[0] == self._asked:
                self.at = self._asked
            self._asked = None
        if self._known.kind == _COMMIT:
            self._publish(self._known)
            self._end_commit()

    def _rename_to(self, name: MarkerName) -> None:
        """Rename the marker. Errors: RetriableError if another task has taken the partition meanwhile."""
        if not self._is_renamed(name):
            raise self._lost()

    def _is_renamed(self, name: MarkerName) -> bool:
        """Rename the marker; False if another task has taken it."""
        if name == self._known:
            return True
        self._asked = name
        is_mine = self.store.rename(self._path(self._known), self._path(name))
        self._asked = None
        if is_mine:
            self.at = name
        return is_mine

    def _end_commit(self) -> None:
        """End the commit, after its files have their names."""
        begun = self._known
        self._rename_to(begun._replace(kind=_AT, by=_new_owner(self.task)))
        self.discard(begun.by)

    def _delete_merging(self) -> None:
        """Delete the files that `replace` has staged and the marker does not name."""
        if self._merging:
            self.discard(self._merging)
            self._merging = ""

    def _look(self) -> tuple[MarkerName | None, list[str]]:
        """The marker, and the folders of attempts."""
        entries = self.store.entries(self.folder)
        names = [
            name for one in entries if not one.is_folder and (name := MarkerName.parse(_last(one.path))) is not None
        ]
        if len(names) > 1:
            raise StoreError(
                f"There are several tokens of {self.partition} in {self.store.url}/{self.folder}: "
                f"{', '.join(map(str, names))}. Delete all but the one with the right offset, then restart the task."
            )
        return (names[0] if names else None), [_last(one.path) for one in entries if one.is_folder]

    def _create(self, topic_id: str | None) -> None:
        offset = max((end + 1 for end in self._ends()), default=None)
        if offset is not None:
            log.info("The files of %s in %s go up to offset %d", self.partition, self.store.url, offset - 1)
        # All tasks that create it take this name, so that only one of them can.
        name = MarkerName(_AT, offset, topic_id or _NO_ID, "new")
        try:
            self.store.create(self._path(name))
        except FileExistsError:
            return

    def _ends(self) -> Iterable[int]:
        files = self.store.walk(self.names.topic_folder(self.partition.topic))
        return (found[1] for file in files if (found := self.names.offsets(file.path, self.partition)) is not None)

    def _mine(self, found: MarkerName, topic_id: str | None, owner: str) -> MarkerName:
        known = topic_id or found.topic_id
        if _NO_ID not in (known, found.topic_id) and known != found.topic_id and found.offset is not None:
            log.error(
                "%s was deleted and made again: it is read anew, though files in %s go up to offset %d of its former "
                "self; move these away before offsets repeat",
                *(self.partition, self.store.url, found.offset - 1),
            )
            return MarkerName(_AT, None, known, owner)
        return MarkerName(_AT, found.offset, known, owner)

    def _publish(self, begun: MarkerName, files: Sequence[tuple[str, str]] | None = None) -> None:
        staged = self.staging(begun.by)
        if files is None:
            files = [(one.path, one.path[len(staged) + 1 :]) for one in self.store.walk(staged)]
        each(partial(_rename, self.store), [file for file in files if file[1] != NOTE])
        if any(final == NOTE for _, final in files):
            delete_replaced(self.store, f"{staged}/{NOTE}")

    def _delete(self, attempts: Iterable[str]) -> None:
        each(lambda attempt: self.store.delete(self.staging(attempt)), attempts)

    def _lost(self) -> Exception:
        found, _ = self._look()
        if found is None:
            return StoreError(
                f"The token of {self.partition} is gone from {self.store.url}/{self.folder}: somebody deleted it. "
                "Restart the task: the names of the committed files then say where to go on."
            )
        return RetriableError(
            f"Another task writes {self.partition} to {self.store.url} now ({found}). It is tried again; where two "
            "connectors write the same topic there, give one of them another topics.dir."
        )

    def _path(self, name: MarkerName) -> str:
        return f"{self.folder}/{name}"


def _new_owner(task: str) -> str:
    """A new name each time: it fences also what this task itself has begun before."""
    return f"{_UNSAFE.sub('_', task)}.{uuid4().hex[:12]}"


def _rename(store: Store, file: tuple[str, str]) -> None:
    """Give a staged file its final name. Errors: StoreError if another file has it."""
    staged, final = file
    try:
        store.rename(staged, final)  # False: another task resumed this commit
    except FileExistsError:
        raise StoreError(
            f"The file '{final}' is in {store.url} already, and was not written by this task: another connector writes "
            "there, or offsets were reset. Move it away, or set another topics.dir, then restart the task."
        ) from None


def _last(path: str) -> str:
    return path.rpartition("/")[2]
