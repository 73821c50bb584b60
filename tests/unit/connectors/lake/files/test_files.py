"""Rows that a task holds over batches, until they are files of tables."""

from __future__ import annotations

import errno
import os
import pickle
from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.lake.iceberg.files.files import Files
from headrace.connectors.lake.iceberg.files.targets import Target
from headrace.connectors.lake.iceberg.files.writer import FilesWriter, keep, part_of
from headrace.connectors.lake.iceberg.schemas import Field, Struct
from headrace.connectors.lake.iceberg.tables import PartitionField, PartitionSpec
from headrace.plugins.errors import RecordsFailed, RetriableError
from headrace.plugins.offsets import TopicPartition
from tests.unit.connectors.lake.files.made_rows import (
    ORDER,
    ORDERS,
    STRUCT,
    TABLE,
    ScriptedTargets,
    files_of,
    orders,
    read,
    rows,
    spec,
    state,
)

P0 = TopicPartition("orders", 0)


def files(tmp_path: Path, target: Target | None = None, **changes: Any) -> Files:
    return Files(spec(**changes), ScriptedTargets(target or Target(state())), str(tmp_path))


def names(of: Any) -> list[str]:
    return [row["name"] for row in read(of)]


def test_rows_are_held_until_they_are_due(tmp_path: Path) -> None:
    now = 100.0
    held = files(tmp_path, interval_s=5.0, clock=lambda: now)
    assert held.due_s() is None
    assert held.finish().held == {}
    held.add(rows(orders((1, "a"))))
    now = 103.0
    held.add(rows(orders((2, "b")), first=1))
    assert held.due_s() == 2
    assert (held.finish().tables, held.finish().held) == ((), {P0: 0})
    now = 105.0
    part = held.finish()
    assert (names(part), part.done, part.held) == (["a", "b"], {P0: (0, 1)}, {})
    assert part.tables[0].table == TABLE
    assert part.tables[0].uuid == "uuid-1"
    assert held.due_s() is None
    held.add(rows(orders((3, "c")), first=2))
    assert held.finish(at_once=True).done == {P0: (2, 2)}


def test_rows_that_come_again_are_taken_once(tmp_path: Path) -> None:
    held = files(tmp_path)
    held.add(rows(orders((1, "a"), (2, "b"))))
    held.add(rows(orders((2, "b"), (3, "c")), first=1))
    assert names(held.finish()) == ["a", "b", "c"]
    held.add(rows(orders((3, "c"), (4, "d")), first=2))
    assert names(held.finish()) == ["d"]


def test_dropped_rows_are_taken_again_and_leave_no_file(tmp_path: Path) -> None:
    held = files(tmp_path)
    held.add(rows(orders((1, "a"))))
    part = held.finish()
    held.add(rows(orders((2, "b")), first=1))
    held.drop()
    assert not os.path.exists(files_of(part)[0].local)
    assert held.due_s() is None
    held.add(rows(orders((1, "a"), (2, "b"))))
    assert names(held.finish()) == ["a", "b"]


def test_rows_below_the_tables_mark_are_passed_over(tmp_path: Path) -> None:
    held = files(tmp_path, Target(state(), {P0: 2}))
    held.add(rows(orders((1, "a"), (2, "b"))))
    part = held.finish()
    assert (part.tables, part.done) == ((), {P0: (0, 1)})
    held.add(rows(orders((3, "c"), (4, "d")), first=2))
    assert names(held.finish()) == ["c", "d"]


def test_bad_rows_are_named_and_rows_after_them_left_unless_tolerated(tmp_path: Path) -> None:
    values = orders((1, "a"), (2, "b"), (None, "c"), (4, "d"), (5, "e"))
    errors = pa.array([None, None, None, "no good", None], pa.string())
    for tolerates, written in ((False, ["a", "b"]), (True, ["a", "b", "e"])):
        held = files(tmp_path, tolerates=tolerates)
        failed = held.add(rows(values, error=errors))
        assert [one.row for one in failed] == [2, 3]
        assert failed[1].message == "no good"
        part = held.finish()
        assert (names(part), part.done) == (written, {P0: (0, 4 if tolerates else 1)})


