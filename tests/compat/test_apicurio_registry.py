"""Apicurio's AvroConverter beside Apicurio's own protocol, with the settings of published configs."""

from __future__ import annotations

from typing import Any

import fastavro
import httpx
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.converters.apicurio.avro import ApicurioAvroConverter
from headrace.plugins.schema import OPTIONAL_STRING, Field, Schema, SchemaType, spark_type
from tests.spark.converting import configured, read

pytestmark = pytest.mark.long

ORDER = Schema(
    SchemaType.STRUCT, name="shop.Order", fields=(Field("id", Schema(SchemaType.INT32)), Field("note", OPTIONAL_STRING))
)


def made(url: str, **settings: str) -> ApicurioAvroConverter:
    given = {f"apicurio.registry.{name.replace('_', '-')}": value for name, value in settings.items()}
    return configured(ApicurioAvroConverter(), {"apicurio.registry.url": url, **given})


def told(spark: SparkSession, converter: ApicurioAvroConverter, topic: str) -> Any:
    """The bytes of a record and the error."""
    converter.learn(topic, ORDER)
    found = converter.encode_for(F.lit(topic), F.col("v"), ORDER)
    rows = spark.createDataFrame([((7, None),)], StructType([StructField("v", spark_type(ORDER))]))
    (row,) = rows.select(found.value.alias("data"), found.error.alias("error")).collect()
    return row


@pytest.mark.parametrize("api", ["/apis/registry/v2", "/apis/registry/v3"])
def test_a_record_names_its_schema_by_apicurios_content_id(spark: SparkSession, registry: str, api: str) -> None:
    """As Debezium's documentation configures it; another converter then reads it and finds the latest schema."""
    server, topic = registry.removesuffix("/apis/ccompat/v7"), f"apicurio{api[-1]}"
    data = bytes(told(spark, made(server + api, auto_register="true", find_latest="true"), topic).data)
    found = httpx.get(f"{server}/apis/registry/v3/ids/contentIds/{int.from_bytes(data[1:5], 'big')}", trust_env=False)
    assert (found.status_code, data[0]) == (200, 0)
    assert fastavro.parse_schema(found.json())["name"] == "shop.Order"
    artifact = f"{server}/apis/registry/v3/groups/default/artifacts/{topic}-value"
    assert httpx.get(artifact, trust_env=False).json()["artifactType"] == "AVRO"
    (got,) = read(spark, made(server + api), [data])
    assert (got.value.asDict(), got.error) == ({"id": 7, "note": None}, None)
    assert told(spark, made(server + api, find_latest="true"), topic).data == data
    assert told(spark, made(server + api), topic).data == data


def test_a_group_and_a_schema_that_nobody_registered(spark: SparkSession, registry: str) -> None:
    server = registry.removesuffix("/apis/ccompat/v7")
    group = {"artifact.group_id": "shop"}
    assert told(spark, made(registry, auto_register="true", **group), "grouped").data is not None
    artifact = f"{server}/apis/registry/v3/groups/shop/artifacts/grouped-value"
    assert httpx.get(artifact, trust_env=False).status_code == 200
    unknown = told(spark, made(registry), "grouped")
    assert unknown.data is None
    assert "error code: 404" in unknown.error
