"""Headers, routing, Filter and the predicates against Apache's own classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from headrace.config.problems import ConfigError
from headrace.plugins.interop.java.literals import parse_literal
from headrace.plugins.schema import Schema, SchemaType
from tests.compat.transform_oracle import JSON, SCHEMALESS, Chain, Chains, Converting, Link, Record

pytestmark = pytest.mark.spark

BYTES: Final = Converting("org.apache.kafka.connect.converters.ByteArrayConverter")
LOGICAL: Final = "org.apache.kafka.connect.data."


def of(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True, **more}


def document(schema: dict[str, Any] | None, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"), ensure_ascii=False).encode()


def struct(payload: Any, **fields: dict[str, Any]) -> bytes:
    members = [{**schema, "field": name} for name, schema in fields.items()]
    return document({"type": "struct", "fields": members, "optional": True, "name": "S", "version": 3}, payload)


def insert(literals: Sequence[str]) -> list[Link]:
    return [
        Link("InsertHeader", {"header": f"h{number}", "value.literal": text}) for number, text in enumerate(literals)
    ]


LITERALS: Final = [
    *(
        "",
        " ",
        "a",
        " a ",
        "null",
        " null ",
        "null,",
        '"null"',
        "true",
        " true",
        "TRUE",
        "true,",
        "false\t",
        "a,b",
        '"a"',
    ),
    *("1", "-1", "+1", "127", "128", "-129", "32768", "2147483648", "9223372036854775807", "9223372036854775808"),
    *(
        "1.0",
        "1e2",
        "1.5",
        "1.1",
        "3.4e38",
        "3.5e38",
        "1e-50",
        "-.5",
        ".5",
        "5.",
        "-",
        "+5x",
        "1 2",
        " 1 ",
        "1,2",
        "1:2",
    ),
    *(
        "1e",
        "1f",
        "0x10",
        "NaN",
        "1e20",
        "99999999999999999999.0",
        "9.99999999999999999990e20",
        "1e2147483648",
        "00012",
    ),
    *("1.7976931348623157e308", "-0.0", "0e10", "0.1234567890123456789", "1\\", "\\", '1"', "\u0661", "1\u3000"),
    *("12:34:56.789Z", "12\\:34\\:56.789Z", "24:00:00.000Z", "2024-01-01", "2024-13-01", "2024-00-00", "0001-01-01"),
    *(
        "2024-01-01T00:00:00.000Z",
        "2024-01-01T12\\:34\\:56.789Z",
        "2024-1-01",
        "2024-01-1x",
        "2024- 1-01",
        "9999-99-99",
    ),
    *(
        "1:34:56.7890Z",
        " 12:34:56.789Z ",
        "12:34:56.789Zx",
        "12:34:56.789",
        " 2024-01-01 ",
        "2024-01-01x",
        "1500-02-29",
    ),
    *("[]", "[ ]", "[1]", "[1,]", "[1,,2]", "[,1]", "[1 2]", "[1,2", "[1,2]x", " [1,2] ", "[1,300]", "[1,1.5]"),
    *('[1,"a"]', '["a","b"]', '["a\\"b"]', "[a]", "[true,false]", "[null]", "[null,1]", "[1,[2]]"),
    *("[9999999999,1.5]", "[1.5,3.5e38]", '["2024-01-01"]', "[ 2024-01-01 ]", "[12:34:56.789Z]", "[ 12:34:56.789Z ]"),
    *(
        "{}",
        "{1:2}",
        '{"a":1}',
        '{"a":1,"b":300}',
        '{"a":1 "b":2}',
        '{"a"}',
        "{a:1}",
        "{null:1}",
        '{"a":1}x',
        '{"a":1,}',
    ),
    *(
        '{"a":null,"b":1}',
        "{12:34:56.789Z:1}",
        "{12:34}",
        '{"":""}',
        '["a","",]',
    ),
]
"""Texts that InsertHeader reads."""
TEXTS_ONLY: Final = [
    "[[1],[300]]",
    '{"a":[1],"b":[300]}',
    '{"a":1,"b":"x"}',
    '[1,null,"a"]',
    '[[1],["a"]]',
    "[[300],[1]]",
    "[[],[1]]",
    '{1:2,"a":3}',
]
"""Java gives these another schema, one that not all of their values have."""


def typed(schema: Schema | None) -> bool:
    """True if all in it has a schema: JsonConverter writes no others."""
    return (
        schema is not None
        and {
            SchemaType.ARRAY: lambda: typed(schema.value_schema),
            SchemaType.MAP: lambda: typed(schema.key_schema) and typed(schema.value_schema),
        }.get(schema.type, lambda: True)()
    )


def test_literals_have_apaches_types(chains: Chains) -> None:
    shown = [text for text in LITERALS if typed(parse_literal(text).schema)]
    assert len(shown) > 100
    for begin in range(0, len(shown), 40):
        chains.alike(insert(shown[begin : begin + 40]), [Record()], header=JSON)


def test_literals_without_types_have_apaches_texts(chains: Chains) -> None:
    shown = [text for text in LITERALS if not typed(parse_literal(text).schema)]
    chains.alike(insert([*shown, *TEXTS_ONLY]), [Record()])


def test_literals_that_spark_cannot_carry_stay_texts(chains: Chains) -> None:
    literals = ["1e400", "[1,1e400]", "{[1]:2}", '[true,"2024-01-01"]', "9" * 39]
    (got,) = chains.ours(Chain(tuple(insert(literals))), [Record()])
    assert isinstance(got, Record)
    assert [value for _, value in got.headers] == [text.encode() for text in literals]


HEADERS: Final = (("a", b"1"), ("b", b"x"), ("a", None), ("c", b""), ("A", b"true"))


def test_headers_are_dropped_and_added_in_order(chains: Chains) -> None:
    records = [Record(headers=HEADERS), Record(), Record(headers=(("a", b"x"),))]
    chains.alike([Link("DropHeaders", {"headers": "a, c"})], records)
    chains.alike([Link("DropHeaders", {"headers": "a"}), *insert(["1"]), *insert(["x"])], records)
    chains.alike(
        [Link("DropHeaders", {"headers": "b"})], [Record(headers=(("b", b"\xff"), ("c", b"\xff\x00")))], header=BYTES
    )


FIELDS: Final = struct(
    {"i": 1, "s": 'a"\\b', "d": None, "n": None},
    i={"type": "int32", "optional": False},
    s=of("string"),
    d=of("int64", default=7),
    n=of("string"),
)
NO_FIELDS: Final = [
    b'{"schema":{"type":"string"},"payload":"x"}',
    b'{"schema":{"type":"struct","fields":[],"optional":true},"payload":null}',
]


@pytest.mark.parametrize(("side", "operation"), [("Key", "copy"), ("Value", "move")])
def test_headers_come_from_fields(chains: Chains, side: str, operation: str) -> None:
    def having(value: bytes | None) -> Record:
        return Record(key=value, headers=HEADERS) if side == "Key" else Record(value, headers=HEADERS)

    settings = {"fields": "s,d,n", "headers": "a,d,a", "operation": operation}
    settings["replace.null.with.default"] = str(operation == "copy").lower()
    link = Link(f"HeaderFrom${side}", settings)
    chains.alike([link], [having(one) for one in (FIELDS, *NO_FIELDS, None)])
    plain = [
        b'{"s":"x","d":5,"other":[1]}',
        b'{"n":[1,"a\\n\\u0001\\"\\\\"],"d":1.10}',
        b'{"n":null,"s":true}',
        b"{}",
        b'"s"',
        b"[1]",
        b"null",
    ]
    objects = [having(one) for one in (*plain, None)]
    chains.alike([link], objects, key=SCHEMALESS, value=SCHEMALESS)


def test_all_fields_may_move(chains: Chains) -> None:
    chains.alike(
        [Link("HeaderFrom$Value", {"fields": "a", "headers": "h", "operation": "move"})],
        [Record(struct({"a": 1}, a=of("int32"))), Record(b'{"schema":null,"payload":{"a":1}}')],
    )


def test_a_field_that_a_struct_has_not_is_named(chains: Chains) -> None:
    link = Link("HeaderFrom$Value", {"fields": "s,zip", "headers": "a,b", "operation": "copy"})
    (crash,) = chains.apache(Chain((link,)), [Record(FIELDS)])
    assert isinstance(crash, str)
    assert crash.endswith("NullPointerException")
    assert chains.ours(Chain((link,)), [Record(FIELDS)]) == [
        "error:org.apache.kafka.connect.transforms.HeaderFrom$Value:Field does not exist: zip"
    ]


MOMENTS: Final = (
    0,
    -1,
    1,
    86_399_999,
    86_400_000,
    86_400_001,
    1_709_210_096_789,
    253_402_300_800_000,
    -62_135_769_600_000,
)
TEXTS: Final = ("", "a", 'a"b', "a\\", "é漢😀", "a\nb", "[1]", "null")
NUMBERS: Final = (0, 1, -128, 127)
FLOATS: Final = (0.0, -0.0, 1.5, 1e10, 1e-5, 123456.789, "NaN", "Infinity")


def decimals(scale: int) -> dict[str, Any]:
    return of("bytes", name=LOGICAL + "Decimal", version=1, parameters={"scale": str(scale)})


def named(kind: str, name: str) -> dict[str, Any]:
    return of(kind, name=LOGICAL + name, version=1)


VALUES: Final[list[tuple[dict[str, Any], Sequence[Any]]]] = [
    (of("string"), TEXTS),
    (of("int8"), NUMBERS),
    (of("int64"), (*NUMBERS, 2**63 - 1)),
    (of("float"), FLOATS[:-2]),
    (of("double"), FLOATS[:-2]),
    (of("boolean"), (True, False)),
    (of("bytes"), ("", "aGk=", "A" * 200)),
    (decimals(0), ("AA==", "AQ==", "/w==")),
    (decimals(2), ("AA==", "AQ==", "/w==", "AMg=")),
    (decimals(6), ("AA==", "AQ==")),
    (decimals(9), ("AA==", "AQ==", "/w==", "AMg=", "Bb0=", "O5rKAA==", "A+g=")),
    (named("int32", "Date"), (-719_164, -1, 0, 1, 19_000, 2_932_896)),
    (named("int32", "Time"), (0, 1, 86_399_999, 86_400_000)),
    (named("int64", "Timestamp"), MOMENTS),
    (of("array", items=of("string")), ([], [*TEXTS, None])),
    (of("array", items=of("bytes")), (["aGk=", None],)),
    (of("array", items=named("int64", "Timestamp")), ([*MOMENTS, None],)),
    (of("array", items=decimals(9)), (["AQ==", None],)),
    (of("map", keys=of("string"), values=of("int32")), ({}, {'k"': 1}, {"n": None})),
    (of("map", keys=of("int32"), values=of("boolean")), ([[1, True]], [])),
    (of("struct", fields=[of("int32", field='a"b'), of("string", field="d", default="D")]), ({'a"b': 1}, {"d": "x"})),
]


def test_texts_of_headers_are_apaches(chains: Chains) -> None:
    """One struct with a field for each schema; the values become headers."""
    names = [f"f{number}" for number in range(len(VALUES))]
    fields = {name: schema for name, (schema, _) in zip(names, VALUES, strict=True)}
    link = Link("HeaderFrom$Value", {"fields": ",".join(names), "headers": ",".join(names), "operation": "copy"})
    records = []
    for turn in range(max(len(values) for _, values in VALUES)):
        payload = {
            name: values[turn] if turn < len(values) else None for name, (_, values) in zip(names, VALUES, strict=True)
        }
        records.append(Record(struct(payload, **fields)))
    chains.alike([link], records)


def test_texts_of_schemaless_headers_are_apaches(chains: Chains) -> None:
    values = (
        '"a"',
        '"a\\"\\\\\\n\\u0001"',
        '"\\ud83d\\ude00"',
        "1",
        "-5",
        "1.5",
        "1.10",
        "1e10",
        "100000000",
        "true",
        "null",
    )
    arrays = (
        "[]",
        "{}",
        '[1,"a",null,true,[1.5],{"k":"v"}]',
        '["\\n\\t","\\"\\\\","\\\\n","\\\\\\"\\n\\\\"]',
        '{"a\\n":{"b":"\\r"}}',
    )
    link = Link("HeaderFrom$Value", {"fields": "v", "headers": "v", "operation": "copy"})
    records = [Record(f'{{"v":{text}}}'.encode()) for text in (*values, *arrays)]
    chains.alike([link], records, value=SCHEMALESS)


TOPICS: Final = [Record(topic=topic) for topic in ("topic-1", "t", "a.b", "topic")]


@pytest.mark.parametrize(
    ("regex", "replacement"),
    [("(.*)-(\\d)", "$2.$1"), (".*", "x"), ("t|topic", "[$0]"), ("t", "$1"), ("(?<n>t)(.*)", "${n}_$2"), ("z", "$9")],
)
def test_topics_are_renamed(chains: Chains, regex: str, replacement: str) -> None:
    link = Link("RegexRouter", {"regex": regex, "replacement": replacement})
    wanted = [one if isinstance(one, Record) else "no group" for one in chains.apache(Chain((link,)), TOPICS)]
    got = chains.ours(Chain((link,)), TOPICS)
    assert [one if isinstance(one, Record) else "no group" for one in got] == wanted
    assert all(isinstance(one, Record) or one.endswith("RegexRouter:No group 1") for one in got)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"topic.format": "${timestamp}_${topic}_$x${topic}", "timestamp.format": "yyyy-MM-dd'T'HH"},
        {"topic.format": "fixed", "timestamp.format": ""},
    ],
)
def test_topics_are_named_by_time(chains: Chains, settings: dict[str, str]) -> None:
    records = [Record(topic=topic, timestamp=moment) for topic in ("t", "a.b") for moment in MOMENTS]
    chains.alike([Link("TimestampRouter", settings)], records)


def test_a_record_without_timestamp_is_named(chains: Chains) -> None:
    link = Link("TimestampRouter")
    (told,) = chains.apache(Chain((link,)), [Record(timestamp=None)])
    (ours,) = chains.ours(Chain((link,)), [Record(timestamp=None)])
    assert isinstance(told, str)
    assert told.startswith("error:org.apache.kafka.connect.transforms.TimestampRouter:Timestamp missing on record: ")
    assert ours == told[: told.index("record: ")] + "record: topic t, partition 0, offset 0"


@pytest.mark.parametrize(
    ("predicate", "negate"),
    [
        (("predicates.TopicNameMatches", {"pattern": "t|a.*"}), False),
        (("predicates.HasHeaderKey", {"name": "a"}), True),
        (("predicates.RecordIsTombstone", {}), False),
    ],
)
def test_predicates(chains: Chains, predicate: tuple[str, dict[str, str]], negate: bool) -> None:
    schema = b'{"schema":{"type":"string","optional":true},"payload":'
    documents = (None, schema + b"null}", schema + b'"x"}', b'{"schema":null,"payload":null}')
    records = [Record(one, headers=headers) for one in documents for headers in ((), HEADERS[:1], HEADERS[1:2])]
    records += [Record(documents[2], topic=topic) for topic in ("topic-1", "abc")]
    # What the first link leaves alone and what it changes stand in different columns after it.
    hoist = Link("HoistField$Value", {"field": "f"}, ("predicates.HasHeaderKey", {"name": "a"}))
    chains.alike([hoist, Link("Filter", predicate=predicate, negate=negate)], records)


@pytest.mark.parametrize(
    ("class_name", "settings"),
    [
        ("HeaderFrom$Value", {"fields": "a", "headers": "b,c", "operation": "move"}),
        ("HeaderFrom$Value", {"fields": "a", "headers": "b", "operation": "MOVE"}),
        ("HeaderFrom$Value", {"fields": "", "headers": "b", "operation": "move"}),
        ("DropHeaders", {"headers": ""}),
        ("InsertHeader", {"header": "a"}),
        ("RegexRouter", {"regex": "[a", "replacement": ""}),
    ],
)
def test_settings_that_apache_refuses(chains: Chains, class_name: str, settings: dict[str, str]) -> None:
    link = Link(class_name, settings)
    told = chains.refused(link)
    assert told is not None
    with pytest.raises(ConfigError) as refused:
        chains.ours(Chain((link,)), [])
    assert refused.value.problems[0].message == told


def test_a_timestamp_format_that_is_none_is_refused(chains: Chains) -> None:
    with pytest.raises(ConfigError, match="Illegal pattern character 'b'"):
        chains.ours(Chain((Link("TimestampRouter", {"timestamp.format": "bb"}),)), [])