def test_a_row_that_one_of_its_tables_refuses_goes_to_none(tmp_path: Path) -> None:
    strict = Struct((*ORDERS.fields, Field(3, "more", "string", required=True)))

    class Two(ScriptedTargets):
        def target(self, name: str, layout: int, columns: pa.DataType) -> Target:
            return Target(state(strict if name == "b" else ORDERS, name=name))

    held = Files(spec(routes=lambda _: ["a", "b"], tolerates=True), Two(Target(state())), str(tmp_path))
    kind = pa.struct([("id", pa.int64()), ("name", pa.string()), ("more", pa.string())])
    failed = held.add(rows([{"id": 1, "name": "x", "more": "y"}, {"id": 2, "name": "z"}], kind))
    part = held.finish()
    assert [one.row for one in failed] == [1]
    assert [(one.table, one.files[0].records) for one in part.tables] == [("a", 1), ("b", 1)]


def test_routes_choose_tables_and_rows_without_one_pass(tmp_path: Path) -> None:
    targets = ScriptedTargets(Target(state()))
    choose = {"x": ["db.x"], "both": ["db.x", "db.y"], None: []}
    held = Files(spec(routes=lambda route: choose[route]), targets, str(tmp_path))
    held.add(rows(orders((1, "a"), (2, "b"), (3, "c"), (4, "d")), route=pa.array(["x", None, "both", "x"])))
    part = held.finish()
    assert {one.table: one.files[0].records for one in part.tables} == {"db.x": 3, "db.y": 1}
    assert part.done == {P0: (0, 3)}
    assert [name for name, *_ in targets.asked] == ["db.x", "db.y"]


def test_values_of_several_layouts_keep_their_order(tmp_path: Path) -> None:
    targets = ScriptedTargets(Target(state()))
    held = Files(spec([STRUCT, None]), targets, str(tmp_path))
    texts = ['{"id":1,"name":"b"}', None, '{"id":2,"name":"d"}', None]
    batch = rows(
        [None, {"id": 1, "name": "a"}, None, {"id": 1, "name": "c"}],
        layout=pa.array([1, 0, 1, 0], pa.int32()),
        value_1=pa.array(texts),
    )
    held.add(batch)
    assert names(held.finish()) == ["b", "a", "d", "c"]
    assert sorted(layout for _, layout, _ in targets.asked) == [0, 1]


def test_values_that_are_no_structs_are_refused(tmp_path: Path) -> None:
    held = files(tmp_path)
    (failed,) = held.add(rows(["a"], pa.string()))
    assert failed.message == "The value is no struct, which the rows of a table are made of"


def test_null_values_are_passed_over(tmp_path: Path) -> None:
    held = files(tmp_path)
    assert not held.add(rows([None, {"id": 1, "name": "a"}, None]))
    part = held.finish()
    assert (names(part), part.done) == (["a"], {P0: (0, 2)})


class Evolving(ScriptedTargets):
    """Creates a table, or adds columns of the types that it is told."""

    def target(self, name: str, layout: int, columns: pa.DataType) -> Target:
        self.asked.append((name, layout, columns))
        found = {one.name: one for one in self.now.state.schema.fields}
        kinds = {"int64": "long", "double": "double", "string": "string", "bool": "boolean"}
        for one in columns:
            if one.name not in found:
                found[one.name] = Field(100 + len(found), one.name, kinds[str(one.type)])
        self.now = Target(state(Struct(tuple(found.values())), schema_id=len(found)))
        return self.now


