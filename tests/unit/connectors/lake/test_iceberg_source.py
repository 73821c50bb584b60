"""The Iceberg source without a JVM: settings, offsets, what follows a position, and columns of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.schemas import Field, ListOf, Struct
from headrace.connectors.lake.iceberg.source.columns import connect_schema, key_paths, rows_of
from headrace.connectors.lake.iceberg.source.connector import IcebergSourceConnector
from headrace.connectors.lake.iceberg.source.following import Chosen, Following
from headrace.connectors.lake.iceberg.source.positions import ROOT, Position, position_of
from headrace.connectors.lake.iceberg.source.scans import History, Scans, Snapshot, TableFile
from headrace.connectors.lake.iceberg.source.settings import source_options
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.errors import DataError, RetriableError

BASE = {"iceberg.tables": "db.t", "iceberg.catalog.type": "hadoop", "iceberg.catalog.warehouse": "/lake"}
UUID = "u"


class Table:
    """Stands for `Scans`: a table whose snapshots add files of ten rows."""

    def __init__(self, *operations: str) -> None:
        self.operations: list[str] = list(operations)
        self.uuid = UUID
        self.expired = 0
        self.asked = 0

    def load(self, table: str) -> Any:
        return type("State", (), {"uuid": self.uuid, "schema_id": 0})

    def history(self, table: str, after: int) -> History:
        self.asked += 1
        ids = range(self.expired + 1, len(self.operations) + 1)
        known = after == ROOT or after in ids
        reached = self.expired == 0 if after == ROOT else after in ids or after == self.expired
        found = tuple(Snapshot(one, one * 1000, self.operations[one - 1]) for one in ids if one > after)
        return History(self.uuid, 0, len(self.operations) or ROOT, reached, known, frozenset(), found)

    def files(self, table: str, snapshot: int, whole: bool) -> tuple[TableFile, ...]:
        numbers: Sequence[int] = range(1, snapshot + 1) if whole else [snapshot]
        added = (one for one in numbers if self.operations[one - 1] == "append")
        return tuple(TableFile(f"{one}.parquet", 10, 100) for one in added)


def following(table: Table, **settings: str) -> Following:
    options = source_options({**BASE, "poll.interval.ms": "0", **{k.replace("_", "."): v for k, v in settings.items()}})
    return Following(cast(Scans, table), "db.t", options)


def followed(one: Following, position: Position | None = None, rows: int = 100) -> tuple[list[str], Position | None]:
    """The paths that are read after a position, and the last one."""
    paths: list[str] = []
    while (chosen := one.next(position, rows, 1 << 20)) is not None:
        paths += [file.path for file in chosen.files]
        position = chosen.end
    return paths, position


def test_all_files_then_those_of_each_append() -> None:
    table = Table("append", "append")
    one = following(table)
    paths, position = followed(one, rows=10)
    assert (paths, position) == (["1.parquet", "2.parquet"], Position(UUID, 2))
    table.operations += ["append", "replace", "append"]
    assert followed(one, position)[0] == ["3.parquet", "5.parquet"]


def test_a_plan_goes_on_in_a_file() -> None:
    chosen = following(Table("append", "append")).next(Position(UUID, 2, True, 0, 4, False), 100, 1 << 20)
    assert chosen is not None
    assert (chosen.rows, chosen.end) == (16, Position(UUID, 2))


def test_what_adds_no_row_moves_the_offset_on() -> None:
    table = Table("append", "replace")
    chosen = following(table).next(Position(UUID, 1), 100, 1 << 20)
    assert chosen == Chosen(Position(UUID, 2), (), Position(UUID, 2))


def test_a_table_without_rows_is_awaited() -> None:
    table = Table()
    one = following(table)
    assert one.next(None, 1, 1) is None
    table.operations.append("append")
    assert followed(one)[0] == ["1.parquet"]


@pytest.mark.parametrize(
    ("start", "paths"),
    [
        ("latest", []),
        ("1", ["2.parquet", "3.parquet"]),
        ("1970-01-01T00:00:02Z", ["2.parquet", "3.parquet"]),
        ("1970-01-01", ["1.parquet", "2.parquet", "3.parquet"]),
    ],
)
def test_starts(start: str, paths: list[str]) -> None:
    one = following(Table("append", "append", "append"), start_from=start)
    assert followed(one) == (paths, Position(UUID, 3))


def test_a_start_that_is_not_yet_is_awaited() -> None:
    table = Table("append")
    one = following(table, start_from="2999-01-01T00:00:00Z")
    for _ in range(2):
        assert one.next(None, 1, 1) is None
        table.operations.append("append")


def test_a_start_before_what_has_expired() -> None:
    table = Table("append", "append", "append")
    table.expired = 1
    with pytest.raises(LakeError, match="have expired"):
        following(table, start_from="1970-01-01T00:00:01Z").next(None, 1, 1)
    assert followed(following(table, start_from="1970-01-01T00:00:02.5Z"))[0] == ["3.parquet"]


@pytest.mark.parametrize("operation", ["delete", "overwrite"])
def test_deletes(operation: str) -> None:
    table = Table("append", operation, "append")
    with pytest.raises(LakeError, match=r'snapshot 2 .*on\.delete=skip.*\{"snapshot": 2\}'):
        followed(following(table), Position(UUID, 1))
    assert followed(following(table, on_delete="skip"), Position(UUID, 1))[0] == ["3.parquet"]


def test_an_idle_table_is_asked_once_an_interval() -> None:
    table = Table("append")
    one = following(table, poll_interval_ms="3600000")
    _, position = followed(one)
    for _ in range(5):
        assert one.next(position, 1, 1) is None
    assert table.asked == 1


def test_expired_history() -> None:
    table = Table("append", "append", "append", "append")
    table.expired = 2
    assert followed(following(table), Position(UUID, 2))[0] == ["3.parquet", "4.parquet"]
    with pytest.raises(LakeError, match="has expired"):
        followed(following(table), Position(UUID, 1))


def test_a_table_that_was_made_again_is_read_from_its_start() -> None:
    table = Table("append", "append", "append")
    one = following(table)
    _, position = followed(one)
    table.uuid, table.operations = "v", ["append"]
    assert followed(one, position) == (["1.parquet"], Position("v", 1))
    table.uuid, table.operations = "w", []
    assert followed(one, Position("v", 1)) == ([], Position("v", 1))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"iceberg.tables": ""}, "iceberg.tables"),
        ({"topic": "a b"}, "topic"),
        ({"iceberg.tables": "db.t x"}, "topic"),
        ({"start.from": "yesterday"}, "start.from"),
        ({"on.delete": "ignore"}, "on.delete"),
        ({"iceberg.catalog.type": "other"}, "iceberg.catalog.type"),
    ],
)
def test_configs_that_are_refused(settings: dict[str, str], key: str) -> None:
    connector = IcebergSourceConnector()
    config = {**BASE, **settings}
    assert [one.key for one in [*connector.settings.problems(config), *connector.validate(config)]] == [key]
    with pytest.raises(ConfigError, match=key):
        connector.start(config, cast(Any, None))


def test_tasks_share_the_tables() -> None:
    connector = IcebergSourceConnector()
    connector.start({**BASE, "iceberg.tables": "a.x,a.y,a.z"}, cast(Any, None))
    assert [one["iceberg.tables"] for one in connector.task_configs(2)] == ["a.x,a.z", "a.y"]
    assert len(connector.task_configs(9)) == 3


def test_offsets_that_an_operator_sets() -> None:
    def check(partition: Any, offset: Any) -> bool:
        return IcebergSourceConnector().check_offsets(BASE, {"offsets": [{"partition": partition, "offset": offset}]})

    table = {"table": "db.t"}
    whole = Position(UUID, 7, True, 1, 2, False)
    for good in (None, {"snapshot": 7}, {"snapshot": ROOT}, whole.stored()):
        assert check(table, good)
    assert position_of({"snapshot": 7}) == Position("", 7)
    assert position_of(whole.stored()) == whole
    for bad in ({}, {"snapshot": "7"}, {"snapshot": -2}, {"snapshot": 7, "row": -1}, {"snapshot": 7, "rows": 1}):
        with pytest.raises(ValueError, match="is none of a table"):
            check(table, bad)
    with pytest.raises(ValueError, match=r"write \{\"table\": …\}: db.t"):
        check({"table": "db.other"}, None)


@pytest.mark.parametrize("kind", ["variant", "geometry", "unknown"])
def test_types_that_connect_does_not_have(kind: str) -> None:
    with pytest.raises(LakeError, match=f"db.t.x is of the type {kind}"):
        connect_schema("db.t", Struct((Field(1, "x", kind),)))


def test_key_columns_whose_names_have_dots() -> None:
    schema = Struct((Field(1, "a.b", "int"), Field(2, "a", Struct((Field(3, "c", "int"),)))))
    assert key_paths("t", schema, ["a.b", "a.c"]) == (("a.b",), ("a", "c"))
    with pytest.raises(LakeError, match=r"has no column a\.d"):
        key_paths("t", schema, ["a.d"])


def test_an_older_file_without_a_column_that_has_a_default() -> None:
    schema = Struct((Field(1, "x", "int"), Field(2, "y", "int")))
    to = arrow_type_of_schema(connect_schema("t", schema))
    batch = pa.record_batch([pa.array([1])], pa.schema([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "1"})]))
    assert rows_of(batch, schema, to, ()).to_pylist() == [{"x": 1, "y": None}]
    with pytest.raises(DataError, match="column y was added"):
        rows_of(batch, schema, to, {2})


def test_a_nested_column_without_an_id_is_no_null() -> None:
    schema = Struct((Field(1, "s", Struct((Field(2, "y", "int"),))),))
    to = arrow_type_of_schema(connect_schema("t", schema))
    field = pa.field("s", pa.struct([("y", pa.int32())]), metadata={"PARQUET:field_id": "1"})
    with pytest.raises(DataError, match="its column y has no field id"):
        rows_of(pa.record_batch([pa.array([{"y": 7}])], pa.schema([field])), schema, to, ())


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view, lambda field: pa.list_(field, 2)])
def test_lists_of_all_layouts(tmp_path: Path, kind: Callable[[pa.Field], pa.DataType]) -> None:
    """PyIceberg's Parquet files say that they have large lists, and are read so."""
    schema = Struct((Field(1, "a", ListOf(2, Struct((Field(3, "s", "string"),)))),))
    to = arrow_type_of_schema(connect_schema("t", schema))
    inner = pa.field("s", pa.large_string(), metadata={"PARQUET:field_id": "3"})
    element = pa.field("element", pa.struct([inner]), metadata={"PARQUET:field_id": "2"})
    field = pa.field("a", kind(element), metadata={"PARQUET:field_id": "1"})
    given = [[{"s": "a"}, {"s": "b"}], None, [{"s": "c"}, None], [{"s": "e"}, {"s": "f"}]]
    pq.write_table(pa.table([pa.array(given, field.type)], pa.schema([field])), tmp_path / "file")
    (batch,) = pq.ParquetFile(tmp_path / "file").iter_batches()
    made = rows_of(batch.slice(1), schema, to, ())
    made.validate(full=True)
    assert [row["a"] for row in made.to_pylist()] == given[1:]


