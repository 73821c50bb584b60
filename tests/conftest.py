"""Fixtures that every kind of test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.worker.kafka_broker import Broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses the broker is marked `kafka`."""
    for item in items:
        if "broker_process" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker of this test run, to `stop()`, `kill()` and `start()`; its port and data stay the same."""
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def broker(broker_process: Broker) -> str:
    """`bootstrap.servers` of a broker that runs, started again where an earlier test left it down."""
    if not broker_process.is_running:
        broker_process.start()
    return broker_process.bootstrap_servers
