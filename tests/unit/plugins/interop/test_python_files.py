"""Plugins in single files: found without running them, and what is left out is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.config.problems import ConfigError
from headrace.plugins import RecordSource
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.interop.python_files import plugins_in

SOURCE = """
import headrace.plugins
from headrace.plugins import contracts
from headrace.plugins.contracts import Connector, SinkTask
from headrace.plugins import RecordSink as Sink, RecordSource, RecordTransform, RecordPredicate, RecordConverter

class Prices(RecordSource):
    settings = []
    def poll(self, after): return []

class _Hidden(RecordSource): ...
class Cheap(Prices): ...
class Lines(Sink):
    def put(self, records): ...
class Whole(headrace.plugins.RecordSource): ...
class Change(RecordTransform): ...
class Test(RecordPredicate): ...
class Bytes(RecordConverter): ...
class Other: ...
Else = None
class Reading(contracts.SourceTask): ...
class Writing(SinkTask): ...
class _Both(Connector):
    settings = None
class ArrowSource(_Both):
    task = Reading
class ArrowSink(contracts.Connector):
    task = Writing
class Elsewhere(Connector):
    task = Else
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = before[0]
    for name in set(sys.modules) - before[1]:
        if name.startswith("prices_of_"):
            del sys.modules[name]


def test_classes_are_found_by_their_bases(folder: Path) -> None:
    file = folder / "prices_of_a_shop.py"
    file.write_text(SOURCE)
    found = [(kind, entry.name) for kind, entry in plugins_in(file)]
    assert found == [
        ("source", "Prices"),
        ("source", "Cheap"),
        ("sink", "Lines"),
        ("source", "Whole"),
        ("transformation", "Change"),
        ("predicate", "Test"),
        ("converter", "Bytes"),
        ("source", "ArrowSource"),
        ("sink", "ArrowSink"),
    ]


def test_a_file_on_the_plugin_path_is_a_plugin_by_its_class(folder: Path) -> None:
    (folder / "prices_of_a_shop.py").write_text(SOURCE)
    plugins = Plugins.discover([str(folder)])
    assert "prices_of_a_shop" not in sys.modules
    assert issubclass(plugins.find("source", "Prices").load(), RecordSource)
    assert plugins.find("connector", "Lines").kind == "sink"
    with pytest.raises(ConfigError, match="does not define change"):
        plugins.find("transformation", "Change").load()


def test_a_class_that_a_package_declares_has_the_name_declared(folder: Path) -> None:
    (folder / "prices_of_a_shop.py").write_text(SOURCE)
    info = folder / "prices_of_a_shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prices_of_a_shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headrace.source]\norg.example.Prices = prices_of_a_shop:Prices\n")
    found = {one.class_name for one in Plugins.discover([str(folder)]).of_kind("source")}
    assert {"org.example.Prices", "Cheap"} <= found
    assert "Prices" not in found


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("prices-of.py", SOURCE, "prices-of is no name that Python can import"),
        ("prices.of.py", SOURCE, "prices.of is no name that Python can import"),
        ("json.py", SOURCE, "its name is that of the module"),
        ("prices_of_it.py", "class Prices(", "cannot be listed: "),
        ("prices_of_nul.py", "\0", "cannot be listed: "),
    ],
)
def test_files_that_are_left_out_are_told_of(
    folder: Path, caplog: pytest.LogCaptureFixture, name: str, text: str, told: str
) -> None:
    (folder / name).write_text(text)
    assert list(plugins_in(folder / name)) == []
    assert told in caplog.text


@pytest.mark.parametrize("text", ["import os\n", "class A: ...\nclass B(A): ...\n", ""])
def test_files_without_plugins_are_of_no_concern(folder: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    (folder / "json.py").write_text(text)
    assert list(plugins_in(folder / "json.py")) == []
    assert not caplog.records
