"""JSON arrays, maps and structs: what is read quickly, what thoroughly, what never; compiled inline and as a job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.converters.json.converter import JsonConverter
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.interop.conversion.encode import to_bytes
from headrace.plugins.interop.java.json_text import quoted
from tests.spark.converting import KAFKA_ROW, compiled, configured, kafka_rows, read

pytestmark = [pytest.mark.spark, pytest.mark.long]

CONNECT: Final = "org.apache.kafka.connect.data."
Node = dict[str, Any]


def optional(kind: str, field: str, **more: Any) -> Node:
    """A field."""
    return {"type": kind, "optional": True, **more, "field": field}


def struct(*fields: Node) -> Node:
    """A required struct."""
    return {"type": "struct", "fields": list(fields), "optional": False}


FLAT: Final = struct(
    {"type": "int32", "optional": False, "field": "id"},
    optional("string", "name"),
    optional("double", "amount", default=1.5),
    optional("bytes", "price", name=CONNECT + "Decimal", parameters={"scale": "2"}),
    optional("int64", "at", name=CONNECT + "Timestamp"),
)
NESTED: Final = struct(
    optional("string", "name"),
    {**FLAT, "optional": True, "field": "in"},
    optional("array", "tags", items={"type": "string", "optional": False}),
    optional("map", "sizes", keys={"type": "string", "optional": False}, values={"type": "int16", "optional": True}),
)
PAIRS: Final = struct(optional("map", "m", keys={"type": "int8"}, values={"type": "string", "optional": True}))


def head(schema: Node) -> bytes:
    """The bytes before the payload, as Apache writes them."""
    return f'{{"schema":{json.dumps(schema, separators=(",", ":"))},"payload":'.encode()


def document(schema: Node, payload: str) -> bytes:
    """The whole record."""
    return head(schema) + payload.encode() + b"}"


QUICK: Final = [
    (FLAT, '{"id":1,"name":"a","amount":2.5,"price":"AMg=","at":5}'),
    (FLAT, '{"id":1,"name":null,"amount":null,"price":null,"at":null}'),
    (FLAT, '{"id":1,"name":"1","amount":2,"price":null,"at":-5}'),
    (FLAT, '{"id":1,"name":"a\\"b\\n","amount":-0.0,"price":"AMg=","at":5}'),
    (FLAT, '{"id":1,"name":"\\\\\\",\\"amount\\":\\\\","amount":1,"price":null,"at":5}'),
    (NESTED, '{"name":"2024-01-01","in":{"id":1,"name":"7"},"tags":["a","b"],"sizes":{"s":1,"t":null}}'),
    (NESTED, '{"name":null,"in":null,"tags":null,"sizes":null}'),
]
THOROUGH: Final = [
    (FLAT, '{"name":"5","id":1}', (1, "5", 1.5, None, None)),
    (FLAT, '{"id": 1, "name": "true", "other": [1, {"x": "y"}]}', (1, "true", 1.5, None, None)),
    (FLAT, '{"id":"1"}', (0, None, 1.5, None, None)),
    (FLAT, '{"id":1,"name":5}', (1, None, 1.5, None, None)),
    (FLAT, '{"id":1,"name":5,"x":{"name":"a"}}', (1, None, 1.5, None, None)),
    (FLAT, '{"id":1,"n\\u0061me":5,"x":{"name":"a"}}', (1, None, 1.5, None, None)),
    (FLAT, '{"id":1,"id":2,"name":"\\ud800"}', (2, "?", 1.5, None, None)),
    (FLAT, "[1]", "Structs should be encoded as JSON objects, but found ARRAY"),
    (FLAT, '{"id":null}', "Invalid null value for required INT32 field"),
    (FLAT, '{"id":1}x', "Converting byte[] to Kafka Connect data failed due to serialization error: "),
    (FLAT, '{"id":1},"more":{"a":1}', "JsonConverter with schemas.enable requires"),
    (FLAT, '{"id":1,"name":"' + "x" * 50, "Converting byte[] to Kafka Connect data failed"),
    (FLAT, '{"id":1,"o":' + "[" * 5_000 + "]" * 5_000 + "}", "Converting byte[] to Kafka Connect data failed"),
    (FLAT, '{"id":1,"at":9223372036854775807}', "Invalid Timestamp: beyond the years"),
    (FLAT, '{"id":1,"price":1.005}', "Invalid Decimal: Headrace holds 38 digits, 2 of them"),
    (PAIRS, '{"m":[[1,"a"],[1,"b"],[2,null]]}', ({1: "b", 2: None},)),
    (PAIRS, '{"m":[[1]]}', "Found invalid map entry, expected length 2 but found :1"),
    (PAIRS, '{"m":{}}', "Maps with non-string fields should be encoded as JSON array of tuples, but found OBJECT"),
    (
        PAIRS,
        '{"m":[' + ",".join(f'[{n % 3},"{n}"]' for n in range(20_000)) + "]}",
        ({0: "19998", 1: "19999", 2: "19997"},),
    ),
]


def test_the_usual_is_read_quickly(spark: SparkSession) -> None:
    """Without the thorough program, which costs several times as much."""
    documents = [document(schema, payload) for schema, payload in QUICK]
    side = ConverterBinding(configured(JsonConverter()), "V").learned(
        [(head(schema), "t") for schema in (FLAT, NESTED)]
    )
    records = to_records(
        kafka_rows(spark, [(None, one) for one in documents]), ConverterBinding(configured(JsonConverter()), "K"), side
    )
    rows = records.frame.sort("offset").collect()
    assert [(row.unknown_value, row.error) for row in rows] == [(None, None)] * len(QUICK)
    assert [row[f"value_{row.value_schema}"].name for row in rows] == [
        "a",
        None,
        "1",
        'a"b\n',
        '\\","amount":\\',
        "2024-01-01",
        None,
    ]


def test_the_odd_is_read_thoroughly(spark: SparkSession) -> None:
    got = read(spark, configured(JsonConverter()), [document(schema, payload) for schema, payload, _ in THOROUGH])
    for one, (_, payload, wanted) in zip(got, THOROUGH, strict=True):
        if isinstance(wanted, str):
            assert wanted in str(one.error), payload[:80]
        else:
            assert (one.error, one.value and tuple(one.value)) == (None, wanted), payload[:80]


def wide_and_deep(fields: int, depth: int) -> Node:
    """A struct of that many fields, one of them structs in structs."""
    kinds = ("string", "int32", "double", "boolean", "bytes", "float", "int64")
    inner = struct(*(optional(kinds[n % len(kinds)], f"f{n}") for n in range(fields - 1)))
    for _ in range(depth - 1):
        inner = struct(*inner["fields"][:-1], {**inner, "optional": True, "field": "inner"})
    return inner


@pytest.mark.parametrize(("fields", "depth"), [(30, 1), (9, 4)])
def test_large_schemas_are_read_and_written_here(spark: SparkSession, fields: int, depth: int) -> None:
    schema = wide_and_deep(fields, depth)
    documents = [document(schema, payload) for payload in payloads(schema)]
    key, value = (ConverterBinding(configured(JsonConverter()), name) for name in "KV")
    for _ in ("quickly", "thoroughly"):
        value = value.learned([(head(schema), "t")])

    def build(rows: DataFrame) -> DataFrame:
        return to_bytes(to_records(rows, key, value), key, value).select("value", "error")

    given = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "headers": None, "key": None}
    got = compiled(spark, KAFKA_ROW, build, [{**given, "value": one} for one in documents])
    assert [json.loads(one["value"])["payload"] for one in got] == [json.loads(one)["payload"] for one in documents]


def payloads(schema: Node) -> Sequence[str]:
    """One of the usual spelling, one in another order."""
    examples = {"string": '"5"', "int32": "-7", "double": "1.5", "boolean": "true", "bytes": '"aGk="', "struct": None}

    def payload(of: Node, backwards: bool) -> str:
        members = [
            f'"{f["field"]}":{examples.get(f["type"], "3") or payload(f, backwards)}'
            for f in (reversed(of["fields"]) if backwards else of["fields"])
        ]
        return "{" + ",".join(members) + "}"

    return [payload(schema, backwards=False), payload(schema, backwards=True)]


def test_texts_are_quoted_as_jackson_does(spark: SparkSession) -> None:
    texts = ["", "a", 'q"', "\\", "\t\n\x01\x1f\x7f", "é漢", "😀a😀", "é😀\x00", "a" * 300, "\\ud83d", "/", None]
    frame = spark.createDataFrame([(one,) for one in texts], "t string")
    got = [row.json for row in frame.select(quoted(F.col("t"), "<", ">").alias("json")).collect()]
    jackson = spark._jvm.com.fasterxml.jackson.databind.ObjectMapper()  # type: ignore[union-attr]
    assert got == [None if one is None else f"<{jackson.writeValueAsBytes(one).decode()}>" for one in texts]
    assert got[6] == '<"\\uD83D\\uDE00a\\uD83D\\uDE00">'
    assert all(one is None or json.loads(one[1:-1]) == text for one, text in zip(got, texts, strict=True))
