"""The direction of imports between the rooms of connectors/jdbc/, read from the source; each breach is named.

source, sink ──▶ database ──▶ contract ◀── dialects (found by their entry points: no room imports them)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.unit.test_imports import imported

ROOT = Path(__file__).parents[4]
HOME = "connectors/jdbc"

ROOMS_OF_JDBC: Mapping[str, set[str]] = {
    "contract": set(),
    "dialects": {"contract"},
    "database": {"contract"},
    "source": {"contract", "database"},
    "sink": {"contract", "database"},
}
"""Room of connectors/jdbc/ to the rooms that it may import besides itself, from the lowest floor up."""


def breach(room: str, name: str) -> str | None:
    """Why a file of this room may not import this name; None when it may."""
    package = f"headrace.{HOME.replace('/', '.')}."
    if not name.startswith(package):
        return None
    target = name.removeprefix(package).split(".")[0]
    if target in ROOMS_OF_JDBC[room] | {room}:
        return None
    return f"goes against the arrows: {HOME}/{room} imports only {', '.join(sorted({*ROOMS_OF_JDBC[room], room}))}"


def breaches() -> Iterator[str]:
    for room in ROOMS_OF_JDBC:
        for file in sorted((ROOT / HOME / room).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            for line, name in imported(ast.parse(file.read_text(encoding="utf-8"), path)):
                if why := breach(room, name):
                    yield f"{path}:{line}: {name} {why}"


def test_the_imports_keep_the_direction_of_the_rooms() -> None:
    found = sorted(set(breaches()))
    assert not found, f"imports that break the table of {HOME}:\n" + "\n".join(found)


def test_every_file_is_in_a_room_of_the_table() -> None:
    rooms = {path.name for path in (ROOT / HOME).iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(ROOMS_OF_JDBC)
    assert [path.name for path in (ROOT / HOME).glob("*.py")] == ["__init__.py"]


def test_the_table_has_no_cycle() -> None:
    left = {room: set(others) for room, others in ROOMS_OF_JDBC.items()}
    while free := [room for room, others in left.items() if not others & set(left)]:
        for room in free:
            del left[room]
    assert left == {}


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("contract", "from headrace.connectors.jdbc.sink.transactions import Sink"),
        ("contract", "if TYPE_CHECKING:\n    from headrace.connectors.jdbc.dialects.sqlite import dialect"),
        ("database", "from headrace.connectors.jdbc.dialects.postgresql.dialect import PostgresqlDialect"),
        ("dialects", "def f():\n    from headrace.connectors.jdbc.database.connection import Database"),
        ("source", "from headrace.connectors.jdbc import dialects"),
        ("source", "import headrace.connectors.jdbc.sink.staging"),
        ("sink", "from headrace.connectors.jdbc.source.windows import Mode"),
    ],
)
def test_a_breach_is_seen(room: str, source: str) -> None:
    assert [why for _, name in imported(ast.parse(source)) if (why := breach(room, name))]


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("sink", "from headrace.connectors.jdbc.contract.dialect import Dialect\nimport pyarrow"),
        ("source", "from headrace.connectors.jdbc.database import sql_states"),
        ("dialects", "from headrace.plugins.schema import Schema"),
    ],
)
def test_what_the_table_allows_is_no_breach(room: str, source: str) -> None:
    assert [why for _, name in imported(ast.parse(source)) if (why := breach(room, name))] == []
