"""Children end with their owner, in order, and a second Ctrl-C ends everything at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from headrace.worker.machine import processes

IGNORES_TERM = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
WAITS = "import time; print('up', flush=True); time.sleep(60)"


def eventually(condition: Callable[[], bool], within_s: float = 60) -> None:
    import time

    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def spawn(code: str, folder: Path, name: str = "out") -> subprocess.Popen[bytes]:
    started = processes.spawn([sys.executable, "-c", code], output=folder / name, cwd=folder)
    eventually(lambda: (folder / name).read_bytes().startswith(b"up"))
    return started


def test_a_child_that_ends_on_sigterm_is_stopped(tmp_path: Path) -> None:
    process = spawn(WAITS, tmp_path)
    assert processes.stop(process, timeout_s=60)
    assert process.returncode == -signal.SIGTERM
    assert processes.stop(process, timeout_s=0)


def test_a_child_that_does_not_end_is_killed(tmp_path: Path) -> None:
    process = spawn(IGNORES_TERM, tmp_path)
    assert not processes.stop(process, timeout_s=0.2)
    assert process.returncode == -signal.SIGKILL


OWNER = """
import sys
from pathlib import Path
from headrace.worker.machine import processes
with processes.interrupts():
    process = processes.spawn([sys.executable, "-c", {code!r}], output=Path("out"), cwd=Path.cwd())
    print(process.pid, flush=True)
    try:
        process.wait()
    except processes.Interrupted as stop:
        print("first", stop.signum, flush=True)
        processes.stop(process, 60)
        print("clean", flush=True)
"""


def owner(code: str, folder: Path) -> tuple[subprocess.Popen[str], psutil.Process]:
    started = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(code=code)], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    grandchild = psutil.Process(int(started.stdout.readline()))
    eventually(lambda: (folder / "out").exists() and (folder / "out").read_bytes().startswith(b"up"))
    return started, grandchild


def test_the_first_signal_ends_cleanly(tmp_path: Path) -> None:
    started, grandchild = owner(WAITS, tmp_path)
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=60)
    assert out.split("\n")[:2] == ["first 2", "clean"]
    assert not grandchild.is_running()


def test_the_second_signal_kills_and_exits_with_128_and_the_signal(tmp_path: Path) -> None:
    started, grandchild = owner(IGNORES_TERM, tmp_path)
    started.send_signal(signal.SIGINT)
    assert started.stdout is not None
    assert started.stdout.readline() == "first 2\n"
    started.send_signal(signal.SIGINT)
    assert started.wait(60) == 128 + signal.SIGINT
    assert not grandchild.is_running()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children that their parent has died")
def test_a_child_does_not_outlive_an_owner_that_was_killed(tmp_path: Path) -> None:
    started, grandchild = owner(WAITS, tmp_path)
    os.kill(started.pid, signal.SIGKILL)
    started.communicate(timeout=60)
    eventually(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not processes.is_free(port)
        assert processes.free_port(port) > port
    assert processes.is_free(port)
