"""Apache's transforms of whole records: routing and filtering."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Importance, Problem, Setting, Settings, Type
from headrace.config.validators import Check
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.java.dates import formatted, pattern_problem
from headrace.plugins.interop.java.regex import JavaRegex, regex_problem
from headrace.plugins.records import Records

_VARIABLE: Final = re.compile(r"(\$\{(?:topic|timestamp)\})")


class RegexRouter(Transform):
    """Renames topics that match `regex` as a whole: their first match becomes `replacement`.

    Errors of records: a replacement that names a group which the expression lacks; in Connect's words.
    """

    settings: ClassVar[Settings] = Settings(
        Setting(
            "regex",
            Type.STRING,
            REQUIRED,
            Check(regex_problem, "a regular expression of Java"),
            Importance.HIGH,
            "What a topic's whole name has to match.",
        ),
        Setting(
            "replacement",
            Type.STRING,
            REQUIRED,
            None,
            Importance.HIGH,
            "What takes the place of the match; $1 and ${name} stand for groups.",
        ),
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._regex: str = parsed["regex"]
        self._replacement: str = parsed["replacement"]

    def apply(self, records: Records) -> Records:
        """Return the records with their new topics. Errors: ConfigError if Java refuses the regular expression."""
        topic, regex = F.col("topic"), JavaRegex("regex", self._regex)
        try:
            return records.changed({"topic": regex.replaced(topic, self._replacement)})
        except ValueError as error:
            return records.changed(message=F.when(regex.matches(topic), F.lit(str(error))))


class TimestampRouter(Transform):
    """Renames topics by their name and the record's timestamp.

    Decided: an invalid pattern is refused with the config, because Connect only finds it with the first record; loses:
    nothing. A record without timestamp is reported by topic, partition and offset, because an error is no place for
    data, though Connect prints the whole record; loses: the rest of it.
    """

    settings: ClassVar[Settings] = Settings(
        Setting(
            "topic.format",
            Type.STRING,
            "${topic}-${timestamp}",
            None,
            Importance.HIGH,
            "The new name, in which ${topic} and ${timestamp} stand for the old one and the time.",
        ),
        Setting(
            "timestamp.format",
            Type.STRING,
            "yyyyMMdd",
            None,
            Importance.HIGH,
            "How to print the time, which is UTC: a pattern of java.text.SimpleDateFormat.",
        ),
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._parts = parts_of(parsed["topic.format"])
        self._pattern: str = parsed["timestamp.format"]
        if (wrong := pattern_problem(self._pattern)) is not None:
            remedy = "Set it to a pattern of java.text.SimpleDateFormat, such as yyyyMMdd."
            raise ConfigError(Problem("timestamp.format", self._pattern, wrong, remedy))

    def apply(self, records: Records) -> Records:
        """Return the records with their new topics; a record without timestamp fails."""
        topic = named_topic(self._parts, formatted(F.col("timestamp"), self._pattern))
        message = F.when(F.col("timestamp").isNull(), _without_timestamp(records))
        return records.changed({"topic": topic}, message=message)


def parts_of(topic_format: str) -> list[str]:
    """Split a format of topics into its variables `${topic}` and `${timestamp}`, and what is between them."""
    return [part for part in _VARIABLE.split(topic_format) if part]


def named_topic(parts: Sequence[str], timestamp: Column) -> Column:
    """Return the topic of these parts, as of `parts_of`; null if the timestamp is null."""
    variables = {"${topic}": F.col("topic"), "${timestamp}": timestamp}
    return F.concat(F.lit(""), *(variables.get(part, F.lit(part)) for part in parts))


def _without_timestamp(records: Records) -> Column:
    place = [F.lit("Timestamp missing on record: topic "), F.col("topic")]
    for name in ("partition", "offset"):
        if name in records.frame.columns:
            place += [F.lit(f", {name} "), F.coalesce(F.col(name).cast("string"), F.lit("null"))]
    return F.concat(*place)


class Filter(Transform):
    """Drops every record that it applies to: give it a predicate."""

    settings: ClassVar[Settings] = Settings()
    version: ClassVar[str] = CONNECT_VERSION

    def apply(self, records: Records) -> Records:
        """Drop all records."""
        return records.changed(drop=F.lit(True))
