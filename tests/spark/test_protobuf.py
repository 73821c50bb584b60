"""ProtobufConverter over Java's DynamicMessage, against Python's Protobuf; as jobs, and compiled inline."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from headrace.converters.bytes import ByteArrayConverter
from headrace.converters.protobuf.compiling import bundle
from headrace.converters.protobuf.converter import ProtobufConverter
from headrace.converters.protobuf.indexes import indexes_after, indexes_of_bytes
from headrace.converters.protobuf.messages import file_of, message_at
from headrace.converters.protobuf.names import ENUM, TAG, TYPE, UNION
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    spark_type,
)
from headrace.plugins.testkit import ConverterContract
from tests.spark.converting import KAFKA_ROW, compiled, configured, kafka_rows, learned, read
from tests.unit.converters.avro.fake_registry import FakeRegistry, registry_of

pytestmark = pytest.mark.spark
T = SchemaType
WRITE_FAILED = "Failed to serialize Protobuf data from topic t : "


def protobuf(settings: Mapping[str, str] | None = None) -> ProtobufConverter:
    """A converter, with an empty registry."""
    with patch("headrace.converters.registry.converter.SchemaRegistry", FakeRegistry):
        return configured(ProtobufConverter(), {"schema.registry.url": "http://localhost:1", **(settings or {})})


def written(converter: ProtobufConverter, text: str, value: Any, *indexes: int) -> bytes:
    """The bytes that a producer sends: `value` in Protobuf's JSON, as the message at these indexes, or as bytes."""
    number = registry_of(converter).register("t-value", text)
    path = list(indexes) or [0]
    body = value
    if not isinstance(value, bytes):
        body = ParseDict(value, GetMessageClass(message_at(file_of(text), path))()).SerializeToString()
    return b"\x00" + number.to_bytes(4, "big") + indexes_after(path) + body


def as_dict(converter: ProtobufConverter, data: bytes) -> tuple[str, Any]:
    """The full name of the message in some bytes, and its value in Protobuf's JSON, by Python's library."""
    text = registry_of(converter).schema(int.from_bytes(data[1:5], "big"))
    indexes = indexes_of_bytes(data[5:])
    message = message_at(file_of(text), indexes)
    value = GetMessageClass(message).FromString(data[5 + len(indexes_after(indexes)) :])
    return message.full_name, MessageToDict(value, preserving_proto_field_name=True)


def encoded(spark: SparkSession, converter: ProtobufConverter, schema: Schema, values: Sequence[Any]) -> list[Any]:
    """The bytes, or the error's text."""
    row = StructType([StructField("n", IntegerType()), StructField("v", spark_type(schema))])
    converter.learn("t", schema)
    made = converter.encode_for(F.lit("t"), F.col("v"), schema)
    frame = spark.createDataFrame(list(enumerate(values)), row).coalesce(1)
    columns = [F.col("n"), made.value.alias("v"), F.when(made.value.isNull(), made.error).alias("e")]
    got = sorted(frame.select(*columns).collect(), key=lambda one: int(one.n))
    return [one.e if one.v is None else bytes(one.v) for one in got]


def plain(value: Any) -> Any:
    """A collected value in types that compare."""
    match value:
        case bytearray():
            return bytes(value)
        case dt.datetime():
            return value.replace(tzinfo=dt.UTC)
        case tuple():
            return tuple(plain(one) for one in value)
        case list():
            return [plain(one) for one in value]
        case dict():
            return {plain(k): plain(v) for k, v in value.items()}
    return value


def type_of(schema: Schema | None) -> Any:
    """A schema in short: types with `?` if optional, structs by name."""
    assert schema is not None
    sign = "?" if schema.optional else ""
    match schema.type:
        case T.STRUCT:
            return schema.name, sign, {field.name: type_of(field.schema) for field in schema.fields}
        case T.ARRAY:
            return [type_of(schema.value_schema)]
        case T.MAP:
            return {type_of(schema.key_schema): type_of(schema.value_schema)}
    return f"{(schema.name or schema.type.value).rpartition('.')[2]}{sign}"


