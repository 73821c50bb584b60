"""Folders that live as long as their process; the next process removes those of a killed one.

Decided: the owner holds a lock on its folder (`flock`), because a process id is useless if containers share a folder
for temporary files but not their process ids; loses: the folders of older versions are not removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.plugins.errors import RetriableError

_PREFIX: Final = "headrace-held-"
_ATTEMPTS: Final = 20
_MEMORY: Final = Path("/dev/shm")
_LEAST_MEMORY_BYTES: Final = 256 << 20
"""Docker gives 64 MB of shared memory, which a few batches would fill."""


class ScratchFolder(tempfile.TemporaryDirectory[str]):
    """A folder that no other process removes while this one lives."""

    def __init__(self, parent: Path, purpose: str) -> None:
        super().__init__(prefix=f"{_PREFIX}{purpose}-", dir=parent, ignore_cleanup_errors=True)
        self._lock = _locked(Path(self.name))
        self.is_held = self._lock is not None
        if self._lock is not None:
            weakref.finalize(self, os.close, self._lock)

    def outlive_exec(self) -> None:
        """Let the program that this process becomes by `exec` hold the folder, for as long as it lives."""
        assert self._lock is not None
        os.set_inheritable(self._lock, True)


def scratch_folder(purpose: str, shared_memory: bool = False, parent: Path | None = None) -> ScratchFolder:
    """Create a folder in `parent`, by default the folder for temporary files.

    With `shared_memory` it is in shared memory, if the machine has enough. Errors: OSError if it cannot be locked.
    """
    parent = (memory_folder() if shared_memory else parent) or Path(tempfile.gettempdir())
    _sweep(parent)
    for _ in range(_ATTEMPTS):
        folder = ScratchFolder(parent, purpose)
        if folder.is_held:
            return folder
        folder.cleanup()  # another process swept it before it was locked
    raise OSError(errno.EBUSY, "Other processes remove each new folder before it is locked", str(parent))


def memory_folder() -> Path | None:
    """Return the folder in shared memory; None if the machine does not have enough of it."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    system = os.statvfs(_MEMORY)
    return _MEMORY if system.f_bavail * system.f_frsize >= _LEAST_MEMORY_BYTES else None


def _locked(folder: Path) -> int | None:
    """Lock the folder and return the descriptor; None if another process holds the lock or removed the folder.

    Errors: OSError if the file system has no locks.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    is_held = False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_held = os.path.samestat(os.fstat(descriptor), os.stat(folder, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        text = f"Could not lock a scratch folder ({error.strerror}); set TMPDIR to a local file system"
        raise OSError(error.errno, text, str(folder)) from error
    finally:
        if not is_held:
            os.close(descriptor)
    return descriptor if is_held else None


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another process may sweep too
            if folder.stat(follow_symlinks=False).st_uid == os.getuid() and (lock := _locked(folder)) is not None:
                try:
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(lock)


@contextlib.contextmanager
def local_disk(collected: str) -> Iterator[None]:
    """Raise errors of the local disk, on which these things are collected, as RetriableError."""
    try:
        yield
    except OSError as error:
        raise RetriableError(
            f"Could not write to {tempfile.gettempdir()}, where {collected} are collected: {error}. Make room there, "
            "or let TMPDIR name another folder; it is tried again."
        ) from error
