"""Previews in a real worker: they equal what is then written, and change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.databases import Database
from tests.integration.previewing import Previewing, Surroundings
from tests.integration.worker_process import SINK, Topic, WorkerProcess, properties

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FILE = "FileStreamSource"
STRING = "org.apache.kafka.connect.storage.StringConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
T = "org.apache.kafka.connect.transforms."
P = "org.apache.kafka.connect.transforms.predicates."
CREATED = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
KEYS = {"key.converter": "JsonConverter", "key.converter.schemas.enable": "false"}
PLAIN_JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


@pytest.fixture
def previewing(worker: WorkerProcess, broker: str, registry: str, tmp_path: Path) -> Previewing:
    return Previewing(Surroundings(worker, broker, [tmp_path], registry))


def chain(*transforms: dict[str, str], **predicates: dict[str, str]) -> dict[str, str]:
    """The settings of these transforms in their order."""
    made = {"transforms": ",".join(f"t{number}" for number, _ in enumerate(transforms))}
    made |= {f"transforms.t{n}.{key}": value for n, one in enumerate(transforms) for key, value in one.items()}
    if predicates:
        made["predicates"] = ",".join(predicates)
        made |= {f"predicates.{alias}.{key}": value for alias, one in predicates.items() for key, value in one.items()}
    return made


HOIST = {"type": f"{T}HoistField$Value", "field": "line"}
SQL = "headrace.transforms.Sql"
OF_FILES: dict[str, dict[str, str]] = {
    "enveloped": {},
    "string": {"value.converter": STRING},
    "fixed": chain(HOIST, {"type": f"{T}InsertField$Value", "static.field": "of", "static.value": "file"}),
    "routed": {**chain({"type": f"{T}RegexRouter", "regex": "(.*)", "replacement": "$1-routed"}), **CREATED},
    "passed-by": chain(
        {**HOIST, "predicate": "other", "negate": "true"},
        {"type": f"{T}ReplaceField$Value", "renames": "line:text", "predicate": "other"},
        other={"type": f"{P}TopicNameMatches", "pattern": "nothing"},
    ),
    "filtered": {
        **chain({"type": SQL, "sql": "SELECT value AS text FROM records WHERE value <> 'two'"}),
        **PLAIN_JSON,
    },
    "sql": {**chain({"type": SQL, "sql": "SELECT value AS text, length(value) AS n, 1.10BD AS d FROM records"})},
    "python": {
        **chain(HOIST, {"type": "headrace.transforms.Python", "function": "choosy_plugin:shout"}),
        **PLAIN_JSON,
    },
    "keyed": chain(
        HOIST,
        {"type": f"{T}ValueToKey", "fields": "line"},
        {"type": f"{T}ExtractField$Key", "field": "line"},
        {"type": f"{T}InsertHeader", "header": "of", "value.literal": "7"},
    ),
    "masked": {**chain(HOIST, {"type": f"{T}MaskField$Value", "fields": "line"}), **PLAIN_JSON},
    "avro": {**chain(HOIST), "value.converter": AVRO},
    "avro-keys": {
        **chain(HOIST, {"type": f"{T}ValueToKey", "fields": "line"}),
        "value.converter": AVRO,
        "key.converter": AVRO,
    },
}


def of_files(tmp_path: Path, registry: str) -> list[dict[str, str]]:
    """Configs over one file of lines."""
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\nthree é\n", encoding="utf-8")
    configs = []
    for about, more in OF_FILES.items():
        name = f"preview-{about}-{uuid.uuid4().hex[:8]}"
        config = {"name": name, "connector.class": FILE, "file": str(lines), "topic": name, **CREATED, **more}
        asks = {f"{side}.schema.registry.url": registry for side, value in more.items() if value == AVRO}
        configs.append(config | asks)
    return configs


def of_tables(sqlite: Database, registry: str) -> list[dict[str, str]]:
    """Configs over one table."""
    sqlite.execute(
        "CREATE TABLE goods (id integer PRIMARY KEY, name varchar(20), price numeric(8,2), "
        "at timestamp NOT NULL, raw blob)",
        "INSERT INTO goods VALUES (1, 'apple', 0.49, '2026-01-02 03:04:05', x'00ff'), (2, 'plum', 12.34, "
        "'2026-01-02 03:04:06', NULL), (3, NULL, NULL, '2026-01-02 03:04:07', x'')",
    )
    incrementing = {"mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "goods"}
    query = {"mode": "bulk", "query": "SELECT id, name FROM goods ORDER BY id", "poll.interval.ms": "3600000"}
    avro = {"value.converter": AVRO, "value.converter.schema.registry.url": registry}
    ways: dict[str, dict[str, str]] = {
        "incrementing": incrementing,
        "timestamp": {"mode": "timestamp", "timestamp.column.name": "at", "table.whitelist": "goods"},
        "bulk": {"mode": "bulk", "table.whitelist": "goods", "poll.interval.ms": "3600000"},
        "query": query,
        "avro": {**incrementing, **avro},
        "extracted": {
            **incrementing,
            **chain({"type": f"{T}ExtractField$Value", "field": "raw"}),
            "value.converter": BYTES,
        },
        "cast": {**incrementing, **chain({"type": f"{T}Cast$Value", "spec": "id:string,price:float64"}), **PLAIN_JSON},
    }
    configs = []
    for about, way in ways.items():
        prefix = f"preview-{about}-{uuid.uuid4().hex[:8]}-"
        config = {"name": f"{prefix}jdbc", "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector"}
        configs.append({**config, "topic.prefix": prefix, **CREATED, **sqlite.settings, **way})
    return configs


def of_stores(tmp_path: Path) -> list[dict[str, str]]:
    """Configs over files of a store."""
    files = tmp_path / "store" / "files"
    files.mkdir(parents=True)
    (files / "a.json").write_text('{"n": 1, "big": 12345678901234567890.5}\n{"n": 2}\n', encoding="utf-8")
    (files / "a.txt").write_text("eins\nzwei\n", encoding="utf-8")
    pq.write_table(pa.table({"n": [1, 2, None], "text": ["a", None, "c"]}), files / "a.parquet")
    for file in files.iterdir():
        os.utime(file, (1, 1))
    ways: dict[str, dict[str, str]] = {
        "json": PLAIN_JSON,
        "txt": {"value.converter": STRING},
        "parquet": {},
    }
    configs = []
    for ending, way in ways.items():
        name = f"preview-{ending}-{uuid.uuid4().hex[:8]}"
        config = {"name": name, "connector.class": "HdfsSource", "store.url": (tmp_path / "store").as_uri()}
        configs.append({**config, "path": "files", "files": f"*.{ending}", "topic": name, **CREATED, **way})
    return configs


def of_mirrors(broker: str) -> list[dict[str, str]]:
    """Configs over a topic of the same cluster."""
    topic = Topic(broker, "preview-mirrored")
    topic.send([b"\x00\xff", b"text"], keys=[b"1", b"2"])
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.bootstrap.servers": broker,
        "target.cluster.bootstrap.servers": broker,
        "target.cluster.alias": "B",
        "topics": topic.name,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "key.converter": BYTES,
        "value.converter": BYTES,
    }
    header = chain({"type": f"{T}InsertHeader", "header": "of", "value.literal": "A"})
    return [
        {**config, "name": f"{topic.name}-copy", "source.cluster.alias": "A"},
        {**config, "name": f"{topic.name}-headers", "source.cluster.alias": "C", **header},
    ]


SOME = ("filtered", "python", "avro-keys", "query", "parquet", "headers")


@pytest.mark.parametrize("which", ["some", pytest.param("others", marks=pytest.mark.soak)])
def test_sources_write_what_their_previews_show(
    which: str, previewing: Previewing, broker: str, registry: str, sqlite: Database, tmp_path: Path
) -> None:
    every = [
        *of_files(tmp_path, registry),
        *of_tables(sqlite, registry),
        *of_stores(tmp_path),
        *of_mirrors(broker),
    ]
    assert len(every) >= 20
    some = [one for one in every if any(f"-{about}-" in f"{one['name']}-" for about in SOME)]
    answers = previewing.written_as_previewed(some if which == "some" else [one for one in every if one not in some])
    empty = [name for name, answer in answers.items() if not answer["records"]]
    assert not empty, {name: answers[name] for name in empty}


def sink(topic: Topic, tmp_path: Path, **more: str) -> dict[str, str]:
    """A config of a file sink of this topic."""
    out = str(tmp_path / "out.txt")
    return {
        "name": topic.name,
        "connector.class": SINK,
        "topics": topic.name,
        "file": out,
        **PLAIN_JSON,
        **KEYS,
        **more,
    }


def stages(record: dict[str, Any]) -> list[str]:
    return [stage["stage"] for stage in record["stages"]]


def test_a_sinks_records_are_shown_stage_by_stage(previewing: Previewing, broker: str, tmp_path: Path) -> None:
    topic = Topic(broker, "preview-sink", partitions=2)
    topic.send([b'{"a": 1, "s": "x"}', b"no json", b'{"a": 3}'], keys=[b'"k"'] * 3)
    topic.send([b'{"a": 2.50}'], partition=1)
    a = "value:a::DOUBLE"
    masks = {"type": f"{T}MaskField$Value", "fields": "a", "predicate": "none"}
    config = sink(
        topic,
        tmp_path,
        **chain(
            masks,
            {"type": SQL, "sql": f"SELECT {a} AS a, record.topic AS origin FROM records WHERE {a} <> 3"},
            none={"type": f"{P}TopicNameMatches", "pattern": "nothing"},
        ),
    )
    answer = previewing.unchanged(config)
    assert answer["kind"] == "sink"
    first, broken, filtered, other = answer["records"]
    assert (first["topic"], first["partition"], first["offset"]) == (topic.name, 0, 0)
    assert (first["error"], first["filtered"]) == (None, None)
    assert stages(first) == ["fetched", "converted", "transform", "transform"]
    fetched, converted, masked, selected = first["stages"]
    assert (fetched["key"], fetched["value"]) == ('"k"', '{"a": 1, "s": "x"}')
    assert (converted["key"], converted["value"], converted["applied"]) == ("k", {"a": 1, "s": "x"}, None)
    assert (masked["value"], masked["applied"]) == ({"a": 1, "s": "x"}, False)
    assert masked["name"] == f"t0 ({T}MaskField$Value)"
    assert (selected["value"], selected["applied"]) == ({"a": 1.0, "origin": topic.name}, True)
    assert broken["error"]["stage"] == "VALUE_CONVERTER"
    assert broken["error"]["outcome"] == "failed task"
    assert stages(broken) == ["fetched"]
    assert filtered["filtered"] == f"t1 ({SQL})"
    assert other["partition"] == 1
    assert other["stages"][1]["value"] == {"a": 2.5}
    for tolerance, outcome in ((topic.name + "-dlq", "dead letter"), ("", "skipped")):
        tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": tolerance}
        again = previewing.preview({**sink(topic, tmp_path), **tolerant})
        assert again["records"][1]["error"]["outcome"] == outcome


def test_a_sink_is_read_from_where_one_asks(previewing: Previewing, broker: str, tmp_path: Path) -> None:
    topic = Topic(broker, "preview-from")
    topic.send([b"%d" % number for number in range(10)])
    config = sink(topic, tmp_path)

    def offsets(**query: str) -> list[int]:
        return [one["offset"] for one in previewing.preview(config, **query)["records"]]

    assert offsets(records="2") == [0, 1]
    assert offsets(records="2", **{"from": "latest"}) == [8, 9]
    assert offsets(**{"from": "7"}) == [7, 8, 9]
    assert offsets(**{"from": "2020-01-01T00:00:00Z", "records": "1"}) == [0]
    assert offsets(**{"from": "2999-01-01"}) == []
    with previewing.running(config):
        previewing.committed(topic.name, 10)
    before = previewing.surroundings.look()
    caught_up = previewing.preview(config)
    assert caught_up["records"] == []
    assert "from=latest" in caught_up["notes"][0]
    assert offsets(**{"from": "earliest"}) == list(range(10))
    assert previewing.surroundings.look() == before
    refused = previewing.refused(config, **{"from": "soon"})
    assert "from=soon is none of" in refused
    assert "There is no topic" in previewing.refused({**config, "topics": f"{topic.name}-missing"})
    assert previewing.surroundings.look() == before


def test_what_cannot_be_read_is_shown_by_a_sample(previewing: Previewing) -> None:
    topic = f"preview-sample-{uuid.uuid4().hex[:8]}"
    config = {"name": topic, "connector.class": FILE, "topic": topic, **PLAIN_JSON, **chain(HOIST)}
    assert "standard input" in previewing.refused(config)
    answer = previewing.preview({**config, "sample": [{"key": 1, "value": "one", "topic": topic}, {"value": None}]})
    assert answer["records"][0]["stages"][-1]["value"] == '{"line":"one"}'
    schema = {"type": "int32", "optional": False}
    enveloped = [{"value": {"schema": schema, "payload": 7}, "topic": topic}]
    answer = previewing.preview({**config, "sample": enveloped})
    hoisted = answer["records"][0]["stages"][1]
    assert hoisted["value"] == {"line": 7}
    assert hoisted["value_schema"]["fields"] == [{**schema, "field": "line"}]
    assert "another type" in previewing.refused({**config, "sample": [{"value": 1, "partition": "x"}]})
    assert "and others are not" in previewing.refused({**config, "sample": [{"value": 1}, *enveloped]})


def test_a_change_is_compared_with_the_config_that_runs(previewing: Previewing, registry: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    topic = f"preview-diff-{uuid.uuid4().hex[:8]}"
    avro = {"value.converter": AVRO, "value.converter.schema.registry.url": registry}
    config = {"name": topic, "connector.class": FILE, "file": str(lines), "topic": topic, **chain(HOIST), **avro}
    with previewing.running({**config, **CREATED}):
        previewing.arrived([topic], 2, topic)
        previewing.stored(topic)
        before = previewing.surroundings.look()
        nothing = previewing.posted(topic, {}, diff="true", **{"from": "earliest"})
        assert [one["differences"] for one in nothing["records"]] == [[], []]
        renamed = {"transforms.t0.field": "text", "topic": f"{topic}-other"}
        changed = previewing.posted(topic, {"transforms.t0.field": "text"}, diff="true", **{"from": "earliest"})
        found = {one["path"]: (one["before"], one["after"]) for one in changed["records"][0]["differences"]}
        assert found["value.line"] == ("one", None)
        assert found["value.text"] == (None, "one")
        assert found["registered.value.takes"] == (True, False)
        assert changed["records"][0]["error"]["stage"] == "VALUE_CONVERTER"
        other = previewing.posted(topic, renamed, **{"from": "earliest"})["records"][0]["stages"][-2]
        assert other["registered"]["value"]["takes"]
        assert other["registered"]["value"]["id"] is None
        assert previewing.posted(topic, {})["records"] == []
        assert previewing.surroundings.look() == before


def test_the_command_shows_a_preview(previewing: Previewing, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n")
    file = tmp_path / "connector.properties"
    topic = f"preview-command-{uuid.uuid4().hex[:8]}"
    config = {"name": topic, "connector.class": FILE, "file": str(lines), "topic": topic, **chain(HOIST)}
    file.write_text(properties(config), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "headrace"), "preview", str(file), "--rest", previewing.worker.url]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "transform t0" in shown
    assert '{"line": "one"}' in shown
    answer = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=120).stdout
    assert json.loads(answer)["records"][0]["stages"][0]["value"] == "one"
    failed = subprocess.run([*command, "--diff"], capture_output=True, text=True, timeout=120)
    assert failed.returncode == 2
    assert f"Connector {topic} not found" in failed.stderr
