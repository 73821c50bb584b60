"""Values of annotated Avro types: what comes, in which order, and what is refused."""

from __future__ import annotations

import io
import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from headrace.connectors.datagen.building import generator
from headrace.connectors.datagen.values import Floats
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.parsing import parsed
from headrace.plugins.interop.avro.to_connect import connect_schema
from headrace.plugins.interop.avro.tree import AvroOptions


def opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def drawn(type_: Any, rows: int = 1_000, first: int = 0, **annotations: Any) -> list[Any]:
    """Values of the one field of a record; `annotations` are those of a type that is only named."""
    if annotations:
        type_ = {**(type_ if isinstance(type_, dict) else {"type": type_}), "arg.properties": annotations}
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": type_}]})
    tree = parsed(text)
    schema = connect_schema(tree, AvroOptions())
    assert schema is not None
    made = generator(tree, schema, opened).draw(np.random.default_rng(3), first, rows)
    assert made.type == arrow_type_of_schema(schema)
    return [one["f"] for one in made.to_pylist()]


def test_bare_types() -> None:
    assert min(drawn("int")) < -1_000_000_000
    assert max(drawn("int")) > 1_000_000_000
    assert min(drawn("long")) < -(1 << 60)
    assert max(drawn("long")) > 1 << 60
    assert all(0 <= one < 1 for kind in ("float", "double") for one in drawn(kind))
    assert {len(one) for one in drawn("string")} == set(range(8, 16))
    assert all(" " <= char <= "~" for one in drawn("string") for char in one)
    assert {len(one) for one in drawn("bytes")} == set(range(8, 16))
    assert set(drawn("boolean")) == {True, False}
    assert set(drawn({"type": "enum", "name": "E", "symbols": ["A", "B"]})) == {"A", "B"}
    assert {len(one) for one in drawn({"type": "fixed", "name": "F", "size": 5})} == {5}
    assert {len(one) for one in drawn({"type": "array", "items": "int"})} == set(range(8, 16))
    assert {type(one) for one in drawn(["null", "int"])} == {type(None), int}
    chosen = {tuple(name for name in one if one[name] is not None) for one in drawn(["string", "int", "boolean"])}
    assert chosen == {("string",), ("int",), ("boolean",)}


def test_logical_types() -> None:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert all(abs(one) < 100 and one.as_tuple().exponent == -2 for one in drawn(amount))
    assert {one < 0 for one in drawn(amount)} == {True, False}
    prices = drawn({**amount, "arg.properties": {"range": {"min": 10.0, "max": 10.03}}})
    assert set(prices) == {Decimal("10.00"), Decimal("10.01"), Decimal("10.02")}
    large = {"type": "bytes", "logicalType": "decimal", "precision": 30}
    assert max(len(str(abs(int(one)))) for one in drawn(large)) == 30
    days = drawn({"type": "int", "logicalType": "date"}, range={"min": 18_000, "max": 18_002})
    assert set(days) == {date(2019, 4, 14), date(2019, 4, 15)}
    stamps = drawn(
        {"type": "long", "logicalType": "timestamp-millis"}, 2, iteration={"start": 1609459200000, "step": 5}
    )
    assert stamps == [datetime(2021, 1, 1, 0, 0, 0, ms, UTC) for ms in (0, 5_000)]
    assert all(0 <= one < 86_400_000 for one in drawn({"type": "int", "logicalType": "time-millis"}))
    assert all(1 <= one.year <= 9999 for one in drawn({"type": "long", "logicalType": "timestamp-millis"}))


def test_ranges_include_their_min_and_not_their_max() -> None:
    assert set(drawn("int", range={"min": -1, "max": 2})) == {-1, 0, 1}
    assert min(drawn("long", range={"min": 5})) >= 5
    assert set(drawn("long", range={"min": (1 << 63) - 2})) == {(1 << 63) - 2, (1 << 63) - 1}
    assert all(0.5 <= one < 0.75 for one in drawn("double", range={"min": 0.5, "max": 0.75}))


@pytest.mark.parametrize(
    ("iteration", "expected"),
    [
        ({"start": 1}, [1, 2, 3, 4, 5]),
        ({"start": 1, "step": 10}, [1, 11, 21, 31, 41]),
        ({"start": 0, "restart": 3}, [0, 1, 2, 0, 1]),
        ({"start": 0, "restart": 5, "step": 2}, [0, 2, 4, 1, 3]),
        ({"start": 0, "restart": 3, "initial": 2}, [2, 0, 1, 2, 0]),
        ({"start": 3, "restart": 0}, [3, 2, 1, 3, 2]),
        ({"start": 0, "step": -2}, [0, -2, -4, -6, -8]),
    ],
)
def test_counts(iteration: dict[str, int], expected: list[int]) -> None:
    for kind in ("int", "long", "float", "double"):
        assert drawn(kind, 5, iteration=iteration) == expected
        assert drawn(kind, 3, 2, iteration=iteration) == expected[2:]
    assert drawn("string", 5, iteration=iteration) == [str(one) for one in expected]


