"""Costs of records whose inside is looked at: structs with their schema in JSON, read, changed, written as text."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.bench.context import Bench, Figures
from tests.bench.processes import Failed
from tests.bench.sides import Side
from tests.bench.throughput import backlog_into_file

_FIELDS = [("int32", "id"), ("string", "customer"), ("int64", "created")]
SCHEMA = {
    "type": "struct",
    "fields": [{"type": kind, "optional": False, "field": name} for kind, name in _FIELDS],
    "optional": False,
    "name": "bench.Order",
}
BEFORE = b'{"schema":' + json.dumps(SCHEMA, separators=(",", ":")).encode() + b',"payload":'
BEGIN = datetime(2026, 7, 1, tzinfo=UTC)
BAD_EVERY = 1000
TRANSFORMS = {
    "transforms": "replace,insert,cast,time,route",
    "transforms.replace.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.replace.renames": "customer:buyer",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.insert.static.field": "origin",
    "transforms.insert.static.value": "bench",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.cast.spec": "id:int64",
    "transforms.time.type": "org.apache.kafka.connect.transforms.TimestampConverter$Value",
    "transforms.time.field": "created",
    "transforms.time.target.type": "string",
    "transforms.time.format": "yyyy-MM-dd HH:mm:ss",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "routed-$1",
}


def records(count: int, bad_every: int = 0) -> Iterator[bytes]:
    """The values of the topic; one in `bad_every` is no JSON."""
    for number in range(count):
        if bad_every and number % bad_every == bad_every - 1:
            yield b"no JSON"
            continue
        created = _created(number)
        yield BEFORE + b'{"id":%d,"customer":"%s","created":%d}}' % (number, _customer(number).encode(), created)


def plain_lines(numbers: Iterable[int]) -> Iterator[str]:
    """Yield the lines that the file sink makes of the records as they are."""
    for number in numbers:
        yield f"Struct{{id={number},customer={_customer(number)},created={_created(number)}}}\n"


def changed_lines(numbers: Iterable[int]) -> Iterator[str]:
    """Yield the lines that it makes of them behind the transforms."""
    for number in numbers:
        at = BEGIN + timedelta(milliseconds=_created(number) - _created(0))
        yield (f"Struct{{id={number},buyer={_customer(number)},created={at:%Y-%m-%d %H:%M:%S},origin=bench}}\n")


def as_they_are(bench: Bench, side: Side) -> Figures:
    """Structs → one appended file, one task."""
    return _sink(bench, side, {}, Expected(bench, "plain"))


def with_transforms(bench: Bench, side: Side) -> Figures:
    """The same behind five transforms."""
    return _sink(bench, side, TRANSFORMS, Expected(bench, "changed"))


def with_bad_ones(bench: Bench, side: Side) -> Figures:
    """One in a thousand goes to a dead letter topic; `ratio` is to the rate without such, measured just before."""
    clean = as_they_are(bench, side)
    with bench.run("dead") as run:
        letters = run.topic()
        settings = {
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": letters,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        figures = _sink(bench, side, settings, Expected(bench, "good", BAD_EVERY))
        wanted = 2 * (_count(bench) // BAD_EVERY)  # of two connectors
        if (found := bench.topics.end(letters)) != wanted:
            raise Failed(f"wrong output: {found} dead letters instead of {wanted}")
        others = max(clean["others_cpu_pct"], figures["others_cpu_pct"])
        return {
            **figures,
            "clean_s": clean["rec_s"],
            "ratio": figures["rec_s"] / clean["rec_s"],
            "others_cpu_pct": others,
        }


class Expected:
    """The topic that is read, and the file that has to come of it; made once for all sides."""

    def __init__(self, bench: Bench, what: str, bad_every: int = 0) -> None:
        count = _count(bench)
        self.bad_every = bad_every
        self.topic = bench.shared_topic(f"structs-{bad_every}", lambda: records(count, bad_every))
        self.file = bench.directory / f"structs-{what}-{count}.txt"
        if not self.file.exists():
            good = (n for n in range(count) if not bad_every or n % bad_every != bad_every - 1)
            with self.file.open("w") as file:
                file.writelines(changed_lines(good) if what == "changed" else plain_lines(good))
        self.size = self.file.stat().st_size


def _sink(bench: Bench, side: Side, settings: Mapping[str, str], expected: Expected) -> Figures:
    with bench.run("structs") as run:
        figures, sink = backlog_into_file(run, side, expected.topic, _count(bench), expected.size, settings)
        _check(sink, expected.file)
        return figures


def _check(found: Path, want: Path) -> None:
    with found.open("rb") as have_file, want.open("rb") as want_file:
        for number, (have, wanted) in enumerate(zip(have_file, want_file, strict=True)):
            if have != wanted:
                raise Failed(f"wrong output: line {number} is {have!r}, not {wanted!r}")


def _count(bench: Bench) -> int:
    return bench.size.lines


def _customer(number: int) -> str:
    return f"customer-{number * 7919 % 100_003:06d}"


def _created(number: int) -> int:
    return int(BEGIN.timestamp() * 1000) + number * 37
