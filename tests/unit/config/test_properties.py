from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.config.properties import parse_properties, read_connector, read_properties
from headrace.config.settings import ConfigError
from headrace.config.worker.config import WorkerConfig

CONFIG = Path(__file__).parents[3] / "config"


# Source: the rules of java.util.Properties.load.
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"a=b", {"a": "b"}),
        (b"a : b ", {"a": "b "}),
        (b"a b c", {"a": "b c"}),
        (b"  a\t=\tb", {"a": "b"}),
        (b"# c\n! d\na=1", {"a": "1"}),
        (b"a=one,\\\n   two", {"a": "one,two"}),
        (rb"a=\u00e4\t\\\q", {"a": "ä\t\\q"}),
        (b"a=\xe4", {"a": "ä"}),
        (rb"a\=b=c", {"a=b": "c"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"A->B.enabled = true", {"A->B.enabled": "true"}),
        (b"empty=\nnone", {"empty": "", "none": ""}),
        (b"a=1\r\nb=2\r", {"a": "1", "b": "2"}),
    ],
)
def test_properties_are_read_as_java_reads_them(line: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(line, "x") == expected


def test_a_bad_escape_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "w.properties"
    path.write_bytes(rb"a=\u12x")
    with pytest.raises(ConfigError, match=r"w\.properties.*not a properties file"):
        read_properties(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.properties.*cannot be read"):
        read_properties(tmp_path / "nowhere.properties")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("c.properties", "name=c\ntasks.max=1\nenabled=true"),
        ("c.json", '{"name": "c", "tasks.max": 1, "enabled": true}'),
        ("c.json", '{"name": "c", "config": {"tasks.max": "1", "enabled": true}}'),
        ("c.json", '{"config": {"name": "c", "tasks.max": "1", "enabled": "true"}}'),
        ("c.conf", '  {"name": "c", "config": {"tasks.max": "1", "enabled": true}, "initial_state": null}'),
    ],
)
def test_connector_files_of_each_form(tmp_path: Path, file: str, text: str) -> None:
    path = tmp_path / file
    path.write_text(text)
    connector = read_connector(path)
    assert connector.name == "c"
    assert connector.config == {"name": "c", "tasks.max": "1", "enabled": "true"}
    assert connector.initial_state is None


def test_an_initial_state_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"name": "c", "config": {}, "initial_state": "stopped"}')
    assert read_connector(path).initial_state == "STOPPED"


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("c.properties", "tasks.max=1", "names no connector"),
        ("c.json", '{"tasks.max": 1}', "names no connector"),
        ("c.json", '{"name": "c", ', "not JSON"),
        ("c.json", "[]", "not an object"),
        ("c.json", '{"name": "c", "config": {"a": null}}', "must be a text"),
        ("c.json", '{"name": "c", "config": {"name": "d"}}', "doesn't match"),
        ("c.json", '{"name": "c", "config": {}, "extra": 1}', "unknown members: extra"),
        ("c.json", '{"name": "c", "config": {}, "initial_state": "ASLEEP"}', "ASLEEP is not known"),
    ],
)
def test_wrong_connector_files_are_named_with_what_to_do(tmp_path: Path, file: str, text: str, says: str) -> None:
    path = tmp_path / file
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        read_connector(path)
    assert str(path) in str(caught.value)
    assert all(problem.remedy or "match" in says for problem in caught.value.problems)


def test_the_shipped_worker_files_are_right() -> None:
    standalone = WorkerConfig.standalone(read_properties(CONFIG / "connect-standalone.properties"))
    assert standalone["offset.storage.file.filename"] == "/tmp/connect.offsets"
    assert standalone["offset.flush.interval.ms"] == 10_000
    assert standalone.with_prefix("value.converter.") == {"schemas.enable": "true"}
    assert standalone.unknown() == []
    distributed = WorkerConfig.distributed(read_properties(CONFIG / "connect-distributed.properties"))
    assert distributed["group.id"] == "connect-cluster"
    assert distributed["offset.storage.topic"] == "connect-offsets"
    assert distributed["config.storage.topic"] == "connect-configs"
    assert distributed["status.storage.topic"] == "connect-status"
    assert {distributed[f"{k}.storage.replication.factor"] for k in ("config", "offset", "status")} == {1}
    assert distributed.unknown() == []


SHIPPED = {
    "file-source": {"name": "local-file-source", "connector.class": "FileStreamSource", "file": "test.txt"},
    "file-sink": {"name": "local-file-sink", "connector.class": "FileStreamSink", "file": "test.sink.txt"},
    "console-source": {
        "name": "local-console-source",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    },
    "console-sink": {
        "name": "local-console-sink",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    },
}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_connector_files_have_apaches_settings(name: str) -> None:
    topic = {"topic" if "source" in name else "topics": "connect-test"}
    connector = read_connector(CONFIG / f"connect-{name}.properties")
    assert connector.config == {**SHIPPED[name], **topic, "tasks.max": "1"}


def test_the_shipped_mirror_file_has_apaches_settings() -> None:
    mirror = read_properties(CONFIG / "connect-mirror-maker.properties")
    assert mirror["clusters"] == "A, B"
    assert {mirror[f"{flow}.enabled"] for flow in ("A->B", "B->A")} == {"true"}
    assert mirror["A->B.topics"] == ".*"
    factors = [key for key in mirror if key.endswith("replication.factor")]
    assert len(factors) == 7
    assert {mirror[key] for key in factors} == {"1"}


def test_a_connector_file_survives_json_and_properties_alike(tmp_path: Path) -> None:
    config = {"name": "ü", "path": "C:\\x", "regex": "a=b:c#d!e", "blank": " x"}
    as_json, as_request = tmp_path / "a.json", tmp_path / "b.json"
    as_json.write_text(json.dumps(config))
    as_request.write_text(json.dumps({"name": "ü", "config": config}))
    assert read_connector(as_json).config == read_connector(as_request).config == config
