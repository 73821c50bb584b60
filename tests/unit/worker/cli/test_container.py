"""`headrace worker` and `headrace health`: what a container runs."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.config.properties import read_properties
from headrace.worker.cli import commands, running_workers
from headrace.worker.cli.running_workers import RunningWorker
from tests.certificates import Authority
from tests.unit.converters.registry.scripted_registry import scripted


class Became(Exception):
    """The process was replaced by this command, with these properties."""

    def __init__(self, command: str, file: Path, connectors: list[str]) -> None:
        super().__init__(command)
        self.command = Path(command).name
        self.properties = read_properties(file)
        self.mode = stat.S_IMODE(os.stat(file.parent).st_mode)
        self.connectors = connectors


@pytest.fixture(autouse=True)
def replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No process is replaced, and what it would read lies in the test's folder."""

    def execv(_: Path, arguments: list[str]) -> None:
        command, file, *connectors = arguments
        raise Became(command, Path(file), connectors)

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def became(*arguments: str) -> Became:
    """Return what the command became."""
    found = CliRunner().invoke(commands.app, ["worker", *arguments]).exception
    assert isinstance(found, Became)
    return found


def test_a_worker_starts_with_the_properties_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = tmp_path / "base.properties"
    base.write_text("group.id=file\nspark.executor.memoryOverhead=1g\n")
    monkeypatch.setenv("CONNECT_GROUP_ID", "environment")
    monkeypatch.setenv("CONNECT_SASL_JAAS_CONFIG", 'a "b";\n#=ü')
    found = became("distributed", "--properties", str(base))
    assert found.command == "connect-distributed"
    assert found.properties == {
        "group.id": "environment",
        "spark.executor.memoryOverhead": "1g",
        "sasl.jaas.config": 'a "b";\n#=ü',
    }
    assert found.mode == 0o700


def test_a_standalone_worker_takes_connectors() -> None:
    found = became("standalone", "a.properties", "b.json")
    assert (found.command, found.connectors) == ("connect-standalone", ["a.properties", "b.json"])


@pytest.mark.parametrize("arguments", [["both"], ["distributed", "a.properties"], []])
def test_wrong_use(arguments: list[str]) -> None:
    assert CliRunner().invoke(commands.app, ["worker", *arguments]).exit_code == 2


def test_a_base_that_cannot_be_read() -> None:
    result = CliRunner().invoke(commands.app, ["worker", "distributed", "--properties", "/no/such/file"])
    assert result.exit_code == 2
    assert "/no/such/file" in result.output


def test_health_is_asked_where_the_worker_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    asked: list[str] = []

    def get(url: str, **_: Any) -> httpx.Response:
        asked.append(url)
        return httpx.Response(200 if len(asked) == 1 else 503, text="said")

    monkeypatch.setattr(httpx, "get", get)
    monkeypatch.setenv("CONNECT_LISTENERS", "http://:1234")
    results = [CliRunner().invoke(commands.app, ["health"]) for _ in range(2)]
    assert [one.exit_code for one in results] == [0, 1]
    assert {one.stderr for one in results} == {"http://127.0.0.1:1234/health\n"}
    assert asked == ["http://127.0.0.1:1234/health"] * 2


def test_health_is_asked_by_https_with_the_worker_s_own_certificate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = Authority()
    (tmp_path / "own.pem").write_text(authority.issue("worker", ["worker.example"]).pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem)
    context.load_cert_chain(tmp_path / "own.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with scripted((200, {"status": "healthy"}), context=context) as played:
        monkeypatch.setenv("CONNECT_LISTENERS", played.url)
        monkeypatch.setenv("CONNECT_SSL_KEYSTORE_LOCATION", str(tmp_path / "own.pem"))
        result = CliRunner().invoke(commands.app, ["health"])
    assert result.exit_code == 0, result.output
    assert "healthy" in result.output


def test_a_worker_that_asks_for_a_login_is_not_restarted_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    monkeypatch.setattr(httpx, "get", lambda url, **_: httpx.Response(401, text="no"))
    result = CliRunner().invoke(commands.app, ["health"])
    assert result.exit_code == 0
    assert "rest.login.open.paths=/health" in result.output


def test_a_worker_that_does_not_answer_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_LISTENERS", "http://127.0.0.1:1")
    assert CliRunner().invoke(commands.app, ["health"]).exit_code == 1


def test_health_asks_the_workers_that_run_by_their_own_properties(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters=a,b\n")
    running = [RunningWorker("connect-mirror-maker", file)]
    monkeypatch.setattr("headrace.worker.cli.running_workers.running_workers", lambda: running)
    done = CliRunner().invoke(commands.app, ["health", "--running"])
    assert done.exit_code == 0, done.output
    with scripted((200, {"status": "healthy"})) as server:
        file.write_text(f"listeners={server.url}\n")
        done = CliRunner().invoke(commands.app, ["health", "--running"])
        assert done.exit_code == 0, done.output
        assert f"{server.url}/health" in done.stderr
    assert CliRunner().invoke(commands.app, ["health", "--running"]).exit_code == 1
    running.clear()
    done = CliRunner().invoke(commands.app, ["health", "--running"])
    assert done.exit_code == 1
    assert "no worker runs here" in done.output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["/v/bin/python", "/v/bin/connect-standalone", "w.properties", "c"], ("connect-standalone", "w.properties")),
        (["python3", "-m", "headrace.rest.commands", "connect-mirror-maker", "m"], ("connect-mirror-maker", "m")),
        (["tini", "--", "connect-mirror-maker", "m"], None),
        (["python3", "/v/bin/connect-distributed"], None),
        (["python3", "-c", "pass"], None),
        ([], None),
    ],
)
def test_workers_are_known_by_their_command(arguments: list[str], named: tuple[str, str] | None) -> None:
    assert running_workers._named(arguments) == named
