"""Finds the plugin locations of `plugin.path` and the class path of each, as Apache Connect does.

A location is an entry of a folder on the path (a folder, a jar, a zip), or an element of the path that is a jar itself.
Each has its own class loader, with all jars below it, however deep (Confluent Hub's `lib/`, Strimzi's folder by
checksum), or with itself if it holds class files.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

UNFINISHED: Final = ".installing-"
"""Prefix of folders whose installation is not finished; they are not plugins."""

_ARCHIVES: Final = (".jar", ".zip")
_PYTHON: Final = ("site-packages", "dist-packages", "__pycache__")


def plugin_locations(plugin_path: Sequence[str]) -> list[Path]:
    """List the locations of all elements, each once, in order; unreadable ones are logged and left out."""
    found: dict[Path, None] = {}
    for element in plugin_path:
        try:
            found.update(dict.fromkeys(locations_in(element)))
        except OSError as error:
            log.error("The element %s of plugin.path cannot be read (%s). It is left out.", element, error)
    return list(found)


def locations_in(element: str) -> list[Path]:
    """List the locations of one element of `plugin.path`. Errors: OSError if it does not exist or cannot be read."""
    path = Path(element).expanduser().absolute()
    if not path.is_dir():
        path.stat()
        return [path] if is_archive(path) else []
    return [one for one in sorted(path.iterdir()) if is_archive(one) or _is_plugin_folder(one)]


def is_archive(path: Path) -> bool:
    """True if the name is that of a jar or zip."""
    return path.name.lower().endswith(_ARCHIVES)


def archives_of(location: Path) -> tuple[Path, ...]:
    """List the class path of a location: its jars, sorted; itself if it holds only class files; else nothing.

    Errors: OSError if a folder cannot be read.
    """
    if is_archive(location) and not location.is_dir():
        return (location,)
    files = list(_files_below(location, {location.resolve()}))
    archives = sorted({file for file in files if is_archive(file)})
    classes = any(file.name.lower().endswith(".class") for file in files)
    if archives and classes:
        log.warning("The plugin %s holds jars and class files, too; only the jars are used", location)
    return tuple(archives) or ((location,) if classes else ())


def _is_plugin_folder(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(UNFINISHED)


def _files_below(folder: Path, visited: set[Path]) -> Iterator[Path]:
    """Yield the jars and class files below a folder; links are followed, and each folder is visited once.

    Decided: folders of Python packages are skipped, because an environment on `plugin.path` may hold PySpark with 300
    jars that are not plugins; loses: a Java plugin within `site-packages`.
    """
    with os.scandir(folder) as entries:
        listing = sorted(entries, key=lambda entry: entry.name)
    for entry in listing:
        path = Path(entry.path)
        if entry.is_symlink():
            if not path.exists():
                log.warning("The link %s leads nowhere. It is left out.", path)
                continue
            path = path.resolve()
        if path in visited or path.name in _PYTHON:
            continue
        visited.add(path)
        if path.is_dir():
            yield from _files_below(path, visited)
        elif path.name.lower().endswith((*_ARCHIVES, ".class")):
            yield path