SCALARS = """syntax = "proto3";
package shop;
import "confluent/meta.proto";
message Scalars {
  int32 a = 1; sint32 b = 2; sfixed32 c = 3; uint32 d = 4; fixed32 e = 5;
  int64 f = 6; sint64 g = 7; uint64 h = 8; fixed64 i = 9; sfixed64 j = 10;
  float k = 11; double l = 12; bool m = 13; string n = 14; bytes o = 15;
  int32 p = 16 [(confluent.field_meta) = {params: [{key: "connect.type", value: "int8"}]}];
  int32 q = 17 [(confluent.field_meta) = {params: {key: "connect.type" value: "int16"}}];
}
"""
LARGEST = {
    "a": -(1 << 31), "b": -5, "c": -6, "d": (1 << 32) - 1, "e": (1 << 32) - 2,
    "f": -(1 << 63), "g": -7, "h": (1 << 64) - 1, "i": 1 << 63, "j": -8,
    "k": 1.5, "l": -2.25, "m": True, "n": "é😀", "o": "AP8=", "p": -128, "q": 32767,
}  # fmt: skip


def test_scalars_are_read_as_connects_types(spark: SparkSession) -> None:
    converter = protobuf()
    got, empty = read(spark, converter, [written(converter, SCALARS, LARGEST), written(converter, SCALARS, {})])
    assert got.error is None
    assert got.schema is not None
    assert plain(got.value) == (
        *(-(1 << 31), -5, -6, (1 << 32) - 1, (1 << 32) - 2, -(1 << 63), -7, -1, -(1 << 63), -8),
        *(1.5, -2.25, True, "é😀", b"\x00\xff", -128, 32767),
    )
    assert plain(empty.value) == (*[0] * 10, 0.0, 0.0, False, "", b"", 0, 0)
    kinds = [*["int32?"] * 3, *["int64?"] * 7, "float?", "double?", "boolean?", "string?", "bytes?", "int8?", "int16?"]
    assert type_of(got.schema) == ("Scalars", "", dict(zip("abcdefghijklmnopq", kinds, strict=True)))
    assert [field.schema.parameters.get(TYPE) for field in got.schema.fields] == [
        *[None, "sint32", "sfixed32", "uint32", "fixed32", None, "sint64", "uint64", "fixed64", "sfixed64"],
        *[None] * 7,
    ]
    assert [field.schema.parameters[TAG] for field in got.schema.fields] == [str(number + 1) for number in range(17)]
    assert got.schema.version == 1


