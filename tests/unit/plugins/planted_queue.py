"""A queue over HTTP, a source of it that acknowledges what is stored, and ones with a bug each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from headrace.plugins import Record, RecordSource, Setting
from headrace.plugins.contracts import Connector
from headrace.plugins.testkit import HttpOutside, Request, SourceRig
from tests.unit.plugins.planted import checked


class Queue(HttpOutside):
    """Gives each message once, and again after `/release`, until its number was acknowledged by `/ack`."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []
        self.waiting: set[int] = set()
        self.taken: set[int] = set()

    def answer(self, request: Request) -> Any:
        if request.method == "GET":
            given = sorted(self.waiting)[:100]
            self.waiting -= set(given)
            self.taken |= set(given)
            return [{"id": number, "text": self.messages[number]} for number in given]
        if request.path == "/ack":
            self.taken -= set(request.json())
        else:
            self.waiting, self.taken = self.waiting | self.taken, set()
        return None

    def put(self, values: Sequence[Any]) -> None:
        self.messages += values
        self.waiting |= set(range(len(self.messages) - len(values), len(self.messages)))


class Jobs(RecordSource):
    settings = (Setting("url"), Setting("topic"))
    retriable = (OSError, httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)

    def open(self) -> None:
        self.http = httpx.Client(base_url=self.config["url"], timeout=60)
        self.taken: dict[int, int] = {}
        self.is_unsure = True

    def poll(self, after: Any) -> Iterator[Record]:
        n = (after or {"n": 0})["n"]
        self.taken = {one: message for one, message in self.taken.items() if one <= n}
        if self.is_unsure:
            checked(self.http.post("/release"))
        self.is_unsure = True
        for message in checked(self.http.get("/")):
            if message["id"] not in self.taken.values():
                n += 1
                self.taken[n] = message["id"]
                yield Record(message["text"], offset={"n": n})
        self.is_unsure = False

    def stored(self, offset: Any) -> None:
        done = [n for n in list(self.taken) if n <= offset["n"]]
        checked(self.http.post("/ack", json=[self.taken[n] for n in done]))
        for n in done:
            self.taken.pop(n, None)

    def close(self) -> None:
        self.http.close()


class AcknowledgesWhatIsOnItsWay(Jobs):
    def poll(self, after: Any) -> Iterator[Record]:
        if after is not None:
            super().stored(after)
        yield from super().poll(after)


class AcknowledgesAll(Jobs):
    def stored(self, offset: Any) -> None:
        super().stored({"n": max(self.taken)})


class QueueRig(SourceRig):
    forgets = True

    def __init__(self, connector: type[Connector] = Jobs) -> None:
        self.outside: Queue = Queue()
        self.made = connector

    def connector(self) -> Connector:
        return self.made()

    def config(self) -> dict[str, str]:
        return {"url": self.outside.url, "topic": "jobs"}

    def put(self, values: Sequence[Any]) -> None:
        self.outside.put(values)
