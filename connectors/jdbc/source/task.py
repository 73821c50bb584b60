"""A JDBC source's task: some tables, or a query, of one database.

A plan takes one cheap query a due table (`window_query`), without Spark. The driver's JVM or Spark's executors read its
windows (`reading`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from sqlalchemy import Connection, event

from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.connectors.jdbc.contract.source_sql import Ranges
from headrace.connectors.jdbc.database import jvm_link
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.database.jvm_link import JvmAccess, JvmLink
from headrace.connectors.jdbc.source import settings as source_settings
from headrace.connectors.jdbc.source.offsets import offset_type
from headrace.connectors.jdbc.source.planning import SMALL_ROWS, Planning
from headrace.connectors.jdbc.source.reading import JdbcReader, SplitQuery
from headrace.connectors.jdbc.source.records import records_of
from headrace.connectors.jdbc.source.splits import split_query
from headrace.connectors.jdbc.source.table_filter import FILTERS, discover
from headrace.connectors.jdbc.source.tables import SourceError, SourceTable, listed
from headrace.connectors.jdbc.source.windows import Mode
from headrace.plugins.arrow_types import arrow_schema_of
from headrace.plugins.contracts import (
    ArrowReader,
    Limit,
    PartitionResult,
    Place,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import PreviewedSource, RowsOfSeveralTypes, SourceProgress
from headrace.plugins.records import Records


class BulkReads:
    """The transaction whose snapshot all bulk reads of a task share, in databases that can share one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open = ExitStack()
        self._connection: Connection | None = None
        self._begun: tuple[str, ...] | None = None

    def cut(self, table: SourceTable) -> tuple[Ranges | None, tuple[str, ...]]:
        """The ranges that cut the table, and the statements that begin each piece's transaction.

        Errors: DatabaseAway, DatabaseError.
        """
        if table.facts is None or table.id is None:
            return None, ()
        sql = self._database.source_sql()
        with self._database.translated_errors():
            if self._connection is None:
                self._connection = self._open.enter_context(self._database.held())
            with self._database.interruptible(self._connection):
                if self._begun is None:
                    self._begun = sql.same_snapshot(self._connection)
                cut = sql.ranges(self._connection, table.facts, table.quoted), self._begun
        if not self._begun:
            # Nobody shares it. In SQLite its lock and a writer that waits for that would keep the pieces waiting, too.
            self.close()
        return cut

    def close(self) -> None:
        """Ends the transaction, after all reads."""
        self._connection = self._begun = None
        with suppress(DatabaseAway, DatabaseError):  # the transaction has no changes
            self._open.close()


log = logging.getLogger(__name__)


