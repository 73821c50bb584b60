"""The Iceberg source on real tables: the kit, snapshots of all kinds, types, and tables that change."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.parts import WrittenFile
from headrace.connectors.lake.iceberg.schemas import AddColumn, Field, ListOf, MapOf, Struct, Widen
from headrace.connectors.lake.iceberg.source.connector import IcebergSourceConnector
from headrace.connectors.lake.iceberg.source.positions import Position
from headrace.connectors.lake.iceberg.tables import TableState
from headrace.plugins.contracts import Connector
from headrace.plugins.source_rows import records_of
from headrace.plugins.testkit import SourceContract, SourceDrive, SourceOnSparkContract, SourceRig, frame_of
from headrace.plugins.testkit.driving import LARGE, SMALL
from headrace.worker.engine.driver import Spark
from tests.spark.iceberg_tables import ROWS, SCHEMA, ZERO, OtherCatalog, change, deletes, opened, properties, written

pytestmark = pytest.mark.spark


class Lake(SourceRig):
    """Tables in a JDBC catalog on the local disk, written by another connector."""

    def __init__(self, folder: Path, schema: Struct | None = None, **settings: str) -> None:
        self.folder, self.settings = folder, settings
        self.given = properties("jdbc", folder)
        self.catalog = opened(self.given)
        self.schema = schema or Struct((Field(1, "value", "string"),))
        self.made: TableState | None = None
        self.end = 0

    def connector(self) -> Connector:
        return IcebergSourceConnector()

    def config(self) -> dict[str, str]:
        own = {f"iceberg.catalog.{key}": value for key, value in self.given.items()}
        return {"iceberg.tables": "db.t", "poll.interval.ms": "0", **own, **self.settings}

    @property
    def table(self) -> TableState:
        if self.made is None:
            self.made = self.catalog.create("db.t", self.schema, [], [], {"format-version": "2"})
        return self.made

    def put(self, values: Sequence[Any]) -> None:
        self.append([(value,) for value in values])

    def append(self, *files: Sequence[tuple[Any, ...]]) -> None:
        """Append a snapshot with these files."""
        self.commit(*(written(self.folder, self.table, rows) for rows in files))

    def commit(self, *files: WrittenFile) -> None:
        begin, self.end = self.end or None, self.end + 1
        done = self.catalog.commit([change(self.table, begin, self.end, *files)], {"t": "id"})
        assert done == {"db.t": True}, ZERO

    def value(self, row: Any) -> Any:
        return row["value"]["value"]


class Rows(Lake):
    """A table of ids and names."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, SCHEMA, **settings)
        self.made = self.catalog.create("db.t", SCHEMA, [], ["id"], {"format-version": "2"})

    def value(self, row: Any) -> Any:
        return tuple(row["value"].values())


@pytest.fixture
def java(spark: SparkSession, engine: Spark) -> None:
    """Spark's driver."""


class TestTheKit(SourceContract):
    @pytest.fixture
    def rig(self, tmp_path: Path, java: None) -> Iterator[Lake]:
        rig = Lake(tmp_path)
        assert rig.table
        yield rig
        rig.catalog.close()


class TestTheKitOnSpark(SourceOnSparkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path, java: None) -> Iterator[Lake]:
        rig = Lake(tmp_path)
        assert rig.table
        yield rig
        rig.catalog.close()


@pytest.fixture
def rows(tmp_path: Path, java: None) -> Iterator[Rows]:
    rig = Rows(tmp_path)
    yield rig
    rig.catalog.close()


@pytest.fixture
def other(rows: Rows) -> OtherCatalog:
    """Another program's catalog."""
    return OtherCatalog(rows.given)


def test_a_whole_table_then_its_increments(rows: Rows) -> None:
    rows.append(ROWS[:1], ROWS[1:])
    rows.append([(3, None)])
    drive = SourceDrive(rows)
    assert sorted(drive.run()) == [*ROWS, (3, None)]
    rows.append()
    assert drive.run() == []
    rows.append([(4, "d")])
    rows.append([(5, "e")])
    assert drive.run() == [(4, "d"), (5, "e")]
    drive.end()


