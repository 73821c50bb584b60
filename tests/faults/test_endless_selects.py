"""SELECTs that do not end fail their own tasks; the pipe of another goes on, and no thread or place is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.worker.engine.given_up import MOST
from headrace.worker.pipeline.placement import JOB_ROWS
from tests.faults.growing_file import Growing, last_in
from tests.integration.worker_process import SINK, SOURCE, Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

LINE = "a" * 200
NESTED = (
    "SELECT aggregate(sequence(1, 60000), 0L, (a, x) -> a + aggregate(sequence(1, 60000 + length(value)), 0L, "
    "(b, y) -> b + y)) AS v FROM records WHERE value <> '{name}'"
)
BACKTRACKING = "SELECT value RLIKE '^a*a*a*a*a*a*a*a*c' AS v FROM records WHERE value <> '{name}'"
SELECTS = {f"endless-{number}": BACKTRACKING if number == 1 else NESTED for number in range(MOST + 1)}


class Pipe:
    """A worker that moves a growing file through a topic into a file, and has connectors of an attacker."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.topic, self.attacked = Topic(bootstrap, "victim"), Topic(bootstrap, "endless")
        self.folder, self.sink, file = folder, folder / "sink.txt", folder / "lines.txt"
        source = connector_file(folder, "source", connector_class=SOURCE, file=str(file), topic=self.topic.name)
        sink = connector_file(folder, "sink", connector_class=SINK, file=str(self.sink), topics=self.topic.name)
        self.worker = WorkerProcess(folder, bootstrap, [source, sink], {"batch.transform.timeout.ms": "15000"})
        self.growing = Growing(file, 200)

    def moves(self, within_s: float = 60) -> None:
        """Lines that are appended from now on arrive."""
        number = self.growing.count
        eventually(lambda: last_in(self.sink) > number, within_s, self.worker.log)

    def moves_at_once(self, lines: int) -> None:
        """So many lines are appended at once, and nothing after them; all arrive."""
        self.growing.finish()
        with open(self.growing.path, "ab", buffering=0) as file:
            self.growing.append(file, lines)
        eventually(lambda: last_in(self.sink) == self.growing.count - 1, 120, self.worker.log)

    def attack(self, name: str, select: str, lines: int = 1) -> None:
        """A connector that computes this of each of so many lines."""
        file = self.folder / f"{name}.txt"
        file.write_text(f"{LINE}\n" * lines)
        self.worker.create(
            name,
            connector_class=SOURCE,
            file=str(file),
            topic=self.attacked.name,
            transforms="x",
            transforms_x_type="headrace.transforms.Sql",
            transforms_x_sql=select.format(name=name),
        )

    def assert_failed_alone(self, name: str) -> None:
        """This connector fails with its transform's name, and nobody else is blamed."""
        self.worker.wait_states(name, "FAILED", within_s=240)
        assert "did not get through transforms.x (headrace.transforms.Sql)" in self.worker.trace(name)
        health = self.worker.http.get("/health").text
        assert '"source' not in health, health
        assert '"sink' not in health, health


@pytest.fixture(scope="module")
def pipe(broker_process: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    made = Pipe(tmp_path_factory.mktemp("pipe"), broker_process.bootstrap_servers)  # type: ignore[attr-defined]
    with made.worker:
        made.growing.start()
        made.moves(within_s=180)
        yield made
        made.growing.finish()


def test_others_go_on_and_the_driver_is_replaced(pipe: Pipe) -> None:
    former = pipe.worker.jvm()
    for name, select in SELECTS.items():
        pipe.attack(name, select)
    pipe.moves()
    for name in SELECTS:
        pipe.assert_failed_alone(name)
    eventually(lambda: not former.is_running(), 60, pipe.worker.log)
    for name in SELECTS:
        pipe.worker.request("DELETE", f"/connectors/{name}")
    pipe.moves()
    assert set(pipe.worker.get("/connectors")) == {"source", "sink"}


@pytest.mark.soak  # a job has a minute
def test_large_batches_that_do_not_end_are_given_up_and_leave_their_places(pipe: Pipe) -> None:
    former = pipe.worker.jvm()
    for name in ("large-1", "large-2"):  # as many as there are places for tasks of jobs
        pipe.attack(name, NESTED, lines=JOB_ROWS)
    pipe.moves()
    for name in ("large-1", "large-2"):
        pipe.assert_failed_alone(name)
    eventually(lambda: not former.is_running(), 60, pipe.worker.log)
    for name in ("large-1", "large-2"):
        pipe.worker.request("DELETE", f"/connectors/{name}")
    pipe.moves_at_once(JOB_ROWS)  # by jobs, which need these places
