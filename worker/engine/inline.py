"""Inline: Spark's own compiled expressions, applied to Arrow batches inside the driver's JVM without a Spark job.

A plan for a batch of one record costs Spark 16-30 ms; twenty trickling tasks would drown in it. So the expressions are
compiled once, to the projections that Spark's executors would run, and from then on a batch goes through them directly:
Arrow batch -> pipe -> rows -> projections -> Arrow batch -> pipe (`lane.py`), or shared memory if it is not small.

A JSON envelope to a line, on 2 shared cores, microseconds of CPU a batch in Python and in the warm JVM (in brackets:
before the pipes, with a file in shared memory, seven calls of py4j and a thread between):

    rows in the batch       1           100           1,000           10,000
    in Python          35-48 (700)    50 (900)     150 (1,350)   750-1,250 (3,900)
    in the JVM         55-70 (400)   180 (1,040) 1,100 (2,050)  9,000-12,000 (9,000-14,000)
    until answered     78-150 (950)  200 (1,600) 1,400 (3,200)  9,000-20,000 (13,000-18,000)

That was measured while large batches went through the pipe, too: 10,000 lines to envelopes took 1,900 in Python and
7,700 in the JVM then, and take 900 and 5,500 in shared memory.

Around it a sink's task spends on a batch of one record: messages to Arrow 21, prefix 16, lines to the file 11, metrics
4, memory and sizes 3; librdkafka's threads 45.

These figures hold if one batch follows the other. After 30 ms in which a core slept, its caches are empty, and the same
work costs many times as much (36 -> 750 microseconds for a line that is read and split, on a virtual machine; 110 if
the core is kept awake). So with little traffic the memory that a batch touches counts, and how often a core is woken.

A batch that takes longer than a second, such as a SELECT that does not end, keeps its lane to itself, and the others
get a new lane. Later batches of its program wait for one of a few lanes for slow batches, until one is quick again.

Batches of several tasks that run the same program at the same moment go through it as one: every program answers row
for row (nothing filters, `drop` is a column), so the answer is cut apart again at the batches' bounds. This keeps
twenty trickling sinks from paying the cost of a batch twenty times.

Spark's internals are taken apart in `compiled.py` and `Lane.java`; tests pin them for the supported version.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction
from headrace.plugins.interop.catalyst.spark_internals import empty_frame, frame_of, optimized
from headrace.plugins.scratch import scratch_folder
from headrace.worker.engine.bounds import LOOK_S, Bounds, TooSlow
from headrace.worker.engine.compiled import (
    Compiled,
    chain_of,
    compiled,
    function_of,
    refuse_clock,
)
from headrace.worker.engine.driver import EngineLost, Spark
from headrace.worker.engine.given_up import GivenUp
from headrace.worker.engine.lane import Lane
from headrace.worker.engine.quota import Quota
from headrace.worker.engine.shared import shared

MOST_SLOW: Final = 2
"""The most batches of one slow program that run at once."""
MOST_APART: Final = 16
"""The most slow batches that run at once beside the quick ones."""
SLOW_LOOKS: Final = 2
ALONE_LOOKS: Final = 5
"""The seconds after which batches that run together are taken apart: a new JVM on a busy machine may need a few."""
COMPILED_WITHIN_S: float = 60.0
"""The least time limit for compiling a program: a new JVM on a busy machine needs seconds for it."""
UNBOUND: Final = Bounds()
TOGETHER_ROWS = 20_000
TOGETHER_BYTES = 16 << 20
"""Bounds of several tasks' batches that go through a program together, as they wait for each other."""


