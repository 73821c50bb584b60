"""SingerSink with small targets: what they are sent, what counts as stored, and what a target that fails says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.sink import SingerSinkConnector, SingerSinkTask
from headrace.plugins.arrow_types import arrow_type_of
from headrace.plugins.errors import RecordsFailed
from headrace.plugins.extensions import Effect
from headrace.plugins.schema import STRING, Field, Schema, SchemaType, spark_type
from headrace.plugins.testkit.driving import start_tasks
from tests.fake_singer import TARGET, installed

LONG = Schema(SchemaType.INT64)
ORDER = Schema(SchemaType.STRUCT, name="order", fields=(Field("id", LONG), Field("text", STRING)))
KEY = Schema(SchemaType.STRUCT, fields=(Field("id", LONG),))
SCHEMAS = (None, KEY, ORDER, STRING)
JSON_KEY, OF_KEY, OF_ORDER, OF_STRING = range(4)


class Drive:
    """Runs a task as the worker does; as a context manager it ends the task."""

    def __init__(self, folder: Path, config: dict[str, Any] | None = None, **settings: str) -> None:
        self.file = folder / "stored.jsonl"
        installed(folder / "path", "target-fake", TARGET)
        given = {"target.command": "target-fake", **settings}
        given |= {f"target.config.{name}": str(value) for name, value in {"file": self.file, **(config or {})}.items()}
        connector = SingerSinkConnector()
        connector.worker = worker = {"plugin.path": [str(folder / "path")]}
        self.task: SingerSinkTask = start_tasks(connector, given, worker)[0].task
        self.task.schemas = list(SCHEMAS)

    def __enter__(self) -> Drive:
        return self

    def __exit__(self, *_: object) -> None:
        self.task.stop()
        left = [one for one in psutil.Process().children(True) if "target-fake" in " ".join(one.cmdline())]
        assert not psutil.wait_procs(left, timeout=60)[1]

    def rows(self, *records: tuple[str, int | None, Any, int | None, Any]) -> pa.RecordBatch:
        """Rows of topic, number of the key's schema, key, number of the value's schema, value."""
        columns: dict[str, Any] = {
            "topic": pa.array([one[0] for one in records], pa.string()),
            "timestamp": pa.array([1767323045000] * len(records), pa.int64()),
        }
        for side, at in (("key", 1), ("value", 3)):
            columns[f"{side}_schema"] = pa.array([one[at] for one in records], pa.int32())
            for number, schema in enumerate(SCHEMAS):
                mine = [one[at + 1] if one[at] == number else None for one in records]
                columns[f"{side}_{number}"] = pa.array(mine, arrow_type_of(spark_type(schema)))
        return pa.RecordBatch.from_pydict(columns)

    def write(self, *records: tuple[str, int | None, Any, int | None, Any]) -> None:
        """A batch of `rows`."""
        writer = self.task.writer("attempt")
        writer.write(self.rows(*records))
        assert self.task.commit([writer.finish()]) is None

    def orders(self, numbers: range, topic: str = "orders") -> None:
        self.write(*((topic, OF_KEY, {"id": n}, OF_ORDER, {"id": n, "text": f"row {n}"}) for n in numbers))

    def commit(self) -> None:
        assert self.task.pre_commit({}) is None

    def stored(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    @property
    def ids(self) -> list[int]:
        return [one["record"]["id"] for one in self.stored()]


def test_a_preview_tells_the_messages_and_runs_no_target(tmp_path: Path) -> None:
    with Drive(tmp_path) as drive:
        good = [("orders", OF_KEY, {"id": n}, OF_ORDER, {"id": n, "text": f"row {n}"}) for n in range(2)]
        effects: list[Effect] = []
        with pytest.raises(RecordsFailed) as failed:
            effects.extend(drive.task.preview([drive.rows(*good), drive.rows(("texts", None, None, OF_STRING, "x"))]))
        assert [(one.action, one.target, one.row) for one in effects] == [
            ("SCHEMA", "orders", 0),
            ("RECORD", "orders", 0),
            ("RECORD", "orders", 1),
        ]
        assert [one.row for one in failed.value.failures] == [2]
        assert drive.task._target is None
        assert "target-fake" in drive.task.preview_notes()[0]
        assert not drive.file.exists()
        told = [one.detail["message"] for one in effects if one.action == "RECORD"]
    (folder := tmp_path / "written").mkdir()
    with Drive(folder) as drive:
        drive.write(*good)
        drive.commit()
        assert drive.stored() == told


def without_end(call: Callable[[], object]) -> None:
    while True:
        call()


def test_records_are_stored_once_their_offsets_may_be_committed(tmp_path: Path) -> None:
    with Drive(tmp_path) as drive:
        drive.orders(range(10))
        drive.orders(range(10, 20))
        drive.commit()
        assert drive.ids == list(range(20))
        assert drive.task._target is None
        drive.commit()
        drive.orders(range(20, 30), "others")
        drive.commit()
        assert drive.ids == list(range(30))
        first, last = drive.stored()[0], drive.stored()[-1]
        assert first == {
            "type": "RECORD",
            "stream": "orders",
            "record": {"id": 0, "text": "row 0"},
            "time_extracted": "2026-01-02T03:04:05+00:00",
        }
        assert last["stream"] == "others"


def test_a_target_that_stores_by_itself_is_not_ended(tmp_path: Path) -> None:
    with Drive(tmp_path, {"store_each": 5}) as drive:
        drive.orders(range(10))
        target = drive.task._target
        assert target is not None
        while not target.is_durable:
            assert target._process.exit_code is None
        drive.commit()
        assert drive.task._target is target
        assert drive.ids == list(range(10))


def test_a_stream_has_one_schema_message_until_it_changes(tmp_path: Path) -> None:
    with Drive(tmp_path) as drive:
        sent: list[dict[str, Any]] = []
        drive.task.send = lambda stream, lines: sent.extend(map(json.loads, lines.splitlines()))  # type: ignore[method-assign]
        drive.task.end_batch = lambda: None  # type: ignore[method-assign]
        drive.orders(range(2))
        drive.orders(range(2))
        drive.write(("orders", None, None, OF_ORDER, {"id": 1, "text": ""}))
        drive.write(("orders", OF_STRING, "k", OF_ORDER, {"id": 1, "text": ""}))
        assert "".join(one["type"][0] for one in sent) == "SRRRRSRSR"
        assert sent[0] == {
            "type": "SCHEMA",
            "stream": "orders",
            "schema": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "text": {"type": "string"}},
                "required": ["id", "text"],
            },
            "key_properties": ["id"],
        }
        assert sent[5]["key_properties"] == []


def test_records_that_singer_has_no_form_of_are_named(tmp_path: Path) -> None:
    good = ("orders", None, None, OF_ORDER, {"id": 7, "text": "x"})
    with Drive(tmp_path) as drive:
        with pytest.raises(RecordsFailed) as failed:
            drive.write(
                ("orders", None, None, None, None),
                good,
                ("orders", None, None, JSON_KEY, '{"id": 1}'),
                ("orders", None, None, OF_STRING, "x"),
                ("orders", OF_KEY, {"id": 1}, OF_ORDER, None),
            )
        assert [(one.row, one.message.partition("target: ")[2][:27]) for one in failed.value.failures] == [
            (0, "it has no value, which Sing"),
            (2, "its value has no schema; a "),
            (3, "its value has a schema of t"),
            (4, "it has no value, which Sing"),
        ]
        drive.task.end_batch()
        drive.commit()
        assert drive.ids == [7]


def test_nulls_are_passed_over_if_asked_for(tmp_path: Path) -> None:
    with Drive(tmp_path, **{"behavior.on.null.values": "ignore"}) as drive:
        drive.write(("orders", OF_KEY, {"id": 1}, None, None))
        drive.commit()
        assert drive.task._target is None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("die", r"target-fake ended with exit code 4; its last lines:\n  CRITICAL the table is gone$"),
        ("garbage", r"target-fake printed what is no STATE that it was sent: 'stored!'"),
        ("mute", r"target-fake ended without printing the last STATE"),
        ("hang", r"target-fake gave no sign for 1 s and was ended; it logged nothing$"),
    ],
)
def test_nothing_counts_that_a_failed_target_did_not_confirm(tmp_path: Path, fault: str, said: str) -> None:
    with Drive(tmp_path, {"fault": fault}, **{"target.stall.timeout.ms": "1000"}) as drive:
        drive.orders(range(10))
        with pytest.raises(SingerError, match=f"(?s){said}"):
            drive.commit()
        assert drive.task.pre_commit({}) == {}
        for again in (lambda: drive.orders(range(1)), drive.task.requests):
            with pytest.raises(SingerError, match=f"(?s){said}"):
                again()


def test_a_target_that_does_not_read_is_told(tmp_path: Path) -> None:
    with (
        Drive(tmp_path, {"fault": "hang", "store_each": 1}, **{"target.stall.timeout.ms": "1000"}) as drive,
        pytest.raises(SingerError, match="gave no sign for 1 s"),
    ):
        without_end(lambda: drive.orders(range(2000)))


def test_a_target_that_dies_between_batches_is_noticed(tmp_path: Path) -> None:
    with Drive(tmp_path) as drive:
        drive.orders(range(1))
        assert drive.task._target is not None
        drive.task._target.kill()
        with pytest.raises(SingerError, match="killed by signal 9"):
            without_end(drive.task.requests)


def test_a_target_that_stores_streams_apart_is_believed_for_each(tmp_path: Path) -> None:
    source = (
        "import json, sys\n"
        "marks = {}\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    if message['type'] == 'STATE':\n"
        "        marks['orders'] = message['value']['bookmarks'].get('orders', {'batch': 0})\n"
        "        print(json.dumps({'bookmarks': marks}), flush=True)\n"
    )
    installed(tmp_path / "path", "target-apart", source)
    with Drive(tmp_path, **{"target.command": "target-apart"}) as drive:
        drive.orders(range(1))
        drive.commit()
        drive.orders(range(1), "others")
        drive.orders(range(1))
        with pytest.raises(SingerError, match="without printing the last STATE"):
            drive.commit()
