"""Spark's driver killed or hung, a Python worker hung: noticed within 10 s, tasks go on, nothing is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.faults.growing_file import Growing, last_in, line
from tests.integration.worker_process import (
    SINK,
    SOURCE,
    Topic,
    WorkerProcess,
    connector_file,
    envelope,
    eventually,
    first_arrivals,
    lines_of,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NOTICED_S = 60.0
"""10 s on a quiet machine."""


class Pipe:
    """A worker that moves a growing file through a topic into a file."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.topic = Topic(bootstrap, "engine")
        self.sink = folder / "sink.txt"
        self.file = folder / "lines.txt"
        source = connector_file(folder, "source", connector_class=SOURCE, file=str(self.file), topic=self.topic.name)
        sink = connector_file(folder, "sink", connector_class=SINK, file=str(self.sink), topics=self.topic.name)
        self.worker = WorkerProcess(folder, bootstrap, [source, sink])
        self.growing = Growing(self.file, 2000)

    def shown(self, state: str) -> Callable[[], bool]:
        return lambda: self.worker.states("source") == self.worker.states("sink") == [state]

    def moves(self) -> None:
        """Lines that are appended from now on arrive."""
        number = self.growing.count
        eventually(lambda: self.last() > number, 60, self.worker.log)

    def last(self) -> int:
        return last_in(self.sink)

    def assert_nothing_lost(self, expected: list[bytes]) -> None:
        eventually(lambda: self.last() == len(expected) - 1, 60, self.worker.log)
        values = self.topic.values()
        assert first_arrivals(values) == [envelope(each.decode()) for each in expected]
        assert first_arrivals([each for each in lines_of(self.sink) if len(each) == 100]) == expected


@pytest.fixture(scope="module")
def pipe(broker_process: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    made = Pipe(tmp_path_factory.mktemp("engine"), broker_process.bootstrap_servers)  # type: ignore[attr-defined]
    with made.worker:
        made.growing.start()
        eventually(made.shown("RUNNING"), 60, made.worker.log)
        made.moves()
        yield made
        made.growing.finish()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGSTOP, id="hung", marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, id="ended", marks=pytest.mark.long),
    ],
)
def test_a_lost_driver_is_replaced_and_the_tasks_go_on(pipe: Pipe, how: signal.Signals) -> None:
    pipe.moves()
    former = pipe.worker.jvm()
    former.send_signal(how)
    eventually(pipe.shown("RESTARTING"), NOTICED_S, pipe.worker.log)
    eventually(pipe.shown("RUNNING"), 60, pipe.worker.log)
    pipe.moves()
    assert pipe.worker.jvm().pid != former.pid
    assert not former.is_running()


def test_nothing_was_lost_so_far(pipe: Pipe) -> None:
    pipe.moves()
    pipe.assert_nothing_lost(pipe.growing.finish())


@pytest.mark.soak
@pytest.mark.parametrize("lines", [300_000, 1_000_000])
def test_a_hung_python_worker_is_replaced_and_its_batch_tried_again(pipe: Pipe, lines: int) -> None:
    """Large batches: the source's job and then the sink's."""
    pipe.growing.finish()  # alone in `make soak`, no test before it has
    hung: psutil.Process | None = None
    with open(pipe.file, "ab", buffering=0) as file:
        for _ in range(5):  # on a busy machine the jobs may be over before one of their workers is caught
            pipe.growing.append(file, lines)
            if (hung := stop_one(pipe.worker, 30)) is not None:
                break
    assert hung is not None, pipe.worker.log()
    expected = [line(number).encode() for number in range(pipe.growing.count)]
    eventually(lambda: not hung.is_running() or hung.status() == psutil.STATUS_ZOMBIE, NOTICED_S, pipe.worker.log)
    pipe.assert_nothing_lost(expected)


def stop_one(worker: WorkerProcess, within_s: float) -> psutil.Process | None:
    """A Python worker that is at work is stopped in its tracks; None if none was within the time."""
    seen: dict[int, psutil.Process] = {}
    until = time.monotonic() + within_s

    def busy() -> psutil.Process | None:
        for process in worker.python_workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                if seen.setdefault(process.pid, process).cpu_percent() > 20:  # since it was looked at last
                    return seen[process.pid]
        return None

    found: psutil.Process | bool = eventually(lambda: busy() or time.monotonic() > until, within_s + 60, every_s=0.05)
    if not isinstance(found, psutil.Process):
        return None
    os.kill(found.pid, signal.SIGSTOP)
    return found
