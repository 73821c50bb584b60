"""The flows of a process: each begins by itself, again after a failure, and none holds up the others' end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.mirror_maker import Flow
from headrace.plugins.backoff import Backoff
from headrace.plugins.stopping import StopToken
from headrace.worker.errors import ConnectError
from headrace.worker.herder.flows import Flows
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.model import Health
from headrace.worker.process import mirror
from headrace.worker.process.mirror import FlowRun, MirrorSetup

SECONDS = 60
FLOW = Flow("A", "B", {}, {})


class FakeHerder:
    def health(self) -> Health:
        return Health("healthy", "fine")


class FakeWorker:
    """Fails to start, or waits until it may."""

    def __init__(self, failure: Exception | None = None, waits: Callable[[], object] = lambda: None) -> None:
        self.herder = FakeHerder()
        self.failure, self.waits = failure, waits
        self.started, self.stopped = threading.Event(), threading.Event()

    def start(self) -> None:
        self.waits()
        if self.failure is not None:
            raise self.failure
        self.started.set()

    def stop(self) -> None:
        self.stopped.set()


def run_of(workers: list[Any], flows: Flows, stopping: StopToken) -> FlowRun:
    left = iter(workers)
    return FlowRun(FLOW, lambda: next(left), flows, stopping)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_BACKOFF", Backoff(0.001, 0.001))


@pytest.mark.parametrize(
    "failure",
    [ConnectError("topic of other policy"), ConfigError(Problem("k", None, "wrong")), RuntimeError("unexpected")],
)
def test_a_flow_that_cannot_begin_is_made_again(failure: Exception) -> None:
    flows = Flows(ProcessMetrics())
    bad, good = FakeWorker(failure), FakeWorker()
    run = run_of([bad, good], flows, StopToken())
    assert flows.health()["A->B"].status == "starting"
    run.start()
    assert good.started.wait(SECONDS)
    assert bad.stopped.is_set()
    assert run.worker is good
    run.stop()
    assert good.stopped.is_set()
    assert flows.health()["A->B"].status == "healthy"


def test_a_flow_that_still_waits_ends_with_the_process() -> None:
    stopping, entered = StopToken(), threading.Event()

    def wait() -> None:
        entered.set()
        stopping.wait(SECONDS)

    worker = FakeWorker(waits=wait)
    flows = Flows(ProcessMetrics())
    run = run_of([worker], flows, stopping)
    run.start()
    assert entered.wait(SECONDS)
    assert "waits for Kafka cluster B" in flows.health()["A->B"].message
    stopping.set()
    run.stop()
    assert worker.stopped.is_set()


def test_a_failure_is_shown_until_the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_BACKOFF", Backoff(SECONDS * 10, SECONDS * 10))
    stopping, failed = StopToken(), threading.Event()
    flows = Flows(ProcessMetrics())
    worker = FakeWorker(ConnectError("no such replication factor"))
    run = run_of([worker], flows, stopping)
    show = flows.show
    monkeypatch.setattr(flows, "show", lambda *given: (show(*given), failed.set()))
    run.start()
    assert failed.wait(SECONDS)
    assert "no such replication factor" in flows.health()["A->B"].message
    stopping.set()
    run.stop()
    assert worker.stopped.is_set()


def test_a_flow_is_copied_at_least_once_as_its_warning_says(caplog: pytest.LogCaptureFixture) -> None:
    clusters = {f"{alias}.bootstrap.servers": "127.0.0.1:1" for alias in "AB"}
    asked = {"clusters": "A,B", "A->B.enabled": "true", "B.exactly.once.source.support": "enabled"}
    worker = MirrorSetup.of({**clusters, **asked}).workers["A->B"]
    assert worker.exactly_once == "disabled"
    assert "A->B is copied at least once" in caplog.text
