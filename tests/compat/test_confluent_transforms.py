"""Confluent's transforms: what their documentation and published configs say, through converters."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.plugins import Record as AuthorsRecord
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.schema import Field, Schema, SchemaType, spark_type
from headrace.plugins.testkit import TransformContract
from headrace.plugins.transforms.condition_filter import ConditionFilterValue
from headrace.plugins.transforms.dropping import DropKey, TombstoneHandler
from headrace.plugins.transforms.gzip_decompress import GzipDecompressValue
from headrace.plugins.transforms.json_path import parsed
from headrace.plugins.transforms.json_path_columns import matches
from headrace.plugins.transforms.nested_fields import NestedReplaceFieldValue
from headrace.plugins.transforms.topic_extraction import (
    ExtractTopicHeader,
    ExtractTopicValue,
    MessageTimestampRouter,
)
from tests.compat.transform_oracle import SCHEMALESS, Chain, Chains, Converting, Link, Record

pytestmark = pytest.mark.spark

OF: Final = "io.confluent.connect.transforms."
BYTES: Final = Converting("org.apache.kafka.connect.converters.ByteArrayConverter")
TEXT: Final = Converting("org.apache.kafka.connect.storage.StringConverter")
Node = dict[str, Any]


def schema(kind: str, field: str | None = None, **more: Any) -> Node:
    return {"type": kind, "optional": True, **more} | ({} if field is None else {"field": field})


def struct(*fields: Node, **more: Any) -> Node:
    return schema("struct", fields=list(fields), **more)


def schema_of_json(node: Node) -> Schema:
    """The schema that JsonConverter reads of such a document."""
    fields = tuple(Field(one["field"], schema_of_json(one)) for one in node.get("fields", ()))
    keys, values = node.get("keys"), node.get("items") or node.get("values")
    key, value = (None if one is None else schema_of_json(one) for one in (keys, values))
    return Schema(SchemaType(node["type"]), node["optional"], fields=fields, key_schema=key, value_schema=value)


def plain(*values: Any, **parts: Any) -> list[Record]:
    return [Record(json.dumps(value).encode(), **parts) for value in values]


def typed(of: Node, *payloads: Any, **parts: Any) -> list[Record]:
    return [Record(json.dumps({"schema": of, "payload": one}).encode(), **parts) for one in payloads]


def told(chains: Chains, class_name: str, settings: dict[str, str], records: Sequence[Record], **how: Any) -> list[Any]:
    """Return `kept`, `dropped` or the error's message for each record."""
    answers = chains.ours(Chain((Link(OF + class_name, settings),), **how), records)
    return [one.rpartition(":")[2] if isinstance(one, str) else "kept" for one in answers]


def condition(text: str, kind: str = "include", missing: str = "fail") -> dict[str, str]:
    return {"filter.condition": text, "filter.type": kind, "missing.or.null.behavior": missing}


PLACE: Final = struct(
    schema("string", "table"),
    schema("int32", "count"),
    schema("double", "price"),
    schema("boolean", "flag"),
    schema("array", "tags", items=schema("string")),
    struct(schema("string", "nestedKey"), field="key"),
    schema("map", "labels", keys=schema("string", optional=False), values=schema("int64")),
    schema("array", "lines", items=struct(schema("string", "item"), schema("int32", "qty"))),
)
ROW: Final = {
    "table": "orders",
    "count": 5,
    "price": 2.5,
    "flag": True,
    "tags": ["a", "b"],
    "key": {"nestedKey": "value1"},
    "labels": {"x": 1, "y y": 2},
    "lines": [{"item": "pen", "qty": 1}, {"item": "ink", "qty": 20}],
}
MATCHES: Final = [
    "$[?(@.table == 'orders')]",
    '$.key[?(@.nestedKey == "value1" || @.nestedKey == "value2")]',
    "$[?((@.table=='a' || @.table=='orders') && @.kind != 'delete')]",
    "$[?(@.count == 5)]",
    "$[?(@.count == '5')]",
    "$[?(@.count >= 4.5 && @.count < 6)]",
    "$[?(3 < @.count)]",
    "$[?(@.price == 2.5)]",
    "$[?(@.price > 2)]",
    "$[?(@.flag == true)]",
    "$[?(@.flag)]",
    "$[?(!@.nothing)]",
    "$[?(!(@.table == 'x'))]",
    "$[?(@.nothing != 'x' && @.nothing nin ['x'])]",
    "$[?(@.table in ['x', 'orders', 1, null])]",
    "$[?(@.table =~ /ORD.*/i)]",
    "$[?(@.table > 'a' && @.table <= 'orders')]",
    "$.tags[?(@ == 'b')]",
    "$.tags[1]",
    "$.tags[-2]",
    "$.tags[*]",
    "$.labels['y y']",
    "$.labels[?(@.x == 1)]",
    "$.lines[?(@.item == 'ink' && @.qty > 10)]",
    "$.lines[*].item",
    "$.lines[?(@.qty > 10)].item",
    "$.lines[-1][?(@.qty == 20)]",
    "$.*[?(@.nestedKey)]",
    "$[?($.table == 'orders')]",
    "table",
]
MISSES: Final = [
    "$[?(@.table == 'x')]",
    "$[?(@.table > 1)]",
    "$[?(@.count == 'orders')]",
    "$[?(@.nothing)]",
    "$[?(@.nothing == null)]",
    "$[?(@.nothing > 1)]",
    "$[?(@.nothing in [null])]",
    "$[?(@.table =~ /ord/)]",
    "$[?(@.flag == 'true')]",
    "$[?(@.tags == 'a')]",
    "$.lines[?(@.qty > 100)]",
    "$.lines[?(@.qty > 10)].price",
    "$.*[?(@.zz)]",
]
NOTHING: Final = [
    "$.nothing",
    "$.key.nothing",
    "$.tags[2]",
    "$.nothing[?(@.a == 1)]",
    "$.table[?(@.a == 1)]",
    "$.table.x",
]
"""Fields outside of filters that the record lacks."""


