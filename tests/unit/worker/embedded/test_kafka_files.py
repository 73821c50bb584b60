"""What the embedded broker is started from."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest

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
