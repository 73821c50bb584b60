"""Archives of Python code for executors on other hosts: Headrace with the plugins of `plugin.path`, and packages.

An archive is built once for its content and kept in the cache. Spark sends it to each executor over its own
connections; the executor unpacks it in its work folder, and `PYTHONPATH` puts it before installed packages.

Decided: archives, not `--py-files`, because compiled modules can be loaded from an unpacked one, and Python keeps the
bytecode of the others; loses: nothing that was noticed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Final, NamedTuple

from packaging.utils import NormalizedName, canonicalize_name

import headrace
from headrace.plugins.interop.jvm import jars

_NOT_SENT: Final = frozenset(
    {"apscheduler", "fastapi", "javaobj-py3", "prometheus-client", "pydantic", "rich", "typer", "uvicorn"}  # a worker's
    | {"pyspark", "py4j"}  # the cluster's own
)
_METADATA: Final = ("METADATA", "entry_points.txt")
_NAME: Final = re.compile(r"^([\w.-]+)\s*(?:\[([^\]]*)\])?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
_KEPT: Final = 6


class ExecutorArchive(NamedTuple):
    """A zip file, and the folder into which executors unpack it."""

    path: Path
    folder: str

    @property
    def uri(self) -> str:
        """The form that Spark takes."""
        return f"{self.path.as_uri()}#{self.folder}"


def product_archive(plugin_paths: Sequence[str]) -> tuple[ExecutorArchive, list[str]]:
    """Archive Headrace and its plugins; return also the folders for `PYTHONPATH`. Errors: OSError."""
    files = dict(_package())
    inner = [""]
    for number, place in enumerate(map(Path, plugin_paths)):
        above = f"plugins/{number}"
        if place.is_file():  # a wheel or zip, which Python can import from
            files[f"{above}/{place.name}"] = place
            inner.append(f"/{above}/{place.name}")
        else:
            files |= {f"{above}/{name}": path for name, path in _files_below(place)}
            inner.append(f"/{above}")
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    folder = f"headrace-{digest.hexdigest()[:16]}"
    return ExecutorArchive(_built(folder, files), folder), [folder + one for one in inner]


def packages_archive(names: Iterable[str]) -> ExecutorArchive:
    """Archive these installed distributions. Errors: OSError, PackageNotFoundError."""
    found = {name: distribution(name) for name in sorted(names)}
    said = [platform.machine(), sys.version, *(f"{name}=={one.version}" for name, one in found.items())]
    digest = hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
    files = {name: path for one in found.values() for name, path in _files_of(one)}
    folder = f"packages-{digest}"
    return ExecutorArchive(_built(folder, files), folder)


def versions_needed() -> dict[str, str]:
    """The installed version of each distribution that an executor may import: plugins' and all required ones."""
    found: dict[str, str] = {}
    groups = (entry_points(group=group) for group in entry_points().groups if group.startswith("headrace."))
    plugins = {entry.dist.name for group in groups for entry in group if entry.dist is not None}
    waiting = [(canonicalize_name(name), frozenset[str]()) for name in sorted(plugins)]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        with contextlib.suppress(PackageNotFoundError):  # an environment marker left it out
            one = distribution(name)
            if name != "headrace":
                found[name] = one.version
            fresh = [need for need in _requirements(one, extras) if need not in seen]
            seen.update(fresh)
            waiting += fresh
    return found


def _requirements(of: Distribution, extras: frozenset[str]) -> Iterator[tuple[NormalizedName, frozenset[str]]]:
    """Yield name and extras of each required distribution, even if an environment marker leaves it out."""
    for line in of.requires or ():
        match, wanted = _NAME.match(line), set(_EXTRA.findall(line))
        if match is None or (wanted and not wanted & extras):
            continue
        name = canonicalize_name(match[1])
        if name not in _NOT_SENT:
            yield name, frozenset(one.strip() for one in (match[2] or "").split(",") if one.strip())


def _package() -> Iterator[tuple[str, Path]]:
    """The files of Headrace, and its metadata, in which entry points name dialects and partitioners."""
    root = Path(headrace.__file__).parent
    for name, path in _files_below(root, links=True):
        yield f"headrace/{name}", path
    for name, path in _files_of(distribution("headrace")):
        if ".dist-info/" in name and name.rpartition("/")[2] in _METADATA:
            yield name, path


def _files_of(one: Distribution) -> Iterator[tuple[str, Path]]:
    for file in one.files or ():
        path = Path(str(one.locate_file(file)))
        if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
            yield file.as_posix(), path


def _files_below(root: Path, links: bool = False) -> Iterator[tuple[str, Path]]:
    for folder, folders, names in os.walk(root, followlinks=links):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix != ".pyc" and path.is_file():
                yield path.relative_to(root).as_posix(), path


def _built(name: str, files: Mapping[str, Path]) -> Path:
    """The archive of this name in the cache, built if missing."""
    folder = jars.cache_dir() / "executors"
    path = folder / f"{name}.zip"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as building:  # several workers may share the cache
            new = Path(building, path.name)
            with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for inside, file in sorted(files.items()):
                    with file.open("rb") as read, archive.open(zipfile.ZipInfo(inside, _MOMENT), "w") as written:
                        shutil.copyfileobj(read, written, 1 << 20)
            new.replace(path)
    os.utime(path)
    _prune(folder)
    return path


def _prune(folder: Path) -> None:
    """Delete all archives except those used last; sessions have links of their own to theirs."""
    archives = sorted(folder.glob("*.zip"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[_KEPT:]:
        old.unlink(missing_ok=True)
