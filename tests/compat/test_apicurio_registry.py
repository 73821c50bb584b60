"""Apicurio's converters beside Apicurio's own API, v2 and v3, with the settings of published configs."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import httpx
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.converters.apicurio.avro import ApicurioAvroConverter
from headrace.converters.apicurio.ext_json import ExtJsonConverter
from headrace.converters.apicurio.protobuf import ApicurioProtobufConverter
from headrace.converters.registry.converter import RegistryConverter
from headrace.plugins.schema import OPTIONAL_STRING, Field, Schema, SchemaType, spark_type
from tests.spark.converting import configured, read

pytestmark = pytest.mark.long

ORDER = Schema(
    SchemaType.STRUCT, name="shop.Order", fields=(Field("id", Schema(SchemaType.INT32)), Field("note", OPTIONAL_STRING))
)
Made = RegistryConverter[Any]


def made(url: str, kind: type[Made] = ApicurioAvroConverter, /, **settings: str) -> Made:
    given = {f"apicurio.registry.{name.replace('_', '-')}": value for name, value in settings.items()}
    return configured(kind(), {"apicurio.registry.url": url, **given})


def told(spark: SparkSession, converter: Made, topic: str, schema: Schema = ORDER) -> Any:
    """The bytes of a record, and the error if there are none."""
    converter.learn(topic, schema)
    found = converter.encode_for(F.lit(topic), F.col("v"), schema)
    rows = spark.createDataFrame([((7, None),)], StructType([StructField("v", spark_type(schema))]))
    (row,) = rows.select(found.value.alias("data"), found.error.alias("error")).collect()
    return row


def asked(server: str, path: str) -> Any:
    """The answer of the registry's API, v3."""
    return httpx.get(f"{server}/apis/registry/v3{path}", trust_env=False, timeout=60).raise_for_status().json()


def added(server: str, artifact: str, text: str, *references: dict[str, str]) -> dict[str, Any]:
    """The registry's answer for a Protobuf schema that somebody registers."""
    content = {"content": text, "contentType": "application/x-protobuf", "references": references}
    body = {"artifactId": artifact, "artifactType": "PROTOBUF", "firstVersion": {"content": content}}
    url = f"{server}/apis/registry/v3/groups/default/artifacts"
    answer = httpx.post(url, json=body, trust_env=False, timeout=60).raise_for_status()
    found: dict[str, Any] = answer.json()["version"]
    return found


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


@pytest.mark.parametrize("api", ["v2", "v3"])
@pytest.mark.parametrize(
    ("kind", "type_", "payload"),
    [
        (ApicurioAvroConverter, "AVRO", b"\x0e\x00"),
        (ApicurioProtobufConverter, "PROTOBUF", b"\x07\n\x05Order\x08\x07"),
        (ExtJsonConverter, "KCONNECT", None),
    ],
)
def test_each_kind_in_both_apis(
    spark: SparkSession, registry: str, api: str, kind: type[Made], type_: str, payload: bytes | None
) -> None:
    """As by Apicurio's converters of 2.x, with global ids: in eight bytes, or in the document."""
    server, topic = registry.removesuffix("/apis/ccompat/v7"), f"each-{api}-{type_}"
    url, ids = f"{server}/apis/registry/{api}", {"use_id": "globalId", "id_handler": "DefaultIdHandler"}
    assert "404" in told(spark, made(url, kind, **ids), topic).error
    data = bytes(told(spark, made(url, kind, auto_register="true", **ids), topic).data)
    artifact = f"/groups/default/artifacts/{topic}-value"
    version = asked(server, f"{artifact}/versions/branch=latest")
    number = version["globalId"]
    document = b'{"schemaId":%d,"payload":{"id":7,"note":null}}' % number
    assert data == (document if payload is None else b"\x00" + number.to_bytes(8, "big") + payload)
    assert version["artifactType"] == type_
    for settings in ({}, {"find_latest": "true"}, {"artifact.version": "1"}, {"auto_register": "true"}):
        assert told(spark, made(url, kind, **settings, **ids), topic).data == data
    fails = {"auto_register": "true", "auto_register.if_exists": "FAIL"}
    assert "already exists" in told(spark, made(url, kind, **fails, **ids), topic).error
    (got,) = read(spark, made(url, kind, **ids), [data])
    assert (got.error, got.value.asDict()) == (None, {"id": 7, "note": None})
    assert json.loads(made(url, kind, **ids).shown(data) or "")["id"] == 7


@pytest.mark.parametrize("api", ["v2", "v3"])
def test_a_rule_refuses_a_schema_and_a_preview_says_so(spark: SparkSession, registry: str, api: str) -> None:
    server, topic = registry.removesuffix("/apis/ccompat/v7"), f"ruled-{api}"
    url = f"{server}/apis/registry/{api}"
    assert told(spark, made(url, auto_register="true"), topic).data is not None
    rules = f"{server}/apis/registry/v3/groups/default/artifacts/{topic}-value/rules"
    rule = {"ruleType": "COMPATIBILITY", "config": "FULL"}
    httpx.post(rules, json=rule, trust_env=False, timeout=60).raise_for_status()
    number = Field("id", Schema(SchemaType.STRING))
    other = Schema(SchemaType.STRUCT, name="shop.Order", fields=(number, Field("note", OPTIONAL_STRING)))
    for only_asks in (False, True):
        converter = ApicurioAvroConverter()
        converter.only_asks = only_asks
        configured(converter, {"apicurio.registry.url": url, "apicurio.registry.auto-register": "true"})
        converter.learn(topic, other)
        found = converter.registered(topic, other)
        assert found is not None
        assert "Incompatible artifact" in str(found.refusal)


@pytest.mark.parametrize("api", ["v2", "v3"])
def test_a_schema_that_refers_to_another_artifact_is_read(spark: SparkSession, registry: str, api: str) -> None:
    server = registry.removesuffix("/apis/ccompat/v7")
    town = f"town-{api}.proto"
    added(server, town, f'syntax = "proto3"; package geo; message Town {{ string name = 1; }} // {api}')
    text = f'syntax = "proto3"; import "{town}"; message Place {{ geo.Town town = 1; int32 size = 2; }}'
    number = added(server, f"place-{api}", text, {"name": town, "artifactId": town, "version": "1"})["contentId"]
    data = b"\x00" + number.to_bytes(4, "big") + b"\x07\n\x05Place\x0a\x03\n\x01U\x10\x05"
    (got,) = read(spark, made(f"{server}/apis/registry/{api}", ApicurioProtobufConverter), [data])
    assert (got.error, got.value.asDict(recursive=True)) == (None, {"town": {"name": "U"}, "size": 5})
