"""Compares the Python of Spark's executors with the worker's.

`look` runs in executors, which may lack any package: this module imports the standard library alone.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_LOADED: Final = ("numpy", "pyarrow", "confluent_kafka")
"""Compiled modules that every job needs: loading them shows if a system is too old for them."""


@dataclass(frozen=True)
class Look:
    """The Python of one process."""

    host: str
    python: str
    """Its implementation and version without the last number, which may differ."""
    system: str
    spark: str
    code: str
    """The folder from which Headrace is imported."""
    packages: Mapping[str, str | None]
    """The version of each needed package; None: not installed."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Compiled modules that are installed and cannot be loaded, with the reason."""


@dataclass(frozen=True)
class Differences:
    """The differences between executors and the worker that keep jobs from running."""

    packages: frozenset[str]
    """Packages of another version, or missing, in some executor; the worker can send its own."""
    others: tuple[str, ...]
    """All others, each in a sentence."""


def look(names: Sequence[str]) -> Look:
    """Describe the Python of this process, with the versions of these distributions."""
    import headrace

    return Look(
        socket.gethostname(),
        f"{platform.python_implementation()} {'.'.join(platform.python_version_tuple()[:2])}",
        f"{platform.system()} on {platform.machine()}",
        importlib.import_module("pyspark").__version__,
        os.path.dirname(os.path.abspath(headrace.__file__)),
        packages := {name: _version(name) for name in names},
        _broken(packages),
    )


def differences(own: Look, others: Iterable[Look], code: str) -> Differences:
    """Compare executors with the worker's Python. `code`: the folder from which they have to import Headrace."""
    packages: set[str] = set()
    found: dict[str, None] = {}
    for other in others:
        packages |= {name for name, version in own.packages.items() if other.packages[name] != version}
        where = f"on {other.host}"
        for what, here, there in (
            ("Python", own.python, other.python),
            ("system", own.system, other.system),
            ("Spark", own.spark, other.spark),
        ):
            if here != there:
                found[f"the {what} {where} is {there}, the worker's is {here}"] = None
        if f"{os.sep}{code}{os.sep}" not in other.code:
            found[f"Headrace {where} comes from {other.code} and not from what the worker sent"] = None
        found |= {f"{name} {where} cannot be loaded: {why}": None for name, why in other.broken.items()}
    return Differences(frozenset(packages), tuple(found))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _broken(packages: Mapping[str, str | None]) -> dict[str, str]:
    found = {}
    for name in _LOADED:
        if packages.get(name.replace("_", "-")) is not None:
            try:
                importlib.import_module(name)
            except Exception as error:  # whatever a module's own code raises
                found[name] = f"{type(error).__name__}: {error}"
    return found
