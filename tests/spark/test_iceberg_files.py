"""What the writer of a table's files leaves, as Iceberg's own reader sees it: types, partitions, deletes."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from py4j.java_collections import JavaList, JavaMap
from py4j.java_gateway import JavaObject

from headrace.connectors.lake.iceberg.files.files import Files, FilesSpec
from headrace.connectors.lake.iceberg.files.targets import Target
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.parts import TableCommit
from headrace.connectors.lake.iceberg.schemas import Field, ListOf, MapOf, Struct
from headrace.plugins.schema import Schema, SchemaType
from headrace.worker.engine.driver import Spark
from tests.spark.iceberg_tables import IDS, ZERO, OtherCatalog, opened, properties

pytestmark = pytest.mark.spark


@pytest.fixture
def given(tmp_path: Path, engine: Spark) -> dict[str, str]:
    """The properties of a catalog in SQLite."""
    return properties("jdbc", tmp_path)


@pytest.fixture
def catalog(given: dict[str, str]) -> Iterator[JvmCatalog]:
    made = opened(given)
    yield made
    made.close()


class _Tables:
    def __init__(self, catalog: JvmCatalog, *keys: str) -> None:
        self.catalog, self.keys = catalog, keys

    def target(self, name: str, layout: int, columns: pa.DataType) -> Target:
        state = self.catalog.load(name)
        assert state is not None
        return Target(state, self.catalog.marks(name, IDS), self.keys)


class Pipe:
    """A sink task in short: rows to files to a commit."""

    def __init__(self, catalog: JvmCatalog, folder: Path, *keys: str) -> None:
        spec = FilesSpec(lambda _: ["db.t"], 0.0, layouts=[Schema(SchemaType.STRUCT)])
        self.catalog, self.at = catalog, 0
        self.files = Files(spec, _Tables(catalog, *keys), str(folder / "files"))

    def write(self, values: Sequence[Any], kind: pa.DataType, deletes: Sequence[bool] = ()) -> None:
        count = len(values)
        columns = {
            "origin_topic": pa.array([ZERO.topic] * count),
            "origin_partition": pa.array([ZERO.partition] * count, pa.int32()),
            "offset": pa.array(range(self.at, self.at + count), pa.int64()),
            "error": pa.nulls(count, pa.string()),
            "layout": pa.array([0] * count, pa.int32()),
            "value_0": pa.array(values, kind),
            "op": pa.array([2 if one else 1 for one in deletes or [False] * count], pa.int8()),
        }
        assert not self.files.add(pa.RecordBatch.from_pydict(columns))
        part = self.files.finish()
        begins, ends = {ZERO: self.at or None}, {ZERO: self.at + count}
        assert self.catalog.commit([TableCommit("db.t", part.tables, begins, ends)], IDS) == {"db.t": True}
        self.at += count
        self.files.forget()


MOMENT = dt.datetime(2020, 2, 29, 10, 20, 30, 123456)
KNOWN = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
TYPES: dict[str, tuple[pa.DataType, Any, str]] = {
    "boolean": (pa.bool_(), True, "True"),
    "int": (pa.int32(), -5, "-5"),
    "long": (pa.int64(), 2**40, str(2**40)),
    "float": (pa.float32(), 0.5, "0.5"),
    "double": (pa.float64(), 0.1, "0.1"),
    "decimal(9,2)": (pa.decimal128(38, 2), Decimal("-1.50"), "-1.50"),
    "decimal(18,2)": (pa.decimal128(38, 2), Decimal("1234567.89"), "1234567.89"),
    "decimal(38,2)": (pa.decimal128(38, 2), Decimal("9" * 20), "9" * 20 + ".00"),
    "date": (pa.date32(), MOMENT.date(), "2020-02-29"),
    "time": (pa.time64("us"), MOMENT.time(), "10:20:30.123456"),
    "timestamp": (pa.timestamp("us"), MOMENT, "2020-02-29T10:20:30.123456"),
    "timestamptz": (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=dt.UTC), "2020-02-29T10:20:30.123456Z"),
    "string": (pa.string(), "déjà 😀", "déjà 😀"),
    "uuid": (pa.string(), str(KNOWN), str(KNOWN)),
    "fixed[3]": (pa.binary(), b"\1\2\3", "b'\\x01\\x02\\x03'"),
}


def test_values_of_all_types_are_read_back(catalog: JvmCatalog, given: dict[str, str], tmp_path: Path) -> None:
    point = Struct((Field(1, "x", "int", required=True), Field(2, "y", "string")))
    nested = (Field(90, "points", ListOf(91, point)), Field(92, "by", MapOf(93, "string", 94, ListOf(95, "long"))))
    plain = (Field(number, f"c{number}", kind) for number, kind in enumerate(TYPES, 1))
    catalog.create("db.t", Struct((*plain, *nested)), [], [], {"format-version": "2"})
    kind = pa.struct([(f"c{number}", arrow) for number, (arrow, *_) in enumerate(TYPES.values(), 1)])
    lists = [
        ("points", pa.list_(pa.struct([("y", pa.string()), ("x", pa.int64())]))),
        ("by", pa.map_(pa.string(), pa.list_(pa.int32()))),
    ]
    value: dict[str, Any] = {f"c{number}": one for number, (_, one, _) in enumerate(TYPES.values(), 1)}
    value |= {"points": [{"x": 1, "y": "a"}, None, {"x": 2}], "by": [("k", [1, None])]}
    Pipe(catalog, tmp_path).write([value, {}], pa.struct([*kind, *lists]))
    full, empty = sorted(read(given), key=lambda row: row[0] == "None")
    assert full[: len(TYPES)] == [text for *_, text in TYPES.values()]
    assert full[len(TYPES) :] == ["[Record(1, a), None, Record(2, null)]", "{'k': [1, None]}"]
    assert empty == ["None"] * (len(TYPES) + 2)


PARTITIONS = Struct(
    (
        Field(1, "id", "long"),
        Field(2, "name", "string"),
        Field(3, "at", "timestamptz"),
        Field(4, "price", "decimal(9,2)"),
        Field(5, "day", "date"),
    )
)
ROW = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(38, 2)),
        ("day", pa.date32()),
    ]
)


def made_rows(count: int) -> list[dict[str, Any]]:
    chance, start = random.Random(45), dt.datetime(1969, 12, 30, tzinfo=dt.UTC)
    return [
        {
            "id": number - 20,
            "name": chance.choice(["", "iceberg", "größe", "日本語", f"n{number}"]),
            "at": start + dt.timedelta(hours=7 * number, microseconds=number),
            "price": Decimal(chance.randrange(-100_000, 100_000)).scaleb(-2),
            "day": (start + dt.timedelta(days=40 * number)).date(),
        }
        for number in range(count)
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "terms",
    [
        ["bucket(id, 7)", "truncate(name, 2)", "day(at)"],
        ["hour(at)", "bucket(name, 3)", "year(day)"],
        ["bucket(price, 5)", "month(day)", "bucket(at, 3)"],
        ["truncate(id, 10)", "truncate(price, 50)", "bucket(day, 4)"],
        ["price", "month(at)"],
        ["name", "day"],
    ],
)
def test_icebergs_reader_finds_each_row_in_its_partition(
    catalog: JvmCatalog, given: dict[str, str], tmp_path: Path, terms: list[str]
) -> None:
    catalog.create("db.t", PARTITIONS, terms, [], {"format-version": "2"})
    rows = made_rows(40)
    Pipe(catalog, tmp_path).write([*rows, {}], ROW)
    found = read(given)
    assert len(found) == len(rows) + 1
    for one in rows[::30]:
        seen = next(texts for texts in found if texts[0] == str(one["id"]))
        wanted = [one["id"], one["name"], *seen[2:]]
        for column, value in zip(one, wanted, strict=True):
            assert seen in read(given, column, value), (column, value)


@pytest.mark.parametrize(
    ("terms", "keys", "version"),
    [
        ([], ["id"], "2"),
        (["bucket(id, 3)"], ["id"], "3"),
        (["truncate(name, 1)"], ["id"], "2"),
        (["name"], ["id", "name"], "2"),
    ],
)
def test_after_each_commit_the_table_is_the_changes_folded_by_key(
    catalog: JvmCatalog, given: dict[str, str], tmp_path: Path, terms: list[str], keys: list[str], version: str
) -> None:
    schema = Struct((Field(1, "id", "long"), Field(2, "name", "string"), Field(3, "n", "int")))
    catalog.create("db.t", schema, terms, [], {"format-version": version})
    kind = pa.struct([("id", pa.int64()), ("name", pa.string()), ("n", pa.int32())])
    pipe, chance, folded = Pipe(catalog, tmp_path, *keys), random.Random(45), dict[tuple[Any, ...], list[str]]()
    for number in range(3):
        values = [{"id": chance.randrange(9) or None, "name": chance.choice("abc"), "n": number} for _ in range(25)]
        deletes = [chance.random() < 0.3 for _ in values]
        pipe.write(values, kind, deletes)
        for value, is_delete in zip(values, deletes, strict=True):
            key = tuple(value[name] for name in keys)
            folded.pop(key, None)
            if not is_delete:
                folded[key] = [str(one) for one in value.values()]
        assert sorted(read(given)) == sorted(folded.values())


def read(given: dict[str, str], column: str | None = None, value: Any = None) -> list[list[str]]:
    """The rows as texts, by Iceberg's reader; only those with this value, if it finds them by their files."""
    other = OtherCatalog(given)
    with other.own_classes():
        scan = other.static(
            "org.apache.iceberg.data.IcebergGenerics", "read", "org.apache.iceberg.Table", other.table("db.t")
        )
        if column is not None:
            scan = scan.where(equal(other, column, value))
        found, rows = scan.build().iterator(), []
        while found.hasNext():
            row = found.next()
            rows.append([_text(row.get(at)) for at in range(row.size())])
        return rows


def _text(value: Any) -> str:
    if isinstance(value, JavaObject) and not isinstance(value, JavaMap):
        return f"[{', '.join(map(_text, value))}]" if isinstance(value, JavaList) else str(value.toString())
    return str(value)


def equal(other: OtherCatalog, column: str, value: Any) -> Any:
    """Iceberg's expression."""
    array, jvm = other._context._gateway.new_array, other._jvm
    kinds, values = array(jvm.java.lang.Class, 2), array(jvm.java.lang.Object, 2)
    kinds[0], kinds[1] = other._loader.loadClass("java.lang.String"), other._loader.loadClass("java.lang.Object")
    values[0], values[1] = column, value
    owner = other._loader.loadClass("org.apache.iceberg.expressions.Expressions")
    return owner.getMethod("equal", kinds).invoke(None, values)
