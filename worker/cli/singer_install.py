"""Installs Singer's taps and targets from PyPI: each with what it needs in a virtual environment of its own.

Decided: the environment is made in its final place, and its record is written last, because its scripts name their
interpreter by path; loses: an installation that is killed leaves a folder, which the next one removes.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import Version

from headrace.worker.cli import pip_packages
from headrace.worker.cli.pip_packages import Packages, PipFailedError
from headrace.worker.cli.plugin_install import Installed, TargetExistsError, record_in, recorded, write_record
from headrace.worker.cli.unfinished import make_writable

_REQUIREMENT: Final = re.compile(r"((?:[a-z0-9]+-)*(?:tap|target)-[a-z0-9][a-z0-9-]*)(?:\[[\w,-]+\])?(?:[=<>!~].*)?")
_UNFINISHED: Final = ".unfinished"
_SCRIPTS: Final = (
    "import json, sys; from importlib.metadata import distribution; print(json.dumps([one.name for one in "
    "distribution(sys.argv[1]).entry_points if one.group == 'console_scripts']))"
)
_THERE: Final = (
    "import json; from importlib.metadata import distributions; "
    "print(json.dumps({one.metadata['Name']: one.version for one in distributions()}))"
)
_REPORTING_PIP: Final = Version("22.2")
"""The first that says what it would install."""


class InstallationFailedError(Exception):
    """A tap or target could not be installed; the text says why."""


def is_singer(requirement: str) -> bool:
    """True if this names a tap or target on PyPI, such as `tap-postgres==0.2.1`."""
    return _REQUIREMENT.fullmatch(requirement) is not None


def install(
    requirement: str, plugin_path: Path, beside: Sequence[str], python: str, locked: Packages | None = None
) -> tuple[Installed, Packages | None]:
    """Install a tap or target, and packages `beside` it; returns it, and what is in its environment if it is new.

    `python`: the interpreter of its environment, by path or name. `locked`: exactly these are installed.

    Errors: TargetExistsError, InstallationFailedError, PipFailedError, WrongChecksumError, OSError.
    """
    match = _REQUIREMENT.fullmatch(requirement)
    assert match is not None
    folder = plugin_path.absolute() / match[1]
    plugin = Installed(folder, requirement, tuple(beside))
    if (there := recorded(folder)) is not None:
        if there == plugin:
            return plugin, None
        raise TargetExistsError(f"{folder} has {there.label}; remove it first: headrace plugins remove {folder.name}")
    if (folder / _UNFINISHED).exists():
        shutil.rmtree(folder)
    if folder.exists():
        raise TargetExistsError(f"{folder} is there already, and is no tap or target; move it away first")
    make_writable(plugin_path)
    folder.mkdir()
    (folder / _UNFINISHED).touch()
    try:
        own = _environment(folder / "env", python)
        if locked is None:
            packages = _resolved([requirement, *beside], own)
            pip_packages.install(own, packages)
        else:
            packages = locked
            _install_locked(match[1], packages, own)
        record = {
            "coordinates": requirement,
            "beside": plugin.beside,
            "executable": _executable(match[1], own),
            "packages": packages.lines,
        }
        write_record(record, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / _UNFINISHED).unlink()
    return plugin, packages


def has_others(folder: Path, locked: Packages) -> bool:
    """True if a tap or target is there with other packages than those."""
    try:
        return tuple(record_in(folder)["packages"]) != locked.lines
    except (OSError, ValueError, KeyError, TypeError):
        return False  # it is not there, or an older version of Headrace installed it and did not write them down


def _environment(folder: Path, python: str) -> str:
    """Make an environment; return its interpreter. Errors: InstallationFailedError, PipFailedError, OSError."""
    _told([python or sys.executable, "-m", "venv", str(folder)])
    own = str(folder / "bin" / "python")
    if Version(_there(own).get("pip", "0")) < _REPORTING_PIP:
        pip_packages.pip(own, "install", "--quiet", "--upgrade", "pip")
    return own


def _resolved(requirements: Sequence[str], own: str) -> Packages:
    """All that is needed, and what the environment was made with: old taps use its setuptools without saying so."""
    found = pip_packages.resolved(own, requirements, ["--ignore-installed"])
    brought = [f"{name}=={version}" for name, version in _there(own).items() if name not in {"pip", *found.versions}]
    if not brought:
        return found
    try:
        more: Sequence[str] = pip_packages.resolved(own, brought, ["--ignore-installed", "--no-deps"]).lines
    except PipFailedError:  # an own index may lack what Python carries; it is there, and is locked by its version
        more = brought
    return Packages((*found.lines, *more), found.made_for)


def _install_locked(name: str, packages: Packages, own: str) -> None:
    anew = f"`headrace plugins remove {name}`, then install it again (--python names another Python)"
    with pip_packages.as_locked(name, packages, own, anew):
        pip_packages.install(own, packages)
        if packages.made_for:  # an older version of Headrace locked what a tap had, whether it fitted or not
            pip_packages.pip(own, "check")


def _executable(name: str, own: str) -> str:
    """The name of a tap's or target's executable. Errors: InstallationFailedError."""
    scripts: list[str] = json.loads(_told([own, "-c", _SCRIPTS, name]))
    fitting = [one for one in scripts if name == one or name.endswith(f"-{one}")] or scripts
    if len(fitting) != 1:
        raise InstallationFailedError(f"{name} has no executable that is known to be it, but {scripts}")
    return fitting[0]


def _there(own: str) -> Mapping[str, str]:
    """Names and versions of what is in an environment."""
    found: dict[str, str] = json.loads(_told([own, "-c", _THERE]))
    return {canonicalize_name(name): version for name, version in found.items()}


def _told(command: Sequence[str]) -> str:
    """Return the output of a command. Errors: InstallationFailedError."""
    code, said, complaint = pip_packages.run(command)
    if code == 0:
        return said
    lines = (complaint.strip() or said.strip()).splitlines()
    raise InstallationFailedError(" ".join(lines[-5:]) or f"{command[0]} ended with exit code {code}")
