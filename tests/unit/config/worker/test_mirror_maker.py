"""MirrorMaker's file: its flows, and the refusals; `tests/compat/test_mirror_maker_config.py` has Apache beside it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.config.problems import ConfigError, Problem
from headrace.config.providers import EnvVarConfigProvider
from headrace.config.variables import Variables
from headrace.config.worker.mirror_maker import INTERNAL_REST, MirrorMakerConfig, plugin_path
from headrace.connectors.mirror.settings import CHECKPOINT, HEARTBEAT, SOURCE
from tests.certificates import Authority

KEYS = {setting.name for settings in (SOURCE, CHECKPOINT, HEARTBEAT) for setting in settings}
TWO = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}


def flows(props: Mapping[str, str], *targets: str) -> list[str]:
    return [str(flow) for flow in MirrorMakerConfig.of(props, KEYS, targets).flows]


def problems(props: Mapping[str, str], *targets: str) -> list[Problem]:
    with pytest.raises(ConfigError) as refused:
        MirrorMakerConfig.of(props, KEYS, targets)
    return refused.value.problems


def test_heartbeats_alone_make_both_flows_with_connectors_that_are_disabled() -> None:
    config = MirrorMakerConfig.of(TWO, KEYS)
    assert [str(flow) for flow in config.flows] == ["A->B", "B->A"]
    for flow in config.flows:
        assert list(flow.connectors) == [
            "MirrorSourceConnector",
            "MirrorHeartbeatConnector",
            "MirrorCheckpointConnector",
        ]
        assert {one["enabled"] for one in flow.connectors.values()} == {"false"}


def test_without_heartbeats_only_enabled_flows_are_there() -> None:
    quiet = {**TWO, "emit.heartbeats.enabled": "false"}
    assert flows({**quiet, "B->A.enabled": "True"}) == ["B->A"]
    assert flows({**quiet, "B->A.emit.heartbeats.enabled": "true"}) == ["B->A"]
    assert flows({**TWO, "B->A.emit.heartbeats.enabled": "false"}) == ["A->B"]


def test_targets_choose_the_clusters_to_write_to() -> None:
    three = {"clusters": "A,B,C", **{f"{alias}.bootstrap.servers": "x:1" for alias in "ABC"}}
    assert flows(three, "B") == ["A->B", "C->B"]
    assert flows(three, "B", "C") == ["A->B", "A->C", "B->C", "C->B"]


def test_an_unknown_target_is_refused_with_the_clusters_that_there_are() -> None:
    (problem,) = problems(TWO, "B", "D")
    assert (problem.key, problem.value) == ("--clusters", "D")
    assert "A, B" in problem.remedy


def test_a_file_without_flows_is_refused_in_apaches_words() -> None:
    (problem,) = problems({"clusters": "A", "A.bootstrap.servers": "a:1"})
    assert problem.message == "No source->target replication flows."
    assert "A->B.enabled=true" in problem.remedy
    (problem,) = problems({**TWO, "emit.heartbeats.enabled": "false", "A->B.enabled": "true"}, "A")
    assert "writes to A, which --clusters names" in problem.remedy


def test_every_cluster_of_a_flow_needs_servers() -> None:
    found = problems({"clusters": "A,B,C", "C.bootstrap.servers": "c:1", "A.bootstrap.servers": " "})
    assert [problem.key for problem in found] == ["A.bootstrap.servers", "B.bootstrap.servers"]
    assert all(problem.remedy for problem in found)
    assert flows({"clusters": "A,B", "bootstrap.servers": "x:1"}) == ["A->B", "B->A"]
    # A cluster without flow needs none.
    quiet = {"emit.heartbeats.enabled": "false", "A->B.enabled": "true"}
    assert flows({**TWO, **quiet, "clusters": "A,B,C"}) == ["A->B"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("clusters", ""),
        ("A->B.enabled", "yes"),
        ("A->B.emit.heartbeats.enabled", "1"),
        ("emit.heartbeats.enabled", "on"),
        ("dedicated.mode.enable.internal.rest", "maybe"),
        ("listeners", "somewhere"),
    ],
)
def test_a_bad_value_is_named_with_its_key(setting: str, value: str) -> None:
    (problem,) = problems({**TWO, setting: value})
    assert problem.key == setting
    assert problem.remedy


def test_clusters_must_be_given() -> None:
    (problem,) = problems({})
    assert problem.message == 'Missing required configuration "clusters" which has no default value.'


def test_variables_decide_which_flows_there_are_and_stay_in_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAG", "true")
    monkeypatch.setenv("LOGIN", "secret")
    provider = EnvVarConfigProvider()
    provider.configure(EnvVarConfigProvider.settings.parse({}))
    props = {
        **TWO,
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "emit.heartbeats.enabled": "false",
        "A->B.enabled": "${env:FLAG}",
        "A.sasl.jaas.config": "${env:LOGIN}",
    }
    (flow,) = MirrorMakerConfig.of(props, KEYS, variables=Variables({"env": provider})).flows
    config = flow.connectors["MirrorSourceConnector"]
    assert (flow.source, flow.target) == ("A", "B")
    assert config["enabled"] == "${env:FLAG}"
    assert config["source.cluster.sasl.jaas.config"] == "${env:LOGIN}"
    assert config["config.providers"] == flow.worker["config.providers"] == "env"
    assert "secret" not in repr(flow)


def test_the_process_listens_only_where_it_is_asked_to() -> None:
    assert MirrorMakerConfig.of(TWO, KEYS).listeners() == []
    (own,) = MirrorMakerConfig.of({**TWO, "listeners": "http://127.0.0.1:0"}, KEYS).listeners()
    assert str(own) == "http://127.0.0.1:0"
    reached = MirrorMakerConfig.of({**TWO, "dedicated.mode.enable.internal.rest": "true"}, KEYS)
    assert [str(listener) for listener in reached.listeners()] == ["http://:8083"]
    assert reached.internal_rest


def test_problems_of_a_worker_bear_the_keys_of_the_file() -> None:
    props = {**TWO, "B.offset.flush.interval.ms": "x", "task.shutdown.graceful.timeout.ms": "y"}
    flow = MirrorMakerConfig.of(props, KEYS).flows[0]

    def key(name: str) -> str:
        return flow.of_worker(Problem(name, None, ""), props).key

    assert key("offset.flush.interval.ms") == "B.offset.flush.interval.ms"
    assert key("task.shutdown.graceful.timeout.ms") == "task.shutdown.graceful.timeout.ms"
    assert key("session.timeout.ms") == "B.session.timeout.ms"


def test_problems_of_connectors_bear_the_keys_of_the_file() -> None:
    props = {**TWO, "A->B.topics": "(", "offset.lag.max": "x", "A.ssl.protocol": "y", "B.consumer.acks": "z"}
    props["security.protocol"] = "PLAINTEXT"
    flow = MirrorMakerConfig.of(props, KEYS).flows[0]

    def key(name: str) -> str:
        return flow.of_connector(Problem(name, None, ""), props).key

    assert key("topics") == "A->B.topics"
    assert key("offset.lag.max") == "offset.lag.max"
    assert key("groups") == "A->B.groups"
    assert key("source.cluster.ssl.protocol") == key("source.admin.ssl.protocol") == "A.ssl.protocol"
    assert key("target.consumer.acks") == "B.consumer.acks"
    assert key("target.producer.security.protocol") == "security.protocol"
    assert key("target.admin.request.timeout.ms") == "B.request.timeout.ms"
    assert key("source.cluster.alias") == "A->B.source.cluster.alias"


def test_keys_that_nobody_reads_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        MirrorMakerConfig.of({**TWO, "A->C.enabled": "true", "topic": "x", "tasks.max": "2", "spark.x": "1"}, KEYS)
    named = [record.args[0] for record in caplog.records if isinstance(record.args, tuple)]
    assert named == ["A->C.enabled", "topic"]


def test_plugins_are_looked_for_where_the_process_or_a_worker_names_folders() -> None:
    props = {**TWO, "plugin.path": "/p,/q", "B.plugin.path": "/q, /r", "C.plugin.path": "/s"}
    assert plugin_path(props) == ["/p", "/q", "/r"]


def test_processes_have_https_as_workers_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority()
    (tmp_path / "own.pem").write_text(authority.issue("mirror").pem)
    https = {**TWO, "listeners": "https://:8443", INTERNAL_REST: "true"}
    (problem,) = problems(https)
    assert problem.key == "ssl.keystore.location"
    config = MirrorMakerConfig.of({**https, "listeners.https.ssl.keystore.location": str(tmp_path / "own.pem")}, KEYS)
    assert config.listeners_tls() is not None
    assert config.workers_tls().current().cert_store_stats()["x509"] > 0
    assert caplog.text == ""
