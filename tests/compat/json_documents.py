"""Schemas of every kind, and documents for them: as converters write them, and odd ones."""

from __future__ import annotations

import base64
import json
import random
from decimal import Decimal
from typing import Any, Final

from hypothesis import strategies as st

CONNECT: Final = "org.apache.kafka.connect.data."
INTEGERS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_WORDS: Final = ("", "a", "5", "-1", "true", "false", "null", "{}", "[1]", 'a"b', "\\", "é漢", "😀", "\t\x01", "x" * 90)
_NAMES: Final = ("a", "b", "id", "Name", "a b", 'q"q', "é", "x.y", "back`tick", "s", "n", "key", "value", "schema")
ODD: Final = (
    *("5", "-1", "1.5", "-0.0", "1e3", "300", "3000000000", "12345678901234567890", "007", "true", "false", "null"),
    *('"x"', '"5"', '"aGk="', '""', "[]", "{}", '[1,"a"]', '{"a":1,"a":2}', "[[1,2]]", '"\\ud83d\\ude00"', "1.005"),
    *("[[1]]", '[["a","b"],["a","c"]]', "[5]", '{"k":null}', "[null]", "[[null,1]]", '{"a":"5","b":{"c":[1]}}'),
)

Node = dict[str, Any]


@st.composite
def schemas(draw: st.DrawFn, depth: int) -> Node:
    """A schema in JSON; without `depth` none that holds others."""
    leaves = ["string", "boolean", "bytes", "float", "double", "Decimal", "Date", "Time", "Timestamp", *INTEGERS]
    kind = draw(st.sampled_from([*leaves, *(["array", "map", "pairs", "struct"] * 2 if depth else [])]))
    node: Node = {"type": kind, "optional": draw(st.booleans())}
    if kind in ("Decimal", "Date", "Time", "Timestamp"):
        node |= {"type": {"Decimal": "bytes", "Timestamp": "int64"}.get(kind, "int32"), "name": CONNECT + kind}
        node |= {"version": 1} if draw(st.booleans()) else {}
        node |= {"parameters": {"scale": str(draw(st.sampled_from([0, 2, 10, 38])))}} if kind == "Decimal" else {}
    elif kind == "array":
        node["items"] = draw(schemas(depth - 1))
    elif kind in ("map", "pairs"):
        key_types = ["string"] if kind == "map" else ["int32", "boolean", "int8"]
        node |= {"type": "map", "keys": {"type": draw(st.sampled_from(key_types)), "optional": False}}
        node["values"] = draw(schemas(depth - 1))
    elif kind == "struct":
        names = draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=4))
        node["fields"] = [draw(schemas(depth - 1)) | {"field": name} for name in names]
    if draw(st.integers(0, 3)) == 0:
        node |= {"doc": draw(st.sampled_from(_WORDS))} | ({} if "name" in node else {"name": "n", "version": 3})
    if draw(st.integers(0, 4)) == 0:
        node["default"] = json.loads(text(node, random.Random(draw(st.integers(0, 2**32))), odd=0.0))
    return node


def text(schema: Node, random: random.Random, odd: float) -> str:
    """A value of the schema in JSON, with nulls where they may be; with probability `odd` each part may be anything."""
    if odd and random.random() < odd:
        return random.choice(ODD)
    if schema.get("optional") and random.random() < 0.15 and "default" not in schema:
        return "null"
    name, kind = schema.get("name", ""), schema["type"]
    if name.startswith(CONNECT):
        return _logical(schema, name.removeprefix(CONNECT), random)
    if kind in INTEGERS:
        half = 2 ** (INTEGERS[kind] - 1)
        return str(random.choice([0, 1, -1, half - 1, -half, random.randint(-half, half - 1)]))
    match kind:
        case "string":
            return json.dumps(random.choice(_WORDS), ensure_ascii=random.random() < 0.3)
        case "boolean":
            return random.choice(["true", "false"])
        case "bytes":
            return f'"{base64.b64encode(random.randbytes(random.choice([0, 1, 2, 3, 80]))).decode()}"'
        case "float" | "double":
            return random.choice(["0.0", "1.5", "-2.25", "1.0E10", "3.4E38", "1.0E-5", "0.1", str(random.random())])
        case "array":
            return "[" + ",".join(text(schema["items"], random, odd) for _ in range(random.randint(0, 3))) + "]"
        case "map":
            return _map(schema, random, odd)
    members = [f"{json.dumps(f['field'])}:{text(f, random, odd)}" for f in schema["fields"]]
    if odd and random.random() < odd * 2:
        members = [*members[1:], '"other":[1]', *members[:1]]
    return "{" + ",".join(members) + "}"


def _map(schema: Node, random: random.Random, odd: float) -> str:
    values = [text(schema["values"], random, odd) for _ in range(random.randint(0, 3))]
    if schema["keys"]["type"] == "string":
        keys = random.sample(_WORDS, len(values))
        return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in zip(keys, values, strict=True)) + "}"
    keys = {"boolean": ["true", "false"]}.get(schema["keys"]["type"], ["5", "-3", "0", "100"])
    return "[" + ",".join(f"[{key},{value}]" for key, value in zip(keys, values, strict=False)) + "]"


def _logical(schema: Node, kind: str, random: random.Random) -> str:
    if kind == "Decimal":
        number = random.choice([0, 5, -1, 127, 128, -128, -129, 10**17, -(10**19), 10**38 - 1, -(2**126)])
        scale = int(schema["parameters"]["scale"])
        if scale <= 2 and abs(number) < 10**20 and random.random() < 0.3:
            return str(Decimal(number).scaleb(-scale))
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return f'"{base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()}"'
    if kind == "Timestamp":
        return str(random.choice([0, 1, -1, 1_700_000_000_123, random.randint(0, 10**13)]))
    if kind == "Time":
        return str(random.choice([0, 86_400_000, random.randint(0, 86_399_999)]))
    return str(random.choice([0, -1, 20_000, random.randint(-100_000, 100_000)]))
