"""SIGQUIT shows the stacks of all threads of a process, and ends nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from headrace.plugins.interop.catalyst import liveness
from headrace.plugins.interop.catalyst.liveness import report_liveness

CHILD = """
import sys, threading
from headrace.plugins.interop.catalyst.liveness import report_liveness, show_stacks_on_quit
{call}()
def waits_for_ever(): threading.Event().wait()
threading.Thread(target=waits_for_ever, daemon=True).start()
print("ready", flush=True)
print(sys.stdin.readline(), flush=True)
"""


def test_the_signal_is_registered_once_in_a_process_that_is_asked_with_each_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered: list[int] = []
    monkeypatch.delenv(liveness.FOLDER, raising=False)
    monkeypatch.setattr(liveness, "_handling", os.getppid())
    monkeypatch.setattr(liveness.faulthandler, "register", lambda number, **_: registered.append(number))
    for _ in range(3):
        report_liveness()
    assert registered == [signal.SIGQUIT]


@pytest.mark.parametrize("call", ["show_stacks_on_quit", "report_liveness"])
def test_all_threads_are_shown(call: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != liveness.FOLDER}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD.format(call=call)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGQUIT)
        shown = ""
        while "in <module>" not in shown:  # the thread that was asked comes last
            shown += child.stderr.readline() or pytest.fail(f"it ended: {shown}")
        assert "waits_for_ever" in shown
        answer, _ = child.communicate("and goes on\n", timeout=60)
        assert "and goes on" in answer
