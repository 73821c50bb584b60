"""Debezium's outbox EventRouter and ByLogicalTableRouter against their own jar."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.config.problems import ConfigError
from headrace.plugins.transforms.logical_table import ByLogicalTableRouter, ToLogicalTopicRouter
from headrace.plugins.transforms.outbox import EventRouter
from tests.compat.test_new_record_state import (
    KEEPS_NULLS,
    OP,
    OTHERS,
    SOURCE,
    crashes,
    documents,
    event,
    named,
    row,
    schema,
    struct,
)
from tests.compat.transform_oracle import Answer, Chain, Chains, Link, Record

pytestmark = pytest.mark.spark

OUTBOX: Final = "io.debezium.transforms.outbox.EventRouter"
LOGICAL: Final = "io.debezium.transforms.ByLogicalTableRouter"
LATER: Final = schema("int64", "ts_ms")
Node = dict[str, Any]


def table(*more: Node, **changed: Node) -> Node:
    """An outbox table's row; `changed` are columns of another type."""
    columns = {
        "id": schema("string", optional=False, name="io.debezium.data.Uuid", version=1),
        "aggregatetype": schema("string", optional=False),
        "aggregateid": schema("string", optional=False),
        "type": schema("string", optional=False),
        "payload": schema("string"),
        "at": schema("int64", name="io.debezium.time.MicroTimestamp", version=1),
        "shard": schema("int32", default=7),
        **changed,
    }
    fields = [named(of, name) for name, of in columns.items() if of]
    return struct(*fields, *more, name="s.public.outbox.Value")


def inserts(of: Node, *rows: Node | None, op: str = "c", **parts: Any) -> list[Record]:
    envelope = event(named(of, "before"), named(of, "after"), SOURCE, OP, LATER, name="s.public.outbox.Envelope")
    payloads = [{"after": one, "op": op, "ts_ms": 9, "source": {"version": "3.5", "ts_ms": 5}} for one in rows]
    return documents(envelope, *payloads, topic="s.public.outbox", **parts)


ORDER: Final = {
    "id": "0e2",
    "aggregatetype": "order",
    "aggregateid": "17",
    "type": "OrderCreated",
    "payload": '{"a": 1, "n": {"b": 1.5, "c": null}, "s": ["x"]}',
    "at": 1_700_000_000_123_456,
    "shard": 3,
}
ROWS: Final = [ORDER, {**ORDER, "payload": None, "at": None, "shard": None}, {**ORDER, "payload": " "}]
MIXED: Final = [
    *inserts(table(), *ROWS, key=b'{"schema":{"type":"int32","optional":false},"payload":1}'),
    *inserts(table(), ORDER, op="r"),
    *inserts(table(), ORDER, op="u"),
    *inserts(table(), ORDER, op="d"),
    *inserts(table(), None, op="t"),
    Record(None),
    *OTHERS[1:],
]
PLACED: Final = "type:header:eventType, shard:partition ,aggregateid:HEADER"


def renamed(debezium: Answer, ours: Answer) -> bool:
    """The same but for the name of the struct with columns beside the payload."""
    if isinstance(debezium, str) or isinstance(ours, str):
        return crashes(debezium, ours)
    theirs, mine = json.loads(debezium.value or b"{}"), json.loads(ours.value or b"{}")
    names = theirs["schema"].pop("name"), mine["schema"].pop("name")
    same = theirs == mine and debezium._replace(value=None) == ours._replace(value=None)
    return same and names == ("s.public.outbox.order.Value", "s.public.outbox.Value")


def expanded(debezium: Answer, ours: Answer) -> bool:
    """The same but for the schema of the payload, which ours does not have."""
    if isinstance(debezium, str) or isinstance(ours, str):
        return crashes(debezium, ours)
    theirs, mine = json.loads(debezium.value or b"{}"), json.loads(ours.value or b"{}")
    same = theirs["payload"] == mine["payload"] and debezium._replace(value=None) == ours._replace(value=None)
    return same and mine["schema"] is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"table.fields.additional.placement": PLACED, "table.field.event.timestamp": "at"},
        {
            "route.tombstone.on.empty.payload": "true",
            "route.topic.regex": "(o)(.*)",
            "route.topic.replacement": "$1-$2",
        },
        {"table.op.invalid.behavior": "fatal", "route.topic.replacement": "outbox.event.${key}"},
    ],
    ids=lambda options: "-".join(options) or "none",
)
def test_outbox(chains: Chains, options: dict[str, str]) -> None:
    answers = chains.alike([Link(OUTBOX, options)], MIXED, value=KEEPS_NULLS, source=True, known=crashes)
    assert sum(one == "dropped" for one in answers) >= 2