class Program:
    """Expressions compiled for one input schema; rows out are rows in, in order."""

    def __init__(self, pool: ProjectionPool, made: Compiled, before: _FirstPass | None = None) -> None:
        self._pool = pool
        self._before = before
        self.compiled = made
        self._computes = not all(column.passes for column in made.columns)
        self.generation = pool.spark.generation
        self.is_slow = False
        """True if its last batch was slow."""
        self.slow_turns = Quota(MOST_SLOW)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.compiled.columns]

    @property
    def reads(self) -> set[str]:
        """The columns that its expressions read; it may pass others on."""
        first = set() if self._before is None else self._before.program.reads
        return first.union(self.compiled.reads.names)

    @property
    def goes_on(self) -> bool:
        """True if its rows have been through another program before."""
        return self._before is not None

    def run(self, batch: pa.RecordBatch, bounds: Bounds = UNBOUND) -> pa.RecordBatch:
        """Compute the program's output for this batch.

        Errors: EngineLost, StoppedError, TooSlow; whatever Spark, or a function in it, raises.
        """
        if self._before is not None:
            batch = self._before.run(batch, bounds)
        computed = batch
        if batch.num_rows == 0:
            computed = pa.RecordBatch.from_pylist([], schema=self.compiled.gives)
        elif self._computes:
            reads = self.compiled.reads
            read = pa.record_batch([batch.column(name) for name in reads.names], schema=reads)
            computed = self._pool.run(self, read, bounds)
        arrays = [(batch if c.passes else computed).column(c.source) for c in self.compiled.columns]
        return pa.RecordBatch.from_arrays(arrays, names=self.names)


class _FirstPass(NamedTuple):
    """The program and function before a program's own leaf."""

    program: Program
    function: ArrowFunction

    def run(self, batch: pa.RecordBatch, bounds: Bounds) -> pa.RecordBatch:
        given = self.program.run(batch, bounds)
        look = partial(bounds.check, what=batch_of(given.num_rows))
        return bounds.call(partial(self.function.run, given), look)


@dataclass(eq=False)
class _LaneCall:
    """A batch that has to go through a lane."""

    program: Program
    rows: int
    batch: pa.Buffer
    bounds: Bounds = UNBOUND
    told: Future[pa.RecordBatch | Exception | _Turn] = field(default_factory=Future)
    """The outcome, set while the caller waits, or its turn."""


@dataclass
class _LanePlace:
    """A lane, or the place for one: it is made when needed, and anew if the driver was lost."""

    name: str
    lane: Lane | None = None
    is_apart: bool = False
    """True if callers do not, or no longer, take this place: it ends with its batch."""

    def close(self) -> None:
        if self.lane is not None:
            self.lane.close()
            self.lane = None


class _Turn(NamedTuple):
    """A caller's turn on a lane: its own call first, and those that run along with it."""

    place: _LanePlace
    calls: list[_LaneCall]


