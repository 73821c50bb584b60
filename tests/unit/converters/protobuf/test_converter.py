"""ProtobufConverter's settings and the texts that it registers, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

import pytest

from headrace.config.problems import ConfigError
from headrace.converters.protobuf.converter import ProtobufConverter
from headrace.converters.protobuf.indexes import head_length, indexes_after, indexes_of_bytes
from headrace.converters.protobuf.names import ENUM, TAG, UNION
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import DECIMAL, OPTIONAL_STRING, STRING, TIMESTAMP, Field, Schema, SchemaType
from tests.unit.converters.avro.fake_registry import FakeRegistry, registry_of

T = SchemaType
TEXTS = Schema(T.ARRAY, value_schema=STRING)
THIRD = Schema(T.STRING, parameters={TAG: "3"})


def protobuf(settings: Mapping[str, str] | None = None) -> tuple[ProtobufConverter, FakeRegistry]:
    with patch("headrace.converters.registry.converter.SchemaRegistry", FakeRegistry):
        made = ProtobufConverter()
        made.configure({"converter.type": "value", "schema.registry.url": "http://h:1", **(settings or {})}, False)
    return made, registry_of(made)


def struct(*fields: Field, name: str | None = "M") -> Schema:
    return Schema(T.STRUCT, name=name, fields=fields)


def registered(schema: Schema | None, settings: Mapping[str, str] | None = None) -> str:
    """The text that is registered, or the reason that none is."""
    converter, registry = protobuf(settings)
    converter.learn("t", schema)
    return registry.texts[0] if registry.texts else converter._targets[schema, "t"].refusal or ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("generalized.sum.type.support", "true"),
        ("skip.known.types", "false"),
        ("value.schema.id.serializer", "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"),
        ("value.subject.name.strategy", "com.acme.Mine"),
        ("rule.executors", "x"),
    ],
)
def test_unsupported_settings_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        protobuf({key: value})


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TopicNameStrategy", "t-value"), ("RecordNameStrategy", "a.b.M"), ("TopicRecordNameStrategy", "t-a.b.M")],
)
def test_subjects_are_named_by_the_message(strategy: str, subject: str) -> None:
    converter, registry = protobuf({"value.subject.name.strategy": strategy})
    converter.learn("t", struct(Field("x", STRING), name="a.b.M"))
    assert list(registry.subjects) == [subject]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (None, "values with a schema only"),
        (Schema(T.ARRAY, value_schema=STRING), "ARRAY that is not in a struct"),
        (Schema(T.BYTES, name=DECIMAL, parameters={"scale": "2"}), "Decimal that is not in a struct"),
        (struct(Field("a-b", STRING)), "does not allow the name 'a-b': set scrub.invalid.names=true"),
        (struct(Field("a", Schema(T.ARRAY, value_schema=TEXTS))), "values of type ARRAY inside"),
        (struct(Field("a", Schema(T.MAP, key_schema=STRING, value_schema=TEXTS))), "values of type ARRAY inside"),
        (
            struct(Field("e", Schema(T.STRING, parameters={ENUM: "E", f"{ENUM}.A = 0; }} message X {{": "0"}))),
            "does not allow the symbol 'A = 0; } message X {' of the enum E",
        ),
        (struct(Field("a", THIRD), Field("b", THIRD)), 'Field number 3 has already been used in "M"'),
    ],
)
def test_what_protobuf_cannot_hold_is_refused(schema: Schema | None, told: str) -> None:
    assert told in registered(schema)


def test_names_are_changed_as_asked() -> None:
    text = registered(
        struct(Field("1-a", STRING), Field("_b", STRING), name="p-q.M$x"), {"scrub.invalid.names": "true"}
    )
    assert "package p_q;" in text
    assert "message M_24x {" in text
    assert "string x1_a = 1;" in text
    assert "string x_b = 2;" in text


@pytest.mark.parametrize(
    ("package", "lines"),
    [
        (
            "io.confluent",
            (".confluent.type.Decimal d = 1 [(.confluent.field_meta)", " google.protobuf.Timestamp t = 2"),
        ),
        ("com.google.x", (" confluent.type.Decimal d = 1 [(confluent.field_meta)", ".google.protobuf.Timestamp t = 2")),
        ("confluent", (" confluent.type.Decimal d = 1 [(confluent.field_meta)", " google.protobuf.Timestamp t = 2")),
    ],
)
def test_a_package_does_not_hide_well_known_names(package: str, lines: tuple[str, ...]) -> None:
    decimal = Schema(T.BYTES, name=DECIMAL, parameters={"scale": "2"})
    schema = struct(Field("d", decimal), Field("t", Schema(T.INT64, name=TIMESTAMP)), name=f"{package}.M")
    text = registered(schema)
    assert all(line in text for line in lines), text


def test_unnamed_structs_enums_and_unions() -> None:
    enum = Schema(T.STRING, parameters={ENUM: "a.E", f"{ENUM}.X": "3", f"{ENUM}.Y": "0", f"{ENUM}.Z": "3"})
    union = Schema(T.STRUCT, True, name=f"{UNION}.u", fields=(Field("s", OPTIONAL_STRING), Field("e", enum)))
    text = registered(struct(Field("u_0", union), Field("in", struct(Field("E", STRING), name=None)), name=None))
    assert (
        text
        == """syntax = "proto3";

message ConnectDefault1 {
  oneof u {
    string s = 1;
    E e = 2;
  }
  ConnectDefault2 in = 3;

  enum E {
    option allow_alias = true;
    Y = 0;
    X = 3;
    Z = 3;
  }

  message ConnectDefault2 {
    string E = 1;
  }
}
"""
    )


@pytest.mark.parametrize(
    ("indexes", "data"),
    [([0], b"\x00"), ([1], b"\x02\x02"), ([2, 0, 70], b"\x06\x04\x00\x8c\x01"), ([0, 0], b"\x04\x00\x00")],
)
def test_indexes_are_zigzag_varints(indexes: list[int], data: bytes) -> None:
    assert indexes_after(indexes) == data
    assert (indexes_of_bytes(data + b"more"), head_length(data + b"more")) == (indexes, len(data))
    with pytest.raises(DataError):
        indexes_of_bytes(data[:-1])
