"""`PUT …/config/validate` answers what Apache 4.3.1 answered (recorded), entry for entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.config.connector.validation import plugin_config
from headrace.config.connector.validator import ConnectorValidator
from headrace.config.settings import ConfigError
from headrace.config.worker.config import WorkerConfig
from tests.compat import rest_steps
from tests.compat.advice import without_advice
from tests.compat.apache_plugins import ApachePlugins, recorded

CASES = recorded("validate.json")["cases"]
ENTRIES = recorded("validate.json")["entries"]
STEPS = recorded("rest.json")
WORKER = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
STANDALONE = WorkerConfig.standalone({**WORKER, "offset.storage.file.filename": "offsets"})
GROUP = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
DISTRIBUTED = WorkerConfig.distributed(
    {**WORKER, **GROUP, "group.id": "cluster", "exactly.once.source.support": "enabled"}
)

# The worker that was recorded had no number converters on its class path.
ALL = ApachePlugins()
RECORDED = ApachePlugins(
    [
        p.class_name
        for p in ALL.plugins
        if not any(n in p.class_name for n in ("mirror", "Double", "Float", "Integer", "Long", "Short"))
    ]
)

# Java's client parses what ours refuses in full.
OTHER_WORDS = {
    "interface": ("Class interface ", "Class class "),
}
REFUSED_EARLIER = {
    "password in unknown": "isolation.level=zz",
    "name trim": "blanks at the ends of the name",
}


def plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    definition = entry["definition"]
    text = json.dumps(
        {
            "definition": definition and {key: value for key, value in definition.items() if key != "documentation"},
            "value": entry["value"],
        }
    )
    for java, python in OTHER_WORDS.values():
        text = text.replace(json.dumps(java)[1:-1], python)
    return json.loads(without_advice(text))


def name(entry: Mapping[str, Any]) -> str:
    return entry["value"]["name"]


def is_hashed(entry: Mapping[str, Any]) -> bool:
    """True if Java's order is that of a hash map: within converters and overrides."""
    return ".override." in name(entry) or name(entry).count(".converter.") > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_answers_of_a_standalone_worker(case: dict[str, Any]) -> None:
    infos = ConnectorValidator(RECORDED, STANDALONE)(case["config"]).infos()
    theirs = [plain(ENTRIES[index]) for index in case["configs"]]
    ours = [plain(entry) for entry in infos["configs"]]
    if case["name"] in REFUSED_EARLIER:
        assert infos["error_count"] > case["error_count"]
        assert {name(entry) for entry in ours} == {name(entry) for entry in theirs}
        return
    assert [entry for entry in ours if not is_hashed(entry)] == [entry for entry in theirs if not is_hashed(entry)]
    assert sorted(ours, key=name) == sorted(theirs, key=name)
    assert infos["error_count"] == case["error_count"]
    assert infos["name"] == case["config"]["connector.class"]
    assert sorted(infos["groups"]) == sorted(case["groups"])
    hashed = {"Schemas", "Serialization"}
    assert [g for g in infos["groups"] if g not in hashed] == [g for g in case["groups"] if g not in hashed]


def answers(kind: str) -> list[Any]:
    return [pytest.param(step, id=step["name"]) for step in STEPS if kind in step["path"]]


@pytest.mark.parametrize("step", answers("/config/validate"))
def test_validate_as_recorded_over_rest(step: dict[str, Any]) -> None:
    body, expected = step["body"], step["expect"]["body"]
    if step["expect"]["status"] != 200:
        if body["connector.class"] == "Nope":
            with pytest.raises(ConfigError):
                ConnectorValidator(ALL, DISTRIBUTED, True)(body)
        return  # what is left is refused before validation, by the REST room
    infos = ConnectorValidator(ALL, DISTRIBUTED, True)(body).infos()
    for key in step.get("keep", ["name", "error_count", "groups"]):
        assert infos[key] == expected[key]
    if "keep" not in step:
        assert [plain(entry) for entry in infos["configs"]] == [plain(entry) for entry in expected["configs"]]


REFUSALS = [
    pytest.param(step, id=step["name"]) for step in STEPS if "invalid and contains" in str(step["expect"].get("body"))
]


