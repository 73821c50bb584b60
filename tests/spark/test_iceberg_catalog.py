"""The catalog of Iceberg's tables in the driver's JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.parts import Content, TableCommit, TablePart, WrittenFile
from headrace.connectors.lake.iceberg.schemas import Field, Struct
from headrace.connectors.lake.iceberg.tables import TableState
from headrace.plugins.offsets import TopicPartition
from headrace.worker.engine.driver import Spark

pytestmark = pytest.mark.spark

SCHEMA = Struct((Field(1, "id", "long"), Field(2, "name", "string")))
IDS = {"t": "id-of-t"}
ZERO = TopicPartition("t", 0)


def config(kind: str, folder: Path) -> dict[str, str]:
    """The settings of a catalog on the local disk."""
    where = {"iceberg.catalog.type": kind, "iceberg.catalog.warehouse": str(folder / "lake")}
    return where | ({"iceberg.catalog.uri": f"jdbc:sqlite:{folder / 'catalog.db'}"} if kind == "jdbc" else {})


@pytest.fixture(params=["hadoop", "jdbc"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> CatalogSettings:
    return CatalogSettings.of(config(request.param, tmp_path), {})


@pytest.fixture
def catalog(engine: Spark, settings: CatalogSettings) -> Iterator[JvmCatalog]:
    made = JvmCatalog(settings, "sink", 0)
    yield made
    made.close()


def written(
    folder: Path, state: TableState, rows: list[tuple[int, str]], content: Content = Content.DATA
) -> WrittenFile:
    """A Parquet file as the writer leaves it."""
    ids = [pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]
    if content is Content.DATA:
        ids.append(pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}))
    columns = list(zip(*rows, strict=True))[: len(ids)]
    path = str(folder / f"{uuid4().hex}.parquet")
    pq.write_table(
        pa.table([pa.array(one, field.type) for one, field in zip(columns, ids, strict=True)], pa.schema(ids)), path
    )
    keys = () if content is Content.DATA else (1,)
    return WrittenFile(path, content, len(rows), state.spec.id, (), keys)


def change(state: TableState, begin: int | None, end: int, *files: WrittenFile) -> TableCommit:
    parts = (TablePart(state.name, state.uuid, files),) if files else ()
    return TableCommit(state.name, parts, {ZERO: begin}, {ZERO: end})


def test_a_table_is_made_and_gets_rows_and_marks(catalog: JvmCatalog, tmp_path: Path) -> None:
    assert catalog.load("db.deep.t") is None
    state = catalog.create("db.deep.t", SCHEMA, ["bucket(id, 4)"], ["id"], {"format-version": "2"})
    print(state)
    assert catalog.load("db.deep.t") == state
    assert state.is_empty
    assert catalog.marks("db.deep.t", IDS) == {}


def test_append(catalog: JvmCatalog, tmp_path: Path) -> None:
    state = catalog.create("db.t", SCHEMA, [], [], {})
    file = written(tmp_path, state, [(1, "a"), (2, "b")])
    assert catalog.commit([change(state, None, 2, file)], IDS) == {"db.t": True}
    assert catalog.marks("db.t", IDS) == {ZERO: 2}
    assert catalog.commit([change(state, None, 2, written(tmp_path, state, [(1, "a")]))], IDS) == {"db.t": False}
    assert not list(tmp_path.glob("*.parquet"))
