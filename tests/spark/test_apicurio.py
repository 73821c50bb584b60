"""Apicurio's converters: ids of four and eight bytes and in headers, JSON beside an id, Protobuf with its type's name.

The bytes are those that Apicurio's own converters and serializers of 2.6.13 made with a real registry, their ids aside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.converters.apicurio.avro import ApicurioAvroConverter
from headrace.converters.apicurio.ext_json import ExtJsonConverter
from headrace.converters.apicurio.protobuf import ApicurioProtobufConverter
from headrace.converters.registry.converter import RegistryConverter
from headrace.plugins.contracts import Converter
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    OPTIONAL_STRING,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    spark_type,
)
from headrace.plugins.testkit import ConverterContract
from tests.spark.converting import KAFKA_ROW, learned, read
from tests.unit.converters.apicurio.fake_client import GLOBAL, apicurio

pytestmark = pytest.mark.spark

T = SchemaType
FLAT = Schema(T.STRUCT, name="shop.Order", fields=(Field("id", Schema(T.INT32)), Field("note", OPTIONAL_STRING)))
INNER = Schema(T.STRUCT, name="shop.Inner", fields=(Field("x", Schema(T.INT8)),), optional=True)
ORDER = Schema(
    T.STRUCT,
    name="shop.Order",
    fields=(
        Field("id", Schema(T.INT32)),
        Field("note", OPTIONAL_STRING),
        Field("user-id", Schema(T.FLOAT64)),
        Field("inner", INNER),
        Field("tags", Schema(T.MAP, key_schema=STRING, value_schema=Schema(T.INT64), optional=True)),
        Field("names", Schema(T.ARRAY, value_schema=STRING, optional=True)),
        Field("raw", Schema(T.BYTES)),
    ),
)
ROW = (7, "hi", 1.5, (3,), {"k": 9}, ["a", "b"], bytearray(b"\x00\x01"))
READ = {
    "id": 7,
    "note": "hi",
    "user-id": 1.5,
    "inner": {"x": 3},
    "tags": {"k": 9},
    "names": ["a", "b"],
    "raw": bytearray(b"\x00\x01"),
}
MESSAGE = b'\x08\x07\x12\x02hi\x19\x00\x00\x00\x00\x00\x00\xf8?"\x02\x08\x03*\x05\n\x01k\x10\t2\x01a2\x01b:\x02\x00\x01'
"""`ROW` in Protobuf, by Apicurio's serializer."""
TYPE = b"\x07\n\x05Order"
"""The name of its type before it."""
WIRE = """// Proto schema formatted by Wire, do not edit.
// Source:

syntax = "proto3";

package shop;

message Inner {
  int32 x = 1 [json_name = "__int8:x"];
}

message TagsEntry {
  option map_entry = true;

  string key = 1;

  int64 value = 2;
}

message Order {
  int32 id = 1;

  double user_id = 3 [json_name = "__raw:user-id"];

  repeated .shop.TagsEntry tags = 5;

  repeated string names = 6;

  bytes raw = 7;

  optional string note = 2;

  optional .shop.Inner inner = 4;
}
"""
"""The schema in the form of Apicurio's library, with the entries of a map as its converter declares them."""
EIGHT = {"id_handler": "io.apicurio.registry.serde.Legacy8ByteIdHandler"}
EITHER = {"id_handler": "io.apicurio.registry.serde.OptimisticFallbackIdHandler"}
REGISTER = {"auto_register": "true"}
HEADERS = {"apicurio.registry.headers.enabled": "true"}


def written(spark: SparkSession, converter: RegistryConverter[Any], schema: Schema | None, value: Any) -> Any:
    """The bytes for the topic `t`, and the error if there are none."""
    converter.learn("t", schema)
    found = converter.encode_for(F.lit("t"), F.col("v"), schema)
    rows = spark.createDataFrame([(value,)], StructType([StructField("v", spark_type(schema))]))
    (row,) = rows.select(found.value.alias("data"), found.error.alias("error")).collect()
    return row


def with_headers(
    spark: SparkSession, converter: Converter, rows: Sequence[tuple[Mapping[str, bytes] | None, bytes | None]]
) -> list[tuple[Any, str | None]]:
    """The values of records with these headers, or their errors."""
    given = [
        ("t", 0, number, 0, [(k, bytearray(v)) for k, v in headers.items()] if headers else None, None, data)
        for number, (headers, data) in enumerate(rows)
    ]
    key, _ = apicurio(ApicurioAvroConverter())
    frame = spark.createDataFrame(given, KAFKA_ROW).coalesce(1)
    records, *_ = learned(frame, ConverterBinding(key, "K"), ConverterBinding(converter, "V"))
    found = []
    for row in sorted(records.frame.collect(), key=lambda row: int(row.offset)):
        value = None if row.value_schema is None else row[f"value_{row.value_schema}"].asDict(recursive=True)
        found.append((value, row.error.message if row.error else None))
    return found