def test_counts_of_large_numbers_and_truths() -> None:
    assert drawn("long", 2, 10**15, iteration={"start": -5, "step": 1000}) == [10**18 - 5, 10**18 + 995]
    assert drawn("boolean", 3, 1, iteration={"start": True}) == [False, True, False]
    assert drawn("string", 2, iteration={"start": 7}, prefix="n", suffix="!") == ["n7!", "n8!"]


def test_a_count_beside_null_follows_the_record() -> None:
    values = drawn(["null", {"type": "long", "arg.properties": {"iteration": {"start": 0}}}])
    assert all(one in (None, number) for number, one in enumerate(values))


def test_lengths_odds_and_keys() -> None:
    assert {len(one) for one in drawn("string", length=3)} == {3}
    assert {len(one) for one in drawn("bytes", length={"min": 1, "max": 3})} == {1, 2}
    assert {len(one) for one in drawn({"type": "array", "items": "int"}, length={"min": 0, "max": 2})} == {0, 1}
    assert set(drawn("boolean", odds=1.0)) == {True}
    maps = drawn({"type": "map", "values": "int"}, length=3, keys={"regex": "[ab]"})
    assert {key for one in maps for key, _ in one} == {"a", "b"}
    assert all(len(dict(one)) == len(one) <= 2 for one in maps)


def test_options_of_each_type() -> None:
    assert set(drawn("long", options=[1, 2])) == {1, 2}
    assert set(drawn("double", options=[1, 2.5])) == {1.0, 2.5}
    assert set(drawn("string", options=["a"], prefix="<")) == {"<a"}
    assert set(drawn("bytes", options=["ä"])) == {"ä".encode()}
    assert set(drawn({"type": "enum", "name": "E", "symbols": ["A", "B"]}, options=["B"])) == {"B"}
    assert set(drawn({"type": "fixed", "name": "F", "size": 2}, options=["ab"])) == {b"ab"}
    assert set(map(tuple, drawn({"type": "array", "items": "string"}, options=[["a", "b"], []]))) == {("a", "b"), ()}
    assert drawn({"type": "map", "values": "int"}, 1, options=[{"a": 1}]) == [[("a", 1)]]
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": ["null", "long"]}]}
    assert drawn(inner, 1, options=[{"n": 4}]) == [{"n": 4}]
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    assert drawn(stamp, 1, options=[1500]) == [datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)]
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert drawn(amount, 1, options=[1.5]) == [Decimal("1.50")]


def test_options_of_files(tmp_path: Path) -> None:
    as_json, as_avro = tmp_path / "options.json", tmp_path / "options.avro"
    as_json.write_text('["a", "b"]', encoding="utf-8")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "array", "items": "string"}, ["c", "d"])
    as_avro.write_bytes(out.getvalue())
    assert set(drawn("string", options={"file": str(as_json), "encoding": "json"})) == {"a", "b"}
    assert set(drawn("string", options={"file": str(as_avro), "encoding": "binary"})) == {"c", "d"}
    for path, fault in ((tmp_path / "none", "cannot be read"), (as_avro, "no list of such values")):
        with pytest.raises(DataError, match=fault):
            drawn("string", options={"file": str(path), "encoding": "json"})


