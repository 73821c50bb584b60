"""Installs Singer's taps and targets from PyPI: each with what it needs in a virtual environment of its own.

Decided: the environment is made in its final place, and its record is written last, because its scripts name their
interpreter by path; loses: an installation that is killed leaves a folder, which the next one removes.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from headrace.worker.cli.plugin_install import RECORD, Installed, TargetExistsError, recorded

_REQUIREMENT: Final = re.compile(r"((?:[a-z0-9]+-)*(?:tap|target)-[a-z0-9][a-z0-9-]*)(?:\[[\w,-]+\])?(?:[=<>!~].*)?")
_UNFINISHED: Final = ".unfinished"
_SCRIPTS: Final = (
    "import json, sys; from importlib.metadata import distribution; print(json.dumps([one.name for one in "
    "distribution(sys.argv[1]).entry_points if one.group == 'console_scripts']))"
)


class InstallationFailedError(Exception):
    """Pip could not install a tap or target; the text has its last words."""


def is_singer(requirement: str) -> bool:
    """True if this names a tap or target on PyPI, such as `tap-postgres==0.2.1`."""
    return _REQUIREMENT.fullmatch(requirement) is not None


def install(
    requirement: str, plugin_path: Path, beside: Sequence[str], python: str, packages: Sequence[str] = ()
) -> tuple[Installed, bool]:
    """Install a tap or target, and packages `beside` it; returns it, and True if it is new.

    `python`: the interpreter of its environment, by path or name. `packages`: exactly these are installed, and no
    others, as `packages` found them once.

    Errors: TargetExistsError, InstallationFailedError, OSError.
    """
    match = _REQUIREMENT.fullmatch(requirement)
    assert match is not None
    folder = plugin_path.absolute() / match[1]
    plugin = Installed(folder, requirement, tuple(beside))
    if (there := recorded(folder)) is not None:
        if there == plugin:
            return plugin, False
        raise TargetExistsError(f"{folder} has {there.label}; remove it first: headrace plugins remove {folder.name}")
    if (folder / _UNFINISHED).exists():
        shutil.rmtree(folder)
    if folder.exists():
        raise TargetExistsError(f"{folder} is there already, and is no tap or target; move it away first")
    folder.mkdir(parents=True)
    (folder / _UNFINISHED).touch()
    try:
        executable = _installed(match[1], [requirement, *beside], packages, folder / "env", python)
        record = {"coordinates": requirement, "beside": plugin.beside, "executable": executable}
        (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / _UNFINISHED).unlink()
    return plugin, True


def packages(folder: Path) -> list[str]:
    """The packages in the environment of a tap or target, such as `requests==2.32.0`."""
    told = _run([str(folder / "env" / "bin" / "python"), "-m", "pip", "freeze", "--disable-pip-version-check", "--all"])
    lines = [line.strip() for line in told.splitlines()]
    return [line for line in lines if "==" in line or " @ " in line]


def version_in(packages: Sequence[str], name: str) -> str:
    """The version of a package among those; empty if it is none of PyPI's."""
    named = {canonicalize_name(one.partition("==")[0]): one.partition("==")[2] for one in packages}
    return named.get(canonicalize_name(name), "")


def _installed(name: str, requirements: Sequence[str], packages: Sequence[str], environment: Path, python: str) -> str:
    """Make the environment; return the name of the executable. Errors: InstallationFailedError."""
    own = str(environment / "bin" / "python")
    exactly = ["--no-deps"] if packages else []
    _run([python or sys.executable, "-m", "venv", str(environment)])
    _run(
        [
            own,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            *exactly,
            *(packages or requirements),
        ]
    )
    scripts: list[str] = json.loads(_run([own, "-c", _SCRIPTS, name]))
    fitting = [one for one in scripts if name == one or name.endswith(f"-{one}")] or scripts
    if len(fitting) != 1:
        raise InstallationFailedError(f"{name} has no executable that is known to be it, but {scripts}")
    return fitting[0]


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return done.stdout
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    told = [line for line in lines if line.startswith("ERROR:")] or lines[-5:]
    raise InstallationFailedError(" ".join(told) or f"{command[0]} ended with exit code {done.returncode}")
