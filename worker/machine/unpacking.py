"""Unpacks a plugin's zip or tar into a folder, and refuses what an archive could harm the machine with.

Decided: a path that leaves the folder, a link, a device and a bomb refuse the whole archive, because no published
plugin has one; loses: an archive with links inside of itself, which has to be packed anew without them.
"""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Final

MOST_FILES: Final = 50_000
MOST_BYTES: Final = 4 << 30
_CHUNK_BYTES: Final = 1 << 20
_ZIPS: Final = (".zip", ".jar")
SUFFIXES: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class UnsafeArchiveError(Exception):
    """The archive is damaged, or holds what is not unpacked; the text says which entry and why."""


@dataclass(frozen=True)
class _Entry:
    """A file or folder of an archive."""

    name: str
    kind: str
    """`file`, `folder`, or the word for what is refused."""
    open: Callable[[], IO[bytes] | None]


def has_jars(archive: Path) -> bool:
    """True if it may be a plugin: others are of documents, or sources. Errors: UnsafeArchiveError."""
    with _reading(archive) as entries:
        return any(entry.name.endswith(".jar") for entry in entries)  # reads up to the first


def unpack(archive: Path, folder: Path, *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
    """Unpack into an empty folder, without a single top folder of the archive.

    The bounds count what is written, not what the archive says of itself.

    Errors: UnsafeArchiveError; then the folder may hold a part. OSError if the disk is full.
    """
    left = most_bytes
    with _reading(archive) as entries:
        for number, entry in enumerate(entries, 1):
            if number > most_files:
                raise UnsafeArchiveError(f"{archive.name} has more than {most_files} files; it is not unpacked")
            target = folder / _inside(entry, archive)
            if entry.kind == "folder":
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            left -= _copy(entry, target, left)
            if left < 0:
                raise UnsafeArchiveError(f"{archive.name} unpacks to more than {most_bytes} bytes; it is not unpacked")
    _without_top(folder)


def _inside(entry: _Entry, archive: Path) -> PurePosixPath:
    """The path of an entry, which does not leave the folder. Errors: UnsafeArchiveError."""
    path = PurePosixPath(entry.name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in entry.name or ":" in str(path.parts[:1]):
        raise UnsafeArchiveError(f"{archive.name} holds {entry.name!r}, a path out of its folder; it is not unpacked")
    if entry.kind not in ("file", "folder"):
        raise UnsafeArchiveError(
            f"{archive.name} holds {entry.kind}, {entry.name!r}; it is not unpacked: pack it anew with plain files only"
        )
    return path


def _copy(entry: _Entry, target: Path, left: int) -> int:
    """Write a file and return its size, at most one chunk over what is left."""
    opened, size = entry.open(), 0
    assert opened is not None
    with opened as source, open(target, "xb") as file:
        while chunk := source.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > left:
                break
            file.write(chunk)
    return size


def _without_top(folder: Path) -> None:
    inner = list(folder.iterdir())
    if len(inner) == 1 and inner[0].is_dir():
        top = inner[0].rename(folder / ".top")
        for file in top.iterdir():
            shutil.move(file, folder / file.name)
        top.rmdir()


@contextmanager
def _reading(archive: Path) -> Iterator[Iterator[_Entry]]:
    """The entries of an archive, in its order. Errors: UnsafeArchiveError if it is damaged."""
    try:
        if archive.name.lower().endswith(_ZIPS):
            with zipfile.ZipFile(archive) as packed:
                yield _of_zip(packed)
        else:
            with tarfile.open(archive) as tape:
                yield _of_tar(tape)
    except FileExistsError as error:
        raise UnsafeArchiveError(f"{archive.name} holds a path twice: {Path(error.filename).name}") from error
    except NotADirectoryError as error:
        raise UnsafeArchiveError(f"{archive.name} has a file and a folder of one name: {error.filename}") from error
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise UnsafeArchiveError(f"the archive {archive.name} cannot be unpacked: {error}") from error


def _of_zip(packed: zipfile.ZipFile) -> Iterator[_Entry]:
    for one in packed.infolist():
        kind = _KINDS.get(stat.S_IFMT(one.external_attr >> 16), "a device")
        yield _Entry(one.filename, "folder" if one.is_dir() else kind, partial(packed.open, one))


def _of_tar(tape: tarfile.TarFile) -> Iterator[_Entry]:
    for one in tape:
        kind = "file" if one.isfile() else "folder" if one.isdir() else "a link" if one.issym() or one.islnk() else ""
        yield _Entry(one.name, kind or "a device", partial(tape.extractfile, one))


_KINDS: Final = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "a link"}