def test_avro_after_an_id_of_eight_bytes(spark: SparkSession) -> None:
    converter, _ = apicurio(ApicurioAvroConverter(), **REGISTER, **EIGHT, use_id="globalId")
    data = b"\x00" + (GLOBAL + 1).to_bytes(8, "big") + b"\x0e\x00"
    assert written(spark, converter, FLAT, (7, None)).data == data
    (got,) = read(spark, converter, [data])
    assert (got.error, got.value.asDict()) == (None, {"id": 7, "note": None})


def test_avro_bytes_have_their_length_and_so_have_decimals(spark: SparkSession) -> None:
    converter, _ = apicurio(ApicurioAvroConverter(), **REGISTER)
    data = bytes(written(spark, converter, Schema(T.BYTES), bytearray(b"\x01\x02\x03")).data)
    assert data == b"\x00\x00\x00\x00\x01\x06\x01\x02\x03"
    assert converter.shown(data) == json.dumps(str(b"\x01\x02\x03"))
    price = Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
    more = bytes(written(spark, converter, price, Decimal("1.50")).data)
    assert more[5:] == b"\x04\x00\x96"
    first, second = read(spark, converter, [data, more])
    assert (first.error, first.value, second.error, second.value) == (None, b"\x01\x02\x03", None, Decimal("1.50"))


def test_both_sizes_of_ids_are_read_together(spark: SparkSession) -> None:
    converter, client = apicurio(ApicurioAvroConverter(), **EITHER)
    number = client.add(json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}))
    short, long = (b"\x00" + number.to_bytes(size, "big") + b"\x0e" for size in (4, 8))
    cut = bytes(8)
    first, second, third = read(spark, converter, [short, long, cut])
    assert (first.value.id, second.value.id) == (7, 7)
    assert third.error is not None
    assert "Unknown magic byte!" in third.error


def test_ids_in_headers(spark: SparkSession) -> None:
    converter, client = apicurio(ApicurioAvroConverter(), **HEADERS)
    client.add(json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}))
    content, world = (1).to_bytes(8, "big"), (GLOBAL + 1).to_bytes(8, "big")
    found = with_headers(
        spark,
        converter,
        [
            ({"apicurio.value.contentId": content}, b"\x0e"),
            ({"apicurio.value.globalId": world}, b"\x00"),
            ({"apicurio.value.contentId": content, "apicurio.value.globalId": bytes(8)}, b"\x0e"),
            (None, b"\x00\x00\x00\x00\x01\x0e"),
            ({"apicurio.value.contentId": content}, None),
            ({"apicurio.key.contentId": content}, b"\x01" + content + b"\x0e"),
            ({"apicurio.value.contentId": b"\x01"}, b"\x0e"),
        ],
    )
    values = [value for value, _ in found]
    assert values == [{"id": 7}, {"id": 0}, {"id": 7}, {"id": 7}, None, None, None]
    assert [error is not None and "Unknown magic byte!" in error for _, error in found] == [False] * 5 + [True] * 2


def test_headers_with_names_of_their_own_and_those_that_do_not_count(spark: SparkSession) -> None:
    renamed = {"apicurio.registry.headers.value.contentId.name": "schema"}
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]})
    converter, client = apicurio(ApicurioAvroConverter(), **HEADERS, **renamed)
    client.add(text)
    row = ({"schema": (1).to_bytes(8, "big")}, b"\x0e")
    assert with_headers(spark, converter, [row]) == [({"id": 7}, None)]
    converter, client = apicurio(ApicurioAvroConverter())
    client.add(text)
    ((value, error),) = with_headers(
        spark, converter, [({"apicurio.value.contentId": (1).to_bytes(8, "big")}, b"\x0e")]
    )
    assert value is None
    assert error is not None


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_json_is_that_of_apicurios_converter(spark: SparkSession) -> None:
    converter, client = apicurio(ExtJsonConverter(), **REGISTER, use_id="globalId")
    number = GLOBAL + 1
    data = bytes(written(spark, converter, FLAT, (7, None)).data)
    assert data == b'{"schemaId":%d,"payload":{"id":7,"note":null}}' % number
    assert client.texts == [
        '{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},'
        '{"type":"string","optional":true,"field":"note"}],"optional":false,"name":"shop.Order"}'
    ]
    odd = b'{ "payload" : {"note":"x", "id":8}, "schemaId" : "%d" }' % number
    documents = [data, data.replace(b":7", b": 7 "), odd]
    assert [(one.error, one.value.asDict()) for one in read(spark, converter, documents)] == [
        (None, {"id": 7, "note": None}),
        (None, {"id": 7, "note": None}),
        (None, {"id": 8, "note": "x"}),
    ]
    assert json.loads(converter.shown(data)) == {"id": 7, "note": None}


