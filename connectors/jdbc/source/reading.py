"""Reads the windows of a plan: the same SELECT, the same getters and the same types inline and in a job.

Inline the driver's JVM runs the SELECT and gives Arrow batches (`jvm_link`). In a job Spark's JDBC source does, with
the pieces of a window as partitions. The database orders each piece; pieces are cut by the first order column's values.

Decided: windows' bounds are constants in the text, because Spark's JDBC source binds nothing; they are numbers and
timestamps that were computed here, never a text from elsewhere. Loses: the database plans each window anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.connectors.jdbc.contract.source_sql import Ranges
from headrace.connectors.jdbc.database import jvm_link
from headrace.connectors.jdbc.database.jvm_link import JvmAccess, JvmLink
from headrace.connectors.jdbc.source.offsets import arrow_offsets, no_offsets, same_offsets, spark_offsets
from headrace.connectors.jdbc.source.windows import Mode
from headrace.plugins.contracts import RetriableError

MICROS: Final = "k_micros"
ID: Final = "k_id"
"""The columns of a row's offset."""
ORDERS: Final = ("r0", "r1")
"""The order columns as the database has them: for ORDER BY and cutting, never fetched."""

_PIECES_A_CORE: Final = 4
"""The default of `parallel.ranges`. Several, because pieces of equal width are seldom of equal size."""


@dataclass(frozen=True)
class SplitQuery:
    """The SELECT of one split."""

    select: str
    """Gives the columns `types`, and `ORDERS`."""
    types: spark.StructType
    shape: str
    order: tuple[str, ...] = ()
    """The columns of `ORDERS` that order it."""
    ranges: Ranges | None = None
    """The ranges that cut it for parallel reads, by the first of `ORDERS`; None: read as one."""
    session: tuple[str, ...] = ()
    """Statements that begin its transactions."""
    suffix: str = ""
    """The setting `query.suffix`; it may cut the result short."""
    last_micros: int | None = None
    """The last timestamp of the window."""
    zone: tzinfo | None = None
    """The zone whose clock its timestamps show; None: UTC."""
    offset: Mapping[str, int] | None = None
    """The offset of all its rows if they are late ones; None: each has its own."""
    rows: int = 0
    """An estimate."""
    fetch_size: int = 1_000
    """The rows that the driver fetches at a time."""

    @property
    def query(self) -> str:
        """The whole SELECT, in order.

        A suffix stands where the columns still have their own names; in modes with an order after the order.
        """
        if self.suffix and not self.order:
            return f"{self.select} {self.suffix}"
        return f"{self._query('')}{self.suffix and ' ' + self.suffix}"

    @property
    def first_group(self) -> str:
        """The SELECT of all rows of its first timestamp."""
        (time,) = self.order
        return self._query(f" WHERE {time} = (SELECT MIN({time}) FROM ({self.select}) y)")

    def _query(self, where: str) -> str:
        columns = ", ".join(self.types.names)
        ordered = f" ORDER BY {', '.join(self.order)}" if self.order else ""
        return f"SELECT {columns} FROM ({self.select}) x{where}{ordered}"

    def conditions(self, pieces: int) -> list[str]:
        """The statement after WHERE, for each of Spark's partitions."""
        cut = self.ranges.cut(pieces, ORDERS[0]) if self.ranges is not None else ("",)
        ordered = f" ORDER BY {', '.join(self.order)}" if self.order else ""
        return [f"{piece or '1 = 1'}{ordered}" for piece in cut]


