"""Debezium's ExtractNewRecordState against its own jar."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.config.problems import ConfigError
from headrace.plugins.transforms.new_record_state import ExtractNewRecordState
from tests.compat.transform_oracle import Answer, Chain, Chains, Converting, Link, Record

pytestmark = pytest.mark.spark

NAME: Final = "io.debezium.transforms.ExtractNewRecordState"
KEEPS_NULLS: Final = Converting(settings={"replace.null.with.default": "false"})
Node = dict[str, Any]


def schema(kind: str, field: str | None = None, **more: Any) -> Node:
    return {"type": kind, "optional": True, **more} | ({} if field is None else {"field": field})


def struct(*fields: Node, **more: Any) -> Node:
    return schema("struct", fields=list(fields), **more)


def row(**more: Any) -> Node:
    """A table's row."""
    return struct(
        schema("int32", "id", optional=False),
        schema("string", "name", default="unnamed", parameters={"__debezium.source.column.type": "VARCHAR"}),
        **{"name": "s.public.t.Value", **more},
    )


SOURCE: Final = struct(
    schema("string", "version", optional=False),
    schema("int64", "ts_ms", optional=False, doc="of the commit", default=0),
    schema("string", "snapshot", name="io.debezium.data.Enum", version=1, parameters={"allowed": "a,f"}, default="f"),
    field="source",
    name="io.debezium.connector.postgresql.Source",
    optional=False,
)
OP: Final = schema("string", "op", optional=False)
LATER: Final = [
    schema("int64", "ts_ms"),
    struct(schema("string", "id", optional=False), field="transaction", name="event.block", version=1),
    schema("array", "changes", items=schema("string")),
]


def event(*fields: Node, **more: Any) -> Node:
    return struct(*fields, **{"name": "s.public.t.Envelope", "version": 1, "optional": False, **more})


def named(of: Node, field: str) -> Node:
    return {**of, "field": field}


ENVELOPE: Final = event(named(row(), "before"), named(row(), "after"), SOURCE, OP, *LATER)
FULL: Final = {"id": 1, "name": "Ann"}
SPARSE: Final = {"id": 2, "name": None}
IN: Final = {"version": "3.5", "ts_ms": 5, "snapshot": None}
META: Final = {"source": IN, "ts_ms": 9, "transaction": {"id": "tx"}, "changes": ["name"]}
CREATE: Final = {"after": FULL, "op": "c", **META}
EVENTS: Final = [
    CREATE,
    {"before": SPARSE, "after": SPARSE | {"name": "  "}, "op": "u", **META, "transaction": None},
    {"before": FULL, "op": "d", **META, "changes": None},
    {"before": SPARSE, "op": "d", **META, "ts_ms": None},
    {"op": "t", **META},
]
"""Create, update, two deletes, truncate."""


def documents(of: Mapping[str, Any] | None, *payloads: Any, **parts: Any) -> list[Record]:
    rows = [{"schema": of, "payload": payload} for payload in payloads]
    return [Record(json.dumps(row, separators=(",", ":")).encode(), **parts) for row in rows]


KEY: Final = documents(struct(schema("int32", "id", optional=False), optional=False, name="s.public.t.Key"), {"id": 1})
CHANGES: Final = [
    *documents(ENVELOPE, *EVENTS, key=KEY[0].value),
    Record(None, KEY[0].value, headers=(("__op", b"old"),)),
]
"""Events, and a tombstone."""
OTHERS: Final = [
    *documents({**ENVELOPE, "optional": True}, CREATE, None),
    *documents(None, {"after": 1}, None),
    *documents(struct(schema("int64", "ts_ms"), name="io.debezium.connector.common.Heartbeat"), {"ts_ms": 1}, None),
]
"""Tombstones of each kind, and what is no event."""

