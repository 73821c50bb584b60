"""`kill -9` of the worker, and of the server, in mid-load: the last state of every key is right, nothing is lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.opensearch_server import OpenSearchServer
from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 2
KEYS = 500
"""For each partition."""
STRING = "org.apache.kafka.connect.storage.StringConverter"
SOON_FORGOTTEN = {"consumer_override_session_timeout_ms": "6000", "consumer_override_heartbeat_interval_ms": "2000"}


class Load:
    """A topic of changes to some keys, one in ten of them a deletion, and what has to be left of it."""

    def __init__(self, bootstrap: str, server: OpenSearchServer, folder: Path, seed: int) -> None:
        self.topic, self.server = Topic(bootstrap, "changes", partitions=PARTITIONS), server
        self._chance, self._sent = random.Random(seed), 0
        self.wanted: dict[str, dict[str, int]] = {}
        self.connector = connector_file(
            folder,
            "sink",
            **SOON_FORGOTTEN,
            connector_class="io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
            topics=self.topic.name,
            tasks_max=str(PARTITIONS),
            connection_url=server.url,
            read_timeout_ms="30000",
            key_converter=STRING,
            value_converter_schemas_enable="false",
            value_converter="org.apache.kafka.connect.json.JsonConverter",
            schema_ignore="true",
            behavior_on_null_values="delete",
            batch_size="500",
        )

    def send(self, count: int) -> None:
        """So many more changes are in each partition; the last one of each key counts."""
        for partition in range(PARTITIONS):
            keys, values = list[bytes](), list[bytes | None]()
            for _ in range(count):
                key = f"{partition}-{self._chance.randrange(KEYS)}"
                self._sent += 1
                is_deleted = self._chance.random() < 0.1
                keys.append(key.encode())
                values.append(None if is_deleted else json.dumps({"n": self._sent}).encode())
                if is_deleted:
                    self.wanted.pop(key, None)
                else:
                    self.wanted[key] = {"n": self._sent}
            self.topic.send(values, partition, keys)

    def has_begun(self, after: int) -> Callable[[], bool]:
        """True once a document of a change after so many is there."""

        def found() -> bool:
            try:
                return any(one["n"] > after for one in self.server.documents(self.topic.name).values())
            except OSError:
                return False

        return found

    @property
    def sent(self) -> int:
        """The number of all changes."""
        return self._sent

    def check(self, worker: WorkerProcess) -> None:
        """The last state of each key is there, and no other document."""
        eventually(lambda: self.server.documents(self.topic.name) == self.wanted, 240, worker.log)


@pytest.mark.soak
def test_the_worker_and_the_server_killed_in_mid_load(
    broker: str, opensearch_process: OpenSearchServer, opensearch: OpenSearchServer, tmp_path: Path
) -> None:
    load = Load(broker, opensearch, tmp_path, seed=4)
    with WorkerProcess(tmp_path, broker, [load.connector]) as worker:
        for kill in ("worker", "server", "worker"):
            before = load.sent
            load.send(15_000)
            eventually(load.has_begun(before), 240, worker.log, every_s=0.05)
            if kill == "worker":
                worker.kill()
                worker.start()
            else:
                opensearch_process.kill()
                opensearch_process.start()
        load.send(1000)
        load.check(worker)
        worker.wait_states("sink", *["RUNNING"] * PARTITIONS)
        assert "Delete the index" not in worker.log(), "no key is in two partitions"
        assert worker.stop() == 0
    load.check(worker)
