"""*Here*: Spark's own compiled expressions, applied to Arrow batches inside the driver's JVM without a Spark job.

A plan for a batch of one record costs Spark 16-30 ms; twenty trickling tasks would drown in it. So the expressions are
compiled once, to the projections that Spark's executors would run, and from then on a batch goes through them directly:
Arrow stream in a file in shared memory -> rows -> projections -> Arrow batch -> named pipe. Measured on 2 shared cores:
5 rows 0.8 ms, 1,000 rows 4 ms, 10,000 rows 29 ms.

Batches of several tasks that run the same program at the same moment go through it as one: every program answers row
for row (nothing filters, `drop` is a column), so the answer is cut apart again where the batches met. With twenty
trickling sinks this is what keeps the cost of a batch from being paid twenty times.

These are internal classes of classic Spark; this module alone knows them, and tests pin them for the supported version.
Only a chain of projections over the leaf qualifies: no aggregate, explode, sort or union, nothing that is initialized
for a partition (`rand`), asks another plan (a subquery) or the clock. Of Python functions only an `ArrowFunction` does:
it cuts the chain in two, and is called between them in the task's own thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.plugins.catalyst.arrow_functions import ArrowFunction, function_named
from headrace.plugins.catalyst.internals import frame_of
from headrace.worker.engine.driver import EngineLost, Spark
from headrace.worker.machine.scratch import scratch_folder

TOGETHER_ROWS = 20_000
TOGETHER_BYTES = 16 << 20
"""No more than this of several tasks' batches goes through a program at once."""
_ZONE = "UTC"
"""The time zone that Arrow's timestamps name, as the session's does (`spark.DEFAULTS`)."""


class NotHere(Exception):
    """The expressions are not a chain of projections: they can only run in a Spark job."""


class Program:
    """Expressions compiled for one input schema; rows out are rows in, in order."""

    def __init__(self, pool: ProjectionPool, plan: Any, compiled: _Compiled, before: _FirstPass | None = None) -> None:
        self._pool = pool
        self._before = before
        self._compiled = compiled
        self._reads = to_arrow_schema(compiled.reads, timezone=_ZONE)
        self._gives = to_arrow_schema(compiled.gives, timezone=_ZONE)
        self.plan = plan
        self.generation = pool.spark.generation

    @property
    def names(self) -> list[str]:
        """The output's column names."""
        return [column.name for column in self._compiled.columns]

    @property
    def goes_on(self) -> bool:
        """Whether its rows have been through another program before."""
        return self._before is not None

    @property
    def compiled(self) -> _Compiled:
        """The part of it that a thread of the pool needs."""
        return self._compiled

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The program's output for this batch. Errors: EngineLost; whatever Spark, or a function in it, raises."""
        if self._before is not None:
            batch = self._before.function.run(self._before.program.run(batch))
        columns = self._compiled.columns
        computed = batch
        if batch.num_rows == 0:
            computed = pa.RecordBatch.from_pylist([], schema=self._gives)  # the JVM would answer nothing at all
        elif not all(column.passes for column in columns):
            narrow = pa.record_batch([batch.column(name) for name in self._reads.names], schema=self._reads)
            computed = self._pool.submit(self, narrow).result()
        arrays = [(batch if c.passes else computed).column(c.source) for c in columns]
        return pa.RecordBatch.from_arrays(arrays, names=self.names)


class _FirstPass(NamedTuple):
    """The program and function that a batch goes through before it reaches a program's own leaf."""

    program: Program
    function: ArrowFunction


class _Output(NamedTuple):
    """An output column: an input column passed on as it is, or one that the projections compute."""

    name: str
    passes: bool
    source: str


class _Compiled(NamedTuple):
    """A program as the JVM has it: projections from the leaf upward, each with the attributes it is bound to."""

    columns: list[_Output]
    projections: list[tuple[Any, Any]]
    reads: StructType
    reads_java: Any
    gives: StructType
    gives_java: Any


@dataclass
class _PendingBatch:
    program: Program
    batch: pa.RecordBatch
    answer: Future[pa.RecordBatch] = field(default_factory=Future)


