"""Requirements of Python plugins: those that a file declares (PEP 723), and those that this environment does not meet.

# /// script
# requires-python = ">=3.11"
# dependencies = ["httpx>=0.28"]
# ///
"""

from __future__ import annotations

import platform
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

PYTHON: Final = "python"
"""Name that stands for Python itself in a requirement."""

_BLOCK: Final = re.compile(r"^# /// script[ \t]*\n(?P<lines>(?:#(?: .*)?\n)+)# ///[ \t]*$", re.M)
_START: Final = re.compile(r"^# /// script[ \t]*$", re.M)


def declared_in(source: str) -> tuple[str, ...]:
    """Return the requirements of a file's block; none if it has no block.

    Errors: ValueError, which says what is wrong with the block.
    """
    lines = source.replace("\r\n", "\n").replace("\r", "\n")
    blocks = [found["lines"] for found in _BLOCK.finditer(lines)]
    if len(blocks) != len(_START.findall(lines)):
        raise ValueError("its block `# /// script` does not end with a line `# ///`")
    if not blocks:
        return ()
    if len(blocks) > 1:
        raise ValueError("it has several blocks `# /// script`")
    text = "".join(line[2:] if line.startswith("# ") else line[1:] for line in blocks[0].splitlines(keepends=True))
    try:
        block = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"its block `# /// script` is no TOML: {error}") from error
    return tuple(_checked(block.get("dependencies", []))) + _of_python(block.get("requires-python"))


def of_distribution(found: Distribution, extra: str = "") -> tuple[str, ...]:
    """Return what an installed distribution or a wheel requires here; with an extra, what that adds."""
    return tuple(_needed(found.requires or (), extra))


def unmet(requirements: Iterable[str]) -> Iterator[tuple[Requirement, str | None]]:
    """Yield requirements that are not met, each with the version that is there; None if there is none."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        if requirement.name == PYTHON:
            there: Distribution | None = None
            version: str | None = platform.python_version()
        else:
            there = _installed(requirement.name)
            version = None if there is None else there.version
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            yield requirement, version
        elif there is not None:
            for extra in requirement.extras:
                yield from unmet(_needed(there.requires or (), extra))


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _needed(requirements: Iterable[str], extra: str) -> Iterator[str]:
    for text in requirements:
        marker = Requirement(text).marker
        if extra and (marker is None or marker.evaluate({"extra": ""})):
            continue
        if marker is None or marker.evaluate({"extra": extra}):
            yield text.partition(";")[0].strip()


def _checked(requirements: Any) -> Iterator[str]:
    if not isinstance(requirements, list) or not all(isinstance(one, str) for one in requirements):
        raise ValueError('`dependencies` is no list of texts: write dependencies = ["httpx>=0.28"]')
    for one in requirements:
        try:
            Requirement(one)
        except InvalidRequirement as error:
            raise ValueError(f"the requirement {one!r} cannot be read: {str(error).splitlines()[0]}") from error
        yield one


def _of_python(versions: Any) -> tuple[str, ...]:
    if versions is None:
        return ()
    try:
        return (f"{PYTHON}{SpecifierSet(versions)}",)
    except (InvalidSpecifier, TypeError, AttributeError) as error:
        raise ValueError(f'`requires-python` cannot be read: {versions!r}; write ">=3.11"') from error
