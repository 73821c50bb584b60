"""The name of a host that nothing resolves, for the driver's JVM."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.worker.engine import gateway, host_name
from headrace.worker.machine import nss_wrapper


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A library is installed, and not in use yet."""
    monkeypatch.setattr(nss_wrapper, "_FOLDERS", (tmp_path,))
    for name in ("LD_PRELOAD", "NSS_WRAPPER_HOSTNAME"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "libnss_wrapper.so"
    file.touch()
    return file


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing answers to a question for an address."""
    end = threading.Event()
    monkeypatch.setattr(host_name, "_LIMIT_S", 0.01)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: end.wait(60) and [])
    yield
    end.set()


def test_a_name_that_is_resolved_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert host_name.host_name() == {}


def test_a_name_that_nothing_resolves_is_replaced(monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "nameless.invalid")
    wanted = {"LD_PRELOAD": str(library), "NSS_WRAPPER_HOSTNAME": "localhost"}
    assert host_name.host_name() == wanted
    monkeypatch.setenv("LD_PRELOAD", f"{library} /other.so")  # for a user without a name
    assert host_name.host_name() == {**wanted, "LD_PRELOAD": f"{library} /other.so"}
    with gateway._environment(wanted):
        pass
    assert host_name.host_name()["LD_PRELOAD"] == f"{library} /other.so"
    library.unlink()
    monkeypatch.delenv("LD_PRELOAD")
    assert host_name.host_name() == {}


@pytest.mark.usefixtures("silent")
def test_a_question_without_an_answer_holds_nobody_up() -> None:
    assert host_name.host_name()["NSS_WRAPPER_HOSTNAME"] == "localhost"
