"""README.md and docs/: the settings page is what the declarations say, and what the pages name is there.

Docstrings, also those below assignments, begin with a verb or a plain noun (CONTRIBUTING.md).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.worker.cli.commands import app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = "bench|config|connectors|converters|docs|headrace|plugins|rest|tests|worker"
MOST_OF_THE_README = 6500
CODE = ("config", "connectors", "converters", "deploy", "examples", "plugins", "rest", "tests", "worker")
NO_BEGINNING = re.compile(r"\s*(?:(?:What|Who|Where|Which|When|How)(?:ever)?|Whether|Whose|Whom|Why|That|Those)\b")
QUOTED = re.compile(rf"""["']\\?{NO_BEGINNING.pattern}""")
"""Parsing all modules takes seconds: only those with a string that begins so are parsed."""


def texts() -> list[tuple[str, str]]:
    return [(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")) for page in PAGES]


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_settings_page_is_what_the_command_prints() -> None:
    printed = CliRunner().invoke(app, ["settings"])
    assert printed.exit_code == 0, printed.output
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == printed.stdout, "docs/settings.md is not what `headrace settings` prints: run `make docs`"


@pytest.mark.parametrize(("page", "text"), texts())
def test_every_link_within_the_repository_leads_somewhere(page: str, text: str) -> None:
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            missing.append(target)
    assert not missing, f"{page} links to what is not there"


@pytest.mark.parametrize(("page", "text"), texts())
def test_every_path_that_a_page_names_is_there(page: str, text: str) -> None:
    named = re.findall(rf"(?<![\w./-])(?:{ROOMS})/[\w./-]*[\w/]", text)
    assert [path for path in named if not (ROOT / path).exists()] == [], f"{page} names paths that are not there"


def test_every_test_that_the_page_of_security_names_is_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:unit|integration|spark|compat|faults)/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 15
    lacking = []
    for file, test in named:
        path = ROOT / "tests" / file
        if not path.exists() or (test and f"def {test}(" not in path.read_text(encoding="utf-8")):
            lacking.append(f"{file}::{test}")
    assert not lacking


def test_the_loggers_that_the_page_names_are_rooms() -> None:
    text = (ROOT / "docs" / "watch.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|((?: `headrace[\w.]*`,?)+) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`headrace\.([\w.]+)`", row)} - {"audit"}
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name.replace(".", "/")).is_dir()] == []


def test_the_messages_of_the_troubleshooting_pages_are_in_the_code() -> None:
    product = [
        path
        for room in ("config", "connectors", "converters", "plugins", "rest", "worker")
        for path in (ROOT / room).rglob("*.*")
        if path.suffix in {".py", ".java"}
    ]
    code = "".join(path.read_text(encoding="utf-8") for path in product)
    code = re.sub(r'"\s*\n\s*f?"', "", code).replace('\\"', '"')
    lacking, count = [], 0
    for page in ROOT.glob("docs/troubleshooting*.md"):
        for message in re.findall(r"^\| `([^`]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE):
            count += 1
            lacking += [message for part in message.split("…") if part.strip() not in code]
    assert count > 100
    assert not lacking, "messages that no code has any more: mend the page"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8")) <= MOST_OF_THE_README


def wrong_beginnings(text: str) -> Iterator[tuple[int, str]]:
    """Line and first line of each docstring that begins with a word of questions or clauses, not of things."""
    for node in ast.walk(ast.parse(text)) if QUOTED.search(text) else ():
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))) if NO_BEGINNING.match(said):
                yield node.lineno, said.strip().partition("\n")[0]


def test_docstrings_begin_with_a_verb_or_a_plain_noun() -> None:
    files = [file for room in CODE for file in sorted((ROOT / room).rglob("*.py"))]
    files += (ROOT / "headrace").glob("*.py")
    assert len(files) > 1000
    assert not [
        f"{file.relative_to(ROOT)}:{line}: {said}"
        for file in files
        for line, said in wrong_beginnings(file.read_text(encoding="utf-8"))
    ], 'begin with a verb or a noun: "Return …", "True if …", "The reason that …", "The number of …"'


@pytest.mark.parametrize(
    "text",
    [
        '"""What a module holds."""',
        "def f():\n    'Whether it is so.'",
        'async def f():\n    r"""Which one."""',
        'class A:\n    """Those that are there."""',
        'class A:\n    a: int = 0\n    """How many there are."""',
        'A = 1\n"""\nWhen it ends.\n"""',
        'def f(self):\n    self.a = 1\n    """Whoever asks."""',
        'def f():\n    """\\\n    Where it is."""',
    ],
)
def test_a_docstring_with_another_beginning_is_seen(text: str) -> None:
    assert len(list(wrong_beginnings(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        '"""Whatsoever\'s own words, and what a module holds."""',
        'A = "What a value says"',
        'print("Which one?")',
        '# """What a comment says."""',
        'def f():\n    """True if what is asked is there."""',
    ],
)
def test_a_docstring_of_things_and_other_strings_are_none(text: str) -> None:
    assert list(wrong_beginnings(text)) == []
