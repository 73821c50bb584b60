"""Secrets from where they are kept to the plugin, and nowhere else: no log, no status, no answer, no stored offset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.stranger_plugins import installed
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FROM_FILE, FROM_ENV, FROM_FOLDER = 'hunter2-"quoted"-\\back', "env-s3cret-value", "folder-s3cret-value"
PIN, LITERAL, WORKER_S = "p1n-literal-value", "pl41n-literal-value", "worker-s3cret-value"
SECRETS = (FROM_ENV, FROM_FOLDER, PIN, LITERAL, WORKER_S, "hunter2")


class Guarded(WorkerProcess):
    """A worker with the careless plugin and all of Apache's providers."""

    def config(self, fails: str) -> dict[str, str]:
        """Of a connector that fails in this place."""
        return {
            "connector.class": "org.example.GuardedConnector",
            "tasks.max": "1",
            "task.restart.enabled": "false",
            "password": f"${{file:{self.folder}/kept/p.properties:pw}}",
            "url": "db://me:${env:GUARDED_SECRET}@host/${folder:" + f"{self.folder}/kept:key}}",
            "pin": PIN,
            "api.token": LITERAL,
            "fails": fails,
            "seen": str(self.folder / f"seen-{fails}"),
        }


@pytest.fixture(scope="module")
def worker(broker_process: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "kept").mkdir()
    escaped = FROM_FILE.replace("\\", "\\\\")
    (folder / "kept" / "p.properties").write_text(f"pw={escaped}\nworker={WORKER_S}\n")
    (folder / "kept" / "key").write_text(FROM_FOLDER + "\n")
    module = Path(__file__).parent / "guarded_plugin.py"
    entries = {"source": {"org.example.GuardedConnector": "GuardedConnector"}}
    provider = "org.apache.kafka.common.config.provider."
    settings = {
        "plugin.path": str(installed(folder / "plugins", module, entries)),
        "config.providers": "file,folder,env",
        "config.providers.file.class": f"{provider}FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(folder / "kept"),
        "config.providers.folder.class": "DirectoryConfigProvider",
        "config.providers.env.class": f"{provider}EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "GUARDED_.*",
        "producer.ssl.key.password": f"${{file:{folder}/kept/p.properties:worker}}",
        "my.access.token": WORKER_S,
        "client.id": "${env:PATH}",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GUARDED_SECRET", FROM_ENV)
        made = Guarded(folder, broker_process.bootstrap_servers, settings=settings)  # type: ignore[attr-defined]
        with made:
            yield made.wait_ready()


def assert_kept(text: str) -> None:
    """None of the secrets is in it."""
    lines = [line[:300] for line in text.splitlines() if any(secret in line for secret in SECRETS)]
    assert not lines, lines


@pytest.mark.parametrize("fails", ["start", "plan", "here", "there"])
def test_a_task_gets_the_secret_and_its_failure_does_not_show_it(worker: Guarded, fails: str) -> None:
    config = {"name": fails, **worker.config(fails)}
    worker.request("POST", "/connectors", {"name": fails, "config": config})
    worker.wait_states(fails, "FAILED", within_s=90)
    given = json.loads((worker.folder / f"seen-{fails}").read_text())
    assert given["password"] == FROM_FILE
    assert given["login"] == f"me:{FROM_FILE}"
    assert given["url"] == f"db://me:{FROM_ENV}@host/{FROM_FOLDER}\n"

    assert worker.get(f"/connectors/{fails}/config") == config
    (task,) = worker.get(f"/connectors/{fails}/tasks")
    stored = {**config, "login": f"me:{config['password']}", "task.class": "org.example.GuardedTask"}
    assert task["config"] == stored
    trace = worker.trace(fails)
    assert "GuardedError" in trace
    assert "refused: " in trace
    assert_kept(trace)


def test_a_connector_that_fails_does_not_show_it_either(worker: Guarded) -> None:
    answer = worker.http.post("/connectors", json={"name": "c", "config": worker.config("connector")})
    assert_kept(answer.text)
    status = eventually(
        lambda: (found := worker.http.get("/connectors/c/status").json()).get("connector", {}).get("trace") and found,
        60,
    )
    assert "GuardedError" in status["connector"]["trace"]
    assert_kept(json.dumps(status))


@pytest.mark.parametrize("fails", ["valid", "validation"])
def test_no_validation_shows_it(worker: Guarded, fails: str) -> None:
    config = {**worker.config(fails), "name": "v", "size": f"${{folder:{worker.folder}/kept:key}}"}
    for answer in (
        worker.http.post("/connectors", json={"name": "v", "config": config}),
        worker.http.put("/connector-plugins/GuardedConnector/config/validate", json=config),
    ):
        text = answer.text
        for given in (PIN, LITERAL):  # what the requester wrote is answered, as in Connect
            text = text.replace(given, "") if answer.status_code == 200 else text
        assert_kept(text)


def test_a_file_that_is_not_allowed_is_not_read(worker: Guarded) -> None:
    (worker.folder / "outside").write_text("pw=not-for-you\n")
    config = {**worker.config("start"), "password": f"${{file:{worker.folder}/outside:pw}}", "seen": "/dev/null"}
    worker.request("POST", "/connectors", {"name": "outside", "config": config})
    worker.wait_states("outside", "FAILED")
    assert "not-for-you" not in worker.log() + worker.trace("outside")
    assert "is not allowed to be accessed" in worker.log()


def test_the_whole_log_of_it_all_shows_no_secret(worker: Guarded) -> None:
    assert worker.stop() == 0
    log = worker.log()
    assert log.count("GuardedError") > 4
    assert_kept(log)
    assert_kept(worker.offset_file.read_text(errors="replace") if worker.offset_file.exists() else "")
