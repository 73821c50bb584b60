"""A sink's rows decoded inline, by as many programs as their schemas need.

The identity of a schema, its name in the bytes, is met in the rows themselves. A program marks identities that it was
not compiled with as unknown; these are resolved, and their rows go through the program that knows them.

Decided: a program knows a few schemas, and a batch of more goes through several programs, each with its own rows, which
are put back in order afterwards; because a program's compilation and its work for each row grow with its schemas
(measured on two busy cores, 10,000 rows of 200 text schemas: 1.0 s a batch in one program, 0.3 s in 13 of 16 schemas),
and the next schema met would compile it all anew. Loses: a row of the second program is looked at by the first, too.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.conversion.decode import LOOK, ConverterBinding
from headrace.plugins.interop.conversion.kafka_rows import KAFKA_ROW
from headrace.plugins.offsets import PartitionResult, Stop
from headrace.worker.engine.inline import Program
from headrace.worker.engine.plan_cache import CachedPlan
from headrace.worker.engine.programs import JobProgram
from headrace.worker.pipeline.partition_gate import unknown_of
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.sink_expressions import SinkExpressions

log = logging.getLogger(__name__)

SCHEMAS = 16
"""The most schemas of keys, and of values, in one program."""
PROGRAMS = 64
"""The number of programs kept; those used longest ago are compiled again when needed."""
ASKED_AGAIN_S = 30.0
"""A schema that could not be read is looked up again after this time, if it is met."""
_MOST_REST = 10_000
_REST = -1
"""The slice of a side for its `rest`."""


class ProgramKey(NamedTuple):
    """A program, by the slices of known key and value schemas that it was compiled with."""

    key: int
    value: int


class CachedProgram(NamedTuple):
    """A program, and the sides and slices that it was made of."""

    sides: tuple[ConverterBinding, ConverterBinding]
    parts: tuple[ConverterBinding, ConverterBinding]
    program: Program | JobProgram

    def is_of(self, key: ConverterBinding, value: ConverterBinding) -> bool:
        """True if these very objects are the sides that it was last checked against."""
        return self.sides[0] is key and self.sides[1] is value


class Decoding:
    """The schemas that a sink task knows of its topics, and the programs made of them; for one thread."""

    def __init__(
        self,
        scope: TaskScope,
        expressions: SinkExpressions,
        key: ConverterBinding,
        value: ConverterBinding,
    ) -> None:
        self._scope = scope
        self._expressions = expressions
        self._sides = {"key": key, "value": value}
        self._place: dict[str, dict[bytes, int]] = {name: _places(side) for name, side in self._sides.items()}
        self._begun = dict(self._sides)
        self._programs: OrderedDict[ProgramKey, CachedProgram] = OrderedDict()
        self._cached_plan: tuple[ConverterBinding, ConverterBinding, CachedPlan] | None = None
        self._asked_s = time.monotonic()
        self._usual = ProgramKey(0, 0)
        self._several = False

    @property
    def alone(self) -> tuple[ConverterBinding, ConverterBinding] | None:
        """The bindings of the program that decoded the last batch by itself; None if it took several."""
        return None if self._several else self._parts(self._usual)

    def cached_plan(self) -> CachedPlan | None:
        """The plan to decode in a job as the last batch's only program did; None if there were several. Any thread."""
        if (alone := self.alone) is None:
            return None
        key, value = alone
        kept = self._cached_plan
        if kept is None or kept[:2] != alone:  # a job may still use the former one, so it is replaced, not changed
            raw = self._scope.reporting.wants_bytes
            kept = key, value, CachedPlan(partial(self._expressions.decoded, key=key, value=value, raw=raw))
            self._cached_plan = kept
        return kept[2]

    def usual_program(self) -> Program | JobProgram:
        """The program of most rows of the last batch, or the first one needed; compiled now if need be."""
        return self._program(self._usual)

    def run(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Decode the rows in their order; several batches if their columns differ.

        Errors: as `ConverterBinding.learned`.
        """
        self._forget()
        decoded = self._run(rows)
        if self._asked_again(decoded):
            decoded = self._run(rows)
        return decoded

    def _run(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        which = self._usual
        given = self._program(which).run(rows, self._scope.bounds)
        if given["_stop"].null_count == len(given):
            self._several = False
            return [given]
        decoded: list[tuple[pa.Array, pa.RecordBatch]] = []
        handled: dict[ProgramKey, int] = defaultdict(int)
        index, todo = pa.array(range(rows.num_rows), pa.int64()), dict[ProgramKey, pa.Array]()
        while True:
            for then, chosen in self._by_program(given, which):
                its = index.take(chosen)
                if then is None:
                    decoded.append((its, given if len(its) == len(given) else given.take(chosen)))
                    handled[which] += len(its)
                else:
                    todo[then] = pa.concat_arrays([todo[then], its]) if then in todo else its
            if not todo:
                break
            which, index = todo.popitem()
            given = self._program(which).run(rows if len(index) == len(rows) else rows.take(index), self._scope.bounds)
        # The program of the rest calls every row unreadable.
        if usual := [which for which in handled if _REST not in which]:
            self._usual = max(usual, key=lambda which: handled[which])
        self._several = len(handled) > 1 or len(usual) < len(handled)
        return in_order(decoded)

    def learn(self, reached: Iterable[PartitionResult]) -> None:
        """Resolve the schemas that stopped partitions in a job. Errors: as `ConverterBinding.learned`."""
        met = {(*unknown_of(r.reason), r.partition.topic) for r in reached if r.stop is Stop.UNKNOWN and r.partition}
        self._resolve({(side, identity): topic for side, identity, topic in met})
        if any(self._where(self._usual, side, identity) != self._usual for side, identity, _ in met):
            self._several = True  # the job would stop there again

    def _forget(self) -> None:
        """Keep the known schemas within the converter's bounds: new ones may come without end."""
        for name, side in self._sides.items():
            if len(side.known) > max(side.converter.most_schemas, SCHEMAS) or len(side.rest) > _MOST_REST:
                self._sides[name] = self._begun[name]
                self._place[name] = _places(self._begun[name])

    def _asked_again(self, decoded: Sequence[pa.RecordBatch]) -> bool:
        """True if schemas that could not be read now can be."""
        hopeless = any(side.hopeless for side in self._sides.values())
        if not hopeless or time.monotonic() < self._asked_s + ASKED_AGAIN_S:
            return False
        if all(part["_stop"].null_count == len(part) for part in decoded):
            return False
        self._asked_s = time.monotonic()
        before = dict(self._sides)
        for name, side in before.items():
            try:
                self._sides[name] = side.asked_again()
            except RetriableError as error:
                log.info("The schemas of %ss that could not be read cannot be looked up again now: %s", name, error)
            self._place[name] = _places(self._sides[name])
        return any(self._sides[name].known != side.known for name, side in before.items())

    def _by_program(self, given: pa.RecordBatch, which: ProgramKey) -> Iterator[tuple[ProgramKey | None, pa.Array]]:
        """Split the rows into those decoded (None) and those that another program can decode."""
        marks = given["_stop"].dictionary_encode()
        unknown: dict[int, tuple[str, bytes]] = {}
        for number, mark in enumerate(marks.dictionary.to_pylist()):
            if (side := next(iter(json.loads(mark)))) != "error":
                unknown[number] = side, bytes.fromhex(json.loads(mark)[side])
        if not unknown:
            yield None, pa.array(range(given.num_rows), pa.int64())
            return
        known = self._parts(which)
        self._resolve(
            {
                (side, identity): given["_topic"][pc.index(marks.indices, number).as_py()].as_py()
                for number, (side, identity) in unknown.items()
                if self._where(which, side, identity) == which
            }
        )
        targets: dict[ProgramKey | None, list[int | None]] = defaultdict(list)
        for number in range(len(marks.dictionary)):
            then = self._where(which, *unknown[number]) if number in unknown else None
            if then == which and self._parts(which) == known:
                side, identity = unknown[number]
                name = self._sides[side].class_name
                raise ValueError(f"{name} finds no schema for a {side} that begins with {identity[:40]!r}, although it "
                                 "named it so itself; its identify and matches have to agree")  # fmt: skip
            targets[then].append(number)
        targets[None].append(None)
        for then, numbers in targets.items():
            chosen = pc.indices_nonzero(pc.is_in(marks.indices, pa.array(numbers, marks.indices.type)))
            if len(chosen):
                yield then, chosen.cast(pa.int64())

    def _resolve(self, unknown: dict[tuple[str, bytes], str]) -> None:
        for name, side in self._sides.items():
            met = [(identity, topic) for (of, identity), topic in unknown.items() if of == name]
            if met:
                self._sides[name] = side = side.learned(met)
                self._place[name] = _places(side)

    def _where(self, which: ProgramKey, side: str, identity: bytes) -> ProgramKey:
        """The program that knows this identity, and of the other side the same as this one."""
        place = self._place[side].get(identity)
        return which if place is None else which._replace(**{side: place})

    def _parts(self, which: ProgramKey) -> tuple[ConverterBinding, ConverterBinding]:
        return _part(self._sides["key"], which.key), _part(self._sides["value"], which.value)

    def _program(self, which: ProgramKey) -> Program | JobProgram:
        sides, kept = (self._sides["key"], self._sides["value"]), self._programs.get(which)
        if kept is None or not kept.is_of(*sides) or kept.program.generation != self._generation:
            kept = self._programs[which] = CachedProgram(sides, *self._compiled(which, kept))
            if len(self._programs) > PROGRAMS:
                self._programs.popitem(last=False)
        self._programs.move_to_end(which)
        return kept.program

    def _compiled(
        self, which: ProgramKey, kept: CachedProgram | None
    ) -> tuple[tuple[ConverterBinding, ConverterBinding], Program | JobProgram]:
        """Return the slices of a program, and the `kept` program if it was made of equal ones."""
        key, value = parts = self._parts(which)
        if kept is not None and kept.parts == parts and kept.program.generation == self._generation:
            return parts, kept.program
        decoded = partial(self._expressions.decoded, key=key, value=value)
        return parts, self._scope.program(KAFKA_ROW, decoded, self._expressions.expression_key(key, value))

    @property
    def _generation(self) -> int:
        return self._scope.engine.projections.spark.generation


def _places(side: ConverterBinding) -> dict[bytes, int]:
    """The slice of each identity."""
    known = {identity: n // SCHEMAS for n, (identity, _) in enumerate(side.known)}
    return known | {one.identity: n // SCHEMAS for n, one in enumerate(side.hopeless)} | dict.fromkeys(side.rest, _REST)


def _part(side: ConverterBinding, number: int) -> ConverterBinding:
    """Slice `number` of the known schemas; stable as more are appended."""
    if number == _REST:
        return side.of_the_rest()
    begin, end = number * SCHEMAS, (number + 1) * SCHEMAS
    known, hopeless = side.known[begin:end], side.hopeless[begin:end]
    thorough = side.thorough.intersection([LOOK, *(identity for identity, _ in known)])
    return replace(side, known=known, hopeless=hopeless, rest=frozenset(), thorough=thorough)


def in_order(parts: Sequence[tuple[pa.Array, pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """Merge the parts by their rows' positions: one batch, or runs if columns differ."""
    if len(parts) == 1:
        return [parts[0][1]]
    alike: list[tuple[pa.Array, pa.RecordBatch]] = []
    for schema in dict.fromkeys(batch.schema for _, batch in parts):
        of_it = [(positions, batch) for positions, batch in parts if batch.schema == schema]
        positions = pa.concat_arrays([positions for positions, _ in of_it])
        order = pc.sort_indices(positions)
        table = pa.Table.from_batches([batch for _, batch in of_it]).take(order)
        alike.append((positions.take(order), table.combine_chunks().to_batches()[0]))
    if len(alike) == 1:
        return [alike[0][1]]
    owners = pa.concat_arrays([pa.array([number] * len(batch), pa.int32()) for number, (_, batch) in enumerate(alike)])
    owners = owners.take(pc.sort_indices(pa.concat_arrays([positions for positions, _ in alike])))
    runs, taken, begin = pc.run_end_encode(owners), [0] * len(alike), 0
    batches = []
    for owner, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        batches.append(alike[owner][1].slice(taken[owner], end - begin))
        taken[owner], begin = taken[owner] + end - begin, end
    return batches
