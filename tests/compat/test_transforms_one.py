"""InsertField, MaskField, ReplaceField and SetSchemaMetadata against Apache's own classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pytest

from headrace.config.problems import ConfigError
from tests.compat.documents import LOGICAL, Fields, decimal, documents, logical, plain, struct, texts
from tests.compat.transform_oracle import SCHEMALESS, Chain, Chains, Link, Record

pytestmark = pytest.mark.spark

PARTS: Final[Fields] = [
    ("a", {"type": "int32"}),
    ("b", {"type": "string", "optional": True, "doc": "a text"}),
    ("c", {"type": "int64", "optional": True, "default": 5}),
    ("d.e", struct([("x", {"type": "double", "optional": True, "default": 1.5})], optional=True)),
]
ROWS: Final = (
    {"a": 1, "b": "x", "c": 7, "d.e": {"x": 2.5}},
    {"a": 2, "b": None, "c": None, "d.e": None},
    {"a": 3, "b": "", "c": -1, "d.e": {"x": None}},
)
REQUIRED: Final = documents(struct(PARTS, name="S", version=2, doc="D", parameters={"p": "q"}), ROWS)
OPTIONAL: Final = documents(struct(PARTS, optional=True), [*ROWS, None])
NO_STRUCTS: Final = [
    *plain("int32", (1,)),
    *plain("string", ("x", None), optional=True),
    *documents({"type": "array", "items": {"type": "int32", "optional": False}, "optional": False}, ([1],)),
    *documents(logical("int64", "Timestamp", optional=False), (1,)),
    Record(None),
]
OBJECTS: Final = texts(
    *('{"a":1,"b":"x","c":null}', '{"b":"x","a":{"a":[1,{"b":null}]}}', "{}", '{"é":"\\"\\\\","b":1.10,"a":"\\u00e9"}'),
    *("5", "1.5", '"x"', "[1]", "true", "null", None),
)


class TestReplaceField:
    @pytest.mark.parametrize(
        "settings",
        [
            {"exclude": "c", "include": "a,b,c,nowhere", "renames": "a:b,b:a"},
            {"exclude": "nowhere", "renames": "a:z,c:a", "replace.null.with.default": "false"},
        ],
    )
    def test_structs_and_objects(self, chains: Chains, settings: dict[str, str]) -> None:
        chains.alike([Link("ReplaceField$Value", settings)], [*REQUIRED, *OPTIONAL])
        chains.alike([Link("ReplaceField$Value", settings)], OBJECTS, value=SCHEMALESS)

    def test_a_name_twice(self, chains: Chains) -> None:
        chains.alike([Link("ReplaceField$Value", {"renames": "a:b"})], REQUIRED)

    def test_other_values(self, chains: Chains) -> None:
        chains.alike([Link("ReplaceField$Value", {"exclude": "a"})], NO_STRUCTS)
        keys = [one._replace(key=one.value, value=b"null") for one in (*REQUIRED, *NO_STRUCTS[:1])]
        chains.alike([Link("ReplaceField$Key", {"exclude": "a,b"})], keys)

    def test_a_new_name_that_a_field_has_already(self, chains: Chains) -> None:
        """Connect looks for the field of the old name, which is not there."""
        chain = Chain((Link("ReplaceField$Value", {"renames": "nowhere:a"}),))
        assert all("nowhere is not a valid field name" in str(one) for one in chains.apache(chain, REQUIRED))
        ours = [json.loads(one.value or b"") for one in chains.ours(chain, REQUIRED[:1]) if isinstance(one, Record)]
        assert [one["payload"] for one in ours] == [ROWS[0]]


ALL_FIELDS: Final = {
    "topic.field": "t!",
    "partition.field": "p",
    "offset.field": "o?",
    "timestamp.field": "ts",
    "static.field": "st!",
    "static.value": ' "é\n',
}


class TestInsertField:
    def test_structs_and_objects(self, chains: Chains) -> None:
        untimed = [one._replace(timestamp=None, topic="x\ny") for one in REQUIRED[:2]]
        chains.alike([Link("InsertField$Value", ALL_FIELDS)], [*REQUIRED, *untimed, *OPTIONAL])
        untimed = [one._replace(timestamp=None) for one in OBJECTS[:2]]
        chains.alike([Link("InsertField$Value", ALL_FIELDS)], [*OBJECTS, *untimed], value=SCHEMALESS)
        chains.alike([Link("InsertField$Value", {**ALL_FIELDS, "topic.field": "a"})], OBJECTS, value=SCHEMALESS)

    def test_source_records(self, chains: Chains) -> None:
        settings = {"partition.field": "p", "timestamp.field": "b!"}
        records = [one._replace(partition=None, timestamp=None) for one in (*OBJECTS[:2], OBJECTS[-1])]
        chains.alike([Link("InsertField$Value", settings)], records, source=True, value=SCHEMALESS)
        needed = {"partition.field": "p!", "timestamp.field": "ts!", "replace.null.with.default": "false"}
        records = [*REQUIRED, REQUIRED[0]._replace(partition=None), REQUIRED[0]._replace(timestamp=None)]
        chains.alike([Link("InsertField$Value", needed)], records, source=True)
        chains.alike([Link("InsertField$Value", {"offset.field": "o"})], [*OPTIONAL, Record(None)], source=True)
        chains.alike([Link("InsertField$Value", {"offset.field": "o"})], OBJECTS, source=True, value=SCHEMALESS)

    def test_other_values(self, chains: Chains) -> None:
        chains.alike([Link("InsertField$Value", {"topic.field": "t"})], NO_STRUCTS)
        chains.alike([Link("InsertField$Value", {"topic.field": "a"})], OPTIONAL)
        keys = [one._replace(key=one.value, value=b"null") for one in (*REQUIRED, Record(None))]
        chains.alike([Link("InsertField$Key", {"topic.field": "t"})], keys)

    def test_a_timestamp_that_spark_cannot_hold(self, chains: Chains) -> None:
        chain = Chain((Link("InsertField$Value", {"timestamp.field": "ts"}),))
        ours = chains.ours(chain, [one._replace(timestamp=2**62) for one in REQUIRED[:1]])
        assert [f"The timestamp {2**62} ms is beyond the year" in str(one) for one in ours] == [True]


MASKED: Final[Fields] = [
    *((kind, {"type": kind, "optional": True}) for kind in ("int8", "int16", "int32", "int64", "float", "double")),
    *((kind, {"type": kind, "optional": True}) for kind in ("boolean", "string")),
    ("array", {"type": "array", "items": {"type": "string", "optional": False}, "optional": True}),
    ("map", {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}, "optional": True}),
    ("date", logical("int32", "Date", optional=True)),
    ("time", logical("int32", "Time", optional=True)),
    ("timestamp", logical("int64", "Timestamp", optional=True)),
    ("decimal", logical("bytes", "Decimal", optional=True, parameters={"scale": "0"})),
    ("default", {"type": "int32", "optional": True, "default": 7}),
    ("required", {"type": "string"}),
    ("kept", {"type": "string"}),
]
FULL: Final = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "float", "double", "date", "time", "timestamp", "default"), 3),
    "boolean": True,
    "string": "x",
    "array": ["x"],
    "map": {"a": 1},
    "decimal": decimal(300),
    "required": "r",
    "kept": "k",
}
EMPTY: Final = {"required": "r", "kept": "k"}


class TestMaskField:
    def test_nothing_instead(self, chains: Chains) -> None:
        settings = {"fields": ",".join(name for name, _ in MASKED if name != "kept")}
        records = documents(struct(MASKED), [FULL, EMPTY])
        chains.alike([Link("MaskField$Value", settings)], records)
        chains.alike([Link("MaskField$Value", {**settings, "replace.null.with.default": "false"})], records)
        chains.alike([Link("MaskField$Value", {"fields": "a,z"})], OBJECTS, value=SCHEMALESS)

    @pytest.mark.parametrize(("text", "kept"), [("-1.5e3", ("kept", "decimal")), (" x ", ("kept",))])
    def test_a_replacement(self, chains: Chains, text: str, kept: Sequence[str]) -> None:
        names = [name for name, _ in MASKED if name not in kept]
        records = documents(struct(MASKED), [{**EMPTY, name: FULL[name]} for name in names])
        chains.alike([Link("MaskField$Value", {"fields": ",".join(names), "replacement": text})], records)
        values = ("5", "1.5", '"x"', "true", "[1]", '{"a":1}', "null")
        objects = texts(*(f'{{"a":{value}}}' for value in values), "[]", None)
        chains.alike([Link("MaskField$Value", {"fields": "a,z", "replacement": text})], objects, value=SCHEMALESS)

    def test_other_values(self, chains: Chains) -> None:
        inside = [("b", {"type": "bytes", "optional": True}), ("s", struct([("x", {"type": "int8"})], optional=True))]
        records = documents(struct(inside, optional=True), [{}, {"b": "aGk="}, {"s": {"x": 1}}, None])
        chains.alike([Link("MaskField$Value", {"fields": "b,s"})], [*records, *NO_STRUCTS])
        chains.alike([Link("MaskField$Value", {"fields": "b,s", "replacement": "1"})], records)
        chains.alike(
            [Link("MaskField$Key", {"fields": "a"})], [one._replace(key=one.value, value=None) for one in REQUIRED]
        )

    def test_decimals_keep_their_scale(self, chains: Chains) -> None:
        """Connect's zero has scale 0, and its converter then fails."""
        chain = Chain((Link("MaskField$Value", {"fields": "d"}),))
        schema = struct([("d", logical("bytes", "Decimal", parameters={"scale": "2"}))])
        records = documents(schema, [{"d": decimal(300)}])
        assert ["mismatching scale" in str(one) for one in chains.apache(chain, records)] == [True]
        ours = [json.loads(one.value or b"") for one in chains.ours(chain, records) if isinstance(one, Record)]
        assert [one["payload"] for one in ours] == [{"d": decimal(0)}]


