"""Other people's work on Iceberg's tables: a catalog of Java's own, opened without Headrace's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headrace.connectors.lake.iceberg.jvm_lake import class_loader
from headrace.plugins.interop.catalyst.spark_internals import (
    complete_context,
    hadoop_configuration,
    jvm_of,
)

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

    def rows(self, table: Any, snapshot: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a table, sorted."""
        with self.own_classes():
            scan = self.static("org.apache.iceberg.data.IcebergGenerics", "read", "org.apache.iceberg.Table", table)
            scan = scan if snapshot is None else scan.useSnapshot(snapshot)
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
