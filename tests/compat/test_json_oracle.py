"""JsonConverter against Apache's own: the same documents are read alike, the same values give the same bytes."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from headrace.converters.json.converter import JsonConverter
from headrace.converters.json.schema import parse_schema, read_json
from headrace.plugins.schema import SchemaType, spark_type
from tests.compat.advice import without_advice
from tests.compat.json_oracle import Apache
from tests.spark.converting import Read, configured, read

pytestmark = pytest.mark.spark

PAYLOADS: Final = [
    *('"abc"', '""', '"a\\"b"', '"a\\\\"', '"\\\\\\""', '"\\q"', '"\\u00e9\\ud83d\\ude00"', '"\\ud800x"', '"é漢"'),
    *("null", "1", "-1", "007", "0", "-0", "-0.0", "1.5", "-1.9", "1e3", "300", "70000", "123456789012"),
    *("12345678901234567890", "-12345678901234567890123456789012345678", "0.1", "1.17549435E-38", "NaN", "nul"),
    *("true", "false", '"true"', '"5"', "[1]", '{"a":1.10}', "[]", '"aGVsbG8="', '"a"', '"YQ"', '"!!!!"', '" YQ== "'),
    *('"x"x', '"x"}', '"x"} trailing', '"x"}{"a":1}', "1}1", ' "sp" ', "\t1 ", '"x","extra":1', ""),
]
ODD_DOCUMENTS: Final = [
    *(
        "",
        "  ",
        "5",
        "[1]",
        '"x"',
        "null",
        "nul",
        "{}",
        '{"schema":null}',
        '{"payload":1}',
        "{'schema':null,'payload':1}",
    ),
    '{"schema":{},"payload":1}',
    '{"schema":{"type":"foo"},"payload":1}',
    '{"schema":"abc","payload":1}',
    '{"schema":5,"payload":1}',
    '{"schema":{"type":"string","parameters":{"a":"b","payload":"c"}},"payload":"x"}',
    '{"schema":{"type":"string","parameters":{"a":1}},"payload":"x"}',
    '{"schema":{"type":"string","doc":",\\"payload\\":"},"payload":"x"}',
    '{"schema":{"type":"string"},"other":1,"payload":"x"}',
    '{"schema":{"type":"string","default":"dd"},"payload":null}',
    '{"schema":{"type":"int32","default":"dd","optional":true},"payload":null}',
    '{"schema":{"type":"bytes","default":"aGk="},"payload":null}',
    '{"schema":{"type":"double","default":1e10},"payload":null}',
    '{"schema":{"type":"boolean","default":true},"payload":null}',
    '{"payload":"first","schema":{"type":"string"}}',
    '{ "schema" : {"type":"string"} ,\n "payload" : "spaced" }',
]
BAD_UTF8: Final = [
    b'{"schema":{"type":"string"},"payload":"\xff"}',
    b'{"schema":{"type":"string"},"payload":"\xed\xa0\x80"}',
    b'{"schema":{"type":"string","doc":"\xff"},"payload":"x"}',
    b"\xff",
]


def text(got: Read) -> str:
    """As the oracle says it."""
    if got.error is not None:
        return f"error:{without_advice(got.error)}"
    if got.schema is None:
        return f"schemaless:{got.value or 'null'}"
    value = got.value
    if value is None:
        return f"{got.schema.type.name}:null"
    match got.schema.type:
        case SchemaType.FLOAT32:
            value = struct.unpack(">i", struct.pack(">f", value))[0]
        case SchemaType.FLOAT64:
            value = struct.unpack(">q", struct.pack(">d", value))[0]
        case SchemaType.BYTES:
            value = base64.b64encode(value).decode()
        case SchemaType.BOOLEAN:
            value = str(value).lower()
    return f"{got.schema.type.name}:{value}"


def reads_alike(spark: SparkSession, apache: Apache, options: Mapping[str, str], documents: Sequence[bytes]) -> None:
    java = apache.json_converter(options)
    ours = [text(got) for got in read(spark, configured(JsonConverter(), options), documents)]
    wanted = [java.read(document) for document in documents]
    rows = zip(documents, wanted, ours, strict=True)
    assert [row for row in rows if meaning(row[1]) != meaning(row[2])] == []


def meaning(said: str) -> str:
    """Schemaless values by what their JSON means; a lone surrogate becomes a `?` once it is UTF-8, in Java too."""
    kind, _, value = said.partition(":")
    return ascii(json.loads(value)).replace("\\ud800", "?") if kind == "schemaless" else said


@pytest.mark.parametrize(
    "kind",
    [
        *("string", "int32", "double", "bytes"),
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("int8", "int16", "int64", "float", "boolean")),
    ],
)
def test_payloads_of_every_kind_under_every_schema(spark: SparkSession, apache: Apache, kind: str) -> None:
    envelopes = ('{"schema":{"type":"%s"},"payload":%s}', '{"payload" : %s, "schema" : {"type":"%s","optional":true}}')
    documents = [envelopes[0] % (kind, payload) for payload in PAYLOADS]
    documents += [envelopes[1] % (payload, kind) for payload in PAYLOADS]
    reads_alike(spark, apache, {}, [document.encode() for document in documents])


def test_documents_that_are_odd_or_broken(spark: SparkSession, apache: Apache) -> None:
    reads_alike(spark, apache, {}, [*(document.encode() for document in ODD_DOCUMENTS), *BAD_UTF8])


@pytest.mark.parametrize(
    "options",
    [
        {"schemas.enable": "false"},
        {"schema.content": '{"type":"string"}'},
        {"schema.content": '{"type":"int16","default":7}'},
        {"schema.content": '{"type":"boolean"}'},
        {"schema.content": '{"type":"bytes","optional":true}', "replace.null.with.default": "false"},
    ],
    ids=str,
)
def test_documents_without_envelope(spark: SparkSession, apache: Apache, options: dict[str, str]) -> None:
    documents = [*PAYLOADS, " ", '{"a":[1,{"b":null}]}x', '"x" y', "1 x", '{"a":1', "truex", "null x"]
    reads_alike(spark, apache, options, [*(document.encode() for document in documents), b"\xff", b'"\xff"'])


def test_schemaless_in_an_envelope(spark: SparkSession, apache: Apache) -> None:
    documents = [f'{{"schema":null,"payload":{payload}}}' for payload in PAYLOADS]
    documents += [f'{{"payload":{payload},"schema":null}}' for payload in PAYLOADS]
    reads_alike(spark, apache, {}, [document.encode() for document in documents])


MARK: Final = "\ufeff".encode()


@pytest.mark.parametrize("options", [{}, {"schemas.enable": "false"}, {"schema.content": '{"type":"string"}'}], ids=str)
def test_a_byte_order_mark_is_passed_over(spark: SparkSession, apache: Apache, options: dict[str, str]) -> None:
    values = ['"é"', " 5", '{"a":[1]}', "null"]
    documents = [*values, "", " ", '{"a":1', "nul", '"\ufeff"', "\ufeff1", "\ufeff", '"x" y']
    if not options:
        heads = ['{"schema":{"type":"string"},"payload":', '{"payload":']
        tails = ["}", ',"schema":{"type":"string"}}']
        documents = [head + one + tail for head, tail in zip(heads, tails, strict=True) for one in values]
    marked = [MARK + document.encode() for document in documents]
    reads_alike(spark, apache, options, [*marked, documents[-1].encode(), MARK + b'"\xff"'])


def test_a_timestamp_that_is_too_far_is_an_error_of_its_record_alone(spark: SparkSession) -> None:
    schema = '{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp","version":1}'
    documents = [f'{{"schema":{schema},"payload":{millis}}}'.encode() for millis in (-(2**63), 2**63 - 1, 5)]
    first, last, near = read(spark, configured(JsonConverter(), {}), documents)
    assert first.error is not None
    assert last.error is not None
    assert near.error is None


VALUES: Final[dict[str, list[Any]]] = {
    "string": ["abc", "", 'a"b', "\\", "\t\n\x01\x1f\x7f", "é漢😀", "/", None, "a" * 200],
    "int8": [0, -128, 127, None],
    "int16": [-32768, 32767],
    "int32": [2**31 - 1, -(2**31), None],
    "int64": [2**63 - 1, -(2**63)],
    "boolean": [True, False, None],
    "float": [0.0, -0.0, 1.5, 1e10, 3.4028234663852886e38, float("nan"), float("-inf"), None, 9999999.0, 1e7],
    "double": [0.0, -0.0, 1.1, 1e7, 1e-3, 9.99e-4, float("nan"), float("inf"), 4.9e-324, 2e-3, None, 1e21],
    "bytes": [b"", b"a", b"\xff\x00" * 60, None],
}
DEFAULTS: Final = {"string": 'd"\n', "boolean": True, "bytes": "aGk=", "float": 1.1, "double": 1e10}


def schemas(kind: str) -> list[dict[str, Any]]:
    return [
        {"type": kind, "optional": False},
        {"type": kind, "optional": True, "name": 'a "name"\x01', "version": 3, "doc": "é😀", "parameters": {"b": 'x"'}},
        {"type": kind, "optional": False, "default": DEFAULTS.get(kind, 5)},
    ]


def java_argument(value: Any) -> str | None:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return repr(value).replace("nan", "NaN").replace("inf", "Infinity")
    return None if value is None else str(value)


def written(
    spark: SparkSession, options: Mapping[str, str], schema: dict[str, Any], values: Sequence[Any]
) -> list[Any]:
    parsed = parse_schema(read_json(json.dumps(schema)))
    encoded = configured(JsonConverter(), options).encode(F.col("v"), parsed)
    row = StructType([StructField("n", IntegerType()), StructField("v", spark_type(parsed))])
    frame = spark.createDataFrame(list(enumerate(values)), row)
    columns = (encoded.value.alias("data"), F.when(encoded.value.isNull(), encoded.error).alias("error"))
    return [
        bytes(got.data) if got.data is not None else got.error for got in frame.sort("n").select(*columns).collect()
    ]


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"schemas.enable": "false", "replace.null.with.default": "false"}, marks=pytest.mark.long)],
    ids=str,
)
@pytest.mark.parametrize("kind", list(VALUES))
def test_values_are_written_alike(spark: SparkSession, apache: Apache, kind: str, options: dict[str, str]) -> None:
    java = apache.json_converter(options)
    for schema in schemas(kind):
        wanted = [java.write(json.dumps(schema), java_argument(value)) for value in VALUES[kind]]
        assert written(spark, options, schema, VALUES[kind]) == wanted


@pytest.mark.long
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=60, max_size=80))
def test_any_text_goes_both_ways(spark: SparkSession, apache: Apache, texts: list[str]) -> None:
    schema = {"type": "string", "optional": False}
    java = apache.json_converter({})
    documents = written(spark, {}, schema, texts)
    assert documents == [java.write(json.dumps(schema), one) for one in texts]
    assert [got.value for got in read(spark, configured(JsonConverter()), documents)] == texts
