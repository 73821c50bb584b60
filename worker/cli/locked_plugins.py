"""Installs plugins as the lock file has them: in the same versions, with the same files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headrace.worker.cli import archive_install, plugin_install, plugin_lock, python_plugins, singer_install
from headrace.worker.cli.pip_packages import Packages, name_of
from headrace.worker.cli.plugin_install import Installed, NotInstalledError
from headrace.worker.cli.plugin_lock import Locked
from headrace.worker.cli.plugin_sources import Asked, Outcome, install_python, install_singer, set_aside
from headrace.worker.machine.maven import Coordinates, checked_repository
from headrace.worker.machine.plugin_files import Checksum, digest


def install_locked(plugin_path: Path, java: int | None, python: str = "") -> Iterator[Outcome]:
    """Install what the lock file has and is not there yet, in the same versions and with the same checksums.

    Errors: as `install`; NotInstalledError without a lock file.
    """
    plugin_path = plugin_path.absolute()
    lock = plugin_lock.content(plugin_path)
    if not lock.plugins:
        raise NotInstalledError(
            f"{plugin_path / plugin_lock.LOCK} is not there; say what to install, or put the lock file of another "
            "machine there first"
        )
    for one in lock.plugins:
        if one.kind == "python":
            yield _python_as_locked(one, plugin_path, lock)
        elif one.kind == "singer":
            yield _singer_as_locked(one, plugin_path, python)
        else:
            yield _java_as_locked(one, plugin_path, java)


def _java_as_locked(one: Locked, plugin_path: Path, java: int | None) -> Outcome:
    beside = list(map(Coordinates.parse, one.beside))
    repositories = tuple(map(checked_repository, one.repositories))
    if (there := plugin_install.recorded(plugin_path / one.name)) is not None and there.coordinates == one.source:
        plugin, new = plugin_install.add_beside(there, beside, repositories=repositories, java=java)
        return Outcome(plugin.label, plugin.folder, new, notes=_other_files(one, plugin))
    if one.kind == "archive":
        checksum = Checksum.parse("sha256", one.checksum)
        plugin, new = archive_install.install(
            one.source, plugin_path, beside, checksum=checksum, repositories=repositories, java=java
        )
    else:
        plugin, new = plugin_install.install(
            Coordinates.parse(one.source),
            plugin_path,
            beside,
            repositories=repositories,
            java=java,
            checksum=one.checksum,
        )
    return Outcome(plugin.label, plugin.folder, new)


def _other_files(one: Locked, plugin: Installed) -> tuple[str, ...]:
    """Say if a plugin that was there already is not the one that the lock file has."""
    is_archive = one.kind == "archive"
    if (plugin.sha256 if is_archive else plugin_install.jars_checksum(plugin.folder)) == one.checksum:
        return ()
    return (
        f"{plugin.name} has other {'contents' if is_archive else 'jars'} than the lock file; if that is not meant, "
        f"remove the folder {plugin.folder} and run this again",
    )


def _singer_as_locked(one: Locked, plugin_path: Path, python: str) -> Outcome:
    folder, packages = plugin_path / one.name, Packages(one.packages, one.made_for)
    asked = Asked(one.asked, one.beside, python=python)
    if singer_install.has_others(folder, packages):
        with set_aside(folder):
            outcome = install_singer(asked, plugin_path, packages)
    else:
        outcome = install_singer(asked, plugin_path, packages)
    return replace(outcome, notes=_notes(packages, one.name) if outcome.is_new else ())


def _python_as_locked(one: Locked, plugin_path: Path, lock: plugin_lock.Content) -> Outcome:
    there = plugin_path / one.name
    if there.is_file() and digest(there) == one.checksum:
        target, packages = python_plugins.install(there, plugin_path, lock.python)
        return Outcome(one.name, target, False, packages.shown, _python_notes(lock))
    outcome = install_python(Asked(one.source, checksum=Checksum.parse("sha256", one.checksum)), plugin_path, lock)
    return replace(outcome, notes=_python_notes(lock))


def _notes(locked: Packages, what: str) -> tuple[str, ...]:
    """Say which packages were not compared with anything."""
    if not (unproved := locked.unproved):
        return ()
    shown = ", ".join(name_of(one) for one in unproved[:5]) + (", …" if len(unproved) > 5 else "")
    return (
        f"the lock file has no checksum of {len(unproved)} packages of {what} ({shown}): their versions are those that "
        f"it has, their files were not compared; remove {what} and install it again to lock them",
    )


def _python_notes(lock: plugin_lock.Content) -> tuple[str, ...]:
    if lock.python is not None:
        return _notes(lock.python, "the Python plugins")
    return (
        "the lock file does not have what Python plugins need, because an earlier version of Headrace wrote it: that "
        "was resolved anew; install one of them again from where it is to lock it",
    )
