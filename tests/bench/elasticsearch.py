"""Measures the Elasticsearch sink beside a plain Python loop over the same topic, into one OpenSearch.

The server's processor time is nobody's; the loop has the official client's bulk helper (`tests/bench/python_bulk.py`).
"""

import json
import subprocess
import sys
from collections.abc import Iterator

from tests.bench.context import Bench, Figures
from tests.bench.record_connectors import FIELDS
from tests.bench.sides import Side
from tests.bench.throughput import COMMIT_INTERVAL, figures_of
from tests.integration.opensearch_server import OpenSearchServer

BOUND_S = 900
LINES_A_RECORD = 20
"""A document costs the server more than a line costs a file: a measure has this many times fewer."""
PLAIN = {"value.converter.schemas.enable": "false", **COMMIT_INTERVAL}
CONFLUENT = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"


def sink(bench: Bench, side: Side) -> Figures:
    """JSON of ten fields → documents by offset, with ids of text; `python_…`: the same by the loop."""
    count = bench.size.lines // LINES_A_RECORD
    topic = bench.shared_topic("documents", lambda: _values(count))
    with bench.run("elasticsearch") as run:
        server = OpenSearchServer(run.directory)
        server.start()
        try:
            connector = {
                "name": f"{run.name}-sink",
                "connector.class": CONFLUENT,
                "topics": topic,
                "connection.url": server.url,
                "read.timeout.ms": "60000",
                "key.ignore": "true",
                "schema.ignore": "true",
            }
            group = f"connect-{connector['name']}"
            with run.worker(side, [connector], PLAIN) as worker:
                worker.until(lambda: _written(server, topic) >= count // 3, "a third of the documents", BOUND_S)
                first, begin = _written(server, topic), worker.cost()
                worker.until(lambda: bench.topics.committed(group, topic) >= count, "all documents", BOUND_S)
                figures = figures_of(count - first, worker.cost() - begin, worker)
            return {**figures, "python_rec_cpu_s": _python(bench, topic, count, server)}
        finally:
            server.kill()


def _values(count: int) -> Iterator[bytes]:
    return (json.dumps({**FIELDS, "id": number}).encode() for number in range(count))


def _written(server: OpenSearchServer, index: str) -> int:
    """The number of documents; a job's offsets are committed once it is done."""
    found = server.ask("GET", f"/{index}/_stats/indexing")
    return 0 if found is None else int(found["_all"]["primaries"]["indexing"]["index_total"])


def _python(bench: Bench, topic: str, count: int, server: OpenSearchServer) -> float:
    arguments = [bench.topics.bootstrap, topic, str(count), server.url, "python"]
    command = [sys.executable, "-m", "tests.bench.python_bulk", *arguments]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=BOUND_S).stdout)
    return float(told["count"] / told["cpu_s"])
