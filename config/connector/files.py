"""Reads the files of connectors below a folder, for the commands that compare them or check them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.properties import ConnectorFile, read_connector

SUFFIXES: Final = (".properties", ".json")


def read(path: str | Path) -> list[ConnectorFile]:
    """Read the connector of a file, or those of all files below a folder.

    Errors: ConfigError with all that is wrong with any of the files.
    """
    found: list[ConnectorFile] = []
    problems: list[Problem] = []
    for file in files(path):
        try:
            found.append(read_connector(file))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return found


def files(path: str | Path) -> Iterator[Path]:
    """Yield the file itself, or the `.properties` and `.json` files below a folder; hidden ones are left out.

    Errors: ConfigError if there is no such file or folder.
    """
    top = Path(path)
    if not top.is_dir():
        if not top.exists():
            raise ConfigError(Problem(str(path), None, "There is no such file or folder.", "Check its name."))
        yield top
        return
    for file in sorted(top.rglob("*")):
        if file.suffix in SUFFIXES and file.is_file() and not _is_hidden(file.relative_to(top)):
            yield file


def named_twice(found: Iterable[ConnectorFile]) -> list[Problem]:
    """List the connectors that more than one file names."""
    first: dict[str, ConnectorFile] = {}
    problems = []
    for one in found:
        if (other := first.setdefault(one.name, one)) is not one:
            message = f"It names connector {one.name}, which {other.path} names, too."
            problems.append(Problem(one.path, None, message, "Remove one of them, or give it another name."))
    return problems


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
