"""TimeBasedPartitioner, DailyPartitioner and HourlyPartitioner: a directory for each span of local time.

A record's time in the time zone is rounded down to a multiple of the span, counted in local time from 1970 on: a day
begins at local midnight, and if clocks are set back the two hours of one name share a directory. The text of a
directory is made once for each distinct one.

Decided: times before 1970 are rounded down, too; loses: Confluent's rounds them up, into the next span.

Decided: a time outside of the years 1 to 9999 is an error of its record, because most such times have other units (s,
µs); loses: directories of the year 50000.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.config.time_zones import zone
from headrace.connectors.hdfs.partition_settings import PARTITIONING
from headrace.connectors.hdfs.partitioners.extractors import extractor_of
from headrace.connectors.hdfs.partitioners.joda_pattern import JodaPattern, Words, words_of
from headrace.connectors.hdfs.partitioners.partitioner import Partitioner
from headrace.plugins.interop.catalyst.spark_internals import active_context, jvm_of
from headrace.plugins.records import Records

_DAY: Final = "'year'=YYYY/'month'=MM/'day'=dd"
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_WANTED: Final = {
    "partition.duration.ms": "a number of ms, such as 3600000",
    "path.format": "a pattern, such as 'year'=YYYY/'month'=MM/'day'=dd",
    "locale": "a language, such as en-US",
    "timezone": "a time zone, such as UTC or Europe/Berlin",
}
_EPOCH: Final = datetime(1970, 1, 1)
_LEAST: Final = -62_135_510_400_000
"""Within the year 1, days after its beginning: it is in that year in every time zone."""
_MOST: Final = 253_402_000_000_000
"""Within the year 9999."""


class TimeBasedPartitioner(Partitioner):
    """A directory for each `partition.duration.ms`, called by `path.format`."""

    _given: ClassVar[tuple[str, ...]] = ("path.format", "locale", "timezone")

    def configure(self, config: Mapping[str, str]) -> None:
        """Reads the span, pattern, zone and extractor. Errors: ConfigError with all problems."""
        values = PARTITIONING.parse(config)
        problems = [_missing(name) for name in self._given if not values[name]]
        self._duration, pattern = self._span(values["partition.duration.ms"], values["path.format"].rstrip("/"))
        if self._duration <= 0:
            problems.append(_missing("partition.duration.ms"))
        try:
            self._pattern = JodaPattern(pattern or "'-'")  # none is named already
        except ValueError as error:
            remedy = "Put text into quotes: 'year'=YYYY/'month'=MM/'day'=dd."
            problems.append(Problem("path.format", pattern, str(error), remedy))
        if problems:
            raise ConfigError(problems)
        self._locale: str = values["locale"]
        self._zone_id: str = values["timezone"]
        self._extractor = extractor_of(values["timestamp.extractor"], values["timestamp.field"])
        self.is_deterministic = self._extractor.is_deterministic
        self.fields: Sequence[str] = _fields(self._pattern)
        if not self.fields and config.get("hive.integration", "").strip().lower() == "true":
            text = "With Hive each directory of the path is a column and needs a name"
            raise ConfigError(Problem("path.format", pattern, text, "Have it as 'year'=YYYY/'month'=MM."))
        self._words: Words | None = None

    def _span(self, duration_ms: int, path_format: str) -> tuple[int, str]:
        return duration_ms, path_format

    @property
    def _zone(self) -> tzinfo:
        return zone(self._zone_id)

    def column(self, records: Records) -> Column:
        """The local time at which the record's directory begins, in ms."""
        if self._words is None and self._pattern.needs_words:
            self._words = words_of(jvm_of(active_context()), self._locale)
        local = self._local(self._extractor.ms(records))
        return local - F.pmod(local, F.lit(self._duration))

    def error(self, records: Records) -> Column:
        """The reason why a record has no usable time."""
        ms = self._extractor.ms(records)
        far = F.concat(F.lit("The time "), ms.cast("string"), F.lit(" ms is not in the years 1 to 9999."))
        return F.when(ms.isNull(), self._extractor.error(records)).when(~ms.between(_LEAST, _MOST), far)

    def time(self, records: Records) -> Column | None:
        """The record's own time; None if the clock is its time."""
        return self._extractor.ms(records) if self.is_deterministic else None

    def paths(self, distinct: pa.Array) -> pa.Array:
        """The directories that begin at these local times."""
        return pa.array([None if ms is None else self._path(ms) for ms in distinct.to_pylist()], pa.string())

    def _local(self, ms: Column) -> Column:
        ms = F.when(ms.between(_LEAST, _MOST), ms)
        if (fixed := _fixed_offset_ms(self._zone)) is not None:
            return ms + F.lit(fixed)
        return F.unix_millis(F.from_utc_timestamp(F.timestamp_millis(ms), self._zone_id))

    def _path(self, local_ms: int) -> str:
        return self._pattern.text(_moment(local_ms, self._zone), self._zone_id, self._words)


class DailyPartitioner(TimeBasedPartitioner):
    """The directory `year=2026/month=09/day=21`; ignores `path.format` and `partition.duration.ms`."""

    _given: ClassVar[tuple[str, ...]] = ("locale", "timezone")

    def _span(self, duration_ms: int, path_format: str) -> tuple[int, str]:
        return _DAY_MS, _DAY


class HourlyPartitioner(DailyPartitioner):
    """The directory `year=2026/month=09/day=21/hour=14`."""

    def _span(self, duration_ms: int, path_format: str) -> tuple[int, str]:
        return _HOUR_MS, f"{_DAY}/'hour'=HH"


def _missing(name: str) -> Problem:
    return Problem(name, None, f"A partitioner by time needs {name}", f"Set {name} to {_WANTED[name]}.")


def _fields(pattern: JodaPattern) -> tuple[str, ...]:
    """The names, if all directories are called `name=…`; empty if a directory is not."""
    names = []
    for part in pattern.parts:
        name, equals, _ = part[0][1].partition("=") if part and part[0][0] else ("", "", "")
        if not name or not equals:
            return ()
        names.append(name)
    return tuple(names)


def _fixed_offset_ms(found: tzinfo) -> int | None:
    """The offset of a zone whose offset never changes; None for other zones."""
    offset = found.utcoffset(None)
    return None if offset is None else offset // timedelta(milliseconds=1)


def _moment(local_ms: int, found: tzinfo) -> datetime:
    """The moment of a local time, as Joda chooses it when clocks are set: a skipped one is later.

    Source: the rule of Joda's `DateTimeZone.convertLocalToUTC` that is not strict.
    """
    local = _EPOCH + timedelta(milliseconds=local_ms)
    first = _offset_at(local, found)
    offset = _offset_at(local - first, found)
    if first != offset and first < timedelta(0) and _offset_at(local - offset, found) != offset:
        offset = first
    return (local - offset).replace(tzinfo=UTC).astimezone(found)


def _offset_at(utc: datetime, found: tzinfo) -> timedelta:
    offset = utc.replace(tzinfo=UTC).astimezone(found).utcoffset()
    assert offset is not None
    return offset
