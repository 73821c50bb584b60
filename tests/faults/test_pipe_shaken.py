"""A file through a topic into a file and a table, while workers and the broker are stopped, killed and fenced.

Nothing is lost, the table has each record once, and each stall ends soon and is named in the log.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from headrace.worker.embedded.kafka_broker import Broker
from tests.faults.growing_file import Growing, last_in
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.databases import Database
from tests.integration.worker_process import SINK, SOURCE, Topic, eventually

pytestmark = [pytest.mark.soak, pytest.mark.kafka, pytest.mark.spark, pytest.mark.database]

SECONDS: Final = float(os.environ.get("HEADRACE_TEST_SECONDS", "1800"))
LINES_A_SECOND: Final = 2_000
STALL_S: Final = 90.0
"""The longest stall after a disturbance has ended: sessions run out, a rebalance, a new Spark driver."""
FENCED_S: Final = 20.0
"""Twice the time after which a controller fences a silent broker (`broker.session.timeout.ms`)."""
NAMED: Final = ("has been away", "is no member of the group", "Connection refused", "timed out", "trying again")
"""Log texts; one of them has to tell that the brokers do not answer."""


class Pipe:
    """A cluster of two workers with a source, a sink into a file and one into a table."""

    def __init__(self, folder: Path, broker: Broker, database: Database) -> None:
        cluster = new_cluster()
        self.broker, self.database = broker, database
        self.workers = [ClusterWorker(folder / f"w{n}", broker.bootstrap_servers, cluster) for n in range(2)]
        self.topic = Topic(broker.bootstrap_servers, "shaken")
        self.sink = folder / "sink.txt"
        self.growing = Growing(folder / "lines.txt", LINES_A_SECOND)

    def create(self) -> None:
        """Create the connectors."""
        self.database.execute("CREATE TABLE lines (line text)", "CREATE INDEX ON lines (left(line, 9))")
        worker, topic = self.workers[0], self.topic.name
        worker.create("source", connector_class=SOURCE, file=str(self.growing.path), topic=topic)
        worker.create("file", connector_class=SINK, file=str(self.sink), topics=topic)
        worker.create(
            "table",
            **{key.replace(".", "_"): value for key, value in self.database.settings.items()},
            connector_class="JdbcSinkConnector",
            topics=topic,
            table_name_format="lines",
            offsets_table="connect_offsets",
            transforms="line",
            transforms_line_type="org.apache.kafka.connect.transforms.HoistField$Value",
            transforms_line_field="line",
        )

    def moves(self, after: str) -> float:
        """Wait until lines from now on arrive at both ends, and return the seconds that it took."""
        number, began = self.growing.count, time.monotonic()
        logs = lambda: "\n".join([after, *(worker.log()[-4000:] for worker in self.workers)])  # noqa: E731
        eventually(lambda: last_in(self.sink) > number, STALL_S, logs, every_s=0.5)
        eventually(lambda: self._in_table() > number, STALL_S, logs, every_s=0.5)
        return time.monotonic() - began

    def _in_table(self) -> int:
        return int(self.database.value("SELECT coalesce(max(left(line, 9)), '-1') FROM lines"))

    def check(self) -> None:
        """Check that all lines are at both ends, and that the table has each record of the topic once."""
        count = len(self.growing.finish())
        eventually(lambda: min(last_in(self.sink), self._in_table()) >= count - 1, 2 * STALL_S, every_s=0.5)
        arrived = bytearray(count)
        with open(self.sink, "rb") as lines:
            for line in lines:
                arrived[int(line[:9])] = 1
        assert arrived.count(0) == 0
        records = self.topic.end()
        eventually(lambda: self.database.value("SELECT count(*) FROM lines") == records, 2 * STALL_S, every_s=0.5)
        assert self.database.value("SELECT count(DISTINCT line) FROM lines") == count


class Shaker:
    """Disturbs a pipe in one way after another, in rounds of random order."""

    def __init__(self, pipe: Pipe, chance: random.Random) -> None:
        self._pipe = pipe
        self._chance = chance
        ways: Sequence[Callable[[], None]] = (
            self._worker_stopped,
            self._worker_killed,
            self._broker_restarted,
            self._broker_killed,
            self._broker_fenced,
        )
        self._ways = itertools.chain.from_iterable(chance.sample(ways, len(ways)) for _ in itertools.count())

    def shake(self) -> str:
        """Disturb the pipe, wait until it moves again, and return what was done and how long the stall was."""
        way = next(self._ways)
        name, said = way.__name__.strip("_"), [len(worker.log()) for worker in self._pipe.workers]
        way()
        took = self._pipe.moves(name)
        if name.startswith("broker"):
            new = "".join(w.log()[begin:] for w, begin in zip(self._pipe.workers, said, strict=True))
            assert any(words in new for words in NAMED), f"no log names the stall: {new[-2000:]}"
        return f"{name} {took:.0f} s"

    def _worker_stopped(self) -> None:
        worker = self._chance.choice(self._pipe.workers)
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(8)  # longer than a session of the group
        worker.process.send_signal(signal.SIGCONT)

    def _worker_killed(self) -> None:
        worker = self._chance.choice(self._pipe.workers)
        worker.kill()
        worker.start()
        worker.wait_ready(120)

    def _broker_restarted(self) -> None:
        self._pipe.broker.stop()
        self._pipe.broker.start()

    def _broker_killed(self) -> None:
        self._pipe.broker.kill()
        self._pipe.broker.start()

    def _broker_fenced(self) -> None:
        process = self._pipe.broker.process
        process.send_signal(signal.SIGSTOP)
        time.sleep(FENCED_S)
        process.send_signal(signal.SIGCONT)


@pytest.mark.timeout(SECONDS + 900)
def test_a_shaken_pipe_loses_nothing_and_each_stall_ends(
    broker: str, broker_process: Broker, postgresql: Database, tmp_path: Path
) -> None:
    pipe, done = Pipe(tmp_path, broker_process, postgresql), []
    with pipe.workers[0], pipe.workers[1]:
        for worker in pipe.workers:
            worker.wait_ready(120)
        pipe.create()
        pipe.growing.start()
        pipe.moves("the start")
        shaker, began = Shaker(pipe, random.Random(40)), time.monotonic()
        while time.monotonic() - began < SECONDS:
            done.append(shaker.shake())
            time.sleep(10)  # a while without a fault
        pipe.check()
    print(f"{pipe.growing.count:,} lines; {'; '.join(done)}")
