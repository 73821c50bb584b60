"""Citations of code and pages lead into this repository: invariants, files, names in files, headings of pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit.test_docs import PAGES, ROOT, anchors

CODE: Final = ("config", "connectors", "converters", "plugins", "rest", "tests", "worker")
INVARIANTS: Final = ROOT / "docs" / "design" / "invariants.md"
ELSEWHERE: Final = re.compile(r"\bDESIGN\b|\bHOUSE\.md|\breference[ ,/]+(?:\w+\.md|§)|\.\./shared|§")
"""Papers that are not in this repository, and the sign for their sections: pages here are cited by their headings."""

_FILES: Final = [
    *(ROOT / name for name in (".ci/run", "Dockerfile", "Makefile", "pyproject.toml")),
    *PAGES,
    *(
        file
        for room in CODE
        for file in sorted((ROOT / room).rglob("*"))
        if file.suffix in (".java", ".properties", ".py") and file != Path(__file__)
    ),
]
_TESTS: Final = {file.name for file in _FILES if file.name.startswith("test_")}


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _is_there(file: Path, name: str) -> bool:
    """True if a file that another cites is there: beside it, below one of its folders, or in a room of its own.

    A test module is cited by its name alone.
    """
    below = (place / name for place in file.parents if place.is_relative_to(ROOT))
    in_room = file.name == "__init__.py" and any(file.parent.glob(f"*/{name}"))
    return name in _TESTS or in_room or any(one.exists() for one in below)


def _defines(file: Path, name: str) -> bool:
    """True if a module has this function, class or member, such as `Class.method`."""
    body: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    for part in name.split("."):
        found = next((node for node in body if part in _names(node)), None)
        if found is None:
            return False
        body = found.body if isinstance(found, ast.ClassDef) else []
    return True


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    return {file: file.read_text(encoding="utf-8") for file in _FILES}


def test_nothing_outside_of_the_repository_is_cited(texts: dict[Path, str]) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{_line(text, cited.start())}: {cited[0]}"
        for file, text in texts.items()
        for cited in ELSEWHERE.finditer(text)
    ]
    assert not found, "cite a page of docs/ by its heading:\n" + "\n".join(found)


def test_every_invariant_that_is_cited_is_listed(texts: dict[Path, str]) -> None:
    listed = re.findall(r"^## (\d+)\. ", texts[INVARIANTS], re.MULTILINE)
    assert listed == [str(number) for number in range(1, len(listed) + 1)]
    assert len(listed) >= 8
    found, cited = [], 0
    for file, text in texts.items():
        for named in re.finditer(r"\b[Ii]nvariants? ((?:\d+(?:, | and )?)+)", text):
            cited += 1
            lacking = set(re.findall(r"\d+", named[1])) - set(listed)
            found += [f"{file.relative_to(ROOT)}:{_line(text, named.start())}: {named[0]}"] if lacking else []
    assert not found
    assert cited > 50


def test_every_invariant_names_its_places_and_its_tests(texts: dict[Path, str]) -> None:
    _, *sections = re.split(r"^## (?=\d+\. )", texts[INVARIANTS], flags=re.MULTILINE)
    for section in sections:
        title = section.splitlines()[0]
        assert re.search(r"^\| .*`\w+/[\w/]+\.py", section, re.MULTILINE), f"no place holds {title}"
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", section), f"no test shows {title}"


def test_names_that_pages_cite_in_files_are_there(texts: dict[Path, str]) -> None:
    found, cited = [], 0
    for page in PAGES:
        for path, name in re.findall(r"`([\w/.]+/\w+\.py)::([\w.]+)`", texts[page]):
            cited += 1
            at = next((one for one in (ROOT / path, ROOT / "tests" / path) if one.is_file()), None)
            if at is None or not _defines(at, name):
                found.append(f"{page.relative_to(ROOT)}: {path}::{name}")
    assert not found
    assert cited > 100


def test_files_that_code_cites_are_there(texts: dict[Path, str]) -> None:
    found, cited = [], 0
    for file, text in texts.items():
        if file.suffix == ".md":
            continue
        for named in re.finditer(rf"`([\w./-]+\.(?:java|md|py)|(?:docs|{'|'.join(CODE)})/[\w./-]*)(?:::\w+)?`", text):
            cited += 1
            if not _is_there(file, named[1]):
                found.append(f"{file.relative_to(ROOT)}:{_line(text, named.start())}: {named[1]}")
    assert not found
    assert cited > 100


def test_headings_of_pages_that_code_cites_are_there(texts: dict[Path, str]) -> None:
    found, cited = [], 0
    for file, text in texts.items():
        if file.suffix == ".md":
            continue  # `test_docs.py` follows the links of pages
        for named in re.finditer(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", text):
            cited += 1
            page, heading = ROOT / named[1], named[2]
            if not page.is_file() or (heading and heading not in anchors(page.read_text(encoding="utf-8"))):
                found.append(f"{file.relative_to(ROOT)}:{_line(text, named.start())}: {named[0]}")
    assert not found
    assert cited > 10


@pytest.mark.parametrize("text", ["see DESIGN §1", "(reference/jdbc.md A1)", "(reference, §10.7)", "../shared/vectors"])
def test_what_is_elsewhere_is_seen(text: str) -> None:
    assert ELSEWHERE.search(text)


@pytest.mark.parametrize("text", ["the reference page", "loaded(reference)", "house", "a design"])
def test_words_are_no_citations(text: str) -> None:
    assert not ELSEWHERE.search(text)


@pytest.mark.parametrize(("name", "there"), [("texts", True), ("PAGES", True), ("anchors", True), ("texts.x", False)])
def test_names_in_modules_are_found(name: str, there: bool) -> None:
    assert _defines(ROOT / "tests" / "unit" / "test_docs.py", name) is there
