"""A connection to Hive's metastore: Hive's own client, which Spark carries, in the driver's JVM.

Decided: the client of the metastore's protocol, not Spark's catalogue, because a Spark session has one catalogue for
all its users, and the worker's own must not change. Loses: the client's classes are of Hive 2.3, which metastores up to
Hive 4 still understand.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError

from headrace.config.worker.allowed_hosts import ALL_NAMES, AllowedHosts, hosts_of
from headrace.connectors.hdfs.hive.definition import Definition, HiveColumn, Storage
from headrace.connectors.hdfs.hive_settings import HiveSettings
from headrace.connectors.hdfs.stores.hadoop_jvm import configuration, context_of_worker, java_error, log_in
from headrace.connectors.hdfs.stores.settings import HadoopSettings
from headrace.plugins.interop.catalyst.spark_internals import JAVA_ERRORS, jvm_of

_BOUNDS: Final = {
    "hive.metastore.client.socket.timeout": "30s",
    "hive.metastore.connect.retries": "1",
    "hive.metastore.failure.retries": "0",
}
_AT_ONCE: Final = 100
"""The most partitions that one request adds."""


class MetastoreError(Exception):
    """The metastore did not carry out a request; the text names what, where and why."""


@dataclass(frozen=True)
class HiveTable:
    """An existing table."""

    definition: Definition
    partition_fields: tuple[str, ...]
    location: str


class Metastore:
    """One database of a metastore; for one thread. All methods raise MetastoreError, which closes the connection."""

    def __init__(self, settings: HiveSettings, hadoop: HadoopSettings, hosts: AllowedHosts = ALL_NAMES) -> None:
        self._settings, self._hadoop, self._hosts = settings, hadoop, hosts
        self._context: Any = None
        self._client: Any = None

    def open(self) -> None:
        """Connect, and create the database if it is missing."""
        try:
            context = context_of_worker()
            if self._client is not None and self._context is context:
                return
            self._context = context
            self._client = jvm_of(context).org.apache.hadoop.hive.metastore.HiveMetaStoreClient(self._conf())
            if self._settings.database not in set(self._client.getAllDatabases()):
                api = jvm_of(context).org.apache.hadoop.hive.metastore.api
                created = api.Database(self._settings.database, "", None, self._map({}))
                self._client.createDatabase(created)
        except Exception as error:
            raise self._failed("reach", "the database", error) from error

    def table(self, name: str) -> HiveTable | None:
        """Return the table; None if there is none."""
        try:
            if not self._client.tableExists(self._settings.database, name):
                return None
            return _table(self._client.getTable(self._settings.database, name))
        except Exception as error:
            raise self._failed("look at", name, error) from error

    def create(self, name: str, made: HiveTable) -> None:
        """Create an external table, unless another task was quicker."""
        try:
            api = jvm_of(self._context).org.apache.hadoop.hive.metastore.api
            table = api.Table()
            table.setDbName(self._settings.database)
            table.setTableName(name)
            table.setOwner("headrace")
            table.setTableType("EXTERNAL_TABLE")
            table.setCreateTime(int(time.time()))
            table.setParameters(self._map({"EXTERNAL": "TRUE", **made.definition.parameters}))
            table.setPartitionKeys(self._columns(HiveColumn(field, "string") for field in made.partition_fields))
            table.setSd(self._storage(made))
            self._client.createTable(table)
        except Exception as error:
            if java_error(error)[0] != "AlreadyExistsException":
                raise self._failed("create", name, error) from error

    def alter(self, name: str, to: Definition) -> None:
        """Change the columns and parameters of the table, and the columns of all its partitions."""
        try:
            table = self._client.getTable(self._settings.database, name)
            table.getSd().setCols(self._columns(to.columns))
            table.setParameters(self._map(to.parameters))
            self._client.alter_table(self._settings.database, name, table, True)
        except Exception as error:
            raise self._failed("alter", name, error) from error

    def partitions(self, name: str) -> set[str]:
        """Return the names of the table's partitions, as `name=value/…`."""
        try:
            return set(self._client.listPartitionNames(self._settings.database, name, -1))
        except Exception as error:
            raise self._failed("list the partitions of", name, error) from error

    def add_partitions(self, name: str, wanted: Mapping[tuple[str, ...], str]) -> None:
        """Add the missing ones of these partitions, by values, each with its location."""
        try:
            storage = self._client.getTable(self._settings.database, name).getSd()
            some = list(wanted.items())
            for first in range(0, len(some), _AT_ONCE):
                made = jvm_of(self._context).java.util.ArrayList()
                for values, location in some[first : first + _AT_ONCE]:
                    made.add(self._partition(name, storage, values, location))
                self._client.add_partitions(made, True, False)
        except Exception as error:
            raise self._failed("add partitions to", name, error) from error

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            try:
                client.close()
            except (Py4JError, *JAVA_ERRORS, OSError):
                return  # it is gone, and so is the connection

    def _conf(self) -> Any:
        jvm = jvm_of(self._context)
        hadoop = configuration(self._context, self._hadoop)
        conf = jvm.org.apache.hadoop.hive.conf.HiveConf(hadoop, hadoop.getClass())
        site = Path(self._settings.conf_dir or "", "hive-site.xml")
        if self._settings.conf_dir and site.exists():
            conf.addResource(jvm.org.apache.hadoop.fs.Path("file", None, str(site.absolute())))
        for name, value in _BOUNDS.items():
            conf.set(name, value)
        if self._settings.metastore_uris:
            conf.set("hive.metastore.uris", self._settings.metastore_uris)
        for host in hosts_of(str(conf.get("hive.metastore.uris") or "")):
            self._hosts.check("hive.metastore.uris", host)
        if self._hadoop.kerberos:
            log_in(jvm, self._hadoop, hadoop)
        return conf

    def _storage(self, made: HiveTable) -> Any:
        api = jvm_of(self._context).org.apache.hadoop.hive.metastore.api
        serde = api.SerDeInfo()
        serde.setSerializationLib(made.definition.storage.serde)
        serde.setParameters(self._map({"serialization.format": "1"}))
        storage = api.StorageDescriptor()
        storage.setCols(self._columns(made.definition.columns))
        storage.setLocation(made.location)
        storage.setInputFormat(made.definition.storage.input_format)
        storage.setOutputFormat(made.definition.storage.output_format)
        storage.setSerdeInfo(serde)
        storage.setNumBuckets(-1)
        for empty in (storage.setBucketCols, storage.setSortCols):
            empty(jvm_of(self._context).java.util.ArrayList())
        storage.setParameters(self._map({}))
        return storage

    def _partition(self, name: str, storage: Any, values: Sequence[str], location: str) -> Any:
        partition = jvm_of(self._context).org.apache.hadoop.hive.metastore.api.Partition()
        partition.setDbName(self._settings.database)
        partition.setTableName(name)
        listed = jvm_of(self._context).java.util.ArrayList()
        for value in values:
            listed.add(value)
        partition.setValues(listed)
        partition.setCreateTime(int(time.time()))
        own = storage.deepCopy()
        own.setLocation(location)
        partition.setSd(own)
        partition.setParameters(self._map({}))
        return partition

    def _columns(self, columns: Iterable[HiveColumn]) -> Any:
        jvm = jvm_of(self._context)
        made = jvm.java.util.ArrayList()
        for column in columns:
            made.add(jvm.org.apache.hadoop.hive.metastore.api.FieldSchema(column.name, column.type, ""))
        return made

    def _map(self, entries: Mapping[str, str]) -> Any:
        made = jvm_of(self._context).java.util.HashMap()
        for name, value in entries.items():
            made.put(name, value)
        return made

    def _failed(self, doing: str, name: str, error: Exception) -> MetastoreError:
        self.close()
        where = self._settings.metastore_uris or f"the metastore of {self._settings.conf_dir}"
        kind, message = java_error(error)
        said = message.strip().splitlines()
        why = f"{kind}: {said[0]}" if isinstance(error, JAVA_ERRORS) and said else message or kind
        return MetastoreError(f"Could not {doing} {name} of {self._settings.database} in {where}: {why}")


def _table(found: Any) -> HiveTable:
    storage = found.getSd()
    classes = Storage(storage.getSerdeInfo().getSerializationLib(), storage.getInputFormat(), storage.getOutputFormat())
    columns = tuple(HiveColumn(one.getName(), one.getType()) for one in storage.getCols())
    parameters = {str(name): str(value) for name, value in dict(found.getParameters()).items()}
    fields = tuple(str(one.getName()) for one in found.getPartitionKeys())
    return HiveTable(Definition(classes, columns, parameters), fields, str(storage.getLocation()))
