"""Connectors over records, in a file on `plugin.path`, on a real worker and broker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from tests.integration import record_plugins
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.partitions import messages
from tests.integration.worker_process import Topic, eventually, lines_of

WITHIN_S = 250
STRING = "org.apache.kafka.connect.storage.StringConverter"
SETTINGS = {
    "exactly.once.source.support": "enabled",
    "key.converter": STRING,
    "value.converter.schemas.enable": "false",
}


class Shop(ThreadingHTTPServer):
    """Answers with the prices of a higher number than `since`, ten at a time."""

    def __init__(self) -> None:
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                since = int(parse_qs(urlparse(self.path).query)["since"][0])
                found = [{"id": n, "price": n / 4} for n in range(since + 1, min(since + 11, shop.prices + 1))]
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.prices = 0
        self.url = f"http://127.0.0.1:{self.server_port}/prices"
        Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def cluster(broker_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterWorker]:
    place = tmp_path_factory.mktemp("records")
    plugins = place / "plugins"
    plugins.mkdir()
    shutil.copy(record_plugins.__file__, plugins)
    settings = {**SETTINGS, "plugin.path": str(plugins)}
    with ClusterWorker(place / "w", broker_process.bootstrap_servers, new_cluster(), settings) as worker:
        yield worker.wait_ready()


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as shop:
        yield shop
        shop.shutdown()


def records_of(path: Path) -> list[Any]:
    """The records that the sink `Lines` wrote: key, value, headers, topic, partition and offset of each."""
    return [json.loads(line) for line in lines_of(path)]


def test_a_source_and_a_sink_of_ten_lines(cluster: ClusterWorker, broker: str, shop: Shop, tmp_path: Path) -> None:
    topic, path = Topic(broker, "prices"), tmp_path / "lines"
    shop.prices = 25
    cluster.create("prices", connector_class="Prices", url=shop.url, topic=topic.name)
    cluster.create("lines", connector_class="Lines", topics=topic.name, path=str(path), token="hidden-secret")
    eventually(lambda: len(records_of(path)) == 25, WITHIN_S, cluster.log)
    shop.prices = 30
    eventually(lambda: len(records_of(path)) == 30, WITHIN_S, cluster.log)
    assert [one[:2] for one in records_of(path)] == [[str(n), {"id": n, "price": n / 4}] for n in range(1, 31)]
    assert [(m.key(), m.value()) for m in messages(broker, topic.name)][:2] == [
        (b"1", b'{"id":1,"price":0.25}'),
        (b"2", b'{"id":2,"price":0.5}'),
    ]
    eventually(lambda: cluster.offsets("prices") == [{"partition": {}, "offset": {"id": 30}}], WITHIN_S)
    assert "hidden-secret" not in cluster.log()


def test_a_source_is_told_what_is_stored(cluster: ClusterWorker, broker: str, tmp_path: Path) -> None:
    topic, path = Topic(broker, "told"), tmp_path / "told"
    cluster.create("told", connector_class="Told", path=str(path), topic=topic.name)
    eventually(lambda: lines_of(path)[-1:] == [b'{"n": 10}'], WITHIN_S, cluster.log)


def test_exactly_once_over_kills_with_partitions_shared_by_tasks(
    cluster: ClusterWorker, broker: str, tmp_path: Path
) -> None:
    topic, path = Topic(broker, "ledger"), tmp_path / "upto"
    path.write_text("90")
    cluster.create(
        "ledger", connector_class="Ledger", path=str(path), topic=topic.name, tasks_max="2",
        exactly_once_support="required",
    )  # fmt: skip
    eventually(lambda: len(messages(broker, topic.name)) == 180, WITHIN_S, cluster.log)
    end = topic.end()
    path.write_text("99")
    eventually(lambda: topic.end() > end, WITHIN_S, every_s=0.001)
    cluster.kill()
    cluster.kill_family()
    cluster.start()
    cluster.wait_ready()
    eventually(lambda: len(messages(broker, topic.name)) >= 198, WITHIN_S, cluster.log)
    found = messages(broker, topic.name)
    for shelf in range(2):
        values = [json.loads(m.value() or b"") for m in found]
        assert [one["n"] for one in values if one["shelf"] == shelf] == list(range(1, 100))
    first = json.loads(found[0].value() or b"")
    assert found[0].headers() == [("n", str(first["n"]).encode())]
    assert first["at"] == 1_767_312_000_000
    offsets = sorted(one["partition"]["shelf"] for one in cluster.offsets("ledger"))
    assert offsets == [0, 1]


def test_records_at_fault_are_dead_letters_of_source_and_sink(
    cluster: ClusterWorker, broker: str, tmp_path: Path
) -> None:
    topic, path, out = Topic(broker, "letters"), tmp_path / "upto", tmp_path / "lines"
    path.write_text("101")
    letters = {
        "errors_tolerance": "all",
        "errors_deadletterqueue_topic_replication_factor": "1",
        "errors_deadletterqueue_context_headers_enable": "true",
    }
    cluster.create(
        "letters", connector_class="Ledger", path=str(path), topic=topic.name, shelves="1", **letters,
        errors_deadletterqueue_topic_name=f"{topic.name}-source",
    )  # fmt: skip
    eventually(lambda: len(messages(broker, topic.name)) == 100, WITHIN_S, cluster.log)
    (letter,) = messages(broker, f"{topic.name}-source")
    assert letter.value() == b'{"shelf": 0, "n": 100, "at": "2026-01-02 00:00:00"}'
    told = dict(letter.headers() or [])["__connect.errors.exception.message"].decode()
    assert "field at: 2026-01-02 00:00:00 has no time zone" in told
    assert f"the value for the topic {topic.name} cannot be carried" in told
    values: list[bytes] = [b'{"bad":1}', b'{"good":2}', b'{"bad":3}']
    topic.send(values)
    cluster.create(
        "refusing", connector_class="Lines", topics=topic.name, path=str(out), **letters,
        errors_deadletterqueue_topic_name=f"{topic.name}-sink",
    )  # fmt: skip
    eventually(lambda: len(records_of(out)) == 101, WITHIN_S, cluster.log)
    eventually(lambda: len(messages(broker, f"{topic.name}-sink")) == 2, WITHIN_S, cluster.log)
    assert [m.value() for m in messages(broker, f"{topic.name}-sink")] == [values[0], values[2]]
    assert records_of(out)[-1][1] == {"good": 2}
    metrics = cluster.http.get("/metrics").text
    assert 'kafka_connect_source_task_source_record_write_total{connector="letters",task="0"} 100' in metrics
    assert 'deadletterqueue_produce_requests{connector="refusing",task="0"} 2' in metrics


def test_a_record_at_fault_fails_the_task_and_names_itself(cluster: ClusterWorker, broker: str, tmp_path: Path) -> None:
    topic, path = Topic(broker, "fails"), tmp_path / "upto"
    path.write_text("101")
    cluster.create(
        "fails", connector_class="Ledger", path=str(path), topic=topic.name, shelves="1", task_restart_enabled="false"
    )
    cluster.wait_states("fails", "FAILED", within_s=WITHIN_S)
    assert "field at: 2026-01-02 00:00:00 has no time zone" in cluster.trace("fails")
    assert '{"n":99}' in cluster.trace("fails")


def test_settings_are_validated_and_listed(cluster: ClusterWorker) -> None:
    plugins = {one["class"]: one["type"] for one in cluster.get("/connector-plugins")}
    assert (plugins["Prices"], plugins["Lines"]) == ("source", "sink")
    config = {"connector.class": "Lines", "name": "x", "topics": "t", "token": "hidden-secret"}
    answer = cluster.request("PUT", "/connector-plugins/Lines/config/validate", config)
    found = {one["value"]["name"]: one["value"] for one in answer.json()["configs"]}
    assert found["path"]["errors"]
    assert "hidden-secret" not in answer.text


def test_transforms_predicates_and_converters_of_single_records(
    cluster: ClusterWorker, broker: str, shop: Shop, tmp_path: Path
) -> None:
    topic, path = Topic(broker, "doubled"), tmp_path / "lines"
    shop.prices = 4
    chain = {
        "transforms": "double",
        "transforms_double_type": "Doubled",
        "transforms_double_field": "price",
        "transforms_double_predicate": "even",
        "predicates": "even",
        "predicates_even_type": "Even",
        "value_converter": "Pairs",
    }
    cluster.create("doubled", connector_class="Prices", url=shop.url, topic=topic.name, **chain)
    eventually(lambda: len(messages(broker, topic.name)) == 4, WITHIN_S, cluster.log)
    assert [m.value() for m in messages(broker, topic.name)] == [
        b"id=1,price=0.25",
        b"id=2,price=1.0",
        b"id=3,price=0.75",
        b"id=4,price=2.0",
    ]
    cluster.create("again", connector_class="Lines", topics=topic.name, path=str(path), **chain)
    eventually(lambda: len(records_of(path)) == 4, WITHIN_S, cluster.log)
    assert [one[1]["price"] for one in records_of(path)] == [0.25, 2.0, 0.75, 4.0]