class Catalog:
    """Stands for `JvmCatalog`: answers with these files."""

    def __init__(self, *files: dict[str, Any], deletes: Sequence[str] = ()) -> None:
        self.told, self.deletes = list(files), list(deletes)

    def ask(self, table: str, method: str, **request: Any) -> dict[str, Any]:
        if method == "copy":
            Path(request["to"]).write_text("half")
            raise RetriableError("the store is gone")
        return {"is_known": bool(self.told), "files": self.told, "deletes": self.deletes}


def _file(path: str, kind: str = "PARQUET") -> dict[str, Any]:
    return {"path": path, "format": kind, "records": 1, "size": 1}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([_file("file:///etc/passwd")], "file.allowed.paths"),
        ([_file("/lake/a.avro", "AVRO")], "a.avro is AVRO, and only Parquet"),
        ([], "has expired"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, files: list[dict[str, Any]], why: str) -> None:
    settings = CatalogSettings.of(BASE, {"file.allowed.paths": ["/lake"]})
    scans = Scans(cast(Any, Catalog(*files)), settings, tmp_path)
    with pytest.raises(LakeError, match=why):
        scans.files("db.t", 1, False)


def test_files_of_deletes_are_bounded_too(tmp_path: Path) -> None:
    settings = CatalogSettings.of(BASE, {"file.allowed.paths": ["/lake"]})
    scans = Scans(cast(Any, Catalog(_file("/lake/a"), deletes=["/lake/b", "file:///other/c"])), settings, tmp_path)
    with pytest.raises(LakeError, match=r"file\.allowed\.paths"):
        scans.files("db.t", 1, True)


def test_a_copy_names_its_snapshot_so_that_a_new_driver_knows_its_deletes(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    class Expired(Catalog):
        def ask(self, table: str, method: str, **request: Any) -> dict[str, Any]:
            asked.append(request)
            return super().ask(table, method) if method == "files" else {"is_known": False}

    scans = Scans(cast(Any, Expired(_file("/lake/a"))), CatalogSettings.of(BASE, {}), tmp_path)
    (file,) = scans.files("db.t", 7, True)
    with pytest.raises(LakeError, match=r"snapshot 7, .*has expired"):
        scans.copy("db.t", 7, True, file)
    assert (asked[1]["snapshot"], asked[1]["whole"]) == (7, True)


def test_half_a_copy_is_deleted(tmp_path: Path) -> None:
    scans = Scans(cast(Any, Catalog(_file("/lake/a"))), CatalogSettings.of(BASE, {}), tmp_path)
    (file,) = scans.files("db.t", 1, False)
    with pytest.raises(RetriableError):
        scans.copy("db.t", 1, False, file)
    assert list(tmp_path.iterdir()) == []
