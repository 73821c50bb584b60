"""The rooms of `plugins/` and the direction of imports between them, read from the source with `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PLUGINS: Final = Path(__file__).parents[3] / "plugins"
PACKAGE: Final = "headrace.plugins."
AUTHORS: Final = "plugins"
"""The modules that stand in `plugins/` itself: what an author of plugins meets."""
MAY_IMPORT: Final[dict[str, set[str]]] = {
    AUTHORS: {"jars"},
    "catalyst": set(),
    "jars": set(),
    "kafka": set(),
    "testkit": {AUTHORS, "conversion", "catalyst"},
    "conversion": {AUTHORS, "catalyst"},
    "java": {AUTHORS, "catalyst"},
    "json": {AUTHORS, "catalyst", "java"},
    "avro": {AUTHORS, "catalyst", "java"},
    "transforms": {AUTHORS, "catalyst", "java"},
}
"""Each room and the rooms that it may import besides itself."""


def room_of(module: str) -> str:
    """The room of a module, by its name behind `headrace.plugins.`; a room's own name stands for the room."""
    first, _, rest = module.partition(".")
    return first if rest or (PLUGINS / first).is_dir() else AUTHORS


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the name behind `headrace.plugins.` of each import of ours, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name.removeprefix(PACKAGE)) for name in names if name.startswith(PACKAGE))


def breaches(room: str, path: str, tree: ast.AST) -> Iterator[str]:
    allowed = {room} | MAY_IMPORT[room]
    for line, name in imported(tree):
        target = room_of(name.rpartition(".")[0] or name)
        if target not in allowed:
            others = ", ".join(sorted(MAY_IMPORT[room])) or "no other room"
            yield f"plugins/{path}:{line}: imports {PACKAGE}{name}; {room} may import {others}, not {target}"


def test_rooms_import_only_what_the_table_allows() -> None:
    found = []
    for file in sorted(PLUGINS.rglob("*.py")):
        path = file.relative_to(PLUGINS)
        room = path.parts[0] if len(path.parts) > 1 else AUTHORS
        found += breaches(room, path.as_posix(), ast.parse(file.read_text(encoding="utf-8"), str(path)))
    assert not found, "imports that break the table of rooms:\n" + "\n".join(found)


def test_every_room_is_in_the_table_and_says_what_it_holds() -> None:
    rooms = {file.parent.name: file for file in PLUGINS.rglob("__init__.py")}
    assert set(rooms) == set(MAY_IMPORT)
    without = [room for room, file in rooms.items() if not ast.get_docstring(ast.parse(file.read_text()))]
    assert without == []


def test_the_table_has_no_cycle() -> None:
    placed: set[str] = set()
    while rest := MAY_IMPORT.keys() - placed:
        free = {room for room in rest if MAY_IMPORT[room] <= placed}
        assert free, f"these rooms may import each other in a circle: {', '.join(sorted(rest))}"
        placed |= free


@pytest.mark.parametrize(
    ("room", "source", "whole"),
    [
        ("java", "from headrace.plugins.transforms.cast import X", "imports headrace.plugins.transforms.cast.X"),
        ("catalyst", "def f():\n    from headrace.plugins.schema import Schema", "m.py:2: "),
        (AUTHORS, "import headrace.plugins.java.text", "plugins may import jars, not java"),
        ("conversion", "from headrace.plugins.transforms import cast", "not transforms"),
        ("transforms", "from headrace.plugins import testkit", "not testkit"),
    ],
)
def test_a_breach_is_named_with_file_line_import_and_rule(room: str, source: str, whole: str) -> None:
    (found,) = breaches(room, "m.py", ast.parse(source))
    assert whole in found
    assert found.startswith("plugins/m.py:")
