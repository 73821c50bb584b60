"""Installs Java plugins, lists and removes all plugins that `headrace plugins` put onto `plugin.path`."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headrace.config.plugin_path.locations import UNFINISHED
from headrace.worker.machine.maven import Coordinates
from headrace.worker.machine.plugin_archives import fetch_into

RECORD: Final = "headrace-plugin.json"
"""The file in a plugin's folder that records its installation."""
_AT_ONCE: Final = 4


class TargetExistsError(Exception):
    """The plugin's folder is taken by something else."""


class NotInstalledError(Exception):
    """No plugin of this name was installed here by `headrace plugins`."""


@dataclass(frozen=True)
class Installed:
    """A plugin's folder on `plugin.path`."""

    folder: Path
    coordinates: str
    beside: tuple[str, ...] = ()
    """The coordinates of further plugins put into the folder."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def label(self) -> str:
        """The coordinates of all that is in the folder."""
        return f"{self.coordinates} with {', '.join(self.beside)}" if self.beside else self.coordinates


def install(wanted: Coordinates, plugin_path: Path, beside: Sequence[Coordinates] = ()) -> tuple[Installed, bool]:
    """Put a plugin, and others `beside` it, into a folder of its own; returns it, and True if any is new.

    Jars beside it share its class loader: drivers, script languages, classes that it looks up by name. Of a library
    that is there already no other version is added. A new folder appears whole or not at all: a worker that scans
    meanwhile does not see it.

    Errors: TargetExistsError, UnknownArtifactError, Unavailable, OSError.
    """
    target = plugin_path.absolute() / f"{wanted.artifact}-{wanted.version}"
    there = recorded(target)
    if there is not None and there.coordinates == str(wanted):
        return _add_to(there, [one for one in beside if str(one) not in there.beside])
    if target.exists():
        raise TargetExistsError(f"{target} is there already, and is not {wanted}; move it away first")
    plugin_path.mkdir(parents=True, exist_ok=True)
    plugin = Installed(target, str(wanted), tuple(map(str, beside)))
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=plugin_path) as scratch:
        unfinished, *others = _fetched((wanted, *beside), Path(scratch))
        _add(others, unfinished)
        _write_record(plugin, unfinished)
        unfinished.rename(target)
    return plugin, True


def _add_to(plugin: Installed, more: Sequence[Coordinates]) -> tuple[Installed, bool]:
    if not more:
        return plugin, False
    whole = replace(plugin, beside=(*plugin.beside, *map(str, more)))
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=plugin.folder.parent) as scratch:
        _add(_fetched(more, Path(scratch)), plugin.folder)
        _write_record(whole, plugin.folder)
    return whole, True


def _fetched(wanted: Sequence[Coordinates], scratch: Path) -> list[Path]:
    """Fetch each into a folder, in parallel, because they wait for the network most of the time."""
    folders = [scratch / str(number) for number in range(len(wanted))]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(fetch_into, wanted, folders))
    return folders


def _add(others: Sequence[Path], plugin: Path) -> None:
    """Move the others' jars into the plugin's folder, except those of libraries that it has."""
    has = set(map(_library, plugin.rglob("*.jar")))
    for jar in (jar for other in others for jar in sorted(other.rglob("*.jar"))):
        if (library := _library(jar)) not in has:
            has.add(library)
            jar.rename(plugin / jar.name)


def _library(jar: Path) -> str:
    return re.sub(r"-\d[\w.+-]*$", "", jar.stem)


def _write_record(plugin: Installed, folder: Path) -> None:
    jars = sorted(str(jar.relative_to(folder)) for jar in folder.rglob("*.jar"))
    record = {"coordinates": plugin.coordinates, "beside": plugin.beside, "jars": jars}
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def installed(plugin_path: Path) -> Iterator[Installed]:
    """Yield the plugins that were installed by `install`, by name. Errors: OSError if the folder cannot be read."""
    for folder in sorted(plugin_path.absolute().iterdir()):
        if (found := recorded(folder)) is not None:
            yield found


def other_versions(plugin: Installed) -> list[Installed]:
    """The other versions of a plugin in the same folder."""
    artifact = plugin.coordinates.rpartition(":")[0]
    beside = installed(plugin.folder.parent)
    return [one for one in beside if one != plugin and one.coordinates.rpartition(":")[0] == artifact]


def remove(name: str, plugin_path: Path) -> Installed:
    """Remove the folder of a plugin that `install` made; it vanishes at once, or stays as it is.

    Errors: NotInstalledError, OSError.
    """
    found = recorded(plugin_path.absolute() / name) if name == Path(name).name else None
    if found is None:
        names = ", ".join(one.name for one in installed(plugin_path)) or "none"
        raise NotInstalledError(f"no plugin {name} was installed into {plugin_path} by this command (there: {names})")
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=plugin_path) as scratch:
        shutil.rmtree(found.folder.rename(Path(scratch, name)))
    return found


def recorded(folder: Path) -> Installed | None:
    """Return the plugin that was installed into this folder; None if none was."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return Installed(folder, str(record["coordinates"]), tuple(map(str, record.get("beside", ()))))
    except (OSError, ValueError, KeyError, TypeError):
        return None
