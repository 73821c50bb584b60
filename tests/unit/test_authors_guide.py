"""docs/authors.md: each block of Python runs and does what the page says; the smallest plugins stay small."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.plugins import Record, RecordsFailed, SourceTask, schema_of
from headrace.plugins.contracts import Limit, StopToken, TaskContext
from headrace.plugins.schema import TIMESTAMP
from tests.answering import Asked, answering
from tests.guide import BLOCKS, TEXT, lines, written

Block = Callable[[str], ModuleType]


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Block]:
    """Imports a block by its module's name."""
    monkeypatch.syspath_prepend(str(written(tmp_path / "guide")))
    yield importlib.import_module
    for name in BLOCKS:
        sys.modules.pop(name.removesuffix(".py"), None)


def configured(plugin: type[Any], **config: Any) -> Any:
    made = plugin()
    made.config = config
    return made


@pytest.mark.parametrize(
    ("name", "most"), [("prices.py", 10), ("alerts.py", 10), ("numbers_source.py", 25), ("lines_sink.py", 20)]
)
def test_the_smallest_plugins_are_small(name: str, most: int) -> None:
    assert lines(name) <= most


def test_every_block_names_its_file() -> None:
    assert TEXT.count("```python") == len(BLOCKS) > 0


def test_every_block_can_be_imported(block: Block) -> None:
    for name in BLOCKS:
        block(name.removesuffix(".py"))


def test_the_source_goes_on_after_its_offset_as_its_test_says(block: Block) -> None:
    prices = [{"id": 1}, {"id": 2}]

    def answer(asked: Asked) -> tuple[int, Any]:
        return 200, [price for price in prices if price["id"] > int(asked.query["id"])]

    with answering(answer) as url:
        block("test_prices").test_it_goes_on_after_an_offset(SimpleNamespace(url=url))


def test_the_sinks_write_and_name_bad_records(block: Block) -> None:
    asked: list[Any] = []

    def answer(one: Asked) -> tuple[int, Any]:
        asked.append(one.body)
        return {"bad": 422, "busy": 503}.get(one.body, 200) if isinstance(one.body, str) else 200, "no"

    with answering(answer) as url:
        configured(block("alerts").Alerts, url=url, token="t").put([Record(1), Record({"a": 2})])
        assert asked == [[1, {"a": 2}]]
        careful = configured(block("careful").Careful, url=url)
        with pytest.raises(RecordsFailed) as failed:
            careful.put([Record("good"), Record("bad"), Record("good")])
        assert [(one.row, one.message) for one in failed.value.failures] == [(1, '"no"')]
        assert asked[1:] == ["good", "bad", "good"]
        with pytest.raises(OSError, match="answers 503"):
            careful.put([Record("busy")])


def test_a_sink_says_beforehand_what_it_writes(block: Block) -> None:
    asked: list[Any] = []

    def answer(one: Asked) -> tuple[int, Any]:
        asked.append(one.body)
        return 200, None

    records = [Record({"a": 1}), Record({"a": 2})]
    with answering(answer) as url:
        sink = configured(block("told").Told, url=url)
        told = sink.would_write(records)
        assert asked == []
        sink.put(records)
        assert [one.detail["json"] for one in told] == asked
    assert [(one.action, one.target, one.row) for one in told] == [("POST", url, 0), ("POST", url, 1)]


def test_schemas_are_stated_once(block: Block) -> None:
    orders = block("orders")
    made = list(configured(orders.Orders, topic="t", count=3).poll({"n": 1}))
    assert [(one.value.id, one.offset) for one in made] == [(2, {"n": 2}), (3, {"n": 3})]
    assert made[0].value.placed == datetime(2026, 1, 2, tzinfo=UTC)
    declared = schema_of(orders.Order)
    assert [(field.name, field.schema.name, field.schema.optional) for field in declared.fields] == [
        ("id", None, False),
        ("placed", TIMESTAMP, False),
        ("note", None, True),
    ]


def test_a_queue_is_told_what_is_stored(block: Block) -> None:
    acknowledged: list[Any] = []

    def answer(asked: Asked) -> tuple[int, Any]:
        if asked.body is not None:
            acknowledged.append(asked.body)
        return 200, [{"id": "a", "body": 1}, {"id": "b", "body": 2}, {"id": "c", "body": 3}]

    with answering(answer) as url:
        jobs = block("jobs").Jobs()
        jobs.take({"url": url, "topic": "t"})
        jobs.open()
        assert [(one.value, one.offset) for one in jobs.poll({"n": 4})] == [(1, {"n": 5}), (2, {"n": 6}), (3, {"n": 7})]
        jobs.stored({"n": 6})
        assert acknowledged == [["a", "b"]]
        next(iter(jobs.poll({"n": 6})))
        jobs.stored({"n": 6})
        assert acknowledged == [["a", "b"], []], "what did not get into Kafka is not acknowledged"


def test_each_partition_is_polled_by_itself(block: Block) -> None:
    shelves = configured(block("shelves").Shelves, topic="t", shelves=["a", "b"])
    found = [one.value for partition in shelves.partitions() for one in shelves.poll(None, partition)]
    assert found == ["the shelf a", "the shelf b"]
    assert list(shelves.poll({"done": True}, {"shelf": "a"})) == []


def test_transforms_predicates_converters_and_providers(block: Block) -> None:
    changes = block("changes")
    assert configured(changes.Upper, field="a").change(Record({"a": "x"})).value == {"a": "X"}
    assert configured(changes.Cheap, below=10.0).matches(Record({"price": 9}))
    assert changes.Csv().to_bytes(changes.Csv().from_bytes(b"a,b")) == b"a,b"
    assert block("vault").Vault().get("db", ["password"]).values == {"password": "secret of db/password"}


def test_the_arrow_source_reads_its_plans(block: Block) -> None:
    task: SourceTask = block("numbers_source").NumbersTask()
    task.start({"topic": "t", "count": "5"}, TaskContext("c", 0, StopToken()))
    plan = task.plan([{"n": 2}], Limit(2, 100))
    assert plan is not None
    (rows,) = task.reader(plan).read(0)
    assert rows.to_pylist() == [{"value": n, "source_offset": {"n": n + 1}} for n in (2, 3)]
    assert task.plan([{"n": 5}], Limit(2, 100)) is None


def test_the_arrow_sink_writes_its_rows(block: Block, tmp_path: Path) -> None:
    task = block("lines_sink").LinesTask()
    task.start({"path": str(tmp_path / "lines")}, TaskContext("c", 0, StopToken()))
    writer = task.writer("0")
    writer.write(pa.record_batch({"line": ["a", "b"]}))
    assert writer.finish() == b""
    assert (tmp_path / "lines").read_text() == "a\nb\n"
