"""Installs plugins from any source, and keeps the lock file: what was asked for, and what it came to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from headrace.config.connector.plugin_versions import compared
from headrace.worker.cli import archive_install, plugin_install, plugin_lock, python_plugins, singer_install
from headrace.worker.cli.pip_packages import Packages
from headrace.worker.cli.plugin_install import Installed, NotInstalledError
from headrace.worker.cli.plugin_lock import Locked
from headrace.worker.cli.unfinished import unfinished_in
from headrace.worker.machine.maven import Coordinates, checked_repository, chosen
from headrace.worker.machine.plugin_files import (
    Checksum,
    UnusableSourceError,
    digest,
    file_name,
    is_archive,
    is_python,
    is_url,
    obtained,
)


@dataclass(frozen=True)
class Asked:
    """The plugin that a user asks for."""

    what: str
    beside: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    checksum: Checksum | None = None
    python: str = ""
    """The interpreter of a tap or target."""
    java: int | None = None
    """The release of the worker's Java; None if it is not known."""


@dataclass(frozen=True)
class Outcome:
    """A plugin that is there now."""

    label: str
    path: Path
    is_new: bool
    packages: tuple[str, ...] = ()
    """The packages that all Python plugins of the folder need."""
    notes: tuple[str, ...] = ()
    """Lines to be said besides."""


def install(asked: Asked, plugin_path: Path) -> Outcome:
    """Install a plugin and write it into the lock file.

    Errors: ValueError for wrong use; those of the modules that install one kind; Unavailable, OSError.
    """
    plugin_path = plugin_path.absolute()
    plugin_lock.read(plugin_path)  # a broken one is told before anything is installed
    kind = _kind(asked)
    if asked.checksum is not None and kind in ("maven", "singer"):
        raise UnusableSourceError("--sha256 and --sha512 are for files; repositories have checksums of their own")
    if asked.repositories and kind in ("python", "singer"):
        raise UnusableSourceError("--repository is for Maven coordinates, and those of --with")
    if kind == "python":
        return install_python(asked, plugin_path)
    if kind == "singer":
        return install_singer(asked, plugin_path)
    return _install_java(asked, plugin_path, kind)


def _kind(asked: Asked) -> str:
    if is_python(asked.what) or (Path(asked.what).exists() and not is_archive(asked.what)):
        return "python"
    if is_archive(asked.what):
        return "archive"
    if is_url(asked.what):
        raise UnusableSourceError(f"{asked.what} names no .zip, .tar.gz, .whl or .py file; name the file itself")
    return "singer" if singer_install.is_singer(asked.what) else "maven"


def _install_java(asked: Asked, plugin_path: Path, kind: str) -> Outcome:
    repositories = tuple(map(checked_repository, asked.repositories))
    beside = [chosen(Coordinates.parse(one), repositories) for one in asked.beside]
    if kind == "archive":
        plugin, new = archive_install.install(
            asked.what, plugin_path, beside, checksum=asked.checksum, repositories=repositories, java=asked.java
        )
        source = asked.what if is_url(asked.what) else str(Path(asked.what).absolute())
        checksum = plugin.sha256
    else:
        source = str(wanted := chosen(Coordinates.parse(asked.what), repositories))
        plugin, new = plugin_install.install(wanted, plugin_path, beside, repositories=repositories, java=asked.java)
        checksum = plugin_install.jars_checksum(plugin.folder)
    entry = Locked(
        plugin.name,
        kind,
        source if kind == "archive" else asked.what,
        source,
        plugin.version,
        checksum,
        plugin.beside,
        _asked_beside(asked, plugin, plugin_path),
        repositories,
    )
    plugin_lock.put(plugin_path, entry)
    return Outcome(plugin.label, plugin.folder, new)


def _asked_beside(asked: Asked, plugin: Installed, plugin_path: Path) -> tuple[str, ...]:
    before = next((one.beside_asked for one in plugin_lock.read(plugin_path) if one.name == plugin.name), ())
    return tuple(dict.fromkeys((*before, *asked.beside)))


def install_singer(asked: Asked, plugin_path: Path, locked: Packages | None = None) -> Outcome:
    """Install a tap or target; with `locked` exactly these packages, and the lock file stays as it is.

    Errors: as `install`.
    """
    if not singer_install.is_singer(asked.what):
        raise UnusableSourceError(f"{asked.what} names no tap or target on PyPI, such as tap-postgres==0.2.1")
    plugin, packages = singer_install.install(asked.what, plugin_path, asked.beside, asked.python, locked)
    if packages is not None and locked is None:
        version = packages.versions.get(canonicalize_name(plugin.name), "")
        entry = Locked(
            plugin.name,
            "singer",
            asked.what,
            f"{plugin.name}=={version}" if version else asked.what,
            version,
            beside=asked.beside,
            packages=packages.lines,
            made_for=packages.made_for,
        )
        plugin_lock.put(plugin_path, entry)
    return Outcome(plugin.label, plugin.folder, packages is not None)


