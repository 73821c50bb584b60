"""The file `headrace-plugins.lock` beside installed plugins: what was asked for, and what was installed for it.

One lock at a time is written, under a lock of the folder, and replaced as a whole.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from headrace.config.plugin_path.locations import UNFINISHED

LOCK: Final = "headrace-plugins.lock"
_FORMAT: Final = 1
KINDS: Final = ("maven", "archive", "python", "singer")


class BrokenLockError(Exception):
    """The lock file cannot be read; the text says why."""


@dataclass(frozen=True)
class Locked:
    """A plugin of the lock file."""

    name: str
    """Its folder or file on `plugin.path`."""
    kind: str
    """One of `KINDS`."""
    asked: str
    """The coordinates, path, URL or requirement that was asked for, such as `org.x:one:[3.0,4)`."""
    source: str
    """The same with the version that was installed."""
    version: str
    checksum: str = ""
    """SHA-256 of the file; of several jars, that over their names and checksums. Empty for taps and targets."""
    beside: tuple[str, ...] = ()
    beside_asked: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    """The packages in the environment of a tap or target, each with its version."""


def read(plugin_path: Path) -> list[Locked]:
    """The plugins of the lock file, by name; none if there is none. Errors: BrokenLockError, OSError."""
    path = plugin_path / LOCK
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise BrokenLockError(
                f"{path} has format {content['format']}, and this version of Headrace reads {_FORMAT}"
            )
        return [_read_one(one) for one in content["plugins"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenLockError(
            f"{path} cannot be read ({type(error).__name__}: {error}); take it from where it is kept, or remove it and "
            "install the plugins anew"
        ) from error


def _read_one(one: dict[str, Any]) -> Locked:
    name, kind, asked, source, version, checksum = (
        str(one.get(key, "")) for key in ("name", "kind", "asked", "source", "version", "checksum")
    )
    lists = [tuple(map(str, one.get(key, ()))) for key in ("beside", "beside_asked", "repositories", "packages")]
    found = Locked(name, kind, asked, source, version, checksum, *lists)
    if found.name != Path(found.name).name or found.name in ("", ".", ".."):
        raise ValueError(f"{found.name!r} is no name of a plugin")
    if found.kind not in KINDS:
        raise ValueError(f"{found.name} is of an unknown kind, {found.kind!r}")
    if odd := [text for text in (asked, source, *lists[0], *lists[3]) if text.startswith("-")]:
        raise ValueError(f"{found.name} has {odd[0]!r}, an option of a command")
    return found


def put(plugin_path: Path, plugin: Locked) -> None:
    """Write a plugin into the lock file, instead of one of its name. Errors: BrokenLockError, OSError."""
    with _held(plugin_path):
        _write(plugin_path, [*(one for one in read(plugin_path) if one.name != plugin.name), plugin])


def drop(plugin_path: Path, name: str) -> None:
    """Take a plugin out of the lock file, and the file away with the last one. Errors: BrokenLockError, OSError."""
    with _held(plugin_path):
        before = read(plugin_path)
        left = [one for one in before if one.name != name]
        if not left:
            (plugin_path / LOCK).unlink(missing_ok=True)
        elif left != before:
            _write(plugin_path, left)


@contextmanager
def _held(plugin_path: Path) -> Iterator[None]:
    folder = os.open(plugin_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(plugin_path: Path, plugins: list[Locked]) -> None:
    shown = [
        {name: value for name, value in asdict(one).items() if value}
        for one in sorted(plugins, key=lambda one: one.name)
    ]
    text = json.dumps({"format": _FORMAT, "plugins": shown}, indent=2, ensure_ascii=False) + "\n"
    handle, scratch = tempfile.mkstemp(prefix=UNFINISHED, dir=plugin_path)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(scratch, 0o644)
        os.replace(scratch, plugin_path / LOCK)
    finally:
        Path(scratch).unlink(missing_ok=True)
