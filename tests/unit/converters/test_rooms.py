"""The rooms of converters/ and what each may import of the others, read from the source with `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HERE = "headrace.converters."

PLAIN = "converters"
"""The room of the plain files."""
MAY_IMPORT: dict[str, set[str]] = {
    PLAIN: set(),
    "json": {PLAIN},
    "registry": set(),
    "avro": {PLAIN, "registry"},
}


def room_of(parts: list[str]) -> str:
    """The room of a path or of a dotted name below converters/."""
    return parts[0] if len(parts) > 1 and parts[0] in MAY_IMPORT else PLAIN


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, wherever it stands in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def breach(path: str, name: str) -> str | None:
    """The rule that a file below converters/ breaks by importing this name; None where it breaks none."""
    if not name.startswith(HERE):
        return None
    own, other = room_of(path.split("/")), room_of(name.removeprefix(HERE).split("."))
    if other == own or other in MAY_IMPORT[own]:
        return None
    allowed = ", ".join(sorted(MAY_IMPORT[own])) or "none"
    return f"{own} imports {other}, but of the other rooms of converters/ it may import {allowed}"


def breaches() -> Iterator[str]:
    for file in sorted((ROOT / "converters").rglob("*.py")):
        path = file.relative_to(ROOT / "converters").as_posix()
        for line, name in imported(ast.parse(file.read_text(encoding="utf-8"), path)):
            if rule := breach(path, name):
                yield f"converters/{path}:{line}: {name}: {rule}"


def test_no_room_imports_another_that_the_table_does_not_allow() -> None:
    found = sorted(set(breaches()))
    assert not found, "imports between the rooms of converters/ that the table does not allow:\n" + "\n".join(found)


def test_the_table_names_every_room_and_each_says_what_it_holds() -> None:
    folders = {file.parent.name for file in (ROOT / "converters").rglob("__init__.py")}
    assert folders == MAY_IMPORT.keys()
    for file in (ROOT / "converters").rglob("__init__.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), file
        assert list(imported(tree)) == [], file


def test_no_two_rooms_import_each_other() -> None:
    waiting = {room: set(others) for room, others in MAY_IMPORT.items()}
    while ends := [room for room, others in waiting.items() if not others]:
        waiting = {room: others - set(ends) for room, others in waiting.items() if room not in ends}
    assert waiting == {}


@pytest.mark.parametrize(
    ("path", "source", "breaks"),
    [
        ("registry/client.py", "from headrace.converters.avro.references import standing_alone", True),
        ("registry/client.py", "def f():\n    from headrace.converters.avro import references", True),
        ("json/converter.py", "import headrace.converters.avro.reading", True),
        ("string.py", "from headrace.converters.json.reading import X", True),
        ("registry/http.py", "from headrace.converters.settings import X", True),
        ("avro/converter.py", "from headrace.converters.registry.client import SchemaRegistry", False),
        ("json/converter.py", "from headrace.converters.settings import CONVERTER_TYPE", False),
        ("json/converter.py", "from headrace.converters.json import reading\nimport json", False),
    ],
)
def test_a_breach_is_seen_and_nothing_else(path: str, source: str, breaks: bool) -> None:
    assert any(breach(path, name) for _, name in imported(ast.parse(source))) is breaks
