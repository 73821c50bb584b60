"""Checks of a task before its plugin starts: the hosts that its configs name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker import allowed_hosts
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS, AllowedHosts
from headrace.plugins.errors import RetriableError
from headrace.worker.pipeline import chain
from headrace.worker.tasks.builder import PipelineBuilder
from headrace.worker.tasks.host import OpenResources


def builder(connector: dict[str, str], task: dict[str, str], *patterns: str) -> PipelineBuilder:
    host: Any = SimpleNamespace(
        config=task,
        context=SimpleNamespace(worker={ALLOWED_HOSTS: patterns}),
        resources=OpenResources(),
        at_end=OpenResources(),
    )
    unused: Any = None
    return PipelineBuilder(unused, unused, unused, connector, host, unused, {}, unused)


def test_hosts_of_connector_and_task_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    overriding = {"producer.override.bootstrap.servers": "127.0.0.9:9092"}
    builder(overriding, {"connection.url": "jdbc:postgresql://127.0.0.1/x"}, "127.0.0.0/8").check_reach()
    with pytest.raises(ConfigError, match=r"127\.0\.0\.9"):
        builder(overriding, {}, "127.0.0.1").check_reach()
    with pytest.raises(ConfigError, match=r"10\.0\.0\.1"):
        builder({}, {"connection.url": "jdbc:postgresql://10.0.0.1/x"}, "127.0.0.1").check_reach()
    monkeypatch.setattr(allowed_hosts, "_resolved", lambda *_, **__: [])
    with pytest.raises(RetriableError, match="no address now"):
        builder({"some.url": "http://away/"}, {}, "127.0.0.1").check_reach()


def test_a_converter_of_the_workers_own_properties_may_reach_every_host() -> None:
    made = builder({"value.converter": "x"}, {}, "127.0.0.1")
    for side, host, allows in (("value", "10.0.0.1", False), ("key", "10.0.0.1", True), ("key", "169.254.0.1", True)):
        hosts = AllowedHosts.of(made._chain._settings_for(f"{side}.converter"))
        assert (hosts.problem("k", host) is None) is allows


def test_the_waits_of_a_java_stage_end_as_soon_as_its_task_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Stage:
        def start(self, *_: object) -> None:
            done.append("start")

        def end_waits(self) -> None:
            done.append("end_waits")

        def stop(self) -> None:
            done.append("stop")

    monkeypatch.setattr(chain, "running_stage", Stage)
    host: Any = SimpleNamespace(context=None, resources=OpenResources(), at_end=OpenResources())
    split: Any = SimpleNamespace(comes_back=True, java_stage=None)
    unused: Any = None
    PipelineBuilder(unused, unused, unused, {}, host, unused, {}, split)._chain.java_stage(is_source=False)
    host.resources.close()
    assert done == ["start", "end_waits"]
    host.at_end.close()
    assert done == ["start", "end_waits", "stop"]