def test_a_restart_goes_on_in_the_middle_of_a_snapshot(rows: Rows) -> None:
    rows.append([(number, "x") for number in range(5)], [(number, "y") for number in range(5, 9)])
    drive = SourceDrive(rows)
    plan = drive.planned()
    read = drive.rows(plan)
    drive.store(read[:3])
    rows.append([(20, "z")])
    drive.restart()
    assert [row.value for row in read[:3]] + drive.run() == [row.value for row in read] + [(20, "z")]
    drive.end()


@pytest.mark.parametrize("start", ["latest", "id", "time", "long ago"])
def test_where_a_table_is_begun(rows: Rows, other: OtherCatalog, start: str) -> None:
    rows.append([(1, "a")])
    at = other.table("db.t").currentSnapshot()
    moment = dt.datetime.fromtimestamp(at.timestampMillis() / 1000 + 0.001, dt.UTC).isoformat()
    if start != "latest":
        rows.append([(2, "b")])
    words = {"id": str(at.snapshotId()), "time": moment, "long ago": "2020-01-01T00:00:00Z"}
    rows.settings["start.from"] = words.get(start, start)
    drive = SourceDrive(rows)
    begun = drive.run()
    assert begun == {"latest": [], "long ago": [(1, "a"), (2, "b")]}.get(start, [(2, "b")])
    drive.restart()
    rows.append([(3, "c")])
    assert drive.run() == [(3, "c")]
    drive.end()


def test_deleted_rows_of_the_first_snapshot_do_not_come(rows: Rows) -> None:
    rows.append([(1, "a"), (2, "b"), (3, "c")], [(4, "d")])
    rows.commit(written(rows.folder, rows.table, [(5, "e")]), deletes(rows.folder, rows.table, 2, 4))
    drive = SourceDrive(rows)
    assert sorted(drive.run(SMALL)) == [(1, "a"), (3, "c"), (5, "e")]
    drive.end()


def test_later_deletes_fail_or_are_left_out(rows: Rows) -> None:
    rows.append([(1, "a")])
    drive = SourceDrive(rows)
    assert drive.run() == [(1, "a")]
    rows.commit(written(rows.folder, rows.table, [(2, "b")]), deletes(rows.folder, rows.table, 1))
    with pytest.raises(LakeError, match=r"on\.delete=skip"):
        drive.run()
    rows.settings["on.delete"] = "skip"
    drive.restart()
    rows.append([(3, "c")])
    assert drive.run() == [(3, "c")]
    drive.end()


def test_snapshots_that_expired_or_were_rolled_back(rows: Rows, other: OtherCatalog) -> None:
    rows.append([(1, "a")])
    first = other.table("db.t").currentSnapshot().snapshotId()
    drive = SourceDrive(rows)
    assert drive.run() == [(1, "a")]
    rows.append([(2, "b")])
    assert drive.run() == [(2, "b")]
    with other.own_classes():
        other.table("db.t").manageSnapshots().rollbackTo(first).commit()
    with pytest.raises(LakeError, match="rolled back"):
        drive.run()
    drive.stored[json.dumps({"table": "db.t"})] = json.dumps({"snapshot": first})
    rows.end = 1
    rows.append([(3, "c")])
    assert drive.run() == [(3, "c")]
    rows.append([(4, "d")])
    rows.append([(5, "e")])
    with other.own_classes():
        table = other.table("db.t")
        table.expireSnapshots().expireOlderThan(table.currentSnapshot().timestampMillis()).commit()
    with pytest.raises(LakeError, match="has expired"):
        drive.run()
    drive.end()


def test_a_table_that_was_made_again_is_read_from_its_start(rows: Rows, other: OtherCatalog) -> None:
    rows.append(ROWS)
    drive = SourceDrive(rows)
    assert drive.run() == ROWS
    with other.own_classes():
        name = other.static("org.apache.iceberg.catalog.TableIdentifier", "parse", str, "db.t")
        other._made.dropTable(name, True)
    rows.made, rows.end = rows.catalog.create("db.t", SCHEMA, [], ["id"], {}), 0
    rows.append([(9, "z")])
    assert drive.run() == [(9, "z")]
    drive.end()