class ProjectionPool:
    """A few lanes, which run programs over batches, the oldest first.

    Decided: no threads of its own. A caller with a free lane runs its batch; others queue and are handed the lane, with
    all calls that wait for the same program, by the caller before. Handing a batch to a thread and its answer back cost
    30 microseconds, most of what is left; loses: a caller that takes others' batches along is answered later.
    """

    def __init__(self, spark: Spark, lanes: int = 2) -> None:
        self.spark = spark
        self.batches = 0
        self.rows = 0
        self._waiting: list[_LaneCall] = []
        self._lock = threading.Lock()
        self._inputs: dict[tuple[int, str], DataFrame] = {}
        self._warm: set[tuple[int, str]] = set()
        self._home = scratch_folder("projections")
        self._names = itertools.count()
        self._free = [self._place() for _ in range(lanes)]
        self._apart = 0
        self._slow_turns = Quota(MOST_APART)
        self.given_up = GivenUp(spark)
        self._stopped = False

    @property
    def waiting(self) -> int:
        """The number of batches that wait for a lane."""
        return len(self._waiting)

    def compile(
        self,
        schema: StructType,
        build: Callable[[DataFrame], DataFrame],
        key: Hashable | None = None,
        bounds: Bounds = UNBOUND,
    ) -> Program:
        """Compile `build`, applied to a frame of this schema.

        For equal keys only the first is built. Constant expressions are computed now.

        Errors: NotProjectable if it is more than projections; EngineLost, StoppedError, TooSlow.
        """
        patient = replace(bounds, limit_s=max(bounds.limit_s, COMPILED_WITHIN_S))
        look = partial(patient.check, what="what is constant")
        return patient.call(partial(self._compile, schema, build, key), look, self._left)

    def _compile(self, schema: StructType, build: Callable[[DataFrame], DataFrame], key: Hashable | None) -> Program:
        with self.spark.using() as session:
            given = self._input(session, schema)
            return shared(given, key, lambda: self._built(session, build(given)))

    def _left(self, compiling: Future[Program]) -> None:
        self.given_up.add(lambda: not compiling.done())

    def _built(self, session: SparkSession, frame: DataFrame) -> Program:
        refuse_clock(session, frame)
        return self._program(session, frame)

    def _program(self, session: SparkSession, frame: DataFrame) -> Program:
        plan = optimized(frame)
        _, leaf = chain_of(plan)
        before = None
        if (function := function_of(leaf)) is not None:
            before = _FirstPass(self._program(session, frame_of(session, leaf.child())), function)
        return Program(self, compiled(session, frame, plan), before)

    def is_first(self, what: str) -> bool:
        """True if nobody asked for this in this Spark session before: a cold JVM is worth warming up once."""
        with self._lock:
            new = (self.spark.generation, what) not in self._warm
            self._warm.add((self.spark.generation, what))
            return new

    def run(self, program: Program, batch: pa.RecordBatch, bounds: Bounds = UNBOUND) -> pa.RecordBatch:
        """Compute the program's columns for this batch of the columns that it reads. Errors: as `Program.run`."""
        call = _LaneCall(program, batch.num_rows, batch.serialize(), bounds)
        outcome = _Alone() if program.is_slow else self._outcome(call)
        if isinstance(outcome, _Alone):
            outcome = self._alone(call)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _outcome(self, mine: _LaneCall) -> pa.RecordBatch | Exception:
        with self._lock:
            if self._stopped:
                return _stopping()
            turn = _Turn(self._free.pop(), [mine]) if self._free else None
            if turn is None:
                self._waiting.append(mine)
        told = self._told(mine) if turn is None else turn
        return self._taken(told) if isinstance(told, _Turn) else told

    def _told(self, mine: _LaneCall) -> pa.RecordBatch | Exception | _Turn:
        """Wait for the outcome of this call, or for its turn, until its task has to end."""
        while True:
            with contextlib.suppress(TimeoutError):
                return mine.told.result(LOOK_S)
            if mine.bounds.stop.is_set():
                with self._lock:
                    if mine in self._waiting:
                        self._waiting.remove(mine)
                        return StoppedError("the end was asked for while a batch waited for a lane")

    def _alone(self, call: _LaneCall) -> pa.RecordBatch | Exception:
        """Run a call of a slow program in a lane of its own."""
        stop = call.bounds.stop
        with call.program.slow_turns.take(1, stop), self._slow_turns.take(1, stop):
            call.program.is_slow = False  # unless this batch is slow, too
            place = self._place(is_apart=True)
            try:
                return self._outcomes(place, [call])[0]
            finally:
                place.close()

    def _place(self, is_apart: bool = False) -> _LanePlace:
        return _LanePlace(str(next(self._names)), is_apart=is_apart)

    def _look(self, place: _LanePlace, calls: list[_LaneCall], looks: int) -> None:
        """Give the others a new place after a second without an answer. Errors: those that end the wait."""
        first = calls[0]
        first.program.is_slow |= looks >= SLOW_LOOKS
        if len(calls) > 1 and looks >= ALONE_LOOKS:
            raise _Alone
        if looks == 1 and not place.is_apart:
            with self._lock:
                place.is_apart = self._apart < MOST_APART
                self._apart += place.is_apart
            if place.is_apart:
                self._hand_on(self._place())
        if len(calls) == 1:
            first.bounds.check(looks, batch_of(first.rows))

    def stop(self) -> None:
        """Let the lanes end; no program runs any more."""
        with self._lock:
            self._stopped = True
            for place in self._free:
                place.close()
        self._home.cleanup()

    def _input(self, session: SparkSession, schema: StructType) -> DataFrame:
        """An empty frame of this schema, the same one each time, so that programs made of it are shared."""
        key = (self.spark.generation, schema.json())
        with self._lock:
            known = self._inputs.get(key)
        if known is None:  # the first of a session takes 0.4 s, in which others may use the pool
            made = empty_frame(session, schema)
            with self._lock:
                self._inputs = {one: frame for one, frame in self._inputs.items() if one[0] == key[0]}
                known = self._inputs.setdefault(key, made)
        return known

    def _taken(self, turn: _Turn) -> pa.RecordBatch | Exception:
        """Run these calls through the lane, tell the others' callers, and hand the lane on."""
        outcomes: Sequence[pa.RecordBatch | Exception] = [_interrupted() for _ in turn.calls]
        try:
            outcomes = self._outcomes(turn.place, turn.calls)
            return outcomes[0]
        finally:
            for call, outcome in zip(turn.calls[1:], outcomes[1:], strict=True):
                call.told.set_result(outcome)
            if turn.place.is_apart:
                with self._lock:
                    self._apart -= 1
                turn.place.close()
            else:
                self._hand_on(turn.place)

    def _hand_on(self, place: _LanePlace) -> None:
        with self._lock:
            if self._stopped:
                place.close()
                while self._waiting:
                    self._waiting.pop().told.set_result(_stopping())
            elif not self._waiting:
                self._free.append(place)
            else:
                calls = self._next()
                calls[0].told.set_result(_Turn(place, calls))

    def _next(self) -> list[_LaneCall]:
        """Take the oldest call, and the calls that wait for the same program."""
        first = self._waiting[0]
        taken: list[_LaneCall] = []
        left: list[_LaneCall] = []
        rows = size = 0
        for call in self._waiting:
            if call.program is first.program:
                rows, size = rows + call.rows, size + call.batch.size
            fits = not taken or (rows <= TOGETHER_ROWS and size <= TOGETHER_BYTES)
            (taken if call.program is first.program and fits else left).append(call)
        self._waiting = left
        return taken

    def _outcomes(self, place: _LanePlace, calls: list[_LaneCall]) -> list[pa.RecordBatch | Exception]:
        try:
            with self.spark.using() as session:
                return self._answers(place, self._lane(place, session), calls)
        except Exception as error:
            if isinstance(error, _Alone | TooSlow | StoppedError):
                self._give_up(place)
                return [error for _ in calls]
            if len(calls) == 1:
                return [error]
            if isinstance(error, EngineLost):
                return [EngineLost(str(error)) for _ in calls]
        return [*self._outcomes(place, calls[:1]), *(_Alone() for _ in calls[1:])]  # it is the error of one of them

    def _give_up(self, place: _LanePlace) -> None:
        lane, place.lane = place.lane, None
        if lane is not None:
            lane.give_up()
            self.given_up.add(lane.runs)

    def _lane(self, place: _LanePlace, session: SparkSession) -> Lane:
        generation = self.spark.generation
        if place.lane is not None and not (place.lane.is_usable and place.lane.generation == generation):
            place.close()
        if place.lane is None:
            place.lane = Lane(session, generation, Path(self._home.name), place.name)
        return place.lane

    def _answers(self, place: _LanePlace, lane: Lane, calls: list[_LaneCall]) -> list[pa.RecordBatch | Exception]:
        program = calls[0].program
        if program.generation != lane.generation:
            raise EngineLost("the program was compiled for a Spark session that is gone")
        out = lane.run(program.compiled, [call.batch for call in calls], partial(self._look, place, calls))
        if out.num_rows != sum(call.rows for call in calls):
            raise ValueError(f"the program gave {out.num_rows} rows for {sum(call.rows for call in calls)}")
        with self._lock:
            self.batches += 1
            self.rows += 0 if program.goes_on else out.num_rows
        begins = itertools.accumulate((call.rows for call in calls), initial=0)
        return [out.slice(begin, call.rows) for begin, call in zip(begins, calls, strict=False)]


class _Alone(Exception):
    """A batch has to run alone: a batch that ran together with it was slow, and may never end, or failed."""


def batch_of(rows: int) -> str:
    """Describe a batch for errors."""
    return "a batch of one record" if rows == 1 else f"a batch of {rows:,} records"


def _interrupted() -> EngineLost:
    return EngineLost("who took it along was interrupted")


def _stopping() -> EngineLost:
    return EngineLost("the worker is stopping")
