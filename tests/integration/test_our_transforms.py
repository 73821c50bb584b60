"""The pipe that docs/transforms.md shows: Sql, Python and one of Apache's, in a worker as users run it."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.documents import struct
from tests.integration.previewing import Previewing, Surroundings
from tests.integration.worker_process import SINK, Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PAGE = Path(__file__).parents[2] / "docs" / "transforms.md"


def indented() -> list[str]:
    """The page's indented blocks."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).lstrip() for block in blocks]


def shown() -> tuple[str, str]:
    """The connector's properties and the Python module, found anywhere in the page."""
    texts = indented()
    fenced = re.findall(r"^```\w*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (connector,) = (text for text in [*texts, *fenced] if text.startswith("name=orders"))
    (module,) = (text for text in [*texts, *fenced] if "def rounded" in text)
    return connector, module


def test_the_pages_pipe_flows(broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connector, module = shown()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "my_functions.py").write_text(module, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    lines, out, topic = tmp_path / "orders.csv", tmp_path / "out.txt", f"orders-{uuid.uuid4().hex[:8]}"
    connector = connector.replace("/tmp/orders.csv", str(lines)).replace("topic=orders", f"topic={topic}")
    assert topic in connector
    source = tmp_path / "source.properties"
    source.write_text(connector, encoding="utf-8")
    lines.write_text("1,apple,0.49\nno order\n2,free,0.01\n3,plum,12.34\n")
    settings = {"python.transforms.allowed": "my_functions"}
    with WorkerProcess(tmp_path / "worker", broker, [source], settings) as worker:
        worker.wait_ready(120).wait_states("orders", "RUNNING", within_s=120)
        config = {"connector.class": SINK, "file": str(out), "topics": f"shop-{topic}"}
        config |= {"transforms": "t", "transforms.t.type": "Sql"}
        config["transforms.t.sql"] = "SELECT *, record.topic AS origin, offset FROM records"
        assert worker.http.put("/connectors/out/config", json=config).status_code == 201
        eventually(lambda: out.exists() and out.read_text().count("\n") >= 2, 200, worker.log)
        assert out.read_text().splitlines() == [
            f"Struct{{id=1,item=apple,price=0.5,origin=shop-{topic},offset=0}}",
            f"Struct{{id=3,item=plum,price=12.3,origin=shop-{topic},offset=1}}",
        ]
        assert "costs a Spark job" not in worker.log()
        refused = {**config, "transforms.t.type": "Python", "transforms.t.function": "os:getcwd"}
        answer = worker.http.put("/connectors/refused/config", json=refused)
        assert answer.status_code == 400
        assert "python.transforms.allowed=os" in answer.json()["message"]


def test_headers_become_fields_of_a_sinks_records(broker: str, worker: WorkerProcess, tmp_path: Path) -> None:
    (block,) = (text for text in indented() if "io.debezium.transforms.HeaderToValue" in text)
    page = dict(line.split("=", 1) for line in block.splitlines())
    topic, out = Topic(broker, "headed"), tmp_path / "out.txt"
    schema = struct([("id", {"type": "int32"}), ("source", struct([("name", {"type": "string"})]))])
    value = json.dumps({"schema": schema, "payload": {"id": 1, "source": {"name": "s"}}})
    producer = Producer({"bootstrap.servers": broker})
    for headers in ([("trace_id", "00f7"), ("priority", "3")], [("trace_id", "12")], []):
        producer.produce(topic.name, value, headers=headers)
    assert producer.flush(60) == 0
    config = {"name": topic.name, "connector.class": SINK, "file": str(out), "topics": topic.name, **page}
    config["value.converter"] = "org.apache.kafka.connect.json.JsonConverter"
    untyped = {name: setting for name, setting in config.items() if name != "header.converter"}
    answer = worker.http.put(f"/connectors/{topic.name}/config", json=untyped)
    assert answer.status_code == 400
    assert "SimpleHeaderConverter does not give all values one. Name one that does" in answer.json()["message"]

    lines = [
        "Struct{id=1,source=Struct{name=s,trace=00f7},priority=3}",
        "Struct{id=1,source=Struct{name=s,trace=12}}",
        "Struct{id=1,source=Struct{name=s}}",
    ]
    told = Previewing(Surroundings(worker, broker)).preview(config, **{"from": "earliest", "records": "10"})
    assert [one["detail"]["line"] for record in told["records"] for one in record["effects"]] == lines
    assert worker.http.put(f"/connectors/{topic.name}/config", json=config).status_code == 201
    eventually(lambda: out.exists() and out.read_text().count("\n") == 3, 120, worker.log)
    assert out.read_text().splitlines() == lines
    worker.request("DELETE", f"/connectors/{topic.name}")
