"""The Iceberg sink's task over a catalog in memory: when it commits, what it holds, whose marks it believes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files.writer import part_of
from headrace.connectors.lake.iceberg.schemas import AddColumn, Changes, MakeOptional, Struct, Widen
from headrace.connectors.lake.iceberg.schemas import Field as Column
from headrace.connectors.lake.iceberg.sink import connector as connector_module
from headrace.connectors.lake.iceberg.sink import task as module
from headrace.connectors.lake.iceberg.sink.columns import Op
from headrace.connectors.lake.iceberg.sink.connector import IcebergSinkConnector
from headrace.connectors.lake.iceberg.sink.evolution import Evolution
from headrace.connectors.lake.iceberg.sink.task import IcebergSinkTask
from headrace.connectors.lake.iceberg.tables import TableState
from headrace.plugins.contracts import TaskContext
from headrace.plugins.errors import RecordsFailed, RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.stopping import StopToken
from tests.unit.connectors.lake.fake_catalog import FakeCatalog, columns

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
ROW = Schema(
    SchemaType.STRUCT,
    fields=(Field("id", Schema(SchemaType.INT64)), Field("a", Schema(SchemaType.STRING, optional=True))),
)
KEY = Schema(SchemaType.STRUCT, fields=(Field("id", Schema(SchemaType.INT64)),))
WIDE = replace(ROW, fields=(*ROW.fields, Field("b", Schema(SchemaType.INT32, optional=True))))
AT_ONCE = {"iceberg.control.commit.interval-ms": "0"}
UPSERTS = {"iceberg.tables.upsert-mode-enabled": "true"}
CREATES = {"iceberg.tables.auto-create-enabled": "true"}
EVOLVES = {"iceberg.tables.evolve-schema-enabled": "true"}

Start = Callable[..., IcebergSinkTask]
ARROW = {SchemaType.INT64: pa.int64(), SchemaType.STRING: pa.string(), SchemaType.INT32: pa.int32()}


def rows(
    offsets: Sequence[int],
    values: Sequence[Mapping[str, Any] | None],
    op: Op = Op.APPEND,
    layout: int = 0,
    schema: Schema | None = ROW,
    partition: TopicPartition = P0,
    routes: Sequence[str | None] = (),
    errors: Sequence[str | None] = (),
) -> pa.RecordBatch:
    """Rows as the task's expressions make them; a null value is a delete by key in upserts, else passed over."""
    kind: pa.DataType = pa.string()
    if schema is not None:
        kind = pa.struct([(one.name, ARROW[one.schema.type]) for one in schema.fields])
    count = len(offsets)
    return pa.RecordBatch.from_pydict(
        {
            "origin_topic": [partition.topic] * count,
            "origin_partition": pa.array([partition.partition] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "error": pa.array(errors or [None] * count, pa.string()),
            "route": pa.array(routes or [None] * count, pa.string()),
            "op": pa.array([None if one is None else int(op) for one in values], pa.int8()),
            "layout": pa.array([None if one is None else layout for one in values], pa.int32()),
            f"value_{layout}": pa.array(values, kind),
        }
    )


def deletes(offsets: Sequence[int], ids: Sequence[int]) -> pa.RecordBatch:
    """Tombstones with these keys."""
    made = rows(offsets, [None] * len(offsets), Op.DELETE)
    made = made.set_column(5, "op", pa.array([int(Op.DELETE)] * len(ids), pa.int8()))
    made = made.append_column("key_layout", pa.array([0] * len(ids), pa.int32()))
    return made.append_column("key_0", pa.array([{"id": one} for one in ids], pa.struct([("id", pa.int64())])))


@pytest.fixture
def catalog() -> FakeCatalog:
    made = FakeCatalog()
    made.create("db.t", columns(id="long!", a="string"), (), ("id",), {})
    return made


@pytest.fixture
def start(catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    started: list[IcebergSinkTask] = []
    monkeypatch.setattr(module, "JvmCatalog", lambda *arguments: catalog)

    def start(*opened: TopicPartition, **config: str) -> IcebergSinkTask:
        task = IcebergSinkTask()
        given = {"iceberg.tables": "db.t", "iceberg.catalog.type": "rest", **AT_ONCE, **config}
        task.start(
            given, TaskContext("c", 0, StopToken(), topic_ids=lambda topics: {one: f"id-{one}" for one in topics})
        )
        task._columns.layouts[:] = [ROW, WIDE, None]
        task._columns.key_layouts[:] = [KEY]
        if opened:
            task.open(opened)
        started.append(task)
        return task

    yield start
    for one in started:
        one.stop()


def write(task: IcebergSinkTask, *batches: pa.RecordBatch) -> Mapping[TopicPartition, int]:
    """A batch, as the worker writes it; returns what is held."""
    writer = task.writer("a")
    for batch in batches:
        writer.write(batch)
    return task.commit([writer.finish()])


def in_job(task: IcebergSinkTask) -> Any:
    """A writer as in a Python worker of a job."""
    writer = pickle.loads(pickle.dumps(task.writer("a")))
    writer.name = "another process"
    return writer


def files_of(task: IcebergSinkTask) -> list[Path]:
    """The files on the local disk."""
    assert task._folder is not None
    return list(Path(task._folder.name).iterdir())


def test_rows_are_held_for_the_interval_and_committed_with_their_marks(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0, P1, **{"iceberg.control.commit.interval-ms": "100000"})
    assert task.due_s() is None
    assert write(task, rows([5, 6], [{"id": 1, "a": "x"}, None])) == {P0: 5}
    assert write(task, rows([1], [{"id": 2, "a": "y"}], partition=P1)) == {P0: 5, P1: 1}
    assert 0 < (task.due_s() or 0) <= 100
    assert not catalog.tables["db.t"].commits
    task._files.spec = replace(task._files.spec, interval_s=0)
    assert task.due_s() == 0
    assert write(task) == {}
    table = catalog.tables["db.t"]
    assert table.rows == [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]
    assert table.marks == {P0: 7, P1: 2}
    assert len(table.commits) == 1
    assert task.due_s() is None


def test_records_without_rows_make_no_commit(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0)
    assert write(task, rows([1, 2], [None, None])) == {}
    assert not catalog.tables["db.t"].commits


def test_the_marks_of_one_table_are_the_positions(start: Start, catalog: FakeCatalog) -> None:
    catalog.tables["db.t"].marks = {P0: 7}
    task = start()
    assert task.open([P0, P1]) == {P0: 7}
    write(task, rows([5, 6, 7], [{"id": 1, "a": "x"}, {"id": 2, "a": "x"}, {"id": 3, "a": "x"}]))
    assert [row["id"] for row in catalog.tables["db.t"].rows] == [3]
    catalog.create("db.u", columns(id="long!", a="string"), (), (), {})
    several = start(**{"iceberg.tables": "db.t,db.u"})
    assert several.open([P0]) == {}
    assert start(**{"iceberg.tables": "db.none"}).open([P0]) == {}


def test_each_of_several_tables_gets_what_it_has_not(start: Start, catalog: FakeCatalog) -> None:
    catalog.create("db.u", columns(id="long!", a="string"), (), (), {})
    catalog.tables["db.u"].marks = {P0: 2}
    task = start(P0, **{"iceberg.tables": "db.t,db.u"})
    write(task, rows([1, 2], [{"id": 1, "a": "x"}, {"id": 2, "a": "x"}]))
    assert [row["id"] for row in catalog.tables["db.t"].rows] == [1, 2]
    assert [row["id"] for row in catalog.tables["db.u"].rows] == [2]
    assert catalog.tables["db.u"].marks == catalog.tables["db.t"].marks == {P0: 3}


def test_a_zombie_commits_nothing_and_reads_again(start: Start, catalog: FakeCatalog) -> None:
    zombie, owner = start(P0), start(P0)
    write(owner, rows([0, 1], [{"id": 1, "a": "x"}, {"id": 2, "a": "x"}]))
    with pytest.raises(RetriableError, match=r"moved the offsets in db\.t"):
        write(zombie, rows([0], [{"id": 1, "a": "x"}]))
    zombie.drop()
    write(zombie, rows([0, 1, 2], [{"id": 1, "a": "x"}, {"id": 2, "a": "x"}, {"id": 3, "a": "x"}]))
    assert [row["id"] for row in catalog.tables["db.t"].rows] == [1, 2, 3]


def test_an_answer_that_is_lost_makes_no_row_twice(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0)
    catalog.fails_after = RetriableError("the link was cut")
    with pytest.raises(RetriableError, match="cut"):
        write(task, rows([0], [{"id": 1, "a": "x"}]))
    task.drop()
    write(task, rows([0, 1], [{"id": 1, "a": "x"}, {"id": 2, "a": "x"}]))
    assert [row["id"] for row in catalog.tables["db.t"].rows] == [1, 2]


def test_a_rollback_while_it_runs_ends_the_task(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0)
    write(task, rows([0, 1], [{"id": 1, "a": "x"}, {"id": 2, "a": "x"}]))
    catalog.tables["db.t"].marks = {P0: 1}
    with pytest.raises(LakeError, match="rolled back"):
        write(task, rows([2], [{"id": 3, "a": "x"}]))
    assert start().open([P0]) == {P0: 1}


def test_a_rebalance_throws_away_the_held_rows_of_all(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0, P1, **{"iceberg.control.commit.interval-ms": "100000"})
    write(task, rows([5], [{"id": 1, "a": "x"}]), rows([5], [{"id": 2, "a": "x"}], partition=P1))
    task.close([P1])
    assert task.due_s() == 0
    with pytest.raises(RetriableError, match="read again"):
        task.writer("a")
    assert write(task, rows([5], [{"id": 1, "a": "x"}])) == {P0: 5}
    task.close([P0])
    assert task.due_s() is None


def test_held_rows_come_again_however_a_rebalance_goes_on(
    start: Start, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = start(P0, P1, **{"iceberg.control.commit.interval-ms": "100000"})
    write(task, rows([5], [{"id": 1, "a": "x"}]))
    task.close([P1])
    with monkeypatch.context() as away:
        away.setattr(catalog, "load", lambda table: (_ for _ in ()).throw(RetriableError("no answer")))
        with pytest.raises(RetriableError, match="no answer"):
            task.open([P1])
    task.open([P1])
    with pytest.raises(RetriableError, match="read again"):
        task.writer("a")
    assert write(task, rows([5], [{"id": 1, "a": "x"}])) == {P0: 5}


def test_a_failed_job_reads_the_marks_again_and_leaves_no_file(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0)
    write(task, rows([0], [{"id": 1, "a": "x"}]))
    assert not files_of(task)
    writer = in_job(task)
    writer.write(rows([1], [{"id": 1, "a": "x"}]))
    writer.finish()
    assert files_of(task)
    catalog.tables["db.t"].marks = {P0: 9}
    assert task.recover() == {P0: 9}
    assert not files_of(task)


def test_a_job_commits_all_that_its_writers_took(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0, P1, **{"iceberg.control.commit.interval-ms": "100000"})
    write(task, rows([0], [{"id": 1, "a": "x"}]))
    task.drop()
    parts = []
    for partition in (P0, P1):
        writer = in_job(task)
        writer.write(rows([0], [{"id": 1, "a": "x"}], partition=partition))
        parts.append(writer.finish())
    assert task.commit(parts) == {}
    assert catalog.tables["db.t"].marks == {P0: 1, P1: 1}
    (commit,) = catalog.tables["db.t"].commits
    assert len(commit.parts) == 2


def test_a_job_without_the_table_fails_so_that_the_task_learns_it(start: Start, catalog: FakeCatalog) -> None:
    writer = in_job(start(P0))
    with pytest.raises(RecordsFailed, match="not known yet"):
        writer.write(rows([0], [{"id": 1, "a": "x"}]))


def test_each_commit_deletes_the_rows_that_its_keys_had(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0, **UPSERTS)
    write(task, rows([0], [{"id": 1, "a": "x"}], Op.UPSERT))
    writer = in_job(task)
    writer.write(rows([1], [{"id": 2, "a": "y"}], Op.UPSERT))
    task.commit([writer.finish()])
    write(task, rows([2, 3], [{"id": 3, "a": "y"}, {"id": 3, "a": "z"}], Op.UPSERT), deletes([4], [1]))
    table = catalog.tables["db.t"]
    assert [row["a"] for row in table.rows] == ["x", "y", "z"]
    deleted = [
        sorted(file.records for part in one.parts for file in part.files if file.equality_ids) for one in table.commits
    ]
    assert deleted[1:] == [[1], [2]]


def test_bad_records_are_named_and_stop_their_partition(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0)
    writer = task.writer("a")
    with pytest.raises(RecordsFailed) as caught:
        writer.write(rows([0, 1, 2], [{"id": n, "a": "x"} for n in range(3)], errors=[None, "bad", None]))
    assert [(one.row, one.message) for one in caught.value.failures] == [(1, "bad")]
    task.commit([writer.finish()])
    assert [row["id"] for row in catalog.tables["db.t"].rows] == [0]
    assert catalog.tables["db.t"].marks == {P0: 1}
    tolerant = start(P0, **{"errors.tolerance": "all"})
    writer = tolerant.writer("a")
    with pytest.raises(RecordsFailed):
        writer.write(rows([1, 2], [{"id": n, "a": "x"} for n in (1, 2)], errors=["bad", None]))
    tolerant.commit([writer.finish()])
    assert catalog.tables["db.t"].marks == {P0: 3}


def test_missing_tables_fail_or_are_made(start: Start, catalog: FakeCatalog) -> None:
    with pytest.raises(LakeError, match=r"Table db\.new is missing in the catalog"):
        write(start(P0, **{"iceberg.tables": "db.new"}), rows([0], [{"id": 1, "a": "x"}]))
    task = start(P0, **{"iceberg.tables": "db.new", "iceberg.tables.default-id-columns": "id"}, **CREATES)
    write(task, rows([0], [{"id": 1, "a": "x"}]))
    made = catalog.tables["db.new"].state
    assert [(one.name, one.type, one.required) for one in made.schema.fields] == [
        ("id", "long", True),
        ("a", "string", False),
    ]
    assert made.identifier == ("id",)
    assert catalog.tables["db.new"].rows == [{"id": 1, "a": "x"}]


def test_tables_of_schemaless_values(start: Start, catalog: FakeCatalog) -> None:
    task = start(P0, **{"iceberg.tables": "db.new"}, **CREATES, **EVOLVES)
    values: list[Any] = ['{"n":1,"s":"x","o":{"d":1.5}}', '{"n":2,"l":[true]}']
    write(task, rows([0, 1], values, layout=2, schema=None))
    kinds = {one.name: one.type for one in catalog.tables["db.new"].state.schema.fields}
    assert (kinds["n"], kinds["s"]) == ("long", "string")
    later: list[Any] = ['{"n":3,"new":"y"}']
    write(task, rows([2], later, layout=2, schema=None))
    assert catalog.tables["db.new"].rows[-1]["new"] == "y"


def test_records_that_no_table_can_be_made_of_fail_alone(start: Start, catalog: FakeCatalog) -> None:
    new = {"iceberg.tables": "db.new", "iceberg.tables.default-id-columns": "id", "errors.tolerance": "all"}
    task = start(P0, **new, **CREATES, **EVOLVES, **UPSERTS)
    bad: list[Any] = ["{}", '{"id":null}', '{"x":1}', '{"id":1,"id":2}']
    writer = task.writer("a")
    with pytest.raises(RecordsFailed) as caught:
        writer.write(rows([0, 1, 2, 3], bad, Op.UPSERT, layout=2, schema=None))
    assert [one.row for one in caught.value.failures] == [0, 1, 2, 3]
    said = [one.message for one in caught.value.failures]
    assert "no field id, a part of the table's key" in said[0]
    assert "twice" in said[3]
    task.commit([writer.finish()])
    assert "db.new" not in catalog.tables
    good: list[Any] = ["{}", '{"id":5}']
    writer = task.writer("a")
    with pytest.raises(RecordsFailed) as caught:
        writer.write(rows([4, 5], good, Op.UPSERT, layout=2, schema=None))
    assert [one.row for one in caught.value.failures] == [0]
    task.commit([writer.finish()])
    assert catalog.tables["db.new"].rows == [{"id": 5}]


def test_deletes_before_a_table_are_passed_over_beside_a_bad_row(start: Start, catalog: FakeCatalog) -> None:
    new = {"iceberg.tables": "db.new", "iceberg.tables.default-id-columns": "id", "errors.tolerance": "all"}
    writer = start(P0, **new, **UPSERTS, **CREATES).writer("a")
    with pytest.raises(RecordsFailed) as caught:
        writer.write(rows([0], [{"id": 1, "a": "x"}], Op.UPSERT, errors=["bad"]))
    assert [one.message for one in caught.value.failures] == ["bad"]
    writer.write(deletes([1], [1]))


def test_each_table_has_a_key_of_its_own(start: Start, catalog: FakeCatalog) -> None:
    catalog.create("db.b", columns(b="int!", a="string"), (), ("b",), {})
    task = start(P0, **{"iceberg.tables": "db.t,db.b"}, **UPSERTS)
    writer = task.writer("a")
    with pytest.raises(RecordsFailed, match=r"no field b, which is a part of the key of the table db\.b"):
        writer.write(rows([0], [{"id": 1, "a": "x"}], Op.UPSERT))
    write(task, rows([0], [{"id": 1, "a": "x", "b": 2}], Op.UPSERT, layout=1, schema=WIDE))
    assert catalog.tables["db.b"].rows == [{"b": 2, "a": "x"}]


def test_identifier_fields_stay_required_without_upserts(start: Start, catalog: FakeCatalog) -> None:
    fields = tuple(replace(one, schema=replace(one.schema, optional=True)) for one in ROW.fields)
    task = start(P0, **EVOLVES)
    task._columns.layouts[0] = replace(ROW, fields=fields)
    write(task, rows([0], [{"id": 1, "a": "x"}]))
    assert [one.required for one in catalog.tables["db.t"].state.schema.fields] == [True, False]


def test_schemaless_values_change_no_column_that_is_there(start: Start, catalog: FakeCatalog) -> None:
    catalog.create("db.j", columns(i="int!", f="float", s="string!"), (), (), {})
    task = start(P0, **{"iceberg.tables": "db.j"}, **EVOLVES)
    values: list[Any] = ['{"i":5,"f":0.5,"s":"x","new":1}']
    write(task, rows([0], values, layout=2, schema=None))
    found = {one.name: (one.type, one.required) for one in catalog.tables["db.j"].state.schema.fields}
    assert found == {"i": ("int", True), "f": ("float", False), "s": ("string", True), "new": ("long", False)}


def test_only_new_columns_are_forced_to_be_optional(start: Start, catalog: FakeCatalog) -> None:
    catalog.create("db.j", columns(id="long!"), (), (), {})
    forced = {"iceberg.tables.schema-force-optional": "true"}
    required = replace(ROW, fields=(ROW.fields[0], Field("a", Schema(SchemaType.STRING))))
    for table in ("db.j", "db.new"):
        task = start(P0, **{"iceberg.tables": table}, **forced, **EVOLVES, **CREATES)
        task._columns.layouts[0] = required
        write(task, rows([0], [{"id": 1, "a": "x"}]))
    found = {name: [one.required for one in catalog.tables[name].state.schema.fields] for name in ("db.j", "db.new")}
    assert found == {"db.j": [True, False], "db.new": [False, False]}


def test_what_is_around_a_key_stays_required() -> None:
    table = Struct((Column(1, "at", Struct((Column(2, "id", "long", True), Column(3, "n", "int", True))), True),))
    record = Struct((Column(0, "at", Struct((Column(0, "id", "long"), Column(0, "n", "long")))),))
    found = Evolution(keys=("at.id",)).changes(table, record)
    assert found == [MakeOptional(("at", "n")), Widen(("at", "n"), "long")]


def test_another_task_may_add_a_column_of_another_type_first(
    start: Start, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    evolve = catalog.evolve

    def refused(table: str, changes: Changes) -> TableState:
        monkeypatch.setattr(catalog, "evolve", evolve)
        evolve(table, [AddColumn((), "more", "long")])
        raise LakeError("the column more is long, and cannot be double")

    monkeypatch.setattr(catalog, "evolve", refused)
    task, values = start(P0, **EVOLVES, **{"errors.tolerance": "all"}), ['{"id":1,"more":2.0}', '{"id":2,"more":0.5}']
    writer = task.writer("a")
    with pytest.raises(RecordsFailed, match=r"more \(int64\) cannot hold 0\.5"):
        writer.write(rows([0, 1], values, layout=2, schema=None))  # type: ignore[arg-type]
    task.commit([writer.finish()])
    assert catalog.tables["db.t"].rows == [{"id": 1, "a": None, "more": 2}]


def test_schemaless_values_stand_beside_others(start: Start, catalog: FakeCatalog) -> None:
    task, values = start(P0), ['{"id":2,"a":"y","more":1}']
    write(task, rows([0], [{"id": 1, "a": "x"}]), rows([1], values, layout=2, schema=None))  # type: ignore[arg-type]
    assert catalog.tables["db.t"].rows == [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]


def test_tables_grow_if_they_may(start: Start, catalog: FakeCatalog, caplog: pytest.LogCaptureFixture) -> None:
    wide = rows([0], [{"id": 1, "a": "x", "b": 2}], layout=1, schema=WIDE)
    write(start(P0), wide)
    assert "no columns for the fields b" in caplog.text
    assert catalog.tables["db.t"].rows == [{"id": 1, "a": "x"}]
    task = start(P0, **EVOLVES)
    write(task, rows([1], [{"id": 2, "a": "x"}]), rows([2], [{"id": 3, "a": "x", "b": 2}], layout=1, schema=WIDE))
    assert [row.get("b") for row in catalog.tables["db.t"].rows] == [None, None, 2]


def test_upserts_need_a_key(start: Start, catalog: FakeCatalog) -> None:
    catalog.create("db.u", columns(id="long", a="string"), (), (), {})
    with pytest.raises(LakeError, match="no identifier fields"):
        write(start(P0, **{"iceberg.tables": "db.u"}, **UPSERTS), rows([0], [{"id": 1, "a": "x"}], Op.UPSERT))
    keyed = {"iceberg.tables": "db.u", "iceberg.table.db.u.id-columns": "id"}
    write(start(P0, **keyed, **UPSERTS), rows([0], [{"id": 1, "a": "x"}], Op.UPSERT))
    assert catalog.tables["db.u"].rows == [{"id": 1, "a": "x"}]


def test_deletes_before_the_table_is_made_are_passed_over(start: Start, catalog: FakeCatalog) -> None:
    new = {"iceberg.tables": "db.new", "iceberg.tables.default-id-columns": "id"}
    task = start(P0, **new, **UPSERTS, **CREATES)
    assert write(task, deletes([0, 1], [1, 2])) == {}
    assert "db.new" not in catalog.tables
    write(task, deletes([2], [1]), rows([3], [{"id": 1, "a": "x"}], Op.UPSERT), deletes([4], [7]))
    table = catalog.tables["db.new"]
    assert table.rows == [{"id": 1, "a": "x"}]
    assert table.marks == {P0: 5}
    write(task, deletes([5], [1]))
    assert {"id": 1} in table.deletes


def test_routes_choose_tables(start: Start, catalog: FakeCatalog) -> None:
    dynamic = {
        "iceberg.tables": "",
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "r",
    }
    task = start(P0, **dynamic, **CREATES)
    write(task, rows([0, 1, 2], [{"id": n, "a": "x"} for n in range(3)], routes=["db.a", "db.b", "db.a"]))
    assert [row["id"] for row in catalog.tables["db.a"].rows] == [0, 2]
    assert [row["id"] for row in catalog.tables["db.b"].rows] == [1]
    assert catalog.tables["db.a"].marks == catalog.tables["db.b"].marks == {P0: 3}


def test_no_table_is_made_that_upserts_cannot_use(start: Start, catalog: FakeCatalog) -> None:
    dynamic = {"iceberg.tables": "", "iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "r"}
    task = start(P0, **dynamic, **CREATES, **UPSERTS)
    with pytest.raises(LakeError, match=r"iceberg\.table\.db\.a\.id-columns"):
        write(task, rows([0], [{"id": 1, "a": "x"}], Op.UPSERT, routes=["db.a"]))
    assert "db.a" not in catalog.tables


def test_an_answer_of_a_writer_is_small(start: Start) -> None:
    task = start(P0)
    writer = task.writer("a")
    writer.write(rows([0], [{"id": 1, "a": "x"}]))
    answer = writer.finish()
    assert len(answer) < 2_000
    assert part_of(answer).done == {P0: (0, 0)}
    task.commit([answer])


def test_an_operator_changes_the_marks_of_topics(catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_module, "JvmCatalog", lambda *arguments, **more: catalog)
    other = TopicPartition("u", 0)
    catalog.tables["db.t"].marks = {P0: 7, other: 8}
    config = {"name": "c", "iceberg.tables": "db.t,db.missing", "iceberg.catalog.type": "rest"}
    offsets = [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 3}}]
    assert IcebergSinkConnector().check_offsets(config, {"offsets": offsets}) is True
    assert catalog.tables["db.t"].marks == {other: 8}
    dynamic = {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "r"}
    with pytest.raises(NotImplementedError, match="another name"):
        IcebergSinkConnector().check_offsets({"name": "c", "iceberg.catalog.type": "rest", **dynamic}, {"offsets": []})