class TestSetSchemaMetadata:
    def test_structs(self, chains: Chains) -> None:
        chains.alike([Link("SetSchemaMetadata$Value", {"schema.name": "N"})], [*REQUIRED, *OPTIONAL, Record(None)])
        settings = {"schema.version": "9", "schema.name": "é", "replace.null.with.default": "false"}
        chains.alike([Link("SetSchemaMetadata$Value", settings)], REQUIRED)
        keys = [one._replace(key=one.value, value=b"null") for one in REQUIRED]
        chains.alike([Link("SetSchemaMetadata$Key", {"schema.version": "9"})], keys)

    def test_without_schema(self, chains: Chains) -> None:
        chains.alike([Link("SetSchemaMetadata$Value", {"schema.version": "9"})], OBJECTS, value=SCHEMALESS)

    def test_any_schema_can_be_named(self, chains: Chains) -> None:
        """Connect asks a schema that is no struct for its fields, and fails."""
        chain = Chain((Link("SetSchemaMetadata$Value", {"schema.name": LOGICAL + "Date", "schema.version": "1"}),))
        records = [*plain("int32", (19000,)), *plain("string", ("x", None), optional=True)]
        assert {"Cannot list fields on non-struct type" in str(one) for one in chains.apache(chain, records)} == {True}
        date, text = (f'"name":"{LOGICAL}Date","version":1}},"payload":{payload}}}' for payload in ("19000", '"x"'))
        ours = [(one.value or b"").decode() for one in chains.ours(chain, records) if isinstance(one, Record)]
        assert [date in ours[0], text in ours[1], len(ours)] == [True, True, 3]


