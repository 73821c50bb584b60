"""Spool folders by a real worker: published configs, a large file as a job, kills in mid-file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.worker.storage.offset_file import OffsetFile
from tests.integration import partitions
from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.spark, pytest.mark.long]

SPOOLDIR = "com.github.jcustenborder.kafka.connect.spooldir"
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
TEXT = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that writes it."""
    made = Topic(broker, "spool")
    yield made
    worker.request("DELETE", f"/connectors/{made.name}")


def folders(root: Path) -> dict[str, str]:
    paths = {"input.path": "in", "finished.path": "done", "error.path": "bad"}
    for name in paths.values():
        (root / name).mkdir(exist_ok=True)
    return {key: str(root / name) for key, name in paths.items()}


def drop(root: Path, name: str, data: str) -> None:
    """A file appears in the folder with all of its text."""
    (root / name).write_text(data)
    os.rename(root / name, root / "in" / name)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def values(topic: Topic) -> list[Any]:
    return [json.loads(value) for value in topic.values()]


def test_csv_with_generated_schemas(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    """As the threat lists of a public demonstration are read: all columns as strings, named by the header."""
    config = folders(tmp_path) | {
        "connector.class": f"{SPOOLDIR}.SpoolDirCsvSourceConnector",
        "tasks.max": "1",
        "input.file.pattern": ".*\\.csv$",
        "schema.generation.enabled": "true",
        "csv.first.row.as.header": "true",
        **JSON,
    }
    drop(tmp_path, "one.csv", 'id,url\n1,"http://a,b"\n2,x\n')
    worker.create(topic.name, topic=topic.name, **config)
    eventually(lambda: topic.end() >= 2, 60, worker.log)
    drop(tmp_path, "two.csv", "id,url\n3,y\n")
    eventually(lambda: topic.end() >= 3, 60, worker.log)
    assert values(topic) == [{"id": "1", "url": "http://a,b"}, {"id": "2", "url": "x"}, {"id": "3", "url": "y"}]
    eventually(lambda: names(tmp_path / "done") == ["one.csv", "two.csv"], 60, worker.log)
    eventually(lambda: worker.offsets(topic.name) == [], 60)
    message = partitions.messages(topic.bootstrap, topic.name)[2]
    headers = {name: value.decode() for name, value in message.headers() or ()}
    assert (headers["file.name"], headers["file.offset"]) == ("two.csv", "1")


def test_csv_with_schemas_of_its_own(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    """As in the original's quick start: typed keys and values, and a file with a bad row is passed over."""
    schemas = {
        f"{side}.schema": json.dumps(
            {
                "name": f"com.example.users.{name}",
                "type": "STRUCT",
                "isOptional": False,
                "fieldSchemas": {field: {"type": kind, "isOptional": False} for field, kind in fields.items()},
            }
        )
        for side, name, fields in (
            ("key", "UserKey", {"id": "INT64"}),
            ("value", "User", {"id": "INT64", "email": "STRING", "active": "BOOLEAN"}),
        )
    }
    config = folders(tmp_path) | {
        "connector.class": f"{SPOOLDIR}.SpoolDirCsvSourceConnector",
        "input.file.pattern": "csv-spooldir-source.*",
        "halt.on.error": "false",
        "csv.first.row.as.header": "true",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        **schemas,
        **JSON,
    }
    worker.create(topic.name, topic=topic.name, **config)
    drop(tmp_path, "csv-spooldir-source-1.csv", "id,email,active\n1,a@x,true\nx,b@x,false\n3,c@x,true\n")
    drop(tmp_path, "csv-spooldir-source-2.csv", "email,active,id\nd@x,FALSE,4\n")
    eventually(lambda: topic.end() >= 2, 60, worker.log)
    found = [
        (json.loads(one.key()), json.loads(one.value())) for one in partitions.messages(topic.bootstrap, topic.name)
    ]
    assert found == [
        ({"id": 1}, {"id": 1, "email": "a@x", "active": True}),
        ({"id": 4}, {"id": 4, "email": "d@x", "active": False}),
    ]
    eventually(lambda: names(tmp_path / "bad") == ["csv-spooldir-source-1.csv"], 60, worker.log)
    assert "csv-spooldir-source-1.csv cannot be read: the field id is no INT64: 'x' (in record 2)" in worker.log()
    assert worker.states(topic.name) == ["RUNNING"]


def test_lines_and_json_as_text_and_a_halt(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    """As in the original's example for JSON without schema, which halts here."""
    config = folders(tmp_path) | {
        "connector.class": "SpoolDirSchemaLessJsonSource",
        "input.file.pattern": "json-.*\\.json",
        **TEXT,
    }
    worker.create(topic.name, topic=topic.name, **config)
    drop(tmp_path, "json-1.json", '{"a": 1}\n{"b": [1,\n 2]}\n')
    eventually(lambda: topic.values() == [b'{"a":1}', b'{"b":[1,2]}'], 60, worker.log)
    drop(tmp_path, "json-2.json", '{"c": 3}\nno json\n')
    worker.wait_states(topic.name, "FAILED")
    assert "json-2.json cannot be read: it is no JSON object (in record 2)" in worker.trace(topic.name)
    assert (topic.values()[2:], names(tmp_path / "bad")) == ([b'{"c":3}'], ["json-2.json"])
    drop(tmp_path, "json-3.json", '{"d": 4}')
    worker.request("POST", f"/connectors/{topic.name}/restart?includeTasks=true&onlyFailed=true")
    eventually(lambda: topic.values()[3:] == [b'{"d":4}'], 60, worker.log)


def test_a_large_file_is_a_job_in_order(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    many = 150_000
    text = "".join(f'{number},"a ""quoted"" text\nof two lines"\n' for number in range(many))
    schema = {"n": {"type": "INT32"}, "text": {"type": "STRING"}}
    config = folders(tmp_path) | {
        "connector.class": "SpoolDirSource",
        "input.format": "csv",
        "input.file.pattern": ".*",
        "value.schema": json.dumps({"type": "STRUCT", "fieldSchemas": schema}),
        **JSON,
    }
    drop(tmp_path, "large.csv", text)
    worker.create(topic.name, topic=topic.name, **config)
    eventually(lambda: names(tmp_path / "done") == ["large.csv"], 120, worker.log)
    assert [value["n"] for value in values(topic)] == list(range(many))
    assert values(topic)[0]["text"] == 'a "quoted" text\nof two lines'
    assert f"{topic.name}-0: a job moved" in worker.log()


@pytest.mark.timeout(600)
def test_a_worker_killed_in_mid_file_loses_no_row(broker: str, tmp_path: Path) -> None:
    topic, rows, many = Topic(broker, "spool-killed"), 0, 40
    config = folders(tmp_path)
    for number in range(many):
        count = 60_000 if number == 5 else 500
        drop(tmp_path, f"{number:03}.txt", "".join(f"{rows + one:07}{'.' * 60}\n" for one in range(count)))
        rows += count
    settings = {"connector.class": "SpoolDirLineDelimitedSource", "topic": topic.name, "input.file.pattern": ".*"}
    connector = connector_file(tmp_path, "spool", **config, **settings, **TEXT)
    with WorkerProcess(tmp_path, broker, [connector], {"file.allowed.paths": str(tmp_path)}) as worker:
        for kill in range(3):
            reached = topic.end()
            eventually(lambda reached=reached: topic.end() > reached or not names(tmp_path / "in"), 120, worker.log)
            if kill < 2:
                worker.kill_family()
                worker.start()
        eventually(lambda: names(tmp_path / "in") == [], 120, worker.log)
        found = [int(value[:7]) for value in topic.values()]
        assert list(dict.fromkeys(found)) == list(range(rows))
        assert names(tmp_path / "done") == [f"{number:03}.txt" for number in range(many)]
        worker.stop()
    assert OffsetFile(worker.offset_file).of("spool") == []