@pytest.mark.parametrize("step", REFUSALS)
def test_refusal_of_a_connector_is_worded_as_recorded(step: dict[str, Any]) -> None:
    body = step["body"]
    if step["method"] == "POST":
        body = {"name": (body.get("name") or "").strip(), **body["config"]}
    else:
        body = {**body, "name": step["path"].split("/")[2]}
    refusal = ConnectorValidator(ALL, DISTRIBUTED, True)(body).refusal() or ""
    assert without_advice(refusal) == step["expect"]["body"]["message"]


def test_there_are_refusals_to_compare() -> None:
    assert len(REFUSALS) >= 13


ACCEPTED = [
    pytest.param(step, id=step["name"])
    for step in STEPS
    if step["method"] == "PUT"
    and step["path"].endswith("/config")
    and rest_steps.expected(step)["status"] in (200, 201)
]


@pytest.mark.parametrize("step", ACCEPTED)
def test_what_apache_accepts_is_accepted(step: dict[str, Any]) -> None:
    body = {**step["body"], "name": step["path"].split("/")[2]}
    assert ConnectorValidator(ALL, DISTRIBUTED, True)(body).refusal() is None


@pytest.mark.parametrize(
    "step", [s for s in STEPS if s["path"].startswith("/connector-plugins/org") and s["method"] == "GET"]
)
def test_plugin_config_as_recorded(step: dict[str, Any]) -> None:
    class_name = step["path"].split("/")[2]
    plugin = next(p for p in ALL.plugins if p.class_name == class_name)
    expected = [{k: v for k, v in row.items() if k != "documentation"} for row in step["expect"]["body"]]
    ours = [{k: v for k, v in row.items() if k != "documentation"} for row in plugin_config(plugin)]
    assert ours == expected


def test_a_sink_may_not_share_the_workers_group() -> None:
    sink = {"connector.class": "FileStreamSink", "topics": "t"}
    group = WorkerConfig.distributed({**WORKER, **GROUP, "group.id": "connect-x"})
    refusal = ConnectorValidator(ALL, group)({**sink, "name": "x"}).refusal()
    assert refusal is not None
    assert "Consumer group for sink connector named x conflicts with Connect worker group connect-x" in refusal
    own = {**sink, "name": "y", "consumer.override.group.id": "connect-x"}
    refusal = ConnectorValidator(ALL, group)(own).refusal()
    assert refusal is not None
    assert "Consumer group connect-x conflicts with Connect worker group connect-x" in refusal
    assert ConnectorValidator(ALL, group)({**sink, "name": "z"}).refusal() is None


def test_exactly_once_is_refused_where_the_worker_has_it_not() -> None:
    source = {"connector.class": "FileStreamSource", "name": "s", "topic": "t", "exactly.once.support": "required"}
    refusal = ConnectorValidator(ALL, DISTRIBUTED, False)({**source, "file": "f"}).refusal()
    assert refusal is not None
    assert "This worker does not have exactly-once source support enabled." in refusal
    refusal = ConnectorValidator(ALL, DISTRIBUTED, True)(source).refusal()
    assert refusal is not None
    assert "The connector does not support exactly-once semantics with the provided configuration." in refusal
    assert ConnectorValidator(ALL, DISTRIBUTED, True)({**source, "file": "f"}).refusal() is None


def test_overrides_that_load_code_or_that_the_policy_forbids_are_refused() -> None:
    sink = {"connector.class": "FileStreamSink", "name": "s", "topics": "t"}
    evil = {**sink, "consumer.override.interceptor.classes": "evil.Class"}
    problems = ConnectorValidator(ALL, STANDALONE)(evil).problems
    assert [problem.key for problem in problems] == ["consumer.override.interceptor.classes"]
    strict = WorkerConfig.standalone({**STANDALONE.originals, "connector.client.config.override.policy": "None"})
    refusal = ConnectorValidator(ALL, strict)({**sink, "consumer.override.max.poll.records": "1"}).refusal()
    assert refusal is not None
    assert (
        "The 'None' policy does not allow 'max.poll.records' to be overridden in the connector configuration."
        in refusal
    )


def test_a_config_without_class_is_refused_without_its_secrets() -> None:
    with pytest.raises(ConfigError) as caught:
        ConnectorValidator(ALL, STANDALONE)({"name": "x", "topic": "t", "db.password": "geheim"})
    message = caught.value.problems[0].message
    assert message == "Connector config {name=x, topic=t, db.password=[hidden]} contains no connector type"
