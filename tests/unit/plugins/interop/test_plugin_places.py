"""Plugins in files of Python: found without running them, in files, folders and packages on `plugin.path`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.plugins.interop.discovery import BrokenPluginError, Plugins
from headrace.plugins.interop.python_files import plugins_in

SINK = """
from headrace.plugins import RecordSink

class {name}(RecordSink):
    def put(self, records): ...
"""
ARROW = """
from headrace.plugins import contracts
from headrace.plugins.contracts import Connector, Transform as Change

class _Base(contracts.SourceTask): ...
class Task(_Base): ...
class Feed(Connector):
    task = Task
class Feeds(Feed):
    version = "2"
class Typed(Connector):
    task: type = Task
class Nothing(Connector): ...
class Upper(Change): ...
class _Hidden(Change): ...
raise SystemExit("it was run")
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("plugin_"):
            del sys.modules[name]


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_class_is_of_the_kind_of_its_base_or_of_its_task(tmp_path: Path) -> None:
    found = plugins_in(write(tmp_path / "plugin_arrow.py", ARROW))
    assert [(kind, entry.value) for kind, entry in found] == [
        ("source", "plugin_arrow:Feed"),
        ("source", "plugin_arrow:Feeds"),
        ("source", "plugin_arrow:Typed"),
        ("transformation", "plugin_arrow:Upper"),
    ]


@pytest.mark.parametrize("of_path", [".", "plugin_one.py", "plugin_pack"])
def test_an_element_is_a_folder_a_file_or_a_package(tmp_path: Path, of_path: str) -> None:
    write(tmp_path / "plugin_one.py", SINK.format(name="One"))
    write(tmp_path / "plugin_pack" / "__init__.py", SINK.format(name="Front"))
    write(tmp_path / "plugin_pack" / "inner.py", "from .names import NAME\n" + SINK.format(name="Inner"))
    write(tmp_path / "plugin_pack" / "names.py", "NAME = 1\n")
    found = Plugins.discover([str(tmp_path / of_path)])
    ours = [plugin for plugin in found.of_kind("sink") if plugin.home]
    names = {"plugin_one.py": ["One"], "plugin_pack": ["Front", "Inner"]}
    assert [plugin.class_name for plugin in ours] == names.get(of_path, ["Front", "Inner", "One"])
    assert [plugin.load().__name__ for plugin in ours] == [plugin.class_name for plugin in ours]
    assert {plugin.home for plugin in ours} == {str(tmp_path)}
    assert found.paths == [str(tmp_path)]


def test_a_relative_element_is_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "here" / "plugin_near.py", SINK.format(name="Near"))
    monkeypatch.chdir(tmp_path)
    assert Plugins.discover(["here"]).find("sink", "Near").load().__name__ == "Near"


@pytest.mark.parametrize("name", ["json", "plugin_twice"])
def test_a_file_named_as_another_module_is_left_out(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a" / "plugin_twice.py", SINK.format(name="First"))
    file = write(tmp_path / "b" / f"{name}.py", SINK.format(name="Second"))
    found = Plugins.discover([str(tmp_path)])
    assert [one.class_name for one in found.of_kind("sink") if one.home] == ["First"]
    assert f"{file} is left out: its name is that of the module " in caplog.text


def test_a_plugin_whose_requirement_is_missing_is_told_with_what_to_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    needs = '# /// script\n# dependencies = ["packaging{}"]\n# ///\n'
    old = write(tmp_path / "plugin_old.py", needs.format("<1") + SINK.format(name="Old"))
    new = write(tmp_path / "plugin_new.py", needs.format(">1") + SINK.format(name="New"))
    found = Plugins.discover([str(tmp_path)])
    advice = f"Run `headrace plugins install {old} --plugin-path {tmp_path}`"
    assert f"The plugins in {old} cannot be used: it needs packaging<1, but " in caplog.text
    assert f"({new} needs packaging>1). {advice}" in caplog.text
    assert found.find("sink", "New").load().__name__ == "New"
    with pytest.raises(BrokenPluginError, match="it needs packaging<1, but") as refused:
        found.find("sink", "Old").load()
    assert advice in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"), [("x = ", "invalid syntax"), ("# /// script\n# a =\n# ///" + SINK.format(name="X"), "no TOML")]
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, text: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "plugin_bad.py", text)
    assert list(plugins_in(file)) == []
    assert f"The plugins in {file} cannot be listed: " in caplog.text
    assert why in caplog.text
