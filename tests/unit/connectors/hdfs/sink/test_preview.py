"""The files that a sink says it would write: those that it then writes, and nothing before that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.hdfs.hive.metastore import HiveTable, Metastore
from headrace.connectors.hdfs.sink.task import FileSinkTask
from headrace.plugins.contracts import TaskContext, TopicPartition
from headrace.plugins.errors import RecordsFailed
from headrace.plugins.extensions import Effect
from headrace.plugins.schema import STRING, Field, Schema, SchemaType
from headrace.plugins.stopping import StopToken

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
ORDER = Schema(
    SchemaType.STRUCT, name="order", version=1, fields=(Field("id", Schema(SchemaType.INT64)), Field("text", STRING))
)
LATER = Schema(SchemaType.STRUCT, name="order", version=2, fields=(Field("id", Schema(SchemaType.INT64)),))
LINES: dict[str, Sequence[Any]] = {
    "json": [b'{"id":%d}\n' % n for n in range(5)],
    "text": [b"Struct{id=%d}\n" % n for n in range(5)],
    "bytes": [b"\xff\x00%d\n" % n for n in range(5)],
    "parquet": [{"id": n, "text": f"text {n}"} for n in range(5)],
}


def rows(values: Sequence[Any], first: int = 0, partition: int = 0, **columns: Any) -> pa.RecordBatch:
    """Rows as `columns` makes them; the others by name."""
    count, binary = len(values), isinstance(values[0], bytes)
    kind = pa.binary() if binary else pa.struct([("id", pa.int64()), ("text", pa.string())])
    made = {
        "topic": ["t"] * count,
        "origin_topic": ["t"] * count,
        "origin_partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "error": pa.nulls(count, pa.string()),
        "layout": pa.array([0] * count, pa.int32()),
        "directory": pa.array([partition] * count, pa.int32()),
        "value_0": pa.array(values, kind),
        **columns,
    }
    return pa.RecordBatch.from_pydict(made)


class Sink:
    """A sink into a folder."""

    def __init__(self, folder: Path, form: str, schemas: Sequence[Schema | None] = (None,), **config: str) -> None:
        self.folder, self.schemas = folder / "store", schemas
        settings = {"store.url": f"file://{self.folder}", "flush.size": "3", "format.class": form, "topics": "t"}
        self.config = {"connector.class": "HdfsSink", **settings, **{k.replace("_", "."): v for k, v in config.items()}}
        self.context = TaskContext("c", 0, StopToken(), {"file.allowed.paths": [str(folder)]})

    def preview(self, *batches: pa.RecordBatch) -> tuple[list[Effect], Sequence[str]]:
        task = FileSinkTask()
        task.start_preview(self.config, self.context)
        task._spec.layouts.extend(self.schemas)
        try:
            return list(task.preview(batches)), task.preview_notes()
        finally:
            task.stop()

    def write(self, *batches: pa.RecordBatch) -> None:
        task = FileSinkTask()
        task.start(self.config, self.context)
        task._spec.layouts.extend(self.schemas)
        task.open([P0, P1])
        writer = task.writer("1")
        for batch in batches:
            writer.write(batch)
        task.commit([writer.finish()])
        task.stop()

    @property
    def files(self) -> dict[str, bytes]:
        """All that is in the store, without the sink's own."""
        found = {str(one): one.read_bytes() for one in self.folder.rglob("*") if one.is_file()}
        return {name: data for name, data in found.items() if "+tmp" not in name}

    @property
    def everything(self) -> dict[str, bytes]:
        return {str(one): one.read_bytes() if one.is_file() else b"" for one in self.folder.parent.rglob("*")}


def whole(effects: Sequence[Effect]) -> dict[str, list[Any]]:
    """The values by the files that have ended."""
    ended = [one.target for one in effects if one.action == "create file" and one.detail["ended by"] is not None]
    return {
        target.removeprefix("file://"): [
            one.detail["value"] for one in effects if one.target == target and one.row is not None
        ]
        for target in ended
    }


