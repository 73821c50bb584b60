"""A Java host's output, seen from its worker, with a process of Python in the host's place."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from headrace.connectors.java import hosts, process
from headrace.plugins.interop.java_hosts import JAVA_HOSTS

HOST = """
import socket, sys, time
from headrace.connectors.java.wire import Wire
wire = Wire(socket.socket(fileno=int(sys.argv[1])))
opened, _ = wire.receive()
wire.send({"id": opened["id"], "result": None})
try:
    wire.receive()
except EOFError:
    time.sleep(0.2)
    print("the last words")
"""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> process.JavaHost:
    real = subprocess.Popen

    def started(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        return real([sys.executable, "-c", HOST, command[-1]], **how)

    monkeypatch.setattr(subprocess, "Popen", started)
    return process.JavaHost([], [])


def test_what_a_host_says_as_it_ends_is_in_the_log(host: process.JavaHost, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lost: list[bool] = []
    host.on_lost[1] = lambda: lost.append(True)
    host.end()
    assert [line.message for line in caplog.records if line.name == "headrace.java"] == ["the last words"]
    assert not lost, "it was not lost, but ended"


def test_what_plugins_print_goes_where_the_worker_says(
    host: process.JavaHost, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    printed: list[str] = []
    monkeypatch.setattr(JAVA_HOSTS, "printed", printed.append)
    host.end()
    assert printed == ["the last words"]
    assert not [line for line in caplog.records if line.name == "headrace.java"]


def test_the_worker_does_not_wait_for_a_host_that_starts(
    host: process.JavaHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "_hosts", [host])
    monkeypatch.setattr(JAVA_HOSTS, "running", hosts._running)
    with hosts._starting:
        JAVA_HOSTS.end()
    host._reader.join(0)
    assert not host._reader.is_alive()
