"""Iceberg's tables in tests: files as a writer leaves them, and a catalog without Headrace's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.jvm_lake import class_loader
from headrace.connectors.lake.iceberg.parts import Content, TableCommit, TablePart, WrittenFile
from headrace.connectors.lake.iceberg.schemas import Field, Struct
from headrace.connectors.lake.iceberg.tables import TableState
from headrace.plugins.interop.catalyst.spark_internals import (
    complete_context,
    hadoop_configuration,
    jvm_of,
)
from headrace.plugins.offsets import TopicPartition

SCHEMA = Struct((Field(1, "id", "long", required=True), Field(2, "name", "string")))
IDS = {"t": "id-of-t", "u": "id-of-u"}
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
ROWS = [(1, "a"), (2, "b")]


def properties(kind: str, folder: Path) -> dict[str, str]:
    """The properties of a catalog on the local disk."""
    where = {"type": kind, "warehouse": str(folder / "lake")}
    return where | ({"uri": f"jdbc:sqlite:{folder / 'catalog.db'}"} if kind == "jdbc" else {})


def opened(given: dict[str, str], connector: str = "sink", task: int = 0, branch: str | None = None) -> JvmCatalog:
    settings = CatalogSettings.of({f"iceberg.catalog.{key}": value for key, value in given.items()}, {})
    return JvmCatalog(settings, connector, task, lambda table: branch)


def written(folder: Path, table: TableState, rows: Sequence[tuple[Any, ...]], **fields: Any) -> WrittenFile:
    """A Parquet file as the writer leaves it; one of keys has no names."""
    content = fields.setdefault("content", Content.DATA)
    columns = table.schema.fields if content is Content.DATA else table.schema.fields[:1]
    types = {"long": pa.int64(), "string": pa.string()}
    shape = [
        pa.field(one.name, types[str(one.type)], metadata={"PARQUET:field_id": str(one.id)}, nullable=not one.required)
        for one in columns
    ]
    values = zip(*rows, strict=True)
    path = folder / f"{uuid4().hex}.parquet"
    arrays = [pa.array(one, field.type) for one, field in zip(values, shape, strict=True)]
    pq.write_table(pa.table(arrays, pa.schema(shape)), path)
    return WrittenFile(**{"local": str(path), "records": len(rows), "spec_id": table.spec.id, **fields})


def deletes(folder: Path, table: TableState, *keys: int, **fields: Any) -> WrittenFile:
    kept = {"content": Content.EQUALITY_DELETES, "equality_ids": (table.schema.fields[0].id,)}
    return written(folder, table, [(key,) for key in keys], **kept, **fields)


def change(
    table: TableState, begin: int | None, end: int, *files: WrittenFile, at: TopicPartition = ZERO
) -> TableCommit:
    """A commit of one part."""
    parts = (TablePart(table.name, table.uuid, files),) if files else ()
    return TableCommit(table.name, parts, {at: begin}, {at: end})


def parquet(given: dict[str, str]) -> set[str]:
    """The names of all Parquet files in the warehouse."""
    return {path.name for path in Path(given["warehouse"]).rglob("*.parquet")}


def intents(given: dict[str, str]) -> list[Path]:
    return list(Path(given["warehouse"]).rglob("headrace-sink/*.json"))


def snapshots(java: Any) -> list[dict[str, str]]:
    return [dict(one.summary()) for one in java.snapshots()]


_CLASSES = {"hadoop": "org.apache.iceberg.hadoop.HadoopCatalog", "jdbc": "org.apache.iceberg.jdbc.JdbcCatalog"}


class OtherCatalog:
    """A catalog with Iceberg's API for this thread, over py4j."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        context = complete_context()
        self._context, self._jvm = context, jvm_of(context)
        self._loader = class_loader(context, False)
        made = self._loader.loadClass(_CLASSES[properties["type"]])
        array = context._gateway.new_array
        self._made = made.getDeclaredConstructor(array(self._jvm.java.lang.Class, 0)).newInstance(
            array(self._jvm.java.lang.Object, 0)
        )
        given = self._jvm.java.util.HashMap()
        for key, value in properties.items():
            given.put(key, value)
        given.remove("type")
        with self.own_classes():
            self._made.setConf(hadoop_configuration(context))
            self._made.initialize("iceberg", given)

    def table(self, name: str) -> Any:
        """Return a table, as it is now."""
        with self.own_classes():
            return self._made.loadTable(self.static("org.apache.iceberg.catalog.TableIdentifier", "parse", str, name))

    def rows(self, table: Any, with_lineage: bool = False) -> list[tuple[Any, ...]]:
        """Return the rows of a table, sorted; with their ids and sequence numbers on request."""
        with self.own_classes():
            scan = self.static("org.apache.iceberg.data.IcebergGenerics", "read", "org.apache.iceberg.Table", table)
            if with_lineage:
                columns = "org.apache.iceberg.MetadataColumns"
                of = self.static(columns, "schemaWithRowLineage", "org.apache.iceberg.Schema", table.schema())
                scan = scan.project(of)
            found = scan.build()
            return sorted(tuple(row.get(at) for at in range(row.size())) for row in _each(found.iterator()))

    def static(self, owner: str, method: str, of: Any, given: Any) -> Any:
        """Call a static method with one parameter of this class."""
        array, jvm = self._context._gateway.new_array, self._jvm
        kinds, values = array(jvm.java.lang.Class, 1), array(jvm.java.lang.Object, 1)
        kinds[0] = self._loader.loadClass("java.lang.String" if of is str else of)
        values[0] = given
        return self._loader.loadClass(owner).getMethod(method, kinds).invoke(None, values)

    @contextmanager
    def own_classes(self) -> Iterator[None]:
        """Let this thread of the JVM find Iceberg's classes."""
        thread = self._jvm.java.lang.Thread.currentThread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(self._loader)
        try:
            yield
        finally:
            thread.setContextClassLoader(before)


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()