@pytest.mark.parametrize("form", LINES)
def test_files_and_values_are_those_that_are_then_written(tmp_path: Path, form: str) -> None:
    sink = Sink(tmp_path, form, (ORDER,) if form == "parquet" else (None,))
    batches = [rows(LINES[form]), rows(LINES[form][:3], 7, partition=1)]
    before = sink.everything
    effects, notes = sink.preview(*batches)
    assert sink.everything == before
    told = whole(effects)
    sink.write(*batches)
    assert set(told) == set(sink.files)
    assert [one.row for one in effects if one.row is not None] == [0, 1, 2, 3, 4, 5, 6, 7]
    (name, values), *_ = told.items()
    if form == "parquet":
        assert pa.parquet.read_table(name).to_pylist() == values == LINES[form][:3]
    elif form == "bytes":
        assert values == [f"0x{one.hex()}" for one in LINES[form][:3]]
    else:
        assert "".join(f"{one}\n" for one in values).encode() == sink.files[name]
    assert any(note.startswith("A file is seen under its name once it has ended.") for note in notes)
    before = sink.everything
    assert any("up to offset 2 in files: the connector does not" in note for note in sink.preview(*batches)[1])
    assert sink.everything == before


def test_what_ends_a_file_is_told(tmp_path: Path) -> None:
    sink = Sink(tmp_path, "parquet", (ORDER, LATER), schema_compatibility="BACKWARD")
    later = {"value_1": pa.array([{"id": 9}], pa.struct([("id", pa.int64())])), "layout": pa.array([1], pa.int32())}
    batches = [rows(LINES["parquet"]), rows([None], 5, value_0=pa.nulls(1, pa.int32()), **later)]
    created = [one.detail for one in sink.preview(*batches)[0] if one.action == "create file"]
    assert [(one["offsets"], one["ended by"], one["schema"]["version"]) for one in created] == [
        ([0, 2], "flush.size", 1),
        ([3, 4], "another schema", 1),
        ([5, 5], None, 2),
    ]


def test_bad_and_empty_records_are_told(tmp_path: Path) -> None:
    sink = Sink(tmp_path, "json", behavior_on_null_values="ignore")
    error = pa.array([None, "it has no such field", None, None, None], pa.string())
    layout = pa.array([0, 0, None, 0, 0], pa.int32())
    effects: list[Effect] = []
    task = FileSinkTask()
    task.start_preview(sink.config, sink.context)
    task._spec.layouts.append(None)
    with pytest.raises(RecordsFailed) as failed:
        effects.extend(task.preview([rows(LINES["json"], error=error, layout=layout)]))
    task.stop()
    assert [(one.row, one.message) for one in failed.value.failures] == [(1, "it has no such field")]
    assert [(one.row, one.action) for one in effects if one.row is not None] == [
        (2, "none"),
        (0, "append"),
        (3, "append"),
        (4, "append"),
    ]
    assert not sink.folder.exists()


class Told:
    """A metastore with one table."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: HiveTable | None = None
        for name, answer in {"open": None, "close": None, "partitions": {"partition=0"}}.items():
            monkeypatch.setattr(Metastore, name, lambda *_, answer=answer: answer)
        monkeypatch.setattr(Metastore, "table", lambda *_: self.made)
        for name in ("create", "alter", "add_partitions"):
            monkeypatch.setattr(Metastore, name, self.refuse)

    def refuse(self, *_: Any) -> None:
        raise AssertionError("a preview changes nothing")


@pytest.fixture
def hive(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def test_hives_table_and_partitions_are_told(tmp_path: Path, hive: Told) -> None:
    given: Mapping[str, str] = {"hive_integration": "true", "hive_metastore_uris": "thrift://localhost:1"}
    sink = Sink(tmp_path, "parquet", (ORDER,), schema_compatibility="BACKWARD", **given)
    batches = [rows(LINES["parquet"]), rows(LINES["parquet"], partition=1)]
    effects = [one for one in sink.preview(*batches)[0] if one.target == "default.t"]
    assert [one.action for one in effects] == ["create table", "add partition", "add partition"]
    assert effects[0].detail["columns"] == {"id": "bigint", "text": "string"}
    assert effects[1].detail["location"].endswith("/store/topics/t/partition=0")
    task = FileSinkTask()
    task.start_preview(sink.config, sink.context)
    assert task._hive is not None
    hive.made = HiveTable(task._hive._wanted("t", None, [ORDER]), ("partition",), "there")
    task.stop()
    assert [one.action for one in sink.preview(*batches)[0] if one.target == "default.t"] == ["add partition"]
