"""Measures the time of a record, produced → line in the sink file, line appended → in the topic, and through both.

Each record carries the moment it was sent (CLOCK_MONOTONIC, one clock for all processes of the machine).
The sender is a process of its own; the watcher is told of what was written, at the same cost for every side.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from tests.bench.context import Bench, Figures, Run
from tests.bench.lines import ENVELOPE, envelope
from tests.bench.processes import Cost, Failed, Worker
from tests.bench.sides import Side
from tests.bench.topics import QUIET
from tests.bench.written import Written

_MOMENT_S = 0.02
"""The time until the watcher sees that the measured part begins or ends."""
LAST_RECORD_BOUND_S = 20
QUIET_S = 3
START_BOUND_S, START_BOUND_EACH_S = 90, 0.5
LEAD_S = 1.0  # the sender needs this to start
PADDING = "." * 70
HELLO = "hello"
_INDEXED = 100
APPENDS_PER_S = 20


@dataclass
class Seen:
    """The bytes that came out at one place, with the moment they were seen."""

    chunks: list[tuple[int, bytes]] = field(default_factory=list)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Each complete line with the moment its end was seen."""
        rest = b""
        for at_ns, chunk in self.chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            yield from ((at_ns, text.decode()) for text in whole)


@dataclass(frozen=True)
class Schedule:
    """The times at which the sender sends, and the part that is measured.  Units: CLOCK_MONOTONIC seconds."""

    begin: float
    measured: float
    end: float

    @classmethod
    def of(cls, bench: Bench) -> "Schedule":
        begin = time.monotonic() + LEAD_S
        measured = begin + bench.size.warm_up
        return cls(begin, measured, measured + bench.size.window)


def sinks(bench: Bench, side: Side, count: int, rate: int) -> Figures:
    """Produced → line in the file for `count` sinks of `rate` records per second each; at rate 0 the cost alone."""
    with bench.run(f"latency-{count}x{rate}") as run:
        topics = run.topics(count)
        files = [run.directory / f"sink-{n}.txt" for n in range(count)]
        # The broker writes to a topic's index after 4 KiB; its first write takes it tens of milliseconds a topic.
        for hellos in (_INDEXED, 1):
            bench.topics.fill_each(topics, [envelope(HELLO)] * hellos)
        connectors = [run.sink(t, f, n) for n, (t, f) in enumerate(zip(topics, files, strict=True))]
        with run.worker(side, connectors) as worker:
            bound_s = START_BOUND_S + count * START_BOUND_EACH_S
            worker.until(lambda: all(_has_lines(f) for f in files), "the first record in each file", bound_s, 0.1)
            when = Schedule.of(bench)
            with sender(produce, bench.topics.bootstrap, topics, rate, when.begin, when.end):
                seen, spent = _watch_files(worker, files, when)
            figures = {**spent.shares(), **worker.memory()}
        if not rate:
            return figures
        expected = round((when.end - when.begin) * rate)
        return {**latencies([sent_and_seen(s, expected) for s in seen], when), **figures}


def pairs(bench: Bench, side: Side, count: int, every_s: float) -> Figures:
    """Line appended → line in the sink file, for `count` file sources and as many sinks; into each file so often."""
    with bench.run(f"pairs-{count}") as run:
        topics = run.topics(count)
        ins, outs = [[run.directory / f"{way}-{n}.txt" for n in range(count)] for way in ("in", "out")]
        for file in ins:
            file.write_text(f"{HELLO}\n")
        connectors = [run.source(f, t, n) for n, (f, t) in enumerate(zip(ins, topics, strict=True))]
        connectors += [run.sink(t, f, n) for n, (t, f) in enumerate(zip(topics, outs, strict=True))]
        with run.worker(side, connectors) as worker:
            bound_s = START_BOUND_S + 2 * count * START_BOUND_EACH_S
            worker.until(lambda: all(_has_lines(f) for f in outs), "the first line in each file", bound_s, 0.1)
            when = Schedule.of(bench)
            with sender(append, ins, every_s, when.begin, when.end):
                seen, spent = _watch_files(worker, outs, when)
            figures = {**spent.shares(), **worker.memory()}
        lines = appends(count, every_s, when.end - when.begin)
        expected = [len(range(n, lines, count)) for n in range(count)]
        return {**latencies(list(map(sent_and_seen, seen, expected)), when), **figures}


def source(bench: Bench, side: Side) -> Figures:
    """Line appended → in the topic, one file source, a steady trickle."""
    with bench.run("latency-source") as run:
        topic, file = run.topic(), run.directory / "source.txt"
        file.write_text(f"{HELLO}\n")
        with run.worker(side, [run.source(file, topic)]) as worker:
            worker.until(lambda: bench.topics.end(topic) > 0, "the first line in the topic", START_BOUND_S, 0.1)
            when = Schedule.of(bench)
            with sender(append, [file], 1 / APPENDS_PER_S, when.begin, when.end):
                seen, spent = watch_topic(worker, run, topic, when)
            figures = {**spent.shares(), **worker.memory()}
        expected = round((when.end - when.begin) * APPENDS_PER_S)
        return {**latencies([sent_and_seen(seen, expected)], when), **figures}


