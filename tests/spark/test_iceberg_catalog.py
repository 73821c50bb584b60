"""The catalog of Iceberg's tables in the driver's JVM: metadata, commits, and what others do between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.parts import ALL_PARTITIONS, TableCommit, TablePart
from headrace.connectors.lake.iceberg.schemas import AddColumn, Field, ListOf, MakeOptional, MapOf, Struct, Widen
from headrace.connectors.lake.iceberg.tables import PartitionField, TableState
from headrace.plugins.offsets import TopicPartition
from headrace.worker.engine.driver import Spark
from tests.spark.iceberg_tables import (
    IDS,
    ROWS,
    SCHEMA,
    ZERO,
    OtherCatalog,
    change,
    deletes,
    intents,
    opened,
    parquet,
    properties,
    snapshots,
    written,
)

pytestmark = pytest.mark.spark
BOTH = pytest.mark.parametrize("given", ["hadoop", "jdbc"], indirect=True)


@pytest.fixture
def given(request: pytest.FixtureRequest, tmp_path: Path, engine: Spark) -> dict[str, str]:
    """The properties of a catalog in SQLite, or of the kind that the test wants."""
    return properties(getattr(request, "param", "jdbc"), tmp_path)


@pytest.fixture
def catalog(given: dict[str, str]) -> Iterator[JvmCatalog]:
    made = opened(given)
    yield made
    made.close()


@pytest.fixture
def table(catalog: JvmCatalog) -> TableState:
    """A table without partitions."""
    return catalog.create("db.t", SCHEMA, [], ["id"], {"format-version": "2"})


# -- metadata ---------------------------------------------------------------------------------------------------------


@BOTH
def test_a_table_is_made_once_with_its_namespaces(catalog: JvmCatalog) -> None:
    assert catalog.load("db.deep.t") is None
    nested = Struct((Field(7, "at", "timestamptz", required=True), Field(8, "deep", Struct((Field(9, "n", "int"),)))))
    schema = Struct(
        (
            Field(1, "id", "long"),
            Field(2, "price", "decimal(10,2)"),
            Field(3, "tags", ListOf(4, "string", element_required=True)),
            Field(5, "more", MapOf(6, "string", 7, nested)),
            Field(9, "s", nested),
        )
    )
    terms = ["bucket(id, 4)", "days(s.at)", "truncate(s.deep.n, 10)", "price"]
    made = catalog.create("db.deep.t", schema, terms, ["id", "s.at"], {"format-version": "2", "a": "b"})
    assert catalog.load("db.deep.t") == made == catalog.create("db.deep.t", SCHEMA, [], [], {})
    assert made.identifier == ("id", "s.at")
    assert made.properties["a"] == "b"
    assert (made.format_version, made.is_empty, made.unpartitioned_spec) == (2, True, None)
    id_, price, tags, more, s = made.schema.fields
    assert (id_.required, price.required, price.type, s.required) == (True, False, "decimal(10,2)", True)
    assert isinstance(tags.type, ListOf)
    assert tags.type.element_required
    assert isinstance(more.type, MapOf)
    assert isinstance(more.type.value, Struct)
    assert isinstance(s.type, Struct)
    names = [(one.name, one.transform) for one in made.spec.fields]
    assert names == [
        ("id_bucket", "bucket[4]"),
        ("s.at_day", "day"),
        ("s.deep.n_trunc", "truncate[10]"),
        ("price", "identity"),
    ]
    assert made.spec.fields[1] == PartitionField(s.type.fields[0].id, 1001, "s.at_day", "day")


@pytest.mark.parametrize("term", ["bucket(id)", "lost", "year(id, 3)", "f(id)", "bucket(id, 0)", "day(", "day(name)"])
def test_a_wrong_partition_is_refused(catalog: JvmCatalog, term: str) -> None:
    with pytest.raises(ConfigError, match="partition-by"):
        catalog.create("db.t", SCHEMA, [term], [], {})
    assert catalog.load("db.t") is None


def test_a_column_that_is_no_key_is_refused(catalog: JvmCatalog) -> None:
    with pytest.raises(ConfigError, match="no column 'x'"):
        catalog.create("db.t", SCHEMA, [], ["x"], {})
    with pytest.raises(LakeError, match="identifier"):
        catalog.create("db.t", Struct((Field(1, "f", "double"),)), [], ["f"], {})


def test_a_table_evolves_as_far_as_it_has_not(catalog: JvmCatalog) -> None:
    inner = Struct((Field(3, "n", "int", required=True),))
    schema = Struct((Field(1, "id", "int", required=True), Field(2, "s", inner), Field(4, "l", ListOf(5, inner))))
    catalog.create("db.t", schema, [], [], {})
    asked = [
        AddColumn((), "a.b", "string"),
        AddColumn(("s",), "more", Struct((Field(1, "x", "float"),))),
        AddColumn(("l", "element"), "m", "long"),
        Widen(("id",), "long"),
        Widen(("s", "n"), "long"),
        MakeOptional(("id",)),
        MakeOptional(("s", "n")),
    ]
    made = catalog.evolve("db.t", asked)
    id_, s, items, a = made.schema.fields
    assert (id_.type, id_.required, a.name, a.required) == ("long", False, "a.b", False)
    assert isinstance(s.type, Struct)
    assert isinstance(items.type, ListOf)
    assert isinstance(items.type.element, Struct)
    assert [(one.name, one.required) for one in s.type.fields] == [("n", False), ("more", False)]
    assert [one.name for one in items.type.element.fields] == ["n", "m"]
    assert catalog.evolve("db.t", asked) == made
    assert catalog.evolve("db.t", [Widen(("id",), "int"), AddColumn((), "id", "int")]) == made
    with pytest.raises(LakeError, match="cannot be string"):
        catalog.evolve("db.t", [AddColumn((), "id", "string")])
    with pytest.raises(LakeError, match="there is no column x"):
        catalog.evolve("db.t", [MakeOptional(("x",))])


@BOTH
def test_two_tasks_evolve_a_table_at_once(catalog: JvmCatalog, table: TableState) -> None:
    with ThreadPoolExecutor(4) as pool:
        each = [pool.submit(catalog.evolve, "db.t", [AddColumn((), f"c{n}", "int")]) for n in range(8)]
        for one in each:
            one.result()
    now = catalog.load("db.t")
    assert now is not None
    assert len(now.schema.fields) == 10


# -- commits ----------------------------------------------------------------------------------------------------------


@BOTH
def test_rows_come_with_their_marks_and_not_twice(
    catalog: JvmCatalog, table: TableState, given: dict[str, str], tmp_path: Path
) -> None:
    assert catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": True}
    assert catalog.marks("db.t", IDS) == {ZERO: 2}
    assert catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": False}
    other = OtherCatalog(given)
    java = other.table("db.t")
    assert other.rows(java) == ROWS
    (summary,) = snapshots(java)
    assert summary["kafka.connect.task-id"] == "sink-0"
    assert json.loads(summary["headrace.offsets.sink"]) == {"id-of-t": {"topic": "t", "offsets": {"0": 2}}}
    assert len(parquet(given)) == 1
    assert not intents(given)
    assert not list(tmp_path.glob("*.parquet"))
    now = catalog.load("db.t")
    assert now is not None
    assert not now.is_empty


def test_a_commit_without_rows_moves_marks_only(catalog: JvmCatalog, table: TableState) -> None:
    assert catalog.commit([change(table, None, 7)], IDS) == {"db.t": True}
    assert catalog.marks("db.t", IDS) == {ZERO: 7}
    now = catalog.load("db.t")
    assert now is not None
    assert now.is_empty


def test_partition_values_are_those_of_the_files(catalog: JvmCatalog, given: dict[str, str], tmp_path: Path) -> None:
    table = catalog.create("db.t", SCHEMA, ["name", "bucket(id, 2)"], [], {})
    file = written(tmp_path, table, [(1, "a/b")], partition=("a/b", 1))
    blank = written(tmp_path, table, [(2, None)], partition=(None, 0))
    assert catalog.commit([change(table, None, 2, file, blank)], IDS) == {"db.t": True}
    assert {path.parent.parent.name for path in Path(given["warehouse"]).rglob("*.parquet")} == {
        "name=a%2Fb",
        "name=null",
    }
    with pytest.raises(LakeError, match="partition values"):
        catalog.commit([change(table, 2, 3, written(tmp_path, table, [(1, "a")]))], IDS)
    assert len(parquet(given)) == 2
    assert not intents(given)


def test_a_delete_touches_older_snapshots_only(
    catalog: JvmCatalog, table: TableState, given: dict[str, str], tmp_path: Path
) -> None:
    catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    parts = [
        TablePart("db.t", table.uuid, (written(tmp_path, table, [(1, "A")]), deletes(tmp_path, table, 1))),
        TablePart("db.t", table.uuid, (written(tmp_path, table, [(3, "c")]), deletes(tmp_path, table, 3, 1))),
        TablePart("db.t", table.uuid, (written(tmp_path, table, [(4, "d")]),)),
    ]
    assert catalog.commit([TableCommit("db.t", tuple(parts), {ZERO: 2}, {ZERO: 6})], IDS) == {"db.t": True}
    other = OtherCatalog(given)
    java = other.table("db.t")
    assert other.rows(java) == [(2, "b"), (3, "c"), (4, "d")]
    kept = ["headrace.offsets.sink" in one for one in snapshots(java)]
    assert kept == [True, False, False, True]


def test_a_delete_of_all_partitions_has_an_unpartitioned_spec(
    catalog: JvmCatalog, given: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create("db.t", SCHEMA, ["name"], ["id"], {"format-version": "3"})
    catalog.commit([change(table, None, 1, written(tmp_path, table, [(1, "a")], partition=("a",)))], IDS)
    moved = written(tmp_path, table, [(1, "b")], partition=("b",))
    commit = change(table, 1, 2, moved, deletes(tmp_path, table, 1, spec_id=ALL_PARTITIONS))
    assert catalog.commit([commit], IDS) == {"db.t": True}
    other = OtherCatalog(given)
    assert other.rows(other.table("db.t")) == [(1, "b")]
    now = catalog.load("db.t")
    assert now is not None
    assert now.unpartitioned_spec is not None
    assert now.spec == table.spec
    again = change(table, 2, 3, deletes(tmp_path, table, 1, spec_id=now.unpartitioned_spec))
    assert catalog.commit([again], IDS) == {"db.t": True}
    assert other.rows(other.table("db.t")) == []


def test_a_first_format_has_no_deletes(catalog: JvmCatalog, given: dict[str, str], tmp_path: Path) -> None:
    table = catalog.create("db.t", SCHEMA, [], [], {"format-version": "1"})
    assert catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": True}
    with pytest.raises(LakeError, match="format version 1"):
        catalog.commit([change(table, 2, 3, deletes(tmp_path, table, 1))], IDS)
    assert len(parquet(given)) == 1


def test_another_table_of_that_name_gets_nothing(catalog: JvmCatalog, table: TableState, tmp_path: Path) -> None:
    stale = replace(table, uuid=str(uuid4()))
    assert catalog.commit([change(stale, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": False}
    now = catalog.load("db.t")
    assert now is not None
    assert now.is_empty


def test_one_table_fails_and_the_other_is_committed(catalog: JvmCatalog, table: TableState, tmp_path: Path) -> None:
    lost = replace(table, name="db.lost")
    both = [change(one, None, 2, written(tmp_path, table, ROWS)) for one in (lost, table)]
    with pytest.raises(LakeError, match=r"db\.lost"):
        catalog.commit(both, IDS)
    assert catalog.marks("db.t", IDS) == {ZERO: 2}


@BOTH
def test_tasks_that_commit_at_once_keep_each_others_marks(
    given: dict[str, str], table: TableState, tmp_path: Path
) -> None:
    def run(task: int) -> None:
        mine, at = opened(given, task=task), TopicPartition("t", task)
        for n in range(5):
            file = written(tmp_path, table, [(task * 10 + n, "x")])
            assert mine.commit([change(table, n or None, n + 1, file, at=at)], IDS) == {"db.t": True}
        mine.close()

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(run, task) for task in range(4)]:
            one.result()
    other = OtherCatalog(given)
    assert len(other.rows(other.table("db.t"))) == 20
    assert opened(given).marks("db.t", IDS) == {TopicPartition("t", task): 5 for task in range(4)}
    assert len(parquet(given)) == 20
