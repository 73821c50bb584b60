"""Puts Python plugins onto `plugin.path`, and installs what all Python plugins there need.

Decided: what they need is resolved anew for all together at each installation, with the packages of this environment
as they are, because all plugins share one process. Loses: two plugins whose requirements exclude each other cannot both
be there, which pip tells.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from headrace.plugins.interop.discovery import found_in
from headrace.plugins.interop.plugin_places import REQUIREMENTS, places_of
from headrace.plugins.interop.requirements import PYTHON, of_distribution
from headrace.worker.cli import pip_packages
from headrace.worker.cli.pip_packages import Packages, PipFailedError
from headrace.worker.cli.plugin_listing import gathered
from headrace.worker.cli.unfinished import unfinished_in

_LINES: Final = "headrace-packages.txt"
"""The file in the folder of requirements that has the lines that were installed."""


class UnfitPluginError(Exception):
    """The file that is to be installed is no Python plugin."""


def install(what: Path, plugin_path: Path, locked: Packages | None = None) -> tuple[Path, Packages]:
    """Put a `.py` file or a wheel onto `plugin.path`, unless it lies there, and install what it needs.

    Returns its path there, and the packages that were installed for all Python plugins of the folder: with `locked`
    exactly those, else the latest that fit. An older wheel of the same project is replaced.

    Errors: UnfitPluginError, PipFailedError, WrongChecksumError, Unavailable, OSError; then nothing was changed.
    """
    what, plugin_path = what.absolute(), plugin_path.absolute()
    is_there = what.is_relative_to(plugin_path)
    if not what.exists() or not (is_there or what.suffix in (".py", ".whl")):
        raise UnfitPluginError(f"{what} is no .py file and no wheel; a folder is put into {plugin_path} by hand first")
    environment = _packages_here(plugin_path)
    target = what if is_there else plugin_path / what.name
    replaced = [] if is_there else [target, *_other_wheels(target)]
    needed = {} if is_there else _needed(what)
    needed |= {place: those for place, those in _needed(plugin_path).items() if place not in replaced}
    if not any(place.is_relative_to(what) for place in needed):
        raise UnfitPluginError(f"{what} holds no plugin; `headrace plugins --plugin-path {what}` says why")
    with unfinished_in(plugin_path) as scratch:
        packages = _install_requirements(needed, environment, plugin_path, scratch, locked)
        if not is_there:
            Path(shutil.copy2(what, scratch)).rename(target)
    for other in replaced[1:]:
        other.unlink()
    return target, packages


def remove(name: str, plugin_path: Path) -> Path | None:
    """Remove a `.py` file or a wheel from `plugin.path`; None if there is none. Errors: OSError."""
    found = plugin_path.absolute() / name
    if found.name != name or found.suffix not in (".py", ".whl") or not found.is_file():
        return None
    found.unlink()
    return found


def _other_wheels(wheel: Path) -> list[Path]:
    """Other versions of a wheel's project in the same folder."""
    project = _project(wheel)
    beside = wheel.parent.glob("*.whl") if project else ()
    return [other for other in beside if other != wheel and _project(other) == project]


def _project(wheel: Path) -> str | None:
    try:
        return parse_wheel_filename(wheel.name)[0]
    except InvalidWheelFilename:
        return None


def version_of(file: Path) -> str:
    """The version in a wheel's name; empty for other files."""
    try:
        return str(parse_wheel_filename(file.name)[1])
    except InvalidWheelFilename:
        return ""


def replaces(wheel: Path, name: str) -> bool:
    """True if `name` is that of another version of a wheel's project."""
    project = _project(wheel)
    return name != wheel.name and project is not None and _project(Path(name)) == project


def _packages_here(plugin_path: Path) -> dict[str, str]:
    """Names and versions of what this environment has without `plugin.path`, Python itself among them."""
    own = [one for one in sys.path if not Path(one).is_relative_to(plugin_path)]
    found: dict[str, str] = {PYTHON: platform.python_version()}
    return found | {canonicalize_name(one.name): one.version for one in distributions(path=own) if one.name}


def _needed(element: Path) -> dict[Path, tuple[str, ...]]:
    """The requirements of each place with Python plugins on an element of `plugin.path`."""
    with gathered([]):
        places = places_of(element) if element.exists() else ()
        found = [plugin for place in places for plugin in found_in(place)]
    return {Path(one.location): one.requirements for one in found if Path(one.location).is_relative_to(element)}