SHOP = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/any.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
import "confluent/type/decimal.proto";
import "confluent/meta.proto";
message Unused { message Deeper { message Deepest { string x = 1; } } }
message Order {
  enum Color { RED = 0; BLUE = 7; }
  message Line { string sku = 1; int32 count = 2; }
  oneof payment { string card = 1; Line voucher = 2; }
  Color color = 3;
  optional int32 weight = 4;
  repeated Line lines = 5;
  repeated Color colors = 6;
  map<string, Line> by_sku = 7;
  map<int32, bytes> blob_of = 8;
  google.protobuf.Timestamp at = 9;
  google.type.Date day = 10;
  google.type.TimeOfDay time = 11;
  confluent.type.Decimal price = 12 [(confluent.field_meta) = {params: [{key: "scale", value: "2"}]}];
  google.protobuf.StringValue note = 13;
  google.protobuf.UInt32Value size = 14;
  google.protobuf.Any any = 15;
  Line first = 16;
  oneof later { int32 days = 17; bool never = 18; }
}
"""
ORDER = {
    "voucher": {"sku": "v", "count": 1},
    "color": "BLUE",
    "weight": 0,
    "lines": [{"sku": "a"}, {"count": 2}],
    "colors": ["BLUE", 9, "RED"],
    "by_sku": {"a": {"sku": "a"}},
    "blob_of": {"5": "AQ=="},
    "at": "1969-12-31T23:59:59.998999Z",
    "day": {"year": 2024, "month": 2, "day": 29},
    "time": {"hours": 23, "minutes": 59, "seconds": 58, "nanos": 123456789},
    "price": {"value": "/wE=", "precision": 3, "scale": 2},
    "note": "n",
    "size": 4294967295,
    "never": False,
}
LINE = ("Line", "?", {"sku": "string?", "count": "int32?"})


def test_messages_are_read_as_the_tables_say(spark: SparkSession) -> None:
    converter = protobuf()
    full, empty = read(spark, converter, [written(converter, SHOP, value, 1) for value in (ORDER, {})])
    assert full.error is None
    union = f"{UNION}.payment"
    assert type_of(full.schema) == (
        "Order",
        "",
        {
            "payment_0": (union, "?", {"card": "string?", "voucher": LINE}),
            "later_1": (f"{UNION}.later", "?", {"days": "int32?", "never": "boolean?"}),
            "color": "Color?",
            "weight": "int32?",
            "lines": [LINE],
            "colors": ["Color?"],
            "by_sku": {"string?": LINE},
            "blob_of": {"int32?": "bytes?"},
            "at": "Timestamp?",
            "day": "Date?",
            "time": "Time?",
            "price": "Decimal?",
            "note": ("StringValue", "?", {"value": "string?"}),
            "size": ("UInt32Value", "?", {"value": "int64?"}),
            "any": ("Any", "?", {"type_url": "string?", "value": "bytes?"}),
            "first": LINE,
        },
    )
    assert full.schema is not None
    names = {field.name: field.schema.name for field in full.schema.fields}
    assert (names["by_sku"], names["blob_of"]) == ("by_sku", "blob_of")
    color = full.schema.field("color")
    assert color is not None
    assert color.schema.parameters == {ENUM: "Color", f"{ENUM}.RED": "0", f"{ENUM}.BLUE": "7", TAG: "3"}
    ms = dt.timedelta(milliseconds=-2)
    assert plain(full.value) == (
        (None, ("v", 1)),
        (None, False),
        "BLUE",
        0,
        [("a", 0), ("", 2)],
        ["BLUE", "UNKNOWN_ENUM_VALUE_Color_9", "RED"],
        {"a": ("a", 0)},
        {5: b"\x01"},
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + ms,
        dt.date(2024, 2, 29),
        86398123,
        Decimal("-2.55"),
        ("n",),
        (4294967295,),
        None,
        None,
    )
    assert plain(empty.value) == (None, None, "RED", None, [], [], {}, {}, *[None] * 8)


SWITCHES: list[tuple[str, str, str, Any, Any]] = [
    ("generate.index.for.unions", "false", "payment", (UNION + ".payment", "?", None), (None, ("v", 1))),
    ("flatten.unions", "true", "card", "string?", None),
    ("flatten.unions", "true", "voucher", LINE, ("v", 1)),
    ("int.for.enums", "true", "color", "Color?", 7),
    ("int.for.enums", "true", "colors", ["Color?"], [7, 9, 0]),
    ("enhanced.protobuf.schema.support", "true", "first", ("shop.Order.Line", "?", None), None),
    ("generate.struct.for.nulls", "true", "first", LINE, ("", 0)),
    ("generate.struct.for.nulls", "true", "payment_0", (UNION + ".payment", "?", None), (None, ("v", 1))),
    ("wrapper.for.nullables", "true", "note", "string?", "n"),
    ("wrapper.for.nullables", "true", "size", "int64?", 4294967295),
    ("wrapper.for.nullables", "true", "weight", "int32?", 0),
    ("wrapper.for.nullables", "true", "first", ("Line", "?", {"sku": "string", "count": "int32"}), None),
    ("optional.for.nullables", "true", "weight", "int32?", 0),
    ("optional.for.nullables", "true", "first", ("Line", "?", {"sku": "string", "count": "int32"}), None),
]


def test_settings_change_what_is_read(spark: SparkSession) -> None:
    for key, value, name, kind, wanted in SWITCHES:
        converter = protobuf({key: value})
        data = written(converter, SHOP, ORDER, 1)
        schema = converter.resolve(data[:7], "t")
        assert schema is not None
        field = schema.field(name)
        assert field is not None, (key, name)
        told = type_of(field.schema)
        assert told == kind or (told[:2] == kind[:2] and kind[2] is None), (key, name)
        decoded = converter.decode(F.col("v"), data[:7], schema)
        (row,) = spark.createDataFrame([(data,)], "v binary").select(decoded.value.alias("v")).collect()
        assert plain(row.v[name]) == wanted, (key, name)


def test_presence_of_proto2_and_its_defaults(spark: SparkSession) -> None:
    text = """syntax = "proto2";
    message Old { required int32 id = 1; optional string name = 2 [default = "none"]; repeated int32 more = 3; }"""
    for honoured, name in (("true", None), ("false", "none")):
        converter = protobuf({"optional.for.proto2": honoured})
        good = written(converter, text, {"id": 5, "more": [1, 2]})
        got, lacking = read(spark, converter, [good, good[:6]])
        assert plain(got.value) == (5, name, [1, 2])
        assert lacking.error is not None
        assert "Old: Message missing required fields: id" in lacking.error


def test_the_message_is_found_by_its_indexes_and_among_references(spark: SparkSession) -> None:
    other = 'syntax = "proto3"; package o; import public "deep/c.proto"; message B { deep.C c = 1; }'
    deep = 'syntax = "proto3"; package deep; message C { string x = 1; }'
    main = 'syntax = "proto3"; import "b.proto"; message A { message In { message Low { o.B b = 1; } } deep.C c = 2; }'
    text = bundle(main, [("b.proto", other), ("deep/c.proto", deep)])
    converter = protobuf()
    data = [
        written(converter, text, {"b": {"c": {"x": "deep"}}}, 0, 0, 0),
        written(converter, text, {"c": {"x": "top"}}),
        written(converter, SHOP, {"x": "other"}, 0, 0, 0),
    ]
    assert data[0][5:9] == b"\x06\x00\x00\x00"
    data.append(data[1][:5] + b"\x02\x00" + data[1][6:])
    got = read(spark, converter, data)
    assert [(one.schema and one.schema.name, plain(one.value)) for one in got] == [
        ("Low", ((("deep",),),)),
        ("A", (("top",),)),
        ("Deepest", ("other",)),
        ("A", (("top",),)),
    ]


@pytest.mark.parametrize("start", [b"\x00\x00\x00\x00\x01", b"\x01" + (1).to_bytes(16, "big")])
def test_a_header_may_name_the_schema_and_the_message(spark: SparkSession, start: bytes) -> None:
    converter = protobuf()
    data = written(converter, SHOP, {"weight": 3}, 1)
    header = start + data[5:7]
    rows = [
        ("t", 0, 0, 0, [{"key": "__value_schema_id", "value": header}], None, data[7:]),
        ("t", 0, 0, 0, None, None, header + data[7:]),
    ]
    value = ConverterBinding(converter, "P").learned([(header, "t")])
    key = ConverterBinding(ByteArrayConverter(), "K")
    got = to_records(spark.createDataFrame(rows, KAFKA_ROW), key, value).frame.select("value_0", "error").collect()
    assert [(row[0].weight, row.error) for row in got] == [(3, None)] * 2


def test_hostile_bytes_are_errors_of_their_rows_only(spark: SparkSession) -> None:
    converter = protobuf()
    good = written(converter, SHOP, ORDER, 1)
    recursive = 'syntax = "proto3"; message R { R r = 1; }'
    bad = {
        b"": "Unknown magic byte",
        b"\x00": "Unknown magic byte",
        good[:5]: "Unknown magic byte",
        good[:5] + b"\x80": "Unknown magic byte",
        good[:5] + b"\xfe\xff\xff\xff\x0f": "Unknown magic byte",
        good[:5] + b"\x01\x00": "Unknown magic byte",  # a count of -1
        good[:5] + b"\x02\x63": "no message at the indexes",
        good[:5] + b"\x02\x28" + good[7:]: "no message at the indexes",
        b"\x00\x00\x00\x00\x63\x00": "Schema 99 not found",
        good[:-1]: "Order: ",
        good[:7] + b"\xff" * 20: "Order: ",
        good[:7] + b"\x52\x02\x10\x0d": "Order: ",  # the month 13
        good[:7] + b"\x5a\x04\x08\x18\x10\x1e": "88200000 is not between 0 and 86400000",  # half past 24
        good[:7] + b"\x62\x05\x0a\x01\x01\x18\x03": "more than 2 digits after the decimal point",
        good[:7] + b"\x62\x02\x18\x02": "A Decimal has no bytes",
        good[:7] + b"\x62\x15\x0a\x11\x7f" + bytes(16) + b"\x18\x02": "more than 38 digits",
        good[:7] + b"\x0a\x01\xff": "UTF-8",
        written(converter, recursive, {}): "contains itself",
        written(converter, 'syntax = "proto3"; import "/etc/passwd"; message A {}', b""): "/etc/passwd",
        written(converter, 'edition = "2023"; message A {}', b""): "edition",
    }
    got = read(spark, converter, [good, *bad, good])
    assert got[0].error is got[-1].error is None
    for data, told, one in zip(bad, bad.values(), got[1:-1], strict=True):
        assert one.error is not None, (data, one.value)
        assert told in one.error, (data, one.error)
        assert one.error.startswith("Failed to deserialize data for topic t to Protobuf: ")


COLOR = Schema(T.STRING, True, name="Color", parameters={ENUM: "Color", f"{ENUM}.BLUE": "7", f"{ENUM}.RED": "0"})
ITEM = Schema(T.STRUCT, True, name="shop.Item", fields=(Field("sku", STRING), Field("n", Schema(T.INT32, True))))
PAY = Schema(
    T.STRUCT, True, name=f"{UNION}.pay", fields=(Field("card", OPTIONAL_STRING), Field("cash", Schema(T.INT64, True)))
)
EVERYTHING = Schema(
    T.STRUCT,
    name="shop.Everything",
    fields=(
        Field("i8", Schema(T.INT8)),
        Field("i16", Schema(T.INT16, True)),
        Field("u32", Schema(T.INT64, parameters={TYPE: "uint32", TAG: "40"})),
        Field("f", Schema(T.FLOAT32)),
        Field("d", Schema(T.FLOAT64)),
        Field("b", Schema(T.BOOLEAN)),
        Field("s", OPTIONAL_STRING),
        Field("raw", Schema(T.BYTES, True)),
        Field("color", COLOR),
        Field("price", Schema(T.BYTES, True, name=DECIMAL, version=1, parameters={"scale": "2"})),
        Field("day", Schema(T.INT32, True, name=DATE, version=1)),
        Field("time", Schema(T.INT32, True, name=TIME, version=1)),
        Field("at", Schema(T.INT64, True, name=TIMESTAMP, version=1)),
        Field("item", ITEM),
        Field("items", Schema(T.ARRAY, True, value_schema=ITEM)),
        Field("Item", Schema(T.STRUCT, True, name="Item", fields=(Field("x", STRING),))),
        Field("of", Schema(T.MAP, True, key_schema=STRING, value_schema=Schema(T.INT64))),
        Field("small_of", Schema(T.MAP, True, key_schema=Schema(T.FLOAT64), value_schema=Schema(T.INT8))),
        Field("pay_0", PAY),
        Field("unnamed", Schema(T.STRUCT, True, fields=(Field("y", Schema(T.INT32)),))),
    ),
)
TEXT = """syntax = "proto3";
package shop;

