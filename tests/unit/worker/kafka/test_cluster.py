"""The time since which Kafka does not answer."""

from __future__ import annotations

from headrace.config.worker.config import WorkerConfig
from headrace.worker.kafka.cluster import KafkaCluster

NOBODY = {
    "bootstrap.servers": "127.0.0.1:1",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    "offset.storage.file.filename": "unused",
}


def test_it_is_away_since_it_was_first_found_so() -> None:
    now = 100.0
    cluster = KafkaCluster(WorkerConfig.standalone(NOBODY), lambda: now)
    assert cluster.away_seconds(0.2) == 0.0
    now = 130.0
    assert cluster.away_seconds(0.2) == 30.0
    now = 190.0
    assert cluster.away_seconds(0.2) == 90.0
    now = 251.0
    assert cluster.away_seconds(0.2) == 0.0, "nobody asked for more than a minute"
