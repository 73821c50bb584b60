"""Previews in a real worker: they equal what is then written, and change nothing."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.databases import Database
from tests.integration.previewing import Previewing, Surroundings
from tests.integration.worker_process import Topic, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FILE = "FileStreamSource"
STRING = "org.apache.kafka.connect.storage.StringConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
T = "org.apache.kafka.connect.transforms."
P = "org.apache.kafka.connect.transforms.predicates."
CREATED = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
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


def test_sources_write_what_their_previews_show(
    previewing: Previewing, broker: str, registry: str, sqlite: Database, tmp_path: Path
) -> None:
    configs = [
        *of_files(tmp_path, registry),
        *of_tables(sqlite, registry),
        *of_stores(tmp_path),
        *of_mirrors(broker),
    ]
    answers = previewing.written_as_previewed(configs)
    assert len(answers) >= 20
    empty = [name for name, answer in answers.items() if not answer["records"]]
    assert not empty, {name: answers[name] for name in empty}