def produce(bootstrap: str, topics: Sequence[str], rate: int, begin: float, end: float) -> None:
    """The sender's process: every topic got `rate` records a second, evenly spread over time and topics."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", **QUIET})
    for number in range(round((end - begin) * rate) * len(topics)):
        turn, topic = divmod(number, len(topics))
        sleep_until(begin + number / (rate * len(topics)))
        text = f"{turn} {time.monotonic_ns()} {PADDING}"
        producer.produce(topics[topic], ENVELOPE % b'"%s"' % text.encode(), partition=0)
        producer.poll(0)
    producer.flush(10)


def append(files: Sequence[Path], every_s: float, begin: float, end: float) -> None:
    """The appender's process: each file got a line so often, evenly spread over time and files."""
    handles = [os.open(file, os.O_WRONLY | os.O_APPEND) for file in files]
    for number in range(appends(len(files), every_s, end - begin)):
        turn, file = divmod(number, len(files))
        sleep_until(begin + number * every_s / len(files))
        os.write(handles[file], f"{turn} {time.monotonic_ns()} {PADDING}\n".encode())
    for handle in handles:
        os.close(handle)


def appends(files: int, every_s: float, seconds: float) -> int:
    """The number of lines that all files together get within the time."""
    return round(seconds * files / every_s)


@contextmanager
def sender(target: object, *args: object) -> Iterator[None]:
    """Meanwhile a process of its own does this."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=args, daemon=True)  # type: ignore[arg-type]
    process.start()
    try:
        yield
    finally:
        process.join(1)
        process.kill()
        process.join()


def _watch_files(worker: Worker, files: Sequence[Path], when: Schedule) -> tuple[list[Seen], Cost]:
    handles = [os.open(file, os.O_RDONLY) for file in files]
    seen = [Seen() for _ in files]
    window = _Window(worker, when)
    try:
        with Written(files) as written:
            changed = set(range(len(files)))  # what was written before the watch
            while window.open(now := time.monotonic()):
                for number in changed:
                    while chunk := os.read(handles[number], 1 << 16):
                        seen[number].chunks.append((time.monotonic_ns(), chunk))
                        window.last_sign = now
                changed = written.wait(_MOMENT_S)
    finally:
        for handle in handles:
            os.close(handle)
    return seen, window.spent()


def watch_topic(worker: Worker, run: Run, topic: str, when: Schedule) -> tuple[Seen, Cost]:
    """Watch a topic. Return what comes into it, and the cost of the measured part."""
    consumer = run.bench.topics.follow(topic)
    seen, window = Seen(), _Window(worker, when)
    try:
        while window.open(now := time.monotonic()):
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                prefix, suffix = ENVELOPE.split(b"%s")
                text = (message.value() or b"").removeprefix(prefix).removesuffix(suffix).strip(b'"')
                seen.chunks.append((time.monotonic_ns(), text + b"\n"))
                window.last_sign = now
    finally:
        consumer.close()
    return seen, window.spent()


class _Window:
    """The time to watch, and the cost between the beginning and the end of what is measured, taken in passing."""

    def __init__(self, worker: Worker, when: Schedule) -> None:
        self._worker, self._when = worker, when
        self._costs: list[Cost] = []
        self.last_sign = time.monotonic()

    def open(self, now: float) -> bool:
        # Looking takes a moment: it is done before the first measured record and after the last.
        bounds = (self._when.measured - 0.5, self._when.end)
        if len(self._costs) < 2 and now >= bounds[len(self._costs)]:
            self._worker.check()
            self._costs.append(self._worker.cost())
        # After the end, quiet for a while means that all came, or that nothing more does.
        quiet = now - self.last_sign > QUIET_S
        return now < self._when.end or (not quiet and now < self._when.end + LAST_RECORD_BOUND_S)

    def spent(self) -> Cost:
        costs = [*self._costs, self._worker.cost()]
        return costs[1] - costs[0]


def sent_and_seen(seen: Seen, expected: int) -> list[tuple[int, int]]:
    """(sent, seen) of each record.  Errors: Failed unless all came, in order, once."""
    found: list[tuple[int, int]] = []
    for at_ns, text in seen.lines():
        if text == HELLO:
            continue
        number, sent_ns, _ = text.split(" ", 2)
        if int(number) != len(found):
            raise Failed(f"wrong output: record {number} where {len(found)} was due")
        found.append((int(sent_ns), at_ns))
    if len(found) != expected:
        raise Failed(f"wrong output: {len(found)} of {expected} records")
    return found


def latencies(places: Sequence[list[tuple[int, int]]], when: Schedule) -> Figures:
    """The times that the records of the measured part took."""
    begin, end = int(when.measured * 1e9), int(when.end * 1e9)
    took = sorted((came - sent) / 1e6 for place in places for sent, came in place if begin <= sent < end)
    if not took:
        raise Failed("no record was sent within the window")
    return {"p50_ms": percentile(took, 50), "p99_ms": percentile(took, 99), "max_ms": took[-1], "records": len(took)}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed."""
    return ordered[max(0, -(-len(ordered) * int(percent) // 100) - 1)]


def _has_lines(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def sleep_until(moment: float) -> None:
    """Wait until the moment (`time.monotonic`) has come."""
    if (left := moment - time.monotonic()) > 0:
        time.sleep(left)
