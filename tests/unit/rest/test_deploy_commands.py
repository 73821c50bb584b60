"""`headrace apply`, `diff` and `export` against a worker."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headrace.worker.cli.commands import app
from tests.unit.rest.conftest import Worker
from tests.unit.rest.test_app import FILE


class Deployment:
    """A folder, and a worker to apply it to."""

    def __init__(self, worker: Worker, folder: Path) -> None:
        self.worker, self.folder = worker, folder

    def write(self, name: str, state: str | None = None, **config: str) -> None:
        body = {"name": name, "config": {**FILE, **config}, **({} if state is None else {"initial_state": state})}
        (self.folder / f"{name}.json").write_text(json.dumps(body))

    def run(self, command: str, *options: str, answer: str = "") -> Result:
        return CliRunner().invoke(
            app, [command, str(self.folder), "--rest", self.worker.url, *options], input=answer, env={"COLUMNS": "200"}
        )

    def names(self) -> list[str]:
        found: list[str] = self.worker.client.get("/connectors").json()
        return sorted(found)


@pytest.fixture
def deployment(workers: Callable[..., Worker], tmp_path: Path) -> Any:
    worker = workers()
    for name in worker.client.get("/connectors").json():
        worker.client.delete(f"/connectors/{name}")
    made = Deployment(worker, tmp_path / "files")
    made.folder.mkdir()
    yield made
    for name in made.names():
        worker.client.delete(f"/connectors/{name}")


def test_files_become_the_cluster_and_a_second_time_nothing_changes(deployment: Deployment) -> None:
    deployment.write("a")
    deployment.write("b", "PAUSED")
    planned = deployment.run("apply", "--plan", "--exit-code")
    assert (planned.exit_code, deployment.names()) == (1, [])
    assert "+ a: would be created" in planned.stdout
    assert "2 to create, 0 to update, 0 to delete" in planned.stdout
    refused = deployment.run("apply")
    assert (refused.exit_code, deployment.names()) == (2, [])
    assert "--yes" in refused.stderr
    applied = deployment.run("apply", "--yes")
    assert (applied.exit_code, deployment.names()) == (0, ["a", "b"]), applied.output
    assert deployment.worker.client.get("/connectors/b/status").json()["connector"]["state"] == "PAUSED"
    for command in (("apply", "--yes", "--exit-code"), ("diff", "--exit-code")):
        again = deployment.run(*command)
        assert (again.exit_code, again.stdout.strip()) == (0, "no difference"), again.output


def test_a_change_is_shown_without_secrets_and_made(deployment: Deployment) -> None:
    deployment.write("a", **{"consumer.override.sasl.password": "old-s3cret", "note": "x old-s3cret"})
    deployment.write("b")
    assert deployment.run("apply", "--yes").exit_code == 0
    deployment.write(
        "a", "STOPPED", **{"consumer.override.sasl.password": "new-s3cret", "note": "y", "batch.size": "7"}
    )
    (deployment.folder / "b.json").unlink()
    shown = deployment.run("diff")
    assert "~ a: differs" in shown.stdout
    assert "- b: has no file" in shown.stdout
    assert "    + batch.size = 7" in shown.stdout
    assert "    + state = STOPPED" in shown.stdout
    assert "s3cret" not in shown.output
    assert deployment.run("apply", "--yes").exit_code == 0
    assert deployment.names() == ["a", "b"]
    assert deployment.worker.client.get("/connectors/a/config").json()["batch.size"] == "7"
    assert deployment.worker.client.get("/connectors/a/status").json()["connector"]["state"] == "STOPPED"
    assert deployment.run("apply", "--yes", "--prune").exit_code == 0
    assert deployment.names() == ["a"]


def test_wrong_configs_are_all_told_and_nothing_is_changed(deployment: Deployment) -> None:
    deployment.write("a")
    deployment.write("b", **{"tasks.max": "x"})
    refused = deployment.run("apply", "--yes")
    assert (refused.exit_code, deployment.names()) == (2, [])
    assert f"{deployment.folder / 'b.json'}: tasks.max: " in refused.stderr


def test_an_empty_folder_deletes_nothing(deployment: Deployment) -> None:
    deployment.worker.client.put("/connectors/a/config", json=FILE).raise_for_status()
    refused = deployment.run("apply", "--yes", "--prune")
    assert (refused.exit_code, deployment.names()) == (2, ["a"])
    assert "has no file of a connector" in refused.stderr


def test_two_files_of_one_connector_are_refused(deployment: Deployment) -> None:
    deployment.write("a")
    (deployment.folder / "z.properties").write_text("name=a\n")
    refused = deployment.run("diff")
    assert refused.exit_code == 2
    assert "names, too" in refused.stderr


def test_what_was_exported_differs_in_nothing(deployment: Deployment) -> None:
    client = deployment.worker.client
    for path in ("a", "x%2Fy"):
        client.put(f"/connectors/{path}/config", json={**FILE, "note": "ü"}).raise_for_status()
    client.put("/connectors/a/pause").raise_for_status()
    assert deployment.run("export").exit_code == 0
    written = json.loads((deployment.folder / "a.json").read_text(encoding="utf-8"))
    assert written == {"name": "a", "config": {**FILE, "note": "ü"}, "initial_state": "PAUSED"}
    assert stat.S_IMODE((deployment.folder / "x%2Fy.json").stat().st_mode) == 0o600
    assert deployment.run("diff", "--exit-code").exit_code == 0


def test_secrets_that_the_worker_hides_stay_what_they_are(workers: Callable[..., Worker], tmp_path: Path) -> None:
    worker = workers(rest_mask_secrets="true")
    secret = {"consumer.override.sasl.password": "s3cret"}
    worker.client.put("/connectors/masked/config", json={**FILE, **secret}).raise_for_status()
    made = Deployment(worker, tmp_path)
    told = made.run("export")
    assert "consumer.override.sasl.password is hidden by the worker" in told.stdout
    written = (tmp_path / "masked.json").read_text()
    assert "[hidden]" not in written
    (tmp_path / "masked.json").write_text(written.replace('"topic": "t"', '"topic": "u"'))
    assert made.run("apply", "--yes").exit_code == 0
    config = worker.herder.connector_info("masked").config
    assert (config["topic"], config["consumer.override.sasl.password"]) == ("u", "s3cret")
    worker.client.delete("/connectors/masked")
    assert made.run("apply", "--yes").exit_code == 2


def test_no_worker_and_no_login_are_told(workers: Callable[..., Worker], tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("name=a\n")
    for options, code, text in (
        (("--rest", "http://127.0.0.1:1"), 3, "no worker answers at http://127.0.0.1:1"),
        (("--user", "nobody"), 2, "NAME:PASSWORD"),
        (("--cacert", str(tmp_path / "absent")), 2, "cannot be read"),
    ):
        failed = CliRunner().invoke(app, ["diff", str(tmp_path), *options])
        assert (failed.exit_code, text in failed.stderr) == (code, True), failed.output
