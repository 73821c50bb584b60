"""README.md and docs/: the settings page is what the declarations say, and what the pages name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.worker.cli.commands import app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = "bench|config|connectors|converters|docs|headrace|plugins|rest|tests|worker"
MOST_OF_THE_README = 6500


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
