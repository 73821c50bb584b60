"""The contract of a store of files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

import pyarrow as pa

from headrace.connectors.hdfs.errors import StoreError
from headrace.plugins.contracts import Place


class Entry(NamedTuple):
    """One file or folder of a store."""

    path: str
    is_folder: bool
    size: int
    modified_ms: int


class Store(ABC):
    """Files under one root, the URL's path; paths are relative to it, "/"-separated.

    "" is the root itself, for `entries`, `walk` and `exists` alone. Picklable; connects in each process at its first
    use. Any thread may call, several at once.

    Errors: RetriableError (away, full, in safe mode); StoreError (no rights, no such bucket); each tells what to do.
    FileExistsError and FileNotFoundError only if a method says so.
    """

    renames: ClassVar[bool] = True
    """True if it has `rename`. A store without shows a file under its name only once `upload` has all of it."""
    place: ClassVar[Place] = Place.ANYWHERE
    """The processes that can use it."""
    url: str
    """The root, to be shown: it holds no secret."""

    @abstractmethod
    def entries(self, folder: str) -> list[Entry]:
        """Return the files and folders right in this folder, in no order; none if there is no such folder."""

    def beginning_with(self, path: str) -> list[Entry]:
        """Return the files whose paths begin so, in the folder of this path; in no order."""
        return [one for one in self.entries(path.rpartition("/")[0]) if not one.is_folder and one.path.startswith(path)]

    @abstractmethod
    def walk(self, folder: str) -> Iterator[Entry]:
        """Yield all files below this folder, in no order, without holding them all at once."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """True if there is a file or a folder of this name."""

    @abstractmethod
    def create(self, path: str) -> None:
        """Create an empty file, with its folders. Errors: FileExistsError if the name is taken."""

    @abstractmethod
    def upload(self, local: str, path: str) -> None:
        """Copy a file of this machine, with its folders, over a file of this name; durable on return.

        The local file must not change afterwards: the copy may share its blocks.
        """

    def rename(self, source: str, target: str) -> bool:
        """Rename a file in one step, creating the target's folders; False if there is no such source.

        Of two that rename the same source only one gets True. Errors: FileExistsError if the target's name is taken;
        both files are then unchanged.
        """
        raise NotImplementedError(f"{self.url} cannot rename: ask `renames` first")

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all below it; a name that does not exist is no error."""

    @abstractmethod
    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random access. Errors: FileNotFoundError."""

    def abort_uploads(self, folder: str, is_meant: Callable[[str], bool]) -> int:
        """Abort unfinished uploads below this folder whose paths are meant; return their count.

        For stores in which unfinished uploads have no names. The writers of these files must be gone or fenced.
        """
        return 0

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Close the connections of this process; the next use opens them again."""


def checked_path(path: str) -> str:
    """Return the path if it stays below the root. Errors: StoreError."""
    if not path or "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise StoreError(f"'{path}' is no path below a store's root: it must be relative and without '..' and '//'.")
    return path