@pytest.mark.parametrize("with_schema", [True, False])
def test_conditions(spark: SparkSession, with_schema: bool) -> None:
    of = schema_of_json(PLACE)
    text = json.dumps(ROW, separators=(",", ":"))
    frame = spark.createDataFrame([(text,)], "v string")
    value = F.from_json("v", spark_type(of).simpleString()) if with_schema else F.col("v")
    wanted = {**dict.fromkeys(MATCHES, True), **dict.fromkeys(MISSES, False), **dict.fromkeys(NOTHING)}
    given = frame.select(value.alias("v"))
    columns = [matches(parsed(one), F.col("v"), of if with_schema else None, "c") for one in wanted]
    (found,) = given.select(F.array(*columns)).collect()
    assert dict(zip(wanted, found[0], strict=True)) == wanted


def test_what_becomes_of_matches(chains: Chains) -> None:
    records = plain({"x": {"a": 1}}, {"x": {"a": 2}}, {"b": 1})
    for kind, missing, wanted in (
        ("include", "fail", ["kept", "dropped", "missing or null"]),
        ("exclude", "include", ["dropped", "kept", "kept"]),
        ("exclude", "exclude", ["dropped", "kept", "dropped"]),
    ):
        found = told(chains, "Filter$Value", condition("$.x[?(@.a == 1)]", kind, missing), records, value=SCHEMALESS)
        assert [one.rpartition(" is ")[2] for one in found] == wanted


def test_many_schemas_in_a_batch_and_what_has_no_order(chains: Chains) -> None:
    timed = struct(schema("int64", "at", name="org.apache.kafka.connect.data.Timestamp", version=1))
    records = [
        *typed(PLACE, ROW, None),
        *typed(struct(schema("int64", "count"), schema("float", "price")), {"count": 2**53 + 1, "price": 0.1}),
        *typed(schema("string"), "text"),
        *typed(timed, {"at": 5}),
        Record(None),
    ]
    found = told(chains, "Filter$Value", condition("$[?(@.count == 9007199254740993 && @.price == 0.1)]"), records)
    assert [one.rpartition(" is ")[2] for one in found] == ["dropped", NULL, "kept", NULL, "dropped", NULL]
    (other, odd) = told(
        chains, "Filter$Value", condition("$[?(@.at > 1)]", "exclude", "exclude"), [records[0], records[4]]
    )
    assert (other, odd.rpartition(": ")[2]) == ("kept", " make it a number or a text before, by TimestampConverter")


NULL: Final = "missing or null"


def test_keys_and_predicates(chains: Chains) -> None:
    records = [Record(b"{}", key=json.dumps({"a": n}).encode(), topic="xy"[n]) for n in range(2)]
    link = Link(
        f"{OF}Filter$Key", condition("$[?(@.a == 1)]"), ("predicates.TopicNameMatches", {"pattern": "y"}), negate=True
    )
    answers = chains.ours(Chain((link,), key=SCHEMALESS, value=SCHEMALESS), records, here=True)
    assert [isinstance(one, Record) for one in answers] == [False, True]


