"""JsonConverter against Apache's own: documents of any schema are read and written again, to the same bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.converters.json.converter import JsonConverter
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.interop.conversion.encode import to_bytes
from headrace.plugins.java_text import java_text
from tests.compat.advice import without_advice
from tests.compat.json_documents import CONNECT, ODD, Node, schemas, text
from tests.compat.json_oracle import Apache, JavaJsonConverter
from tests.spark.converting import KAFKA_ROW, compiled, configured, kafka_rows, learned

pytestmark = pytest.mark.spark

OF_EXAMPLES: Final[dict[str, Any]] = {
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate],
}
"""Settings that look for no smaller document: it may differ for another reason, and takes minutes."""
DOCUMENTS = 120
"""Of each schema, half of them odd."""
DECIMAL_KIND: Final[Node] = {
    "type": "bytes",
    "name": CONNECT + "Decimal",
    "parameters": {"scale": "2"},
    "optional": True,
}
PRINTED: Final[list[Node]] = [
    {"type": "int32", "name": CONNECT + "Date", "optional": True},
    {"type": "int32", "name": CONNECT + "Time", "optional": True},
    {"type": "int64", "name": CONNECT + "Timestamp", "optional": True},
    *({"type": kind, "optional": True} for kind in ("string", "boolean", "double", "float", "int8")),
]
KINDS: Final[list[Node]] = [
    *PRINTED,
    *({"type": kind, "optional": True} for kind in ("bytes", "int16", "int32", "int64")),
    {"type": "string", "optional": True, "default": "d"},
    {"type": "bytes", "optional": True, "default": "aGk="},
    DECIMAL_KIND,
    {"type": "array", "items": {"type": "string"}, "optional": True},
    {"type": "array", "items": {"type": "array", "items": {"type": "int32", "optional": True}}, "optional": True},
    {"type": "array", "items": {"type": "int16", "default": 7}, "optional": True},
    {"type": "map", "keys": {"type": "string"}, "values": {"type": "string", "optional": True}, "optional": True},
    {"type": "map", "keys": {"type": "int32"}, "values": {"type": "string", "optional": True}, "optional": True},
    {"type": "map", "keys": {"type": "boolean"}, "values": {"type": "bytes"}, "optional": True},
    {"type": "struct", "fields": [{"type": "string", "field": "a", "optional": True}], "optional": True},
    {"type": "struct", "fields": [], "optional": True},
]
ODD_SCALARS: Final = [
    *('"5"', '"-1"', '"true"', '"{}"', '"NaN"', "1e400", "-1e400", "9" * 20, "9" * 39, "0.1", "1e-3", "-128", "200"),
    *(
        '"AMg="',
        '"YQ"',
        '" YQ== "',
        '"!"',
        '"' + "QUFB" * 8 + '"',
        '"\\u0035"',
        "86400000",
        "86400001",
        "12.50",
        "1E+2",
    ),
]
OPTIONS: Final[list[dict[str, str]]] = [
    {},
    {"decimal.format": "NUMERIC"},
    {"replace.null.with.default": "false"},
]


def through(
    spark: SparkSession, options: Mapping[str, str], documents: Sequence[bytes], before: Sequence[bytes] = (b"",)
) -> list[bytes | str | None]:
    """Each document read and written again, or the error's message; what stands `before` their payloads is known."""
    key, value = (ConverterBinding(configured(JsonConverter(), options), name) for name in "KV")
    for _ in ("quickly", "thoroughly"):
        value = value.learned([(identity, "t") for identity in before])
    rows = kafka_rows(spark, [(None, document) for document in documents])
    frame = to_bytes(to_records(rows, key, value), key, value)
    answers = frame.select("offset", "value", F.col("error.message").alias("message")).collect()
    by_offset = sorted(answers, key=lambda row: int(row.offset))
    return [
        without_advice(row.message) if row.message is not None else row.value and bytes(row.value) for row in by_offset
    ]


def meaning(said: bytes | str | None) -> Any:
    """JSON by what it says, numbers as they are spelled; maps without their order, which Java's have another."""
    if not isinstance(said, bytes):
        return said
    document = json.loads(said, parse_float=lambda spelled: f"number {spelled}")
    return defaults_in_no_order(document["schema"]), in_no_order(document["schema"], document["payload"])


def amounts(document: bytes) -> Any:
    """JSON by what it says, numbers by their amount."""
    read = json.loads(document, parse_float=Decimal)
    return defaults_in_no_order(read["schema"]), in_no_order(read["schema"], read["payload"])


def in_no_order(schema: Node | None, value: Any) -> Any:
    """The value with each map that is written as pairs sorted."""
    if schema is None or value is None or schema["type"] not in ("array", "map", "struct"):
        return value
    if schema["type"] == "array":
        return [in_no_order(schema["items"], item) for item in value]
    if schema["type"] == "struct":
        return {f["field"]: in_no_order(f, value[f["field"]]) for f in schema["fields"]} if value else value
    if isinstance(value, dict):
        return {key: in_no_order(schema["values"], item) for key, item in value.items()}
    return sorted(([key, in_no_order(schema["values"], item)] for key, item in value), key=repr)