def test_columns_that_were_added_widened_and_renamed(rows: Rows, other: OtherCatalog, spark: SparkSession) -> None:
    rows.schema = Struct((Field(1, "number", "int"), Field(2, "name", "string")))
    table = rows.catalog.create("db.u", rows.schema, [], [], {})
    path = rows.folder / f"{uuid4().hex}.parquet"
    shape = pa.schema([_parquet("number", pa.int32(), 1), _parquet("name", pa.string(), 2)])
    pq.write_table(pa.table([[1, None], ["a", "b"]], shape), path)
    file = WrittenFile(str(path), written(rows.folder, rows.table, ROWS).content, 2, 0)
    rows.catalog.commit([change(table, None, 1, file)], {"t": "id"})
    rows.catalog.evolve("db.u", [Widen(("number",), "long"), AddColumn((), "more", ListOf(0, "string"))])
    with other.own_classes():
        other.table("db.u").updateSchema().renameColumn("name", "Title").commit()
    rows.settings["iceberg.tables"] = "db.u"
    drive = SourceDrive(rows)
    plan = drive.planned()
    records = records_of(drive.task, frame_of(spark, drive, plan), plan.splits[0].shape)
    assert records.values[0] is not None
    assert [field.name for field in records.values[0].fields] == ["number", "Title", "more"]
    assert [row.value_0.asDict() for row in records.frame.collect()] == [
        {"number": 1, "Title": "a", "more": None},
        {"number": None, "Title": "b", "more": None},
    ]
    drive.end()


def _parquet(name: str, of: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, of, metadata={"PARQUET:field_id": str(number)})


