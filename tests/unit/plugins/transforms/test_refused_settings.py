"""Settings that transforms of fields and of schemas refuse before any record, and the words of the refusals."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.config.problems import ConfigError
from headrace.plugins.contracts import Transform
from headrace.plugins.schema import DECIMAL, Schema, SchemaType
from headrace.plugins.transforms.cast import CastValue
from headrace.plugins.transforms.insert_field import InsertFieldValue
from headrace.plugins.transforms.mask_field import MaskFieldValue, replacement
from headrace.plugins.transforms.new_record_state import ExtractNewRecordState
from headrace.plugins.transforms.replace_field import ReplaceFieldValue, split_pair
from headrace.plugins.transforms.schema_metadata import SetSchemaMetadataValue
from headrace.plugins.transforms.timestamp_converter import TimestampConverterValue
from headrace.plugins.transforms.topic_extraction import MessageTimestampRouter

SUPPORTED = "supported types are [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING]"
ENUM = "java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type."


@pytest.mark.parametrize(
    ("transform", "settings", "key", "message"),
    [
        (CastValue, {"spec": ""}, "spec", "Must specify at least one field to cast."),
        (
            CastValue,
            {"spec": "a:foo"},
            "spec",
            f"Invalid value {ENUM}FOO for configuration Invalid type found in casting spec: foo",
        ),
        (
            CastValue,
            {"spec": ":"},
            "spec",
            f"Invalid value {ENUM} for configuration Invalid type found in casting spec: ",
        ),
        (CastValue, {"spec": "a:map"}, "spec", f"Cast transformation does not support casting to MAP; {SUPPORTED}"),
        (
            CastValue,
            {"spec": "a:b:c"},
            "spec",
            "Invalid value [a:b:c] for configuration renames: Invalid rename mapping: a:b:c",
        ),
        (
            MessageTimestampRouter,
            {"message.timestamp.keys": "at", "message.timestamp.format": "", "topic.timestamp.format": "yyyy"},
            "message.timestamp.format",
            "Invalid value  for configuration message.timestamp.format: String must be non-empty",
        ),
        (InsertFieldValue, {"static.value": "x"}, "topic.field", "No field insertion configured"),
        (
            InsertFieldValue,
            {"static.field": "f!"},
            "static.value",
            "Invalid value null for configuration static.value: No value specified for static field: f",
        ),
        (
            MaskFieldValue,
            {"fields": ""},
            "fields",
            "Configuration 'fields' must not be empty. Valid values include: any non-empty value",
        ),
        (
            MaskFieldValue,
            {"fields": "a", "replacement": " "},
            "replacement",
            "Invalid value  for configuration replacement: String must be non-empty",
        ),
        (
            ReplaceFieldValue,
            {"renames": "a:b,c:"},
            "renames",
            "Invalid value [a:b, c:] for configuration renames: Invalid rename mapping: c:",
        ),
        (ReplaceFieldValue, {"include": "a,"}, "include", "Configuration 'include' values must not be empty."),
        (SetSchemaMetadataValue, {}, "schema.name", "Neither schema name nor version configured"),
    ],
)
def test_apaches_words(transform: type[Transform], settings: dict[str, str], key: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        transform().configure(settings)
    assert [(problem.key, problem.message) for problem in refused.value.problems] == [(key, message)]


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        (
            {"delete.tombstone.handling.mode": "keep"},
            "delete.tombstone.handling.mode",
            "Invalid value keep for configuration delete.tombstone.handling.mode: Value must be one of drop, "
            "tombstone, rewrite, rewrite-with-tombstone, delete-to-tombstone",
        ),
        (
            {"add.fields": "a:b:c"},
            "add.fields",
            "Invalid value [a:b:c] for configuration add.fields: Unexpected field name: a:b:c",
        ),
        (
            {"add.headers": "op,."},
            "add.headers",
            "Invalid value [op, .] for configuration add.headers: No field is named: .",
        ),
        (
            {"drop.fields.header.name": "gone"},
            "drop.fields.header.name",
            "Invalid value gone for configuration drop.fields.header.name: Fields to drop that a header names would "
            "give every record a schema of its own: leave it empty, and name the fields in 'exclude' of ReplaceField, "
            "after this transform",
        ),
    ],
)
def test_what_debeziums_transform_cannot_do_is_refused(settings: dict[str, str], key: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ExtractNewRecordState().configure(settings)
    assert [(problem.key, problem.message) for problem in refused.value.problems] == [(key, message)]


@pytest.mark.parametrize("target", ["string", "unix"])
@pytest.mark.parametrize("pattern", ["yyyy-'W'ww", "EEEE", "G yyyy", "F"])
def test_a_format_of_rare_letters_is_taken(pattern: str, target: str) -> None:
    TimestampConverterValue().configure({"target.type": target, "format": pattern})


@pytest.mark.parametrize(
    ("text", "scale", "wanted"),
    [
        ("9" * 38, 0, Decimal("9" * 38)),
        ("1e38", 0, None),
        ("9" * 36 + ".99", 2, Decimal("9" * 36 + ".99")),
        ("0e99", 2, Decimal("0.00")),
        ("1.005", 2, None),
        ("1e999999999", 2, None),
    ],
)
def test_decimals_in_the_place_of_masked_ones(text: str, scale: int, wanted: Decimal | None) -> None:
    schema = Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": str(scale)})
    assert replacement(text, schema) == wanted


@pytest.mark.parametrize(
    ("text", "parts"), [("a:b", ["a", "b"]), ("a:", ["a"]), (":b", ["", "b"]), (":", []), ("a::", ["a"]), ("", [])]
)
def test_pairs_are_split_as_java_splits(text: str, parts: list[str]) -> None:
    assert split_pair(text) == parts
