"""FieldPartitioner: a directory for each combination of fields' values, `country=DE/city=Ulm`.

Decided: values are escaped as Hive does (`%2F` for a slash) and an empty text is Hive's `__HIVE_DEFAULT_PARTITION__`,
because a value with a slash would make further directories, and one with `..` leave the topic's; loses: Confluent's
writes them as they are. A null stays Confluent's `name=null`.

Decided: a Date is `2026-09-21`; Confluent's fails of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.hdfs.partition_settings import PARTITIONING
from headrace.connectors.hdfs.partitioners.partitioner import Partitioner
from headrace.connectors.hdfs.partitioners.record_fields import FoundField, chosen, field_cases, refusals
from headrace.plugins.interop.catalyst.java_calls import java_calls
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.json_members import string_of
from headrace.plugins.records import Records
from headrace.plugins.schema import DATE, INTEGER_BITS, Schema, SchemaType, logical

_NAMES: Final = "partition.field.name"
_SPECIAL: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 0x20)}
_HIVES_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_LONGEST: Final = 255
"""The most bytes in the name of a directory, in HDFS and on most disks."""
_PLAIN_JSON: Final = r"^(?:-?[0-9]+|true|false)\z"
_MISSING: Final = "Error encoding partition. Field '{}' is not present in the value."
_NO_VALUE: Final = "Error encoding partition. The record has no value."
_WRONG: Final = (
    "Error encoding partition. Field '{}' is of type {}; integers, booleans, texts and dates can name a directory."
)


def escaped(text: Column) -> Column:
    """A text as a part of a path, escaped as by Hive."""
    java = java_calls()
    whole = java.as_hive_directory(java.string(text))
    return F.when(text == "", F.lit(_HIVES_NULL)).otherwise(whole)


def escaped_name(name: str) -> str:
    """A constant, escaped as by `escaped`."""
    return "".join(f"%{ord(sign):02X}" if sign in _SPECIAL else sign for sign in name)


class FieldPartitioner(Partitioner):
    """The directory `name=value` for each field, the first outermost."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Reads the names of the fields. Errors: ConfigError."""
        self.fields: Sequence[str] = tuple(PARTITIONING.parse(config)[_NAMES])
        if not self.fields:
            text = "FieldPartitioner needs the names of fields"
            raise ConfigError(Problem(_NAMES, config.get(_NAMES), text, "Name one or more, separated by commas."))

    def column(self, records: Records) -> Column:
        """The path; null if a part of it is."""
        path, *others = (_part(records, name) for name in self.fields)
        for part in others:
            path = F.concat(path, F.lit("/"), part)
        return path

    def error(self, records: Records) -> Column:
        """The reason why the first unfit field cannot name a directory."""
        return F.coalesce(*(_error(records, name) for name in self.fields))


def _part(records: Records, name: str) -> Column:
    cases = [(case.holds, _text(case)) for case in field_cases(records, name) if case.refusal is None]
    part = F.concat(F.lit(f"{escaped_name(name)}="), chosen(cases, "string"))
    return F.when(F.octet_length(part) <= _LONGEST, part)


def _error(records: Records, name: str) -> Column:
    cases = list(field_cases(records, name))
    long = f"Error encoding partition. The value of field '{name}' is longer than {_LONGEST} bytes."

    def reason(case: FoundField) -> Column:
        why = F.when(_text(case).isNotNull(), F.lit(long)).otherwise(F.lit(_WRONG.format(name, _kind(case))))
        if case.missing is None:
            return why
        return F.when(case.value.isNull() & case.missing, F.lit(_MISSING.format(name))).otherwise(why)

    why = F.coalesce(chosen(refusals(cases, reason), "string"), F.lit(_NO_VALUE))
    return F.when(_part(records, name).isNull(), why)


def _text(case: FoundField) -> Column:
    """The value's text in a directory's name; null if it cannot name one, or is missing."""
    text = _text_of(case.value, case.schema)
    return text if case.missing is None else F.when(case.value.isNotNull() | ~case.missing, text)


def _text_of(value: Column, schema: Schema | None) -> Column:
    if schema is None:
        return let(value, _text_of_json)
    if logical(schema) == DATE or (
        logical(schema) is None and (schema.type in INTEGER_BITS or schema.type is SchemaType.BOOLEAN)
    ):
        text = value.cast("string")
    elif schema.type is SchemaType.STRING:
        text = escaped(value)
    else:
        return F.lit(None).cast("string")
    return F.coalesce(text, F.lit("null"))


def _text_of_json(json: Column) -> Column:
    plain = F.when(json.rlike(_PLAIN_JSON), json)
    return F.when(json.isNull(), F.lit("null")).otherwise(F.coalesce(let(string_of(json), escaped), plain))


def _kind(case: FoundField) -> str:
    if case.schema is None:
        return "number with a fraction, array or object"
    return (logical(case.schema) or case.schema.type.name).rpartition(".")[2]