CHAIN: Final = (
    Link("ReplaceField$Value", {"exclude": "b", "renames": "a:id"}),
    Link("InsertField$Value", {"topic.field": "t", "timestamp.field": "ts"}),
    Link("Cast$Value", {"spec": "id:string,c:int8,ts:int64"}),
    Link("MaskField$Value", {"fields": "c"}, ("predicates.TopicNameMatches", {"pattern": "x"})),
    Link("SetSchemaMetadata$Value", {"schema.name": "N"}),
)


def test_a_chain(chains: Chains) -> None:
    chains.alike(CHAIN, [*REQUIRED, *OPTIONAL[:3], REQUIRED[0]._replace(topic="x")], here=True)


REFUSED: Final = [
    *(
        ("Cast$Value", {"spec": spec})
        for spec in ("a:foo", "foo", "a:array", "bytes", "a:b:c", "int8,a:int8", "a:", "a:int8,,")
    ),
    *(("Cast$Value", settings) for settings in ({}, {"spec": ""})),
    *(("ReplaceField$Value", {"renames": text}) for text in ("a", "a:b:c", "a:", ":")),
    ("ReplaceField$Value", {"exclude": "a,,b"}),
    ("InsertField$Value", {}),
    *(("MaskField$Value", settings) for settings in ({}, {"fields": ""}, {"fields": "a", "replacement": " "})),
    *(("SetSchemaMetadata$Value", settings) for settings in ({}, {"schema.version": "x"}, {"schema.version": ""})),
]


@pytest.mark.parametrize(("class_name", "settings"), REFUSED)
def test_settings_are_refused(chains: Chains, class_name: str, settings: dict[str, str]) -> None:
    message = chains.refused(Link(class_name, settings))
    assert message is not None
    with pytest.raises(ConfigError) as refused:
        chains.ours(Chain((Link(class_name, settings),)), [])
    assert [problem.message for problem in refused.value.problems] == [message]
