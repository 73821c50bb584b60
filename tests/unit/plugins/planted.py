"""A shop over HTTP, a source and a sink for it that are right, and ones with a bug each that a kit is to find."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx

from headrace.plugins import Effect, Record, RecordsFailed, RecordSink, RecordSource, RetriableError, Setting
from headrace.plugins.contracts import Connector
from headrace.plugins.testkit import HttpOutside, Request, SinkRig, SourceRig

PAGE = 1_000


class Shop(HttpOutside):
    """Gives rows by pages, and takes rows, which stand there once `/commit` was called."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.staged: list[dict[str, Any]] = []

    def answer(self, request: Request) -> Any:
        if request.method == "GET":
            since = int(request.query["since"])
            return {"rows": self.rows[since : since + PAGE], "count": len(self.rows)}
        if request.path == "/commit":
            self.rows, self.staged = self.rows + self.staged, []
            return {}
        rows = request.json()
        refused = [number for number, row in enumerate(rows) if row["text"] in self.refused]
        self.staged += [row for number, row in enumerate(rows) if number not in refused]
        return (422 if refused else 200), {"refused": refused}

    def put(self, values: Sequence[Any]) -> None:
        self.rows += [{"id": number, "text": text} for number, text in enumerate(values, len(self.rows) + 1)]


def checked(answer: httpx.Response) -> Any:
    if answer.status_code >= 500:
        raise RetriableError(f"the shop answered {answer.status_code}")
    if answer.status_code != 422:
        answer.raise_for_status()
    return answer.json()


# -- sources -----------------------------------------------------------------------------------------------------------


class Prices(RecordSource):
    settings = [Setting("url"), Setting("topic", "prices")]  # noqa: RUF012
    retriable = (OSError, httpx.TransportError)

    def open(self) -> None:
        self.http = httpx.Client(base_url=self.config["url"], timeout=60)

    def poll(self, after: Any) -> Iterator[Record]:
        for row in self.page((after or {"id": 0})["id"])["rows"]:
            yield Record(row["text"], key=str(row["id"]), offset={"id": row["id"]})

    def page(self, since: int) -> Any:
        return checked(self.http.get("/", params={"since": since}))

    def close(self) -> None:
        self.http.close()


class SwallowsFailures(Prices):
    def page(self, since: int) -> Any:
        answer = self.http.get("/", params={"since": since})
        return answer.json() if answer.status_code == 200 else {"rows": []}


class FailsForEverything(Prices):
    def page(self, since: int) -> Any:
        return self.http.get("/", params={"since": since}).raise_for_status().json()


class TriesForEver(Prices):
    retriable = (Exception,)


class DropsNulls(Prices):
    def poll(self, after: Any) -> Iterator[Record]:
        return (record for record in super().poll(after) if record.value)


class DropsEqualValues(Prices):
    def poll(self, after: Any) -> Iterator[Record]:
        return (next(equal) for _, equal in itertools.groupby(super().poll(after), lambda record: record.value))


class SkipsAllBehindThePage(Prices):
    def poll(self, after: Any) -> Iterator[Record]:
        page = self.page((after or {"id": 0})["id"])
        for row in page["rows"]:
            is_last = row is page["rows"][-1]
            yield Record(row["text"], offset={"id": page["count"] if is_last else row["id"]})


class SkipsARow(Prices):
    def poll(self, after: Any) -> Iterator[Record]:
        for record in super().poll(after):
            record.offset = {"id": record.offset["id"] + 1}
            yield record


class SendsTheLastRowAgain(Prices):
    def page(self, since: int) -> Any:
        return super().page(max(0, since - 1))


class Keeps_NoPlace(Prices):
    names = itertools.count()

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        return [{"shop": next(self.names)}]

    def poll(self, after: Any, partition: Any) -> Iterator[Record]:
        return super().poll(after)


class SourceShop(SourceRig):
    has_nulls = True
    replays_equal = True

    def __init__(self, connector: type[Connector] = Prices) -> None:
        self.outside: Shop = Shop()
        self.made = connector

    def connector(self) -> Connector:
        return self.made()

    def config(self) -> dict[str, str]:
        return {"url": self.outside.url, "topic": "prices"}

    def put(self, values: Sequence[Any]) -> None:
        self.outside.put(values)


# -- sinks -------------------------------------------------------------------------------------------------------------