def refused(class_name: str, settings: dict[str, str]) -> str:
    made = Plugins.shipped().find("transformation", OF + class_name).load()()
    with pytest.raises(ConfigError) as error:
        made.configure(settings)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("$.status == 'C'", "at character 10, before \"== 'C'\": a comparison has to stand in a filter"),
        ("$..a", "at character 2, before '..a': recursive descent"),
        ("$.a[0:1]", "at character 6, before ':1]': slices"),
        ("$.a['b','c']", "slices and unions"),
        ("$[?(@.a == @.b)]", "two paths cannot be compared"),
        ("$[?(@.a.length() > 1)]", "functions are not supported"),
        ("$[?(@.a == x)]", "expected a value"),
        ("$[?(@.a size 3)]", "before 'size 3)]': expected )"),
        ("$[?(@.a =~ /(/)]", "Unclosed group"),
        ("$[?(@.a =~ /a/z)]", "unknown flag z"),
        ("$[?(@.a[*] == 1)]", "without * and filters"),
        ("${topic}", "the path ends here"),
        ("", "at its end"),
        ("a..b", "at character 2"),
        ("$[?(" + "(" * 60, "nested too deeply"),
    ],
)
def test_paths_that_are_refused_and_where(text: str, why: str) -> None:
    assert why in refused("Filter$Value", condition(text))


def test_settings_that_are_refused() -> None:
    assert "filter.type" in refused("Filter$Value", {"filter.condition": "$.a"})
    assert "include, exclude" in refused("Filter$Key", condition("$.a", "drop"))
    assert "leads to one value" in refused("ExtractTopic$Key", {"field": "$.a[*]", "field.format": "JSON_PATH"})
    assert "PLAIN" in refused("ExtractTopic$Header", {"field": "a", "field.format": "JSON_PATH"})
    assert "Invalid rename mapping" in refused("ReplaceField$Key", {"renames": "a"})
    assert "Illegal pattern" in refused("MessageTimestampRouter", {**ROUTER, "topic.timestamp.format": "b"})


ROUTER: Final = {
    "topic.format": "foo-${topic}-${timestamp}",
    "message.timestamp.format": "yyyy-MM-dd",
    "topic.timestamp.format": "yyyy.MM.dd",
    "message.timestamp.keys": "timestamp,time,ts",
}
Given: Final = AuthorsRecord
TYPED: Final = {"properties": {"messageType": {"string": "x"}}}


class TestFilter(TransformContract):
    transform = ConditionFilterValue
    config: ClassVar = condition("$[?(@.a == 1)]", "include", "exclude")
    examples: ClassVar = [(Given({"a": 1}), Given({"a": 1})), (Given({"a": 2}), None), (Given(None), None)]


class TestDrop(TransformContract):
    transform = DropKey
    examples: ClassVar = [(Given("v", key="k"), Given("v")), (Given({"a": 1}, key={"b": 2}), Given({"a": 1}))]


class TestTombstoneHandler(TransformContract):
    transform = TombstoneHandler
    examples: ClassVar = [(Given("v"), Given("v")), (Given(None, key="k"), None)]


class TestTombstonesThatFail(TransformContract):
    transform = TombstoneHandler
    config: ClassVar = {"behavior": "fail"}
    examples: ClassVar = [(Given("v"), Given("v")), (Given(None), "has no value")]


class TestExtractTopic(TransformContract):
    transform = ExtractTopicValue
    config: ClassVar = {"field": "f"}
    examples: ClassVar = [
        (Given({"f": "a"}), Given({"f": "a"}, topic="a")),
        (Given({"f": 1}), "has to be a text: f of the value is not"),
        (Given({"f": None}), "f of the value is missing or null"),
        (Given("text"), "f of the value is missing or null"),
        (Given(None), "missing or null"),
    ]


class TestExtractTopicByPath(TransformContract):
    transform = ExtractTopicValue
    config: ClassVar = {
        "field": '$["properties"]["messageType"]["string"]',
        "field.format": "JSON_PATH",
        "skip.missing.or.null": "true",
    }
    examples: ClassVar = [
        (Given(TYPED), Given(TYPED, topic="x")),
        (Given({"a": 1}), Given({"a": 1})),
        (Given(None), Given(None)),
    ]