def defaults_in_no_order(node: Any) -> Any:
    """The schema with its defaults `in_no_order`."""
    if isinstance(node, list):
        return [defaults_in_no_order(one) for one in node]
    if not isinstance(node, dict):
        return node
    inner = {name: defaults_in_no_order(one) for name, one in node.items() if name != "default"}
    return inner | ({"default": in_no_order(node, node["default"])} if "default" in node else {})


BEYOND_SPARK: Final = (
    "which Headrace cannot hold",
    "Headrace holds 38 digits",
    "beyond the years that Spark's microseconds hold",
)
"""Errors of records with values that Spark cannot hold."""


def is_known(java: JavaJsonConverter, document: bytes, theirs: bytes | str | None, ours: bytes | str | None) -> bool:
    """True if Apache may say this and we that."""
    if isinstance(ours, str) and any(told in ours for told in BEYOND_SPARK):
        return True
    if theirs == "Invalid default value" and document.startswith(_HEAD):
        # Apache writes a struct's default, but cannot read it again: without it, it finds the faults that we find.
        if isinstance(ours, bytes):
            return shape(json.loads(ours)["schema"]) == shape(split(document)[0])
        return ours == java.through(without_struct_defaults(document))
    if str(theirs).startswith("Decimal value has mismatching scale"):
        # Apache keeps the scale that a number was spelled with, and then cannot write it; ours has the schema's.
        return isinstance(ours, bytes) and meaning(java.through(ours)) == meaning(ours)
    if isinstance(theirs, str) and isinstance(ours, str) and "null used for required element" in ours:
        return True  # of two faults in an array, Apache tells those of all elements first
    if isinstance(theirs, bytes) and isinstance(ours, bytes):
        # The same with decimal.format=NUMERIC, which writes that scale: the amounts are equal.
        return amounts(theirs) == amounts(ours) and meaning(java.through(ours)) == meaning(ours)
    return False


_HEAD: Final = b'{"schema":'


def split(document: bytes) -> tuple[Any, str]:
    """The schema, and what follows it."""
    text = document.decode()
    schema, end = json.JSONDecoder().raw_decode(text, len(_HEAD))
    return schema, text[end:]


def shape(node: Any) -> Any:
    """A schema without its defaults, which are spelled in many ways."""
    if isinstance(node, list):
        return [shape(one) for one in node]
    if not isinstance(node, dict):
        return node
    named = {"optional": False} if "type" in node else {}
    return named | {name: shape(one) for name, one in node.items() if name != "default"}


def without_struct_defaults(document: bytes) -> bytes:
    """The document with no default in its schema for a struct."""

    def stripped(node: Any) -> Any:
        if isinstance(node, list):
            return [stripped(one) for one in node]
        if not isinstance(node, dict):
            return node
        kept = {name: one for name, one in node.items() if name != "default" or node["type"] != "struct"}
        return {name: one if name == "default" else stripped(one) for name, one in kept.items()}

    schema, rest = split(document)
    return _HEAD + json.dumps(stripped(schema)).encode() + rest.encode()


def compared(
    spark: SparkSession,
    apache: Apache,
    options: Mapping[str, str],
    documents: Sequence[bytes],
    before: Sequence[bytes],
) -> list[tuple[bytes, Any, Any]]:
    """The documents that Apache reads or writes otherwise, and both answers."""
    java = apache.json_converter(options)
    ours = through(spark, options, documents, before)
    rows = [(document, java.through(document), own) for document, own in zip(documents, ours, strict=True)]
    return [row for row in rows if meaning(row[1]) != meaning(row[2]) and not is_known(java, *row)]


def head(schema: Node) -> bytes:
    """The bytes before the payload."""
    return f'{{"schema":{json.dumps(schema)},"payload":'.encode()


