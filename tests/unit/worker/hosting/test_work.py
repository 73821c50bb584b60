"""The work of a worker in a cluster: a start that fails is FAILED, and in the log once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.config.settings import Settings
from headrace.config.variables import NO_VARIABLES
from headrace.worker.hosting.connector import WorkerConnector
from headrace.worker.hosting.connectors import LocalConnectors
from headrace.worker.hosting.connectors_and_tasks import ConnectorsAndTasks
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.hosting.tasks import LocalTasks
from headrace.worker.hosting.work import LocalWork
from headrace.worker.model import State
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.statuses import MemoryStatusStore
from tests.unit.worker.herder.test_standalone import until
from tests.unit.worker.storage.config_records import record

SECONDS = 60


class Broken:
    """A connector that cannot start."""

    settings = Settings()
    version = "1"
    default_tasks_max = 1

    def start(self, config: Mapping[str, str], context: Any) -> None:
        raise ValueError("no such table")


class OnePlugin:
    """Knows Broken only."""

    variables = NO_VARIABLES
    worker: Mapping[str, Any] = {}

    def kind(self, connector_class: str) -> str | None:
        return "sink" if connector_class == "Broken" else None

    def connector(self, connector_class: str, version: str | None) -> type[Broken]:
        return Broken


class Case:
    """The work of a worker, its cluster with one connector, and its statuses."""

    def __init__(self, class_name: str) -> None:
        config = {"properties": {"name": "c", "connector.class": class_name}}
        self.cluster, _ = ClusterConfig().fold(record(("connector-c", config), 0))
        self.statuses, self.published = MemoryStatusStore(), list[str]()
        self.work = LocalWork(
            "host:8083",
            OnePlugin(),  # type: ignore[arg-type]
            self.statuses,
            LocalConnectors("host:8083", self.statuses, self.publish, StartupCounter()),
            LocalTasks("host:8083", None, self.statuses, None),  # type: ignore[arg-type]
            self.publish,
        )

    def failed(self) -> bool:
        status = self.statuses.get("c")
        return status is not None and status.state is State.FAILED and "Traceback" in (status.trace or "")

    def publish(self, name: str, instance: WorkerConnector) -> None:
        self.published.append(name)


@pytest.mark.parametrize(
    ("class_name", "said"),
    [
        ("Missing", "Connector c is of class Missing, which this worker does not have"),
        ("Broken", "ConnectError: no such table"),
    ],
)
def test_a_connector_that_cannot_start_is_failed_and_logged_once(
    class_name: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    case, one = Case(class_name), ConnectorsAndTasks.of(["c"])
    started = case.work.start_connector("c", case.cluster)
    assert said.removeprefix("ConnectError: ") in str(started.exception(SECONDS))
    assert caplog.records == []  # raised: the caller logs it, or answers with it
    assert case.failed()
    case.work.stop(one)
    case.work.start(one, case.cluster)
    until(case.failed)
    case.work.stop(one)  # the connector's thread has ended
    (line,) = caplog.records
    assert "starting connector c" in line.message
    assert said in line.message
    assert ("Traceback" in line.message) is (class_name == "Broken")
    assert case.published == []
