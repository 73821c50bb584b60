"""The files below a path that match, are complete and go to a topic; oldest first, those of a backup by name.

Decided: all files are listed whenever none is left, and no offset, name or time bounds a listing, because files appear
late with old times (a rename keeps them) and under names of any order, and would be missed; loses: a minute for each
listing of a bucket of a million files.
"""

from __future__ import annotations

import heapq
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from headrace.config.name_regex import NameRegex, name_regex
from headrace.connectors.hdfs.format_settings import FileFormat
from headrace.connectors.hdfs.source.backup import Destination, is_beside
from headrace.connectors.hdfs.source.settings import FileSourceSettings
from headrace.connectors.hdfs.stores.store import Entry, Store

log = logging.getLogger(__name__)

MOST: Final = 200_000
"""The most files that are kept of a listing; the next one finds the others."""
_UNFINISHED: Final = (".tmp", ".part", "._COPYING_", ".inprogress")
_HIDDEN: Final = (".", "_", "+")
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ENDS: Final = {
    "avro": FileFormat.AVRO,
    "parquet": FileFormat.PARQUET,
    "json": FileFormat.JSON,
    "txt": FileFormat.TEXT,
    "bin": FileFormat.BYTES,
}


@dataclass
class Listing:
    """Looks for files."""

    store: Store
    settings: FileSourceSettings
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._pattern = _regex(self.settings.files)

    def files(self, is_known: Callable[[str], bool], now_ms: int) -> list[Entry]:
        """The unknown files that have not changed for `file.min.age.ms`. Errors: RetriableError, StoreError."""
        oldest = now_ms - self.settings.min_age_ms
        found = (entry for entry in self._matching() if entry.modified_ms <= oldest and not is_known(entry.path))
        if self.settings.backup is not None:  # in the order of names, as Confluent's
            return heapq.nsmallest(MOST, found, key=lambda entry: entry.path)
        return heapq.nsmallest(MOST, found, key=lambda entry: (entry.modified_ms, entry.path))

    def format_of(self, path: str) -> FileFormat | None:
        """The format of a file; None if nothing tells it."""
        return self.settings.format or format_by_name(path)

    def destination_of(self, path: str) -> Destination | None:
        """The topic of a file, and the partition if its name tells it; None if it has none. Errors: StoreError."""
        if self.settings.backup is not None:
            return self.settings.backup.destination(path)
        if self.settings.topic is not None:
            return Destination(self.settings.topic)
        folder, slash, _ = self._below(path).partition("/")
        return Destination(folder) if slash and _TOPIC.fullmatch(folder) else None

    def _matching(self) -> Iterator[Entry]:
        for entry in self.store.walk(self.settings.path):
            below = self._below(entry.path)
            if self._is_hidden(below) or not self._pattern.match(below):
                continue
            if is_beside(entry.path):
                if not self.settings.restores:
                    self._tell("names of keys or headers of other files; mode=RESTORE_BACKUP reads them", entry.path)
            elif self.settings.backup is not None:
                if self._is_of_format(entry.path) and self.destination_of(entry.path) is not None:
                    yield entry
            elif self.format_of(entry.path) is None:
                self._tell("a name that does not tell their format, such as .avro; set format.class", entry.path)
            elif self.destination_of(entry.path) is None:
                self._tell("no directory below path that names a topic; set topic", entry.path)
            else:
                yield entry

    def _is_hidden(self, below: str) -> bool:
        """True for an unfinished file, and if a part of its path begins so; a backup's topic may, such as _schemas."""
        parts = below.split("/")
        told = None if self.settings.backup is None else self.settings.backup.told(below)
        if told is not None and told.topic in parts[:-1]:
            parts = [part for part in parts[:-1] if part != told.topic]
        return below.endswith(_UNFINISHED) or any(part.startswith(_HIDDEN) for part in parts)

    def _is_of_format(self, path: str) -> bool:
        """True if the end of its name is that of the format: others are none of the backup."""
        return format_by_name(path) is self.settings.format

    def _below(self, path: str) -> str:
        return path[len(self.settings.path) + 1 :] if self.settings.path else path

    def _tell(self, why: str, path: str) -> None:
        if why not in self._told:
            self._told.add(why)
            log.warning("%s and maybe others are left out: they have %s.", path, why)


def format_by_name(path: str) -> FileFormat | None:
    """The format that the end of a name tells; None if it tells none."""
    return _ENDS.get(path.rpartition("/")[2].removesuffix(".gz").rpartition(".")[2])


def _regex(pattern: str) -> NameRegex:
    """Matches a path below; a pattern without slash matches the name alone."""
    if "/" not in pattern and "**" not in pattern:
        pattern = f"**/{pattern}"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    signs = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return name_regex("(?s)" + "".join(signs.get(part, re.escape(part)) for part in parts))
