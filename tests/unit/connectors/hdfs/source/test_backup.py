"""Backups of the S3 sink as a source: names, order, and files of keys that do not fit; over the local disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.source import settings
from headrace.connectors.hdfs.source.backup import Backup, Destination, kinds_beside, stem_of
from headrace.connectors.hdfs.source.connector import S3SourceConnector
from headrace.connectors.hdfs.source.task import FileSourceTask
from headrace.connectors.hdfs.stores.local import LocalStore
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.plugins.contracts import Limit, TaskContext
from headrace.plugins.stopping import StopToken

CLASS = "io.confluent.connect.s3.source.S3SourceConnector"
CONFIG = {
    "connector.class": CLASS,
    "s3.bucket.name": "b",
    "format.class": "io.confluent.connect.s3.format.avro.AvroFormat",
    "file.min.age.ms": "0",
    "poll.interval.ms": "0",
}
LARGE = Limit(100_000, 64 << 20)


def rows(path: Path, schema: Any, values: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, schema, values)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileSourceTask:
    """Over a folder in place of a bucket."""
    store = LocalStore(StoreSettings(f"file://{tmp_path}"))
    monkeypatch.setattr("headrace.connectors.hdfs.source.task.store_of", lambda _: store)
    made = FileSourceTask()
    made.start(CONFIG, TaskContext("c", 0, StopToken(), {}))
    return made


def read(task: FileSourceTask) -> list[dict[str, Any]]:
    """The rows of the next plan."""
    after: list[Any] = [None] * len(task.partitions())
    plan = task.plan(after, LARGE)
    if plan is None:  # the segments of read files have been asked for
        plan = task.plan([None] * len(task.partitions()), LARGE)
    assert plan is not None
    reader = task.reader(plan)
    found = []
    for number, split in enumerate(plan.splits):
        for batch in reader.read(number):
            assert {field.name for field in task.row_type_of(split.shape)} <= set(batch.schema.names)
            found += pa.Table.from_batches([batch]).to_pylist()
    return found


def test_rows_have_their_partition_and_key(task: FileSourceTask, tmp_path: Path) -> None:
    folder = tmp_path / "topics" / "t" / "partition=3"
    rows(folder / "t+3+0000000000.avro", "long", [7, 8])
    rows(folder / "t+3+0000000000.keys.avro", "string", ["a", "b"])
    found = [(row["value"], row["keys"], row["kafka_partition"], row["problem"]) for row in read(task)]
    assert found == [(7, "a", 3, None), (8, "b", 3, None)]


def test_files_of_a_partition_are_read_one_after_the_other(task: FileSourceTask, tmp_path: Path) -> None:
    for partition in (0, 1):
        for first in (2, 0):  # the newer one is older by the clock
            folder = tmp_path / "topics" / "t" / f"partition={partition}"
            rows(folder / f"t+{partition}+000000000{first}.avro", "long", [first, first + 1])
    assert [(row["kafka_partition"], row["value"]) for row in read(task)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize(("keys", "why"), [(["a"], "fewer rows"), (["a", "b", "c"], "more rows")])
def test_keys_that_do_not_fit_are_a_problem(
    task: FileSourceTask, tmp_path: Path, keys: Sequence[str], why: str
) -> None:
    folder = tmp_path / "topics" / "t" / "partition=0"
    rows(folder / "t+0+0000000000.avro", "long", [7, 8])
    rows(folder / "t+0+0000000000.keys.avro", "string", keys)
    problem = read(task)[-1]["problem"]
    assert "t+0+0000000000.keys.avro, which holds its keys, has " + why in problem


def test_a_name_that_tells_no_partition_fails(task: FileSourceTask, tmp_path: Path) -> None:
    rows(tmp_path / "topics" / "t" / "other.avro", "long", [7])
    with pytest.raises(StoreError, match="tells no topic and partition"):
        read(task)


def test_a_name_that_leaves_a_group_out_fails() -> None:
    with pytest.raises(StoreError, match="tells no topic and partition"):
        Backup(r"(.+?)(?:\+(\d+))?[.]avro").destination("topics/t/t.avro")


def test_topics_whose_names_begin_as_those_of_hidden_files_are_restored(task: FileSourceTask, tmp_path: Path) -> None:
    topics = tmp_path / "topics"
    rows(topics / "_schemas" / "partition=0" / "_schemas+0+0000000000.avro", "long", [7])
    rows(topics / "_temporary" / "t" / "t+0+0000000000.avro", "long", [8])
    rows(topics / "t" / ".t+0+0000000000.avro", "long", [9])
    assert [row["value"] for row in read(task)] == [7]


def test_other_formats_are_left_out(task: FileSourceTask, tmp_path: Path) -> None:
    rows(tmp_path / "topics" / "t" / "t+0+0000000000.avro", "long", [7])
    (tmp_path / "topics" / "t" / "notes.json").write_text("{}")
    assert [row["value"] for row in read(task)] == [7]


def test_generic_goes_by_the_whole_path() -> None:
    config = {**CONFIG, "mode": "generic", "topic.regex.list": "orders:.*/orders/.*, rest : .*[.]avro"}
    backup = settings.source_settings(config).backup
    assert backup is not None
    assert backup.destination("topics/orders/a.avro") == Destination("orders")
    assert backup.destination("topics/x/a.avro") == Destination("rest")
    assert backup.destination("topics/x/a.json") is None


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"mode": "GENERIC"}, "topic.regex.list"),
        ({"mode": "GENERIC", "topic.regex.list": "orders"}, "topic.regex.list"),
        ({"filename.regex": "(.+)"}, "filename.regex"),
        ({"behavior.on.error": "ignore"}, "behavior.on.error"),
        ({"mode": "COPY"}, "mode"),
        ({"format.class": None}, "format.class"),
    ],
)
def test_what_is_not_served_is_refused(changes: dict[str, Any], key: str) -> None:
    config = {name: value for name, value in {**CONFIG, **changes}.items() if value is not None}
    with pytest.raises(ConfigError) as refused:
        settings.source_settings(config)
    assert [problem.key for problem in refused.value.problems] == [key]
    connector = S3SourceConnector()
    connector.worker = {}
    found = connector.settings.problems(config) or connector.validate(config)
    assert [problem.key for problem in found] == [key]


def test_settings_without_a_mode_are_as_before() -> None:
    found = settings.source_settings({"connector.class": "S3Source", "s3.bucket.name": "b", "path": "in"})
    assert (found.backup, found.path) == (None, "in")
    assert settings.source_settings(CONFIG).path == "topics"


@pytest.mark.parametrize(
    ("path", "stem"),
    [("a/t+0+1.avro", "a/t+0+1"), ("t+0+1.snappy.parquet", "t+0+1"), ("t.json.gz", "t"), ("a.avro.d/t", "a.avro.d/t")],
)
def test_stems(path: str, stem: str) -> None:
    assert stem_of(path) == stem


def test_what_stands_beside() -> None:
    paths = ["t.avro", "t.keys.avro", "t.headers.json.gz", "t.keys.txt.old", "t.keysx.avro"]
    assert kinds_beside("t", paths) == {"keys": "t.keys.avro", "headers": "t.headers.json.gz"}
