"""Moves or deletes files that were read; moves those that could not be.

Decided: a file is moved only once the offset of its last record is stored, because a worker that is killed before would
not find it again; loses: files stay in the folder for up to `offset.flush.interval.ms` after they were read.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from dataclasses import dataclass
from enum import StrEnum

from headrace.connectors.spool.reader import SpoolFile
from headrace.plugins.errors import RetriableError

log = logging.getLogger(__name__)


class Policy(StrEnum):
    """The fate of a file that was read."""

    NONE = "NONE"
    DELETE = "DELETE"
    MOVE = "MOVE"
    MOVEBYDATE = "MOVEBYDATE"


@dataclass(frozen=True)
class Cleanup:
    """Moves and deletes files."""

    policy: Policy
    finished: str | None
    failed: str
    keeps_folders: bool

    def finish(self, file: SpoolFile) -> bool:
        """Clean up after a file that was read; False if it stays where it is.

        A file that changed since is left alone. Errors: RetriableError.
        """
        if self.policy is Policy.NONE:
            return False
        try:
            if SpoolFile.at(file.name, file.path).identity != file.identity:
                log.warning("%s changed after it was read, and will be read again as a whole", file.path)
                return False
            if self.policy is Policy.DELETE:
                os.unlink(file.path)
            else:
                assert self.finished is not None
                folder = self.finished
                if self.policy is Policy.MOVEBYDATE:
                    folder = os.path.join(folder, time.strftime("%Y-%m-%d", time.localtime(file.modified_ms / 1000)))
                self._move(file, folder)
        except FileNotFoundError:
            log.warning("%s is gone after it was read", file.path)
        except OSError as error:
            raise RetriableError(f"{file.path} was read, but cannot be put away ({self.policy}): {error}") from error
        return True

    def fail(self, file: SpoolFile) -> str:
        """Move a file that could not be read; return its new path. Errors: RetriableError."""
        try:
            return self._move(file, self.failed)
        except OSError as error:
            raise RetriableError(f"{file.path} cannot be moved to {self.failed}: {error}") from error

    def _move(self, file: SpoolFile, folder: str) -> str:
        below = file.name if self.keeps_folders else os.path.basename(file.name)
        target = _free(os.path.join(folder, below))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.rename(file.path, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(file, target)
            return target
        if SpoolFile.at(file.name, target).identity != file.identity:
            os.rename(target, file.path)  # it was replaced at the last moment, and is not read yet
            raise _replaced(file)
        return target


def _copy(file: SpoolFile, target: str) -> None:
    """Move a file to another file system; it appears there whole. A link stays one, as if it were renamed."""
    unfinished = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.unfinished")
    shutil.copy2(file.path, unfinished, follow_symlinks=False)
    if not os.path.islink(unfinished):
        with open(unfinished, "rb") as made:
            os.fsync(made.fileno())
    if SpoolFile.at(file.name, file.path).identity != file.identity:
        os.unlink(unfinished)
        raise _replaced(file)
    os.rename(unfinished, target)
    os.unlink(file.path)


def _replaced(file: SpoolFile) -> OSError:
    return FileExistsError(f"{file.path} was replaced while it was moved")


def _free(target: str) -> str:
    """The path, or one with a number if a file stands there: what was put away before is never overwritten."""
    made, number = target, 0
    while os.path.lexists(made):
        number += 1
        made = f"{target}.{number}"
    return made
