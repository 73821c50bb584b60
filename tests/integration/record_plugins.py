"""A stranger's connectors over records, in one file. For `plugin.path`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from headrace.plugins import (
    Record,
    RecordConverter,
    RecordPredicate,
    RecordsFailed,
    RecordSink,
    RecordSource,
    RecordTransform,
    Setting,
)


class Prices(RecordSource):
    """Prices of a shop's API."""

    settings = (Setting("url"), Setting("topic"))

    def poll(self, after: Any) -> Iterator[Record]:
        for p in httpx.get(self.config["url"], params={"since": (after or {"id": 0})["id"]}).json():
            yield Record(p, key=p["id"], offset={"id": p["id"]})


class Lines(RecordSink):
    """Appends records to a file, as JSON; a value that has `bad` is refused."""

    settings = (Setting("path"), Setting("token", "none", secret=True))

    def put(self, records: Sequence[Record]) -> None:
        good = [r for r in records if not isinstance(r.value, dict) or "bad" not in r.value]
        with open(self.config["path"], "a") as file:
            for r in good:
                headers = [(name, value.decode()) for name, value in r.headers]
                shown = [r.key, r.value, headers, r.topic, r.partition, r.offset]
                file.write(json.dumps(shown, default=str) + "\n")
        if len(good) < len(records):
            raise RecordsFailed({n: "it is bad" for n, r in enumerate(records) if r not in good})


@dataclass
class Entry:
    """A row of a ledger."""

    shelf: int
    n: int
    at: datetime


class Ledger(RecordSource):
    """Numbers each of its shelves up to what the file `path` says; every hundredth has no time zone."""

    settings = (Setting("path"), Setting("topic"), Setting("shelves", 2))
    value_schema = Entry
    poll_interval_s = 0.1

    def partitions(self) -> Sequence[Any]:
        return [{"shelf": n} for n in range(self.config["shelves"])]

    def poll(self, after: Any, partition: Any) -> Iterator[Record]:
        with open(self.config["path"]) as file:
            upto = int(file.read())
        for n in range((after or {"n": 0})["n"] + 1, upto + 1):
            zone = None if n % 100 == 0 else UTC
            entry = Entry(partition["shelf"], n, datetime(2026, 1, 2, tzinfo=zone))
            yield Record(entry, key=f"{partition['shelf']}-{n}", headers={"n": str(n)}, offset={"n": n})


class Told(RecordSource):
    """Ten numbers; writes what it is told to be stored to the file `path`."""

    settings = (Setting("path"), Setting("topic"))

    def poll(self, after: Any) -> Iterator[Record]:
        for n in range((after or {"n": 0})["n"] + 1, 11):
            yield Record(n, offset={"n": n})

    def stored(self, offset: Any) -> None:
        with open(self.config["path"], "a") as file:
            file.write(json.dumps(offset) + "\n")


class Doubled(RecordTransform):
    """Doubles a field."""

    settings = (Setting("field"),)

    def change(self, record: Record) -> Record:
        record.value[self.config["field"]] *= 2
        return record


class Even(RecordPredicate):
    """Chooses even ids."""

    def matches(self, record: Record) -> bool:
        return bool(record.value["id"] % 2 == 0)


class Pairs(RecordConverter):
    """A dict as `name=value` pairs."""

    def from_bytes(self, data: bytes) -> Any:
        pairs = (pair.split("=") for pair in data.decode().split(","))
        return {name: float(value) for name, value in pairs}

    def to_bytes(self, value: Any) -> bytes:
        return ",".join(f"{name}={one}" for name, one in value.items()).encode()
