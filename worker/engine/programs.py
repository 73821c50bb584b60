"""The engine that all tasks of a process share: programs for inline batches, turns for jobs, memory for batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.plugins.contracts import Place
from headrace.plugins.offsets import PartitionResult
from headrace.worker.engine.bounds import Bounds
from headrace.worker.engine.compiled import NotProjectable
from headrace.worker.engine.inline import UNBOUND, Program, ProjectionPool, batch_of
from headrace.worker.engine.job_group import JobGroup
from headrace.worker.engine.quota import Quota

log = logging.getLogger(__name__)


@dataclass
class Engine:
    """Runs expressions for all tasks of a process, and bounds the share of each."""

    projections: ProjectionPool
    jobs: Quota
    memory: Quota
    """Bytes of batches in memory at once."""
    rows_by_jobs: int = 0
    """Rows moved by jobs; `projections.rows` are the inline ones. A test checks that together they are all."""
    rows_copied: int = 0
    """Rows that were copied inline unchanged."""
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def say_if_bound(self, about: str, place: Place) -> None:
        """Log once for a task of this place that it stays in the worker although there is a cluster."""
        if place is not Place.ANYWHERE and not self.projections.spark.is_local:
            bound = "this host's files or databases" if place is Place.WORKER_HOST else "this worker's process"
            log.info("%s: all batches run in this worker and not on the Spark cluster: it uses %s", about, bound)

    def may_be_job(self, place: Place) -> bool:
        """True if a task of this place may run in Spark's executors."""
        spark = self.projections.spark
        return spark.executors.is_ready and (place is Place.ANYWHERE or (place is Place.WORKER_HOST and spark.is_local))

    def awaits_executors(self, place: Place) -> bool:
        """True if a task of this place could run in Spark's executors once they are ready."""
        return place is Place.ANYWHERE and not self.projections.spark.executors.is_ready

    def program(
        self,
        schema: StructType,
        build: Callable[[DataFrame], DataFrame],
        about: str,
        bounds: Bounds,
        key: Hashable | None = None,
    ) -> Program | JobProgram:
        """Compile `build` for batches of this schema, inline if possible.

        Equal keys build the same. Errors: EngineLost, StoppedError, TooSlow.
        """
        try:
            return self.projections.compile(schema, build, key, bounds)
        except NotProjectable as why:
            log.info("%s: each batch, however small, costs a Spark job: %s", about, why)
            return JobProgram(self, schema, build)

    def ran(self, about: str, reached: Iterable[PartitionResult]) -> int:
        """Count the rows that a job has moved, and return their number."""
        rows = sum(one.rows for one in reached)
        self.count(rows)
        log.debug("%s: a job moved %d rows", about, rows)
        return rows

    def count(self, rows: int) -> None:
        """Count rows that went through a job."""
        with self._counting:
            self.rows_by_jobs += rows

    def copied(self, reached: Iterable[PartitionResult]) -> None:
        """Count rows that were copied inline."""
        with self._counting:
            self.rows_copied += sum(one.written for one in reached)

    def stop(self) -> None:
        """End the threads that run expressions; no program runs any more."""
        counts = ((self.projections.rows, "inline"), (self.rows_by_jobs, "in jobs"), (self.rows_copied, "as a copy"))
        if moved := ", ".join(f"{rows:,} {how}" for rows, how in counts if rows):
            log.info("Rows moved: %s", moved)
        self.projections.stop()


class JobProgram:
    """Expressions that only a Spark job can run, for batches in the worker; rows out are rows in, in order."""

    def __init__(
        self,
        engine: Engine,
        schema: StructType,
        build: Callable[[DataFrame], DataFrame],
    ) -> None:
        self._engine = engine
        self._schema = schema
        self._build = build
        self.generation = engine.projections.spark.generation

    def run(self, batch: pa.RecordBatch, bounds: Bounds = UNBOUND) -> pa.RecordBatch:
        """Compute the expressions' output for this batch. Errors: as `Program.run`."""
        with self._engine.jobs.take(1, bounds.stop), self._engine.projections.spark.using() as session:
            group, given_up, waited_s = JobGroup(session, "a batch"), self._engine.projections.given_up, 0

            def look(seconds: int) -> None:
                nonlocal waited_s
                waited_s += group.waits()
                bounds.check(seconds - waited_s, batch_of(batch.num_rows))

            work, left = partial(self._table, session, batch, group), partial(given_up.add_job, group)
            given = bounds.call(work, look, left)
        if given.num_rows != batch.num_rows:
            raise ValueError(f"{batch.num_rows} records became {given.num_rows} rows: a transform marks what it "
                             "filters in the column drop, and makes no rows")  # fmt: skip
        self._engine.count(batch.num_rows)
        whole = given.combine_chunks()
        return pa.RecordBatch.from_arrays(
            [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in whole.columns],
            schema=whole.schema,
        )

    def _table(self, session: SparkSession, batch: pa.RecordBatch, group: JobGroup) -> pa.Table:
        with self._engine.projections.given_up.starting(group):
            rows = session.createDataFrame(pa.Table.from_batches([batch]), self._schema)
            return self._build(rows.coalesce(1)).toArrow()