def test_an_envelope(chains: Chains) -> None:
    options = {"table.fields.additional.placement": "type:envelope:eventType,shard:envelope"}
    records = [
        *inserts(table(), *ROWS),
        *inserts(table(payload=schema("bytes", optional=False)), {**ORDER, "payload": "AA=="}),
    ]
    chains.alike([Link(OUTBOX, options)], records, value=KEEPS_NULLS, source=True, known=renamed)
    required = inserts(table(payload=schema("string", optional=False)), {**ORDER, "payload": ""})
    twice = {"table.fields.additional.placement": "type:envelope:payload"}
    chains.alike([Link(OUTBOX, twice)], required, value=KEEPS_NULLS, source=True)


@pytest.mark.parametrize("nulls", ["ignore", "optional_bytes"])
def test_expanded_payloads(chains: Chains, nulls: str) -> None:
    texts = [ORDER["payload"], '{"b":12345678901,"t":true,"o":{"p":{"q":"é"}}}', "{}", "{x", "plain", "", None, "5"]
    options = {"table.expand.json.payload": "true", "table.json.payload.null.behavior": nulls}
    records = inserts(table(), *({**ORDER, "payload": text} for text in texts))
    answers = chains.alike([Link(OUTBOX, options)], records, value=KEEPS_NULLS, source=True, known=expanded)
    assert [isinstance(one, Record) for one in answers] == [True] * len(texts)
    options |= {
        "table.fields.additional.placement": "type:envelope:eventType",
        "route.tombstone.on.empty.payload": "true",
    }
    ours = chains.ours(Chain((Link(OUTBOX, options),), value=KEEPS_NULLS, source=True), records[:1] + records[5:6])
    assert isinstance(ours[0], Record)
    assert isinstance(ours[1], Record)
    found = json.loads(ours[0].value or b"")["payload"]
    assert (found["eventType"], found["payload"]["a"], ours[1].value) == ("OrderCreated", 1, None)


def test_arrays_become_arrays(chains: Chains) -> None:
    """Debezium's own fail later, in the converter, or stay texts."""
    records = inserts(table(), *({**ORDER, "payload": text} for text in ('[{"a":1},{"b":[]}]', '[1, "x"]')))
    link = Link(OUTBOX, {"table.expand.json.payload": "true"})
    answers = chains.ours(Chain((link,), value=KEEPS_NULLS, source=True), records, here=True)
    found = [json.loads(one.value or b"")["payload"] for one in answers if isinstance(one, Record)]
    assert found == [[{"a": 1}, {"b": []}], [1, "x"]]


NO_ENVELOPE: Final = [
    *documents(schema("string", name=".Envelope"), "x"),
    *documents(event(named(row(), "after"), SOURCE), {"after": {"id": 1}}),
    *documents(event(SOURCE, OP, LATER), {"op": "c"}),
    *documents(event(schema("string", "after"), SOURCE, OP, LATER), {"after": "x", "op": "c"}),
    *documents(event(named(table(), "after"), SOURCE, OP), {"after": ORDER, "op": "c"}),
    *inserts(table(payload={}), {}),
    *inserts(table(id={}), ORDER),
    *inserts(table(aggregateid={}), ORDER),
    *inserts(table(aggregatetype={}), ORDER),
    *inserts(table(aggregatetype=schema("int32")), {**ORDER, "aggregatetype": 1}),
    *inserts(table(aggregatetype=schema("string")), {**ORDER, "aggregatetype": None}),
]
TIMES: Final = [
    *inserts(table(at={}), ORDER),
    *inserts(table(at=schema("int32")), {**ORDER, "at": 1}),
    *inserts(table(at=schema("int64")), {**ORDER, "at": 1}),
    *inserts(table(at=schema("int64", name="x.Y")), {**ORDER, "at": 1}, {**ORDER, "at": None}),
    *inserts(table(at=schema("int64", name="io.debezium.time.Timestamp")), {**ORDER, "at": -1}),
    *inserts(table(at=schema("int64", name="io.debezium.time.NanoTimestamp")), {**ORDER, "at": -1_999_999}),
]


