"""A worker starts with what `headrace secure init` writes; users who have logged in ask it over https."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from headrace.worker.cli import secure_init
from headrace.worker.cli.secure_init import SecureSet
from headrace.worker.embedded.kafka_broker import Broker
from tests import short_jvms
from tests.held_ports import held_port
from tests.integration.worker_process import WorkerProcess, eventually, lines_of, properties

SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": "secure-lines"}


class SecureWorker(WorkerProcess):
    """A worker by the properties that were written, asked by admin."""

    command: ClassVar = "connect-distributed"

    def __init__(self, folder: Path, bootstrap: str) -> None:
        super().__init__(folder / "run", bootstrap)
        self.made: SecureSet = secure_init.write(folder / "secure", bootstrap, (), held_port(), held_port())
        self.worker_file = self.made.worker_file
        with open(self.worker_file, "a", encoding="utf-8") as file:
            file.write("\n" + properties(short_jvms.of_spark()))
        self.url = self.made.url
        self.admin_url = self.url.rpartition(":")[0] + f":{self._port('admin.listeners')}"
        self.http.close()
        self.http = self.client("admin")

    def client(self, user: str | None = None, certificate: bool = False) -> httpx.Client:
        """Asks with the login of this user, or with the client's certificate."""
        context = ssl.create_default_context(cafile=self.made.folder / "ca.pem")
        if certificate:
            context.load_cert_chain(self.made.folder / "client.pem")
        login = None if user is None else (user, self.made.passwords[user])
        return httpx.Client(base_url=self.url, verify=context, auth=login, timeout=60, trust_env=False)

    def _port(self, setting: str) -> str:
        lines = self.worker_file.read_text().splitlines()
        return next(line for line in lines if line.startswith(f"{setting}=")).rpartition(":")[2]


@pytest.fixture(scope="module")
def worker(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureWorker]:
    if not broker_process.is_running:
        broker_process.start()
    with SecureWorker(tmp_path_factory.mktemp("secure"), broker_process.bootstrap_servers) as worker:
        yield worker.wait_ready(90)


def test_a_connector_is_created_and_runs(worker: SecureWorker) -> None:
    source = worker.made.folder / "files" / "lines.txt"
    source.write_text("one\n")
    worker.create("secure", file=str(source), **{key.replace(".", "_"): value for key, value in SOURCE.items()})
    worker.wait_states("secure", "RUNNING")

    def offset() -> Any:
        return [one["offset"]["position"] for one in worker.offsets("secure")]

    eventually(lambda: offset() == [4], 60, lambda: str(worker.offsets("secure")))


def test_who_has_not_logged_in_is_told_nothing(worker: SecureWorker) -> None:
    with worker.client() as nobody:
        for path in ("/connectors", "/connectors/secure/config", "/health", "/metrics"):
            assert nobody.get(path).status_code == 401
        assert nobody.get("/connectors", auth=("admin", "wrong")).status_code == 401
    with httpx.Client(trust_env=False, timeout=60) as stranger, pytest.raises(httpx.ConnectError, match="certificate"):
        stranger.get(f"{worker.url}/connectors")
    with httpx.Client(trust_env=False, timeout=60) as plain, pytest.raises(httpx.HTTPError):
        plain.get(worker.url.replace("https", "http") + "/connectors")


def test_each_user_may_do_what_the_rules_give(worker: SecureWorker) -> None:
    with worker.client("viewer") as viewer, worker.client(certificate=True) as operator:
        assert viewer.get("/connectors").json() == ["secure"]
        assert viewer.get("/connectors/secure/config").status_code == 403
        assert viewer.put("/connectors/secure/config", json=SOURCE).status_code == 403
        assert viewer.put("/connectors/secure/pause").status_code == 403
        assert operator.get("/connectors/secure/config").json()["topic"] == "secure-lines"
        assert operator.delete("/connectors/secure").status_code == 403
        assert operator.put("/connectors/secure/pause").status_code == 202
        assert operator.put("/connectors/secure/resume").status_code == 202


def test_admin_answers_on_its_own_listener(worker: SecureWorker) -> None:
    with worker.client("viewer") as viewer, worker.client("admin") as admin:
        assert admin.get("/admin/loggers").status_code == 404
        assert admin.get(f"{worker.admin_url}/admin/loggers").status_code == 200
        assert viewer.get(f"{worker.admin_url}/admin/loggers").status_code == 403


def test_connectors_reach_this_machine_and_the_folder_for_files_only(worker: SecureWorker) -> None:
    outside = {**SOURCE, "file": "/etc/hostname", "producer.override.bootstrap.servers": "203.0.113.9:9092"}
    answer = worker.http.put("/connector-plugins/FileStreamSource/config/validate", json={"name": "no", **outside})
    errors = {one["value"]["name"]: one["value"]["errors"] for one in answer.json()["configs"]}
    policy, host = errors["producer.override.bootstrap.servers"]
    assert policy.startswith("The 'Principal' policy does not allow")
    assert "connector.allowed.hosts" in host
    answer = worker.http.post("/connectors", json={"name": "no", "config": outside})
    assert answer.status_code == 400
    assert "203.0.113.9" in answer.text


def test_changes_are_in_the_audit_log(worker: SecureWorker) -> None:
    told = [json.loads(line) for line in lines_of(worker.made.folder / "audit.log")]
    assert ("admin", "POST", 201) in [(one["who"], one["method"], one["status"]) for one in told]
    assert ("operator", "PUT", 202) in [(one["who"], one["method"], one["status"]) for one in told]
    assert ("viewer", "PUT", 403) in [(one["who"], one["method"], one["status"]) for one in told]
    log = worker.log()
    for password in worker.made.passwords.values():
        assert password not in log
        assert password not in str(told)
