"""Two workers of a cluster with Apache's login: its setting, and its JAAS file in KAFKA_OPTS."""

from __future__ import annotations

from pathlib import Path

import bcrypt
import httpx
import pytest

from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.worker_process import SOURCE, Topic, envelope, eventually

PACKAGE = "org.apache.kafka.connect.rest.basic.auth.extension"
NO_ACCESS = {"error_code": 401, "message": "User cannot access the resource."}


def test_a_cluster_under_apaches_login(broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users, jaas = tmp_path / "users.properties", tmp_path / "jaas.conf"
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()
    users.write_text(f"ann={hashed}\nplain=hunter2\n")
    jaas.write_text(f'KafkaConnect {{\n  {PACKAGE}.PropertyFileLoginModule required\n  file="{users}";\n}};\n')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")
    settings = {"rest.extension.classes": f"{PACKAGE}.BasicAuthSecurityRestExtension"}
    cluster, topic = new_cluster(), Topic(broker, "lines")
    (tmp_path / "in.txt").write_text("one\n")
    with (
        ClusterWorker(tmp_path / "w1", broker, cluster, settings) as first,
        ClusterWorker(tmp_path / "w2", broker, cluster, settings) as second,
    ):
        first.http.auth, second.http.auth = httpx.BasicAuth("ann", "secret"), httpx.BasicAuth("plain", "hunter2")
        first.wait_ready()
        second.wait_ready()
        for worker in (first, second):
            for path in ("/", "/health", "/connectors", "/admin/loggers"):
                answer = httpx.get(f"{worker.url}{path}", auth=("ann", "wrong"), timeout=30)
                assert (answer.status_code, answer.json()) == (401, NO_ACCESS)
        # The one that does not lead forwards the request with its login, and posts its tasks without one.
        for number, worker in enumerate((first, second)):
            file = str(tmp_path / "in.txt")
            worker.create(f"src{number}", connector_class=SOURCE, file=file, topic=topic.name, tasks_max="1")
        wait_balanced(first, among=2, items=4)
        eventually(lambda: topic.values() == [envelope("one")] * 2, 30)
        unsigned = [httpx.post(f"{one.url}/connectors/src0/tasks", json=[]) for one in (first, second)]
        assert [(one.status_code, one.json()["message"]) for one in unsigned] == [
            (400, "Internal request missing required signature")
        ] * 2

        users.write_text(f"ann={hashed}\nbob=new\n")
        eventually(lambda: first.http.get("/", auth=("bob", "new")).status_code == 200, 10)
        eventually(lambda: second.http.get("/").status_code == 401, 10)
        log = first.log() + second.log()
        assert "A login failed, from 127.0.0.1 for GET /: wrong password of user 'ann'" in log
        assert "KAFKA_OPTS" not in log
        assert "hunter2" not in log
