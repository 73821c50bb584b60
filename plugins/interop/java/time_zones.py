"""Java's rules of time zones, and its reading of times with an offset, called from expressions."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.catalyst.java_calls import JavaCalls, java_calls
from headrace.plugins.interop.catalyst.spark_internals import active_context, jvm_of

_TIME: Final = "java.time."
_RULES: Final = "java.time.zone.ZoneRules"


class Zone:
    """A time zone of Java's, by its id or an offset as +01:00."""

    def __init__(self, zone: str) -> None:
        """Look the zone up. Errors: `JAVA_ERRORS` if Java does not know it."""
        self._java: JavaCalls = java_calls()
        rules = jvm_of(active_context()).java.time.ZoneId.of(zone).getRules()
        self.is_fixed: bool = rules.isFixedOffset()
        """True if its offset never changes."""
        self._rules = self._java.constant(rules, _RULES)

    def offset_s_at(self, epoch_s: Column) -> Column:
        """Return the offset at this time, in seconds."""
        instant = self._static("Instant", "ofEpochSecond", self._java.value(epoch_s))
        return self._seconds(self._offset(instant))

    def offset_s_of_local(self, local_s: Column) -> Column:
        """Return the offset at this time of the zone's own clocks, which is in seconds as if it were UTC's."""
        utc = self._java.constant(jvm_of(active_context()).java.time.ZoneOffset.UTC, f"{_TIME}ZoneOffset")
        nano = self._java.value(F.lit(0))
        local = self._static("LocalDateTime", "ofEpochSecond", self._java.value(local_s), nano, utc)
        return self._seconds(self._offset(local))

    def same_instant(self, text: Column) -> Column:
        """Return an ISO date and time at the zone's offset for its own clock; null if the text is none."""
        given = self._static("OffsetDateTime", "parse", self._as_chars(text))
        local = self._java.call(given, "toLocalDateTime", f"{_TIME}LocalDateTime")
        moved = self._java.call(given, "withOffsetSameInstant", f"{_TIME}OffsetDateTime", self._offset(local))
        return self._printed(moved)

    def same_time(self, text: Column) -> Column:
        """Return an ISO time of day at the zone's offset, which has to be fixed; null if the text is none."""
        given = self._static("OffsetTime", "parse", self._as_chars(text))
        epoch = self._static("Instant", "ofEpochSecond", self._java.value(F.lit(0).cast("long")))
        return self._printed(self._java.call(given, "withOffsetSameInstant", f"{_TIME}OffsetTime", self._offset(epoch)))

    def _as_chars(self, text: Column) -> Any:
        return self._java.string(text)

    def _offset(self, at: Any) -> Any:
        return self._java.call(self._rules, "getOffset", f"{_TIME}ZoneOffset", at)

    def _seconds(self, offset: Any) -> Column:
        return self._java.column(self._java.call(offset, "getTotalSeconds", "int"))

    def _static(self, name: str, method: str, *arguments: Any) -> Any:
        return self._java.static(f"{_TIME}{name}", method, self._java.type(f"{_TIME}{name}"), *arguments)

    def _printed(self, time: Any) -> Column:
        """Return the text of a time as DateTimeFormatter's ISO forms: with seconds, the fraction as short as it is."""
        text = self._java.text(self._java.attempt(self._java.call(time, "toString", "java.lang.String")))
        seconds = F.regexp_replace(text, r"(\A|T)([0-9]{2}:[0-9]{2})(?=[Z+\-])", "$1$2:00")
        return F.regexp_replace(seconds, r"(\.[0-9]*?)0+(?=[Z+\-])", "$1")
