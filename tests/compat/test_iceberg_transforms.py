"""Transforms of Iceberg's sink against its own jar."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError

from headrace.config.problems import ConfigError
from headrace.plugins.interop.discovery import Plugins
from tests.compat.test_new_record_state import (
    FULL,
    KEEPS_NULLS,
    KEY,
    OP,
    SPARSE,
    crashes,
    documents,
    event,
    named,
    row,
    schema,
    struct,
)
from tests.compat.transform_oracle import SCHEMALESS, TEXT, Answer, Chain, Chains, Link, Record

pytestmark = pytest.mark.spark

PACKAGE: Final = "org.apache.iceberg.connect.transforms."
COPY: Final = f"{PACKAGE}CopyValue"
DEBEZIUM: Final = f"{PACKAGE}DebeziumTransform"
DMS: Final = f"{PACKAGE}DmsTransform"
METADATA: Final = f"{PACKAGE}KafkaMetadataTransform"

TIME: Final = schema("int64", "ts_ms")
POSTGRES: Final = struct(
    schema("string", "db"), schema("string", "schema"), schema("string", "table"), field="source", optional=False
)
MYSQL: Final = struct(schema("string", "db"), schema("string", "table"), field="source")
IN: Final = {"db": "d", "schema": "s", "table": "t"}
BEFORE: Final = named(row(), "before")
AFTER: Final = named(row(), "after")
CREATE: Final = {"after": FULL, "op": "c", "ts_ms": 9, "source": IN}
EVENTS: Final = [
    CREATE,
    {**CREATE, "after": SPARSE, "op": "r"},
    {**CREATE, "before": SPARSE, "op": "u"},
    {"before": FULL, "op": "d", "ts_ms": 9, "source": IN},
    {**CREATE, "op": "x"},
]
OPTIONAL_KEY: Final = struct(schema("int32", "id"), name="k")
OBJECTS: Final = [
    b'{"a":1,"c":2}',
    b'{"a":null,"b":{"x":[1]}}',
    b'{"c":2.5}',
    b"[1]",
    b'"x"',
    b'{"_kafka_metadata_topic":1,"_kafka_metadata":2,"c":"\\""}',
    None,
]
STRUCTS: Final = [
    *documents(
        struct(schema("int32", "a", default=7), schema("string", "b"), name="n", version=3, doc="d"),
        {"a": 1, "b": "x"},
        {"a": None, "b": None},
        None,
    ),
    *documents(struct(schema("int32", "a"), schema("string", "c"), optional=False), {"a": 1, "c": "x"}),
    *documents(struct(schema("string", "_kafka_metadata_topic")), {"_kafka_metadata_topic": "x"}),
    *documents(schema("string"), "x", None),
    Record(None),
]


def objects(*values: Any, **more: Any) -> list[Record]:
    return [Record(None if one is None else json.dumps(one).encode(), **more) for one in values]


def test_changes_with_a_schema(chains: Chains) -> None:
    envelope = event(BEFORE, AFTER, POSTGRES, OP, TIME)
    records = documents(envelope, *EVENTS, key=KEY[0].value)
    made = chains.alike([Link(DEBEZIUM)], [*records, Record(None, KEY[0].value)], value=KEEPS_NULLS, here=True)
    assert b'"_cdc":{"op":"D","ts":9,"offset":3,"source":"s.t","target":"s.t","key":{"id":1}}' in _value(made[3])
    keys = [documents(OPTIONAL_KEY, {"id": None})[0].value, documents(schema("string"), "x")[0].value, None]
    chains.alike([Link(DEBEZIUM)], [records[3]._replace(key=key) for key in keys])
    optional = documents({**envelope, "optional": True}, CREATE, None)
    of_mysql = documents(event(BEFORE, AFTER, MYSQL, OP, TIME, name="no envelope"), *EVENTS)
    chains.alike([Link(DEBEZIUM)], [*optional, *of_mysql], value=KEEPS_NULLS)
    chains.alike([Link(DEBEZIUM, {"cdc.target.pattern": "x_{db}_{table}{foo}{db}"})], records[:2])
    chains.alike([Link(DEBEZIUM, {"cdc.target.pattern": ""})], records[:2], source=True)
    chains.alike([Link(DEBEZIUM)], [Record(records[0].value, b'{"a":1}')], key=SCHEMALESS)


def test_before_and_after_of_two_types(chains: Chains) -> None:
    other = named(struct(schema("string", "id"), name="other"), "before")
    events = [CREATE, {**CREATE, "op": "d", "before": {"id": "x"}}]
    chains.alike([Link(DEBEZIUM)], documents(event(other, AFTER, MYSQL, OP, TIME), *events))


def test_changes_that_lack_a_part(chains: Chains) -> None:
    odd = [
        event(BEFORE, AFTER, MYSQL, OP),
        event(BEFORE, AFTER, MYSQL, OP, schema("int32", "ts_ms")),
        event(BEFORE, AFTER, MYSQL, TIME),
        event(BEFORE, AFTER, OP, TIME),
        event(AFTER, MYSQL, OP, TIME),
        event(BEFORE, MYSQL, OP, TIME),
        event(named(schema("string"), "after"), MYSQL, OP, TIME),
        event(BEFORE, AFTER, struct(schema("string", "db"), field="source"), OP, TIME),
        event(BEFORE, AFTER, struct(schema("string", "table"), field="source"), OP, TIME),
        event(named(struct(schema("string", "_cdc")), "after"), MYSQL, OP, TIME),
    ]
    records = [
        one
        for envelope in odd
        for op in "cd"
        for one in documents(envelope, {"op": op, "ts_ms": 9, "before": FULL, "source": IN, **_after(envelope)})
    ]
    answers = chains.alike([Link(DEBEZIUM)], [*records, *documents(schema("string"), "x", None)], known=crashes)
    assert sum(isinstance(one, Record) for one in answers) == 3


def _after(envelope: dict[str, Any]) -> dict[str, Any]:
    kinds = {one["field"]: one for one in envelope["fields"]}
    of = kinds.get("after", {})
    return {"after": "x" if of.get("type") == "string" else FULL if len(of.get("fields", ())) == 2 else {"_cdc": "x"}}


def test_changes_that_crash_iceberg(chains: Chains) -> None:
    envelope = event(BEFORE, AFTER, {**POSTGRES, "optional": True}, OP, TIME)
    whole = [{**CREATE, "ts_ms": None}, {**CREATE, "source": None}, {**CREATE, "source": {**IN, "table": None}}]
    truncate, of_no_schema = {"op": "t", "ts_ms": 9, "source": IN}, {**CREATE, "source": {**IN, "schema": None}}
    chain = Chain((Link(DEBEZIUM),))
    no_time, no_source, no_table, nothing, of_db = chains.ours(
        chain, documents(envelope, *whole, truncate, of_no_schema)
    )
    assert no_time == f"error:{DEBEZIUM}:The event has no ts_ms"
    assert no_source == no_table == f"error:{DEBEZIUM}:The event does not name its table"
    assert nothing == "dropped"
    assert b'"source":"d.t"' in _value(of_db)


def test_changes_without_a_schema(chains: Chains) -> None:
    keys = (b'{"id":1}', None, b"[1]", b'"x"')
    odd = [{"a": 1}, {"op": "c"}, {"op": "c", "after": [1], "source": {"db": "x"}}, "x"]
    records = [one for key in keys for one in objects(*EVENTS, None, key=key)]
    records += objects(*odd, {**CREATE, "after": {"a": 1, "_cdc": 2}}, {**CREATE, "ts_ms": None})
    records += objects({**CREATE, "source": {"db": "$1", "table": "{db}"}})
    chains.alike(
        [Link(DEBEZIUM, {"cdc.target.pattern": "{table} {db}"})],
        records,
        value=SCHEMALESS,
        key=SCHEMALESS,
        known=crashes,
    )
    chains.alike([Link(DEBEZIUM)], objects(CREATE, key=b"x"), value=SCHEMALESS, key=TEXT, source=True)


def test_changes_by_dms(chains: Chains) -> None:
    metadata = {"timestamp": "2019-01-01T00:00:00Z", "operation": "insert", "schema-name": "s", "table-name": "t"}
    change = {"data": {"a": 1, "_cdc": "x"}, "metadata": metadata}
    records = objects(
        *({**change, "metadata": {**metadata, "operation": op}} for op in ("insert", "update", "delete", "load", None)),
        {"data": None, "metadata": metadata},
        {"metadata": metadata},
        {"data": {"a": 1}},
        {"data": [1], "metadata": metadata},
        {"data": {"a": 1}, "metadata": [1]},
        {"data": {}, "metadata": {}},
        1,
        None,
    )
    chains.alike([Link(DMS)], records, value=SCHEMALESS, known=crashes, here=True)
    refused, none = chains.ours(Chain((Link(DMS),)), documents(struct(schema("string", "data")), {"data": "x"}, None))
    assert str(refused).startswith(f"error:{DMS}:DmsTransform reads JSON without a schema")
    assert isinstance(none, Record)


def test_a_copied_value(chains: Chains) -> None:
    link = Link(COPY, {"source.field": "a", "target.field": "b"})
    chains.alike([link], [Record(one) for one in OBJECTS], value=SCHEMALESS, here=True)
    chains.alike([link], STRUCTS, value=KEEPS_NULLS, known=crashes)
    other = Link(COPY, {"source.field": "a", "target.field": "a.b"})
    chains.alike([other], STRUCTS, value=KEEPS_NULLS, known=crashes, here=True)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"nested": "true", "field_name": "m"},
        {"external_field": 'k,v:"w'},
        {"nested": "true", "external_field": " a ,"},
    ],
)
def test_the_place_in_kafka(chains: Chains, settings: dict[str, str]) -> None:
    timeless = [Record(OBJECTS[0], timestamp=None)]
    chains.alike([Link(METADATA, settings)], [*map(Record, OBJECTS), *timeless], value=SCHEMALESS)
    chains.alike([Link(METADATA, settings)], [*STRUCTS, STRUCTS[0]._replace(timestamp=None)], value=KEEPS_NULLS)


def test_a_source_has_no_place_in_kafka(chains: Chains) -> None:
    for value, record in ((SCHEMALESS, Record(OBJECTS[0])), (KEEPS_NULLS, STRUCTS[0])):
        (answer,) = chains.alike([Link(METADATA)], [record], value=value, source=True, known=crashes)
        assert str(answer).startswith("crash")


def test_settings(chains: Chains) -> None:
    plugins = Plugins.discover()
    for name in (COPY, DEBEZIUM, DMS, METADATA):
        ours = plugins.find("transformation", name).load()
        assert ours is plugins.find("transformation", name.replace("org.apache", "io.tabular")).load()
        shown = [setting.key_info() for setting in ours.settings]
        assert [one["name"] for one in shown] == [one["name"] for one in chains.declared(name)]
        for one, apache in zip(shown, chains.declared(name), strict=True):
            assert {key: one[key] for key in apache if key in ("type", "required", "default_value", "importance")} == {
                key: apache[key] for key in ("type", "required", "default_value", "importance")
            }


@pytest.mark.parametrize("external", ["", "k", "a,b,c"])
def test_a_wrong_external_field(chains: Chains, external: str) -> None:
    link = Link(METADATA, {"external_field": external})
    with pytest.raises(Py4JJavaError):
        chains.apache(Chain((link,)), [])
    with pytest.raises(ConfigError, match="external_field"):
        chains.ours(Chain((link,)), [])


def _value(answer: Answer) -> bytes:
    assert isinstance(answer, Record), answer
    assert answer.value is not None
    return answer.value