class TestExtractTopicFromHeaders(TransformContract):
    transform = ExtractTopicHeader
    config: ClassVar = {"field": "h"}
    examples: ClassVar = [
        (Given("v", headers=[("h", b"a"), ("h", b"b")]), Given("v", topic="b", headers=[("h", b"a"), ("h", b"b")])),
        (Given("v", headers=[("h", None)]), "the header h is missing or null"),
        (Given("v"), "the header h is missing or null"),
    ]


class TestMessageTimestampRouter(TransformContract):
    transform = MessageTimestampRouter
    config: ClassVar = ROUTER
    examples: ClassVar = [
        (Given({"time": "2019-08-06"}, topic="bar"), Given({"time": "2019-08-06"}, topic="foo-bar-2019.08.06")),
        (
            Given({"ts": "2019-08-06", "timestamp": None}),
            Given({"ts": "2019-08-06", "timestamp": None}, topic="foo-t-2019.08.06"),
        ),
        (Given({"time": "x"}), "None of the pattern yyyy-MM-dd"),
        (Given({"time": 5}), "None of the pattern yyyy-MM-dd"),
        (Given({"a": 5}), "none of the fields timestamp, time, ts"),
        (Given("text"), "Only Map objects supported"),
        (Given(None), "Only Map objects supported"),
    ]


class TestReplaceField(TransformContract):
    transform = NestedReplaceFieldValue
    config: ClassVar = {"exclude": "a.b,c", "renames": "a:x,a.d:y,e.f.g:h"}
    examples: ClassVar = [
        (Given({"a": {"b": 1, "d": 2, "e": 3}, "c": {"z": 1}}), Given({"x": {"y": 2, "e": 3}})),
        (Given({"a": 1, "e": {"f": {"g": None}}}), Given({"x": 1, "e": {"f": {"h": None}}})),
        (Given(None), Given(None)),
        (Given("text"), "Only Struct objects supported"),
    ]


class TestReplaceFieldByInclude(TransformContract):
    transform = NestedReplaceFieldValue
    config: ClassVar = {"include": "a.b,c,c.d,e.f.g", "exclude": "c.x"}
    examples: ClassVar = [
        (
            Given({"a": {"b": 1, "d": 2}, "c": {"d": 1, "x": 2, "z": 3}, "q": 1}),
            Given({"a": {"b": 1}, "c": {"d": 1, "z": 3}}),
        ),
        (Given({"a": 1, "e": {"f": {"g": 1, "h": 2}, "i": 1}}), Given({"e": {"f": {"g": 1}}})),
    ]


def test_replace_field_of_structs(chains: Chains) -> None:
    settings = {
        "exclude": "key.zz,table",
        "include": "key,key.nestedKey,count,table",
        "renames": "key.nestedKey:k,key:o",
    }
    (answer,) = chains.ours(Chain((Link(f"{OF}ReplaceField$Value", settings),)), typed(PLACE, ROW), here=True)
    assert isinstance(answer, Record)
    found = json.loads(answer.value or b"")
    assert found["payload"] == {"count": 5, "o": {"k": "value1"}}
    assert found["schema"]["fields"][1] == struct(schema("string", "k"), field="o")


COMPRESSED: Final = gzip.compress(b"hello")


class TestGzipDecompress(TransformContract):
    transform = GzipDecompressValue
    examples: ClassVar = [
        (Given(COMPRESSED), Given(b"hello")),
        (Given(gzip.compress(b"")), Given(b"")),
        (Given(b"hello"), "not compressed by gzip"),
        (Given(COMPRESSED[:-9]), "damaged"),
        (Given(b""), "not compressed by gzip"),
        (Given("text"), "Only bytes can be decompressed, found: java.lang.String"),
        (Given({"a": 1}), "Only bytes can be decompressed, found: java.util.HashMap"),
        (Given(None), Given(None)),
        (Given(gzip.compress(bytes((8 << 20) + 1))), "more than 8388608 bytes"),
    ]


@pytest.mark.parametrize(
    ("behavior", "wanted"),
    [
        ("nullify", [None, None, None]),
        ("retain", ["STRING", "optional", None]),
        ("validate", ["error", "optional", None]),
        ("force_optional", ["optional", "optional", None]),
    ],
)
def test_drop_and_its_schemas(chains: Chains, behavior: str, wanted: list[str | None]) -> None:
    records = [*typed(schema("string", optional=False), "x"), *typed(schema("string"), "x"), Record(None)]
    answers = chains.ours(Chain((Link(f"{OF}Drop$Value", {"schema.behavior": behavior}),)), records)

    def seen(answer: Any) -> str | None:
        if isinstance(answer, str):  # a null of a required schema fails in the converter, as in Connect
            return "error" if "Drop" in answer else "STRING"
        return answer.value and ("optional" if json.loads(answer.value)["schema"]["optional"] else "required")

    assert [seen(one) for one in answers] == wanted


