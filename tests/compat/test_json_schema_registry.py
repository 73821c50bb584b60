"""JsonSchemaConverter beside Confluent's Python clients and a real registry: what one writes the other reads.

Confluent's serializer and deserializer check documents by their schema, too.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.converters.json_schema.converter import JsonSchemaConverter
from headrace.converters.json_schema.from_connect import json_schema, schema_text
from headrace.converters.json_schema.options import JsonSchemaOptions
from headrace.plugins.schema import DECIMAL, OPTIONAL_STRING, STRING, TIMESTAMP, Field, SchemaType, spark_type
from headrace.plugins.schema import Schema as Connect
from tests.spark.converting import configured, read

pytestmark = pytest.mark.long

VALUE = SerializationContext("t", MessageField.VALUE)
DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2020-12/schema",
)
ORDER = {
    "title": "com.acme.Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "open": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "state": {"type": "string", "enum": ["NEW", "PAID"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "of": {"$ref": "#/definitions/customer"},
    },
    "required": ["id"],
    "definitions": {"customer": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
GIVEN = {
    "id": 2**53 + 1,
    "price": 1.5,
    "open": True,
    "note": None,
    "state": "PAID",
    "tags": ["ü", '"'],
    "of": {"name": "漢"},
}


@pytest.fixture
def theirs(registry: str) -> SchemaRegistryClient:
    """Confluent's client; the subject takes any schema, however unlike the one before."""
    client = SchemaRegistryClient({"url": registry, "timeout": 30})
    client.register_schema("t-value", Schema('{"type":"object","properties":{}}', "JSON"))
    client.set_config("t-value", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    return client


def plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: plain(member) for name, member in value.asDict().items()}
    return [plain(member) for member in value] if isinstance(value, list) else value


def ours(registry: str, **settings: str) -> JsonSchemaConverter:
    return configured(JsonSchemaConverter(), {"schema.registry.url": registry, **settings})


def told(spark: SparkSession, converter: JsonSchemaConverter, schema: Connect, values: Sequence[Any]) -> Row:
    """`data`, our bytes of a source's struct for topic `t`; `error`, why there are none."""
    converter.learn("t", schema)
    made = converter.encode_for(F.lit("t"), F.col("v"), schema)
    rows = spark.createDataFrame([(tuple(values),)], StructType([StructField("v", spark_type(schema))]))
    (row,) = rows.select(made.value.alias("data"), made.error.alias("error")).collect()
    return row


def test_what_confluents_serializer_wrote_is_read(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    written = [JSONSerializer(json.dumps({"$schema": draft, **ORDER}), theirs)(GIVEN, VALUE) for draft in DRAFTS]
    got = read(spark, ours(registry), [data for data in written if isinstance(data, bytes)])
    assert [(plain(one.value), one.error) for one in got] == [(GIVEN, None)] * 3
    schema = got[0].schema
    assert schema is not None
    assert (schema.name, schema.version is not None) == ("com.acme.Order", True)


def test_a_schema_that_refers_to_other_subjects_is_read(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    coin = {"type": "object", "properties": {"of": {"type": "integer"}}}
    theirs.register_schema("coin", Schema(json.dumps(coin), "JSON"))
    version = theirs.get_latest_version("coin").version
    assert version is not None
    text = json.dumps({"type": "object", "properties": {"coin": {"$ref": "coin.json"}}})
    schema = Schema(text, "JSON", [SchemaReference("coin.json", "coin", version)])
    number = theirs.register_schema("t-value", schema)
    (got,) = read(spark, ours(registry), [b"\x00" + number.to_bytes(4, "big") + b'{"coin":{"of":5}}'])
    assert (plain(got.value), got.error) == ({"coin": {"of": 5}}, None)


FIELDS = (
    Field("id", Connect(SchemaType.INT64)),
    Field("name", OPTIONAL_STRING),
    Field("price", Connect(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})),
    Field("at", Connect(SchemaType.INT64, name=TIMESTAMP, version=1)),
    Field("tags", Connect(SchemaType.MAP, key_schema=STRING, value_schema=Connect(SchemaType.INT32))),
)
OUR_ORDER = Connect(SchemaType.STRUCT, name="shop.Order", fields=FIELDS)


def test_confluents_deserializer_reads_what_we_write_and_nothing_is_registered_twice(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    noon = dt.datetime(2026, 5, 4, 12, 0, 0, 1000, dt.UTC)
    values = [7, None, Decimal("-12.34"), noon, {"a": 1}]
    for settings, price in (({}, "+y4="), ({"decimal.format": "NUMERIC"}, -12.34)):
        data = bytes(told(spark, ours(registry, **settings), OUR_ORDER, values).data)
        options = JsonSchemaOptions(numeric=bool(settings))
        versions = theirs.get_versions("t-value")
        latest = theirs.get_version("t-value", versions[-1])  # its client caches the latest one
        assert json.loads(latest.schema.schema_str or "") == json.loads(schema_text(json_schema(OUR_ORDER, options)))
        assert int.from_bytes(data[1:5], "big") == latest.schema_id
        back = JSONDeserializer(latest.schema.schema_str or "")(data, VALUE)
        ms = int(noon.timestamp() * 1000)
        assert back == {"id": 7, "name": None, "price": price, "at": ms, "tags": {"a": 1}}
        (again,) = read(spark, ours(registry, **settings), [data])
        assert again.schema is not None
        assert again.schema.fields == FIELDS
        assert told(spark, ours(registry, **settings), OUR_ORDER, values).data == data
        assert theirs.get_versions("t-value") == versions


def test_a_schema_that_the_registry_refuses_is_an_error_of_its_records(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    first = Connect(SchemaType.STRUCT, name="R", fields=(Field("a", STRING),))
    other = Connect(SchemaType.STRUCT, name="R", fields=(Field("a", Connect(SchemaType.INT64)),))
    assert told(spark, ours(registry), first, ["x"]).data is not None
    theirs.set_config("t-value", ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD))
    refused = told(spark, ours(registry), other, [1])
    assert refused.data is None
    assert refused.error.startswith(
        "Converting Kafka Connect data to byte[] failed due to serialization error of topic t: "
    )