def test_json_lets_a_table_grow_before_its_rows_are_written(tmp_path: Path) -> None:
    targets = Evolving(Target(state(Struct(()))))
    held = Files(spec([None], evolves=True), targets, str(tmp_path))
    held.add(rows(['{"id":1,"new":null}', '{"id":2,"name":"2020-01-01"}'], pa.string()))
    held.add(rows(['{"id":3,"new":1.5}', '{"id":4,"ok":true}'], pa.string(), first=2))
    held.add(rows(['{"id":5,"ok":false}'], pa.string(), first=4))
    part = held.finish()
    found = [{name: value for name, value in row.items() if value is not None} for row in read(part)]
    assert found == [
        {"id": 1},
        {"id": 2, "name": "2020-01-01"},
        {"id": 3, "new": 1.5},
        {"id": 4, "ok": True},
        {"id": 5, "ok": False},
    ]
    assert [[one.name for one in kind] for *_, kind in targets.asked] == [["id", "name"], ["id", "name", "new", "ok"]]
    assert len(files_of(part)) == 2


def test_without_evolution_fields_that_a_table_lacks_are_left_out(tmp_path: Path) -> None:
    held = files(tmp_path, layouts=[None])
    held.add(rows(['{"id":1,"name":"a","new":{"x":1}}'], pa.string()))
    assert read(held.finish()) == [{"id": 1, "name": "a"}]


def test_a_replaced_table_gets_no_rows_that_were_held_for_the_former(tmp_path: Path) -> None:
    targets = ScriptedTargets(Target(state()))
    held = Files(spec(), targets, str(tmp_path))
    held.add(rows(orders((1, "a"))))
    targets.now = Target(state(uuid="uuid-2"))
    held.forget()
    with pytest.raises(RetriableError, match="was replaced"):
        held.add(rows(orders((2, "b")), first=1))


def test_other_keys_in_mid_commit_throw_away_what_is_held(tmp_path: Path) -> None:
    targets = ScriptedTargets(Target(state(), keys=("id",)))
    held = Files(spec(), targets, str(tmp_path))
    held.add(rows(orders((1, "a"))))
    targets.now = Target(state(), keys=("id", "name"))
    held.forget()
    with pytest.raises(RetriableError, match="other key columns"):
        held.add(rows(orders((2, "b")), first=1))


def test_memory_is_bounded_over_tables_and_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 100_000
    monkeypatch.setattr("headrace.connectors.lake.iceberg.files.files.MEMORY_BYTES", most)
    parts = PartitionSpec(0, (PartitionField(1, 1000, "b", "bucket[50]"),))
    held = files(tmp_path, Target(state(spec=parts)), routes=lambda _: ["a", "b"])
    for number in range(20):
        held.add(rows(orders(*((one, f"n{one}") for one in range(1000))), first=number * 1000))
        assert sum(one.buffered_bytes for one in held._tables.values()) <= most
    assert sum(file.records for file in files_of(held.finish())) == 2 * 20_000


def test_rows_that_wait_hold_no_memory_of_fields_that_their_table_lacks(tmp_path: Path) -> None:
    kind = pa.struct([*ORDER, ("more", pa.string())])
    values = [{"id": number, "name": "a", "more": "x" * 1000} for number in range(1000)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows(values, kind).schema) as stream:
        stream.write_batch(rows(values, kind))
    held = files(tmp_path, interval_s=60.0)
    given = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    del sink, stream
    before = pa.total_allocated_bytes()
    held.add(given)
    del given
    assert pa.total_allocated_bytes() < before - 900_000
    assert names(held.finish(at_once=True)) == ["a"] * 1000


