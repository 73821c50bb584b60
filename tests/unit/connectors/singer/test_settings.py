"""A tap's config, its executable and its catalog, as settings name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.singer.catalog import selected
from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.executables import executable
from headrace.connectors.singer.settings import process_config
from headrace.connectors.singer.source import SingerSourceConnector
from tests.fake_singer import installed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5432", 5432),
        ("1.5", 1.5),
        ("1.10", "1.10"),
        ("1e3", "1e3"),
        ("007", "007"),
        ('"007"', "007"),
        ("true", True),
        ("True", "True"),
        ("null", None),
        ("NaN", "NaN"),
        ("", ""),
        ("2026-01-01", "2026-01-01"),
        ('["a", {"b": 1}]', ["a", {"b": 1}]),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_is_json_or_text(text: str, value: Any) -> None:
    assert process_config("tap.config.", {"tap.config.x": text, "other": "1"}, {}) == {"x": value}


def test_dots_make_objects_and_secrets_are_texts() -> None:
    config = {"a.b": "1", "a.c.d": "x", "password": "12", "a.api_token": "3"}
    made = process_config("tap.config.", {f"tap.config.{name}": value for name, value in config.items()}, {})
    assert made == {"a": {"b": 1, "c": {"d": "x"}, "api_token": "3"}, "password": "12"}
    with pytest.raises(ConfigError, match="a has a value of its own"):
        process_config("tap.config.", {"tap.config.a": "1", "tap.config.a.b": "2"}, {})


def test_files_and_hosts_outside_of_the_workers_bounds_are_refused(tmp_path: Path) -> None:
    files = {"file.allowed.paths": [str(tmp_path)]}
    inside = {"tap.config.files": json.dumps([{"file": f"{tmp_path}/a"}])}
    assert process_config("tap.config.", inside, files)["files"] == [{"file": f"{tmp_path}/a"}]
    for outside in ({"tap.config.file": "/etc/passwd"}, {"tap.config.x": '{"filename": "/etc/passwd"}'}):
        with pytest.raises(ConfigError, match=r"file\.allowed\.paths"):
            process_config("tap.config.", outside, files)
    hosts = {"connector.allowed.hosts": ["127.0.0.1"]}
    for outside in ({"tap.config.host": "10.0.0.1"}, {"tap.config.api_url": "http://10.0.0.1/x"}):
        with pytest.raises(ConfigError, match=r"connector\.allowed\.hosts"):
            process_config("tap.config.", outside, hosts)


def test_only_what_lies_on_plugin_path_is_run(tmp_path: Path) -> None:
    path = installed(tmp_path / "path", "tap-a", "")
    (path / "tap-a/env/bin/tap-b").touch(0o755)
    (path / "own").touch(0o755)
    (path / "plain").touch(0o644)
    (path / "half/env/bin").mkdir(parents=True)
    (path / "half/env/bin/half").touch(0o755)
    worker = {"plugin.path": [str(path)]}
    assert executable("tap.command", "tap-a", worker) == path / "tap-a/env/bin/tap-a"
    assert executable("tap.command", "tap-b", worker) == path / "tap-a/env/bin/tap-b"
    assert executable("tap.command", str(path / "own"), worker) == path / "own"
    outside = ("tap-c", "half", "sh", "..", "/bin/sh", str(path / "plain"), f"{path}/../../../../../bin/sh", "bin/sh")
    for name in outside:
        with pytest.raises(ConfigError, match=r"plugin\.path"):
            executable("tap.command", name, worker)
    with pytest.raises(ConfigError, match=r"plugin\.path"):
        executable("tap.command", "tap-a", {})


def test_an_executable_of_several_plugins_needs_a_folder(tmp_path: Path) -> None:
    for name in ("tap-x", "tap-y"):
        installed(tmp_path, name, "")
        (tmp_path / name / "env/bin/shared").touch(0o755)
    with pytest.raises(ConfigError, match=r"Several plugins have it: .*tap-x, .*tap-y"):
        executable("tap.command", "shared", {"plugin.path": [str(tmp_path)]})


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tap.command", "tap-b"), ("tap.metadata", "[1]"), ("tap.metadata", "x"), ("tap.catalog", "everything")],
)
def test_a_wrong_setting_is_named_at_validation(tmp_path: Path, setting: str, value: str) -> None:
    connector = SingerSourceConnector()
    connector.worker = {"plugin.path": [str(installed(tmp_path, "tap-a", ""))]}
    assert connector.validate({"tap.command": "tap-a"}) == []
    (problem,) = connector.validate({"tap.command": "tap-a", setting: value})
    assert (problem.key, problem.value) == (setting, value)


def test_streams_are_selected_with_all_properties_that_the_tap_supports() -> None:
    root = {"breadcrumb": [], "metadata": {"table-key-properties": ["id"], "selected": True}}
    never = {"breadcrumb": ["properties", "blob"], "metadata": {"inclusion": "unsupported"}}
    some = {"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "automatic"}}
    found = {"streams": [{"tap_stream_id": "a-1", "metadata": [root, never, some]}, {"tap_stream_id": "b"}]}
    more = {"a-*": {"replication-method": "INCREMENTAL", "replication-key": "id"}}
    (one,) = selected(found, ["a-*"], more)["streams"]
    assert [of["metadata"]["selected"] for of in one["metadata"]] == [True, False, True]
    assert one["metadata"][0]["metadata"] == {"table-key-properties": ["id"], "selected": True, **more["a-*"]}
    assert (one["replication_method"], one["replication_key"]) == ("INCREMENTAL", "id")
    (other,) = selected(found, ["b"], {})["streams"]
    assert other["metadata"] == [{"breadcrumb": [], "metadata": {"selected": True}}]
    assert root["metadata"]["selected"] is True, "what was discovered stays as it is"
    for wrong in ([], {}, {"streams": 1}, {"streams": [{}]}):
        with pytest.raises(SingerError, match="printed what is no catalog"):
            selected(wrong, ["*"], {})
