"""The artifacts and versions that Apicurio's converters write with."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest

from headrace.config.problems import ConfigError
from headrace.converters.apicurio.avro import ApicurioAvroConverter
from headrace.converters.apicurio.ext_json import ExtJsonConverter
from headrace.converters.apicurio.protobuf import ApicurioProtobufConverter
from headrace.plugins.contracts import DataError
from headrace.plugins.extensions import RegisteredSchema
from headrace.plugins.schema import DATE, STRING, Field, Schema, SchemaType
from tests.unit.converters.apicurio.fake_client import GLOBAL, apicurio

T = SchemaType
ORDER = Schema(T.STRUCT, name="shop.eu.Order", fields=(Field("id", Schema(T.INT32)),))
SERDE = "io.apicurio.registry.serde.avro.strategy."
REGISTER = {"auto_register": "true"}
OWN = "apicurio.registry."


def learned(converter: ApicurioAvroConverter | ExtJsonConverter | ApicurioProtobufConverter) -> RegisteredSchema:
    converter.learn("t", ORDER)
    found = converter.registered("t", ORDER)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({}, "default/t-value"),
        ({"artifact_resolver_strategy": "io.apicurio.registry.serde.strategy.SimpleTopicIdStrategy"}, "default/t"),
        ({"artifact_resolver_strategy": SERDE + "RecordIdStrategy"}, "shop.eu/Order"),
        ({"artifact_resolver_strategy": SERDE + "QualifiedRecordIdStrategy"}, "default/shop.eu.Order"),
        ({"artifact_resolver_strategy": SERDE + "TopicRecordIdStrategy"}, "shop.eu/t-Order"),
        ({f"{OWN}artifact.group-id": "g"}, "g/t-value"),
        ({f"{OWN}artifact.group-id": "g", f"{OWN}artifact.artifact-id": "a"}, "g/a"),
    ],
)
def test_the_artifact(settings: Mapping[str, str], place: str) -> None:
    converter, client = apicurio(ApicurioAvroConverter(), **REGISTER, **settings)
    found = learned(converter)
    assert (found.subject, found.id, found.refusal) == (place, 1, None)
    assert list(client.artifacts) == [tuple(place.split("/"))]


def test_a_key_and_a_strategy_that_needs_a_record() -> None:
    converter, client = apicurio(ApicurioAvroConverter(), is_key=True, **REGISTER)
    learned(converter)
    assert list(client.artifacts) == [("default", "t-key")]
    converter, _ = apicurio(ApicurioAvroConverter(), artifact_resolver_strategy=SERDE + "RecordIdStrategy", **REGISTER)
    converter.learn("t", STRING)
    target = converter._targets[STRING, "t"]
    assert target.refusal is not None
    assert "needs the name of a record" in target.refusal


def test_registering_says_what_to_do_with_what_exists() -> None:
    settings = {f"{OWN}auto-register.if-exists": "UPDATE", f"{OWN}artifact.version": "7", "canonicalize": "true"}
    converter, client = apicurio(ApicurioAvroConverter(), **REGISTER, **settings)
    learned(converter)
    ((_, artifact, version, if_exists, canonical),) = client.asked
    assert (artifact.type, version, if_exists, canonical) == ("AVRO", "7", "CREATE_VERSION", True)


def test_without_registering_the_schema_has_to_be_there() -> None:
    converter, client = apicurio(ExtJsonConverter())
    refused = learned(converter)
    assert refused.refusal is not None
    assert "No version of default/t-value" in refused.refusal
    text = refused.text
    converter, client = apicurio(ExtJsonConverter(), use_id="globalId")
    client.add(text)
    assert learned(converter).id == GLOBAL + 1
    assert client.asked == []


def test_the_latest_version_is_asked_for_again() -> None:
    converter, client = apicurio(ApicurioAvroConverter(), find_latest="true", **{f"{OWN}check-period-ms": "0"})
    first = json.dumps({"type": "record", "name": "Order", "namespace": "shop.eu", "fields": ID})
    client.add(first)
    assert (learned(converter).id, learned(converter).text) == (1, first)
    client.add(json.dumps({"type": "record", "name": "Order", "namespace": "shop.eu", "fields": [*ID, MORE]}))
    assert converter.refresh()
    found = converter.registered("t", ORDER)
    assert found is not None
    assert found.id == 2
    client.add('"int"')
    assert converter.refresh()
    assert converter._targets[ORDER, "t"].refusal is not None
    for settings in (REGISTER, {"find_latest": "true", f"{OWN}artifact.version": "1"}, {}):
        assert apicurio(ApicurioAvroConverter(), **settings)[0].schemas.asked_again_s == math.inf


ID = [{"name": "id", "type": "int"}]
MORE = {"name": "note", "type": ["null", "string"], "default": None}


def test_a_version_by_its_number_and_without_the_check() -> None:
    converter, client = apicurio(ApicurioAvroConverter(), **{f"{OWN}artifact.version": "1"})
    client.add('"int"')
    assert "Incompatible schema" in str(learned(converter).refusal)
    own = {f"{OWN}artifact.version": "1", f"{OWN}serde.validation-enabled": "false"}
    converter, client = apicurio(ApicurioProtobufConverter(), **own)
    client.add('syntax = "proto3"; package other; message Order { int32 id = 4; }')
    assert learned(converter).refusal is None


def test_json_is_written_with_its_own_schema_only() -> None:
    converter, client = apicurio(ExtJsonConverter(), find_latest="true")
    client.add('{"type":"struct","fields":[],"optional":false,"name":"shop.eu.Order"}')
    assert "reads its own documents only" in str(learned(converter).refusal)
    converter, client = apicurio(ExtJsonConverter(), find_latest="true")
    fields = [{"field": "id", "type": "int32", "optional": False}]
    client.add(json.dumps({"type": "struct", "name": "shop.eu.Order", "optional": False, "fields": fields}))
    assert learned(converter).refusal is None


def test_ids_in_headers_are_not_written() -> None:
    converter, _ = apicurio(ApicurioAvroConverter(), **REGISTER, **{f"{OWN}headers.enabled": "true"})
    with pytest.raises(ConfigError, match=r"headers\.enabled=false to write"):
        learned(converter)
    converter, _ = apicurio(ExtJsonConverter(), **REGISTER, **{f"{OWN}headers.enabled": "true"})
    assert learned(converter).refusal is None


def test_a_preview_registers_nothing() -> None:
    converter, client = apicurio(ApicurioAvroConverter(), only_asks=True, **REGISTER)
    found = learned(converter)
    assert (found.id, found.refusal, client.artifacts) == (None, None, {})
    assert [asked[0] for asked in client.asked] == ["would_take"]
    prefix = converter._targets[ORDER, "t"].prefix
    assert converter.schemas.text(prefix, "t") == found.text
    client.add(found.text)
    converter.learn("t", Schema(T.STRUCT, name=ORDER.name, fields=ORDER.fields, doc="another"))
    assert [asked[0] for asked in client.asked] == ["would_take"] * 2


EIGHT = "io.apicurio.registry.serde.Legacy8ByteIdHandler"
EITHER = "io.apicurio.registry.serde.OptimisticFallbackIdHandler"


@pytest.mark.parametrize(
    ("settings", "before"),
    [
        ({}, (1).to_bytes(4, "big")),
        ({"use_id": "globalId"}, (GLOBAL + 1).to_bytes(4, "big")),
        ({"id_handler": EIGHT}, (1).to_bytes(8, "big")),
        ({"id_handler": EIGHT, "use_id": "globalId"}, (GLOBAL + 1).to_bytes(8, "big")),
        ({"as_confluent": "true", "use_id": "contentId"}, (1).to_bytes(4, "big")),
        ({"as_confluent": "false", "use_id": "globalId"}, (GLOBAL + 1).to_bytes(8, "big")),
        ({"id_handler": EITHER}, (1).to_bytes(4, "big")),
    ],
)
def test_the_bytes_of_an_id(settings: Mapping[str, str], before: bytes) -> None:
    converter, _ = apicurio(ApicurioAvroConverter(), **REGISTER, **settings)
    text = learned(converter).text
    assert converter._targets[ORDER, "t"].prefix == b"\x00" + before
    data = b"\x00" + before + b"\x0e"
    assert converter.named_text(data) == (data[:-1], text)


def test_an_id_of_eight_bytes_is_told_as_what_it_is() -> None:
    converter, client = apicurio(ApicurioAvroConverter())
    client.add('"int"')
    with pytest.raises(DataError, match="id-handler=Legacy8ByteIdHandler"):
        converter.named_text(bytes(8) + b"\x01\x0e")
    either, client = apicurio(ApicurioAvroConverter(), id_handler=EITHER)
    client.add('"int"')
    assert either.named_text(bytes(8) + b"\x01\x0e")[1] == '"int"'


@pytest.mark.parametrize(("use", "number"), [("contentId", 1), ("globalId", GLOBAL + 1)])
def test_the_id_in_a_document(use: str, number: int) -> None:
    converter, _ = apicurio(ExtJsonConverter(), use_id=use, **REGISTER)
    learned(converter)
    assert converter._targets[ORDER, "t"].prefix == f'{{"schemaId":{number},"payload":'.encode()


def test_an_id_that_four_bytes_do_not_hold() -> None:
    converter, client = apicurio(ApicurioAvroConverter(), use_id="globalId", **REGISTER)
    client._of = lambda number: type(client)._of(number + 2**31)  # type: ignore[method-assign]
    assert "needs eight bytes" in str(learned(converter).refusal)


# -- the text of Protobuf's schemas ------------------------------------------------------------------------------------


def test_the_messages_of_a_struct() -> None:
    line = Schema(T.STRUCT, fields=(Field("sku", STRING),), optional=True)
    texts = Schema(T.ARRAY, value_schema=STRING)
    schema = Schema(
        T.STRUCT,
        name="shop-1.eu.order",
        fields=(
            Field("9 lives", Schema(T.INT16)),
            Field("lines", Schema(T.ARRAY, value_schema=line, optional=True)),
            Field("by", Schema(T.MAP, key_schema=STRING, value_schema=texts)),
            Field("first", line),
        ),
    )
    made = ApicurioProtobufConverter.text_of(apicurio(ApicurioProtobufConverter())[0], schema)
    assert made.message == "shop_1.eu.Order"
    assert made.text == (
        'syntax = "proto3";\n\npackage shop_1.eu;\n'
        "\nmessage Lines {\n  string sku = 1;\n}\n"
        "\nmessage ByWrapper {\n  repeated string items = 1;\n}\n"
        "\nmessage Order {\n"
        '  int32 field_9_lives = 1 [json_name = "__int16:__raw:9 lives"];\n'
        "  repeated .shop_1.eu.Lines lines = 2;\n"
        "  map<string, .shop_1.eu.ByWrapper> by = 3;\n"
        "  optional .shop_1.eu.Lines first = 4;\n"
        "}\n"
    )
    assert converted(schema).refusal is None


def converted(schema: Schema) -> RegisteredSchema:
    converter, _ = apicurio(ApicurioProtobufConverter(), **REGISTER)
    converter.learn("t", schema)
    found = converter.registered("t", schema)
    return found or RegisteredSchema("", "", None, converter._targets[schema, "t"].refusal)


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (Schema(T.INT32, name=DATE, version=1), "Date"),
        (Schema(T.MAP, key_schema=Schema(T.INT32), value_schema=STRING), "keys that are no texts"),
        (Schema(T.MAP, key_schema=STRING, value_schema=Schema(T.INT8)), "values of type INT8"),
        (
            Schema(T.ARRAY, value_schema=Schema(T.MAP, key_schema=STRING, value_schema=STRING)),
            "no map within a list",
        ),
    ],
)
def test_what_apicurios_messages_lack(of: Schema, why: str) -> None:
    refused = converted(Schema(T.STRUCT, name="M", fields=(Field("f", of),))).refusal
    assert refused is not None
    assert why in refused


def test_a_value_that_is_no_struct_and_one_without_a_name() -> None:
    assert "the value has STRING" in str(converted(STRING).refusal)
    found = converted(Schema(T.STRUCT, fields=(Field("a", STRING),)))
    assert "package io.apicurio.registry.connect;" in found.text
    assert "message ConnectMessage {" in found.text


def test_a_schema_of_apicurios_library_may_be_written_with() -> None:
    """Its maps are declared as messages, which protoc refuses."""
    tags = Schema(T.MAP, key_schema=STRING, value_schema=Schema(T.INT64), optional=True)
    schema = Schema(T.STRUCT, name="shop.Order", fields=(Field("tags", tags),))
    converter, client = apicurio(ApicurioProtobufConverter(), find_latest="true")
    client.add(
        'syntax = "proto3";\npackage shop;\nmessage TagsEntry {\n  option map_entry = true;\n\n  string key = 1;\n\n'
        "  int64 value = 2;\n}\n\nmessage Order {\n  repeated .shop.TagsEntry tags = 1;\n}\n"
    )
    converter.learn("t", schema)
    found = converter.registered("t", schema)
    assert found is not None
    assert found.refusal is None
