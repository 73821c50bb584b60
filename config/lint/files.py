"""Reads files for lint: connectors, workers' properties and MirrorMaker's, each with the lines of its settings.

A file that a worker would refuse is read as far as possible, so that all of its faults are found at once.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import javaproperties

from headrace.config import files
from headrace.config.connector.files import SUFFIXES
from headrace.config.problems import ConfigError, Problem
from headrace.config.properties import read_connector, read_properties

_NAMED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')


class FileKind(StrEnum):
    """The subject of a file."""

    CONNECTOR = "connector"
    WORKER = "worker"
    MIRROR = "MirrorMaker"
    OTHER = "other"


@dataclass(frozen=True)
class ConfigFile:
    """A file, as far as it can be read."""

    path: Path
    kind: FileKind
    config: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each setting; of one that is repeated, the last."""
    repeated: Sequence[str] = ()
    """Settings that the file has more than once."""
    faults: Sequence[Problem] = ()
    """The reasons for which a worker would refuse the file."""

    @property
    def given(self) -> dict[str, str]:
        """The config without nulls."""
        return {key: value for key, value in self.config.items() if value is not None}

    @property
    def name(self) -> str:
        """The connector's name; empty if it has none."""
        return (self.config.get("name") or "").strip()


def files_in(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """The files, and for each folder those below it; true for a file that was found in a folder.

    Errors: ConfigError for a folder without any.
    """
    seen = set[Path]()
    for path in paths:
        is_folder = path.is_dir()
        for one in _below(path) if is_folder else [path]:
            if one not in seen:
                seen.add(one)
                yield one, is_folder


def _below(folder: Path) -> Sequence[Path]:
    """The files that may be configs, but for hidden ones. Errors: ConfigError if there are none."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES and path.is_file()
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not found:
        remedy = "Name a folder with .json or .properties files."
        raise ConfigError(Problem(str(folder), None, "The folder has no file to judge.", remedy))
    return found


def read_file(path: Path) -> ConfigFile:
    """The content of a file; what a worker would refuse is in its `faults`."""
    try:
        data = files.read_file(path)
    except OSError as error:
        fault = Problem(str(path), None, f"The file cannot be read: {error.strerror or error}.", "Mend its name.")
        return ConfigFile(path, FileKind.OTHER, faults=[fault])
    if data.lstrip().startswith((b"{", b"[")) or path.suffix == ".json":
        return _json_file(path, data)
    return _properties_file(path, data)


def _properties_file(path: Path, data: bytes) -> ConfigFile:
    try:
        props = read_properties(path)
    except ConfigError as error:
        return ConfigFile(path, FileKind.OTHER, faults=error.problems)
    lines, repeated, at = dict[str, int](), list[str](), 1
    for element in javaproperties.parse(io.BytesIO(data)):
        if isinstance(element, javaproperties.KeyValue):
            repeated += [element.key] if element.key in lines else []
            lines[element.key] = at
        at += len(element.source.splitlines())
    kind = _kind(props)
    return ConfigFile(path, kind, props, lines, repeated, _faults(path) if kind is FileKind.CONNECTOR else ())


def _kind(props: Mapping[str, str]) -> FileKind:
    if "clusters" in props:
        return FileKind.MIRROR
    if "connector.class" in props or "name" in props:
        return FileKind.CONNECTOR
    return FileKind.WORKER if "bootstrap.servers" in props else FileKind.OTHER


def _json_file(path: Path, data: bytes) -> ConfigFile:
    repeated: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict[str, Any]()
        for key, value in pairs:
            repeated.extend([key] if key in found else [])
            found[key] = value
        return found

    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return ConfigFile(path, FileKind.OTHER, faults=_faults(path))
    if not isinstance(value, dict):
        return ConfigFile(path, FileKind.OTHER, faults=_faults(path))
    inner = value["config"] if isinstance(value.get("config"), dict) else value
    config = {key: _text(item) for key, item in inner.items() if not isinstance(item, dict | list)}
    if inner is not value and isinstance(value.get("name"), str):
        config.setdefault("name", value["name"])
    kind = FileKind.CONNECTOR if inner is not value or "connector.class" in config else FileKind.OTHER
    lines = {json.loads(f'"{found[1]}"'): text.count("\n", 0, found.start()) + 1 for found in _NAMED.finditer(text)}
    return ConfigFile(path, kind, config, lines, repeated, _faults(path))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)


def _faults(path: Path) -> Sequence[Problem]:
    try:
        read_connector(path)
    except ConfigError as error:
        return error.problems
    except RecursionError:
        return [Problem(str(path), None, "It is nested too deep.", "Write one flat object.")]
    return ()