def test_a_full_disk_is_retriable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    held = Files(spec(), ScriptedTargets(Target(state())), str(tmp_path / "file"))
    with pytest.raises(RetriableError, match="TMPDIR"):
        held.add(rows(orders((1, "a"))))


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_a_disk_that_fills_is_retriable_and_all_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    monkeypatch.setattr("headrace.connectors.lake.iceberg.files.files.MEMORY_BYTES", 1000)
    held, room, write = files(tmp_path, Target(state(), keys=keys)), 2000, os.write

    def scarce(descriptor: int, data: Any) -> int:
        nonlocal room
        if len(data) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        room -= len(data)
        return write(descriptor, data)

    monkeypatch.setattr("os.write", scarce)
    batches = [rows(orders(*((one, f"text {one}") for one in range(50))), first=50 * number) for number in range(100)]
    with pytest.raises(RetriableError, match="No space left"):
        deque(map(held.add, batches), maxlen=0)
    held.drop()
    assert not list(tmp_path.iterdir())
    room = 10**6
    held.add(rows(orders((1, "a"))))
    assert names(held.finish()) == ["a"]


def test_many_open_files_make_a_commit_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = PartitionSpec(0, (PartitionField(1, 1000, "i", "identity"),))
    held = files(tmp_path, Target(state(spec=parts)), interval_s=3600.0)
    monkeypatch.setattr("headrace.connectors.lake.iceberg.files.files._MOST_OPEN", 3)
    monkeypatch.setattr("headrace.connectors.lake.iceberg.files.files.MEMORY_BYTES", 0)
    held.add(rows(orders((1, "a"), (2, "b"))))
    assert (held.due_s() or 0) > 3000
    held.add(rows(orders((3, "a"), (4, "b")), first=2))
    assert held.due_s() == 0


# -- writers -----------------------------------------------------------------------------------------------------------


def one_table(route: str | None) -> list[str]:
    return [TABLE]


def test_inline_a_writer_writes_to_the_tasks_files(tmp_path: Path) -> None:
    held = files(tmp_path, interval_s=60.0)
    keep("task-1", held)
    for first in (0, 1):
        writer = FilesWriter("task-1", held.spec, str(tmp_path), held.known)
        writer.write(rows(orders((first, "a")), first=first))
        assert part_of(writer.finish()).held == {P0: 0}
    with pytest.raises(RecordsFailed) as failed:
        writer.write(rows(orders((None, "b")), first=2))
    assert [one.row for one in failed.value.failures] == [0]
    assert names(held.finish(at_once=True)) == ["a", "a"]
    writer.abort()
    assert held.due_s() is None


def test_in_a_job_a_writer_has_its_own_files_and_commits_all(tmp_path: Path) -> None:
    held = files(tmp_path, interval_s=60.0)
    held.add(rows(orders((1, "a"))))
    rules = spec(routes=one_table, interval_s=60.0)
    writer = pickle.loads(pickle.dumps(FilesWriter("gone", rules, str(tmp_path), held.known)))
    writer.write(rows(orders((1, "b"), (2, "c")), first=7))
    part = part_of(writer.finish())
    assert (names(part), part.done, part.held) == (["b", "c"], {P0: (7, 8)}, {})
    held.drop()
    assert names(part) == ["b", "c"]


def test_a_job_fails_for_bad_rows_and_for_tables_that_it_does_not_know(tmp_path: Path) -> None:
    held = files(tmp_path, layouts=[STRUCT, None], evolves=True)
    held.add(rows(orders((1, "a"))))
    rules = spec([STRUCT, None], routes=one_table, evolves=True)

    def writer() -> FilesWriter:
        return FilesWriter("gone", rules, str(tmp_path), held.known)

    with pytest.raises(RecordsFailed, match="id is required") as failed:
        writer().write(rows(orders((None, "a"))))
    assert not failed.value.failures
    with pytest.raises(RecordsFailed, match="not known yet"):
        writer().write(rows([None], layout=pa.array([1], pa.int32()), value_1=pa.array(['{"id":1}'])))
    held.add(rows([None], first=1, layout=pa.array([1], pa.int32()), value_1=pa.array(['{"id":1}'])))
    writer().write(rows([None], layout=pa.array([1], pa.int32()), value_1=pa.array(['{"id":1}'])))
    with pytest.raises(RecordsFailed, match="lacks some of their fields"):
        writer().write(rows([None], layout=pa.array([1], pa.int32()), value_1=pa.array(['{"id":1,"new":1}'])))
