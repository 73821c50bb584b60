"""Apache's predicates, which select the records that a transform applies to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import All, Check, NonEmpty
from headrace.plugins.contracts import Predicate
from headrace.plugins.interop.java.regex import JavaRegex, regex_problem
from headrace.plugins.records import Records


class TopicNameMatches(Predicate):
    """Selects records whose topic's whole name matches."""

    settings: ClassVar[Settings] = Settings(
        Setting(
            "pattern",
            Type.STRING,
            REQUIRED,
            All(NonEmpty(), Check(regex_problem, "a regular expression of Java")),
            Importance.MEDIUM,
            "What a topic's whole name has to match.",
        )
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._pattern: str = self.settings.parse(config)["pattern"]

    def test(self, records: Records) -> Column:
        """Test the topic. Errors: ConfigError if Java refuses the regular expression."""
        return F.coalesce(JavaRegex("pattern", self._pattern).matches(F.col("topic")), F.lit(False))


class HasHeaderKey(Predicate):
    """Selects records with a header of this key."""

    settings: ClassVar[Settings] = Settings(
        Setting("name", Type.STRING, REQUIRED, NonEmpty(), Importance.MEDIUM, "The header's key.")
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._name: str = self.settings.parse(config)["name"]

    def test(self, records: Records) -> Column:
        """Test the keys of the headers, including headers with null values."""
        has = F.exists(F.col("headers"), lambda header: header["key"] == self._name)
        return F.coalesce(has, F.lit(False))


class RecordIsTombstone(Predicate):
    """Selects records whose value is null, with or without a schema."""

    settings: ClassVar[Settings] = Settings()
    version: ClassVar[str] = CONNECT_VERSION

    def test(self, records: Records) -> Column:
        """Test the value in the column of the row's own schema."""
        index = F.col("value_schema")
        null = F.when(index.isNull(), F.lit(True))
        for number in range(len(records.values)):
            null = null.when(index == number, records.value(number).isNull())
        return F.coalesce(null, F.lit(False))
