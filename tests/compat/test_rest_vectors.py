"""Every recorded REST call, against a running worker of each mode; the whole of `rest.json` in one go."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.compat import rest_steps
from tests.compat.rest_worker import RestWorker
from tests.integration.cluster_worker import ClusterWorker, new_cluster


def test_answers_as_recorded(rest_worker: RestWorker, tmp_path: Path) -> None:
    result = rest_steps.compare(rest_worker.url, rest_worker.mode, tmp_path)
    assert not result.different, str(result)
    assert len(result.passed) == len(rest_steps.steps()) >= 135
    for name in rest_worker.http.get("/connectors").json():
        rest_worker.http.delete(f"/connectors/{name}")


@pytest.mark.long
def test_a_follower_among_three_answers_as_recorded(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_LOG4J_ROOT_LOGLEVEL", "WARN")  # as the recorded one
    cluster = new_cluster()
    with contextlib.ExitStack() as stack:
        # The first leads; the others join when it is ready.
        workers = [ClusterWorker(tmp_path / f"w{number}", broker, cluster) for number in range(3)]
        stack.enter_context(workers[0])
        workers[0].wait_ready(120)
        for worker in workers[1:]:
            stack.enter_context(worker)
        for worker in workers[1:]:
            worker.wait_ready(120)
        follower = next(worker for worker in workers if not leads(worker))
        result = rest_steps.compare(follower.url, "distributed", tmp_path)
        assert not result.different, str(result)


def leads(worker: ClusterWorker) -> bool:
    """True if it decides what only the leader decides."""
    return worker.http.delete("/connectors/none?forward=false").status_code == 404
