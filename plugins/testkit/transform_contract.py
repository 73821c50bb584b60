"""Tests that any transform or predicate must pass; they need the fixture `spark`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import Predicate, Transform
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.transform import RecordPredicate
from headrace.plugins.records import TRANSFORMATION, Records, error
from headrace.plugins.testkit.driving import HOSTILE
from headrace.plugins.testkit.frames import became, expected, frame_records, table_of
from headrace.plugins.testkit.promises import holds, keeping, same

ODD = (
    *(Record(text) for text in HOSTILE),
    *(Record(value) for value in (None, b"", b"\x00\xff", 0, -1.5, True, [], [None, 1], {}, {"a": {"b": [None]}})),
    Record({"a": 1}, key=b"\xff", headers=[("h", None), ("h", b"\xff")], timestamp=0),
)
"""Records that break careless expressions."""


class _OverRecords:
    config: ClassVar[Mapping[str, str]] = {}
    value_schema: ClassVar[Any] = None
    """The schema of the examples' values, as `schema_of` takes it; None: dicts are without a schema."""
    key_schema: ClassVar[Any] = None

    def _framed(self, spark: SparkSession, records: Sequence[Record]) -> Records:
        return frame_records(spark, records, self.key_schema, self.value_schema)


class TransformContract(_OverRecords):
    """Tests that any transform must pass.

    class TestUpper(TransformContract):
        transform = Upper
        config = {"field": "name"}
        examples = [(Record({"name": "a"}), Record({"name": "A"})), (Record({}), "has no field name")]
    """

    transform: ClassVar[type[Transform]]
    examples: ClassVar[Sequence[tuple[Record, Record | str | None]]] = ()
    """Records, and what becomes of each: a record, None (it is filtered out), or a part of its error.

    A topic, partition or timestamp that the record leaves open stays as it was.
    """

    @pytest.fixture
    def made(self) -> Transform:
        """Return the transform, configured."""
        made = self.transform()
        same(made.validate(self.config), [], "the contract's config is valid")
        made.configure(dict(self.config))
        return made

    @pytest.mark.spark
    def test_each_example_becomes_what_it_should(self, spark: SparkSession, made: Transform) -> None:
        holds(self.examples, "a transform has `examples`")
        found = became(made.apply(self._framed(spark, [given for given, _ in self.examples])))
        same(len(found), len(self.examples), "rows stay in place; `drop` filters")
        for offset, ((given, wanted), now) in enumerate(zip(self.examples, found, strict=True)):
            if wanted is None:
                same((now.drop, now.error), (True, None), f"{given} is filtered out")
            elif isinstance(wanted, str):
                holds(wanted in (now.error or ""), f"{given} fails with {wanted!r}", f"found: {now}")
            else:
                same(now, (expected(wanted, given, offset), None, False), f"{given} becomes {wanted}")

    @pytest.mark.spark
    def test_it_never_raises_for_data_and_rows_stay_in_place(self, spark: SparkSession, made: Transform) -> None:
        with keeping("no record makes a transform raise: a bad one has an `error`"):
            found = table_of(made.apply(frame_records(spark, ODD))).column("_offset").to_pylist()
        same(found, list(range(len(ODD))), "rows stay in place, each once and in order")

    @pytest.mark.spark
    def test_what_failed_or_was_filtered_before_stays_so(self, spark: SparkSession, made: Transform) -> None:
        records = self._framed(spark, [given for given, _ in self.examples] * 2)
        count = len(self.examples)
        failed = error(TRANSFORMATION, "Before", F.when(F.col("offset") < count, F.lit("bad before")))
        frame = records.frame.withColumns({"error": failed, "drop": F.col("offset") >= count})
        found = became(made.apply(records.with_frame(frame)))
        promise = "a record that failed or was filtered before stays so"
        same([one.error for one in found[:count]], ["bad before"] * count, promise)
        same([(one.drop, one.error) for one in found[count:]], [(True, None)] * count, promise)

    @pytest.mark.spark
    def test_a_record_that_its_predicate_leaves_out_is_as_it_was(self, spark: SparkSession, made: Transform) -> None:
        records = self._framed(spark, [given for given, _ in self.examples])
        before = became(records)
        found = became(made.apply(replace(records, applies=F.col("offset") < 0)))
        same(found, before, "a record for which the predicate is false is as it was (`Records.changed` sees to it)")


class PredicateContract(_OverRecords):
    """Tests that any predicate must pass: `selected` are records that it selects, `others` are not."""

    predicate: ClassVar[type[Predicate]]
    selected: ClassVar[Sequence[Record]] = ()
    others: ClassVar[Sequence[Record]] = ()

    @pytest.fixture
    def made(self) -> Predicate:
        """Return the predicate, configured."""
        made = self.predicate()
        made.configure(dict(self.config))
        return made

    @pytest.mark.spark
    def test_it_selects_the_right_records(self, spark: SparkSession, made: Predicate) -> None:
        holds(self.selected and self.others, "a predicate has examples in `selected` and in `others`")
        examples = [*self.selected, *self.others]
        found = _tested(self._framed(spark, examples), made)
        for number, (record, now) in enumerate(zip(examples, found, strict=True)):
            same(
                now, number < len(self.selected), f"{record} is {'' if number < len(self.selected) else 'not '}selected"
            )

    @pytest.mark.spark
    def test_it_is_true_or_false_for_any_record(self, spark: SparkSession, made: Predicate) -> None:
        with keeping("no record makes a predicate raise"):
            found = _tested(frame_records(spark, ODD), made)
        unsure = [record for record, now in zip(ODD, found, strict=True) if now is None]
        same(unsure, [], "a predicate is true or false, never null")


def _tested(records: Records, predicate: Predicate) -> list[bool | None]:
    asked = predicate.asked(records) if isinstance(predicate, RecordPredicate) else records
    chosen = asked.frame.select(predicate.test(asked).alias("chosen"))
    found: list[bool | None] = chosen.toArrow().column(0).to_pylist()
    return found
