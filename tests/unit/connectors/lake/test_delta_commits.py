"""Commits to Delta tables: fences, lost answers, jobs, evolution, operators' offsets."""

from __future__ import annotations

import pickle
import random
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.connectors.lake.delta import tables as tables_module
from headrace.connectors.lake.delta import writer
from headrace.connectors.lake.delta.tables import Tables
from headrace.connectors.lake.errors import LakeError
from headrace.plugins.errors import RecordsFailed, RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import OPTIONAL_STRING, Field, Schema, SchemaType
from headrace.plugins.testkit import SinkDrive
from tests.unit.connectors.lake.delta_rig import LINE, DeltaRig, LinesTask, delta_rows, table_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
UPSERT = {"write.mode": "upsert", "id.columns": "line"}


def lines(first: int, end: int) -> list[tuple[int, str | None, bool]]:
    return [(number, f"row {number}", False) for number in range(first, end)]


def write(drive: SinkDrive, rows: Sequence[tuple[int, str | None, bool]], partition: int = 0) -> bytes:
    one = drive.writer()
    one.write(delta_rows(rows, partition))
    return one.finish()


def commit(drive: SinkDrive, rows: Sequence[tuple[int, str | None, bool]], partition: int = 0) -> Any:
    return drive.task.commit([write(drive, rows, partition)])


def opened(drive: SinkDrive, *partitions: TopicPartition) -> Any:
    return drive.task.open(partitions)  # type: ignore[attr-defined]


def numbers(rig: DeltaRig) -> list[int]:
    return table_of(rig.path)["n"].to_pylist()


@pytest.fixture
def rig(tmp_path: Path) -> DeltaRig:
    return DeltaRig(tmp_path)


@pytest.fixture
def upserts(tmp_path: Path) -> DeltaRig:
    return DeltaRig(tmp_path, **UPSERT)


