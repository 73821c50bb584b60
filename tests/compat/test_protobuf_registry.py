"""ProtobufConverter beside Confluent's Python clients and a real registry: what one writes the other reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2, wrappers_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.converters.bytes import ByteArrayConverter
from headrace.converters.protobuf.compiling import bundle
from headrace.converters.protobuf.converter import ProtobufConverter
from headrace.converters.protobuf.messages import all_messages, file_of, message_at
from headrace.converters.protobuf.names import TYPE
from headrace.converters.registry.confluent import ConfluentSchemas
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.interop.conversion.encode import UNKNOWN_TOPIC, learn_topics, to_bytes
from headrace.plugins.schema import DATE, DECIMAL, OPTIONAL_STRING, STRING, TIMESTAMP, Field, Schema, SchemaType
from tests.spark.converting import configured, kafka_rows, learned, read

pytestmark = [pytest.mark.spark, pytest.mark.long]
T = SchemaType
OTHER = 'syntax = "proto3"; message Place { string town = 1; }'
MAIN = """syntax = "proto3";
import "other.proto";
import "google/protobuf/timestamp.proto";
message First { int32 x = 1; }
message Order {
  message Line { string sku = 1; uint64 count = 2; }
  repeated Line lines = 1;
  map<string, sint64> sizes = 2;
  oneof to { Place place = 3; string mail = 4; }
  google.protobuf.Timestamp at = 5;
  optional bool paid = 6;
}
"""
VALUE = {
    "lines": [{"sku": "a", "count": "7"}],
    "sizes": {"s": "-1"},
    "place": {"town": "ü"},
    "at": "2026-01-02T03:04:05.006Z",
}
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def theirs(registry: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry, "timeout": 30})


def protobuf(registry: str, settings: Mapping[str, str] | None = None) -> ProtobufConverter:
    return configured(ProtobufConverter(), {"schema.registry.url": registry, **(settings or {})})


def rows_of(spark: SparkSession, converter: ProtobufConverter, data: bytes, topic: str) -> list[Any]:
    """The rows that the converter read, written by it again to a topic."""
    key = ConverterBinding(ByteArrayConverter(), "K")
    records, key, value = learned(kafka_rows(spark, [(None, data)]), key, ConverterBinding(converter, "V"))
    records = records.with_frame(records.frame.withColumn("topic", F.lit(topic)))
    met = {row[UNKNOWN_TOPIC] for row in to_bytes(records, key, value).collect()}
    learn_topics([one for one in met if one is not None], records, key, value)
    return to_bytes(records, key, value).collect()


def test_what_their_serializer_wrote_is_read_and_what_we_write_their_deserializer_reads(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    order = message_at(file_of(bundle(MAIN, [("other.proto", OTHER)])), [1])
    kind = GetMessageClass(order)
    data = ProtobufSerializer(kind, theirs, conf={"use.deprecated.format": False})(ParseDict(VALUE, kind()), CONTEXT)
    assert isinstance(data, bytes)
    assert data[5:7] == b"\x02\x02"
    assert [one.name for one in theirs.get_latest_version("orders-value").schema.references or ()] == ["other.proto"]

    converter = protobuf(registry)
    (got,) = read(spark, converter, [data])
    assert got.error is None
    assert got.value.asDict(recursive=True) == {
        "to_0": {"place": {"town": "ü"}, "mail": None},
        "lines": [{"sku": "a", "count": 7}],
        "sizes": {"s": -1},
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 6000),
        "paid": None,
    }
    (row,) = rows_of(spark, converter, data, "copied")
    assert row.error is None
    assert isinstance(converter.schemas, ConfluentSchemas)
    own = all_messages(file_of(converter.schemas.registry.latest("copied-value")[2]))[0]
    assert own.full_name == "Order"
    deserializer = ProtobufDeserializer(GetMessageClass(own), {"use.deprecated.format": False})
    back = MessageToDict(deserializer(bytes(row.value), CONTEXT), preserving_proto_field_name=True)
    assert back == {**VALUE, "paid": False} or back == VALUE


def test_their_generated_classes_go_both_ways(spark: SparkSession, registry: str, theirs: SchemaRegistryClient) -> None:
    converter = protobuf(registry)
    for value in (wrappers_pb2.StringValue(value="x"), timestamp_pb2.Timestamp(seconds=5, nanos=7)):
        topic = type(value).__name__
        context = SerializationContext(topic, MessageField.VALUE)
        data = ProtobufSerializer(type(value), theirs, conf={"use.deprecated.format": False})(value, context)
        assert isinstance(data, bytes)
        (row,) = rows_of(spark, converter, data, f"{topic}-copied")
        assert row.error is None
        deserializer = ProtobufDeserializer(type(value), {"use.deprecated.format": False})
        assert deserializer(bytes(row.value), context) == value


EVENT = Schema(
    T.STRUCT,
    name="acme.Event",
    fields=(
        Field("id", Schema(T.INT64, parameters={TYPE: "uint64"})),
        Field("small", Schema(T.INT16, True)),
        Field("name", OPTIONAL_STRING),
        Field("price", Schema(T.BYTES, True, name=DECIMAL, version=1, parameters={"scale": "2"})),
        Field("day", Schema(T.INT32, True, name=DATE, version=1)),
        Field("at", Schema(T.INT64, True, name=TIMESTAMP, version=1)),
        Field("tags", Schema(T.ARRAY, True, value_schema=STRING)),
        Field("of", Schema(T.MAP, True, key_schema=STRING, value_schema=Schema(T.FLOAT64))),
    ),
)


@pytest.mark.parametrize("setting", [{}, {"optional.for.nullables": "true"}, {"wrapper.for.nullables": "true"}])
def test_the_registry_takes_what_we_register_and_knows_it_again(
    registry: str, theirs: SchemaRegistryClient, setting: Mapping[str, str]
) -> None:
    topic = "-".join(["events", *setting]).replace(".", "-")
    made = protobuf(registry, setting)
    for converter in (made, protobuf(registry, {**setting, "normalize.schemas": "true"})):
        converter.learn(topic, EVENT)
        assert converter._targets[EVENT, topic].refusal is None
    assert theirs.get_versions(f"{topic}-value") == [1]
    ours = file_of(made._asked[EVENT, topic].text).serialized_pb
    assert file_of(theirs.get_latest_version(f"{topic}-value").schema.schema_str or "").serialized_pb == ours


def test_an_incompatible_schema_is_refused_and_a_latest_one_is_checked(
    registry: str, theirs: SchemaRegistryClient
) -> None:
    converter = protobuf(registry)
    converter.learn("grow", EVENT)
    other = Schema(T.STRUCT, name="acme.Event", fields=(Field("id", STRING),))
    converter.learn("grow", other)
    refused = converter._targets[other, "grow"].refusal
    assert refused is not None
    assert "incompatible" in refused.lower()
    latest = protobuf(registry, {"auto.register.schemas": "false", "use.latest.version": "true"})
    latest.learn("grow", other)
    told = latest._targets[other, "grow"].refusal
    assert told is not None
    assert "the type of the field acme.Event.id changed" in told
    asking = ProtobufConverter()
    asking.only_asks = True
    configured(asking, {"schema.registry.url": registry})
    asking.learn("grow-never", EVENT)
    known = asking.registered("grow-never", EVENT)
    assert known is not None
    assert (known.id, known.refusal) == (None, None)
    assert "grow-never-value" not in theirs.get_subjects()