import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";

message Everything {
  int32 i8 = 1 [(confluent.field_meta) = {params: [{key: "connect.type", value: "int8"}]}];
  int32 i16 = 2 [(confluent.field_meta) = {params: [{key: "connect.type", value: "int16"}]}];
  uint32 u32 = 40;
  float f = 3;
  double d = 4;
  bool b = 5;
  string s = 6;
  bytes raw = 7;
  Color color = 8;
  confluent.type.Decimal price = 9 [(confluent.field_meta) = {params: [{key: "scale", value: "2"}]}];
  google.type.Date day = 10;
  google.type.TimeOfDay time = 11;
  google.protobuf.Timestamp at = 12;
  ItemMessage item = 13;
  repeated ItemMessage items = 14;
  ItemMessage Item = 15;
  map<string, int64> of = 16;
  repeated SmallOfEntry small_of = 17;
  oneof pay {
    string card = 18;
    int64 cash = 19;
  }
  ConnectDefault1 unnamed = 20;
"""
VALUES = (
    -1, 300, 4294967295, 1.5, 2.5, True, None, b"\x00", "BLUE", Decimal("-2.55"), dt.date(1969, 12, 31), 86399999,
    dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC), ("a", None), [("b", 2)], None, {"k": -1}, {0.5: 1},
    (None, 5), (7,),
)  # fmt: skip


def test_values_of_all_kinds_are_written_and_come_back(spark: SparkSession) -> None:
    fields = tuple(field for field in EVERYTHING.fields if field.name != "Item")
    schema = Schema(T.STRUCT, name="shop.Everything", fields=fields)
    values = tuple(value for field, value in zip(EVERYTHING.fields, VALUES, strict=True) if field.name != "Item")
    converter = protobuf()
    (data,) = encoded(spark, converter, schema, [values])
    assert isinstance(data, bytes), data
    name, found = as_dict(converter, data)
    assert name == "shop.Everything"
    assert found == {
        "i8": -1, "i16": 300, "u32": 4294967295, "f": 1.5, "d": 2.5, "b": True, "raw": "AA==", "color": "BLUE",
        "price": {"value": "/wE=", "precision": 3, "scale": 2}, "day": {"year": 1969, "month": 12, "day": 31},
        "time": {"hours": 23, "minutes": 59, "seconds": 59, "nanos": 999000000}, "at": "1969-12-31T23:59:59.999Z",
        "item": {"sku": "a"}, "items": [{"sku": "b", "n": 2}], "of": {"k": "-1"},
        "small_of": [{"key": 0.5, "value": 1}], "cash": "5", "unnamed": {"y": 7},
    }  # fmt: skip
    (back,) = read(spark, converter, [data])
    assert back.schema is not None
    by_name = {field.name: value for field, value in zip(back.schema.fields, plain(back.value), strict=True)}
    wanted = {field.name: value for field, value in zip(fields, values, strict=True)}
    assert by_name == {**wanted, "s": "", "item": ("a", 0)}
    (again,) = encoded(spark, converter, back.schema, [back.value])
    assert as_dict(converter, again)[1] == found


def test_one_struct_with_two_types_of_one_name_is_refused(spark: SparkSession) -> None:
    (refused,) = encoded(spark, protobuf(), EVERYTHING, [VALUES])
    assert "two different members of the type ItemMessage" in refused


def test_the_text_that_is_registered_is_this() -> None:
    converter = protobuf()
    same = Field("Item", Schema(T.STRUCT, True, name="Item", fields=ITEM.fields))
    item = Field("item", Schema(T.STRUCT, True, name="Item", fields=ITEM.fields))
    items = Field("items", Schema(T.ARRAY, True, value_schema=item.schema))
    other = {"item": item, "items": items, "Item": same}
    fields = tuple(other.get(field.name, field) for field in EVERYTHING.fields)
    converter.learn("t", Schema(T.STRUCT, name="shop.Everything", fields=fields))
    (text,) = registry_of(converter).texts
    assert text.startswith(TEXT)
    assert text.endswith("""
  message ConnectDefault1 {
    int32 y = 1;
  }
}
""")
    file_of(text)


@pytest.mark.parametrize(
    ("setting", "line", "nulls"),
    [
        ({}, "string s = 1;", ""),
        ({"optional.for.nullables": "true"}, "optional string s = 1;", None),
        ({"wrapper.for.nullables": "true"}, "google.protobuf.StringValue s = 1;", None),
    ],
)
def test_nulls_come_back_if_the_settings_keep_them(
    spark: SparkSession, setting: Mapping[str, str], line: str, nulls: str | None
) -> None:
    schema = Schema(T.STRUCT, name="N", fields=(Field("s", OPTIONAL_STRING), Field("e", COLOR)))
    converter = protobuf(setting)
    data = encoded(spark, converter, schema, [(None, "BLUE"), ("x", "RED")])
    assert line in registry_of(converter).texts[0]
    assert [plain(one.value) for one in read(spark, converter, data)] == [(nulls, "BLUE"), ("x", "RED")]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (STRING, "x", "google.protobuf.StringValue"),
        (Schema(T.INT64, True), 5, "google.protobuf.Int64Value"),
        (Schema(T.BYTES), b"\x00", "google.protobuf.BytesValue"),
        (Schema(T.BOOLEAN), False, "google.protobuf.BoolValue"),
    ],
)
def test_values_that_are_no_structs_stand_in_wrappers(
    spark: SparkSession, schema: Schema, value: Any, message: str
) -> None:
    converter = protobuf()
    (data,) = encoded(spark, converter, schema, [value])
    assert as_dict(converter, data)[0] == message
    (back,) = read(spark, converter, [data])
    assert plain(back.value) == value
    assert back.schema is not None
    assert back.schema.type is schema.type
    kept = protobuf({"wrapper.for.raw.primitives": "false"})
    registry_of(kept).texts = registry_of(converter).texts
    (whole,) = read(spark, kept, [data])
    assert plain(whole.value) == (value,)


def test_nulls_and_values_that_do_not_fit_are_errors_of_their_records(spark: SparkSession) -> None:
    schema = Schema(
        T.STRUCT,
        fields=(
            Field("id", Schema(T.INT64, parameters={TYPE: "uint32"})),
            Field("color", COLOR),
            Field("list", Schema(T.ARRAY, True, value_schema=OPTIONAL_STRING)),
            Field("time", Schema(T.INT32, True, name=TIME)),
            Field("pay_0", PAY),
            Field("with", Schema(T.INT32, default=5)),
        ),
    )
    converter = protobuf()
    good, *bad = encoded(
        spark,
        converter,
        schema,
        [
            (1, None, None, None, None, None),
            (None, None, None, None, None, None),
            (1 << 32, None, None, None, None, None),
            (-1, None, None, None, None, None),
            (1, "GREEN", None, None, None, None),
            (1, None, ["a", None], None, None, None),
            (1, None, None, 86400001, None, None),
            (1, None, None, None, (None, None), None),
            None,
        ],
    )
    assert as_dict(converter, good)[1] == {"id": 1, "with": 5}
    assert bad == [
        f"{WRITE_FAILED}Found null value for non-optional schema: field id",
        f"{WRITE_FAILED}The field id of type uint32 cannot hold 4294967296",
        f"{WRITE_FAILED}The field id of type uint32 cannot hold -1",
        f"{WRITE_FAILED}The enum Color has no symbol GREEN",
        f"{WRITE_FAILED}The repeated field list cannot hold a null",
        f"{WRITE_FAILED}A Time of 86400001 ms is not within a day",
        f"{WRITE_FAILED}No member of the oneof pay_0 is set",
        "Found null value for non-optional schema",
    ]


def test_a_latest_schema_takes_the_fields_that_it_has(spark: SparkSession) -> None:
    text = """syntax = "proto3"; package a; import "google/protobuf/wrappers.proto"; message Other { int32 x = 1; }
    message R { google.protobuf.Int32Value n = 5; string more = 6; }"""
    settings = {"auto.register.schemas": "false", "use.latest.version": "true", "latest.compatibility.strict": "false"}
    converter = protobuf(settings)
    registry_of(converter).register("t-value", text)
    schema = Schema(T.STRUCT, name="a.R", fields=(Field("n", Schema(T.INT32)), Field("gone", STRING)))
    (data,) = encoded(spark, converter, schema, [(3, "x")])
    assert data[5:7] == b"\x02\x02"
    assert as_dict(converter, data) == ("a.R", {"n": 3})
    wrong = Schema(T.STRUCT, name="a.R", fields=(Field("n", STRING),))
    (refused,) = encoded(spark, converter, wrong, [("x",)])
    assert "Values of the type STRING do not fit the registered Protobuf field" in refused


def test_inline_it_does_the_same(spark: SparkSession) -> None:
    converter = protobuf()
    good = written(converter, SHOP, ORDER, 1)
    rows = kafka_rows(spark, [(None, good)])
    _, key, value = learned(rows, ConverterBinding(ByteArrayConverter(), "K"), ConverterBinding(converter, "V"))
    kafka = [dict.fromkeys(KAFKA_ROW.fieldNames()) | {"topic": "t", "value": data} for data in (good, None)]
    got = compiled(spark, KAFKA_ROW, lambda frame: to_records(frame, key, value).frame, kafka)
    assert got[0]["value_0"]["color"] == "BLUE"
    assert got[1]["value_0"] is None
    ((_, schema),) = value.known
    assert schema is not None
    converter.learn("t", schema)
    again = compiled(
        spark,
        StructType([StructField("v", spark_type(schema))]),
        lambda frame: frame.select(converter.encode_for(F.lit("t"), F.col("v"), schema).value.alias("v")),
        [{"v": {**got[0]["value_0"], "colors": ["RED"]}}, {"v": None}],
    )
    assert as_dict(converter, again[0]["v"])[1]["lines"] == [{"sku": "a"}, {"count": 2}]
    assert again[1]["v"] is None


def test_a_value_is_shown_in_protobufs_json() -> None:
    converter = protobuf()
    shown = json.loads(converter.shown(written(converter, SHOP, {"at": "2024-01-01T00:00:00Z", "weight": 1}, 1)))
    assert shown == {"at": "2024-01-01T00:00:00Z", "weight": 1}
    for data in (b"", b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01\x02\x02\xff"):
        with pytest.raises(DataError):
            converter.shown(data)


@dataclass
class Line:
    """A struct within another."""

    sku: str
    count: int | None


@dataclass
class Parcel:
    """Of each kind of value one."""

    id: int
    weight: float | None
    note: str | None
    data: bytes
    fragile: bool | None
    at: dt.datetime
    day: dt.date | None
    lines: list[Line]
    first: Line | None
    sizes: dict[str, int]


class TestContract(ConverterContract):
    converter = ProtobufConverter
    schemas: ClassVar = [Parcel, str, int, bytes]

    @pytest.fixture
    def made(self) -> ProtobufConverter:
        return protobuf({"optional.for.nullables": "true"})
