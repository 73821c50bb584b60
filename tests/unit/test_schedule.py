"""The order of the tests: what it names is there, and what belongs together stays together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.schedule import SECONDS, SPARK, TOGETHER, in_order, piece_of

ROOT = Path(__file__).parents[2]


def test_every_module_that_is_named_is_there() -> None:
    modules = {name for name in (*TOGETHER, *SECONDS, *SPARK) if name.endswith(".py")}
    assert sorted(name for name in modules if not (ROOT / name).is_file()) == []
    assert {*SECONDS, *SPARK} - modules <= set(TOGETHER.values())


def test_unit_and_property_tests_are_not_long() -> None:
    """`make test-long` does not collect them."""
    marks = "mark." + "long"
    files = [file for kind in ("unit", "properties") for file in (ROOT / "tests" / kind).rglob("test_*.py")]
    assert [file.name for file in files if marks in file.read_text(encoding="utf-8")] == []


def test_pieces_begin_with_the_longest_and_are_in_one() -> None:
    given = [
        "tests/compat/test_rest_clients.py::a",
        "tests/unit/test_schedule.py::b",
        "tests/compat/test_rest_vectors.py::c",
        "tests/integration/test_group.py::d",
        "tests/compat/test_rest_clients.py::e",
        "tests/unit/test_schedule.py::f",
    ]
    items: list[Any] = [SimpleNamespace(nodeid=nodeid) for nodeid in given]
    assert [item.nodeid[-1] for item in in_order(items)] == ["c", "a", "e", "d", "b", "f"]
    assert piece_of(given[0]) == piece_of(given[2]) != piece_of(given[1])