class Orders(RecordSink):
    settings = [Setting("url")]  # noqa: RUF012
    retriable = (OSError, httpx.TransportError)

    def open(self) -> None:
        self.http = httpx.Client(base_url=self.config["url"], timeout=60)

    def put(self, records: Sequence[Record]) -> None:
        failed: dict[int, str] = {}
        for first in range(0, len(records), PAGE):
            rows = [{"text": record.value} for record in records[first : first + PAGE]]
            failed |= {first + number: "refused" for number in self.post(rows)["refused"]}
        if failed:
            raise RecordsFailed(failed)

    def post(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        return checked(self.http.post("/rows", json=rows))

    def flush(self) -> None:
        checked(self.http.post("/commit"))

    def close(self) -> None:
        self.http.close()


class Tells(Orders):
    def would_write(self, records: Sequence[Record]) -> Any:
        return [Effect("POST", self.config["url"], {"text": one.value}, row) for row, one in enumerate(records)]


class WritesInItsPreview(Tells):
    def would_write(self, records: Sequence[Record]) -> Any:
        self.open()
        self.put(records)
        self.flush()
        self.close()
        return super().would_write(records)


class TellsWhatItDoesNotWrite(Tells):
    def would_write(self, records: Sequence[Record]) -> Any:
        return [replace(one, detail={"text": one.detail["text"].strip()}) for one in super().would_write(records)]


class TellsOfSomeOnly(Tells):
    def would_write(self, records: Sequence[Record]) -> Any:
        return super().would_write(records)[: PAGE // 100]


class NamesNoRecord(Tells):
    def would_write(self, records: Sequence[Record]) -> Any:
        return [replace(one, row=None) for one in super().would_write(records)]


class LosesTheFlush(Orders):
    def flush(self) -> None:
        pass


class KeepsTheRestOfAPage(Orders):
    """Sends whole pages only, and what is left with the next batch."""

    def put(self, records: Sequence[Record]) -> None:
        self.held = [*getattr(self, "held", ()), *records]
        whole = len(self.held) // 5 * 5
        super().put(self.held[:whole])
        self.held = self.held[whole:]


class SwallowsAFailedFlush(Orders):
    def flush(self) -> None:
        self.http.post("/commit")


class SwallowsFailedRequests(Orders):
    def post(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        answer = self.http.post("/rows", json=rows)
        return answer.json() if answer.status_code in (200, 422) else {"refused": []}


class CountsRefusedAsWritten(Orders):
    def post(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        super().post(rows)
        return {"refused": []}


class NamesTheNextRecord(Orders):
    def post(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        return {"refused": [number + 1 for number in super().post(rows)["refused"]]}


class FailsAllForOne(Orders):
    def post(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        return {"refused": range(len(rows)) if super().post(rows)["refused"] else []}


class WritesOnePageOnly(Orders):
    def put(self, records: Sequence[Record]) -> None:
        super().put(records[:PAGE])


class DropsTombstones(Orders):
    def put(self, records: Sequence[Record]) -> None:
        super().put([record for record in records if record.value is not None])


class DropsEmptyAndEqualRows(Orders):
    def put(self, records: Sequence[Record]) -> None:
        super().put(list({record.value: record for record in records}.values()))


class TriesForEverToWrite(Orders):
    retriable = (Exception,)


class FailsForEveryAnswer(Orders):
    def post(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        answer = self.http.post("/rows", json=rows)
        return answer.json() if answer.status_code == 422 else answer.raise_for_status().json()


class NeverConnectsAgain(Orders):
    is_lost = False

    def post(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        if self.is_lost:
            raise ConnectionError("the connection is closed")
        try:
            return super().post(rows)
        except httpx.TransportError:
            self.is_lost = True
            raise


class TakesTextHeadersOnly(Orders):
    def put(self, records: Sequence[Record]) -> None:
        for record in records:
            assert all(value.decode() is not None for _, value in record.headers)
        super().put(records)


class SinkShop(SinkRig):
    def __init__(self, connector: type[Connector] = Orders) -> None:
        self.outside: Shop = Shop()
        self.made = connector

    def connector(self) -> Connector:
        return self.made()

    def config(self) -> dict[str, str]:
        return {"url": self.outside.url}

    def contents(self) -> list[Any]:
        return [row["text"] for row in self.outside.rows]

    def previewed(self, effects: Sequence[Effect]) -> list[Any]:
        return [effect.detail["text"] for effect in effects]
