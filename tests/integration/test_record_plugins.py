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
    """What the sink `Lines` wrote: key, value, headers, topic, partition and offset of each record."""
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
