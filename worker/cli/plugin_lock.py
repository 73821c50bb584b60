"""The file `headrace-plugins.lock` beside installed plugins: what was asked for, and what was installed for it.

One lock at a time is written, under a lock of the folder, and replaced as a whole.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from headrace.config.plugin_path.locations import UNFINISHED
from headrace.worker.cli.pip_packages import Packages, name_of
from headrace.worker.cli.unfinished import held

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
    """The packages in the environment of a tap or target, each with its version and checksum."""
    made_for: str = ""
    """The Python and the kind of machine that those were resolved for."""


@dataclass(frozen=True)
class Content:
    """All that a lock file has."""

    plugins: tuple[Locked, ...] = ()
    """By name."""
    python: Packages | None = None
    """The packages that all Python plugins of the folder need; None if an older version of Headrace wrote none down."""


def read(plugin_path: Path) -> list[Locked]:
    """The plugins of the lock file, by name; none if there is none. Errors: BrokenLockError, OSError."""
    return list(content(plugin_path).plugins)


def content(plugin_path: Path) -> Content:
    """The lock file; empty if there is none. Errors: BrokenLockError, OSError."""
    path = plugin_path / LOCK
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            raise BrokenLockError(f"{path} has format {found['format']}, and this version of Headrace reads {_FORMAT}")
        python = found.get("python")
        return Content(
            tuple(_read_one(one) for one in found["plugins"]),
            None if python is None else Packages(_packages(python["packages"]), str(python.get("made_for", ""))),
        )
    except FileNotFoundError:
        return Content()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenLockError(
            f"{path} cannot be read ({type(error).__name__}: {error}); take it from where it is kept, or remove it and "
            "install the plugins anew"
        ) from error


def _packages(lines: Iterable[Any]) -> tuple[str, ...]:
    """Lines that hold a package each, and no option of pip's. Errors: ValueError."""
    found = tuple(map(str, lines))
    for line in found:
        name_of(line)
    return found


def _read_one(one: dict[str, Any]) -> Locked:
    name, kind, asked, source, version, checksum = (
        str(one.get(key, "")) for key in ("name", "kind", "asked", "source", "version", "checksum")
    )
    beside, beside_asked, repositories = (
        tuple(map(str, one.get(key, ()))) for key in ("beside", "beside_asked", "repositories")
    )
    packages, made_for = _packages(one.get("packages", ())), str(one.get("made_for", ""))
    found = Locked(name, kind, asked, source, version, checksum, beside, beside_asked, repositories, packages, made_for)
    if found.name != Path(found.name).name or found.name in ("", ".", ".."):
        raise ValueError(f"{found.name!r} is no name of a plugin")
    if found.kind not in KINDS:
        raise ValueError(f"{found.name} is of an unknown kind, {found.kind!r}")
    if odd := [text for text in (asked, source, *beside) if text.startswith("-")]:
        raise ValueError(f"{found.name} has {odd[0]!r}, an option of a command")
    return found


def put(plugin_path: Path, plugin: Locked, python: Packages | None = None) -> None:
    """Write a plugin into the lock file, instead of one of its name; with it, what all Python plugins need now.

    Errors: BrokenLockError, OSError.
    """
    with held(plugin_path):
        before = content(plugin_path)
        others = (one for one in before.plugins if one.name != plugin.name)
        _write(plugin_path, Content((*others, plugin), before.python if python is None else python))


def put_python(plugin_path: Path, packages: Packages) -> None:
    """Write down what the Python plugins need, if the lock file has any. Errors: BrokenLockError, OSError."""
    with held(plugin_path):
        before = content(plugin_path)
        if before.plugins:
            _write(plugin_path, replace(before, python=packages))


def drop(plugin_path: Path, name: str) -> None:
    """Take a plugin out of the lock file, and the file away with the last one. Errors: BrokenLockError, OSError."""
    with held(plugin_path):
        before = content(plugin_path)
        left = tuple(one for one in before.plugins if one.name != name)
        if not left:
            (plugin_path / LOCK).unlink(missing_ok=True)
        elif left != before.plugins:
            _write(plugin_path, replace(before, plugins=left))


def _write(plugin_path: Path, whole: Content) -> None:
    plugins = sorted(whole.plugins, key=lambda one: one.name)
    shown: dict[str, Any] = {"format": _FORMAT, "plugins": [_filled(one) for one in plugins]}
    if whole.python is not None and any(one.kind == "python" for one in plugins):
        shown["python"] = {"packages": whole.python.lines, "made_for": whole.python.made_for}
    text = json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
    handle, scratch = tempfile.mkstemp(prefix=UNFINISHED, dir=plugin_path)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(scratch, 0o644)
        os.replace(scratch, plugin_path / LOCK)
    finally:
        Path(scratch).unlink(missing_ok=True)


def _filled(plugin: Locked) -> dict[str, Any]:
    return {name: value for name, value in asdict(plugin).items() if value}
