"""The leader of a flow gives its connectors the configs of the process's file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.plugins.backoff import Backoff
from headrace.worker.errors import BadRequest, ConnectError, Elsewhere, NotFound
from headrace.worker.herder import kept_connectors
from headrace.worker.herder.kept_connectors import KeptConnectors
from headrace.worker.model import Config, ConnectorInfo
from tests.unit.worker.herder.test_standalone import until

CONFIGS = {"s": {"name": "s", "topics": "x"}, "h": {"name": "h"}}


class FakeHerder:
    """Connectors' configs in memory; `failures` are raised first."""

    def __init__(self, *failures: Exception) -> None:
        self.configs: dict[str, Config] = {}
        self.written: list[str] = []
        self.failures = list(failures)

    def connector_info(self, name: str) -> ConnectorInfo:
        if name not in self.configs:
            raise NotFound(name)
        return ConnectorInfo(name, self.configs[name], [], "source")

    def configure(self, name: str, config: Config) -> None:
        self.written.append(name)
        if self.failures:
            raise self.failures.pop(0)
        self.configs[name] = config


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_connectors, "_BACKOFF", Backoff(0.001, 0.001))


@pytest.fixture
def keeping() -> Iterator[Callable[..., KeptConnectors]]:
    made: list[KeptConnectors] = []

    def make(herder: Any, reachable: bool = True) -> KeptConnectors:
        made.append(KeptConnectors("A->B", CONFIGS, herder, reachable))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_the_leader_writes_what_differs_and_nothing_else(keeping: Callable[..., KeptConnectors]) -> None:
    herder = FakeHerder()
    herder.configs["s"] = {"name": "s", "topics": "old"}
    kept = keeping(herder)
    kept.take_role(True)
    until(lambda: herder.configs == CONFIGS)
    assert herder.written == ["s", "h"]
    herder.configs["h"] = {}
    kept.take_role(True)
    until(lambda: herder.configs == CONFIGS)
    assert herder.written == ["s", "h", "h"]


def test_what_could_not_be_written_is_tried_again(keeping: Callable[..., KeptConnectors]) -> None:
    herder = FakeHerder(ConnectError("no answer"), ConnectError("no answer"))
    keeping(herder).take_role(True)
    until(lambda: herder.configs == CONFIGS)
    assert herder.written == ["s", "s", "s", "h"]


@pytest.mark.parametrize("refusal", [BadRequest("topics is wrong"), Elsewhere("http://other/")])
def test_what_is_refused_or_another_leads_is_left(
    refusal: Exception, keeping: Callable[..., KeptConnectors], caplog: pytest.LogCaptureFixture
) -> None:
    herder = FakeHerder(refusal)
    with caplog.at_level(logging.INFO):
        keeping(herder).take_role(True)
        until(lambda: "h" in herder.configs)
    assert herder.written == ["s", "h"]
    assert ("topics is wrong" in caplog.text) is isinstance(refusal, BadRequest)


def test_a_follower_writes_nothing_and_says_what_does_not_work_where_nobody_reaches_it(
    keeping: Callable[..., KeptConnectors], caplog: pytest.LogCaptureFixture
) -> None:
    herder = FakeHerder()
    with caplog.at_level(logging.WARNING):
        keeping(herder).take_role(False)
        assert not caplog.text
        keeping(herder, reachable=False).take_role(False)
        assert "dedicated.mode.enable.internal.rest=true" in caplog.text
    assert herder.written == []


def test_it_ends_while_it_tries_again(monkeypatch: pytest.MonkeyPatch, keeping: Callable[..., KeptConnectors]) -> None:
    monkeypatch.setattr(kept_connectors, "_BACKOFF", Backoff(1000, 1000))
    tried = threading.Event()
    herder = FakeHerder(ConnectError("no answer"))
    configure = herder.configure

    def noted(name: str, config: Config) -> None:
        try:
            configure(name, config)
        finally:
            tried.set()

    herder.configure = noted  # type: ignore[method-assign]
    kept = keeping(herder)
    kept.take_role(True)
    assert tried.wait(60)
    kept.stop()
    until(lambda: not any(thread.name.startswith("mirror-connectors") for thread in threading.enumerate()))
    assert herder.written == ["s"]
