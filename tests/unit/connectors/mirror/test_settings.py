"""The mirror connectors' settings are those of Apache's 4.3.1, documentation apart."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.connector.validation import plugin_config
from headrace.config.settings import Settings
from headrace.connectors.mirror.settings import CHECKPOINT, HEARTBEAT, SOURCE
from tests.compat.apache_plugins import ApachePlugin, recorded

APACHE = recorded("plugin_configs.json")
BY_CLASS = {
    "MirrorSourceConnector": SOURCE,
    "MirrorCheckpointConnector": CHECKPOINT,
    "MirrorHeartbeatConnector": HEARTBEAT,
}
NEEDED = {"name": "m", "connector.class": "MirrorSource", "source.cluster.alias": "A"}


def rows(answer: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "documentation"} for row in answer]


@pytest.mark.parametrize("name", BY_CLASS)
def test_settings_are_apaches(name: str) -> None:
    class_name = f"org.apache.kafka.connect.mirror.{name}"
    plugin = ApachePlugin(class_name, "source", type(name, (), {"settings": BY_CLASS[name]}))
    answer = plugin_config(plugin)
    assert rows(answer) == rows(APACHE[class_name]["config"])
    assert [row["name"] for row in answer if not row["documentation"]] == []


def test_class_settings_name_no_plugins() -> None:
    """The worker's look-up of plugins knows neither policies nor filters."""
    given = {**NEEDED, "replication.policy.class": "org.example.Policy", "topic.filter.class": "org.example.Filter"}
    found = SOURCE.validate(given, lambda name: None if name.startswith("org.example.") else name)
    assert [value.errors for value in found.values() if value.errors] == []


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        (SOURCE, "forwarding.admin.class", "org.example.Admin"),
        (SOURCE, "offset-syncs.topic.location", "moon"),
        (CHECKPOINT, "offset-syncs.topic.location", ""),
        (HEARTBEAT, "emit.heartbeats.interval.seconds", "often"),
    ],
)
def test_wrong_values_are_refused(settings: Settings, key: str, value: str) -> None:
    assert [problem.key for problem in settings.problems({**NEEDED, key: value})] == [key]