@pytest.mark.long
@settings(max_examples=2, **OF_EXAMPLES)
@given(st.data())
def test_any_schema_and_any_values(spark: SparkSession, apache: Apache, data: st.DataObject) -> None:
    documents, before = [], []
    for _ in range(2):
        fields = [data.draw(schemas(depth=2)) | {"field": f"field{n}"} for n in range(data.draw(st.integers(1, 7)))]
        schema: Node = {"type": "struct", "fields": fields, "optional": data.draw(st.booleans())}
        values = random.Random(data.draw(st.integers(0, 2**32)))
        before.append(head(schema))
        documents += [
            before[-1] + text(schema, values, odd).encode() + b"}" for odd in [0.0, 0.05] for _ in range(DOCUMENTS // 2)
        ]
    assert compared(spark, apache, data.draw(st.sampled_from(OPTIONS)), documents, before) == []


@settings(max_examples=2, **OF_EXAMPLES)
@given(st.data())
def test_any_schema_that_is_configured(spark: SparkSession, apache: Apache, data: st.DataObject) -> None:
    fields = [data.draw(schemas(depth=2)) | {"field": f"field{n}"} for n in range(4)]
    schema: Node = {"type": "struct", "fields": fields}
    values = random.Random(data.draw(st.integers(0, 2**32)))
    documents = [text(schema, values, odd).encode() for odd in [0.0, 0.1] for _ in range(DOCUMENTS // 2)]
    documents += [document + tail for document in documents[:5] for tail in (b"x", b" 5", b"}", b",")]
    assert compared(spark, apache, {"schema.content": json.dumps(schema)}, documents, [b""]) == []


def test_every_kind_of_field_reads_every_kind_of_value(spark: SparkSession, apache: Apache) -> None:
    plain = {"type": "int32", "optional": True, "field": "plain"}
    schema: Node = {"type": "struct", "fields": [plain, *({**kind, "field": f"f{n}"} for n, kind in enumerate(KINDS))]}
    before = head(schema)
    documents = [
        before + f'{{"plain":5,"f{n}":{odd}}}}}'.encode() for n in range(len(KINDS)) for odd in [*ODD, *ODD_SCALARS]
    ]
    assert compared(spark, apache, {}, documents, [before]) == []


@pytest.mark.soak
def test_a_value_of_every_kind_reads_every_kind_of_value(spark: SparkSession, apache: Apache) -> None:
    """Not all of them in a struct: there Connect checks once more."""
    kinds = [kind for kind in KINDS if kind["type"] in ("array", "map") or "name" in kind]
    before = [head(kind) for kind in kinds]
    documents = [
        one + f"{odd}{tail}".encode() for one in before for odd in ODD for tail in ("}", " }", "x}", ',"x":1}')
    ]
    assert compared(spark, apache, {}, documents, before) == []


@pytest.mark.parametrize("is_configured", [False, True], ids=["flat in an envelope", "nested and configured"])
def test_a_byte_order_mark_before_a_struct_is_passed_over(
    spark: SparkSession, apache: Apache, is_configured: bool
) -> None:
    fields: list[Node] = [{"type": "string", "field": "s"}, {"type": "int64", "field": "n", "optional": True}]
    if is_configured:
        fields += [{"type": "array", "items": {"type": "int32"}, "field": "a"}]
    schema: Node = {"type": "struct", "fields": fields}
    values = random.Random(7)
    bare = [text(schema, values, 0.0) for _ in range(20)] + ['{ "n":1, "s":"\ufeff" }', "5", "null"]
    plain = [one.encode() if is_configured else head(schema) + one.encode() + b"}" for one in bare]
    documents = [mark + one for one in plain for mark in ("\ufeff".encode(), b"", "\ufeff ".encode())]
    options = {"schema.content": json.dumps(schema)} if is_configured else {}
    java = apache.json_converter(options)
    wanted = [java.through(one) for one in documents]
    made = configured(JsonConverter(), options)
    rows = kafka_rows(spark, [(one if is_configured else None, one) for one in documents])
    records, *sides = learned(rows, ConverterBinding(made, "K"), ConverterBinding(made, "V"))
    columns = ("key", "value", "error.message")
    there = [row.asDict() for row in to_bytes(records, *sides).sort("offset").select(*columns).collect()]
    here = compiled(
        spark,
        KAFKA_ROW,
        lambda given: to_bytes(to_records(given, *sides), *sides).select(*columns),
        [row.asDict() for row in rows.sort("offset").collect()],
    )
    assert here == there
    said = [row["message"] and without_advice(row["message"]) for row in there]
    ours = [message or (row["value"] and bytes(row["value"])) for message, row in zip(said, there, strict=True)]
    assert list(map(meaning, ours)) == list(map(meaning, wanted))
    assert all(row["key"] == row["value"] for row in there) == is_configured


@pytest.mark.parametrize("scale", [0, 2, 9])
def test_values_are_printed_alike(spark: SparkSession, apache: Apache, scale: int) -> None:
    inner: Node = {"type": "struct", "fields": [{**kind, "field": f"f{n}"} for n, kind in enumerate(PRINTED)]}
    decimal = {**DECIMAL_KIND, "parameters": {"scale": str(scale)}, "field": "d"}
    array = {"type": "array", "items": PRINTED[0], "optional": True, "field": "a"}
    schema: Node = {"type": "struct", "fields": [decimal, array, {**inner, "optional": True, "field": "s"}]}
    values = random.Random(scale)
    documents = [head(schema) + text(schema, values, 0.0).encode() + b"}" for _ in range(100)]
    key, value = (ConverterBinding(configured(JsonConverter()), name) for name in "KV")
    for _ in ("quickly", "thoroughly"):
        value = value.learned([(head(schema), "t")])
    records = to_records(kafka_rows(spark, [(None, one) for one in documents]), key, value)
    column = java_text(records.value(0), records.values[0]).alias("text")
    printed = [row.text for row in records.frame.sort("offset").select(column).collect()]
    java = apache.json_converter({})
    assert printed == [java.text(document) for document in documents]