@pytest.mark.parametrize("settings", [{}, UPSERT], ids=["append", "upsert"])
@pytest.mark.parametrize("is_late", [False, True], ids=["before it looks", "after it looked"])
def test_of_two_racers_one_commits(
    tmp_path: Path, settings: dict[str, str], is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = DeltaRig(tmp_path, **settings)
    one, other = SinkDrive(rig), SinkDrive(rig)
    commit(one, lines(0, 5))
    write(other, lines(5, 10))
    write(one, lines(5, 12))
    if is_late:  # the owner commits between the other's look at the marks and its commit
        plain = Tables._write

        def late(self: Tables, *args: Any) -> bool:
            monkeypatch.setattr(tables_module.Tables, "_write", plain)
            one.task.commit([b""])
            return plain(self, *args)

        monkeypatch.setattr(tables_module.Tables, "_write", late)
    else:
        one.task.commit([b""])
    with pytest.raises(RetriableError, match="Another task has written records of t-0"):
        other.task.commit([b""])
    commit(one, lines(12, 15))
    assert numbers(rig) == list(range(15))
    other.task.drop()  # type: ignore[attr-defined]
    commit(other, lines(5, 17))
    assert numbers(rig) == list(range(17))


def test_partitions_of_other_tasks_do_not_fence(rig: DeltaRig) -> None:
    one, other = SinkDrive(rig), SinkDrive(rig)
    opened(other, T1)
    commit(one, lines(0, 5))
    write(other, [(number, "other", False) for number in range(100, 103)], 1)
    commit(one, lines(5, 7))
    other.task.commit([b""])
    assert numbers(rig) == [*range(7), 100, 101, 102]
    assert opened(SinkDrive(rig), T0, T1) == {T0: 7, T1: 103}


def test_an_answer_that_was_lost_is_found(rig: DeltaRig, monkeypatch: pytest.MonkeyPatch) -> None:
    drive, plain = SinkDrive(rig), Tables._write

    def lost(self: Tables, *args: Any) -> bool:
        monkeypatch.setattr(tables_module.Tables, "_write", plain)
        plain(self, *args)
        raise OSError("connection reset")

    monkeypatch.setattr(tables_module.Tables, "_write", lost)
    with pytest.raises(RetriableError, match="does not answer: connection reset"):
        commit(drive, lines(0, 5))
    drive.task.drop()  # type: ignore[attr-defined]
    commit(drive, lines(0, 8))
    assert numbers(rig) == list(range(8))


def test_rows_are_held_until_the_interval_is_over(tmp_path: Path) -> None:
    rig = DeltaRig(tmp_path, **{"commit.interval.ms": "3600000"})
    drive = SinkDrive(rig)
    assert commit(drive, lines(3, 5)) == {T0: 3}
    assert commit(drive, lines(5, 9)) == {T0: 3}
    assert 3500 < drive.task.due_s() <= 3600  # type: ignore[attr-defined]
    assert DeltaTable(str(rig.path)).to_pyarrow_table().num_rows == 0
    drive.task.close([T0])  # type: ignore[attr-defined]
    assert commit(drive, []) == {}


def test_held_rows_that_come_again_are_written_once(tmp_path: Path) -> None:
    rig = DeltaRig(tmp_path, **{"commit.interval.ms": "3600000"})
    drive = SinkDrive(rig)
    commit(drive, lines(3, 8))
    opened(drive, T1)  # after a rebalance partitions that stay are read from their committed offset on
    commit(drive, lines(3, 6))
    drive.task._options = replace(drive.task._options, interval_s=0)  # type: ignore[attr-defined]
    assert commit(drive, lines(3, 10)) == {}
    assert numbers(rig) == list(range(3, 10))


def test_held_rows_of_a_topic_that_was_made_again_are_thrown_away(tmp_path: Path) -> None:
    rig = DeltaRig(tmp_path, **{"commit.interval.ms": "3600000"})
    drive = SinkDrive(rig)
    commit(drive, lines(5, 9))
    opened(drive, T0)
    drive.task._options = replace(drive.task._options, interval_s=0)  # type: ignore[attr-defined]
    commit(drive, lines(0, 3))
    assert numbers(rig) == [0, 1, 2]


def test_a_topic_whose_id_is_not_told_is_asked_for_again(rig: DeltaRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinesTask, "told", {"t": "id-of-t"})
    drive = SinkDrive(rig)
    commit(drive, lines(0, 5))
    assert opened(SinkDrive(rig), T0) == {T0: 5}
    monkeypatch.setattr(LinesTask, "told", {})
    with pytest.raises(RetriableError, match="does not tell the id of topic t"):
        SinkDrive(rig)


def test_held_rows_that_fill_the_memory_are_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.lake.delta.task.MOST_BYTES", 1000)
    rig = DeltaRig(tmp_path, **{"commit.interval.ms": "3600000"})
    drive = SinkDrive(rig)
    assert commit(drive, lines(0, 5)) == {T0: 0}
    assert commit(drive, lines(5, 100)) == {}
    assert numbers(rig) == list(range(100))


def test_the_last_write_of_a_key_wins(upserts: DeltaRig) -> None:
    drive = SinkDrive(upserts)
    commit(drive, [(0, "a", False), (1, "b", False), (2, "a", False), (3, "c", False), (4, "c", True)])
    assert table_of(upserts.path).to_pylist() == [{"n": 1, "line": "b"}, {"n": 2, "line": "a"}]
    commit(drive, [(5, "b", True), (6, "a", False), (7, "c", True), (8, "c", False)])
    assert table_of(upserts.path).to_pylist() == [{"n": 6, "line": "a"}, {"n": 8, "line": "c"}]


def test_deletes_of_rows_that_are_not_there_move_the_mark(upserts: DeltaRig) -> None:
    drive = SinkDrive(upserts)
    commit(drive, [(0, "a", False), (1, "b", True)])
    commit(drive, [(2, "x", True)])
    assert opened(SinkDrive(upserts), T0) == {T0: 3}
    assert numbers(upserts) == [0]


def test_deletes_make_no_table_and_no_columns(upserts: DeltaRig) -> None:
    drive = SinkDrive(upserts)
    drive.task._columns.layouts[0] = Schema(SchemaType.STRUCT, fields=LINE.fields[1:])  # type: ignore[attr-defined]
    drive.task._columns.layouts.append(LINE)  # type: ignore[attr-defined]
    commit(drive, [(0, "a", True)])
    assert not upserts.path.exists()
    one = drive.writer()
    one.write(mixed := with_layouts([(1, "a", True), (2, "b", False), (3, "b", True), (4, "b", False)]))
    drive.task.commit([one.finish()])
    assert mixed["layout"].to_pylist() == [0, 1, 0, 1]
    assert table_of(upserts.path).to_pylist() == [{"n": 4, "line": "b"}]
    commit(drive, [(5, "b", True)])
    assert table_of(upserts.path).to_pylist() == []


def with_layouts(rows: Sequence[tuple[int, str | None, bool]]) -> pa.RecordBatch:
    """Rows with the layout 0 for deletes, and 1 for others."""
    made = delta_rows(rows)
    layouts = pa.array([0 if is_delete else 1 for _, _, is_delete in rows], pa.int32())
    made = made.set_column(made.schema.get_field_index("layout"), "layout", layouts)
    return made.append_column("value_1", made["value_0"])


@pytest.mark.parametrize("settings", [{}, UPSERT], ids=["append", "upsert"])
def test_a_job_leaves_files_for_its_commit(
    tmp_path: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = DeltaRig(tmp_path, **settings)
    drive = SinkDrive(rig)
    opened(drive, T1)
    commit(drive, lines(0, 2))
    one, other = (pickle.loads(pickle.dumps(drive.task.writer("job"))) for _ in range(2))
    assert not one.options.storage
    monkeypatch.setattr(writer, "_KEPT", {})
    one.write(delta_rows(lines(1, 5)))
    one.write(delta_rows(lines(5, 9)))
    other.write(delta_rows(lines(50, 53), 1))
    files = list(Path(one.folder).iterdir())
    assert len(files) == 2
    assert drive.task.commit([one.finish(), other.finish(), b""]) == {}
    assert numbers(rig) == [*range(9), 50, 51, 52]
    assert not any(file.exists() for file in files)
    failed = drive.task.writer("job")
    failed.write(delta_rows(lines(9, 12)))
    failed.abort()
    assert list(Path(one.folder).iterdir()) == []


def test_a_job_reads_no_schema_that_is_new_to_the_table(rig: DeltaRig, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = SinkDrive(rig)
    one = pickle.loads(pickle.dumps(drive.task.writer("job")))
    monkeypatch.setattr(writer, "_KEPT", {})
    with pytest.raises(RetriableError, match=r"a schema that is new to .* are read by a small batch first"):
        one.write(delta_rows(lines(0, 2)))


# -- schemas -----------------------------------------------------------------------------------------------------------


def wider_rows(first: int, end: int) -> pa.RecordBatch:
    rows = delta_rows(lines(first, end)).to_pydict()
    rows["value_1"] = [value | {"extra": 0.5} for value in rows.pop("value_0")]
    rows["layout"] = [1] * (end - first)
    plain = delta_rows(()).schema
    types = [plain.field(name) for name in plain.names if name != "value_0"]
    value = pa.struct([("n", pa.int64()), ("line", pa.string()), ("extra", pa.float64())])
    return pa.RecordBatch.from_pydict(rows, schema=pa.schema([*types, ("value_1", value)]))


def widening(tmp_path: Path, **settings: str) -> tuple[DeltaRig, SinkDrive]:
    rig = DeltaRig(tmp_path, **settings)
    drive = SinkDrive(rig)
    wider = Schema(SchemaType.STRUCT, fields=(*LINE.fields, Field("extra", Schema(SchemaType.FLOAT64))))
    drive.task._columns.layouts.append(wider)  # type: ignore[attr-defined]
    return rig, drive


@pytest.mark.parametrize("evolves", ["true", "false"])
def test_new_fields_become_columns_if_the_config_says_so(tmp_path: Path, evolves: str) -> None:
    rig, drive = widening(tmp_path, **{"auto.evolve": evolves})
    commit(drive, lines(0, 2))
    for rows in (wider_rows(2, 4), delta_rows(lines(4, 5))):
        one = drive.writer()
        one.write(rows)
        drive.task.commit([one.finish()])
    table = table_of(rig.path)
    assert table["n"].to_pylist() == list(range(5))
    if evolves == "true":
        assert table["extra"].to_pylist() == [None, None, 0.5, 0.5, None]
    else:
        assert table.column_names == ["n", "line"]


def test_columns_that_change_under_held_rows_have_these_read_again(tmp_path: Path) -> None:
    rig, drive = widening(tmp_path, **{"auto.evolve": "true", "commit.interval.ms": "3600000"})
    commit(drive, lines(0, 2))
    with pytest.raises(RetriableError, match="have changed; records since its last commit come again"):
        drive.writer().write(wider_rows(2, 4))
    drive.task.drop()  # type: ignore[attr-defined]
    write(drive, lines(0, 2))
    one = drive.writer()
    one.write(wider_rows(2, 4))
    drive.task._options.__dict__["interval_s"] = 0  # type: ignore[attr-defined]
    drive.task.commit([one.finish()])
    assert table_of(rig.path)["extra"].to_pylist() == [None, None, 0.5, 0.5]


def test_columns_that_another_adds_have_records_read_again(rig: DeltaRig) -> None:
    drive = SinkDrive(rig)
    commit(drive, lines(0, 2))
    write(drive, lines(2, 4))
    write_deltalake(str(rig.path), pa.table({"m": [1]}), mode="append", schema_mode="merge")
    with pytest.raises(RetriableError, match="have changed"):
        drive.task.commit([b""])
    drive.task.drop()  # type: ignore[attr-defined]
    commit(drive, lines(2, 5))
    assert sorted(one for one in numbers(rig) if one is not None) == list(range(5))


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_value_that_a_column_does_not_hold_is_a_bad_record(tmp_path: Path, tolerance: str) -> None:
    rig = DeltaRig(tmp_path, **{"errors.tolerance": tolerance})
    columns = pa.schema([("n", pa.int64()), pa.field("line", pa.string(), nullable=False)])
    write_deltalake(str(rig.path), columns.empty_table())
    drive = SinkDrive(rig)
    one = drive.writer()
    with pytest.raises(RecordsFailed, match=r"The column line of .*/t may not be null") as caught:
        one.write(delta_rows([(1, "a", False), (2, None, False), (3, "c", False)]))
    assert [failure.row for failure in caught.value.failures] == [1]
    drive.task.commit([one.finish()])
    # Without tolerance what comes after it waits for what becomes of it.
    assert numbers(rig) == ([1, 3] if tolerance == "all" else [1])
    assert opened(SinkDrive(rig), T0) == {T0: 4 if tolerance == "all" else 2}


def test_a_missing_table_is_refused_if_the_config_says_so(tmp_path: Path) -> None:
    drive = SinkDrive(DeltaRig(tmp_path, **{"auto.create": "false"}))
    with pytest.raises(LakeError, match=r"There is no Delta table .*/t\. Make it, or set auto\.create=true"):
        write(drive, lines(0, 1))


@pytest.mark.parametrize("key", ["id.columns", "partition.by"])
def test_a_table_is_not_made_without_its_columns(tmp_path: Path, key: str) -> None:
    drive = SinkDrive(DeltaRig(tmp_path, **UPSERT | {key: "nope"}))
    with pytest.raises(LakeError, match=f"{key} names nope, which the records lack"):
        write(drive, lines(0, 1))


def test_a_constraint_fails_the_task_without_its_rows_values(rig: DeltaRig) -> None:
    drive = SinkDrive(rig)
    commit(drive, lines(0, 1))
    DeltaTable(str(rig.path)).alter.add_constraint({"short": "n < 5"})
    with pytest.raises(LakeError, match="refuses") as caught:
        commit(drive, [(9, "secret", False)])
    assert "secret" not in "".join(traceback.format_exception(caught.value)).replace('"secret"', "")


# -- offsets -----------------------------------------------------------------------------------------------------------


def set_offset(rig: DeltaRig, offset: int | None) -> None:
    body = {
        "offsets": [
            {
                "partition": {"kafka_topic": "t", "kafka_partition": 0},
                "offset": None if offset is None else {"kafka_offset": offset},
            }
        ]
    }
    connector = rig.connector()
    connector.worker = rig.worker
    assert connector.check_offsets(rig.config(), body)


def test_an_operator_sets_offsets_in_the_table(rig: DeltaRig) -> None:
    set_offset(rig, 3)  # there is no table yet
    drive = SinkDrive(rig)
    commit(drive, lines(0, 5))
    set_offset(rig, 2)
    again = SinkDrive(rig)
    assert opened(again, T0) == {T0: 2}
    with pytest.raises(RetriableError, match="Another task"):  # the old one is fenced
        commit(drive, lines(5, 6))
    commit(again, lines(2, 7))
    assert numbers(rig) == [0, 1, 2, 2, 3, 3, 4, 4, 5, 6]
    assert opened(SinkDrive(rig), T0) == {T0: 7}
    set_offset(rig, None)
    anew = SinkDrive(rig)
    assert opened(anew, T0) == {}
    commit(anew, lines(0, 1))
    assert opened(SinkDrive(rig), T0) == {T0: 1}


def test_offsets_of_tables_that_transforms_choose_are_not_set(tmp_path: Path) -> None:
    rig = DeltaRig(tmp_path, **{"transforms": "route", "table.path": str(tmp_path / "${topic}")})
    with pytest.raises(NotImplementedError, match="chosen by its transforms"):
        set_offset(rig, 3)


def test_marks_survive_checkpoints_and_compaction(rig: DeltaRig) -> None:
    drive = SinkDrive(rig)
    for number in range(5):
        commit(drive, lines(number, number + 1))
    table = DeltaTable(str(rig.path))
    table.optimize.compact()
    table.create_checkpoint()
    table.cleanup_metadata()
    assert opened(SinkDrive(rig), T0) == {T0: 5}


def test_a_topic_made_again_begins_anew(rig: DeltaRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinesTask, "told", {"t": "first"})
    commit(SinkDrive(rig), lines(0, 5))
    monkeypatch.setattr(LinesTask, "told", {"t": "second"})
    again = SinkDrive(rig)
    assert opened(again, T0) == {}
    commit(again, lines(0, 2))
    assert numbers(rig) == [0, 0, 1, 1, 2, 3, 4]


def test_jobs_wait_until_the_tables_are_known(upserts: DeltaRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.lake.delta.task.MOST_UPSERTS", 100)
    drive = SinkDrive(upserts)
    task: Any = drive.task
    assert task.job_ranges({T0: (0, 1000)}, {T0: 1000}) == {}
    commit(drive, lines(0, 1))
    assert task.job_ranges({T0: (1, 1000), T1: (0, 20)}, {}) == {T0: (1, 51), T1: (0, 20)}
    opened(drive, T1)
    assert task.job_ranges({T0: (1, 1000)}, {T0: 1000}) == {}


def test_jobs_of_large_rows_that_upsert_are_smaller(upserts: DeltaRig) -> None:
    drive = SinkDrive(upserts)
    task: Any = drive.task
    commit(drive, [(0, "x" * (1 << 20), False)])
    begin, end = task.job_ranges({T0: (1, 1_000_000)}, {})[T0]
    assert 200 < end - begin < 256


@pytest.mark.parametrize("name", ["a b", "x;y", "LINE"])
def test_names_that_other_readers_do_not_take_are_refused(rig: DeltaRig, name: str) -> None:
    drive = SinkDrive(rig)
    field = Field(name, Schema(SchemaType.STRUCT, fields=(Field("inner", Schema(SchemaType.INT64)),)))
    drive.task._columns.layouts[0] = Schema(SchemaType.STRUCT, fields=(*LINE.fields, field))  # type: ignore[attr-defined]
    with pytest.raises(LakeError, match=f"cannot have columns named '{name}'"):
        write(drive, lines(0, 1))


@pytest.mark.parametrize("evolves", ["true", "false"])
def test_fields_that_differ_by_case_only_are_refused_by_tables_that_are_there(tmp_path: Path, evolves: str) -> None:
    rig, drive = widening(tmp_path, **{"auto.evolve": evolves})
    write_deltalake(str(rig.path), pa.table({"n": [0], "extra": ["a"]}))
    field = Field("EXTRA", OPTIONAL_STRING)
    layouts = drive.task._columns.layouts  # type: ignore[attr-defined]
    layouts[1] = Schema(SchemaType.STRUCT, fields=(*layouts[1].fields, field))
    with pytest.raises(LakeError, match="cannot have columns named 'EXTRA'"):
        drive.writer().write(wider_rows(0, 2))


def test_a_table_that_another_makes_first_gets_the_columns_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, drive = widening(tmp_path, **{"auto.evolve": "true"})
    create = Tables._create

    def late(self: Tables, path: str, columns: pa.Schema) -> Any:
        write_deltalake(path, pa.table({"n": pa.array([], pa.int64()), "line": pa.array([], pa.string())}))
        return create(self, path, columns)

    monkeypatch.setattr(Tables, "_create", late)
    one = drive.writer()
    one.write(wider_rows(0, 2))
    drive.task.commit([one.finish()])
    assert table_of(rig.path)["extra"].to_pylist() == [0.5, 0.5]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", [{}, UPSERT], ids=["append", "upsert"])
def test_racing_tasks_that_crash_write_each_record_once(
    tmp_path: Path, settings: dict[str, str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owners come and go, former ones go on for a while, and answers of commits get lost."""
    rig, chance, plain = DeltaRig(tmp_path, **settings), random.Random(seed), Tables._write
    log: list[tuple[int, str | None, bool]] = []
    for number in range(400):
        log.append((number, f"key {chance.randrange(20)}" if settings else f"row {number}", chance.random() < 0.2))

    def lost(self: Tables, *args: Any) -> bool:
        done = plain(self, *args)
        if chance.random() < 0.2:
            raise OSError("connection reset")
        return done

    monkeypatch.setattr(Tables, "_write", lost)
    tasks: list[tuple[SinkDrive, int]] = [(SinkDrive(rig), 0)]
    while tasks[-1][1] < len(log):
        if chance.random() < 0.1:
            owner = SinkDrive(rig)
            tasks.append((owner, opened(owner, T0).get(T0, 0)))
            continue
        at = len(tasks) - 1 if chance.random() < 0.7 else max(0, len(tasks) - 2)
        drive, position = tasks[at]
        end = position + chance.randrange(1, 20)
        try:
            commit(drive, [row if settings else (*row[:2], False) for row in log[position:end]])
        except RetriableError:  # as the worker does: held rows come again
            drive.task.drop()  # type: ignore[attr-defined]
        else:
            tasks[at] = drive, min(end, len(log))
    found = [(row["n"], row["line"]) for row in table_of(rig.path).to_pylist()]
    if not settings:
        assert found == [(number, line) for number, line, _ in log]
        return
    fold = {line: None if is_delete else number for number, line, is_delete in log}
    assert found == sorted((number, line) for line, number in fold.items() if number is not None)
