"""The settings of a record's directory."""

from __future__ import annotations

from typing import Final

from headrace.config.setting_group import HIGH, LONG, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Offer, Setting, Settings, Type
from headrace.config.time_zones import ZONE
from headrace.config.validators import ListOf

_CONFLUENTS: Final = "io.confluent.connect.storage.partitioner."
PARTITIONER: Final = "partitioner.class"
PARTITIONERS: Final = tuple(
    f"{_CONFLUENTS}{name}Partitioner" for name in ("Default", "Field", "TimeBased", "Daily", "Hourly")
)
EXTRACTORS: Final = ("Wallclock", "Record", "RecordField")


def partition_settings(group: SettingGroup) -> tuple[Setting, ...]:
    """The settings of Confluent's partitioners."""
    return (
        group(
            PARTITIONER,
            Type.CLASS,
            PARTITIONERS[0],
            HIGH,
            LONG,
            "Partitioner Class",
            "Which directory of its topic a record goes to: one of Confluent's by its class or short name (Default, "
            "Field, TimeBased, Daily, Hourly), or a Python class of the entry point group headrace.partitioner.",
            dependents=("partition.field.name", "partition.duration.ms", "path.format", "locale", "timezone"),
            recommender=Offer(PARTITIONERS),
            is_plugin=False,
        ),
        group(
            "partition.field.name",
            Type.LIST,
            [],
            MEDIUM,
            MID,
            "Partition Field Name",
            "Field: the fields of the value whose values name the directories, outermost first; a.b is field b of "
            "struct a.",
            ListOf(),
        ),
        group(
            "partition.duration.ms",
            Type.LONG,
            -1,
            MEDIUM,
            SHORT,
            "Partition Duration (ms)",
            "TimeBased: the span of local time that a directory covers, in ms.",
        ),
        group(
            "path.format",
            Type.STRING,
            "",
            MEDIUM,
            LONG,
            "Path Format",
            "TimeBased: how a directory is called, in Joda's letters: 'year'=YYYY/'month'=MM/'day'=dd. With Hive each "
            "part is 'name'=letters.",
        ),
        group(
            "locale",
            Type.STRING,
            "",
            MEDIUM,
            MID,
            "Locale",
            "By time: the language of names of days and months, such as en-US.",
        ),
        group(
            "timezone",
            Type.STRING,
            "",
            MEDIUM,
            MID,
            "Timezone",
            "By time, and for rotate.schedule.interval.ms: the zone of local time, such as UTC or Europe/Berlin.",
            ZONE,
        ),
        group(
            "timestamp.extractor",
            Type.STRING,
            "Wallclock",
            MEDIUM,
            LONG,
            "Timestamp Extractor",
            "By time: the clock when the record is written (Wallclock), the record's timestamp (Record), or a field "
            "of its value (RecordField).",
            recommender=Offer(EXTRACTORS),
        ),
        group(
            "timestamp.field",
            Type.STRING,
            "timestamp",
            MEDIUM,
            MID,
            "Record Field for Timestamp Extractor",
            "RecordField: the field; a.b is field b of struct or map a. A Timestamp, INT32 or INT64 with ms since "
            "1970, or a text with that number or a time by ISO 8601.",
        ),
    )


PARTITIONING: Final = Settings(*partition_settings(SettingGroup("Partitioner")))
