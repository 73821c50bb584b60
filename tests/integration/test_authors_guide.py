"""The Arrow connectors of docs/authors.md on a real worker and broker, found as files on `plugin.path`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.guide import written
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.worker_process import Topic, eventually, lines_of

WITHIN_S = 250
PLUGINS = ("numbers_source.py", "lines_sink.py")


def test_the_guides_connectors_run(broker_process: Any, broker: str, tmp_path: Path) -> None:
    settings = {"value.converter.schemas.enable": "true", "plugin.path": str(written(tmp_path / "plugins", *PLUGINS))}
    numbers = Topic(broker, "numbers")
    out = tmp_path / "lines"
    with ClusterWorker(tmp_path / "w", broker_process.bootstrap_servers, new_cluster(), settings) as worker:
        worker.wait_ready()
        worker.create("numbers", connector_class="Numbers", topic=numbers.name, count="1000")
        worker.create("lines", connector_class="Lines", topics=numbers.name, path=str(out))
        eventually(lambda: len(lines_of(out)) == 1000, WITHIN_S, worker.log)
        assert lines_of(out) == [b"%d" % n for n in range(1000)]