@pytest.mark.parametrize(
    ("type_", "annotations", "fault"),
    [
        ("string", {"options": ["a"], "regex": "b"}, "exclude each other"),
        ("string", {"regex": "b", "length": 3}, "exclude each other"),
        ("string", {"lenght": 3}, "lenght"),
        ("int", {"length": 3}, "length"),
        ("string", {"regex": "^a"}, "regex that is not served"),
        ("int", {"options": []}, "no list of values"),
        ("int", {"options": ["a"]}, "is no int"),
        ("int", {"options": [1.5]}, "is no int"),
        ("int", {"options": [1 << 40]}, "does not hold"),
        ("int", {"range": {"min": 3, "max": 3}}, "above its min"),
        ("int", {"range": {"max": 1 << 40}}, "beyond its type"),
        ("int", {"range": {"least": 1}}, "least in range"),
        ("int", {"range": {"min": "a"}}, "min='a'"),
        ("int", {"range": 5}, "no object"),
        ("int", {"iteration": {"start": 1, "restart": 1}}, "does not go from 1 to 1"),
        ("int", {"iteration": {"start": 1, "step": 0}}, "does not go"),
        ("int", {"iteration": {"start": 1, "restart": 5, "step": -1}}, "does not go"),
        ("int", {"iteration": {"step": 1}}, "without start"),
        ("int", {"iteration": {"start": 0, "restart": 5, "initial": 5}}, "initial 5"),
        ("long", {"iteration": {"start": 0, "step": 1 << 60}}, "step beyond"),
        ("boolean", {"odds": 2}, "odds=2"),
        ("string", {"length": {"min": 3, "max": 3}}, "max, excluded"),
        ("string", {"length": 1 << 21}, "length"),
        ("string", {"prefix": 3}, "no text"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, {"options": ["B"]}, "none of its symbols"),
        ({"type": "fixed", "name": "F", "size": 2}, {"options": ["abc"]}, "3 bytes"),
        ("int", {"iteration": {"start": 1 << 31}}, "beyond its type"),
        ("int", {"iteration": {"start": 0, "restart": 1 << 40}}, "beyond its type"),
        ("int", {"options": [float("inf")]}, "is no int"),
        ("double", {"options": [float("nan")]}, "is no double"),
        ("double", {"range": {"max": float("inf")}}, "max=inf"),
        ("double", {"range": {"max": 10**400}}, "max=1000"),
        ("float", {"range": {"max": 1e300}}, "beyond its type"),
        ("float", {"iteration": {"start": 1e300}}, "beyond its type"),
        ("string", {"length": float("inf")}, "length=inf"),
        ("string", {"prefix": "\ud800"}, "surrogate"),
        ("string", {"options": ["\ud800"]}, "is no string"),
        ({"type": "int", "logicalType": "date"}, {"options": [1 << 30]}, "does not hold"),
        ({"type": "long", "logicalType": "timestamp-millis"}, {"options": [1 << 60]}, "does not hold"),
        ({"type": "long", "logicalType": "timestamp-millis"}, {"iteration": {"start": 1 << 60}}, "beyond its type"),
        ({"type": "int", "logicalType": "time-millis"}, {"range": {"max": 86_400_001}}, "beyond its type"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(type_: Any, annotations: dict[str, Any], fault: str) -> None:
    with pytest.raises(DataError) as refused:
        drawn(type_, **annotations)
    assert ".f" in str(refused.value)
    assert fault in str(refused.value)


def test_a_count_within_an_array_is_refused() -> None:
    items = {"type": "int", "arg.properties": {"iteration": {"start": 0}}}
    for type_ in ({"type": "array", "items": items}, {"type": "map", "values": items}):
        with pytest.raises(DataError, match="within an array or a map"):
            drawn(type_)


def test_counts_of_times_stay_within_a_day() -> None:
    found = drawn({"type": "int", "logicalType": "time-millis"}, 4, iteration={"start": 0, "step": 40_000_000})
    assert found == [0, 40_000_000, 80_000_000, 33_600_001]


def test_small_floats_do_not_round_up_to_their_max() -> None:
    made = Floats(1.0, 1.0 + 2**-22, pa.float32()).draw(np.random.default_rng(3), 0, 1_000)
    assert set(made.to_pylist()) == {1.0, 1.0 + 2**-23}


def test_a_row_that_could_take_all_memory_is_refused() -> None:
    deep: Any = "string"
    for _ in range(8):
        deep = {"type": "array", "items": deep}
    long = {"type": "string", "arg.properties": {"length": 1 << 20}}
    many = {"type": "array", "items": {"type": "fixed", "name": "F", "size": 1 << 20}}
    options = {"type": "string", "arg.properties": {"options": ["a" * (1 << 16)]}}
    for type_ in (deep, many, {"type": "map", "values": long}, {"type": "array", "items": options}):
        with pytest.raises(DataError, match="set smaller lengths"):
            drawn(type_, **({"length": 1_000} if type_ is not deep else {}))
    assert len(drawn(long, 2)[1]) == 1 << 20


def test_a_file_of_options_is_a_plain_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    places = ((str(tmp_path), "a directory"), (str(tmp_path / "pipe"), "a pipe"), ("a\0b", "Invalid argument"))
    for path, fault in places:
        with pytest.raises(DataError, match=fault):
            drawn("string", options={"file": path, "encoding": "json"})
    assert len(os.listdir("/proc/self/fd")) == before