def install_python(asked: Asked, plugin_path: Path, lock: plugin_lock.Content | None = None) -> Outcome:
    """Install a Python plugin; with `lock` the packages that it has, and it stays as it is. Errors: as `install`."""
    if asked.beside:
        raise UnusableSourceError(
            "--with is for Java plugins, taps and targets; a Python plugin names what it needs itself"
        )
    with tempfile.TemporaryDirectory(prefix="headrace-plugin-") as scratch:
        if Path(asked.what).is_dir():
            file, source = Path(asked.what), ""
        else:
            file = obtained(asked.what, asked.checksum, Path(scratch))
            source = asked.what if is_url(asked.what) else str(file.absolute())
        target, packages = python_plugins.install(file, plugin_path, None if lock is None else lock.python)
    if lock is None:
        _lock_python(target, source, plugin_path, packages)
    return Outcome(file_name(str(target)), target, True, packages.shown)


def _lock_python(target: Path, source: str, plugin_path: Path, packages: Packages) -> None:
    if source and target.parent == plugin_path:
        version = python_plugins.version_of(target)
        entry = Locked(target.name, "python", source, source, version, digest(target))
        plugin_lock.put(plugin_path, entry, packages)
    else:
        plugin_lock.put_python(plugin_path, packages)
    for one in plugin_lock.read(plugin_path):
        if one.kind == "python" and python_plugins.replaces(target, one.name):
            plugin_lock.drop(plugin_path, one.name)


def remove(name: str, plugin_path: Path) -> Path:
    """Remove a plugin, from the lock file, too. Errors: NotInstalledError, BrokenLockError, OSError."""
    plugin_path = plugin_path.absolute()
    is_locked = any(one.name == name for one in plugin_lock.read(plugin_path))
    try:
        gone = python_plugins.remove(name, plugin_path) or plugin_install.remove(name, plugin_path).folder
    except NotInstalledError:
        if not is_locked or (plugin_path / name).exists():
            raise
        gone = plugin_path / name
    if is_locked:
        plugin_lock.drop(plugin_path, name)
    return gone


def upgrade(name: str, plugin_path: Path, java: int | None, python: str = "") -> Iterator[tuple[str, Outcome | None]]:
    """Bring one plugin, or all if the name is empty, to the latest version within what was asked for.

    Yields what is true of each, in words, and the plugin if it is new. Errors: as `install`, NotInstalledError.
    """
    plugin_path = plugin_path.absolute()
    entries = plugin_lock.read(plugin_path)
    meant = [one for one in entries if name in ("", one.name, one.name.removesuffix(f"-{one.version}"))]
    if not meant:
        there = ", ".join(one.name for one in entries) or "none"
        raise NotInstalledError(f"{plugin_path / plugin_lock.LOCK} has no plugin {name or 'at all'} (there: {there})")
    for one in meant:
        yield _upgraded(one, plugin_path, java, python)


def _upgraded(one: Locked, plugin_path: Path, java: int | None, python: str) -> tuple[str, Outcome | None]:
    if one.kind == "singer":
        return _upgraded_singer(one, plugin_path, python)
    if one.kind != "maven":
        return f"{one.name} stays: it was installed from {one.source}; install the new one from where it is", None
    wanted = Coordinates.parse(one.asked)
    if not wanted.is_open:
        return f"{one.name} stays: exactly {one.asked} was asked for; install it as …:latest or a range first", None
    newest = chosen(wanted, one.repositories)
    if compared(newest.version, one.version) <= 0:
        return f"{one.name} stays: it is the latest of {one.asked}", None
    outcome = install(Asked(one.asked, one.beside_asked, one.repositories, java=java), plugin_path)
    if (plugin_path / one.name).exists():
        plugin_install.remove(one.name, plugin_path)
    plugin_lock.drop(plugin_path, one.name)
    return f"{one.name} was replaced by {outcome.path.name}", outcome


def _upgraded_singer(one: Locked, plugin_path: Path, python: str) -> tuple[str, Outcome | None]:
    if "==" in one.asked:
        return f"{one.name} stays: exactly {one.asked} was asked for; remove it and install another", None
    with set_aside(plugin_path / one.name):
        outcome = install_singer(Asked(one.asked, one.beside, python=python), plugin_path)
    now = next(each.version for each in plugin_lock.read(plugin_path) if each.name == one.name)
    if now == one.version:
        return f"{one.name} stays: {now} is the latest of {one.asked}; what it needs was brought up to date", outcome
    return f"{one.name} {one.version} was replaced by {now}", outcome


@contextmanager
def set_aside(folder: Path) -> Iterator[None]:
    """Make room for another installation of a tap or target; what was there comes back if that fails."""
    with unfinished_in(folder.parent) as scratch:
        before = folder.rename(scratch / folder.name) if folder.exists() else None
        try:
            yield
        except BaseException:
            if before is not None:
                before.rename(folder)
            raise