class JdbcSourceTask(SourceTask, RowsOfSeveralTypes, SourceProgress, PreviewedSource):
    """Reads the new rows of tables, or of a query's result."""

    _reads_only = False

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares to plan; checks that every table has the columns of the mode.

        Errors: ConfigError, ValueError; SourceError if a table cannot be read so; DatabaseAway, DatabaseError.
        """
        values = source_settings.parse(config)
        self._context = context
        self._mode = Mode(values["mode"])
        self._fetch_size: int | None = values["batch.max.rows"] if "batch.max.rows" in config else None
        self._suffix: str = values["query.suffix"].strip()
        self._pieces: int = values["parallel.ranges"]
        self.offset_type = offset_type(self._mode)
        self.rows_share_offsets = self._mode is Mode.TIMESTAMP
        self._database = Database.of(
            config,
            context.worker,
            creates=False,
            reads_only=self._reads_only,
            stopping=context.stopping,
            interrupted_by=context.interrupted_by,
        )
        self.place = Place.WORKER_HOST if self._database.dialect.is_file else Place.ANYWHERE
        self._bulk = BulkReads(self._database)
        self._access = self._begun(values["transaction.isolation.mode"])
        self._link = JvmLink(self._access, context.interrupted_by)
        self._link_name = f"{context.connector}-{context.task}-{id(self)}"
        jvm_link.keep(self._link_name, self._link)
        query = values["query"] or values["query.masked"].value
        if why := self._why_no_job(query):
            self.place = Place.WORKER_PROCESS
            log.info("Large reads are no Spark jobs, the worker reads everything itself: %s", why)
        tables = self._assigned(config, query, values["topic.prefix"])
        self._planning = Planning(values, self._database.dialect, self._database.source_sql(), tables, query)
        with self._database.connect() as connection:
            self._planning.describe(connection, tables)

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`, with all tables that pass the filters. Transactions cannot write."""
        values = source_settings.parse(config)
        self._reads_only = True
        if not (values["query"] or values["query.masked"].value):
            wanted = source_settings.table_filter(values)
            opened = Database.of(config, context.worker, creates=False, reads_only=True, stopping=context.stopping)
            with closing(opened) as database:
                with database.connect() as connection:
                    tables = discover(connection, database.dialect, wanted)
                name_of = database.dialect.name_of
            config = {**config, "tables": ",".join(map(name_of, tables)), "tables.fetched": "true"}
        self.start(config, context)

    def topics(self) -> Sequence[str]:
        """One topic for each table."""
        return [table.topic for table in self._planning.tables]

    def partitions(self) -> Sequence[SourcePartition]:
        """The partitions of the due tables. Errors: SourceError after `query.retry.attempts`."""
        failures, self._link.failures = self._link.failures, 0
        return [partition for table in self._planning.due(failures > 0) for partition in table.partitions]

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Plans the new rows of the tables of the last `partitions`; None without new rows."""
        if not after:
            return None
        with self._counting(), self._database.connect() as connection:
            return self._planning.plan(connection, after, limit, self._context.stopping)

    def reader(self, plan: Plan) -> ArrowReader:
        """A reader of the planned windows."""
        with self._counting():
            readings = tuple(self._reading(split, plan.rows) for split in plan.splits)
        return JdbcReader(self._access, readings, self._mode, self._link_name, self._pieces)

    def row_type_of(self, shape: str) -> pa.Schema:
        """The types in which a table's columns are fetched."""
        return arrow_schema_of(self._planning.layouts[shape][1].values)

    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """Records of rows; each value is a struct of the columns."""
        return records_of(frame, self._planning.layouts[shape][1])

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Records which windows have reached Kafka."""
        self._bulk.close()
        self._planning.delivered(reached)

    def undelivered(self) -> None:
        """Releases the snapshot until the next attempt."""
        self._bulk.close()

    def stop(self) -> None:
        """Closes all connections."""
        for opened in ("_bulk", "_link", "_database"):
            if hasattr(self, opened):
                getattr(self, opened).close()

    @contextmanager
    def _counting(self) -> Iterator[None]:
        try:
            yield
        except DatabaseAway:
            self._link.failures += 1
            raise

    def _why_no_job(self, query: str) -> str | None:
        if self._suffix:
            return "Spark's statements have no place for query.suffix"
        if self._database.hides:
            return "Spark's plans would show query.masked"
        if self._database.source_sql().seems_to_bind(query):
            return "Spark's statements would take a ? in the query for a parameter (operators have other names, too)"
        return None

    def _assigned(self, config: Mapping[str, str], query: str, prefix: str) -> list[SourceTable]:
        if query:
            return [SourceTable.of_query(query, prefix)]
        dialect = self._database.dialect
        names = listed(config.get("tables", ""), dialect.quotes)
        if not names and config.get("tables.fetched", "true") == "true":
            given = ", ".join(f"{name}={config[name]}" for name in FILTERS if name in config)
            raise SourceError(
                "Task is being killed because it was not assigned a table nor a query to execute: no table passes the "
                f"filters of its connector ({given}), or the connection's user may read none. Compare the names with "
                "the database's, also their case"
            )
        # In the modes with an order the suffix stands after the order, where no column has a table.
        own_name = bool(self._suffix) and self._mode is Mode.BULK
        return [SourceTable.of_table(dialect.table_id(name), dialect, prefix, own_name) for name in names]

    def _begun(self, level: str) -> JvmAccess:
        """The JVM's access. All connections, Python's too, begin with the same statements and isolation level."""
        dialect, sql = self._database.dialect, self._database.source_sql()
        driver = dialect.jvm(self._database.access)
        begins = (dialect.read_only,) if self._reads_only else ()
        isolation = () if level == "DEFAULT" else sql.isolation(level)
        event.listen(self._database.engine, "connect", _saying((*isolation, *sql.session)))
        url, about = sql.spark_url(driver.url), str(self._database.access)
        hosts = tuple(host.name for host in self._database.access.url.hosts)
        allowed = AllowedHosts.of(self._context.worker)
        return JvmAccess(driver, url, sql.session, isolation, begins, about, self._database.hides, hosts, allowed)

    def _reading(self, split: Split, rows: int) -> SplitQuery:
        table, layout = self._planning.layouts[split.shape]
        if self._mode is Mode.BULK:
            cut = rows >= SMALL_ROWS and self.place is not Place.WORKER_PROCESS and self._pieces != 1
            ranges, begun = self._bulk.cut(table) if cut else (None, ())
            select = layout.select(table.source, "", ranges.sql if ranges is not None else "")
            reading = SplitQuery(select, layout.types, layout.shape, ranges=ranges, session=begun, suffix=self._suffix)
        else:
            reading = split_query(split, table, layout, self._suffix)
        return replace(reading, rows=rows, fetch_size=self._fetch_size or table.fetch_size)


def _saying(statements: Sequence[str]) -> Any:
    def say(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()
        connection.commit()

    return say
