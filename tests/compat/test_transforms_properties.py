"""Every transform of fields against Apache's own: drawn schemas, values and settings, behind drawn predicates."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compat.json_documents import Node, schemas, text
from tests.compat.transform_oracle import Answer, Chains, Converting, Link, Record

pytestmark = [pytest.mark.spark, pytest.mark.long]

KEEPS_NULLS: Final = Converting(settings={"replace.null.with.default": "false"})
NAMES: Final = ("a", "b", "id", "Name", "a b", 'q"q', "é", "x.y", "back`tick", "key", "value", "schema")
TYPES: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
ROUNDS: Final = 60
"""Records of each chain."""
Some = st.SearchStrategy[list[str]]
Drawn = dict[str, str]


@st.composite
def structs(draw: st.DrawFn) -> Node:
    """Schemas of structs with some fields."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=5))
    fields = [{**_without_defaults(draw(schemas(depth=1))), "field": name} for name in names]
    return {"type": "struct", "fields": fields, "optional": draw(st.booleans())}


def _without_defaults(schema: Node) -> Node:
    """Without defaults of structs: Apache writes them, but cannot read them again."""
    inner = {name: _without_defaults(schema[name]) for name in ("items", "values") if name in schema}
    kept = {name: part for name, part in schema.items() if name != "default" or "struct" not in str(schema)}
    return kept | inner


def _replace_field(draw: st.DrawFn, some: Some) -> Drawn:
    renames = ",".join(f"{name}:new {number}" for number, name in enumerate(draw(some)))
    drawn = {draw(st.sampled_from(["include", "exclude"])): ",".join(draw(some))}
    return draw(st.sampled_from([drawn, {"renames": renames}, drawn | {"renames": renames}]))


def _cast(draw: st.DrawFn, some: Some) -> Drawn:
    types = st.sampled_from(TYPES)
    return {"spec": draw(st.one_of(types, *[_joined(draw(some), types)] * 5))}


def _joined(fields: list[str], types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    casts = st.lists(types, min_size=len(fields), max_size=len(fields))
    return casts.map(lambda drawn: ",".join(f"{name}:{kind}" for name, kind in zip(fields, drawn, strict=True)))


def _mask(draw: st.DrawFn, some: Some) -> Drawn:
    replacement = draw(st.sampled_from(["", "5", "-1.5", "xx"]))
    return {"fields": ",".join(draw(some))} | ({"replacement": replacement} if replacement else {})


def _insert(draw: st.DrawFn, some: Some) -> Drawn:
    added = draw(st.lists(st.sampled_from(["topic", "partition", "timestamp"]), unique=True))
    drawn = {f"{name}.field": f"new {name}{draw(st.sampled_from(['', '!', '?']))}" for name in added}
    return drawn | {"static.field": "static", "static.value": 'a "text" é'}


def _timestamps(draw: st.DrawFn, some: Some) -> Drawn:
    return {
        "field": draw(some)[0],
        "target.type": draw(st.sampled_from(["string", "unix", "Date", "Time", "Timestamp"])),
        "format": draw(st.sampled_from(["yyyy-MM-dd", "yyyyMMddHHmmssSSS", "EEE d MMM yyyy"])),
        "unix.precision": draw(st.sampled_from(["milliseconds", "seconds", "microseconds"])),
    }


def _headers(draw: st.DrawFn, some: Some) -> Drawn:
    fields = draw(some)
    headers = ",".join(f"from {name}" for name in fields)
    return {"fields": ",".join(fields), "headers": headers, "operation": draw(st.sampled_from(["copy", "move"]))}


METADATA: Final = ({"schema.name": "org.N"}, {"schema.version": "5"}, {"schema.name": "n", "schema.version": "0"})
SETTINGS: Final[dict[str, Callable[[st.DrawFn, Some], Drawn]]] = {
    "ReplaceField": _replace_field,
    "Cast": _cast,
    "MaskField": _mask,
    "ExtractField": lambda draw, some: {"field": draw(some)[0]},
    "Flatten": lambda draw, some: {"delimiter": draw(st.sampled_from([".", "_"]))},
    "HoistField": lambda draw, some: {"field": draw(some)[0]},
    "InsertField": _insert,
    "ValueToKey": lambda draw, some: {"fields": ",".join(draw(some))},
    "SetSchemaMetadata": lambda draw, some: draw(st.sampled_from(METADATA)),
    "TimestampConverter": _timestamps,
    "HeaderFrom": _headers,
}


@st.composite
def links(draw: st.DrawFn, kind: str, topic: str, value: Node, key: Node) -> Link:
    """A transform of such values or keys, for this topic or besides it, with settings that suit them now and then."""
    side = "" if kind == "ValueToKey" else draw(st.sampled_from(["$Value", "$Value", "$Key"]))
    names = [field["field"] for field in (key if side == "$Key" else value)["fields"]]
    drawn = SETTINGS[kind](draw, st.lists(st.sampled_from([*names, *names, "other"]), unique=True, min_size=1))
    predicate = draw(
        st.sampled_from(
            [
                ("predicates.TopicNameMatches", {"pattern": topic}, False),
                ("predicates.TopicNameMatches", {"pattern": f"(?!{topic}).*"}, True),
                ("predicates.HasHeaderKey", {"name": topic}, False),
            ]
        )
    )
    return Link(kind + side, drawn, predicate[:2], predicate[2])


def records(value: Node, key: Node, values: random.Random, topics: int) -> list[Record]:
    """Records of each topic, with the topic's name as a header; some have no key, or no value."""
    made = []
    for number in range(ROUNDS):
        topic = f"t{number % topics}"
        both = [_document(schema, values) if values.random() < 0.85 else None for schema in (value, key)]
        made.append(Record(*both, topic, headers=((topic, b"1"),)))
    return made


def _document(schema: Node, values: random.Random) -> bytes:
    return f'{{"schema":{json.dumps(schema)},"payload":{text(schema, values, 0.0)}}}'.encode()


def is_known(apache: Answer, ours: Answer) -> bool:
    """Three differences: Apache crashes (HeaderFrom of a field that is not there), which for us is an error of the
    record; it cannot write a decimal that was read with another scale than its schema's, which ours always has; Spark
    cannot hold what Java's dates can."""
    if not isinstance(apache, str):
        return str(ours).endswith("ms is beyond the year 294246")
    crashed = apache.startswith("crash:") and str(ours).startswith(f"error:{apache.split(':')[1]}:")
    return crashed or ("value has mismatching scale" in apache and isinstance(ours, Record))


KINDS: Final = list(SETTINGS)


@pytest.mark.parametrize("kinds", [KINDS[0::3], KINDS[1::3], KINDS[2::3]], ids="-".join)
@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_values_and_settings(chains: Chains, kinds: list[str], data: st.DataObject) -> None:
    value, key = data.draw(structs()), data.draw(structs())
    made = [data.draw(links(kind, f"t{number}", value, key)) for number, kind in enumerate(kinds)]
    given = records(value, key, random.Random(data.draw(st.integers(0, 2**32))), len(kinds))
    chains.alike(made, given, key=KEEPS_NULLS, value=KEEPS_NULLS, known=is_known)
