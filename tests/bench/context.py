"""The broker, a directory of its own, and the amount of work: given to every measure."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path

from headrace.worker.embedded.kafka_broker import Broker
from tests.bench.lines import expected_values, write_lines
from tests.bench.processes import Worker
from tests.bench.sides import Side
from tests.bench.topics import Topics

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
Figures = dict[str, float]


@dataclass(frozen=True)
class Size:
    """The amount of work of a measure.  Units: seconds where not said otherwise."""

    lines: int
    warm_up: float
    window: float
    settle: float
    idle_window: float
    connectors: int
    starts: int


FULL = Size(lines=12_000_000, warm_up=10, window=20, settle=10, idle_window=30, connectors=100, starts=3)
QUICK = Size(lines=300_000, warm_up=5, window=6, settle=5, idle_window=8, connectors=20, starts=1)


@dataclass
class Bench:
    """The surroundings of all runs; topics and files used by several are made once."""

    directory: Path
    topics: Topics
    broker_pids: list[int]
    size: Size
    _runs: Iterator[int] = field(default_factory=lambda: count(1))
    _shared: dict[str, str] = field(default_factory=dict)
    _at_end: list[Callable[[], None]] = field(default_factory=list)
    _second: Topics | None = None

    @contextmanager
    def run(self, what: str) -> Iterator["Run"]:
        """Names and a directory nobody else uses; on exit its topics and files are gone."""
        name = f"bench-{what}-{next(self._runs)}"
        run = Run(self, name, self.directory / name)
        run.directory.mkdir()
        try:
            yield run
        finally:
            if run.made:
                self.topics.delete(*run.made)
            shutil.rmtree(run.directory, ignore_errors=True)

    def lines_file(self) -> Path:
        """The file with all the lines."""
        path = self.directory / f"lines-{self.size.lines}.txt"
        return path if path.exists() else write_lines(path, self.size.lines)

    def full_topic(self) -> str:
        """The topic that holds these lines in JSON envelopes, the same one for all sides."""
        return self.shared_topic("full", lambda: expected_values(self.lines_file(), self.size.lines))

    def shared_topic(self, what: str, values: Callable[[], Iterable[bytes]], partitions: int = 1) -> str:
        """The topic that holds these values, made once; partition by partition in turn."""
        if what not in self._shared:
            topic = f"bench-{what}-{self.size.lines}-{self.directory.name}"
            self.topics.create(topic, partitions=partitions)
            self._shared[what] = topic
            self.topics.fill(topic, values(), cycle(range(partitions)))
        return self._shared[what]

    def is_new(self, topic: str) -> bool:
        """True if nobody asked for this topic before; it is dropped at the end."""
        new = topic not in self._shared
        self._shared[topic] = topic
        return new

    def second_broker(self) -> Topics:
        """The topics of another broker, which is started when it is asked for first."""
        if self._second is None:
            broker = Broker(self.directory / "second")
            broker.start()
            self.at_end(broker.stop)
            self.broker_pids.append(broker.process.pid)
            self._second = Topics(broker.bootstrap_servers)
            self.at_end(self._second.close)
        return self._second

    def at_end(self, do: Callable[[], None]) -> None:
        """This is done at the end."""
        self._at_end.append(do)

    def close(self) -> None:
        """The shared topics are dropped."""
        if self._shared:
            self.topics.delete(*self._shared.values())
        self.topics.close()
        for do in reversed(self._at_end):
            do()


Measure = Callable[[Bench, Side], Figures]


@dataclass
class Run:
    """One run of one measure on one side."""

    bench: Bench
    name: str
    directory: Path
    made: list[str] = field(default_factory=list)

    def topic(self, number: int = 0, partitions: int = 1) -> str:
        """A new topic of this run."""
        name = f"{self.name}-t{number}"
        self.made.append(name)
        self.bench.topics.create(name, partitions=partitions)
        return name

    def topics(self, count: int) -> list[str]:
        """So many new topics of this run."""
        names = [f"{self.name}-t{number}" for number in range(count)]
        self.made += names
        self.bench.topics.create(*names)
        return names

    def source(self, file: Path, topic: str, number: int = 0) -> dict[str, str]:
        """The settings of a file source."""
        name = f"{self.name}-source-{number}"
        return {"name": name, "connector.class": SOURCE, "tasks.max": "1", "file": str(file), "topic": topic}

    def sink(self, topic: str, file: Path, number: int = 0) -> dict[str, str]:
        """The settings of a file sink."""
        name = f"{self.name}-sink-{number}"
        return {"name": name, "connector.class": SINK, "tasks.max": "1", "file": str(file), "topics": topic}

    def worker(
        self, side: Side, connectors: Sequence[Mapping[str, str]], settings: Mapping[str, str] | None = None
    ) -> Worker:
        """A worker of this side, not yet started."""
        bootstrap = self.bench.topics.bootstrap
        return Worker(side, self.directory, bootstrap, connectors, settings, self.bench.broker_pids)
