"""The connectors of the soak: most are quiet, some move a steady trickle, in the mix that a team has.

A pipe is a source, a topic of one partition and a sink; beside them a mirror copies the topics of the steady pipes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.integration.worker_process import SINK, SOURCE
from tests.soak.streams import End, FileEnd, Stream, TableEnd

JDBC: Final = "io.confluent.connect.jdbc.Jdbc"
MIRROR: Final = "org.apache.kafka.connect.mirror.Mirror"
TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
AS_TEXT: Final = {"key.converter": TEXT, "value.converter": TEXT}
EVERY_S: Final = {"quiet": 60.0, "steady": 0.5, "table": 2.0, "letters": 1.0}
"""The time between two lines of a pipe of each kind."""
SHARES: Final = {"steady": 0.1, "table": 0.06, "letters": 0.02}
"""The parts of all pipes that are of each kind, one at least; the others are quiet."""
BAD_EVERY: Final = 10
"""One line of so many is a dead letter, in a pipe with these."""
MIRRORS: Final = 2
HERE, THERE = "west", "east"


class Pipe:
    """A file whose lines go through a topic into another file."""

    kind = "quiet"

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.topic = name, f"soak-{name}"
        self.stream = Stream(name)
        self.source, self.sink = folder / f"{name}.in", folder / f"{name}.out"
        self.ends: list[End] = self._ends()

    def _ends(self) -> list[End]:
        return [FileEnd(f"{self.name} file", self.stream, self.sink)]

    def prepare(self) -> None:
        """Make what the source reads."""
        self.source.touch()

    def send(self, now: float) -> None:
        """Add a line to what the source reads."""
        with self.source.open("a") as file:
            file.write(self._text(self.stream.next_line(now)) + "\n")

    def _text(self, text: str) -> str:
        return text

    def connectors(self) -> dict[str, dict[str, str]]:
        """Make the configs of a source and a sink, by their names."""
        source = {"connector.class": SOURCE, "file": str(self.source), "topic": self.topic, **AS_TEXT}
        sink = {"connector.class": SINK, "file": str(self.sink), "topics": self.topic, **AS_TEXT}
        return {f"{self.name}-source": source, f"{self.name}-sink": sink}

    @property
    def topics(self) -> Sequence[str]:
        """All topics of the pipe."""
        return [self.topic]

    @property
    def topic_ends(self) -> Mapping[str, End]:
        """Ends that are topics."""
        return {}

    def close(self) -> None:
        """Send no more."""


class SteadyPipe(Pipe):
    """The same, with more lines; the mirror copies its topic."""

    kind = "steady"

    def _ends(self) -> list[End]:
        return [*super()._ends(), End(f"{self.name} mirrored", self.stream)]

    @property
    def topics(self) -> Sequence[str]:
        return [self.topic, f"{HERE}.{self.topic}"]

    @property
    def topic_ends(self) -> Mapping[str, End]:
        return {f"{HERE}.{self.topic}": self.ends[1]}


class LettersPipe(Pipe):
    """Lines with some that are no record for the sink: these become dead letters."""

    kind = "letters"

    def _ends(self) -> list[End]:
        return [
            FileEnd(f"{self.name} file", self.stream, self.sink, lambda number: not _is_bad(number)),
            End(f"{self.name} dead letters", self.stream, _is_bad),
        ]

    def connectors(self) -> dict[str, dict[str, str]]:
        found = super().connectors()
        found[f"{self.name}-sink"] |= {
            "transforms": "only",
            "transforms.only.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
            "transforms.only.field": "line",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": self.topics[1],
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        return found

    def _text(self, text: str) -> str:
        return text if _is_bad(int(text[:9])) else f'{{"line": "{text}"}}'

    @property
    def topics(self) -> Sequence[str]:
        return [self.topic, f"{self.topic}-dead"]

    @property
    def topic_ends(self) -> Mapping[str, End]:
        return {self.topics[1]: self.ends[1]}


class TablePipe(Pipe):
    """A table in SQLite whose rows go through a topic into another one, exactly once."""

    kind = "table"

    def _ends(self) -> list[End]:
        self.end = TableEnd(f"{self.name} table", self.stream, self.sink, "copies")
        return [self.end]

    def prepare(self) -> None:
        with closing(sqlite3.connect(self.source)) as database:
            database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, line TEXT NOT NULL)")
        self.sink.touch()
        self._database = sqlite3.connect(self.source, timeout=30, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA synchronous = OFF")

    def send(self, now: float) -> None:
        self._database.execute("INSERT INTO rows (line) VALUES (?)", [self.stream.next_line(now)])

    def connectors(self) -> dict[str, dict[str, str]]:
        source = {
            "connector.class": f"{JDBC}SourceConnector",
            "connection.url": f"jdbc:sqlite:{self.source}",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "query": "SELECT id, line FROM rows",
            "topic.prefix": self.topic,
            "poll.interval.ms": "1000",
        }
        sink = {
            "connector.class": f"{JDBC}SinkConnector",
            "connection.url": f"jdbc:sqlite:{self.sink}",
            "topics": self.topic,
            "table.name.format": self.end.table,
            "auto.create": "true",
            "fields.whitelist": "line",
        }
        return {f"{self.name}-source": source, f"{self.name}-sink": sink}

    def close(self) -> None:
        self._database.close()


KINDS: Final[Mapping[str, type[Pipe]]] = {
    "quiet": Pipe,
    "steady": SteadyPipe,
    "table": TablePipe,
    "letters": LettersPipe,
}


def _is_bad(number: int) -> bool:
    return number % BAD_EVERY == BAD_EVERY - 1


@dataclass(frozen=True)
class Mix:
    """All pipes of a run, with the mirror."""

    bootstrap: str
    pipes: Sequence[Pipe] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path, bootstrap: str, connectors: int) -> Mix:
        """Make as many pipes as give so many connectors; an odd number is one less."""
        folder.mkdir(parents=True)
        pairs = (connectors - MIRRORS) // 2
        counts = {kind: max(1, round(share * pairs)) for kind, share in SHARES.items()}
        counts["quiet"] = pairs - sum(counts.values())
        if counts["quiet"] < 1:
            raise ValueError(f"{connectors} connectors are too few for one pipe of each kind: take 10 or more")
        pipes = [KINDS[kind](folder, f"{kind}{n}") for kind, count in counts.items() for n in range(count)]
        for pipe in pipes:
            pipe.prepare()
        return cls(bootstrap, pipes)

    def connectors(self) -> dict[str, dict[str, str]]:
        """Make all configs, by the connectors' names."""
        found = {name: config for pipe in self.pipes for name, config in pipe.connectors().items()}
        clusters = {
            "source.cluster.alias": HERE,
            "target.cluster.alias": THERE,
            "source.cluster.bootstrap.servers": self.bootstrap,
            "target.cluster.bootstrap.servers": self.bootstrap,
            "replication.factor": "1",
            "tasks.max": "1",
        }
        copied = {
            "topics": "soak-steady.*",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "sync.topic.acls.enabled": "false",
            "offset-syncs.topic.replication.factor": "1",
        }
        found["mirror"] = {"connector.class": f"{MIRROR}SourceConnector", **clusters, **copied}
        beats = {"heartbeats.topic.replication.factor": "1"}
        found["mirror-beats"] = {"connector.class": f"{MIRROR}HeartbeatConnector", **clusters, **beats}
        return found

    @property
    def ends(self) -> list[End]:
        """All places at which lines arrive."""
        return [end for pipe in self.pipes for end in pipe.ends]

    @property
    def topic_ends(self) -> dict[str, End]:
        """The ends that are topics, by topic."""
        return {topic: end for pipe in self.pipes for topic, end in pipe.topic_ends.items()}

    @property
    def topics(self) -> list[str]:
        """All topics of the pipes."""
        return [topic for pipe in self.pipes for topic in pipe.topics]

    def counts(self) -> str:
        """Say how many pipes there are of each kind."""
        kinds = [pipe.kind for pipe in self.pipes]
        return ", ".join(f"{kinds.count(kind)} {kind}" for kind in KINDS)
