"""Schemas with references, written out: Avro reads the same types from them."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest

from headrace.converters.avro.references import standing_alone
from headrace.plugins.contracts import DataError


def alone(schema: Any, *referenced: Any) -> Any:
    made = json.loads(standing_alone(json.dumps(schema), [("r", json.dumps(one)) for one in referenced]))
    fastavro.parse_schema(made)  # every name is known, and none is defined twice
    return made


def record(name: str, *types: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": t} for n, t in enumerate(types)],
        **more,
    }


def types(schema: dict[str, Any]) -> list[Any]:
    return [field["type"] for field in schema["fields"]]


def test_the_first_use_becomes_the_definition_and_later_ones_the_name() -> None:
    inner = record("I", "int", namespace="x.y")
    made = alone(record("O", "x.y.I", ["null", "x.y.I"], {"type": "array", "items": "x.y.I"}, {"type": "x.y.I"}), inner)
    assert types(made) == [inner, ["null", "x.y.I"], {"type": "array", "items": "x.y.I"}, "x.y.I"]


def test_it_is_found_within_unions_arrays_and_maps() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 2, "namespace": "a"}
    for place in (["null", "a.F"], {"type": "array", "items": "a.F"}, {"type": "map", "values": ["a.F"]}):
        made = alone(record("O", place), fixed)
        assert json.dumps(made).count('"size"') == 1


def test_a_reference_of_a_reference_comes_along_wherever_it_is_defined() -> None:
    last = {"type": "enum", "name": "E", "symbols": ["A"], "namespace": "deep"}
    middle = record("M", "deep.E", namespace="mid")
    made = alone(record("O", "mid.M", "deep.E"), middle, last)
    assert types(made)[0]["fields"][0]["type"] == last
    assert types(made)[1] == "deep.E"


def test_a_type_within_a_referenced_schema_is_known_by_its_own_name() -> None:
    holder = record("H", record("Nested", "int"), namespace="n")
    made = alone(record("O", "n.Nested"), holder)
    assert types(made)[0]["name"] == "Nested"
    assert types(made)[0]["namespace"] == "n"


def test_names_without_dots_are_looked_for_around_first_and_then_without_namespace() -> None:
    around, bare = record("I", "int", namespace="here"), record("I", "string")
    made = alone(record("O", "I", namespace="here"), bare, around)
    assert types(made)[0]["fields"][0]["type"] == "int"
    made = alone(record("O", "I", namespace="elsewhere"), bare)
    assert types(made)[0] == {**bare, "namespace": ""}


def test_what_is_defined_here_is_not_defined_again_and_recursion_ends() -> None:
    tree = record("T", ["null", "a.T"], namespace="a")
    assert alone(record("O", "a.T"), tree)["fields"][0]["type"] == tree
    own = record("O", record("I", "int", namespace="a"), "a.I")
    assert alone(own, record("I", "string", namespace="a")) == own


def test_defaults_docs_and_properties_stay() -> None:
    schema = {
        "type": "record",
        "name": "O",
        "doc": "ö",
        "connect.name": "O",
        "fields": [{"name": "f", "type": "a.I", "default": {"f0": 1}, "doc": "d"}],
    }
    made = alone(schema, record("I", "int", namespace="a"))
    assert made["doc"] == "ö"
    assert made["fields"][0]["default"] == {"f0": 1}


def test_a_text_that_is_not_json_is_a_data_error() -> None:
    with pytest.raises(DataError, match="not JSON"):
        standing_alone("{", [])
