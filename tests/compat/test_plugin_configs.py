"""Every shipped plugin that Apache has too declares the settings that Apache's 4.3.1 declares (recorded)."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.connector.validation import plugin_config
from headrace.plugins.interop.discovery import PluginEntry, Plugins
from tests.compat.apache_plugins import recorded

APACHE = recorded("plugin_configs.json")
KINDS = ("sink", "source", "converter", "header_converter", "transformation", "predicate")
SHIPPED = [
    pytest.param(plugin, id=f"{plugin.kind}-{plugin.class_name.rpartition('.')[2]}")
    for plugin in Plugins.discover().of_kind(*KINDS)
    if plugin.class_name in APACHE and plugin.location == "installed"
]

# Settings of ours beyond Apache's must say so here, by the class that has them.
OURS: dict[str, set[str]] = {"org.apache.kafka.connect.transforms.ValueToKey": {"field.syntax.version"}}
"""ValueToKey has the paths of 4.4."""


def rows(answer: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "documentation"} for row in answer]


def test_the_first_plugins_are_shipped() -> None:
    names = {plugin.values[0].class_name.rpartition(".")[2] for plugin in SHIPPED}
    assert names >= {
        "FileStreamSourceConnector",
        "FileStreamSinkConnector",
        "JsonConverter",
        "StringConverter",
        "ByteArrayConverter",
        *(f"{name}Converter" for name in ("Boolean", "Short", "Integer", "Long", "Float", "Double")),
        "SimpleHeaderConverter",
        *("DropHeaders", "InsertHeader", "HeaderFrom$Key", "HeaderFrom$Value"),
        *("RegexRouter", "TimestampRouter", "Filter"),
        *("TopicNameMatches", "HasHeaderKey", "RecordIsTombstone"),
        *(f"{name}${of}" for name in ("ExtractField", "Flatten", "HoistField") for of in ("Key", "Value")),
        *("TimestampConverter$Key", "TimestampConverter$Value", "ValueToKey"),
        *(f"{name}${of}" for name in ("Cast", "InsertField", "MaskField") for of in ("Key", "Value")),
        *(f"{name}${of}" for name in ("ReplaceField", "SetSchemaMetadata") for of in ("Key", "Value")),
    }


@pytest.mark.parametrize("plugin", SHIPPED)
def test_settings_are_apaches(plugin: PluginEntry) -> None:
    ours = [row for row in rows(plugin_config(plugin)) if row["name"] not in OURS.get(plugin.class_name, set())]
    assert ours == rows(APACHE[plugin.class_name]["config"])


@pytest.mark.parametrize("plugin", SHIPPED)
def test_every_setting_is_documented(plugin: PluginEntry) -> None:
    assert [row["name"] for row in plugin_config(plugin) if not row["documentation"]] == []
