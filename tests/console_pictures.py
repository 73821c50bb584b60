"""Takes the pictures of the console in the documentation: `python -m tests.console_pictures [FOLDER]`.

A shop's connectors run for nine minutes on a worker and a broker of their own, under a load that comes and goes; one
has failed, one is paused, one has dead letters. Then a browser looks at them.
"""

from __future__ import annotations

import json
import math
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Page, ViewportSize

from headrace.worker.embedded.kafka_broker import Broker
from tests.held_ports import held_port
from tests.integration.browser import chromium, opened
from tests.integration.worker_process import WorkerProcess

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
SECONDS: Final = 540
SIZE: Final[ViewportSize] = {"width": 1280, "height": 800}
_RENAMED: Final = """([from, to]) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
}"""
TICK_S: Final = 0.5
TOPICS: Final = {"orders": 4, "clicks": 2, "payments": 1, "stock": 1, "invoices": 1, "sessions": 1}
JDBC_SOURCE: Final = "io.confluent.connect.jdbc.JdbcSourceConnector"
JDBC_SINK: Final = "io.confluent.connect.jdbc.JdbcSinkConnector"
DEAD_LETTERS: Final = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "invoices-dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}
CONNECTORS: Final[Mapping[str, Mapping[str, str]]] = {
    "orders-from-shop": {
        "connector.class": JDBC_SOURCE,
        "connection.url": "jdbc:sqlite:{folder}/shop.db",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "orders",
        "topic.prefix": "",
        "poll.interval.ms": "1000",
    },
    "orders-to-warehouse": {
        "connector.class": JDBC_SINK,
        "connection.url": "jdbc:sqlite:{folder}/warehouse.db",
        "topics": "orders",
        "tasks.max": "2",
        "auto.create": "true",
    },
    "clicks-from-web": {"connector.class": "FileStreamSource", "file": "{folder}/clicks.log", "topic": "clicks"},
    "clicks-to-archive": {
        "connector.class": "FileStreamSink",
        "file": "{folder}/archive.txt",
        "topics": "clicks",
        "tasks.max": "2",
    },
    "sessions-from-app": {"connector.class": "FileStreamSource", "file": "{folder}/app.log", "topic": "sessions"},
    "stock-to-search": {"connector.class": "FileStreamSink", "file": "{folder}/stock.txt", "topics": "stock"},
    "invoices-to-mail": {
        "connector.class": "FileStreamSink",
        "file": "{folder}/mail.txt",
        "topics": "invoices",
        **DEAD_LETTERS,
    },
    "payments-to-ledger": {
        "connector.class": JDBC_SINK,
        "connection.url": "jdbc:sqlite:{folder}/ledger.db",
        "topics": "payments",
    },
}
"""The connectors, as long as `{folder}` stands for the place of this run."""
NEW: Final = {
    "connection.url": "jdbc:sqlite:{folder}/billing.db",
    "topics": "orders",
    "auto.create": "true",
    "insert.mode": "upsert",
    "pk.mode": "record_value",
    "pk.fields": "id",
    "transforms": "mask,keep",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
    "transforms.keep.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.keep.exclude": "city",
    "transforms.keep.renames": "total:amount",
}
"""The connector whose preview is shown."""
CITIES: Final = ("Lisbon", "Turin", "Graz", "Ghent", "Aarhus", "Bergen")


def record(fields: Mapping[str, str], value: Mapping[str, Any]) -> bytes:
    """A struct as JsonConverter writes it."""
    schema = {"type": "struct", "fields": [{"field": name, "type": kind} for name, kind in fields.items()]}
    return json.dumps({"schema": schema, "payload": value}).encode()


