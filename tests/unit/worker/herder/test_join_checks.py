"""Obstacles that keep a worker from joining a cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.config.connector.config import unserved
from headrace.config.problems import ConfigError, Problem
from headrace.config.providers import ConfigProvider, Provided
from headrace.config.variables import Variables
from headrace.config.worker.config import WorkerConfig
from headrace.worker.herder.join_checks import obstacles

WORKER = {
    "bootstrap.servers": "a:1",
    "key.converter": "Json",
    "value.converter": "Json",
    "group.id": "g",
    **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
}
USUAL = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
KNOWN = {
    "connector": ("Files",),
    "converter": ("Json",),
    "header_converter": ("Simple", USUAL),
    "transformation": ("Cast", "JavaOne"),
}
FILES = {"connector.class": "Files", "name": "f"}


class Installed:
    """Has what is KNOWN."""

    def find(self, kind: str, name: str) -> Any:
        if name not in KNOWN.get(kind, ()):
            raise ConfigError(Problem(kind, name, "unknown"))
        java = {"from_jar": name.startswith("Java"), "has_java_class": name.startswith("Java") or name == USUAL}
        loaded = SimpleNamespace(reads_headers=False)
        return SimpleNamespace(class_name=name, kind="source", load=lambda: loaded, **java)

    def of_kind(self, *kinds: str) -> list[Any]:
        return [self.find(kind, name) for kind in kinds for name in KNOWN.get(kind, ())]

    def full_name(self, name: str) -> str:
        return name

    def beside(self, _connector: Any) -> Installed:
        return self


class Vault(ConfigProvider):
    version = "1"

    def get(self, path: str, keys: Any) -> Provided:
        if path:
            raise OSError("sealed")
        return Provided({"class": "Files"})


def found(
    connectors: Mapping[str, Mapping[str, str | None]],
    fencing: Mapping[str, int] | None = None,
    settings: Mapping[str, str] | None = None,
    variables: Variables | None = None,
) -> list[Problem]:
    config = WorkerConfig.distributed({**WORKER, **(settings or {})}, variables or Variables({}))
    told = obstacles(connectors, fencing or {}, config, Installed())  # type: ignore[arg-type]
    assert bool(told) is bool(told.always + told.beside_others)
    return told.always + told.beside_others


def test_a_cluster_of_known_classes_is_no_obstacle() -> None:
    full = {
        **FILES,
        "key.converter": "Json",
        "header.converter": " Simple ",
        "value.converter": None,
        "transforms": "",
        "errors.deadletterqueue.topic.name": " ",
    }
    assert found({"a": FILES, "b": full}) == []


def test_each_unknown_class_is_told_with_the_connectors_that_need_it() -> None:
    problems = found(
        {
            "d": {"connector.class": "Jdbc", "value.converter": "Avro"},
            "a": {"connector.class": "Jdbc", "header.converter": "Json"},
            "ok": FILES,
            "none": {"connector.class": None},
        }
    )
    assert {(problem.key, problem.value): problem.message for problem in problems} == {
        ("connector.class", "Jdbc"): "No connector of this class is installed on this worker. "
        "Connectors that need it: a, d",
        ("value.converter", "Avro"): "No converter of this class is installed on this worker. "
        "Connectors that need it: d",
        ("header.converter", "Json"): "No header converter of this class is installed on this worker. "
        "Connectors that need it: a",
        ("connector.class", None): "No connector of this class is installed on this worker. "
        "Connectors that need it: none",
    }
    assert all("join.obstacles" in problem.remedy for problem in problems)


def test_what_is_not_served_yet_is_an_obstacle() -> None:
    own_topic = {**FILES, "offsets.storage.topic": "own"}
    (problem,) = found({"a": own_topic, "b": {**own_topic, "errors.deadletterqueue.topic.name": "d"}})
    assert problem.key == "offsets.storage.topic"
    assert problem.message == (
        "Offsets topics of single connectors are not served by this version of Headrace. Connectors that need it: a, b"
    )
    assert [problem.key for problem in unserved(own_topic)] == ["offsets.storage.topic"]
    assert unserved(FILES) == []


def test_classes_of_transforms_are_looked_up_once_they_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.config.connector.config.UNSERVED", {})
    config = {**FILES, "transforms": "t, u", "transforms.t.type": "Cast", "transforms.u.type": "Mask"}
    (problem,) = found({"a": {**config, "predicates": ""}})
    assert (problem.key, problem.value) == ("transforms.u.type", "Mask")


def test_providers_that_configs_name_must_be_here() -> None:
    config = {**FILES, "password": "${vault:p:k}${env:X}", "user": "${vault:u}", "topic": "${topic}"}
    problems = found({"a": config}, variables=Variables({"env": Vault()}))
    assert [(problem.key, problem.value) for problem in problems] == [("config.providers", "vault")]
    assert "Connectors that need it: a" in problems[0].message


def test_variables_are_resolved_before_classes_are_looked_up() -> None:
    variables = Variables({"v": Vault()})
    assert found({"a": {"connector.class": "${v:class}"}}, variables=variables) == []


def test_a_value_that_cannot_be_had_here_is_an_obstacle() -> None:
    (problem,) = found({"a": {**FILES, "password": "${v:p:k}"}}, variables=Variables({"v": Vault()}))
    assert (problem.key, problem.message) == ("password", "OSError: sealed Connectors that need it: a")


def test_sources_that_deliver_exactly_once_are_an_obstacle_while_they_exist() -> None:
    (problem,) = found({"a": FILES, "b": FILES}, {"a": 2, "gone": 1})
    assert problem.key == "exactly.once.source.support"
    assert "Connectors that need it: a" in problem.message
    assert found({"b": FILES}, {"gone": 1}) == []


@pytest.mark.parametrize("support", ["enabled", "PREPARING"])
def test_they_are_none_to_a_worker_that_delivers_exactly_once_or_soon_will(support: str) -> None:
    assert found({"a": FILES}, {"a": 2}, settings={"exactly.once.source.support": support}) == []


def test_a_worker_needs_its_own_converters() -> None:
    settings = {"value.converter": "Avro", "join.obstacles": "accept"}
    assert [(problem.key, problem.value) for problem in found({}, settings=settings)] == [("value.converter", "Avro")]


def test_what_is_accepted_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert found({"d": {"connector.class": "Jdbc"}}, {"d": 1}, {"join.obstacles": "accept"}) == []
    assert len(caplog.records) == 2
    assert "Jdbc" in caplog.text


def test_a_transform_that_java_lacks_among_javas_is_one() -> None:
    config = {**FILES, "transforms": "a,b,c"}
    config |= {
        f"transforms.{alias}.type": name for alias, name in zip("abc", ("JavaOne", "Cast", "JavaOne"), strict=True)
    }
    (problem,) = found({"f": config})
    assert (problem.key, problem.value) == ("transforms.b.type", "Cast")
    assert "Move b before a or after c in transforms." in problem.message
    assert not found({"f": {**config, "transforms": "b,a"}})


def test_what_a_worker_alone_may_leave_to_fail_is_told_from_what_it_may_not() -> None:
    settings = {**WORKER, "value.converter": "Avro"}
    config = WorkerConfig.distributed(settings, Variables({}))
    lost = {"a": {"connector.class": "Gone"}, "b": {**FILES, "tasks.max": "20000000"}}
    told = obstacles(lost, {"a": 2}, config, Installed())  # type: ignore[arg-type]
    assert [problem.key for problem in told.always] == ["value.converter", "exactly.once.source.support"]
    assert [problem.key for problem in told.beside_others] == ["connector.class", "tasks.max"]