NESTED = Struct((Field(20, "x", "int", required=True), Field(21, "id", "uuid")))
KINDS: dict[str, tuple[Any, pa.DataType, Any, Any]] = {
    "bool": ("boolean", pa.bool_(), True, True),
    "float": ("float", pa.float32(), 1.5, 1.5),
    "double": ("double", pa.float64(), 2.5, 2.5),
    "amount": ("decimal(10,2)", pa.decimal128(10, 2), Decimal("-12.34"), Decimal("-12.34")),
    "day": ("date", pa.date32(), dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
    "hour": ("time", pa.time64("us"), dt.time(1, 2, 3, 456_789), 3_723_456),
    "at": ("timestamp", pa.timestamp("us"), dt.datetime(2026, 1, 2, 3, 4, 5, 678_000), "2026-01-02T03:04:05.678"),
    "tz": (
        *("timestamptz", pa.timestamp("us", "UTC")),
        dt.datetime(1900, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "1900-01-02T03:04:05",
    ),
    "data": ("binary", pa.binary(), b"\0\xff", b"\0\xff"),
    "fixed": ("fixed[3]", pa.binary(3), b"abc", b"abc"),
    "id": ("uuid", pa.binary(16), UUID(int=0xABCDEF << 100).bytes, str(UUID(int=0xABCDEF << 100))),
}


def _struct(of: Any) -> pa.DataType:
    x, id_ = of.fields
    return pa.struct([_parquet("x", pa.int32(), x.id), _parquet("id", pa.binary(16), id_.id)])


def test_types(rows: Rows, spark: SparkSession) -> None:
    columns = [Field(number, name, kind) for number, (name, (kind, *_)) in enumerate(KINDS.items(), 1)]
    nested = [
        Field(30, "list", ListOf(31, NESTED)),
        Field(32, "map", MapOf(33, "string", 34, "decimal(5,1)")),
        Field(35, "struct", NESTED),
    ]
    table = rows.catalog.create("db.kinds", Struct((*columns, *nested)), [], [], {})
    ids = {field.name: field.id for field in table.schema.fields}
    listed, mapped, in_struct = (field.type for field in table.schema.fields[-3:])
    assert isinstance(listed, ListOf)
    assert isinstance(mapped, MapOf)
    id_ = UUID(int=5)
    one = {"x": 1, "id": id_.bytes}
    arrays = {name: pa.array([value, None], kind) for name, (_, kind, value, _) in KINDS.items()}
    arrays["list"] = pa.array(
        [[one, None, {"x": 2, "id": None}], None],
        pa.list_(_parquet("element", _struct(listed.element), listed.element_id)),
    )
    arrays["map"] = pa.array(
        [[("a", Decimal("1.5")), ("b", None)], None],
        pa.map_(
            _parquet("key", pa.string(), mapped.key_id).with_nullable(False),
            _parquet("value", pa.decimal128(5, 1), mapped.value_id),
        ),
    )
    arrays["struct"] = pa.array([one, None], _struct(in_struct))
    path = rows.folder / f"{uuid4().hex}.parquet"
    shape = [_parquet(name, array.type, ids[name]) for name, array in arrays.items()]
    pq.write_table(pa.table(list(arrays.values()), pa.schema(shape)), path)
    file = replace(written(rows.folder, rows.table, ROWS), local=str(path), spec_id=table.spec.id)
    rows.catalog.commit([change(table, None, 1, file)], {"t": "id"})
    rows.settings |= {"iceberg.tables": "db.kinds", "key.columns": "id,struct.x", "topic": "lake-${table}"}
    drive = SourceDrive(rows)
    plan = drive.planned()
    records = records_of(drive.task, frame_of(spark, drive, plan), plan.splits[0].shape)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    full, empty = records.frame.selectExpr(
        "topic", "key_0", "value_0.*", "cast(value_0.at AS STRING) AS at_", "cast(value_0.tz AS STRING) AS tz_"
    ).collect()
    for name, (*_, wanted) in KINDS.items():
        found = full[f"{name}_"].replace(" ", "T") if name in ("at", "tz") else full[name]
        assert found == wanted, name
        assert empty[name] is None
    assert full["topic"] == "lake-db.kinds"
    assert full["key_0"].asDict() == {"id": KINDS["id"][3], "x": 1}
    assert [one and one.asDict() for one in full["list"]] == [{"x": 1, "id": str(id_)}, None, {"x": 2, "id": None}]
    assert full["map"] == {"a": Decimal("1.5"), "b": None}
    assert full["struct"].asDict() == {"x": 1, "id": str(id_)}
    assert (empty["list"], empty["map"], empty["struct"]) == (None, None, None)
    drive.end()


def test_files_that_are_not_read(rows: Rows) -> None:
    path = rows.folder / "without-ids.parquet"
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), path)
    rows.commit(replace(written(rows.folder, rows.table, ROWS), local=str(path), records=1))
    drive = SourceDrive(rows)
    with pytest.raises(LakeError, match="has no field id"):
        drive.run()
    drive.end()


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_files_without_ids_by_the_names_of_the_table(rows: Rows, is_partitioned: bool) -> None:
    names = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["title", "name"]}]
    by = {"format-version": "2", "schema.name-mapping.default": json.dumps(names)}
    table = rows.catalog.create("db.mapped", SCHEMA, ["name"] if is_partitioned else [], ["id"], by)
    rows.settings |= {"iceberg.tables": "db.mapped", "start.from": "earliest"}
    like = replace(written(rows.folder, rows.table, ROWS), spec_id=table.spec.id)

    def commit(begin: int | None, **columns: list[Any]) -> None:
        path = rows.folder / f"{uuid4().hex}.parquet"
        if is_partitioned:  # as in tables of Hive, whose files lack the columns of their partitions
            columns = {"id": columns["id"]}
        pq.write_table(pa.table({"more": columns["id"], **columns}), path)
        file = replace(like, local=str(path), records=len(columns["id"]), partition=("a",) if is_partitioned else ())
        assert rows.catalog.commit([change(table, begin, (begin or 0) + 1, file)], {"t": "id"}) == {table.name: True}

    commit(None, title=["a"], id=[1])
    commit(1, name=["a"], id=[2])
    drive = SourceDrive(rows)
    assert sorted(drive.run()) == [(1, "a"), (2, "a")], "files are read in the order of their paths"
    commit(2, title=["a", "a"], id=[3, 4])
    assert drive.run() == [(3, "a"), (4, "a")]
    drive.end()


def test_many_files_in_small_plans_are_copied_once(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.append(*([(number * 100 + one, "x") for one in range(30)] for number in range(5)))
    asked: list[str] = []
    ask = JvmCatalog.ask

    def noted(self: JvmCatalog, table: str, method: str, **request: Any) -> dict[str, Any]:
        asked.append(method)
        return ask(self, table, method, **request)

    monkeypatch.setattr(JvmCatalog, "ask", noted)
    drive = SourceDrive(rows)
    found = drive.run(LARGE._replace(rows=7))
    assert len(found) == len(set(found)) == 150
    assert asked.count("copy") == 5
    drive.end()


def test_offsets_say_where_a_snapshot_ends(rows: Rows) -> None:
    rows.append(ROWS)
    drive = SourceDrive(rows)
    drive.run()
    (stored,) = map(json.loads, drive.stored.values())
    assert stored == Position(rows.table.uuid, stored["snapshot"]).stored()
    drive.end()
