"""Reads jars, zips and trees of class files by the names of their entries.

Opening a jar with `zipfile` costs some milliseconds per thousand entries. Most jars of a plugin hold no relevant
manifest, so names are first searched for in the bytes of the jar's directory, which takes microseconds.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

_END: Final = struct.Struct("<4s4H2LH")
_SIGNATURE: Final = b"PK\5\6"
_LONGEST_COMMENT: Final = 65_535
_ZIP64: Final = 0xFFFFFFFF


class BrokenArchiveError(Exception):
    """A jar, or an entry of it, cannot be read."""


class ClassSource(Protocol):
    """A container of classes and manifests; `path` is on the class path of a plugin."""

    path: Path

    def holds(self, name: str) -> bool:
        """Return False only if no entry has this name or begins with it; quick, may return True wrongly."""

    def names(self) -> list[str]:
        """Return the names of all entries, with `/` between folders."""

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an entry; None if there is no entry of this name."""


class JarArchive:
    """A jar or zip."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _directory(self) -> bytes:
        """Read the bytes of the jar's central directory. Errors: BrokenArchiveError."""
        try:
            with open(self.path, "rb") as file:
                end = file.seek(0, 2)
                file.seek(max(0, end - _LONGEST_COMMENT - _END.size))
                tail = file.read()
                at = tail.rfind(_SIGNATURE)
                if at < 0 or len(tail) - at < _END.size:
                    raise BrokenArchiveError(f"{self.path} is no jar: it has no directory at its end")
                _, _, _, _, _, size, offset, _ = _END.unpack_from(tail, at)
                if offset == _ZIP64 or size == _ZIP64:
                    return "\n".join(self._zip.namelist()).encode()
                file.seek(end - len(tail) + at - size)
                return file.read(size)
        except OSError as error:
            raise BrokenArchiveError(f"{self.path} cannot be read: {error.strerror}") from error

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise BrokenArchiveError(f"{self.path} is no jar: {error}") from error

    def holds(self, name: str) -> bool:
        return name.encode() in self._directory

    def names(self) -> list[str]:
        return self._zip.namelist()

    def read(self, name: str) -> bytes | None:
        if not self.holds(name):
            return None
        try:
            return self._zip.read(name)
        except KeyError:
            return None
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise BrokenArchiveError(f"{name} in {self.path} cannot be read: {error}") from error


class ClassTree:
    """A folder of class files, with `META-INF` beside the packages."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def holds(self, name: str) -> bool:
        return (self.path / name).exists() or any(self.path.glob(f"{name}*"))

    def names(self) -> list[str]:
        return sorted(file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file())

    def read(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise BrokenArchiveError(f"{self.path / name} cannot be read: {error.strerror}") from error


def opened(path: Path) -> ClassSource:
    """Return the archive at an element of a class path."""
    return ClassTree(path) if path.is_dir() else JarArchive(path)


def classes_in(archive: ClassSource) -> Iterator[str]:
    """Yield the names of class files that every version of Java loads."""
    for name in archive.names():
        if name.endswith(".class") and not name.startswith("META-INF/") and not name.endswith("-info.class"):
            yield name
