"""Connect's client tools from PyPI, unchanged, against a worker that wants a login and gives rights."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.compat import client_tools
from tests.compat.test_rest_clients import asked, running
from tests.held_ports import held_port
from tests.integration.worker_process import eventually
from tests.unit.rest.conftest import Worker

pytestmark = pytest.mark.long

USERS: Final = "ann=ann-secret\nbob=bob-secret\n"
RIGHTS: Final = """
[[rules]]
who = ["user:ann"]
connectors = ["*"]
rights = ["edit", "operate"]

[[rules]]
who = ["user:bob"]
connectors = ["*"]
rights = ["view_config"]
"""
CONFIG: Final = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "clients"}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """A worker with one running connector, `lines`; ann may change it, bob may see it."""
    (tmp_path / "users").write_text(USERS)
    (tmp_path / "rights.toml").write_text(RIGHTS)
    files = {"rest.basic.auth.users.file": "users", "rest.rights.file": "rights.toml"}
    one = Worker({setting: str(tmp_path / name) for setting, name in files.items()})
    one.client.auth = ("ann", "ann-secret")
    one.client.put("/connectors/lines/config", json=CONFIG).raise_for_status()
    yield one
    one.stop()


def kc(worker: Worker, login: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(client_tools.programs("kafka-connect-py") / "kc"), "--url", worker.url, "--auth", login, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_kafka_connect_py(worker: Worker) -> None:
    made = kc(worker, "ann:ann-secret", "create", "-d", json.dumps({"name": "kc", "config": CONFIG}))
    assert made.returncode == 0, made.stderr
    assert json.loads(kc(worker, "bob:bob-secret", "list").stdout) == ["lines", "kc"]
    refused = kc(worker, "bob:bob-secret", "delete", "kc")
    assert "403" in refused.stdout + refused.stderr
    unknown = kc(worker, "bob:wrong", "list")
    assert "401" in unknown.stdout + unknown.stderr
    assert kc(worker, "ann:ann-secret", "delete", "kc").returncode == 0
    assert json.loads(kc(worker, "ann:ann-secret", "list").stdout) == ["lines"]


def test_kafka_connect_api(worker: Worker) -> None:
    script = """
        import sys
        from kafka_connect_api.kafka_connect_api import Api, Cluster
        from kafka_connect_api.errors import GenericForbidden, GenericUnauthorized
        url = sys.argv[1]
        ann = Cluster(Api(url=url, username="ann", password="ann-secret"))
        lines = ann.connectors["lines"]
        lines.config = {**lines.config, "topic": "other"}
        assert lines.config["topic"] == "other"
        bob = Cluster(Api(url=url, username="bob", password="bob-secret"))
        assert list(bob.connectors) == ["lines"]
        for user, password, refusal in (("bob", "bob-secret", GenericForbidden), ("bob", "wrong", GenericUnauthorized)):
            try:
                Api(url=url, username=user, password=password).put("/connectors/lines/pause")
            except refusal:
                pass
            else:
                raise AssertionError(f"{user} may pause with the password {password}")
    """
    client_tools.run("kafka-connect-api", "python", "-c", textwrap.dedent(script), worker.url)


def test_kafka_connect_cli(worker: Worker) -> None:
    """It has no option for a login, but takes one in the URL."""
    url = worker.url.replace("://", "://ann:ann-secret@")
    listed = client_tools.run("kafka-connect-cli", "kafka_connect", "connector", "list", "--url", url)
    assert [one["connector"] for one in json.loads(listed)] == ["lines"]


@pytest.mark.parametrize(("password", "status"), [("bob-secret", 200), ("wrong", 503)])
def test_kafka_connect_healthcheck(worker: Worker, password: str, status: int) -> None:
    port = held_port()
    where = ["--port", str(port), "--connect-url", worker.url, "--connect-worker-id", worker.url[len("http://") :]]
    with running("kafka-connect-healthcheck", "kafka-connect-healthcheck", *where, "--basic-auth", f"bob:{password}"):
        health = eventually(lambda: asked(port), 60)
    assert health.status_code == status


def test_kafka_connect_watcher(worker: Worker, tmp_path: Path) -> None:
    worker.client.put("/connectors/lines/pause").raise_for_status()
    rule = {"include_regex": [".*"], "auto_correct_actions": [{"action": "restart", "wait_for_status": "1s"}]}
    login = {"username": "ann", "password": "ann-secret"}
    cluster = {"hostname": "worker", "url": worker.url, "authentication": login, "evaluation_rules": [rule]}
    config = tmp_path / "watcher.json"
    config.write_text(json.dumps({"clusters": [cluster], "watch_interval": "2s"}))
    with running("kafka-connect-watcher", "kafka-connect-watcher", "-c", str(config)) as output:
        eventually(lambda: states(worker) == ["RUNNING"], 60, output.read_text)  # it resumes those that are paused


def states(worker: Worker) -> list[str]:
    status = worker.client.get("/connectors/lines/status").json()
    return [status["connector"]["state"]]
