"""The plugins among folders and jars of `plugin.path`, and the class path of each."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.config.plugin_path import archives_of, plugin_locations
from headrace.config.plugin_path.locations import UNFINISHED
from tests.made_jars import class_file, jar


@pytest.mark.parametrize(
    "inside",
    [
        ["debezium/a.jar", "debezium/b.jar"],
        ["confluentinc-kafka-connect-x-1.0/lib/a.jar", "confluentinc-kafka-connect-x-1.0/lib/b.ZIP"],
        ["strimzi/0a1b2c/a.jar", "strimzi/0a1b2c/deep/b.jar"],
    ],
)
def test_jars_are_found_however_deep_in_a_plugins_folder(inside: list[str], tmp_path: Path) -> None:
    made = [jar(tmp_path / name) for name in inside]
    (location,) = plugin_locations([str(tmp_path)])
    assert location == tmp_path / Path(inside[0]).parts[0]
    assert archives_of(location) == tuple(sorted(made))


def test_a_jar_in_an_element_or_an_element_itself_is_a_location(tmp_path: Path) -> None:
    uber, other = jar(tmp_path / "path" / "uber.jar"), jar(tmp_path / "other.jar")
    (tmp_path / "path" / "notes.txt").touch()
    assert plugin_locations([str(tmp_path / "path"), str(other), str(other)]) == [uber, other]
    assert archives_of(uber) == (uber,)


def test_a_folder_of_class_files_is_its_own_class_path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tree" / "org" / "One.class"
    file.parent.mkdir(parents=True)
    file.write_bytes(class_file("org.One"))
    assert archives_of(tmp_path / "tree") == (tmp_path / "tree",)
    beside = jar(tmp_path / "tree" / "one.jar")
    with caplog.at_level(logging.WARNING):
        assert archives_of(tmp_path / "tree") == (beside,)
    assert "only the jars are used" in caplog.text


def test_links_are_followed_and_a_circle_of_them_ends(tmp_path: Path) -> None:
    elsewhere = jar(tmp_path / "elsewhere" / "lib" / "a.jar")
    plugin = tmp_path / "path" / "plugin"
    plugin.mkdir(parents=True)
    (plugin / "linked").symlink_to(tmp_path / "elsewhere")
    (plugin / "itself").symlink_to(plugin)
    (plugin / "nowhere").symlink_to(tmp_path / "nowhere")
    assert archives_of(plugin) == (elsewhere,)


def test_what_is_no_plugin_is_passed_by(tmp_path: Path) -> None:
    jar(tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "pyspark" / "jars" / "spark.jar")
    jar(tmp_path / f"{UNFINISHED}x" / "a.jar")
    assert plugin_locations([str(tmp_path)]) == [tmp_path / "env"]
    assert archives_of(tmp_path / "env") == ()


def test_an_element_that_is_not_there_is_logged_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    here = jar(tmp_path / "here.jar")
    assert plugin_locations([str(tmp_path / "gone"), str(here)]) == [here]
    assert f"The element {tmp_path / 'gone'} of plugin.path cannot be read" in caplog.text
