"""Files that the embedded broker is started from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import javaproperties
import psutil
import pytest
from typer.testing import CliRunner

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.cli import commands
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.embedded.kafka_files import OURS, log4j2_properties, server_properties


def test_the_broker_listens_on_loopback_only() -> None:
    properties = javaproperties.loads(server_properties(Path("/d"), 9092, 40001, {}))
    addresses = [address.rpartition("//")[2] for address in properties["listeners"].split(",")]
    assert addresses == ["127.0.0.1:9092", "127.0.0.1:40001"]
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:40001"


def test_topics_are_made_on_first_use_with_one_partition_unless_told_otherwise() -> None:
    properties = javaproperties.loads(server_properties(Path("/d"), 9092, 40001, {}))
    assert (properties["auto.create.topics.enable"], properties["num.partitions"]) == ("true", "1")
    properties = javaproperties.loads(server_properties(Path("/d"), 9092, 40001, {"num.partitions": "3"}))
    assert properties["num.partitions"] == "3"


def test_a_folder_with_odd_characters_survives_the_properties_file() -> None:
    odd = Path("/tmp/a b=c:d\\e/ü")
    assert javaproperties.loads(server_properties(odd, 1, 2, {}))["log.dirs"] == str(odd)
    assert javaproperties.loads(log4j2_properties(odd, {}))["appender.file.fileName"] == str(odd)


def test_single_loggers_can_be_made_talkative() -> None:
    properties = javaproperties.loads(log4j2_properties(Path("/l"), {"org.example.One": "debug"}))
    assert properties["logger.l0.name"] == "org.example.One"
    assert properties["logger.l0.level"] == "debug"


@pytest.mark.parametrize("key", sorted(OURS))
def test_what_headrace_sets_itself_is_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=key):
        Broker(tmp_path, settings={key: "x"})


@pytest.mark.parametrize("noted", ["", "{", "{}", '{"pid": 1, "created": 5.0, "port": 9092}'])
def test_a_stale_or_torn_note_is_no_running_broker(noted: str, tmp_path: Path) -> None:
    (tmp_path / "broker.json").write_text(noted)
    assert Broker.running_on(tmp_path) is None


def test_a_version_without_jars_is_refused_with_those_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA_VERSION", "4.5.0")
    said = (
        "HEADRACE_KAFKA_VERSION='4.5.0': Headrace has no such Kafka to start; say 4.3.1 or 4.4.0, or nothing for 4.3.1"
    )
    with pytest.raises(Unavailable) as refused:
        Broker(tmp_path)
    assert str(refused.value) == said
    assert Broker(tmp_path, version="4.4.0").version == "4.4.0"
    for command in (["kafka", "start", "--data-dir", str(tmp_path)], ["quickstart", "--once"]):
        answer = CliRunner().invoke(commands.app, command)
        assert answer.exit_code == 3
        assert said in answer.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("noted", "version"),
    [({}, "4.3.1"), ({"version": "4.3.1"}, "4.3.1"), ({"version": "4.4.0", "of a later Headrace": 1}, "4.4.0")],
)
def test_a_broker_is_described_by_the_version_that_it_was_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: dict[str, object], version: str
) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA_VERSION", "4.4.0")  # that of the next start
    process = psutil.Process(os.getpid())
    text = json.dumps({"pid": process.pid, "created": process.create_time(), "port": 9092, **noted})
    (tmp_path / "broker.json").write_text(text)
    found = Broker.running_on(tmp_path)
    assert found is not None
    assert Broker.describe(found, tmp_path).startswith(f"Kafka {version} at 127.0.0.1:9092 ")
