"""Places on `plugin.path` from which Python plugins are imported: wheels, zips, environments, folders, files."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from headrace.config.plugin_path.locations import UNFINISHED

log = logging.getLogger(__name__)

REQUIREMENTS: Final = "python-requirements"
"""Name of the folder on `plugin.path` into which `headrace plugins install` puts what Python plugins need."""


class Place(NamedTuple):
    """An element of `sys.path`, and where plugins are looked for in it."""

    path: Path
    home: Path
    """The folder that has, or may get, a folder `REQUIREMENTS`."""
    modules: Mapping[str, Path] = MappingProxyType({})
    """Files that may hold plugins, by the names under which they are imported."""
    has_distributions: bool = True


def places_of(element: Path) -> list[Place]:
    """Return the places of an element of `plugin.path`: itself, or those in it."""
    if not element.exists():
        log.error("plugin.path names %s, which does not exist. It is left out.", element)
        return []
    if element.is_dir() and not _is_package(element):
        return [place for one in (element, *sorted(element.iterdir())) for place in _importable(one, element)]
    home = element.parent
    if element.suffix == ".py":
        own = [Place(home, home, {element.stem: element}, has_distributions=False)]
    else:
        own = _importable(element, home)
    return own + _importable(home / REQUIREMENTS, home)


def _importable(candidate: Path, home: Path) -> list[Place]:
    if candidate.is_file():
        return [Place(candidate, home)] if candidate.suffix in (".whl", ".zip") else []
    if candidate.name.startswith(UNFINISHED):
        return []
    files = sorted(candidate.glob("*.py"))
    if _is_package(candidate):
        inside = {f"{candidate.name}.{file.stem}": file for file in files if file.stem != "__init__"}
        return [Place(candidate.parent, home, {candidate.name: candidate / "__init__.py", **inside}, False)]
    environments = [*candidate.glob("lib/python*/site-packages"), *candidate.glob("Lib/site-packages")]
    holds = files or any(next(candidate.glob(f"*.{kind}-info"), None) for kind in ("dist", "egg"))
    modules = {} if candidate.name == REQUIREMENTS else {file.stem: file for file in files}
    return [*([Place(candidate, home, modules)] if holds else []), *(Place(one, home) for one in environments)]


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()
