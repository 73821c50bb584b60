"""The connectors of docs/authors.md on a real worker and broker, found as files on `plugin.path`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.guide import written
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.partitions import messages
from tests.integration.worker_process import Topic, eventually, lines_of

WITHIN_S = 250
PLUGINS = ("numbers_source.py", "lines_sink.py", "orders.py", "shelves.py", "changes.py")


def test_the_guides_connectors_run(broker_process: Any, broker: str, tmp_path: Path) -> None:
    settings = {"value.converter.schemas.enable": "true", "plugin.path": str(written(tmp_path / "plugins", *PLUGINS))}
    numbers, orders, shelves = (Topic(broker, name) for name in ("numbers", "orders", "shelves"))
    out = tmp_path / "lines"
    with ClusterWorker(tmp_path / "w", broker_process.bootstrap_servers, new_cluster(), settings) as worker:
        worker.wait_ready()
        worker.create("numbers", connector_class="Numbers", topic=numbers.name, count="1000")
        worker.create("orders", connector_class="Orders", topic=orders.name)
        worker.create(
            "shelves",
            connector_class="Shelves",
            topic=shelves.name,
            tasks_max="2",
            transforms="hoist,up",
            transforms_hoist_type="org.apache.kafka.connect.transforms.HoistField$Value",
            transforms_hoist_field="note",
            transforms_up_type="Upper",
            transforms_up_field="note",
        )
        worker.create("lines", connector_class="Lines", topics=numbers.name, path=str(out))
        eventually(lambda: len(lines_of(out)) == 1000, WITHIN_S, worker.log)
        assert lines_of(out) == [b"%d" % n for n in range(1000)]
        eventually(lambda: worker.offsets("numbers") == [{"partition": {}, "offset": {"n": 1000}}], WITHIN_S)
        eventually(lambda: len(messages(broker, orders.name)) == 3, WITHIN_S, worker.log)
        told = json.loads(messages(broker, orders.name)[0].value() or b"")
        assert (told["schema"]["name"], told["payload"]["id"], told["payload"]["note"]) == ("Order", 1, None)
        eventually(lambda: len(messages(broker, shelves.name)) == 2, WITHIN_S, worker.log)
        notes = {json.loads(one.value() or b"")["payload"]["note"] for one in messages(broker, shelves.name)}
        assert notes == {"THE SHELF A", "THE SHELF B"}
