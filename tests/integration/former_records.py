"""The internal topics of a cluster of 0.1 as text, and the connectors that wrote them.

`python -m tests.integration.former_records` writes `former_records_0.1.jsonl` anew, a record a line: once, for a
release. A later release gets a file of its own, and those of former ones stay.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.worker.embedded.kafka_broker import Broker
from tests.held_ports import held_port
from tests.integration import partitions
from tests.integration.cluster_worker import ClusterWorker
from tests.integration.worker_process import SINK, SOURCE, eventually

FILE: Final = Path(__file__).with_name("former_records_0.1.jsonl")
SUFFIXES: Final = ("configs", "offsets", "status", "history")
HISTORY: Final = "config.history.topic"
TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
ONE_PARTITION: Final = {"offset.storage.partitions": "1", "status.storage.partitions": "1"}


_NO_KEY: Final = "A" * 43 + "="
"""Stands in the file for the cluster's session key."""


class FormerRecord(NamedTuple):
    """A record; `{dir}` in its texts stands for the folder of the connectors' files."""

    topic: str
    key: str | None
    value: str | None


def recorded() -> list[FormerRecord]:
    """All records, in their order."""
    return [FormerRecord(*json.loads(line)) for line in FILE.read_text(encoding="utf-8").splitlines()]


def configs(folder: str) -> dict[str, dict[str, str]]:
    """The connectors by name; each stored an offset, but for the sink."""
    return {
        "file": {"connector.class": SOURCE, "file": f"{folder}/lines.txt", "topic": "former-file"},
        "jdbc": {
            "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
            "connection.url": f"jdbc:sqlite:{folder}/shop.db",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": "orders",
            "topic.prefix": "former-",
            "poll.interval.ms": "200",
        },
        "logs": {
            "connector.class": "LogFiles",
            "paths": f"{folder}/*.log",
            "topic": "former-logs",
            "value.converter": TEXT,
            "key.converter": TEXT,
        },
        "sink": {"connector.class": SINK, "file": f"{folder}/out.txt", "topics": "former-file"},
    }


def fill(folder: Path, number: int) -> None:
    """Each source has a record more: this number."""
    for name in ("lines.txt", "app.log"):
        with (folder / name).open("a") as file:
            file.write(f"{number}\n")
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY)")
        database.execute("INSERT INTO orders VALUES (?)", (number,))


def internal(bootstrap: str, cluster: str) -> Iterator[FormerRecord]:
    """The records of the cluster's topics."""
    for suffix in SUFFIXES:
        for message in partitions.messages(bootstrap, f"{cluster}-{suffix}"):
            yield FormerRecord(suffix, _text(message, "key"), _text(message, "value"))


def write(bootstrap: str, cluster: str, folder: Path) -> None:
    """A new cluster's topics hold the records, of connectors of this folder."""
    topics = [NewTopic(f"{cluster}-{one}", 1, 1, config={"cleanup.policy": "compact"}) for one in SUFFIXES]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for record in recorded():
        key, value = (text and _restored(text, folder).encode() for text in record[1:])
        producer.produce(f"{cluster}-{record.topic}", value, key)
    assert producer.flush(60) == 0


def members(record: FormerRecord) -> set[str]:
    """The members of a record's value, each with the record's kind and with its type, but for nulls."""
    name = next((one for one in _KINDS if (record.key or "").startswith(one)), record.key or "")
    if record.topic != "configs" and name == record.key:  # a history's or an offset's, in JSON
        key = json.loads(name)
        name = key[0] if isinstance(key, list) else "revision"
    return set() if record.value is None else set(_members(f"{record.topic} {name}", json.loads(record.value)))


_KINDS: Final = (
    "connector-",
    "task-",
    "commit-",
    "target-state-",
    "restart-connector-",
    "status-connector-",
    "status-task-",
    "status-topic-",
)


def _members(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and not path.endswith((".config", ".properties")):
        for name, one in value.items():
            yield from _members(f"{path}.{name}", one)
    elif value is not None:
        yield f"{path}: {type(value).__name__}"


def _text(message: Message, part: str) -> str | None:
    data: bytes | None = getattr(message, part)()
    return None if data is None else data.decode()


def _restored(text: str, folder: Path) -> str:
    """The text for this folder; a log's offset names the file that is there by its number, too."""
    text = text.replace("{dir}", str(folder))
    there = os.stat(folder / "app.log")
    numbers = {"_inode": there.st_ino, "_device": there.st_dev, "_modified": there.st_mtime_ns // 1000}
    for name, number in numbers.items():
        text = re.sub(rf'"{name}":-?\d+', f'"{name}":{number}', text)
    return text


def main() -> None:
    """Record."""
    with tempfile.TemporaryDirectory() as scratch, Broker(Path(scratch) / "kafka", held_port()) as broker:
        folder, bootstrap = Path(scratch) / "d", broker.bootstrap_servers
        folder.mkdir()
        for number in (1, 2, 3):
            fill(folder, number)
        settings = {HISTORY: "former-history", "config.history.replication.factor": "1", **ONE_PARTITION}
        with ClusterWorker(Path(scratch) / "worker", bootstrap, "former", settings) as worker:
            worker.wait_ready()
            for name, config in configs(str(folder)).items():
                worker.request("PUT", f"/connectors/{name}/config", config)
            for name in ("file", "jdbc", "logs"):
                eventually(lambda name=name: worker.get(f"/connectors/{name}/offsets")["offsets"], 120, worker.log)
            eventually(lambda: (folder / "out.txt").exists(), 60, worker.log)
            worker.request("PUT", "/connectors/gone/config", {**configs(str(folder))["file"], "topic": "former-gone"})
            worker.request("PUT", "/connectors/jdbc/pause")
            worker.request("PUT", "/connectors/sink/stop")
            worker.request("POST", "/connectors/file/restart?includeTasks=true")
            worker.request("DELETE", "/connectors/gone")
            paused = ["PAUSED", "PAUSED"]
            eventually(
                lambda: states(worker, "jdbc") == paused and states(worker, "sink") == ["STOPPED"], 60, worker.log
            )
            eventually(lambda: states(worker, "file") == ["RUNNING"] * 2, 60, worker.log)
            assert worker.stop() == 0
        found = [[part and part.replace(str(folder), "{dir}") for part in one] for one in internal(bootstrap, "former")]
        text = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in found)
        FILE.write_text(re.sub(r'("\{\\"key\\":\\")[^\\]+', rf"\1{_NO_KEY}", text), encoding="utf-8")


def states(worker: ClusterWorker, name: str) -> list[str]:
    """The states of a connector and its tasks."""
    status = worker.get(f"/connectors/{name}/status")
    return [one["state"] for one in (status["connector"], *status["tasks"])]


if __name__ == "__main__":
    main()