def test_documents_that_cannot_be_read(spark: SparkSession) -> None:
    converter, client = apicurio(ExtJsonConverter())
    client.add('{"type":"int32","optional":false}')
    reasons = {
        b'{"schemaId":9,"payload":1}': "No contentIds 9",
        b'{"schemaId":1.5,"payload":1}': "schemaId is no id",
        b'{"schemaId":true,"payload":1}': "schemaId is no id",
        b'{"schemaId":%d,"payload":1}' % 2**63: "schemaId is no id",
        b'{"schema":1,"payload":1}': '"schemaId" and "payload"',
        b'{"schemaId":1,"payload":1,"more":2}': '"schemaId" and "payload"',
        b'{"schemaId":1,"payload":null}': "null",
        b"{": "Converting byte",
        b"\x00\x00\x00\x00\x01\x0e": "schema registry's converters",
    }
    for got, why in zip(read(spark, converter, list(reasons)), reasons.values(), strict=True):
        assert got.error is not None
        assert why in got.error


def test_values_of_json_that_are_no_structs(spark: SparkSession) -> None:
    converter, _ = apicurio(ExtJsonConverter(), **REGISTER)
    price = Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
    texts = Schema(T.ARRAY, value_schema=STRING)
    given = [(STRING, 'a"b'), (price, Decimal("1.50")), (texts, ["x"]), (OPTIONAL_STRING, None)]
    data = [bytes(written(spark, converter, schema, value).data) for schema, value in given]
    assert data[1] == b'{"schemaId":2,"payload":"AJY="}'
    assert data[3] == b'{"schemaId":4,"payload":null}'
    assert [(one.error, one.value) for one in read(spark, converter, data)] == [(None, value) for _, value in given]


def test_json_without_a_schema_is_refused_but_for_null(spark: SparkSession) -> None:
    converter, _ = apicurio(ExtJsonConverter(), **REGISTER)
    row = written(spark, converter, None, "{}")
    assert row.data is None
    assert "use JsonConverter" in row.error
    row = written(spark, converter, None, None)
    assert (row.data, row.error) == (None, None)
    (got,) = read(spark, converter, [b'{"schemaId":1,"payload":1}'])
    assert got.error is not None


# -- Protobuf ----------------------------------------------------------------------------------------------------------


def test_protobuf_is_that_of_apicurios_serializer(spark: SparkSession) -> None:
    converter, client = apicurio(ApicurioProtobufConverter(), **REGISTER, use_id="globalId", **EIGHT)
    data = bytes(written(spark, converter, ORDER, ROW).data)
    assert data == b"\x00" + (GLOBAL + 1).to_bytes(8, "big") + TYPE + MESSAGE
    number = client.add(WIRE)
    theirs = b"\x00" + (GLOBAL + number).to_bytes(8, "big") + TYPE + MESSAGE
    ours, got = read(spark, converter, [data, theirs])
    assert (ours.error, ours.value.asDict(recursive=True), ours.schema) == (None, READ, ORDER)
    assert (got.error, got.value.asDict(recursive=True)) == (None, READ)
    assert json.loads(converter.shown(data))["tags"] == {"k": "9"}


def test_protobuf_with_the_id_and_the_type_in_headers(spark: SparkSession) -> None:
    """As by Apicurio's serializer of 2.x, which writes the bare message, and of 3.x, which writes the name, too."""
    converter, client = apicurio(ApicurioProtobufConverter(), **HEADERS)
    client.add(WIRE)
    headers = {
        "apicurio.value.contentId": (1).to_bytes(8, "big"),
        "apicurio.value.msgType": b"com.google.protobuf.DynamicMessage",
        "apicurio.protobuf.type": b"Order",
    }
    rows = [(headers, MESSAGE), (headers, TYPE + MESSAGE), (None, b"\x00\x00\x00\x00\x01" + TYPE + MESSAGE)]
    assert with_headers(spark, converter, rows) == [(READ, None)] * 3


