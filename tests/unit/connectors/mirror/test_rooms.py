"""The direction of imports between the rooms of connectors/mirror/, read from the source; each breach is named.

verify ──▶ source ──▶ copy      checkpoint      all of them ──▶ the modules of connectors/mirror/ itself
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.unit.test_imports import imported

ROOT = Path(__file__).parents[4]
HOME = "connectors/mirror"

ROOMS_OF_MIRROR: Mapping[str, set[str]] = {
    "": set(),
    "copy": {""},
    "checkpoint": {""},
    "source": {"", "copy"},
    "verify": {"", "source"},
}
"""Room of connectors/mirror/ ("" is that itself) to the rooms that it may import besides itself, lowest floor first."""


def breaches() -> Iterator[str]:
    for room in ROOMS_OF_MIRROR:
        for file in sorted((ROOT / HOME / room).glob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            for line, name in imported(ast.parse(file.read_text(encoding="utf-8"), path)):
                package = f"headrace.{HOME.replace('/', '.')}."
                if name.startswith(package):
                    first = name.removeprefix(package).split(".")[0]
                    target = first if first in ROOMS_OF_MIRROR else ""
                    if target not in ROOMS_OF_MIRROR[room] | {room}:
                        yield f"{path}:{line}: {name}"


def test_the_imports_keep_the_direction_of_the_rooms() -> None:
    found = sorted(set(breaches()))
    assert not found, f"imports that break the table of {HOME}:\n" + "\n".join(found)


def test_every_room_is_in_the_table() -> None:
    rooms = {path.name for path in (ROOT / HOME).iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(ROOMS_OF_MIRROR) - {""}
