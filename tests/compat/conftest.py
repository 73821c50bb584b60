"""The worker that the tests of its REST API share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.worker.kafka_broker import Broker
from tests.compat.rest_worker import MODES, RestWorker, process


@pytest.fixture(scope="module", params=MODES)
def rest_worker(
    request: pytest.FixtureRequest, broker_process: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestWorker]:
    """A worker of each mode, ready; it logs from WARN on, as the recorded one did."""
    if not broker_process.is_running:
        broker_process.start()
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONNECT_LOG4J_ROOT_LOGLEVEL", "WARN")
        with process(request.param, folder, broker_process.bootstrap_servers) as worker:
            worker.wait_ready(120)
            one = RestWorker(worker.url, request.param)
            yield one
            one.http.close()