def test_tables_that_lack_something(chains: Chains) -> None:
    chains.alike([Link(OUTBOX)], NO_ENVELOPE, value=KEEPS_NULLS, source=True, known=crashes)
    chains.alike(
        [Link(OUTBOX, {"table.field.event.timestamp": "at"})], TIMES, value=KEEPS_NULLS, source=True, known=crashes
    )
    missing = {"table.fields.additional.placement": "zz:header,shard:partition,zz:partition"}
    chains.alike([Link(OUTBOX, missing)], inserts(table(), ORDER), value=KEEPS_NULLS, source=True)
    missing |= {"table.fields.additional.error.on.missing": "false"}
    chains.alike([Link(OUTBOX, missing)], inserts(table(), ORDER), value=KEEPS_NULLS, source=True, here=True)
    wrong = {"table.fields.additional.placement": "type:partition"}
    chains.alike([Link(OUTBOX, wrong)], inserts(table(), ORDER), value=KEEPS_NULLS, source=True)


def settings_of(chains: Chains, transform: Any, name: str, *ours_alone: str, required: tuple[str, ...] = ()) -> None:
    without = {"documentation": "", "display_name": ""}
    ours = [one.key_info() | without for one in transform.settings if one.name not in ours_alone]
    jar = [one | without | ({"required": True} if one["name"] in required else {}) for one in chains.declared(name)]
    assert ours == jar


def test_settings_are_those_of_the_jar(chains: Chains) -> None:
    settings_of(chains, EventRouter, OUTBOX)
    # The jar reads these without declaring them, and refuses to start without the required ones.
    more = ("key.field.name", "schema.name.adjustment.mode")
    settings_of(chains, ByLogicalTableRouter, LOGICAL, *more, required=("topic.regex", "topic.replacement"))
    assert {one.name: one.default for one in ToLogicalTopicRouter.settings}[
        "key.field.name"
    ] == "__dbz__sourceIdentifier"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (OUTBOX, {"table.op.invalid.behavior": "keep"}),
        (OUTBOX, {"table.fields.additional.placement": "a"}),
        (OUTBOX, {"table.fields.additional.placement": "a:header:b:c"}),
        (OUTBOX, {"route.topic.regex": "("}),
        (OUTBOX, {"table.json.payload.null.behavior": "keep"}),
        (LOGICAL, {"topic.regex": "a"}),
        (LOGICAL, {"topic.regex": "(", "topic.replacement": "b"}),
        (LOGICAL, {"topic.regex": "a", "topic.replacement": ""}),
        (LOGICAL, {"topic.regex": "a", "topic.replacement": "b", "key.field.regex": "x"}),
    ],
    ids=str,
)
def test_both_refuse(chains: Chains, name: str, settings: dict[str, str]) -> None:
    with pytest.raises((Py4JJavaError, PySparkException)):
        chains.apache(Chain((Link(name, settings),)), [])
    with pytest.raises(ConfigError):
        (EventRouter if name == OUTBOX else ByLogicalTableRouter)().configure(settings)


def test_what_only_ours_refuses() -> None:
    placed = {"table.fields.additional.placement": "type:envelope"}
    with pytest.raises(ConfigError, match="would give each record a schema of its own"):
        EventRouter().configure({**placed, "table.field.event.schema.version": "v"})
    with pytest.raises(ConfigError, match="one of header, envelope, partition"):
        EventRouter().configure({"table.fields.additional.placement": "type:heather"})


SHARD: Final = "s.db.orders_1"
SHARD_KEY: Final = struct(schema("int32", "id", optional=False), optional=False, name=f"{SHARD}.Key", version=2)


def shard(*payloads: Any, name: str = f"{SHARD}.Envelope", **parts: Any) -> list[Record]:
    of = {**row(), "name": f"{SHARD}.Value"}
    envelope = event(named(of, "before"), named(of, "after"), SOURCE, OP, name=name)
    key = documents(SHARD_KEY, {"id": 1})[0].value
    return documents(envelope, *payloads, **{"topic": SHARD, "key": key, **parts})


CHANGES: Final = [
    *shard(
        {"after": {"id": 1, "name": "x"}, "op": "c", "source": {"version": "3", "ts_ms": 1}},
        {"before": {"id": 1, "name": None}, "op": "d", "source": {"version": "3", "ts_ms": 1}},
        headers=(("h", b"x"),),
    ),
    *shard({"op": "t", "source": {"version": "3", "ts_ms": 1}}, topic="other"),
    *shard({"op": "t", "source": {"version": "3", "ts_ms": 1}}, key=None),
    Record(None, shard(None)[0].key, topic=SHARD),
    *documents(schema("string"), "heartbeat", topic=SHARD, key=shard(None)[0].key),
    *documents(schema("string"), "x", topic=SHARD, key=documents(schema("string"), "k")[0].value),
]


