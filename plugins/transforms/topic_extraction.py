"""Confluent's ExtractTopic and MessageTimestampRouter: topics named by what is in the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Importance, Problem, Setting, Settings, Type
from headrace.config.validators import All, Check, ListOf, NonEmpty, OneOf
from headrace.config.values import invalid
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.java.class_names import class_of
from headrace.plugins.interop.java.dates import formatted, parsed_ms, pattern_problem
from headrace.plugins.interop.java.json_members import member, string_of
from headrace.plugins.records import Records
from headrace.plugins.transforms.condition_filter import CONFLUENT_VERSION
from headrace.plugins.transforms.json_path import Child, Path
from headrace.plugins.transforms.json_path import parsed as parsed_path
from headrace.plugins.transforms.json_path_columns import UnfitError, text_at
from headrace.plugins.transforms.key_or_value import only_map
from headrace.plugins.transforms.routing import named_topic, parts_of
from headrace.plugins.transforms.struct_fields import no_object

_PLAIN: Final = "PLAIN"
_JSON_PATH: Final = "JSON_PATH"
_SKIP: Final = Setting(
    "skip.missing.or.null",
    Type.BOOLEAN,
    False,
    None,
    Importance.LOW,
    "What becomes of a record without it: true leaves it in its topic, false fails it.",
)


class ExtractTopic(Transform):
    """Puts records into the topic that a text in their key or value names."""

    is_key: ClassVar[bool]
    settings: ClassVar[Settings] = Settings(
        Setting("field", Type.STRING, "", None, Importance.MEDIUM, "The field of the topic; empty: the whole is it."),
        Setting(
            "field.format",
            Type.STRING,
            _PLAIN,
            OneOf(_PLAIN, _JSON_PATH),
            Importance.MEDIUM,
            "PLAIN: field is a name. JSON_PATH: it is a JSON path to one value.",
        ),
        _SKIP,
    )
    version: ClassVar[str] = CONFLUENT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._field: str = parsed["field"]
        self._skips: bool = parsed["skip.missing.or.null"]
        self._path = Path((Child(self._field),) if self._field else ())
        if parsed["field.format"] == _JSON_PATH:
            self._path = _definite(self._field)

    def apply(self, records: Records) -> Records:
        """Return the records in their topics; a record without a text there fails, or stays where it is."""
        side, schemas = ("key", records.keys) if self.is_key else ("value", records.values)
        index, texts, messages = F.col(f"{side}_schema"), [], []
        what = f"{self._field} of the {side}" if self._field else f"the {side}"
        for number, schema in enumerate(schemas):
            value = records.key(number) if self.is_key else records.value(number)
            try:
                found = text_at(self._path, value, schema)
            except UnfitError:
                kind = "JSON" if schema is None else class_of(schema)
                messages.append(F.when((index == number) & value.isNotNull(), F.lit(f"No topic is named by a {kind}")))
                continue
            texts.append(F.when(index == number, found.getField("text")))
            other = (index == number) & found.getField("other")
            messages.append(F.when(other, F.lit(f"The topic has to be a text: {what} is not")))
        topic = F.coalesce(*texts, F.lit(None).cast("string"))
        if not self._skips:
            messages.append(F.when(topic.isNull(), F.lit(f"There is no topic: {what} is missing or null")))
        message = F.coalesce(*messages) if messages else None
        return records.changed({"topic": F.coalesce(topic, F.col("topic"))}, message=message)


class ExtractTopicKey(ExtractTopic):
    """ExtractTopic from keys."""

    is_key = True


class ExtractTopicValue(ExtractTopic):
    """ExtractTopic from values."""

    is_key = False


class ExtractTopicHeader(Transform):
    """Puts records into the topic that the last header of a key names, by its text in UTF-8."""

    settings: ClassVar[Settings] = Settings(
        Setting("field", Type.STRING, REQUIRED, None, Importance.MEDIUM, "The header's key."),
        Setting("field.format", Type.STRING, _PLAIN, OneOf(_PLAIN), Importance.MEDIUM, "PLAIN: field is a name."),
        _SKIP,
    )
    version: ClassVar[str] = CONFLUENT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._key: str = parsed["field"]
        self._skips: bool = parsed["skip.missing.or.null"]

    def apply(self, records: Records) -> Records:
        """Return the records in their topics; a record without the header fails, or stays where it is."""
        named = F.filter(F.col("headers"), lambda one: one["key"] == F.lit(self._key))
        topic = F.try_element_at(named, F.lit(-1)).getField("value").cast("string")
        why = F.lit(f"There is no topic: the header {self._key} is missing or null")
        message = None if self._skips else F.when(topic.isNull(), why)
        return records.changed({"topic": F.coalesce(topic, F.col("topic"))}, message=message)


def _definite(text: str) -> Path:
    """Parse a path to one value. Errors: ConfigError."""
    try:
        path = parsed_path(text)
    except ValueError as error:
        raise ConfigError(Problem("field", text, invalid("field", text, str(error)), "Correct the path.")) from None
    if not path.is_definite:
        why = invalid("field", text, "A topic's path leads to one value, without * and filters")
        raise ConfigError(Problem("field", text, why, "Name the fields on the way."))
    return path


def _pattern(name: str, value: Any) -> str | None:
    wrong = pattern_problem(value or "")
    return None if wrong is None else invalid(name, value, wrong)


_DATE_FORMAT: Final = Check(_pattern, "a pattern of java.text.SimpleDateFormat")


class MessageTimestampRouter(Transform):
    """Renames topics by their name and a time in the value, which is JSON without schema.

    Decided: the keys and both formats are required, because no defaults are documented; loses: configs that rely on
    some. A message's format is not empty, because by that of SimpleDateFormat every text is the start of 1970.
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
            "message.timestamp.keys",
            Type.LIST,
            REQUIRED,
            ListOf(empty=False),
            Importance.HIGH,
            "The fields that may have the time: the first one that is there counts.",
        ),
        Setting(
            "message.timestamp.format",
            Type.STRING,
            REQUIRED,
            All(NonEmpty(), _DATE_FORMAT),
            Importance.HIGH,
            "How the time is written in the value: a pattern of java.text.SimpleDateFormat, in UTC.",
        ),
        Setting(
            "topic.timestamp.format",
            Type.STRING,
            REQUIRED,
            _DATE_FORMAT,
            Importance.HIGH,
            "How to print the time, which is UTC: a pattern of java.text.SimpleDateFormat.",
        ),
    )
    version: ClassVar[str] = CONFLUENT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._parts = parts_of(parsed["topic.format"])
        self._keys: list[str] = parsed["message.timestamp.keys"]
        self._reads: str = parsed["message.timestamp.format"]
        self._prints: str = parsed["topic.timestamp.format"]

    def apply(self, records: Records) -> Records:
        """Return the records with their new topics; a record without such a time fails."""
        index = F.col("value_schema")
        purpose, time = "message timestamp routing", F.lit(None).cast("long")
        message = only_map(purpose, F.lit("null"))
        for number, schema in enumerate(records.values):
            value, rows = records.value(number), index == number
            if schema is not None:
                found = F.when(value.isNull(), F.lit("null")).otherwise(F.lit(class_of(schema)))
                message = F.when(rows, only_map(purpose, found)).otherwise(message)
                continue
            time = F.coalesce(F.when(rows, self._time(value)), time)
            null = F.when(value.isNull(), only_map(purpose, F.lit("null")))
            message = F.when(rows, F.coalesce(null, no_object(purpose, value), self._unread(value))).otherwise(message)
        topic = named_topic(self._parts, formatted(time, self._prints))
        return records.changed({"topic": F.coalesce(topic, F.col("topic"))}, message=message)

    def _json(self, value: Column) -> Column:
        return F.coalesce(*(member(value, key) for key in self._keys))

    def _time(self, value: Column) -> Column:
        return parsed_ms(string_of(self._json(value)), self._reads)

    def _unread(self, value: Column) -> Column:
        """Return why the value has no time; null if it has one."""
        keys = ", ".join(self._keys)
        missing = F.when(self._json(value).isNull(), F.lit(f"The value has none of the fields {keys}"))
        unread = f"None of the pattern {self._reads} is in the first of the fields {keys} that the value has"
        return F.coalesce(missing, F.when(self._time(value).isNull(), F.lit(unread)))