ROW: Final = named(row(), "after")
ODD: Final = [
    *documents(schema("string", name=".Envelope"), "x", None),
    *documents(event(named(row(), "before"), SOURCE, OP), {"before": FULL, "source": IN, "op": "d"}),
    *documents(event(ROW, SOURCE, OP), {"after": FULL, "source": IN, "op": "c"}, {"source": IN, "op": "d"}),
    *documents(event(ROW, OP), {"after": FULL, "op": "c"}),
    *documents(event(ROW, SOURCE), {"after": FULL, "source": IN}),
    *documents(event(ROW, SOURCE, schema("int32", "op")), {"after": FULL, "source": IN, "op": 1}),
    *documents(event(ROW, schema("string", "source"), OP), {"after": FULL, "source": "x", "op": "c"}),
    *documents(
        event(schema("string", "before"), schema("string", "after"), SOURCE, OP),
        {"after": "x", "source": IN, "op": "c"},
        {"before": "x", "source": IN, "op": "d"},
    ),
]
"""Events that lack a part, or have it in another type."""

ADDED: Final = {
    "add.fields": "op, source.ts_ms,version, transaction.id,id,changes,source.snapshot:Kind,nothing",
    "add.headers": "op,source.version,transaction.id:tx,ts_ms,changes",
}


def crashes(debezium: Answer, ours: Answer) -> bool:
    """True if Debezium crashes on what ours refuses with a reason."""
    return str(debezium).startswith("crash:") and str(ours).startswith("error:")


@pytest.mark.parametrize("mode", ["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"])
def test_modes(chains: Chains, mode: str) -> None:
    options = {"delete.tombstone.handling.mode": mode, "route.by.field": "name", **ADDED}
    options["replace.null.with.default"] = str(mode == "rewrite").lower()
    records = CHANGES + (OTHERS if mode == "rewrite-with-tombstone" else [])
    created, updated, *_ = chains.alike([Link(NAME, options)], records, value=KEEPS_NULLS)
    assert isinstance(created, Record)
    assert isinstance(updated, Record)
    assert (created.topic, updated.topic) == ("Ann", "t")  # a blank name is no topic


def test_without_settings(chains: Chains) -> None:
    answers = chains.alike([Link(NAME)], CHANGES, value=KEEPS_NULLS, here=True)
    assert [one == "dropped" for one in answers] == [False, False, False, False, True, True]


def test_odd_events(chains: Chains) -> None:
    options = {"delete.tombstone.handling.mode": "rewrite"}
    chains.alike([Link(NAME, options)], ODD, known=crashes)
    options |= {"add.headers": "source.version"}
    chains.alike([Link(NAME, options)], documents(event(ROW, OP), {"after": FULL, "op": "c"}), known=crashes)
    (twice,) = chains.alike([Link(NAME, {"add.fields": "op,op."})], CHANGES[:1])
    assert "field name duplication __op" in str(twice)


def test_its_settings_are_those_of_the_jar(chains: Chains) -> None:
    ours = [{**one.key_info(), "documentation": "", "display_name": ""} for one in ExtractNewRecordState.settings]
    jar = [{**one, "documentation": "", "display_name": ""} for one in chains.declared(NAME)]
    # The jar reads this one without declaring it.
    assert [one for one in ours if one["name"] != "replace.null.with.default"] == jar


@pytest.mark.parametrize(
    "settings",
    [
        {"delete.tombstone.handling.mode": "keep"},
        {"delete.tombstone.handling.mode": ""},
        {"add.fields": "a:b:c"},
        {"add.headers": ":"},
        {"add.fields": "op,."},
        {"drop.fields.from.key": "x"},
    ],
    ids=str,
)
def test_both_refuse(chains: Chains, settings: dict[str, str]) -> None:
    with pytest.raises((Py4JJavaError, PySparkException)):
        chains.apache(Chain((Link(NAME, settings),)), [])
    with pytest.raises(ConfigError):
        ExtractNewRecordState().configure(settings)
