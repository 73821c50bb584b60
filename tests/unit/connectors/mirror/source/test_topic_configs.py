"""The settings of a topic that its copy gets."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import ConfigSource

from headrace.connectors.mirror.filters import config_property_filter
from headrace.connectors.mirror.source.topic_configs import changes, of_new_topic
from tests.unit.connectors.mirror.source.clusters import entry

DEFAULT = ConfigSource.DEFAULT_CONFIG
TARGETS = config_property_filter({})
SOURCES = config_property_filter({"use.defaults.from": "source"})


def entries(*found: Any) -> dict[str, Any]:
    return {one.name: one for one in found}


SOURCE = entries(
    entry("cleanup.policy", "compact"),
    entry("retention.ms", "604800000", DEFAULT),
    entry("segment.bytes", "1", ConfigSource.STATIC_BROKER_CONFIG),
    entry("max.message.bytes", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    entry("min.insync.replicas", "2"),
    entry("secret", None, is_sensitive=True),
    entry("fixed", "1", is_read_only=True),
)


def test_a_new_topic_gets_what_its_source_has_of_its_own() -> None:
    assert of_new_topic(SOURCE, TARGETS) == {"cleanup.policy": "compact", "max.message.bytes": "2"}


def test_a_new_topic_gets_the_source_s_defaults_where_that_is_asked_for() -> None:
    assert of_new_topic(SOURCE, SOURCES)["retention.ms"] == "604800000"


def test_what_differs_is_set_and_what_the_source_leaves_to_defaults_is_removed() -> None:
    target = entries(entry("cleanup.policy", "delete"), entry("retention.ms", "5"), entry("max.message.bytes", "2"))
    assert [str(one) for one in changes(SOURCE, target, TARGETS)] == ["cleanup.policy=compact", "retention.ms removed"]
    expected = ["cleanup.policy=compact", "retention.ms=604800000"]
    assert [str(one) for one in changes(SOURCE, target, SOURCES)] == expected


def test_what_is_alike_is_left_alone() -> None:
    by_default = entry("retention.ms", "9", DEFAULT)
    target = entries(entry("cleanup.policy", "compact"), by_default, entry("max.message.bytes", "2"))
    assert changes(SOURCE, target, TARGETS) == []


def test_a_default_of_the_target_that_happens_to_be_alike_is_set_all_the_same() -> None:
    target = entries(entry("cleanup.policy", "compact", DEFAULT))
    source = entries(entry("cleanup.policy", "compact"))
    assert [str(one) for one in changes(source, target, TARGETS)] == ["cleanup.policy=compact"]


def test_everything_is_sent_where_the_target_s_settings_may_not_be_read() -> None:
    assert len(changes(SOURCE, None, TARGETS)) == 3
