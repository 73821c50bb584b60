"""A folder of the local disk, or of a mount, as a store.

Decided: `upload` syncs the file's data and nothing else is synced, because names are the commit: a name must never
survive a loss of power without its data, while a lost name only has its records read again. File systems with a journal
keep the order of the renames themselves. There is no setting for it: files that may be lost go to a RAM disk. Loses: a
few milliseconds a file; on a file system without a journal, the order of renames at a loss of power.

Decided: the staged file is linked, not copied, if it lies on the same file system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Entry, Store, checked_path
from headrace.plugins.contracts import Place
from headrace.plugins.errors import RetriableError
from headrace.plugins.path_bounds import check_allowed

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_REFUSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_RETRIABLE: Final = (
    *(errno.EIO, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOTEMPTY),
    *(errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.ENOLCK),
)
_NO_LINKS: Final = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
_NOT_HERE: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1


class LocalStore(Store):
    """A folder of this machine."""

    place: ClassVar[Place] = Place.WORKER_HOST

    def __init__(self, settings: StoreSettings) -> None:
        self._root = os.path.normpath(unquote(urlsplit(settings.url).path) or "/")
        self.url = f"file://{self._root}"
        check_allowed(self._root, settings.allowed_paths)

    def entries(self, folder: str) -> list[Entry]:
        """Return the folder's entries without dangling links."""
        try:
            with os.scandir(self._place(folder)) as found:
                return [entry for one in found if (entry := self._entry(folder, one)) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._error("list", folder, error) from error

    def walk(self, folder: str) -> Iterator[Entry]:
        """Yield all files below, folder by folder; links to folders are not followed."""
        folders = [folder]
        while folders:
            for entry in self.entries(folders.pop()):
                if not entry.is_folder:
                    yield entry
                elif not os.path.islink(self._full(entry.path)):
                    folders.append(entry.path)

    def exists(self, path: str) -> bool:
        """True if the name is taken."""
        try:
            os.stat(self._place(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._error("look at", path, error) from error
        return True

    def create(self, path: str) -> None:
        """Create an empty file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self._with_folders("create", path, lambda full: os.close(os.open(full, flags, 0o666)))

    def upload(self, local: str, path: str) -> None:
        """Link the file, or copy it if it lies on another file system."""
        try:
            _sync(local)
        except OSError as error:
            raise self._error("write", path, error) from error
        self._with_folders("write", path, lambda full: _link_or_copy(local, full))

    def rename(self, source: str, target: str) -> bool:
        """Rename within the file system."""
        full = self._full(source)
        try:
            self._with_folders(f"rename '{source}' to", target, lambda to: _rename(full, to), full)
        except FileNotFoundError:
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete the file or the whole folder; others may delete below it meanwhile."""
        full = self._full(path)
        try:
            try:
                os.unlink(full)
            except (IsADirectoryError, PermissionError):
                if not os.path.isdir(full) or os.path.islink(full):
                    raise
                _delete_folder(full)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._error("delete", path, error) from error

    def open(self, path: str) -> pa.NativeFile:
        """Open the file."""
        try:
            return pa.OSFile(self._full(path), "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._error("open", path, error) from error

    def _full(self, path: str) -> str:
        return os.path.join(self._root, checked_path(path))

    def _place(self, path: str) -> str:
        return self._full(path) if path else self._root

    def _entry(self, folder: str, found: os.DirEntry[str]) -> Entry | None:
        path = f"{folder}/{found.name}" if folder else found.name
        try:
            status = found.stat()
            return Entry(path, found.is_dir(), status.st_size, status.st_mtime_ns // 1_000_000)
        except FileNotFoundError:
            return None

    def _with_folders(self, verb: str, path: str, act: Callable[[str], None], source: str | None = None) -> None:
        """Act on the full path, after creating its folders if they are missing.

        Errors: FileExistsError; FileNotFoundError if there is a source and it is missing.
        """
        full = self._full(path)
        try:
            for _ in range(3):  # a cleaner may delete an empty folder between the two steps
                try:
                    return act(full)
                except FileNotFoundError:
                    if source is not None and not os.path.lexists(source):
                        raise
                    os.makedirs(os.path.dirname(full), exist_ok=True)
            act(full)
        except FileNotFoundError:
            if source is not None and not os.path.lexists(source):
                raise
            again = f"Could not {verb} '{path}' in {self.url}: its folder is deleted over and over; it is tried again."
            raise RetriableError(again) from None
        except FileExistsError:
            if os.path.lexists(full):
                raise
            raise StoreError(
                f"Could not {verb} '{path}' in {self.url}: a file has the name of one of its folders. Remove that file."
            ) from None
        except OSError as error:
            raise self._error(verb, path, error) from error

    def _error(self, verb: str, path: str, cause: OSError) -> Exception:
        text = f"Could not {verb} '{path}' in {self.url}: {cause.strerror or cause}."
        if cause.errno in _FULL:
            return RetriableError(f"{text} Make room on that file system, or raise the quota; it is tried again.")
        if cause.errno in _RETRIABLE:
            return RetriableError(f"{text} See that the disk or the mount works; it is tried again.")
        if cause.errno in _REFUSED:
            return StoreError(f"{text} Let this worker's user write there, then restart the task.")
        return StoreError(f"{text} Correct store.url, topics.dir or what lies there, then restart the task.")


def _sync(local: str) -> None:
    descriptor = os.open(local, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link_or_copy(local: str, full: str) -> None:
    try:
        _link(local, full)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with open(local, "rb") as source, open(full, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())


def _link(local: str, full: str) -> None:
    try:
        os.link(local, full)
    except FileExistsError:
        os.unlink(full)
        os.link(local, full)


def _rename(source: str, target: str) -> None:
    """Rename, never over another file.

    Without the system's support, another process could take the target's name between check and rename; the source
    still goes to one caller only.
    """
    renameat2 = _renameat2()
    if renameat2 is not None:
        encoded = os.fsencode(source), os.fsencode(target)
        if renameat2(_AT_FDCWD, encoded[0], _AT_FDCWD, encoded[1], _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in _NOT_HERE:
            raise OSError(number, os.strerror(number), source)
    if os.path.lexists(target) and os.path.lexists(source):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)


@cache
def _renameat2() -> Any:
    """Linux's call, if the C library has it."""
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _delete_folder(full: str) -> None:
    with os.scandir(full) as found:
        for one in found:
            with suppress(FileNotFoundError):
                if one.is_dir(follow_symlinks=False):
                    _delete_folder(one.path)
                else:
                    os.unlink(one.path)
    with suppress(FileNotFoundError):
        os.rmdir(full)
