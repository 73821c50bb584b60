"""The time of a record, in ms since 1970: the clock, the record's timestamp, or a field of its value.

Joda's own parser of ISO 8601, which is among Spark's jars, reads texts, because then they are read as by Confluent's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.hdfs.partition_settings import EXTRACTORS
from headrace.connectors.hdfs.partitioners.record_fields import FoundField, chosen, field_cases, refusals
from headrace.plugins.interop.catalyst.java_calls import java_calls
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.json_members import long_of, string_of
from headrace.plugins.records import Records
from headrace.plugins.schema import TIMESTAMP, SchemaType, logical

_KEY: Final = "timestamp.extractor"
_DIGITS: Final = r"^-?[0-9]{1,19}\z"
_UNABLE: Final = "Unable to determine timestamp using timestamp.extractor {}: {}"


class Extractor(ABC):
    """Gives records their time; picklable."""

    is_deterministic: ClassVar[bool] = True

    @abstractmethod
    def ms(self, records: Records) -> Column:
        """Return the time of each row; null if `error` tells why there is none."""

    @abstractmethod
    def error(self, records: Records) -> Column:
        """Return the reason why a row with a null `ms` has no time."""


class Wallclock(Extractor):
    """The clock of the machine that writes the record."""

    is_deterministic: ClassVar[bool] = False

    def ms(self, records: Records) -> Column:
        """The present time, for each row: Spark's own `now` would be the time when the expression was compiled."""
        java = java_calls()
        return java.column(java.call(java.new("java.util.Date"), "getTime", "long"))

    def error(self, records: Records) -> Column:
        """No error: the clock always has a time."""
        return F.lit(None).cast("string")


class RecordTime(Extractor):
    """The record's timestamp."""

    def ms(self, records: Records) -> Column:
        """The timestamp; null if there is none, which Kafka writes as -1."""
        return F.when(F.col("timestamp") != -1, F.col("timestamp"))

    def error(self, records: Records) -> Column:
        """The error of a record without timestamp."""
        return F.lit(_UNABLE.format("Record", "the record has no timestamp."))


class RecordField(Extractor):
    """A field of the value: a Timestamp, INT32 or INT64 with ms, or a text with ms or a time by ISO 8601."""

    def __init__(self, field: str) -> None:
        self._field = field

    def ms(self, records: Records) -> Column:
        """The field's time."""
        cases = field_cases(records, self._field)
        return chosen([(case.holds, _ms(case)) for case in cases if case.refusal is None], "long")

    def error(self, records: Records) -> Column:
        """The error of a field that is missing, null or no time."""
        cases = list(field_cases(records, self._field))
        whys = [(holds, self._unable(why)) for holds, why in refusals(cases, self._reason)]
        return F.coalesce(chosen(whys, "string"), self._unable(F.lit("the record has no value.")))

    def _reason(self, case: FoundField) -> Column:
        schema = case.schema
        null = F.lit(f"field '{self._field}' is null or missing.")
        if schema is not None and schema.type is not SchemaType.STRING and not _is_number(case):
            kind = (logical(schema) or schema.type.name).rpartition(".")[2]
            return F.lit(f"field '{self._field}' is of type {kind}, which is no time.")
        wrong = F.concat(F.lit(f"field '{self._field}' holds no time: "), F.left(case.value.cast("string"), F.lit(100)))
        return F.when(case.value.isNull(), null).otherwise(wrong)

    def _unable(self, why: Column) -> Column:
        return F.concat(F.lit(_UNABLE.format("RecordField", "")), why)


def extractor_of(name: str, field: str) -> Extractor:
    """The extractor of this name, or of Confluent's class. Errors: ConfigError."""
    match name.strip().rpartition(".")[2].rpartition("$")[2].removesuffix("TimestampExtractor").lower():
        case "wallclock":
            return Wallclock()
        case "record":
            return RecordTime()
        case "recordfield":
            return RecordField(field)
    remedy = f"Use one of {', '.join(EXTRACTORS)}; a time of another kind needs a partitioner of your own."
    raise ConfigError(Problem(_KEY, name, "No timestamp extractor has this name", remedy))


def _is_number(case: FoundField) -> bool:
    schema = case.schema
    if schema is None or logical(schema) == TIMESTAMP:
        return True
    return logical(schema) is None and schema.type in (SchemaType.INT32, SchemaType.INT64)


def _ms(case: FoundField) -> Column:
    value, schema = case.value, case.schema
    if schema is None:
        return let(value, lambda json: F.coalesce(let(string_of(json), time_of_text), long_of(json)))
    if schema.type is SchemaType.STRING:
        return time_of_text(value)
    if not _is_number(case):
        return F.lit(None).cast("long")
    return F.unix_millis(value) if logical(schema) == TIMESTAMP else value.cast("long")


def time_of_text(text: Column) -> Column:
    """The ms of a text with digits only, or of a time by ISO 8601, in UTC if it names no zone; else null."""
    java = java_calls()
    formatter = "org.joda.time.format.DateTimeFormatter"
    iso = java.static("org.joda.time.format.ISODateTimeFormat", "dateTimeParser", java.type(formatter))
    read = java.call(java.call(iso, "withZoneUTC", formatter), "parseMillis", "long", java.string(text))
    return F.when(text.rlike(_DIGITS), text.try_cast("long")).otherwise(java.column(java.attempt(read)))
