"""Installs Java plugins, lists and removes all plugins that `headrace plugins` put onto `plugin.path`."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from headrace.config.plugin_path.java_release import JavaNeed, java_need
from headrace.config.plugin_path.sync import SHIM
from headrace.worker.cli.unfinished import unfinished_in
from headrace.worker.machine.maven import Coordinates
from headrace.worker.machine.plugin_archives import fetch_into
from headrace.worker.machine.plugin_files import WrongChecksumError, digest

RECORD: Final = "headrace-plugin.json"
"""The file in a plugin's folder that records its installation."""
_AT_ONCE: Final = 4


class TargetExistsError(Exception):
    """The plugin's folder is taken by something else."""


class NotInstalledError(Exception):
    """No plugin of this name was installed here by `headrace plugins`."""


class OlderJavaError(Exception):
    """The worker's Java cannot load the plugin."""


@dataclass(frozen=True)
class Installed:
    """A plugin's folder on `plugin.path`."""

    folder: Path
    coordinates: str
    """Its source: coordinates, a path, a URL, a requirement."""
    beside: tuple[str, ...] = ()
    """The coordinates of further plugins put into the folder."""
    version: str = ""
    sha256: str = ""
    """The checksum of the archive that it was unpacked from."""
    java: JavaNeed | None = field(default=None, compare=False)
    """The Java that it needs; None also if it was installed by a version of Headrace that did not write that down."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def label(self) -> str:
        """The coordinates of all that is in the folder."""
        return f"{self.coordinates} with {', '.join(self.beside)}" if self.beside else self.coordinates

    @property
    def project(self) -> str:
        """The plugin's name in all versions."""
        return self.name.removesuffix(f"-{self.version}")


def install(
    wanted: Coordinates,
    plugin_path: Path,
    beside: Sequence[Coordinates] = (),
    *,
    repositories: Sequence[str] = (),
    java: int | None = None,
    checksum: str = "",
) -> tuple[Installed, bool]:
    """Put a plugin, and others `beside` it, into a folder of its own; returns it, and True if any is new.

    Jars beside it share its class loader: drivers, script languages, classes that it looks up by name. Of a library
    that is there already no other version is added. A new folder appears whole or not at all: a worker that scans
    meanwhile does not see it. `java` and `checksum` are compared with what is fetched, unless they are not known.

    Errors: TargetExistsError, UnknownArtifactError, OlderJavaError, WrongChecksumError, Unavailable, OSError.
    """
    target = plugin_path.absolute() / f"{wanted.artifact}-{wanted.version}"
    there = recorded(target)
    if there is not None and there.coordinates == str(wanted):
        return add_beside(there, beside, repositories=repositories, java=java)
    refuse_taken(target, str(wanted))
    plugin = Installed(target, str(wanted), tuple(map(str, beside)), wanted.version)
    with unfinished_in(plugin_path) as scratch:
        unfinished, *others = fetched([wanted, *beside], scratch, repositories)
        finish(plugin, unfinished, others, java=java, checksum=checksum)
    return plugin, True


def refuse_taken(target: Path, wanted: str) -> None:
    """Errors: TargetExistsError if the folder is there."""
    if target.exists():
        there = recorded(target)
        what = f"was installed from {there.label}" if there else f"is not {wanted}"
        remedy = f"remove it first: headrace plugins remove {target.name}" if there else "move it away first"
        raise TargetExistsError(f"{target} is there already, and {what}; {remedy}")


def add_beside(
    plugin: Installed, beside: Sequence[Coordinates], *, repositories: Sequence[str] = (), java: int | None = None
) -> tuple[Installed, bool]:
    """Put what is not there yet into a plugin's folder; returns the plugin, and True if any is new."""
    more = [one for one in beside if str(one) not in plugin.beside]
    if not more:
        return plugin, False
    whole = replace(plugin, beside=(*plugin.beside, *map(str, more)))
    with unfinished_in(plugin.folder.parent) as scratch:
        jars = _missing(fetched(more, scratch, repositories), plugin.folder)
        need = java_need(jars)
        refuse_older_java(need, java, plugin.name)
        before = needed_java(plugin.folder)
        whole = replace(whole, java=max(filter(None, (before, need)), default=None))
        _add(jars, plugin.folder)
        _record(whole, plugin.folder)
    return whole, True


def fetched(wanted: Sequence[Coordinates], scratch: Path, repositories: Sequence[str]) -> list[Path]:
    """Fetch each into a folder, in parallel, because they wait for the network most of the time."""
    folders = [scratch / str(number) for number in range(len(wanted))]
    for folder in folders:
        folder.mkdir()
    fetch: Callable[[Coordinates, Path], object] = partial(fetch_into, repositories=repositories)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(fetch, wanted, folders))
    return folders


