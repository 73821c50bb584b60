"""The settings of Datagen, by their published names."""

from __future__ import annotations

from typing import Final

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import NonEmpty
from headrace.connectors.datagen.quickstarts import QUICKSTARTS

QUICKSTART: Final = "quickstart"
STRING: Final = "schema.string"
FILE: Final = "schema.filename"
KEY_FIELD: Final = "schema.keyfield"

SETTINGS: Final = Settings(
    Setting(
        "kafka.topic",
        Type.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The topic of the records.",
    ),
    Setting(
        "max.interval",
        Type.LONG,
        500,
        importance=Importance.HIGH,
        documentation="The longest pause before a record, in milliseconds. Each pause is drawn from 0 up to this, so "
        "that the mean is half of it. With 0 or less there are no pauses.",
    ),
    Setting(
        "iterations",
        Type.LONG,
        -1,
        importance=Importance.HIGH,
        documentation="The number of records of each task, after which the task ends as FAILED. Endless below 1.",
    ),
    Setting(
        STRING,
        Type.STRING,
        "",
        importance=Importance.HIGH,
        documentation="The Avro schema of the values, a record, with annotations. Lines of // comments are left out.",
    ),
    Setting(
        FILE,
        Type.STRING,
        "",
        importance=Importance.HIGH,
        documentation="A file with such a schema, on each worker, within file.allowed.paths.",
    ),
    Setting(
        KEY_FIELD,
        Type.STRING,
        "",
        importance=Importance.HIGH,
        documentation="The field of the value that is the record's key. If empty, a quickstart has its own, and other "
        "records have the key null.",
    ),
    Setting(
        QUICKSTART,
        Type.STRING,
        "",
        importance=Importance.HIGH,
        documentation="The name, in any case, of a ready schema: " + ", ".join(sorted(QUICKSTARTS)) + ".",
    ),
    Setting(
        "random.seed",
        Type.LONG,
        None,
        importance=Importance.LOW,
        documentation="Tasks with the same number and seed generate the same records. By default it is random; the "
        "stored offsets keep it.",
    ),
)