@dataclass
class Load:
    """The shop's traffic, which comes and goes."""

    folder: Path
    producer: Any
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    number: int = 0

    def some(self, per_s: float, period_s: float, at_s: float) -> range:
        """The numbers of the next records of a stream whose rate swings."""
        swing = 1 + 0.55 * math.sin(2 * math.pi * at_s / period_s) + self.chance.uniform(-0.2, 0.2)
        begin = self.number
        self.number += max(0, round(per_s * TICK_S * swing))
        return range(begin, self.number)

    def tick(self, at_s: float) -> None:
        """Half a second of it."""
        orders = [
            (self.chance.choice(CITIES), f"4929 55{one % 90 + 10} {one % 9000 + 1000}", self.chance.randint(5, 400) / 4)
            for one in self.some(110, 110, at_s)
        ]
        with closing(sqlite3.connect(self.folder / "shop.db", timeout=30)) as shop, shop:
            shop.executemany("INSERT INTO orders (city, card, total) VALUES (?, ?, ?)", orders)
        self._append("clicks.log", (f"GET /item/{one} 200" for one in self.some(900, 75, at_s)))
        self._append("app.log", (f"session {one} begins" for one in self.some(180, 150, at_s)))
        for one in self.some(12, 90, at_s):
            self.producer.produce("stock", record({"item": "int32", "left": "int32"}, {"item": one, "left": one % 40}))
        for one in self.some(20, 90, at_s):
            whole = record({"invoice": "int32", "to": "string"}, {"invoice": one, "to": f"customer-{one}@example.com"})
            self.producer.produce("invoices", whole if self.chance.random() > 0.004 else whole[:-12])
        payment = {"id": self.number, "amount": 12.5}
        self.producer.produce("payments", record({"id": "int32", "amount": "double"}, payment))
        self.producer.poll(0)

    def _append(self, name: str, lines: Iterator[str]) -> None:
        with open(self.folder / name, "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)


@contextmanager
def shop(folder: Path) -> Iterator[WorkerProcess]:
    """A worker with the shop's connectors and their traffic."""
    broker = Broker(folder / "kafka", held_port())
    broker.start()
    try:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        topics = [NewTopic(name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()]
        admin = AdminClient(servers)
        for made in admin.create_topics(topics).values():
            made.result(60)
        with closing(sqlite3.connect(folder / "shop.db")) as database, database:
            database.execute("PRAGMA journal_mode = WAL")  # the source's readers hold up no order
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, city TEXT, card TEXT, total REAL)")
        (folder / "ledger.db").touch()
        (folder / "clicks.log").touch()
        (folder / "app.log").touch()
        with WorkerProcess(folder / "worker", broker.bootstrap_servers) as worker:
            worker.wait_ready()
            for name, config in CONNECTORS.items():
                worker.request("PUT", f"/connectors/{name}/config", placed(config, folder))
            for name, config in CONNECTORS.items():
                worker.wait_states(name, *["RUNNING"] * int(config.get("tasks.max", "1")))
            with moving(Load(folder, Producer(servers))):
                worker.wait_states("payments-to-ledger", "FAILED")
                worker.request("PUT", "/connectors/stock-to-search/pause")
                yield worker
    finally:
        broker.stop()


@contextmanager
def moving(load: Load) -> Iterator[None]:
    """The load goes on, in a thread of its own."""
    ended = threading.Event()
    began = time.monotonic()

    def work() -> None:
        while not ended.wait(TICK_S):
            load.tick(time.monotonic() - began)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def placed(config: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The settings in the place of this run."""
    return {key: value.replace("{folder}", str(folder)) for key, value in config.items()}


class Camera:
    """Takes pictures of a page; the place of this run is `/srv` on them."""

    def __init__(self, page: Page, folder: Path, place: Path) -> None:
        self.page = page
        self._folder = folder
        self._place = place

    def take(self, name: str) -> None:
        self.page.evaluate(_RENAMED, [str(self._place), "/srv"])
        self.page.screenshot(path=self._folder / f"console-{name}.png")

    def preview(self) -> None:
        """The preview in the form of a new connector."""
        self.page.goto(f"/console/new?plugin={JDBC_SINK}")
        self.page.locator("#name").fill("orders-to-billing")
        lines = [f"{key}={value}" for key, value in placed(NEW, self._place).items()]
        self.page.locator("#others").fill("\n".join(lines))
        self.page.get_by_role("button", name="Preview", exact=True).click()
        self.page.locator("#result .record").first.wait_for()
        self.page.locator("#result").evaluate("result => result.scrollIntoView()")
        self.take("preview")


def main(folder: Path) -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as made, shop(Path(made)) as worker:
        time.sleep(SECONDS)
        with chromium() as browser:
            page = opened(browser, worker.url, viewport=SIZE)
            camera = Camera(page, folder, Path(made))
            for name, path in (
                ("overview", "overview"),
                ("connector", "connectors/orders-to-warehouse"),
                ("dead-letters", "connectors/invoices-to-mail/dead-letters"),
            ):
                page.goto(f"/console/{path}")
                camera.take(name)
            camera.preview()
            page.emulate_media(color_scheme="dark")
            page.goto("/console/overview")
            camera.take("overview-dark")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