def finish(
    plugin: Installed, unfinished: Path, others: Sequence[Path], *, java: int | None = None, checksum: str = ""
) -> None:
    """Move the others' jars into the plugin's folder, and that to its place.

    Errors: OlderJavaError, WrongChecksumError, OSError; then nothing is in its place.
    """
    _add(_missing(others, unfinished), unfinished)
    if checksum and (found := jars_checksum(unfinished)) != checksum:
        raise WrongChecksumError(
            f"what was fetched for {plugin.label} is not what the lock file has: its checksum is {found}, not "
            f"{checksum}; nothing was installed. Look for a repository that gives other jars, or install it anew by "
            f"`headrace plugins install {plugin.coordinates}`"
        )
    need = java_need(unfinished.rglob("*.jar"))
    refuse_older_java(need, java, plugin.label)
    _record(replace(plugin, java=need), unfinished)
    unfinished.rename(plugin.folder)


def needed_java(folder: Path) -> JavaNeed | None:
    """The Java that a plugin needs: as recorded, unless its jars are others since; None if it holds no class."""
    try:
        record = record_in(folder)
        if record["jars"] == _jars(folder):
            return record["java"] and JavaNeed(int(record["java"]["release"]), str(record["java"]["jar"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # it was recorded by an older version, or not at all
    return java_need(folder.rglob("*.jar"))


def refuse_older_java(need: JavaNeed | None, java: int | None, label: str) -> None:
    """Errors: OlderJavaError if that is newer than this Java."""
    if need is not None and java is not None and need.release > java:
        raise OlderJavaError(
            f"{label} needs Java {need.release} (by {need.jar}), and the worker's is {java}; nothing was installed. "
            f"Install a JDK or JRE {need.release} and set JAVA_HOME to it, or take an earlier version of the plugin. "
            f"If the worker has another Java than this machine, say so: --for-java {need.release}"
        )


def jars_checksum(folder: Path) -> str:
    """The SHA-256 over the names and checksums of all jars, without that of `connect-plugin-path sync-manifests`."""
    whole = hashlib.sha256()
    for jar in sorted(one for one in folder.rglob("*.jar") if one.name != SHIM):
        whole.update(f"{digest(jar)}  {jar.relative_to(folder)}\n".encode())
    return whole.hexdigest()


def _missing(others: Sequence[Path], plugin: Path) -> list[Path]:
    """The others' jars, except those of libraries that the plugin has."""
    has = set(map(_library, plugin.rglob("*.jar")))
    found = []
    for jar in (jar for other in others for jar in sorted(other.rglob("*.jar"))):
        if (library := _library(jar)) not in has:
            has.add(library)
            found.append(jar)
    return found


def _add(jars: Sequence[Path], plugin: Path) -> None:
    for jar in jars:
        jar.rename(plugin / jar.name)


def _library(jar: Path) -> str:
    return re.sub(r"-\d[\w.+-]*$", "", jar.stem)


def _record(plugin: Installed, folder: Path) -> None:
    record = {
        "coordinates": plugin.coordinates,
        "beside": plugin.beside,
        "version": plugin.version,
        "sha256": plugin.sha256,
        "jars": _jars(folder),
        "java": plugin.java and plugin.java._asdict(),
    }
    write_record(record, folder)


def _jars(folder: Path) -> list[str]:
    return sorted(str(jar.relative_to(folder)) for jar in folder.rglob("*.jar") if jar.name != SHIM)


def installed(plugin_path: Path) -> Iterator[Installed]:
    """Yield the plugins that were installed by `install`, by name. Errors: OSError if the folder cannot be read."""
    for folder in sorted(plugin_path.absolute().iterdir()):
        if (found := recorded(folder)) is not None:
            yield found


def other_versions(plugin: Installed) -> list[Installed]:
    """The other versions of a plugin in the same folder."""
    beside = installed(plugin.folder.parent)
    return [one for one in beside if one.folder != plugin.folder and one.project == plugin.project]


def remove(name: str, plugin_path: Path) -> Installed:
    """Remove the folder of a plugin that `install` made; it vanishes at once, or stays as it is.

    Errors: NotInstalledError, OSError.
    """
    found = recorded(plugin_path.absolute() / name) if name == Path(name).name else None
    if found is None:
        names = ", ".join(one.name for one in installed(plugin_path)) or "none"
        raise NotInstalledError(f"no plugin {name} was installed into {plugin_path} by this command (there: {names})")
    with unfinished_in(plugin_path) as scratch:
        shutil.rmtree(found.folder.rename(scratch / name))
    return found


def record_in(folder: Path) -> Any:
    """The JSON that an installation left in its folder. Errors: OSError, ValueError."""
    return json.loads((folder / RECORD).read_text(encoding="utf-8"))


def write_record(record: Mapping[str, Any], folder: Path) -> None:
    """Leave this JSON in the folder of an installation. Errors: OSError."""
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def recorded(folder: Path) -> Installed | None:
    """Return the plugin that was installed into this folder; None if none was."""
    try:
        record = record_in(folder)
        source = str(record["coordinates"])
        before = source.rpartition(":")[2] if source.count(":") == 2 else ""  # as older versions recorded it
        version, sha256 = str(record.get("version", before)), str(record.get("sha256", ""))
        return Installed(folder, source, tuple(map(str, record.get("beside", ()))), version, sha256)
    except (OSError, ValueError, KeyError, TypeError):
        return None
