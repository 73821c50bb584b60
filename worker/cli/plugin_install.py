"""Installs, lists and removes the Java plugins that `headrace plugins` put onto `plugin.path`."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.plugins.jars.locations import UNFINISHED
from headrace.worker.machine.plugin_archives import Coordinates, fetch_into

RECORD: Final = "headrace-plugin.json"
"""The file in a plugin's folder that says what was installed there."""


class TargetExistsError(Exception):
    """The plugin's folder is taken by something else."""


class NotInstalledError(Exception):
    """No plugin of this name was installed here by `headrace plugins`."""


@dataclass(frozen=True)
class Installed:
    """A plugin's folder on `plugin.path`."""

    folder: Path
    coordinates: str

    @property
    def name(self) -> str:
        return self.folder.name


def install(wanted: Coordinates, plugin_path: Path) -> tuple[Installed, bool]:
    """Put a plugin into a folder of its own; what is there, and whether it is new.

    The folder appears whole or not at all: a worker that scans meanwhile does not see it.

    Errors: TargetExistsError, UnknownArtifactError, Unavailable, OSError.
    """
    target = plugin_path.absolute() / f"{wanted.artifact}-{wanted.version}"
    there = _recorded(target)
    if there is not None and there.coordinates == str(wanted):
        return there, False
    if target.exists():
        raise TargetExistsError(f"{target} is there already, and is not {wanted}; move it away first")
    plugin_path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=plugin_path) as scratch:
        unfinished = Path(scratch, target.name)
        unfinished.mkdir()
        jars = fetch_into(wanted, unfinished)
        record = {"coordinates": str(wanted), "jars": [str(jar.relative_to(unfinished)) for jar in jars]}
        (unfinished / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        unfinished.rename(target)
    return Installed(target, str(wanted)), True


def installed(plugin_path: Path) -> Iterator[Installed]:
    """The plugins that were installed by `install`, by name.

    Errors: OSError where the folder cannot be read.
    """
    for folder in sorted(plugin_path.absolute().iterdir()):
        if (found := _recorded(folder)) is not None:
            yield found


def other_versions(plugin: Installed) -> list[Installed]:
    """The other versions of a plugin that lie beside it."""
    artifact = plugin.coordinates.rpartition(":")[0]
    beside = installed(plugin.folder.parent)
    return [one for one in beside if one != plugin and one.coordinates.rpartition(":")[0] == artifact]


def remove(name: str, plugin_path: Path) -> Installed:
    """Remove the folder of a plugin that `install` made; it is gone at once, or left as it is.

    Errors: NotInstalledError, OSError.
    """
    found = _recorded(plugin_path.absolute() / name) if name == Path(name).name else None
    if found is None:
        names = ", ".join(one.name for one in installed(plugin_path)) or "none"
        raise NotInstalledError(f"no plugin {name} was installed into {plugin_path} by this command (there: {names})")
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=plugin_path) as scratch:
        shutil.rmtree(found.folder.rename(Path(scratch, name)))
    return found


def _recorded(folder: Path) -> Installed | None:
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return Installed(folder, str(record["coordinates"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