@dataclass(frozen=True)
class JdbcReader:
    """The rows of each split in the order of the mode, each with its position as offset."""

    access: JvmAccess
    readings: tuple[SplitQuery, ...]
    mode: Mode
    link: str
    """The name of the task's own connection (`jvm_link.keep`)."""
    pieces: int = 0
    """The most pieces of a window; 0: by the cores."""

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """The rows, inline. Errors: RetriableError, JvmReadError."""
        reading, own = self.readings[split], jvm_link.kept(self.link)
        link = own or JvmLink(self.access)
        try:
            batches = self._batches(link, reading, reading.query)
            if reading.suffix and self.mode is Mode.TIMESTAMP:
                batches = self._whole_groups(link, reading, batches)
            for batch in batches:
                yield self._with_offsets(batch, reading)
        finally:
            if own is None:
                link.close()

    def frame(self, session: SparkSession, split: int) -> DataFrame:
        """The rows, in a job, as Spark's frame."""
        reading, access = self.readings[split], self.access
        access.check_hosts()
        options = {**access.options(reading.fetch_size, reading.session), "customSchema": _ddl(reading.types)}
        pieces = self.pieces or session.sparkContext.defaultParallelism * _PIECES_A_CORE
        conditions = reading.conditions(pieces)
        rows = session.read.jdbc(access.url, f"({reading.select}) x", predicates=conditions, properties=options)
        if reading.offset is not None:
            offsets = F.struct(*(F.lit(value).cast("long").alias(name) for name, value in reading.offset.items()))
        else:
            known = [F.col(name) if name in reading.types.names else F.lit(None) for name in (MICROS, ID)]
            offsets = spark_offsets(self.mode, known[0], known[1], zone_name(reading.zone))
        return rows.select(*(F.col(name) for name in values_of(reading.types)), offsets.alias("source_offset"))

    def translate_error(self, error: Exception) -> Exception:
        """A RetriableError if a retry may help; counts those of the task's own connection."""
        passing = jvm_link.SNAPSHOT_GONE if any(reading.session for reading in self.readings) else ()
        found, link = jvm_link.classified(error, self.access, passing), jvm_link.kept(self.link)
        if link is not None and isinstance(found, RetriableError):
            link.failures += 1
        return found

    def _batches(self, link: JvmLink, reading: SplitQuery, query: str) -> Iterator[pa.RecordBatch]:
        return link.read(query, reading.types, reading.shape, reading.fetch_size, reading.rows)

    def _whole_groups(
        self, link: JvmLink, reading: SplitQuery, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The rows that a suffix leaves, without splitting a timestamp; the first timestamp is always read."""
        passed = 0
        for batch in _whole_groups(batches, reading.last_micros):
            passed += batch.num_rows
            yield batch
        if not passed:
            yield from self._batches(link, reading, reading.first_group)

    def _with_offsets(self, batch: pa.RecordBatch, reading: SplitQuery) -> pa.RecordBatch:
        values = values_of(reading.types)
        columns = [*(batch.column(name) for name in values), self._offsets(batch, reading)]
        return pa.RecordBatch.from_arrays(columns, names=[*values, "source_offset"])

    def _offsets(self, batch: pa.RecordBatch, reading: SplitQuery) -> pa.Array:
        if self.mode is Mode.BULK:
            return no_offsets(self.mode, batch.num_rows)
        if reading.offset is not None:
            return same_offsets(self.mode, reading.offset, batch.num_rows)
        known = [batch.column(name) if name in batch.schema.names else None for name in (MICROS, ID)]
        return arrow_offsets(self.mode, known[0], known[1], reading.zone)


def values_of(types: spark.StructType) -> list[str]:
    """The names of the columns that become records."""
    return [name for name in types.names if name not in (MICROS, ID)]


def _ddl(types: spark.StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in types)


def zone_name(zone: tzinfo | None) -> str | None:
    """The zone's name for Spark."""
    return None if zone is None else getattr(zone, "key", None) or str(zone)


def _whole_groups(batches: Iterator[pa.RecordBatch], last_micros: int | None) -> Iterator[pa.RecordBatch]:
    """The batches without the rows of the last timestamp, if the suffix may have cut off more of them."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        times = batch.column(MICROS)
        first = pc.index(times, times[-1]).as_py()
        if first or not held or held[-1].column(MICROS)[-1] != times[-1]:
            yield from held
            yield batch.slice(0, first)
            held = []
        held.append(batch.slice(first))
    if held and held[-1].column(MICROS)[-1].as_py() == last_micros:
        yield from held
