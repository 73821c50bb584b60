"""Workers of a cluster with a login: Apache's setting, and its JAAS file in KAFKA_OPTS; whatever they are asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import bcrypt
import httpx
import pytest
import schemathesis
from hypothesis import given

from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.test_openapi import ANN, ANSWER_SECONDS, CHECKS, FEW, KNOWN, WRONG, wants_login
from tests.integration.worker_process import SOURCE, Topic, envelope, eventually

pytestmark = pytest.mark.long

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
                answer = httpx.get(f"{worker.url}{path}", auth=("ann", "wrong"), timeout=60)
                assert (answer.status_code, answer.json()) == (401, NO_ACCESS)
        # The one that does not lead forwards the request with its login, and posts its tasks without one.
        for number, worker in enumerate((first, second)):
            file = str(tmp_path / "in.txt")
            worker.create(f"src{number}", connector_class=SOURCE, file=file, topic=topic.name, tasks_max="1")
        wait_balanced(first, among=2, items=4)
        eventually(lambda: topic.values() == [envelope("one")] * 2, 60)
        unsigned = [httpx.post(f"{one.url}/connectors/src0/tasks", json=[], timeout=60) for one in (first, second)]
        assert [(one.status_code, one.json()["message"]) for one in unsigned] == [
            (400, "Internal request missing required signature")
        ] * 2

        users.write_text(f"ann={hashed}\nbob=new\n")
        eventually(lambda: first.http.get("/", auth=("bob", "new")).status_code == 200, 60)
        eventually(lambda: second.http.get("/").status_code == 401, 60)
        log = first.log() + second.log()
        assert "A login failed, from 127.0.0.1 for GET /: wrong password of user 'ann'" in log
        assert "KAFKA_OPTS" not in log
        assert "hunter2" not in log


def test_no_endpoint_of_a_cluster_forgets_the_login_or_answers_500(broker: str, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann=secret\n")
    settings = {"rest.basic.auth.users.file": str(users)}
    with ClusterWorker(tmp_path / "w", broker, new_cluster(), settings) as worker:
        worker.http.auth = ANN
        worker.wait_ready()
        worker.http.put("/connectors/known/config", json=KNOWN).raise_for_status()
        url, right = f"{worker.url}/openapi.json", {"Authorization": ANN._auth_header}
        document = schemathesis.openapi.from_url(url, headers=right)
        operations = [found.ok() for found in document.get_all_operations() if found.ok().path != "/admin/drain"]
        assert len(operations) > 30

        for operation in operations:
            path = {"name": "known"} if any(one.name == "name" for one in operation.path_parameters) else None
            for login in (None, WRONG, ANN):
                FEW(given(case=operation.as_strategy(path_parameters=path))(_answers_to(login)))()
        assert worker.get("/health")["status"] == "healthy"


def _answers_to(login: httpx.BasicAuth | None) -> Callable[[schemathesis.Case], None]:
    headers = {} if login is None else {"Authorization": login._auth_header}

    def answered(case: schemathesis.Case) -> None:
        answer = case.call(headers=headers, timeout=ANSWER_SECONDS)
        case.validate_response(answer, checks=CHECKS)
        assert (answer.status_code == 401) == (login is not ANN and wants_login(case))

    return answered