PUBLISHED: Final[list[tuple[str, dict[str, str], list[Any], list[str]]]] = [
    (
        "Filter$Value",
        condition('$[?(@.event_type == "log" && @.bmp_msg_type == "init")]'),
        [{"event_type": "log", "bmp_msg_type": "init"}, {"event_type": "log"}],
        ["kept", "dropped"],
    ),
    (
        "Filter$Value",
        condition("$.after.topic_name", "include", "exclude"),
        [{"after": {"topic_name": "a"}}, {"after": {"topic_name": None}}, {"after": None}, {"before": {}}],
        ["kept", "dropped", "dropped", "dropped"],
    ),
    (
        "Filter$Value",
        condition("$[?(@.op != 'c' && @.op != 'r' && @.source.table == 'activities')]"),
        [{"op": "u", "source": {"table": "activities"}}, {"op": "c", "source": {"table": "activities"}}, {"op": "u"}],
        ["kept", "dropped", "dropped"],
    ),
    (
        "Filter$Value",
        condition("$[?(@.tsm < 1592300893000)]", "exclude"),
        [{"tsm": 1}, {"tsm": 2e12}],
        ["dropped", "kept"],
    ),
    (
        "Filter$Value",
        condition("$[?(@.updatedFields.price)]", "include", "exclude"),
        [{"updatedFields": {"price": 1}}, {"updatedFields": {}}, {}],
        ["kept", "dropped", "dropped"],
    ),
    ("ExtractTopic$Value", {"field": "name"}, [{"name": "books"}], ["kept"]),
    (
        "MessageTimestampRouter",
        {
            "message.timestamp.keys": "txn_date",
            "message.timestamp.format": "EEE MMM dd HH:mm:ss zzz yyyy",
            "topic.format": "${topic}_${timestamp}",
            "topic.timestamp.format": "YYYY-MM-dd",
        },
        [{"txn_date": "Wed Nov 20 12:00:00 UTC 2024"}],
        ["kept"],
    ),
]


@pytest.mark.parametrize(("class_name", "settings", "values", "wanted"), PUBLISHED)
def test_published_configs(
    chains: Chains, class_name: str, settings: dict[str, str], values: list[Any], wanted: list[str]
) -> None:
    assert told(chains, class_name, settings, plain(*values), value=SCHEMALESS) == wanted


def test_published_topics(chains: Chains) -> None:
    (_, names, values, _), (_, times, dates, _) = PUBLISHED[-2:]
    for class_name, settings, value, topic in (
        ("ExtractTopic$Value", names, values[0], "books"),
        ("MessageTimestampRouter", times, dates[0], "t_2024-11-20"),
    ):
        (answer,) = chains.ours(Chain((Link(OF + class_name, settings),), value=SCHEMALESS), plain(value), here=True)
        assert isinstance(answer, Record)
        assert answer.topic == topic


def test_a_key_is_the_topic_or_stays(chains: Chains) -> None:
    link = Link(f"{OF}ExtractTopic$Key", {"skip.missing.or.null": "true"})
    answers = chains.ours(Chain((link,), key=TEXT, value=TEXT), [Record(b"v", b"landmark_16320"), Record(b"v")])
    assert [one.topic for one in answers if isinstance(one, Record)] == ["landmark_16320", "t"]


def test_gzip_runs_here(chains: Chains) -> None:
    chain = Chain((Link(f"{OF}GzipDecompress$Value"),), key=BYTES, value=BYTES)
    answers = chains.ours(chain, [Record(COMPRESSED), Record(b"x"), Record(None)], here=True)
    assert [one.value if isinstance(one, Record) else "failed" for one in answers] == [b"hello", "failed", None]


def test_simple_names_keep_connects_meaning() -> None:
    found = Plugins.shipped()
    assert found.full_name("Filter") == "org.apache.kafka.connect.transforms.Filter"
    assert found.full_name("Filter$Value") == f"{OF}Filter$Value"
    assert found.full_name("ReplaceField$Value") == "org.apache.kafka.connect.transforms.ReplaceField$Value"
    assert found.full_name("TombstoneHandler") == f"{OF}TombstoneHandler"
