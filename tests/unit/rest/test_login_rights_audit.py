"""Login, rights and audit together: a change is judged on both workers, and written once, where it was asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from headrace.config.worker.config import WorkerConfig
from headrace.rest.app import app
from headrace.rest.security.auth_layer import AuthLayer
from headrace.rest.server import HttpServer
from headrace.worker.errors import Elsewhere
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.model import ConnectorInfo
from headrace.worker.storage.signing import SessionKey
from headrace.worker.tasks.metrics import TasksMetrics
from tests.unit.rest.conftest import SETTINGS
from tests.unit.rest.scripted import FREE, scripted
from tests.unit.rest.test_app import until
from tests.unit.rest.test_audit import OLD
from tests.unit.rest.test_rights import rights_file

KEY = SessionKey.generate()


def serve(herder: Any, folder: Path, log: str, client: RestClient) -> HttpServer:
    type(herder).session_key = property(lambda _: KEY)
    own = {
        "rest.basic.auth.users.file": str(folder / "users.properties"),
        "rest.rights.file": str(folder / "rights.toml"),
        "rest.audit.log": "json",
        "rest.audit.log.file": str(folder / log),
    }
    config = WorkerConfig.standalone({**SETTINGS, **own})
    server = HttpServer([FREE])
    metrics = WorkerMetrics(herder, "here:8083", TasksMetrics(), StartupCounter())
    server.start(app(herder, metrics, config.values, client, AuthLayer.of(config.values, config.originals, {})))
    return server


def test_a_change_is_written_by_each_worker_with_who_asked_for_it(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("anna=pw1\nben=pw2\n")
    users.chmod(0o600)
    rights_file(tmp_path, ("user:anna", "c", "edit"))
    info = ConnectorInfo("c", OLD, [], "sink")

    def lines(log: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (tmp_path / log).read_text().splitlines()]

    with RestClient(answer_seconds=5) as client:
        leader = serve(scripted({"connector_info": info, "configure": (False, info)}), tmp_path, "leader.log", client)
        elsewhere = Elsewhere(f"{leader.bound[0]}/")
        asked = serve(scripted({"connector_info": info, "configure": elsewhere}), tmp_path, "asked.log", client)
        try:
            logins = [None, ("anna", "wrong"), ("ben", "pw2"), ("anna", "pw1")]
            url = f"{asked.bound[0]}/connectors/c/config"
            answers = [httpx.put(url, json={**OLD, "topic": "t"}, auth=login, timeout=60) for login in logins]
            assert [answer.status_code for answer in answers] == [401, 401, 403, 200]
            until(lambda: len(lines("asked.log")) == 4)
            assert [line["who"] for line in lines("asked.log")] == ["ANONYMOUS", "ANONYMOUS", "ben", "anna"]
            assert lines("asked.log")[3]["changed"] == {"topic": {"from": "orders", "to": "t"}}
            until(lambda: len(lines("leader.log")) == 1)
            assert lines("leader.log")[0]["who"] == "anna"
        finally:
            asked.stop()
            leader.stop()
