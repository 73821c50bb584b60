"""Numbered lines from files through topics into files, and what became of them: nothing lost, how much twice.

    flows = [Flow.in_folder(tmp_path, f"f{n}", tasks=4) for n in range(3)]     # 6 connectors with 4 tasks each
    plugins = numbered_plugins(tmp_path / "plugins")                           # for the workers' `plugin.path`
    for flow in flows:                                                         # once each topic has its partitions
        for name, config in flow.connectors().items(): worker.create(name, **config)
    flow.append(1000)                                                          # while the workers are shaken
    eventually(lambda: not flow.arrived().missing, 120, lambda: flow.arrived())
    flow.arrived().check(most_replays=…, longest_replay=…)

A stream is one source file: its records are numbered from 0 without gaps, so whatever is lost shows as a gap, and
whatever came twice as a number that was there before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tests.integration.stranger_plugins import installed
from tests.integration.worker_process import SINK, lines_of

SOURCE_CLASS: Final = "org.example.NumberedSourceConnector"
_FILL: Final = "." * 40


class Numbered(NamedTuple):
    """A record: which stream, which number in it."""

    stream: str
    number: int

    def __str__(self) -> str:
        return f"{self.stream} {self.number:09d} {_FILL}"


def lines(stream: str, after: int, count: int) -> Iterator[str]:
    """The lines of the records behind number `after`, -1 for none yet."""
    return (str(Numbered(stream, number)) for number in range(after + 1, after + 1 + count))


def parsed(line: bytes) -> Numbered | None:
    """The record that a line is; None for one that is torn or no such line."""
    parts = line.decode("utf-8", "replace").split(" ")
    if len(parts) != 3 or parts[2] != _FILL or len(parts[1]) != 9 or not parts[1].isdecimal():
        return None
    return Numbered(parts[0], int(parts[1]))


class Replay(NamedTuple):
    """Records in a row that had all arrived before."""

    at: int
    """The place of the first of them among all that arrived."""
    records: int


@dataclass(frozen=True)
class Arrived:
    """The part that arrived of what was sent."""

    missing: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """By stream, the first and last numbers of each gap."""
    first_arrivals: int = 0
    duplicates: int = 0
    replays: Sequence[Replay] = ()
    torn: Sequence[bytes] = ()
    unknown: Sequence[Numbered] = ()
    """Records that nobody sent."""
    overtaken: Sequence[Numbered] = ()
    """Records that arrived for the first time behind a later one of their stream."""

    @property
    def lost(self) -> int:
        """The number of records that did not arrive."""
        return sum(last - first + 1 for gaps in self.missing.values() for first, last in gaps)

    @property
    def duplicates_per_first_arrival(self) -> float:
        """0 where each record came once."""
        return self.duplicates / self.first_arrivals if self.first_arrivals else 0.0

    def check(self, most_replays: int | None = None, longest_replay: int | None = None, ordered: bool = False) -> None:
        """Nothing is lost, torn or invented; duplicates are within the bounds, which None lifts.

        Errors: AssertionError that says how much of what.
        """
        found = {
            f"{self.lost} records are lost": self.lost > 0,
            f"{len(self.torn)} lines are torn": bool(self.torn),
            f"{len(self.unknown)} records were never sent": bool(self.unknown),
            f"{len(self.overtaken)} records were overtaken": ordered and bool(self.overtaken),
            f"{len(self.replays)} replays": most_replays is not None and len(self.replays) > most_replays,
            f"a replay of {self.longest_replay} records": longest_replay is not None
            and self.longest_replay > longest_replay,
        }
        wrong = [what for what, holds in found.items() if holds]
        assert not wrong, f"{'; '.join(wrong)}: {self.brief()}"

    @property
    def longest_replay(self) -> int:
        """The number of records of the longest."""
        return max((replay.records for replay in self.replays), default=0)

    def brief(self) -> str:
        """In a few lines, however much is wrong."""
        gaps = {stream: list(some[:5]) for stream, some in list(self.missing.items())[:5]}
        return (
            f"{self.first_arrivals} arrived, {self.duplicates} of them again "
            f"({self.duplicates_per_first_arrival:.4f} each) in {len(self.replays)} replays, {self.lost} are lost; "
            f"gaps {gaps}; torn {list(self.torn[:3])}; unknown {[tuple(one) for one in self.unknown[:3]]}; "
            f"overtaken {[tuple(one) for one in self.overtaken[:3]]}; "
            f"replays {[tuple(one) for one in self.replays[:5]]}"
        )


def arrived(values: Iterable[bytes], sent: Mapping[str, int]) -> Arrived:
    """Compare these values, in the order of their arrival, with what was sent: numbers up to `sent[stream]`, -1: none.

    Records of one stream overtake each other freely where they go through several partitions.
    """
    seen: dict[str, set[int]] = {stream: set() for stream in sent}
    latest = dict.fromkeys(sent, -1)
    torn: list[bytes] = []
    unknown: list[Numbered] = []
    overtaken: list[Numbered] = []
    replays: list[Replay] = []
    duplicates, replaying = 0, False
    for at, value in enumerate(values):
        record = parsed(value)
        if record is None:
            torn.append(value)
        elif record.number > sent.get(record.stream, -1):
            unknown.append(record)
        elif record.number in seen[record.stream]:
            duplicates += 1
            if replaying:
                replays[-1] = Replay(replays[-1].at, replays[-1].records + 1)
            else:
                replays.append(Replay(at, 1))
            replaying = True
            continue
        else:
            seen[record.stream].add(record.number)
            if record.number < latest[record.stream]:
                overtaken.append(record)
            latest[record.stream] = max(latest[record.stream], record.number)
        replaying = False
    missing = {stream: gaps(numbers, sent[stream]) for stream, numbers in seen.items()}
    return Arrived(
        {stream: some for stream, some in missing.items() if some},
        sum(map(len, seen.values())),
        duplicates,
        replays,
        torn,
        unknown,
        overtaken,
    )


def gaps(numbers: Iterable[int], upto: int) -> list[tuple[int, int]]:
    """Return the gaps in 0 to `upto`, as first and last of each."""
    found, expected = [], 0
    for number in sorted(numbers):
        if number > expected:
            found.append((expected, number - 1))
        expected = number + 1
    return [*found, (expected, upto)] if expected <= upto else found


@dataclass
class Flow:
    """A source with a file a task, a topic, and a sink whose tasks share a file."""

    name: str
    source: Path
    sink: Path
    topic: str
    tasks: int = 4
    sent: dict[str, int] = field(default_factory=dict)
    """The last number of each stream that stands in its file."""

    @classmethod
    def in_folder(cls, folder: Path, name: str, topic: str | None = None, tasks: int = 4) -> Flow:
        """A flow over files in this folder; every source file is there, and empty."""
        folder.mkdir(parents=True, exist_ok=True)
        flow = cls(name, folder / f"{name}-in", folder / f"{name}-out", topic or name, tasks)
        flow.sent.update(dict.fromkeys(flow.streams, -1))
        for file in flow.files.values():
            file.touch()
        return flow

    @property
    def streams(self) -> list[str]:
        """Their names, a task of the source each."""
        return [f"{self.name}-{task}" for task in range(self.tasks)]

    @property
    def files(self) -> dict[str, Path]:
        """The source file of each stream."""
        return {stream: Path(f"{self.source}-{task}") for task, stream in enumerate(self.streams)}

    def connectors(self) -> dict[str, dict[str, str]]:
        """The configs of its two connectors, by name; the topic is to have at least as many partitions as tasks."""
        text = "org.apache.kafka.connect.storage.StringConverter"
        both = {"tasks.max": str(self.tasks), "key.converter": text, "value.converter": text}
        source = {"connector.class": SOURCE_CLASS, "file": str(self.source), "topic": self.topic}
        sink = {"connector.class": SINK, "file": str(self.sink), "topics": self.topic}
        return {f"{self.name}-source": {**both, **source}, f"{self.name}-sink": {**both, **sink}}

    def append(self, count: int) -> None:
        """So many more records stand in each source file, with whole lines at any instant."""
        for stream, file in self.files.items():
            text = "".join(f"{line}\n" for line in lines(stream, self.sent[stream], count))
            with open(file, "ab", buffering=0) as out:
                out.write(text.encode())
            self.sent[stream] += count

    def arrived(self) -> Arrived:
        """Return what has arrived in the sink's file."""
        return arrived(lines_of(self.sink), self.sent)


def numbered_plugins(folder: Path) -> Path:
    """The value for the `plugin.path` of workers that run flows."""
    module = Path(__file__).parent / "numbered_plugin.py"
    return installed(folder, module, {"source": {SOURCE_CLASS: "NumberedSourceConnector"}})
