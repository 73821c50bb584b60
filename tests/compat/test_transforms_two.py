"""ExtractField, Flatten, HoistField, ValueToKey and TimestampConverter against Apache's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.config.problems import ConfigError
from headrace.plugins.transforms.field_paths import steps
from tests.compat.transform_oracle import JSON, SCHEMALESS, Chain, Chains, Converting, Link, Record

pytestmark = pytest.mark.spark

LOGICAL: Final = "org.apache.kafka.connect.data."
KEEPS_NULLS: Final = Converting(settings={"replace.null.with.default": "false"})
"""JSON whose nulls stay nulls, so that a transform sees them."""


def schema(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": False, **more}


def struct(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return schema("struct", fields=list(fields), **more)


def documents(of: Mapping[str, Any], *payloads: Any) -> list[Record]:
    """Records with such values."""
    rows = [{"schema": of, "payload": payload} for payload in payloads]
    return [Record(json.dumps(row, separators=(",", ":")).encode()) for row in rows]


def plain(*texts: str) -> list[Record]:
    return [Record(text.encode()) for text in texts]


TEXT: Final = schema("string")
INNER: Final = struct(schema("int32", field="a.b"), schema("string", field="x", default="dd"), optional=True, field="n")
NESTED: Final = struct(
    schema("int32", field="a", optional=True, default=7, doc="of a"),
    INNER,
    schema("array", items=schema("int32"), optional=True, field="r"),
    struct(struct(schema("boolean", field="deep"), optional=True, field="`t.u`"), field="o", name="O"),
    name="Outer",
    version=2,
    doc="about it",
    parameters={"p": "q"},
)
NESTED_ROWS: Final = [
    {"o": {}},
    {"a": 1, "n": {"a.b": 2, "x": "y"}, "r": [1, 2], "o": {"`t.u`": {"deep": True}}},
    {"a": None, "n": {"a.b": 2}, "r": [], "o": {"`t.u`": None}},
]
WITH_MAP: Final = struct(schema("map", keys=TEXT, values=schema("int32"), optional=True, field="m"))
ODD: Final = [
    *documents(TEXT, "x"),
    *documents(schema("string", optional=True), None, "y"),
    *documents({**NESTED, "optional": True}, None, *NESTED_ROWS),
    *documents(WITH_MAP, {"m": {"k": 1}}, {}),
    Record(None),
]
OBJECTS: Final = plain(
    '{"a":1}',
    '{"a":{"b":1.50,"c":"x"},"b":[{"a":1}]}',
    '{"a":"text \\"q\\" \\\\ é😀\\n"}',
    '{"a":"5"}',
    '{"a":"{}"}',
    '{"a":1e3,"z":-0.0}',
    '{"a":12345678901234567890,"a":12345678901234567891}',
    '{"a":true,"b":null}',
    '{"a":null}',
    "{}",
    "[1]",
    "5",
    '"s"',
    "null",
    '{"":{"":{"":1}},"x":{},"y":[{"a":1}],"a":{"b":{"c":null}},"a.b":{"c":2}}',
    '{"a":{"b":{"c":{"d":{"e":{"f":{"g":1},"h":[{"i":{}}]}}}}}}',
)

WHOLE_OBJECTS: Final = [one for one in OBJECTS if not re.search(b"-0.0|234567890", one.value or b"")]
"""Without those whose members are spelled otherwise than they came, which is seen only when they are taken out."""


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"field": "a"}, marks=pytest.mark.long),
        {"field": "a", "replace.null.with.default": "false"},
        pytest.param({"field": "zz"}, marks=pytest.mark.long),
        pytest.param({"field": "n.x", "field.syntax.version": "v2"}, marks=pytest.mark.long),
        {"field": "n.`a.b`", "field.syntax.version": "V2"},
        {"field": "o.`\\`t.u`.deep", "field.syntax.version": "V2"},
        pytest.param({"field": "m.k", "field.syntax.version": "V2"}, marks=pytest.mark.long),
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_extract_field(chains: Chains, options: dict[str, str]) -> None:
    records = [*documents(NESTED, *NESTED_ROWS), *(ODD if options["field"] == "m.k" else ())]
    chains.alike([Link("ExtractField$Value", options)], records, value=KEEPS_NULLS)


@pytest.mark.parametrize("path", ["a", "a.b", "a.b.c"])
def test_extract_field_of_objects(chains: Chains, path: str) -> None:
    links = [Link("ExtractField$Value", {"field": path, "field.syntax.version": "V2"})]
    chains.alike(links, OBJECTS, value=SCHEMALESS)


def test_flatten(chains: Chains) -> None:
    twice = struct(schema("int32", field="a.b"), struct(schema("int32", field="b"), field="a"))
    records = [*documents(NESTED, *NESTED_ROWS), *ODD, *documents(twice, {"a.b": 1, "a": {"b": 2}})]
    chains.alike([Link("Flatten$Value")], records, value=KEEPS_NULLS)


@pytest.mark.parametrize("delimiter", [".", "", "_é`"])
def test_flatten_of_objects(chains: Chains, delimiter: str) -> None:
    chains.alike([Link("Flatten$Value", {"delimiter": delimiter})], OBJECTS, value=SCHEMALESS)


@pytest.mark.long
@pytest.mark.parametrize("field", ['h "é', ""])
def test_hoist_field(chains: Chains, field: str) -> None:
    links = [Link("HoistField$Value", {"field": field})]
    records = [*documents(NESTED, *NESTED_ROWS), *documents(schema("string", optional=True), None, "x"), Record(None)]
    chains.alike(links, records, value=KEEPS_NULLS)
    chains.alike(links, WHOLE_OBJECTS, value=SCHEMALESS)


@pytest.mark.parametrize("fields", ["o,a,n", "a,zz"])
def test_value_to_key(chains: Chains, fields: str) -> None:
    links = [Link("ValueToKey", {"fields": fields})]
    records = [*documents({**NESTED, "optional": True}, None, *NESTED_ROWS), *documents(TEXT, "x"), Record(None)]
    chains.alike(links, records, value=KEEPS_NULLS)
    chains.alike(links, WHOLE_OBJECTS, value=SCHEMALESS)


def test_value_to_key_keeps_nulls(chains: Chains) -> None:
    links = [Link("ValueToKey", {"fields": "a", "replace.null.with.default": "false"})]
    chains.alike(links, documents(NESTED, *NESTED_ROWS), value=KEEPS_NULLS, key=KEEPS_NULLS)


PATHS: Final = {
    "o.a,a": {"o.a": 1, "a": "top"},
    "o,r.a": {"o": {"a": 1, "x.y": "xy", "d": 7}, "r.a": 2},
    "`o.a`": {"`o.a`": "dotted"},
    "o.`x.y`": {"o.`x.y`": "xy"},
    "o.d": {"o.d": 7},
    "o.nope": "Field does not exist: o.nope",
    "o..a": "Field does not exist: o..a",
    "a.b": "Cannot look up fields on non-struct type",
}
"""By `fields`, the keys that ValueToKey of Kafka 4.4.0 made of a value, or its message; 4.3.1 has no such paths."""
REQUIRED_NULL: Final = 'Invalid value: null used for required field: "o.a", schema type: INT32'
BY_PATH: Final = struct(
    struct(
        schema("int32", field="a"),
        schema("string", field="x.y", optional=True),
        schema("int32", field="d", optional=True, default=7),
        field="o",
        optional=True,
    ),
    struct(schema("int32", field="a"), field="r"),
    schema("string", field="a"),
    schema("string", field="o.a", optional=True),
)


def keys(chains: Chains, fields: str, records: list[Record], of: Converting, **more: str) -> list[Any]:
    """The keys that the paths make, or the messages."""
    link = Link("ValueToKey", {"fields": fields, "field.syntax.version": "v2", **more})
    found = chains.ours(Chain((link,), key=of, value=of), records)
    return [one.split(":", 2)[2] if isinstance(one, str) else json.loads(one.key or b"") for one in found]


@pytest.mark.parametrize("fields", PATHS)
def test_value_to_key_by_paths(chains: Chains, fields: str) -> None:
    value = {"o": {"a": 1, "x.y": "xy", "d": None}, "r": {"a": 2}, "a": "top", "o.a": "dotted"}
    [found] = keys(chains, fields, documents(BY_PATH, value), JSON)
    expected = PATHS[fields]
    assert (found["payload"] if isinstance(found, dict) else found) == expected


def test_value_to_key_by_paths_through_null(chains: Chains) -> None:
    """Answers of 4.4.0: a default is not used inside of a null, and a required field has a value."""
    records = documents(BY_PATH, {"o": None, "r": {"a": 2}, "a": "top", "o.a": None})
    [optional] = keys(chains, "o.d", records, KEEPS_NULLS)
    assert optional["payload"] == {"o.d": None}
    assert optional["schema"]["fields"] == [{"type": "int32", "optional": True, "default": 7, "field": "o.d"}]
    assert keys(chains, "r.a,o.a", records, KEEPS_NULLS) == [REQUIRED_NULL]
    full = documents(BY_PATH, {"o": {"a": 1, "x.y": None, "d": None}, "r": {"a": 2}, "a": "top", "o.a": None})
    [kept] = keys(chains, "o.d", full, KEEPS_NULLS, **{"replace.null.with.default": "false"})
    assert kept["payload"] == {"o.d": None}


def test_value_to_key_by_paths_without_schema(chains: Chains) -> None:
    records = plain('{"o":{"a":5,"x.y":"q"},"a":"top","s":"text","n":null}')
    for fields, expected in {
        "o.a,a": {"o.a": 5, "a": "top"},
        "o.nope": {"o.nope": None},
        "zz.a,n.a": {"zz.a": None, "n.a": None},
        "o.`x.y`": {"o.`x.y`": "q"},
        "s.a": "Only Map objects supported in absence of schema for [nested field access], found: java.lang.String",
    }.items():
        assert keys(chains, fields, records, SCHEMALESS) == [expected]


TIMES: Final = [0, 5, -1, -1999, 1_700_000_000_123, -62_135_769_600_001, 253_402_300_800_000, 86_399_999]


@pytest.mark.parametrize("target", ["string", "unix", "Date", "Time", "Timestamp"])
def test_whole_timestamps(chains: Chains, target: str) -> None:
    links = [Link("TimestampConverter$Value", {"target.type": target, "format": "yyyy-MM-dd HH:mm:ss.SSS"})]
    texts = ["2024-05-17 12:30:00.5", "2024-05-17 12:30:00.500", "2024", "", "x", None]
    records = [
        *documents(schema("int64"), *TIMES),
        *documents(schema("int64", name=LOGICAL + "Timestamp", version=1), *TIMES),
        *documents(schema("int32", name=LOGICAL + "Date", version=1, optional=True), 0, 19_000, -719_164, None),
        *documents(schema("int32", name=LOGICAL + "Time", version=1), 0, 86_399_999),
        *documents(schema("string", optional=True, doc="lost"), *texts),
        *documents(schema("int32", name="N", optional=True), None, 5),
        Record(None),
    ]
    chains.alike(links, records, value=KEEPS_NULLS)


@pytest.mark.parametrize("target", ["string", "unix"])
def test_whole_timestamps_without_schema(chains: Chains, target: str) -> None:
    links = [Link("TimestampConverter$Value", {"target.type": target, "format": "yyyy-MM-dd HH:mm:ss.SSS"})]
    texts = ["5", "1.5", "{}", "null", '"x"', "true", "[1]", '"2024-05-17 00:00:00.000"', "-62135769600001"]
    chains.alike(links, plain(*texts), value=SCHEMALESS)


REST: Final = [schema("string", field="o", optional=True, default="zz"), schema("int64", field="u")]
OF_LONG: Final = struct(schema("int64", field="t", optional=True, default=77, doc="lost"), *REST, name="N", version=3)
LONGS: Final = documents(
    {**OF_LONG, "optional": True, "doc": "d"}, None, {"u": 1}, {"t": 1_700_000_000_123, "o": "x", "u": 2}
)
OF_TEXT: Final = struct(schema("string", field="t"), *REST)
TEXTS: Final = documents(OF_TEXT, {"t": "2024-02-30", "u": 1}, {"t": "x", "u": 1})


@pytest.mark.parametrize(
    ("target", "replaces", "records"),
    [("string", "true", LONGS), ("unix", "false", LONGS), ("Timestamp", "true", TEXTS), ("Date", "false", LONGS)],
)
def test_timestamps_in_a_field(chains: Chains, target: str, replaces: str, records: list[Record]) -> None:
    options = {"target.type": target, "format": "yyyy-MM-dd", "field": "t", "replace.null.with.default": replaces}
    chains.alike([Link("TimestampConverter$Value", options)], records, value=KEEPS_NULLS)


def test_fields_that_are_no_timestamps(chains: Chains) -> None:
    links = [Link("TimestampConverter$Value", {"target.type": "unix", "field": "t"})]
    of_int = struct(schema("int32", field="t", optional=True), optional=True)
    records = [*documents(of_int, {"t": 1}, {}, None), *documents(WITH_MAP, {"m": {"k": 1}}), *documents(TEXT, "x")]
    chains.alike(links, records, value=KEEPS_NULLS)


@pytest.mark.long
@pytest.mark.parametrize("target", ["string", "unix"])
def test_members_that_are_timestamps(chains: Chains, target: str) -> None:
    links = [Link("TimestampConverter$Value", {"target.type": target, "format": "yyyy-MM-dd", "field": "t"})]
    texts = ('{"t":5,"b":1.50}', '{"b":1}', '{"t":null}', "null", "5", '{"t":true}', '{"t":"x"}', '{"t":"2024-13-1"}')
    chains.alike(links, plain(*texts), value=SCHEMALESS)


@pytest.mark.parametrize("precision", ["nanoseconds", "microseconds", "milliseconds", "seconds"])
def test_unix_precisions(chains: Chains, precision: str) -> None:
    options = {"target.type": "unix", "unix.precision": precision, "format": "yyyy"}
    numbers = [0, 1999, -1999, 1_700_000_000_123_456_789, 2**63 - 1, -(2**63), 9_999_999_999_999]
    texts = ["2524", "1", "-9999", "1969", "292278"]
    chains.alike(
        [Link("TimestampConverter$Value", options)],
        [*documents(schema("int64"), *numbers), *documents(schema("string"), *texts)],
    )


def test_where_apache_has_no_answer(chains: Chains) -> None:
    """A schemaless date has no JSON, and a text is not read without a format."""
    dates = Chain((Link("TimestampConverter$Value", {"target.type": "Date"}),), value=SCHEMALESS)
    refused, crashed = chains.apache(dates, plain("1700000000123", '"2024"'))
    assert "java.util.Date does not have corresponding schema type" in str(refused)
    assert str(crashed).endswith("java.lang.NullPointerException")
    ours, error = chains.ours(dates, plain("1700000000123", '"2024"'))
    assert isinstance(ours, Record)
    assert ours.value == b"1699920000000"
    assert "requires format option" in str(error)
    year_300000 = documents(schema("int64"), 9_404_818_243_200_000)
    (beyond,) = chains.ours(Chain((Link("TimestampConverter$Value", {"target.type": "Timestamp"}),)), year_300000)
    assert "9404818243200000 ms is beyond" in str(beyond)


def split(path: str) -> tuple[tuple[str, ...] | None, str]:
    try:
        return steps(path), ""
    except ValueError as error:
        return None, str(error)


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text("ab.`\\", min_size=1, max_size=9), min_size=40, max_size=60))
def test_paths_have_the_steps_that_connect_sees(chains: Chains, paths: list[str]) -> None:
    for path in paths:
        link = Link("ExtractField$Value", {"field": path, "field.syntax.version": "V2"})
        found, wrong = split(path)
        if found is None:
            assert chains.refused(link) == wrong
            continue
        document: Any = 1
        for step in reversed(found):
            document = {step: document}
        (answer,) = chains.apache(Chain((link,), value=SCHEMALESS), [Record(json.dumps(document).encode())])
        assert isinstance(answer, Record), path
        assert answer.value == b"1", path


REFUSED: Final = [
    Link("TimestampConverter$Value", {"target.type": "foo"}),
    Link("TimestampConverter$Value", {"target.type": "string"}),
    Link("TimestampConverter$Value", {"target.type": "string", "format": " "}),
    Link("TimestampConverter$Value", {"target.type": "unix", "unix.precision": "Seconds"}),
    Link("ExtractField$Value", {"field": "a", "field.syntax.version": "v3"}),
    Link("ExtractField$Value", {"field": "`a", "field.syntax.version": "v2"}),
    Link("ExtractField$Value", {}),
    Link("HoistField$Key", {}),
    Link("ValueToKey", {"fields": ""}),
    Link("ValueToKey", {"fields": "a,,b"}),
]


@pytest.mark.parametrize("link", REFUSED, ids=lambda link: "-".join([link.class_name, *link.settings.values()]))
def test_settings_are_refused_alike(chains: Chains, link: Link) -> None:
    with pytest.raises(ConfigError) as refused:
        chains.ours(Chain((link,)), [])
    assert refused.value.problems[0].message in str(chains.refused(link))


RARE: Final = {
    "yyyy-'W'ww": ["2024-W07", "2024-W53", "2024-W0", "2024-7"],
    "EEEE": ["Tuesday", "sun", "x"],
    "G yyyy": ["BC 0044", "AD 2024", "ad 1"],
    "F": ["2", "9", "x"],
    "yyyy z": [
        "2024 Pacific Standard Time",
        "2024 CST",
        "2024 JST",
        "2024 NZDT",
        "2024 XYZ",
        "2024 GMT+3:00",
        "2024 GMT",
    ],
}


@pytest.mark.parametrize("pattern", RARE)
@pytest.mark.parametrize("target", ["string", "unix"])
def test_rare_letters_in_formats(chains: Chains, pattern: str, target: str) -> None:
    link = Link("TimestampConverter$Value", {"target.type": target, "format": pattern})
    chains.alike([link], documents(schema("int64"), *TIMES))
    if target == "unix" or "z" not in pattern:  # Apache prints in the zone that it has read last
        chains.alike([link], documents(TEXT, *RARE[pattern]))


def test_a_format_that_is_no_pattern_is_refused(chains: Chains) -> None:
    link = Link("TimestampConverter$Value", {"target.type": "unix", "format": "yyyyb"})
    assert "Illegal pattern character 'b'" in str(chains.refused(link))
    with pytest.raises(ConfigError, match=r"SimpleDateFormat-compatible pattern.*yyyyb.*Illegal pattern character 'b'"):
        chains.ours(Chain((link,)), [])


def test_all_of_them_run_here(chains: Chains) -> None:
    """Compiled, one after the other, keys too."""
    not_null = ("predicates.RecordIsTombstone", dict[str, str]())
    links = [
        Link("HoistField$Value", {"field": "h"}, not_null, negate=True),
        Link("Flatten$Value"),
        Link("ValueToKey", {"fields": "h.t,h.x"}),
        Link("TimestampConverter$Value", {"field": "h.t", "target.type": "string", "format": "yyyy-MM-dd"}),
        Link("ExtractField$Key", {"field": "h.t"}),
        Link("TimestampConverter$Key", {"target.type": "unix", "unix.precision": "seconds", "format": "yyyy-MM-dd"}),
        Link("HoistField$Key", {"field": "k"}),
        Link("Flatten$Key"),
    ]
    of = struct(schema("int64", field="t"), schema("string", field="x", optional=True))
    chains.alike(links, [*documents(of, {"t": 1_700_000_000_123, "x": "y"}, {"t": 0}), Record(None)], here=True)
    rows = [*plain('{"t":5}', '{"t":"x"}'), Record(None)]
    chains.alike([*links[:3], *links[4:]], rows, here=True, key=SCHEMALESS, value=SCHEMALESS)
