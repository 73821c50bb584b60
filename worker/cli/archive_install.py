"""Installs a Java plugin from an archive: of Confluent Hub's layout with `manifest.json`, or a folder of jars."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.worker.cli.plugin_install import (
    Installed,
    add_beside,
    fetched,
    finish,
    recorded,
    refuse_taken,
)
from headrace.worker.cli.unfinished import unfinished_in
from headrace.worker.machine.maven import Coordinates
from headrace.worker.machine.plugin_archives import own_jars
from headrace.worker.machine.plugin_files import Checksum, digest, file_name, is_url, obtained
from headrace.worker.machine.unpacking import SUFFIXES, UnsafeArchiveError, unpack

_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*")
_VERSIONED: Final = re.compile(r"(.+?)-v?(\d[\w.+-]*?)(?:-plugin|-package)?")


def install(
    source: str,
    plugin_path: Path,
    beside: Sequence[Coordinates] = (),
    *,
    checksum: Checksum | None = None,
    repositories: Sequence[str] = (),
    java: int | None = None,
) -> tuple[Installed, bool]:
    """Unpack an archive at a path or URL into a folder of its own, as `plugin_install.install` does.

    Errors: UnusableSourceError, WrongChecksumError, UnsafeArchiveError, and those of `plugin_install.install`.
    """
    if not is_url(source):
        source = str(Path(source).absolute())
    with unfinished_in(plugin_path) as scratch:
        for name in ("file", "plugin", "beside"):
            (scratch / name).mkdir()
        archive, unfinished = obtained(source, checksum, scratch / "file"), scratch / "plugin"
        sha256 = digest(archive)
        _unpack(archive, unfinished, source)
        if not own_jars(unfinished):
            raise UnsafeArchiveError(f"{source} holds no plugin: no jar is in it")
        name, version = _identity(unfinished, source)
        target = plugin_path.absolute() / (f"{name}-{version}" if version else name)
        there = recorded(target)
        if there is not None and there.sha256 == sha256:
            return add_beside(there, beside, repositories=repositories, java=java)
        refuse_taken(target, source)
        plugin = Installed(target, source, tuple(map(str, beside)), version, sha256)
        finish(plugin, unfinished, fetched(beside, scratch / "beside", repositories), java=java)
    return plugin, True


def _unpack(archive: Path, folder: Path, source: str) -> None:
    try:
        unpack(archive, folder)
    except UnsafeArchiveError as error:
        may_be = "; it may be cut off, or a page that asks for a login: look at what is there" if is_url(source) else ""
        raise UnsafeArchiveError(f"{source} was not installed: {error}{may_be}") from error


def _identity(folder: Path, source: str) -> tuple[str, str]:
    """Name and version, by Confluent Hub's manifest, else by the archive's name. Errors: UnsafeArchiveError."""
    name, version = _named(folder) or _by_file(source)
    if not _NAME.fullmatch(name) or (version and not _NAME.fullmatch(version)):
        raise UnsafeArchiveError(f"{source} has a name that is none of a folder: {name!r} in version {version!r}")
    return name, version


def _named(folder: Path) -> tuple[str, str] | None:
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        owner = manifest["owner"]["username"]
        return f"{owner}-{manifest['name']}", str(manifest["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _by_file(source: str) -> tuple[str, str]:
    name = file_name(source)
    suffix = max((one for one in SUFFIXES if name.lower().endswith(one)), key=len)
    stem = name[: -len(suffix)]
    match = _VERSIONED.fullmatch(stem)
    return (match[1], match[2]) if match else (stem, "")