class ProjectionPool:
    """A few threads, each with its own connection to the JVM, that run programs over batches, the oldest first."""

    def __init__(self, spark: Spark, threads: int = 2) -> None:
        self.spark = spark
        self.batches = 0
        self.rows = 0
        self._jobs: queue.SimpleQueue[_PendingBatch | None] = queue.SimpleQueue()
        self._waiting: list[_PendingBatch] = []
        self._lock = threading.Lock()
        self._inputs: dict[tuple[int, str], DataFrame] = {}
        self._programs: dict[tuple[int, int], WeakSet[Program]] = {}
        self._warm: set[tuple[int, str]] = set()
        self._home = scratch_folder("projections", shared_memory=True)
        self._threads = [
            threading.Thread(target=self._work, args=(Path(self._home.name), i), name=f"here-{i}", daemon=True)
            for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def compile(self, schema: StructType, build: Callable[[DataFrame], DataFrame]) -> Program:
        """The program that does what `build` does to a frame of this schema; equal ones are one while somebody has it.

        Errors: NotHere where it is more than projections; EngineLost.
        """
        with self.spark.using() as session:
            frame = build(self._input(session, schema))
            _refuse_clock(session, frame)
            return self._program(session, frame)

    def _program(self, session: SparkSession, frame: DataFrame) -> Program:
        plan = _optimized(frame)
        _, leaf = _chain(plan)
        if (function := _function(leaf)) is not None:
            before = _FirstPass(self._program(session, frame_of(session, leaf.child())), function)
            return Program(self, plan, _compile(session, frame, plan), before)
        names, key = _names(plan), (self.spark.generation, plan.semanticHash())
        with self._lock:
            alike = list(self._programs.get(key, ()))
        for program in alike:
            if plan.sameResult(program.plan) and program.names == names:
                return program
        program = Program(self, plan, _compile(session, frame, plan))
        with self._lock:
            self._programs.setdefault(key, WeakSet()).add(program)
        return program

    def is_first(self, what: str) -> bool:
        """Whether nobody asked for this in this Spark session before: a cold JVM is worth warming up once."""
        with self._lock:
            new = (self.spark.generation, what) not in self._warm
            self._warm.add((self.spark.generation, what))
            return new

    def submit(self, program: Program, batch: pa.RecordBatch) -> Future[pa.RecordBatch]:
        """Queue a batch; the future holds its answer, or its error."""
        job = _PendingBatch(program, batch)
        with self._lock:
            self._waiting.append(job)
        self._jobs.put(job)
        return job.answer

    def stop(self) -> None:
        """The threads have ended."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=5)
        self._home.cleanup()

    def _input(self, session: SparkSession, schema: StructType) -> DataFrame:
        """An empty frame of this schema, the same one each time: plans over it can be compared."""
        key = (self.spark.generation, schema.json())
        with self._lock:
            if key not in self._inputs:
                jsession: Any = session._jsparkSession
                rdd = session.sparkContext._jsc.emptyRDD()
                self._inputs[key] = DataFrame(jsession.createDataFrame(rdd, jsession.parseDataType(key[1])), session)
            return self._inputs[key]

    def _take(self) -> list[_PendingBatch] | None:
        """The oldest job, and with it whatever waits for the same program; None at the end."""
        while True:
            if self._jobs.get() is None:
                return None
            with self._lock:
                if not self._waiting:
                    continue  # it went along with an earlier one
                first = self._waiting[0]
                taken: list[_PendingBatch] = []
                rows, size = 0, 0
                for job in self._waiting:
                    if job.program is not first.program:
                        continue
                    rows, size = rows + job.batch.num_rows, size + job.batch.nbytes
                    if taken and (rows > TOGETHER_ROWS or size > TOGETHER_BYTES):
                        break
                    taken.append(job)
                chosen = {id(job) for job in taken}
                self._waiting = [job for job in self._waiting if id(job) not in chosen]
                return taken

    def _work(self, home: Path, number: int) -> None:
        channel: _Channel | None = None
        while (jobs := self._take()) is not None:
            try:
                with self.spark.using() as session:
                    if channel is None or channel.generation != self.spark.generation:
                        channel = _Channel(session, self.spark.generation, home, number)
                    if jobs[0].program.generation != channel.generation:
                        raise EngineLost("the program was compiled for a Spark session that is gone")
                    self._answer(channel, jobs)
            except Exception as error:
                for job in jobs:  # first: a JVM that hangs does not close anything
                    if not job.answer.done():
                        job.answer.set_exception(error)
                if channel is not None:
                    channel.close()
                    channel = None  # what is left in its pipe belongs to nobody
            jobs.clear()  # an idle thread keeps no batch, and no program alive

    def _answer(self, channel: _Channel, jobs: list[_PendingBatch]) -> None:
        program = jobs[0].program
        batches = [job.batch for job in jobs]
        out = channel.run(program, batches)
        with self._lock:
            self.batches += 1
            self.rows += 0 if program.goes_on else out.num_rows
        begin = 0
        for job in jobs:
            job.answer.set_result(out.slice(begin, job.batch.num_rows))
            begin += job.batch.num_rows


class _Channel:
    """One thread's way into the JVM: a file in shared memory there, a named pipe back.

    py4j itself would carry the bytes as base64 text, and beyond 8 KB wait 40 ms for Nagle's algorithm.
    """

    def __init__(self, session: SparkSession, generation: int, home: Path, number: int) -> None:
        self.generation = generation
        self._input = home / f"in-{number}"
        pipe = home / f"out-{number}-{generation}-{os.urandom(4).hex()}"
        os.mkfifo(pipe)
        jvm: Any = session._jvm
        opened: queue.SimpleQueue[BinaryIO] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(pipe, opened), name=f"here-{number}-answers", daemon=True).start()
        try:
            self._out = jvm.java.io.DataOutputStream(
                jvm.java.io.BufferedOutputStream(jvm.java.io.FileOutputStream(str(pipe)), 1 << 16)
            )
            opened.get(timeout=5)
        except Exception:
            _release(pipe)
            raise
        pipe.unlink()
        arrow = getattr(getattr(jvm.org.apache.spark.sql.execution.arrow, "ArrowConverters$"), "MODULE$")
        self._from_arrow = _unconverted(arrow.fromBatchIterator)
        self._to_arrow = _unconverted(arrow.toBatchWithSchemaIterator)
        self._read_stream = _unconverted(jvm.PythonSQLUtils.readArrowStreamFromFile)
        self._write = jvm.org.apache.spark.api.python.PythonRDD.writeIteratorToStream
        self._clone = jvm.org.apache.commons.lang3.SerializationUtils.clone
        self._create = jvm.org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create
        self._projections: WeakKeyDictionary[Program, list[Any]] = WeakKeyDictionary()

    def run(self, program: Program, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        """The program's computed columns for these batches, as one batch."""
        projections, reads = self._compiled(program)
        with pa.OSFile(str(self._input), "wb") as sink, pa.ipc.new_stream(sink, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        rows = self._from_arrow(self._read_stream(str(self._input)), reads, _ZONE, False, False, None)
        for projection in projections:
            rows = rows.map(projection)
        out = self._to_arrow(rows, program.compiled.gives_java, 0, 1 << 40, _ZONE, False, False)
        self._write(out, self._out)
        self._out.flush()
        answer = self._answers.get()
        if answer is None:
            raise EngineLost("the Spark driver closed its pipe")
        return pa.ipc.open_stream(answer).read_next_batch()

    def close(self) -> None:
        """Its pipe has no writer any more, and so no thread that reads it."""
        with contextlib.suppress(Exception):  # it is gone, then
            self._out.close()

    def _compiled(self, program: Program) -> tuple[list[Any], Any]:
        """This thread's own projection objects: their row buffers are reused from row to row.

        So are generators and parsers inside the expressions (`to_json` has one), hence a thread has its own of these.
        """
        if program not in self._projections:
            self._projections[program] = [
                self._create(self._clone(expressions), bound) for expressions, bound in program.compiled.projections
            ]
        return self._projections[program], program.compiled.reads_java

    def _read(self, pipe: Path, opened: queue.SimpleQueue[BinaryIO]) -> None:
        with contextlib.suppress(OSError), pipe.open("rb") as source:
            opened.put(source)
            while len(head := source.read(4)) == 4:
                self._answers.put(source.read(int.from_bytes(head, "big")))
        self._answers.put(None)


def _release(pipe: Path) -> None:
    """Let go a reader that waits for a writer which will never come."""
    with contextlib.suppress(OSError):
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def _unconverted(method: Any) -> Any:
    """The method of the JVM, called without a look whether each argument has to be converted: 20 microseconds each."""
    method.converters = None
    return method


def _optimized(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()


def _refuse_clock(session: SparkSession, frame: DataFrame) -> None:
    """Errors: NotHere where an expression asks what time it is (or who asks): the optimizer answers it for good."""
    jvm: Any = session._jvm
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if frame._jdf.queryExecution().analyzed().containsPattern(current):
        raise NotHere("the current time, date or user is another with each batch, which needs a Spark job")


def _names(plan: Any) -> list[str]:
    output = plan.output()
    return [output.apply(i).name() for i in range(output.size())]


def _chain(plan: Any) -> tuple[list[Any], Any]:
    """The projections of a plan from the leaf upward, and the leaf. Errors: NotHere."""
    nodes: list[Any] = []
    while (kind := plan.nodeName()) == "Project":
        nodes.insert(0, plan)
        plan = plan.child()
    if kind not in ("LogicalRDD", "Scan ExistingRDD") and _function(plan) is None:
        raise NotHere(f"a plan with {kind} needs a Spark job")
    if any(not node.deterministic() or node.subqueries().nonEmpty() for node in nodes):
        raise NotHere("an expression that is not deterministic, or a subquery, needs a Spark job")
    return nodes, plan


def _function(node: Any) -> ArrowFunction | None:
    """The function that this node applies, if it is one that can be called here."""
    return function_named(node.functionExpr().name()) if node.nodeName() == "MapInArrow" else None


def _compile(session: SparkSession, frame: DataFrame, plan: Any) -> _Compiled:
    jvm: Any = session._jvm
    nodes, _ = _chain(plan)
    columns = [_output(nodes, i, name) for i, name in enumerate(_names(plan))]
    computed = [column.name for column in columns if not column.passes]
    if not computed:
        return _Compiled(columns, [], StructType([]), None, StructType([]), None)
    narrow_frame = frame.select(*computed)
    nodes, below = _chain(_optimized(narrow_frame))
    leaf, needed = below.output(), nodes[0].references()
    kept = [leaf.apply(i) for i in range(leaf.size()) if needed.contains(leaf.apply(i))]
    kept = kept or [leaf.apply(0)]  # constants only: some column must say how many rows there are
    bound = [(nodes[0].projectList(), jvm.PythonUtils.toSeq(kept))]
    bound += [(node.projectList(), node.child().output()) for node in nodes[1:]]
    types: Any = jvm.org.apache.spark.sql.catalyst.types.DataTypeUtils
    reads_java = types.fromAttributes(jvm.PythonUtils.toSeq(kept))
    reads = StructType.fromJson(json.loads(reads_java.json()))
    return _Compiled(columns, bound, reads, reads_java, narrow_frame.schema, narrow_frame._jdf.schema())


def _output(nodes: list[Any], index: int, name: str) -> _Output:
    """Whether output column `index` is a column of the leaf, followed down through the projections."""
    if not nodes:
        return _Output(name, True, name)
    attribute = None
    for node in reversed(nodes):
        expressions = node.projectList()
        position = index if attribute is None else _position(node.output(), attribute)
        expression = expressions.apply(position)
        if expression.nodeName() == "Alias":
            expression = expression.child()
        if expression.nodeName() != "AttributeReference":
            return _Output(name, False, name)
        attribute = expression
    return _Output(name, True, attribute.name()) if attribute is not None else _Output(name, False, name)


def _position(output: Any, attribute: Any) -> int:
    wanted = attribute.exprId()
    return next(i for i in range(output.size()) if output.apply(i).exprId().equals(wanted))
