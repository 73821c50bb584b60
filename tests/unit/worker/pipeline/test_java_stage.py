"""The part of a batch that crosses into Java, and its place beside the rest when it comes back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from headrace.worker.pipeline import java_stage as module
from headrace.worker.pipeline import shape_programs
from headrace.worker.pipeline.java_stage import SourceStage, _crossed
from headrace.worker.pipeline.transforms import Transforms
from tests.task_scope import task_scope


class Java:
    """Notes what it gets, and makes of each row its number among them, beside its text."""

    def __init__(self) -> None:
        self.given: list[tuple[list[dict[str, Any]], object]] = []

    def apply(self, rows: pa.RecordBatch, source: object = None) -> tuple[str, pa.RecordBatch]:
        self.given.append((rows.to_pylist(), source))
        made = [{"n": number, "part": {"text": text}} for number, text in enumerate(rows["text"].to_pylist())]
        return "shape", pa.RecordBatch.from_pylist(made, schema=TYPES)


TYPES = pa.schema([("n", pa.int64()), ("part", pa.struct([("text", pa.string())]))])


def crossed(java: Java, texts: list[str], skipped: list[bool]) -> list[dict[str, Any]]:
    rows = pa.record_batch({"text": pa.array(texts, pa.string()), "_at": list(range(len(texts)))})
    shape, made = _crossed(java, rows, ["_at"], pa.array(skipped, pa.bool_()), {"file": "f"})  # type: ignore[arg-type]
    assert shape == "shape"
    return made.to_pylist()


def test_all_rows_cross_where_none_is_skipped() -> None:
    java = Java()
    assert [(row["part"]["text"], row["_at"]) for row in crossed(java, ["a", "b"], [False, False])] == [
        ("a", 0),
        ("b", 1),
    ]
    assert java.given == [([{"text": "a"}, {"text": "b"}], {"file": "f"})]


def test_what_is_skipped_keeps_its_place() -> None:
    java = Java()
    rows = crossed(java, ["a", "b", "c", "d"], [True, False, True, False])
    assert [(row["n"], row["part"], row["_at"]) for row in rows] == [
        (None, None, 0),
        (0, {"text": "b"}, 1),
        (None, None, 2),
        (1, {"text": "d"}, 3),
    ]
    assert [row["text"] for row in java.given[0][0]] == ["b", "d"]


def test_a_batch_of_which_nothing_crosses_has_a_shape_too() -> None:
    assert [row["n"] for row in crossed(Java(), ["a", "b"], [True, True])] == [None, None]


def test_a_source_remembers_as_many_shapes_as_it_has_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def begun(stage: SourceStage, rows: Any, shape: str) -> None:
        compiled.append(shape)
        stage._carried[shape] = spark.StructType().add(shape, spark.IntegerType()), None

    def program(row_type: Any, build: Any, *_: object) -> Any:
        build(None)
        rows = {"carried drop": pa.array([None], pa.bool_()), "carried error": pa.array([None], pa.string())}
        return SimpleNamespace(generation=1, run=lambda *_: pa.record_batch(rows))

    monkeypatch.setattr(shape_programs, "MOST_PROGRAMS", 1)
    monkeypatch.setattr(module, "_crossed", lambda *_: ("0/1/2", None))
    monkeypatch.setattr(module, "numbered_type", lambda *_: None)
    monkeypatch.setattr(SourceStage, "_begun", begun)
    task: Any = SimpleNamespace(topics=lambda: ["a", "b"])
    java: Any = SimpleNamespace(row_type=lambda made: spark.StructType().add(made, spark.IntegerType()))
    engine: Any = SimpleNamespace(projections=SimpleNamespace(spark=SimpleNamespace(generation=1)), program=program)
    stage = SourceStage(task_scope(engine), task, java, Transforms(), None)
    no_rows = pa.record_batch({"n": pa.array([], pa.int64())})
    for shape in ("a", "b c", "d", "a"):
        assert stage.run(no_rows, shape, None)[1] == f"{shape} 0/1/2"
    assert stage.row_type("b c 0/1/2").names == ["0/1/2", "b c"]
    stage.run(no_rows, "e", None)
    assert compiled == ["a", "b c", "d", "e"]
    assert list(stage._carried) == ["a", "d", "e"]
