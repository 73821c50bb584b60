"""Topics into Delta tables by a real worker: each record once, whatever is killed; upserts are the topic's fold."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 2
ROW = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "text", "type": "string", "optional": True},
    ],
}
SOON_FORGOTTEN = {"consumer.override.session.timeout.ms": "6000", "consumer.override.heartbeat.interval.ms": "2000"}
JSON = "org.apache.kafka.connect.json.JsonConverter"


def value(number: int, text: str | None) -> bytes:
    return json.dumps({"schema": ROW, "payload": {"id": number, "text": text}}).encode()


class Sink:
    """A sink's topic, its table and its config."""

    def __init__(self, bootstrap: str, folder: Path, name: str, **settings: str) -> None:
        self.topic, self.path = Topic(bootstrap, name, PARTITIONS), folder / name
        self.config = {
            "connector.class": "DeltaSink",
            "topics": self.topic.name,
            "table.path": str(self.path),
            "key.converter": "org.apache.kafka.connect.converters.LongConverter",
            "value.converter": JSON,
            "tasks.max": "2",
            "commit.interval.ms": "200",
            **settings,
        }

    def rows(self) -> list[dict[str, Any]]:
        if not (self.path / "_delta_log").exists():
            return []
        return DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]


class Changes:
    """Random writes and tombstones of keys, and what they come to."""

    def __init__(self, sink: Sink, chance: random.Random) -> None:
        self.sink, self.chance, self.fold = sink, chance, dict[int, str]()
        self.sent = 0

    def send(self, count: int) -> None:
        for partition in range(PARTITIONS):
            keys = [PARTITIONS * self.chance.randrange(300) + partition for _ in range(count)]
            values = list[bytes | None]()
            for key in keys:
                self.sent += 1
                if self.chance.random() < 0.2:
                    self.fold.pop(key, None)
                    values.append(None)
                else:
                    self.fold[key] = f"write {self.sent}"
                    values.append(value(key, self.fold[key]))
            self.sink.topic.send(values, partition, [key.to_bytes(8, "big") for key in keys])

    def found(self) -> list[tuple[int, str]]:
        return sorted((row["id"], row["text"]) for row in self.sink.rows())


def send(sink: Sink, first: int, count: int) -> None:
    for partition in range(PARTITIONS):
        sink.topic.send([value(number, f"of {partition}") for number in range(first, first + count)], partition)


@pytest.mark.soak
@pytest.mark.parametrize(("share", "kills", "seed"), [(3_000, 1, 1), (20_000, 15, 2)])
@pytest.mark.timeout(1800)
def test_a_worker_killed_at_random_moments_writes_each_record_once(
    broker: str, tmp_path: Path, share: int, kills: int, seed: int
) -> None:
    chance = random.Random(seed)
    appends = Sink(broker, tmp_path, "appends", **SOON_FORGOTTEN)
    upserts = Sink(broker, tmp_path, "upserts", **SOON_FORGOTTEN, **{"write.mode": "upsert", "id.columns": "id"})
    changes = Changes(upserts, chance)
    files = [connector_file(tmp_path, name, **sink.config) for name, sink in (("a", appends), ("u", upserts))]
    with WorkerProcess(tmp_path / "worker", broker, files) as worker:
        for kill in range(kills):
            send(appends, kill * share, share)
            changes.send(share // 10)
            wanted = len(appends.rows()) + chance.randrange(1, PARTITIONS * share // 2)
            eventually(lambda: len(appends.rows()) >= wanted, 120, worker.log, every_s=0.02)  # noqa: B023
            worker.kill()
            worker.start()
        send(appends, kills * share, share)
        changes.send(share // 10)
        total = share * (kills + 1)
        eventually(lambda: len(appends.rows()) >= PARTITIONS * total, 180, worker.log, every_s=0.5)
        eventually(lambda: changes.found() == sorted(changes.fold.items()), 180, worker.log, every_s=0.5)
        worker.wait_states("a", "RUNNING", "RUNNING")
        worker.wait_states("u", "RUNNING", "RUNNING")
        assert worker.stop() == 0
    found = Counter((row["id"], row["text"]) for row in appends.rows())
    assert found == Counter((number, f"of {partition}") for number in range(total) for partition in range(PARTITIONS))


def test_a_backlog_is_written_by_jobs(worker: WorkerProcess, broker: str, tmp_path: Path) -> None:
    sink = Sink(broker, tmp_path, "backlog")
    send(sink, 0, 1)
    worker.create("backlog", **sink.config)
    eventually(lambda: len(sink.rows()) == PARTITIONS, 120, worker.log, every_s=0.1)
    worker.request("PUT", "/connectors/backlog/stop")
    eventually(lambda: worker.get("/connectors/backlog/status")["connector"]["state"] == "STOPPED", 60, worker.log)
    send(sink, 1, 60_000)
    worker.request("PUT", "/connectors/backlog/resume")
    eventually(lambda: len(sink.rows()) >= PARTITIONS * 60_001, 240, worker.log, every_s=0.5)
    assert Counter(row["id"] for row in sink.rows()) == dict.fromkeys(range(60_001), PARTITIONS)
    assert re.search(r"backlog-[01]: a job moved \d{5,6} rows", worker.log())


def test_an_operator_moves_offsets(worker: WorkerProcess, broker: str, tmp_path: Path) -> None:
    sink = Sink(broker, tmp_path, "moved")
    send(sink, 0, 5)
    worker.create("moved", **sink.config)
    eventually(lambda: len(sink.rows()) == 10, 120, worker.log, every_s=0.1)
    worker.request("PUT", "/connectors/moved/stop")
    eventually(lambda: worker.get("/connectors/moved/status")["connector"]["state"] == "STOPPED", 60, worker.log)
    place = {"kafka_topic": sink.topic.name, "kafka_partition": 1}
    body = {"offsets": [{"partition": place, "offset": {"kafka_offset": 3}}]}
    assert worker.request("PATCH", "/connectors/moved/offsets", json=body).status_code == 200
    worker.request("PUT", "/connectors/moved/resume")
    eventually(lambda: len(sink.rows()) == 12, 120, worker.log, every_s=0.1)
    twice = [
        number for (number, text), count in Counter(map(tuple, map(dict.values, sink.rows()))).items() if count > 1
    ]
    assert sorted(twice) == [3, 4]
