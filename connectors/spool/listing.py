"""The files of a folder that are to be read by one task, in order."""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from headrace.config.name_regex import name_regex
from headrace.config.worker.allowed_files import OWN_FILES
from headrace.connectors.spool.reader import SpoolFile
from headrace.plugins.errors import RetriableError

log = logging.getLogger(__name__)

QUIET_MS: Final = 1_000
"""A file that changed while it was read is left alone for so long."""
SORTS: Final = ("NameAsc", "NameDesc", "LengthAsc", "LengthDesc", "LastModifiedAsc", "LastModifiedDesc")


@dataclass(frozen=True)
class Listing:
    """Looks for files."""

    folder: str
    pattern: str
    is_deep: bool
    flag_extension: str
    """The end of names of the original connector's flags, which are no files to read."""
    min_age_ms: int
    sorts: tuple[str, ...]
    task: int = 0
    tasks: int = 1
    own: frozenset[str] = frozenset()
    """The worker's own files, which are never read, nor moved."""

    def files(self, changing: Collection[str] = ()) -> list[SpoolFile]:
        """Return the files that match, are old enough and are this task's.

        Those named in `changing` have to be at rest for a while. Errors: RetriableError if the folder cannot be read.
        """
        now_ms, matches = time.time() * 1000, name_regex(self.pattern)
        found = [
            file
            for file in self._all()
            if matches.match(os.path.basename(file.path))
            and not file.name.endswith(self.flag_extension)
            and self._is_ours(file.path)
            and now_ms - file.modified_ms >= self._age_ms(file, changing)
        ]
        for sort in ("NameAsc", *reversed(self.sorts)):
            found.sort(key=_KEYS[sort.removesuffix("Asc").removesuffix("Desc")], reverse=sort.endswith("Desc"))
        return found

    def _age_ms(self, file: SpoolFile, changing: Collection[str]) -> int:
        return max(self.min_age_ms, QUIET_MS) if file.name in changing else self.min_age_ms

    def _is_ours(self, path: str) -> bool:
        """True for a task of all files, or if the name's Adler-32 says so, as in the original."""
        name = os.path.basename(path)
        return self.tasks == 1 or zlib.adler32(name.encode()) % self.tasks == self.task

    def _all(self) -> Iterator[SpoolFile]:
        own = set(filter(None, map(_inode, self.own)))
        try:
            for folder, _, names in os.walk(self.folder, onerror=_raised):
                for name in names:
                    path = os.path.join(folder, name)
                    try:
                        status = os.stat(path)
                    except OSError as error:
                        if error.errno not in (errno.ENOENT, errno.ELOOP):  # gone, or a link that leads nowhere
                            raise
                        continue
                    is_file = stat.S_ISREG(status.st_mode)  # neither a pipe nor a device
                    if is_file and (status.st_dev, status.st_ino) not in own and _is_text(path):
                        yield SpoolFile.of(os.path.relpath(path, self.folder), path, status)
                if not self.is_deep:
                    return
        except OSError as error:
            raise RetriableError(f"The folder {self.folder} cannot be read: {error}") from error


_KEYS: Final = {
    "Name": lambda file: file.name,
    "Length": lambda file: file.size,
    "LastModified": lambda file: file.modified_ns,
}


def own_files(worker: Mapping[str, Any]) -> frozenset[str]:
    """Return the files of the worker's properties."""
    return frozenset(worker.get(OWN_FILES) or ())


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@lru_cache(1000)
def _is_text(path: str) -> bool:
    """True if a path is UTF-8, as offsets and headers have to be; another is told of."""
    is_text = os.fsencode(path).decode("utf-8", "ignore") == path
    if not is_text:
        log.warning("%r is left out: its name is not UTF-8. Rename it.", path)
    return is_text


def _raised(error: OSError) -> None:
    raise error
