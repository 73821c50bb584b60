"""Values without a schema."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.connectors.lake.iceberg.files.arrow_schema import arrow_schema
from headrace.connectors.lake.iceberg.files.conform import conform
from headrace.connectors.lake.iceberg.files.json_rows import has_more, read_json
from headrace.connectors.lake.iceberg.schemas import Field, ListOf, MapOf, Struct, Type

COLUMNS: dict[str, Type] = {
    "n": "long",
    "i": "int",
    "f": "double",
    "s": "string",
    "d": "decimal(10,2)",
    "t": "timestamptz",
    "day": "date",
    "b": "boolean",
    "list": ListOf(20, Struct((Field(21, "x", "int"),))),
    "m": MapOf(22, "string", 23, "long"),
    "o": Struct((Field(24, "deep", "long"),)),
}
TABLE = arrow_schema(Struct(tuple(Field(number, name, kind) for number, (name, kind) in enumerate(COLUMNS.items(), 1))))


def made(
    texts: list[str], ignore_case: bool = False, columns: pa.Schema = TABLE
) -> tuple[dict[int, Any], dict[int, str]]:
    """The rows without their nulls, and the reasons of refused ones, by their indexes."""
    read = read_json(pa.array(texts), columns, False, ignore_case)
    rows, refused = dict[int, Any](), dict(read.refused)
    for places, structs in read.structs:
        found = conform(structs, columns, ignore_case=ignore_case)
        refused |= {int(places[row]): why for row, why in found.refused.items()}
        kept = places if found.kept is None else places[found.kept]
        for place, row in zip(kept.tolist(), found.rows.to_pylist(), strict=True):
            rows[place] = {name: value for name, value in row.items() if value is not None}
    assert sorted([*rows, *refused]) == list(range(len(texts)))
    return rows, refused


def good(text: str, **columns: Any) -> Any:
    rows, refused = made([text])
    assert not refused
    return rows[0]


def refusal(text: str) -> str:
    rows, refused = made([text])
    assert not rows
    return refused[0]


def test_values_of_known_columns() -> None:
    assert good('{"n":9223372036854775807,"f":0.1,"s":"2020-01-01","d":12345678.9,"b":true}')["n"] == 2**63 - 1
    assert good('{"s":"2020-01-01T00:00:00Z"}') == {"s": "2020-01-01T00:00:00Z"}
    assert good('{"d":"1.5"}') == good('{"d":1.5}') == good('{"d":15e-1}')
    assert good('{"day":"1970-01-02"}') == good('{"day":1}')
    assert good('{"t":"1970-01-01 00:00:01"}') == good('{"t":1000}') == good('{"t":"1970-01-01T00:00:01+00:00"}')
    assert good('{"n":"7"}') == good('{"n":7.0}') == good('{"n":7e0}') == {"n": 7}
    assert good('{"s":7}') == {"s": "7"}
    assert good('{"s":true}') == {"s": "true"}
    assert good('{"list":[{"x":1},{},null,{"y":5}],"o":{"deep":1,"more":2},"unknown":[1]}') == {
        "list": [{"x": 1}, {"x": None}, None, {"x": None}],
        "o": {"deep": 1},
    }
    assert good("{}") == {}
    assert good('{"s":null,"list":[],"o":{}}') == {"list": [], "o": {"deep": None}}
    assert good('{"s":"a\\u0000\\ud83d\\ude00\\"}{"}') == {"s": 'a\0😀"}{'}
    assert good(' {\n"n" : 1 }\n') == {"n": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"n":9223372036854775808}', "digits"),
        ('{"n":1.5}', "n .* cannot hold 1.5"),
        ('{"n":"x"}', "n .* cannot hold 'x'"),
        ('{"i":2147483648}', "i .* cannot hold 2147483648"),
        ('{"s":12345678901234567890}', "digits"),
        ('{"d":1.555}', "scale 3"),
        ('{"d":123456789012}', "precision|decimal"),
        ('{"n":1,"n":2}', "twice"),
        ('{"o":{"deep":1,"deep":2}}', "twice"),
        ('{"m":{"a":1}}', "m is a map"),
        ('{"s":{"a":1}}', "s is a string, but the record has a nested value"),
        ('{"n":[1]}', "n .* holds no values"),
        ('{"f":1e400}', "too big"),
        ("null", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("1", "not a JSON object"),
        ('"{}"', "not a JSON object"),
        ("", "not a JSON object"),
        ('{"n":1} null', "not a JSON object"),
        ('{"n":1} null {"n":2}', "not one JSON object"),
        ('{"n":1}{"n":2}', "not one JSON object"),
        ('{"n":1', "not a JSON object"),
        ('{"n":{', "not a JSON object"),
        ('{"s":"a}', "not a JSON object"),
        ('{"n":1}}', "not one JSON object"),
        ('}{"n":1}', "not a JSON object"),
        ("{" + '"o":{' * 200 + "}" * 201, "deeper than 100"),
        ("{" + '"a":[' * 1 + "[" * 100_000 + "]" * 100_001 + "}", "deeper than 100"),
        ('{"s":"\\ud83d"}', "surrogate"),
        ("{'n':1}", "parse error"),
    ],
)
def test_what_cannot_be_typed_is_refused(text: str, why: str) -> None:
    assert re.search(why, refusal(text)), refusal(text)


FLOATS = arrow_schema(Struct((Field(1, "f", "float"), Field(2, "l", ListOf(3, "float")), Field(4, "n", "long"))))


def test_a_number_too_large_for_a_float_becomes_no_infinity() -> None:
    rows, refused = made(['{"f":0.1}', '{"f":1e39}', '{"f":-3e38}', '{"l":[1,1e39]}'], columns=FLOATS)
    assert sorted(rows) == [0, 2]
    assert "cannot hold 1e+39" in refused[1]
    assert "l.element" in refused[3]


def test_floats_are_the_same_beside_values_that_are_converted() -> None:
    rows, refused = made(['{"f":0.1,"n":1}', '{"f":0.1,"n":7.0}', '{"f":"1.5"}'], columns=FLOATS)
    assert not refused
    assert rows[0]["f"] == rows[1]["f"] == float(np.float32(0.1))
    assert rows[2] == {"f": 1.5}


def test_bad_rows_are_found_among_good_ones() -> None:
    texts = [f'{{"n":{number}}}' for number in range(500)]
    texts[100], texts[101], texts[499] = '{"n":"x"}', "null", '{"n":"12"}'
    rows, refused = made(texts)
    assert sorted(refused) == [100, 101]
    assert rows[99] == {"n": 99}
    assert rows[499] == {"n": 12}
    assert len(rows) == 498


def test_case_can_be_ignored() -> None:
    assert made(['{"N":1,"O":{"DEEP":2}}', '{"n":3}', '{"n":4,"N":5}'], ignore_case=True) == (
        {0: {"n": 1, "o": {"deep": 2}}, 1: {"n": 3}},
        {2: "The value does not fit the table: the field N is there in several spellings"},
    )
    assert made(['{"N":1}']) == ({0: {}}, {})


def fields(*texts: str, columns: pa.Schema | None = None) -> dict[str, str]:
    return {one.name: str(one.type) for one in read_json(pa.array(texts), columns, True).fields}


def test_fields_without_columns_are_inferred() -> None:
    assert fields('{"a":1,"b":1.5,"c":"2020-01-01","d":true,"e":[1],"f":{"g":"2020-01-01T00:00:00Z"}}') == {
        "a": "int64",
        "b": "double",
        "c": "string",
        "d": "bool",
        "e": "list<item: int64>",
        "f": "struct<g: string>",
    }
    assert fields('{"a":null,"b":[],"c":{},"d":[null],"e":{"f":null}}') == {}
    assert fields('{"a":null}', '{"a":1}', '{"a":2.5}') == {"a": "double"}
    assert fields('{"a":1}', '{"a":"x"}') == {"a": "int64"}
    assert fields('{"l":[{"x":1}]}', '{"l":[{"y":"2020-01-01"}]}') == {"l": "list<item: struct<x: int64, y: string>>"}


def test_new_fields_are_told_from_columns() -> None:
    known = pa.struct(list(TABLE))
    for text in ('{"n":"1","s":2}', '{"o":{"deep":1}}', '{"x":null}', '{"m":{"a":1}}'):
        assert not has_more(read_json(pa.array([text]), TABLE, True).fields, known), text
    for text in ('{"o":{"new":1}}', '{"list":[{"y":1}]}', '{"x":1}'):
        assert has_more(read_json(pa.array([text]), TABLE, True).fields, known), text
    assert has_more(pa.struct([("N", pa.int64())]), known)
    assert not has_more(pa.struct([("N", pa.int64())]), known, True)


def test_whole_numbers_beyond_64_bits_become_no_doubles() -> None:
    read = read_json(pa.array(['{"new":9007199254740993}', '{"new":1.5}', '{"new":12345678901234567890}']), None, True)
    assert list(read.refused) == [2]
    assert sorted(value for _, array in read.structs for value in array.field(0).to_pylist()) == [1.5, 9007199254740993]


def test_names_that_are_values_become_no_endless_columns() -> None:
    few = [f'{{"n":{number},"by":{{"id{number}":1}}}}' for number in range(600)]
    assert len(read_json(pa.array(few), TABLE, True).fields.field("by").type) == 600
    many = [f'{{"by":{{{",".join(f""" "id{number}-{at}":1""" for at in range(1000))}}}}}' for number in range(12)]
    read = read_json(pa.array(many), TABLE, True)
    assert len(read.refused) == 8
    assert set(read.refused.values()) < {
        f"The value does not fit the table: its table would have {count:,} fields, more than 5,000"
        for count in range(5001, 7000)
    }
    assert not read_json(pa.array(many), TABLE, False).refused
    one = "{" + ",".join(f'"id{number}" : 1' for number in range(6000)) + "}"
    assert "more than 5,000 fields" in read_json(pa.array([one]), TABLE, True).refused[0]
    large = '{"list":[' + ",".join(['{"x":1}'] * 40_000) + "]}"
    assert not read_json(pa.array([large]), TABLE, True).refused
    larger = '{"list":[' + ",".join(['{"x":1}'] * 60_000) + "]}"
    assert "more than 50,000 members" in read_json(pa.array([larger]), TABLE, True).refused[0]
    assert not read_json(pa.array([larger]), TABLE, False).refused


def test_long_whole_numbers_may_stand_beside_fractions() -> None:
    micros = 1_767_268_800_000_000
    made = read_json(pa.array([f'{{"at": {micros + n}, "value": {n / 4}}}' for n in range(3)]), None, True)
    assert not made.refused
    assert made.fields == pa.struct({"at": pa.int64(), "value": pa.float64()})
    refused = read_json(pa.array(['{"n": 9007199254740993}', '{"n": 0.5}']), None, True)
    assert [structs.type for _, structs in refused.structs] == [
        pa.struct({"n": pa.int64()}),
        pa.struct({"n": pa.float64()}),
    ]