@pytest.mark.parametrize(
    "options",
    [
        {"topic.replacement": "$1all"},
        {"topic.replacement": "$1all", "key.enforce.uniqueness": "false"},
        {
            "topic.replacement": "$1all",
            "key.field.regex": ".*_(.*)",
            "key.field.replacement": "n$1",
            "key.field.name": "of",
        },
        {"topic.replacement": "${nothing}"},
        {"topic.replacement": "$1all", "key.field.name": "id"},
        {"topic.replacement": "$1a-l", "schema.name.adjustment.mode": "avro"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_logical_tables(chains: Chains, options: dict[str, str]) -> None:
    link = Link(LOGICAL, {"topic.regex": "(.*orders_).*", **options})
    chains.alike([link], CHANGES, value=KEEPS_NULLS, key=KEEPS_NULLS, source=True)


def test_an_empty_topic_changes_nothing(chains: Chains) -> None:
    link = Link(LOGICAL, {"topic.regex": "(x?).*", "topic.replacement": "$1"})
    chains.alike([link], CHANGES, value=KEEPS_NULLS, key=KEEPS_NULLS, source=True, here=True)


def test_a_schema_that_is_not_named_after_its_topic_is_refused(chains: Chains) -> None:
    link = Link(LOGICAL, {"topic.regex": "(.*)_1", "topic.replacement": "$1"})
    truncate = {"op": "t", "source": {"version": "3", "ts_ms": 1}}
    records = shard(truncate, name="s.db.people_1.Envelope", key=None) + shard(truncate, topic="x_1")
    for answer in chains.ours(Chain((link,), source=True), records):
        assert "is not named after the record's topic" in str(answer)


SNAKE: Final = struct(
    *(schema("string", name) for name in ("id", "aggregate_type", "aggregate_id", "type", "payload")), name="s.o.Value"
)
SNAKE_ROW: Final = {"id": "e", "aggregate_type": "order", "aggregate_id": "7", "type": "made", "payload": '{"a":1}'}
TYPE_HEADER: Final = {"table.fields.additional.placement": "type:header:eventType"}
PUBLISHED: Final[list[tuple[dict[str, str], Node, Node, str, Any]]] = [
    ({"table.expand.json.payload": "true", **TYPE_HEADER}, table(), ORDER, "outbox.event.order", ORDER["payload"]),
    (
        {
            "table.expand.json.payload": "true",
            "table.field.event.key": "aggregate_id",
            "route.by.field": "aggregate_type",
            "route.topic.replacement": "${routedByValue}",
            "table.fields.additional.placement": "type:header:SAGA_HEADER",
        },
        SNAKE,
        SNAKE_ROW,
        "order",
        '{"a":1}',
    ),
    (
        {
            "table.field.event.key": "aggregate_id",
            "table.fields.additional.placement": "type:header",
            "route.by.field": "aggregate_type",
            "route.topic.replacement": "${routedByValue}-events",
        },
        SNAKE,
        SNAKE_ROW,
        "order-events",
        None,
    ),
    (
        {
            "route.by.field": "type",
            "route.topic.replacement": "todo_created",
            "table.field.event.timestamp": "at",
            **TYPE_HEADER,
        },
        table(),
        ORDER,
        "todo_created",
        None,
    ),
]


@pytest.mark.parametrize(("settings", "of", "given", "topic", "document"), PUBLISHED, ids=range(len(PUBLISHED)))
def test_published_configs(
    chains: Chains, settings: dict[str, str], of: Node, given: Node, topic: str, document: str | None
) -> None:
    (answer,) = chains.ours(Chain((Link(OUTBOX, settings),), value=KEEPS_NULLS, source=True), inserts(of, given))
    assert isinstance(answer, Record)
    payload = json.loads(answer.value or b"")["payload"]
    wanted = given["payload"] if document is None else without_nulls(json.loads(document))
    assert (answer.topic, payload) == (topic, wanted)
    assert [value for _, value in answer.headers] == [given["id"].encode(), given["type"].encode()]


def without_nulls(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return {name: without_nulls(one) for name, one in document.items() if one is not None}
