"""Refusals of the registry before any Java is started."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from headrace.plugins.interop.jvm.jars import Java, Unavailable
from headrace.worker.cli import commands
from headrace.worker.embedded import registry_server
from headrace.worker.embedded.registry_server import Registry
from tests.held_ports import held_port


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that says why it cannot go on, and a program that is there."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'no such database'\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setattr(registry_server, "find_newer_java", lambda minimum, purpose: Java(java, 21))
    monkeypatch.setattr(registry_server, "unpacked", lambda: tmp_path / "home")


def noted(folder: Path, pid: int, created: float) -> None:
    (folder / "registry.json").write_text(json.dumps({"pid": pid, "created": created, "port": 1234}))


def test_one_that_ends_at_once_shows_what_it_said_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"(?s)ended with code 3 before it answered.*no such database.*--data-dir"):
        Registry(tmp_path).start()
    assert Registry.running_on(tmp_path) is None
    assert not (tmp_path / "registry.json").exists()


def test_a_taken_port_is_said_with_its_owner(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"port {port} is taken by .*pid {os.getpid()}.*--port"):
            Registry(tmp_path, port).start()


def test_a_folder_in_use_is_refused_and_told_by_the_command(tmp_path: Path) -> None:
    noted(tmp_path, os.getpid(), psutil.Process().create_time())
    with pytest.raises(Unavailable, match=rf"a registry \(pid {os.getpid()}, port 1234\) already runs on"):
        Registry(tmp_path).start()
    told = CliRunner().invoke(commands.app, ["registry", "start", "--data-dir", str(tmp_path)])
    assert told.exit_code == 0
    assert "already running" in told.output
    told = CliRunner().invoke(commands.app, ["registry", "start", "--data-dir", str(tmp_path), "--port", "1235"])
    assert told.exit_code == 2


def test_a_note_of_one_that_is_gone_is_not_believed(tmp_path: Path) -> None:
    noted(tmp_path, os.getpid(), 1.0)  # the number was given away again
    assert Registry.running_on(tmp_path) is None
    told = CliRunner().invoke(commands.app, ["registry", "status", "--data-dir", str(tmp_path)])
    assert told.exit_code == 1
    assert "`headrace registry start` gives one" in told.output
    told = CliRunner().invoke(commands.app, ["registry", "stop", "--data-dir", str(tmp_path)])
    assert (told.exit_code, "no registry runs" in told.output) == (0, True)


def test_without_a_java_that_is_new_enough_the_command_answers_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(minimum: int, purpose: str) -> Java:
        raise Unavailable(f"{purpose} needs Java {minimum}")

    monkeypatch.setattr(registry_server, "find_newer_java", none)
    port = str(held_port())
    told = CliRunner().invoke(commands.app, ["registry", "start", "--data-dir", str(tmp_path), "--port", port])
    assert told.exit_code == 3
    assert "needs Java 21" in told.output


def test_nothing_answers_where_nothing_runs() -> None:
    assert not registry_server.answers(held_port())
