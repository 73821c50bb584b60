"""Validation refuses what a task would refuse as it starts, and no setting's own rule finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.config.connector.validator import ConnectorValidator
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.discovery import Plugins

PLUGINS = Plugins.shipped()
WORKER = {
    "bootstrap.servers": "localhost:1",
    "offset.storage.file.filename": "unused",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "python.transforms.allowed": "mine, theirs.inner",
}
SINK = {"name": "c", "connector.class": "FileStreamSink", "topics": "t", "file": "f"}
SOURCE = {"name": "c", "connector.class": "FileStreamSource", "topic": "t", "file": "f"}


def errors(config: Mapping[str, str]) -> dict[str, list[str]]:
    rows: list[dict[str, Any]] = ConnectorValidator(PLUGINS, WorkerConfig.standalone(WORKER))(config).infos()["configs"]
    return {row["value"]["name"]: row["value"]["errors"] for row in rows if row["value"]["errors"]}


CONNECTORS = sorted({one.load(): one.class_name for one in PLUGINS.of_kind("source", "sink")}.values())


@pytest.mark.parametrize("name", CONNECTORS)
def test_each_wrong_setting_of_a_connector_is_named_once(name: str) -> None:
    nothing = {"name": "c", "connector.class": name}
    settings = PLUGINS.find("connector", name).load().settings
    for config in (nothing, {**{one.name: "\x01" for one in settings}, **nothing}):
        found = errors(config)
        assert {key: text for key, text in found.items() if len(set(text)) < len(text)} == {}


def sql(text: str) -> dict[str, str]:
    return {**SINK, "transforms": "s", "transforms.s.type": "headrace.transforms.Sql", "transforms.s.sql": text}


def python(function: str, **more: str) -> dict[str, str]:
    named = {"transforms": "p", "transforms.p.type": "headrace.transforms.Python", "transforms.p.function": function}
    return {**SOURCE, **named, **more}


@pytest.mark.parametrize("config", [SOURCE, SINK])
def test_an_offsets_topic_of_its_own(config: Mapping[str, str]) -> None:
    assert errors({**config, "offsets.storage.topic": "own"}) == {
        "offsets.storage.topic": [
            "Offsets topics of single connectors are not served by this version of Headrace. Remove "
            "offsets.storage.topic."
        ]
    }


@pytest.mark.parametrize("function", ["os:getcwd", "mineral:f", "theirs:f", "theirs.inner2:f"])
def test_a_module_that_the_worker_does_not_allow(function: str) -> None:
    ((key, (message,)),) = errors(python(function)).items()
    module = function.partition(":")[0]
    assert key == "transforms.p.function"
    assert message.startswith(f"This worker allows no functions of the module {module}. Its operator may allow them")


def test_a_module_that_the_worker_allows_is_not_loaded() -> None:
    for function in ("mine:f", "mine.inner:f", "theirs.inner:f"):
        assert errors(python(function)) == {}
    assert list(errors(python("no form"))) == ["transforms.p.function"], "the setting's own rule comes first"
    assert list(errors(python("mine:f", **{"transforms.p.metadata": "x"}))) == ["transforms.p.metadata"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT count(*) FROM records", "count"),
        ("SELECT id, MAX (amount) AS m FROM records", "MAX"),
        ("SELECT builtin.sum(id) FROM records", "sum"),
        ("SELECT id FROM records GROUP\n BY id", "GROUP BY"),
        ("SELECT 'it''s' || r'\\' || any(id) FROM records", "any"),
    ],
)
def test_an_aggregate(text: str, found: str) -> None:
    ((key, (message,)),) = errors(sql(text)).items()
    assert key == "transforms.s.sql"
    assert message.endswith(f"{found} is an aggregate, which needs more than one record")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT aggregate(tags, 0, (a, x) -> a + x), array_max(tags), count, max AS min FROM records",
        "SELECT 'count(x)', \"sum(x)\", `avg(x)` /* max(x) */ FROM records -- min(x)",
        "SELECT 'it\\'s max(x)', r'\\', 'min(x)' FROM records WHERE a LIKE  ANY ('x') AND b NOT ILIKE some('y')",
    ],
)
def test_no_aggregate(text: str) -> None:
    assert errors(sql(text)) == {}


def test_a_select_is_needed() -> None:
    assert list(errors(sql(""))) == ["transforms.s.sql"]


@pytest.mark.parametrize(("side", "interface"), [("key", "Converter"), ("header", "HeaderConverter")])
@pytest.mark.parametrize("plugin", ["FileStreamSink", "MirrorHeartbeatConnector"])
def test_a_class_that_is_no_converter(plugin: str, side: str, interface: str) -> None:
    config = {**SINK, "connector.class": plugin, f"{side}.converter": "RecordIsTombstone"}
    name = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"
    assert errors(config)[f"{side}.converter"] == [f"Class class {name} does not implement the {interface} interface"]