def _install_requirements(
    needed: Mapping[Path, Sequence[str]],
    environment: Mapping[str, str],
    plugin_path: Path,
    scratch: Path,
    locked: Packages | None,
) -> Packages:
    wanted = sorted({one for requirements in needed.values() for one in requirements})
    if refused := _against(wanted, environment):
        lines = ["This contradicts what is there, which all plugins share:", *refused, _table(needed)]
        raise PipFailedError("\n".join(lines))
    folder, unfinished = plugin_path / REQUIREMENTS, scratch / REQUIREMENTS
    if locked is None:
        packages = [one for one in wanted if Requirement(one).name != PYTHON]
        pins = _resolved(packages, needed, environment, scratch) if packages else Packages()
        _fetch(pins, unfinished)
    else:
        pins = _fetch_locked(locked, needed, environment, folder, unfinished)
        if _has(folder, pins):
            return pins
    if folder.exists():
        folder.rename(scratch / "before")
    if pins.lines:
        unfinished.rename(folder)
    return pins


def _fetch(pins: Packages, folder: Path) -> None:
    pip_packages.install(sys.executable, pins, folder)
    if pins.lines:
        (folder / _LINES).write_text("\n".join(pins.lines), encoding="utf-8")


def _has(folder: Path, pins: Packages) -> bool:
    """True if exactly these were installed into the folder."""
    file = folder / _LINES
    return file.exists() and file.read_text(encoding="utf-8") == "\n".join(pins.lines)


def _fetch_locked(
    locked: Packages,
    needed: Mapping[Path, Sequence[str]],
    environment: Mapping[str, str],
    there: Path,
    unfinished: Path,
) -> Packages:
    """Fetch what the lock file has and this environment has not, unless it is there, and see that it is enough."""
    anew = "install one of the Python plugins again from where it is"
    pins = locked.without(environment)
    with pip_packages.as_locked("What the Python plugins need", locked, sys.executable, anew):
        found = [(name, version, environment.get(name, version)) for name, version in locked.versions.items()]
        if others := [
            f"  {name}: {has}, not {version or 'that of its URL'}" for name, version, has in found if has != version
        ]:
            raise PipFailedError("\n".join(["this environment has other versions, and those count:", *others]))
        if not (is_there := _has(there, pins)):
            _fetch(pins, unfinished)
        if lacking := _lacking(needed, environment, there if is_there else unfinished):
            raise PipFailedError("\n".join(["it lacks:", *lacking]))
    return pins


def _lacking(needed: Mapping[Path, Sequence[str]], environment: Mapping[str, str], folder: Path) -> list[str]:
    """The requirements that neither this environment nor the packages in a folder meet."""
    packages = {canonicalize_name(one.name): one for one in distributions(path=[str(folder)])}
    versions: dict[str, str] = {name: one.version for name, one in packages.items()}
    versions.update(environment)
    left = [(str(place), one) for place, those in needed.items() for one in those]
    left += [(name, one) for name, its in packages.items() for one in of_distribution(its)]
    seen: set[str] = set()
    lacking = []
    while left:
        who, text = left.pop()
        one = Requirement(text)
        if text in seen or (one.marker is not None and not one.marker.evaluate()):
            continue
        seen.add(text)
        version = versions.get(canonicalize_name(one.name))
        if version is None or not one.specifier.contains(version, prereleases=True):
            lacking.append(f"  {text} for {who}: {version or 'none'} is there")
        elif (its := packages.get(canonicalize_name(one.name))) is not None:
            left += [(text, more) for extra in one.extras for more in of_distribution(its, extra)]
    return sorted(lacking)


def _resolved(
    wanted: Sequence[str], needed: Mapping[Path, Sequence[str]], environment: Mapping[str, str], scratch: Path
) -> Packages:
    """Return the packages that are missing, each with its version and checksum."""
    constraints = scratch / "constraints.txt"
    pinned = [f"{name}=={version}\n" for name, version in environment.items() if name != PYTHON]
    constraints.write_text("".join(pinned), encoding="utf-8")
    try:
        return pip_packages.resolved(sys.executable, wanted, ["--constraint", str(constraints)])
    except PipFailedError as error:
        raise PipFailedError(f"{error}\n{_table(needed)}") from error


def _against(wanted: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The requirements that this environment contradicts."""
    found = []
    for one in map(Requirement, wanted):
        version = environment.get(canonicalize_name(one.name))
        is_met = version is None or one.specifier.contains(version, prereleases=True)
        if not is_met and (one.marker is None or one.marker.evaluate()):
            found.append(f"  {one}: {version} is there")
    return found


def _table(needed: Mapping[Path, Sequence[str]]) -> str:
    lines = [f"  {place}: {', '.join(its)}" for place, its in sorted(needed.items()) if its]
    return "\n".join(["The plugins need:", *lines])