def test_protobuf_with_indexes_is_confluents(spark: SparkSession) -> None:
    serde = {f"apicurio.registry.serde.{way}-{name}": value for way in ("send", "read") for name, value in INDEXES}
    converter, _ = apicurio(ApicurioProtobufConverter(), **REGISTER, **serde)
    data = bytes(written(spark, converter, FLAT, (7, "hi")).data)
    assert data == b"\x00\x00\x00\x00\x01\x00\x08\x07\x12\x02hi"
    (got,) = read(spark, converter, [data])
    assert got.value.asDict() == {"id": 7, "note": "hi"}


INDEXES = (("type-ref", "false"), ("indexes", "true"))


def test_what_the_messages_lack_is_refused(spark: SparkSession) -> None:
    converter, _ = apicurio(ApicurioProtobufConverter(), **REGISTER)
    day = Schema(T.STRUCT, name="M", fields=(Field("at", Schema(T.INT32, name=DATE, version=1)),))
    row = written(spark, converter, day, (None,))
    assert row.data is None
    assert "have no org.apache.kafka.connect.data.Date" in row.error
    row = written(spark, converter, FLAT, (None, "x"))
    assert row.data is None
    assert "Found null value for non-optional schema: field id" in row.error


def test_bytes_that_are_no_message(spark: SparkSession) -> None:
    converter, client = apicurio(ApicurioProtobufConverter())
    client.add(WIRE)
    before = b"\x00\x00\x00\x00\x01"
    reasons = {
        before + b"\x07\n\x05Other\x08\x07": "has no message Other",
        before + b"\x7f\n\x05Order\x08\x07": "Unknown magic byte!",
        before + b"\x02\xff\xff\x08": "name no message type",
        before + TYPE + b"\xff": "shop.Order",
        before: "Unknown magic byte!",
    }
    for got, why in zip(read(spark, converter, list(reasons)), reasons.values(), strict=True):
        assert got.error is not None
        assert why in got.error


def test_what_is_not_set_is_null(spark: SparkSession) -> None:
    converter, client = apicurio(ApicurioProtobufConverter())
    client.add(
        'syntax = "proto3"; message M { int32 a = 1; optional int32 b = 2; N n = 3; oneof o { string c = 4; N d = 5; } '
        "Color e = 6; uint32 u = 7; repeated L rows = 8; L row = 9; }"
        "message N { int32 x = 1; } enum Color { RED = 0; BLUE = 1; } message L { repeated int32 items = 1; }"
    )
    before = b"\x00\x00\x00\x00\x01\x03\n\x01M"
    given = b"\x10\x00\x1a\x00\x38\xff\xff\xff\xff\x0f\x42\x03\x0a\x01\x01\x4a\x00"
    empty, full = read(spark, converter, [before, before + given])
    nothing = {"a": 0, "b": None, "n": None, "c": None, "d": None, "e": "RED", "u": 0, "rows": [], "row": None}
    assert (empty.error, empty.value.asDict(recursive=True)) == (None, nothing)
    assert full.error is None
    got = full.value.asDict(recursive=True)
    assert (got["b"], got["n"], got["u"], got["rows"], got["row"]) == (0, {"x": 0}, 2**32 - 1, [[1]], [])


def test_lists_in_lists_go_through_messages_of_their_own(spark: SparkSession) -> None:
    converter, client = apicurio(ApicurioProtobufConverter(), **REGISTER)
    numbers = Schema(T.ARRAY, value_schema=Schema(T.INT16), optional=True)
    grid = Schema(
        T.STRUCT, name="g.Grid", fields=(Field("rows", Schema(T.ARRAY, value_schema=numbers, optional=True)),)
    )
    data = bytes(written(spark, converter, grid, ([[1, 2], []],)).data)
    assert "message RowsWrapper {" in client.texts[0]
    (got,) = read(spark, converter, [data])
    assert (got.error, got.value.asDict(), got.schema) == (None, {"rows": [[1, 2], []]}, grid)


# -- the kit -----------------------------------------------------------------------------------------------------------


class _Made(ConverterContract):
    examples = 2

    @pytest.fixture
    def made(self) -> Converter:
        return apicurio(self.converter(), **REGISTER)[0]  # type: ignore[type-var]


@pytest.mark.long
class TestAvro(_Made):
    converter = ApicurioAvroConverter
    schemas: ClassVar[Sequence[Any]] = [str, FLAT]


@pytest.mark.long
class TestExtJson(_Made):
    converter = ExtJsonConverter
    schemas: ClassVar[Sequence[Any]] = [Schema(T.INT64, name=TIMESTAMP, version=1), FLAT]


class TestProtobuf(_Made):
    converter = ApicurioProtobufConverter
    schemas: ClassVar[Sequence[Any]] = [FLAT]
