"""Transforms and predicates over records: a method called once for each record, between the expressions of a batch.

Decided: the methods are `change` and `matches`, because `apply` and `test` are the contract's, which get batches. A
transform gives one record for each, since a record's place in its batch is its place in its partition; loses: a record
that becomes several.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.plugins.contracts import Predicate, Transform
from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction
from headrace.plugins.record_api.calls import ANSWER, APPLIES, Changes, Matches, Schemas, answer_of, called
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.settings import WithSettings
from headrace.plugins.records import TRANSFORMATION, Records, error

MATCHES: Final = "_matches"
"""Column of what a predicate over records answered; for the next transform alone."""


class RecordTransform(WithSettings, Transform):
    """A transform whose `change` is called for each record.

        class Upper(RecordTransform):
            settings = [Setting("field")]

            def change(self, record):
                record.value[self.config["field"]] = record.value[self.config["field"]].upper()
                return record

    A value keeps its schema and has to fit it; `value_schema` declares another one. A text, bytes or a tombstone that
    becomes something else is what it is, a dict JSON without schema. An error fails the record; after a RetriableError
    the batch is tried again. Several tasks, threads and processes have objects of their own.
    """

    value_schema: ClassVar[Any] = None
    """Schema of the values, as `schema_of` takes it; None: the schema that the value had."""
    key_schema: ClassVar[Any] = None
    """As `value_schema`, of keys."""

    @abstractmethod
    def change(self, record: Record) -> Record | None:
        """Return the record changed, or another one; None: it is left out."""

    # -- the contract's side -------------------------------------------------------------------------------------------

    def configure(self, config: Mapping[str, str]) -> None:
        """Parse the settings. Errors: ConfigError with all problems."""
        self.take(config)
        self._kept: list[ArrowFunction] = []

    def apply(self, records: Records) -> Records:
        """Return the records as `change` gives them."""
        keys, values = Schemas.of(records.keys, self.key_schema), Schemas.of(records.values, self.value_schema)
        alive = F.col("error").isNull() & ~F.col("drop")
        given = records.frame.withColumn(APPLIES, alive if records.applies is None else alive & records.applies)
        answer = answer_of(keys, values)
        frame, function = called(given, answer, Changes(self, keys, values, answer))
        self._kept = [*self._kept[-8:], function]
        made, ran = F.col(ANSWER), F.col(ANSWER).isNotNull()
        columns = {name: F.when(ran, made.getField(name)).otherwise(_own(records, name)) for name in answer.names[2:]}
        failed = error(TRANSFORMATION, records.by, made.getField("failure"))
        columns["topic"] = F.coalesce(columns["topic"], F.col("topic"))
        columns["error"] = F.coalesce(F.when(ran, failed), F.col("error"))
        columns["drop"] = F.col("drop") | F.coalesce(made.getField("dropped"), F.lit(False))
        others = [F.col(f"`{name}`") for name in records.frame.columns if name not in columns]
        changed = frame.select(*others, *(column.alias(name) for name, column in columns.items()))
        return replace(records, frame=changed, keys=keys.after, values=values.after)


class RecordPredicate(WithSettings, Predicate):
    """A predicate whose `matches` is called for each record."""

    @abstractmethod
    def matches(self, record: Record) -> bool:
        """Return True for a record to which the transform applies. An error fails the record."""

    # -- the contract's side -------------------------------------------------------------------------------------------

    def configure(self, config: Mapping[str, str]) -> None:
        """Parse the settings. Errors: ConfigError with all problems."""
        self.take(config)
        self._kept: list[ArrowFunction] = []

    def asked(self, records: Records) -> Records:
        """Return the records with the column `MATCHES`; called before `test`."""
        given = records.frame.withColumn(APPLIES, F.col("error").isNull() & ~F.col("drop"))
        answer = spark.StructType().add("matches", spark.BooleanType()).add("failure", spark.StringType())
        frame, function = called(given, answer, Matches(self, records.keys, records.values))
        self._kept = [*self._kept[-8:], function]
        told = records.with_frame(frame.drop(APPLIES).withColumnRenamed(ANSWER, MATCHES))
        return told.changed(message=F.col(MATCHES).getField("failure"))

    def test(self, records: Records) -> Column:
        """Return what `matches` answered."""
        return F.col(MATCHES).getField("matches")


def _own(records: Records, name: str) -> Column:
    return F.col(name) if name in records.frame.columns else F.lit(None)
