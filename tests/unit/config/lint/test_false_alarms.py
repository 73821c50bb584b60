"""Configs that are right have no findings: those of the pages, the shipped files, and Apache's defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.config.lint.files import FileKind, files_in, read_file
from headrace.config.lint.linter import Linter
from headrace.config.lint.properties_files import mirror_findings, worker_findings
from headrace.config.problems import ConfigError
from headrace.config.properties import parse_properties
from headrace.plugins.interop.discovery import Plugins
from tests.unit.test_docs import PAGES, ROOT

PLUGINS: Final = Plugins.shipped()
LINT: Final = Linter(PLUGINS, None)
IN_THE_CLEAR: Final = "literal-secret"
"""Examples have their passwords in the clear."""
KEYS: Final = {
    setting.name
    for plugin in PLUGINS.of_kind("source")
    if "mirror" in plugin.class_name
    for setting in plugin.load().settings
}


def of_pages() -> Iterator[tuple[str, dict[str, str]]]:
    """The whole configs in pages: JSON objects, and blocks of properties, with `connector.class`."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"\{[^{}]*\"connector\.class\"[^{}]*\}", text):
            yield f"{page.name}:{found.start()}", {"name": "c", **json.loads(found[0])}
        for block in re.split(r"\n\s*\n|```\w*\n", text):
            lines = [line.strip() for line in block.splitlines()]
            if any(line.startswith("connector.class=") for line in lines):
                plain = "\n".join(re.sub(r"\s+#.*", "", line) for line in lines)
                yield f"{page.name}: {lines[0]}", {"name": "c", **parse_properties(plain.encode(), page.name)}


CONFIGS: Final = dict(of_pages())


def test_pages_have_configs() -> None:
    assert len(CONFIGS) >= 7


@pytest.mark.parametrize("where", CONFIGS)
def test_no_config_of_a_page_is_judged(where: str) -> None:
    assert [one for one in LINT(CONFIGS[where]) if one.rule != IN_THE_CLEAR] == []


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.properties")), ids=lambda path: path.stem)
def test_no_shipped_file_is_judged(path: Path) -> None:
    file = read_file(path)
    if file.kind is FileKind.WORKER:
        found = worker_findings(file.given)
    elif file.kind is FileKind.MIRROR:
        found = mirror_findings(file.given, KEYS, LINT)
    else:
        assert file.kind is FileKind.CONNECTOR
        found = LINT(file.config)
    assert [one for one in found if one.rule != IN_THE_CLEAR] == []
    assert not file.repeated
    assert not file.faults


APACHE: Final[Mapping[str, Any]] = json.loads(
    (ROOT / "tests" / "compat" / "vectors" / "plugin_configs.json").read_text(encoding="utf-8")
)


def of_apache() -> Iterator[tuple[str, dict[str, str]]]:
    """A config of each of Apache's plugins, with every setting at its default."""
    for name, one in APACHE.items():
        given = {row["name"]: row["default_value"] for row in one["config"] if row["default_value"] is not None}
        if one["type"] in ("source", "sink"):
            needed = {"name": "c", "connector.class": name, "file": "f"}
            needed |= {"topics": "t"} if one["type"] == "sink" else {"topic": "t"}
            needed |= {"source.cluster.alias": "a", "target.cluster.alias": "b"} if ".mirror." in name else {}
            yield name, {**given, **{key: value for key, value in needed.items() if not given.get(key)}}


@pytest.mark.parametrize(("name", "config"), list(of_apache()))
def test_no_default_of_apache_is_judged(name: str, config: dict[str, str]) -> None:
    assert LINT(config) == [], name


def test_files_are_found_below_folders_that_are_not_hidden(tmp_path: Path) -> None:
    (folder := tmp_path / ".config").mkdir()
    with pytest.raises(ConfigError, match="has no file to judge"):
        list(files_in([folder]))
    for name in ("b.json", "a.properties", "sub/c.json", ".git/d.json", "notes.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    found = [(str(path.relative_to(folder)), is_found) for path, is_found in files_in([folder, folder / "b.json"])]
    assert found == [("a.properties", True), ("b.json", True), ("sub/c.json", True)]
