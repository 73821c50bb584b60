"""Cast against Apache's own class."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from tests.compat.documents import decimal, documents, logical, plain, struct, texts
from tests.compat.transform_oracle import SCHEMALESS, TEXT, Chain, Chains, Link, Record

pytestmark = pytest.mark.spark

DICE: Final = random.Random(4)
INTEGERS: Final = (0, 1, -1, 127, 128, -128, -129, 255, 256, 300, 32767, 32768, 65535, 65536, -70000, 2**31 - 1)
LONGS: Final = (*INTEGERS, 2**31, -(2**31) - 1, 2**32, 2**63 - 1, -(2**63), *(DICE.getrandbits(63) for _ in range(20)))
FLOATS: Final = (
    *(
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.9,
        127.9,
        128.5,
        300.7,
        1e10,
        -1e10,
        2147483647.5,
        -2147483648.5,
        1e20,
        -1e20,
        1e-5,
    ),
    *(
        9223372036854775807.0,
        -9223372036854775808.0,
        1.5e300,
        -1.5e300,
        4.9e-324,
        1.17549435e-38,
        16777217.0,
        1e7,
        1e-3,
    ),
    *(DICE.uniform(-1, 1) * 10 ** DICE.randint(-12, 25) for _ in range(20)),
)
STRINGS: Final = (
    *(
        "",
        " ",
        "1",
        "+1",
        "-1",
        " 1",
        "1 ",
        "+",
        "-",
        "--1",
        "1.0",
        "0x10",
        "1_0",
        "00012",
        "127",
        "128",
        "-128",
        "-129",
    ),
    *(
        "32767",
        "32768",
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
    ),
    *(
        "1e3",
        " 1e3 ",
        "1.5f",
        "1.5D",
        ".5",
        "5.",
        ".",
        "NaN",
        "nan",
        "-NaN",
        "Infinity",
        "-Infinity",
        "infinity",
        "inf",
    ),
    *(
        "+Infinity",
        "Infinityf",
        "1e999",
        "-1e999",
        "1e-999",
        "0x1p3",
        "0x1.8p-1f",
        "0x1",
        "3.4e38",
        "3.5e38",
        "16777217",
    ),
    *("0.1", "1e", "e1", "1 2", "\u00a01", "\t1\n", "true", "TRUE", "tRuE", " true", "yes", "abc", "1,5", "1dd", "-0"),
    *(
        "0.30000000000000004",
        "1.17549435E-38",
        "4.9e-324",
        "2.4703282292062327e-324",
        "1" * 400,
        "9" * 40,
        "null",
        "é\n\U0001f600",
    ),
)
UNSCALED: Final = (0, 1, -1, 99, 100, -150, 12800, 2**31 * 100 + 99, 2**63 * 100, -(2**64) * 100 - 1, 10**37, 123456789)
MOMENTS: Final = (
    0,
    1,
    -1,
    86_399_999,
    86_400_000,
    86_400_001,
    1_700_000_000_123,
    1_700_006_400_000,
    -62_135_596_800_000,
)


class TestCast:
    def test_fields(self, chains: Chains) -> None:
        casts: dict[str, tuple[Mapping[str, Any], Sequence[Any], str]] = {
            "int8": ({"type": "int8"}, (-128, -1, 0, 1, 127), "int64 float32"),
            "int16": ({"type": "int16"}, (-32768, -129, 0, 255, 32767), "int8 boolean"),
            "int32": ({"type": "int32"}, INTEGERS, "int8 int16 float32"),
            "int64": ({"type": "int64"}, LONGS, "int8 int32 float32 float64 boolean string"),
            "float": ({"type": "float"}, FLOATS, "int16 int64 float64 string"),
            "double": ({"type": "double"}, FLOATS, "int8 int32 int64 float32 boolean string"),
            "boolean": ({"type": "boolean"}, (True, False), "int8 float64 string"),
        }
        self._alike(chains, casts)

    def test_fields_of_logical_types(self, chains: Chains) -> None:
        unscaled, some_bytes = [decimal(one) for one in UNSCALED], bytes(range(100))
        kinds = {scale: logical("bytes", "Decimal", parameters={"scale": scale}) for scale in ("2", "9")}
        casts: dict[str, tuple[Mapping[str, Any], Sequence[Any], str]] = {
            "decimal": (kinds["2"], unscaled, "int8 int64 float64 boolean string"),
            "small": (kinds["9"], unscaled, "float32 string"),
            "date": (logical("int32", "Date"), (0, 1, -1, 19000, -19000, 300), "int8 int64 boolean string"),
            "time": (logical("int32", "Time"), (0, 1, 300, 86_399_999), "int16 string"),
            "timestamp": (logical("int64", "Timestamp"), MOMENTS, "int32 int64 float64 string"),
            "bytes": ({"type": "bytes"}, ("", base64.b64encode(some_bytes).decode()), "string"),
        }
        self._alike(chains, casts)

    def _alike(self, chains: Chains, casts: Mapping[str, tuple[Mapping[str, Any], Sequence[Any], str]]) -> None:
        """Every source of these types, as a field for each target: schema, values, targets."""
        fields = [(f"{name} to {to}", schema) for name, (schema, _, targets) in casts.items() for to in targets.split()]
        rows = [
            {
                f"{name} to {to}": some[n % len(some)]
                for name, (_, some, targets) in casts.items()
                for to in targets.split()
            }
            for n in range(max(len(some) for _, some, _ in casts.values()))
        ]
        spec = ",".join(f"{name}:{name.split()[-1]}" for name, _ in fields)
        chains.alike([Link("Cast$Value", {"spec": spec})], documents(struct(fields), rows))

    @pytest.mark.parametrize("target", ["int8", "int64", "float32", "float64", "boolean"])
    def test_texts(self, chains: Chains, target: str) -> None:
        chains.alike([Link("Cast$Value", {"spec": f" {target.title()} "})], texts(*STRINGS, None), value=TEXT)

    def test_whole_values(self, chains: Chains) -> None:
        records = [
            *plain("int32", (700, None), optional=True, name="n", version=3, doc="d", parameters={"p": "q"}),
            *plain("double", (7.5, None), optional=True, default=300.5),
            *plain("string", ("1", "x", None), optional=True, default="nope"),
            *plain("bytes", ("aGk=",)),
            *documents({"type": "array", "items": {"type": "int32", "optional": False}, "optional": True}, ([1], None)),
            Record(None),
        ]
        chains.alike([Link("Cast$Key", {"spec": "int8"})], [Record(key=one.value) for one in records])

    def test_fields_that_cannot_be_cast(self, chains: Chains) -> None:
        optional = [
            (name, {"type": kind, "optional": True}) for name, kind in (("a", "string"), ("b", "bytes"), ("c", "int64"))
        ]
        inner = {"type": "array", "items": {"type": "int32", "optional": False}, "optional": True}
        fields = [*optional, ("d", inner), ("e", {"type": "string", "optional": True, "default": "12"})]
        rows = [
            {},
            {"a": "1"},
            {"a": "x"},
            {"b": "aGk="},
            {"c": 5},
            {"d": []},
            {"e": "x"},
            {"a": "y", "b": "", "e": "7"},
        ]
        spec = "a:int8,b:int64,d:string,e:int32,nowhere:int8"
        about = {"name": "S", "version": 2, "doc": "D", "parameters": {"p": "q"}, "optional": True}
        records = documents(struct(fields, **about), [*rows, None])
        chains.alike([Link("Cast$Value", {"spec": spec})], records)
        chains.alike([Link("Cast$Value", {"spec": spec, "replace.null.with.default": "false"})], records)
        wrong = [("e", {"type": "string", "optional": True, "default": "z"})]
        chains.alike([Link("Cast$Value", {"spec": spec})], documents(struct(wrong, optional=True), [{"e": "1"}, None]))
        chains.alike(
            [Link("Cast$Value", {"spec": spec})], [*plain("int32", (1,)), *plain("string", (None,), optional=True)]
        )

    @pytest.mark.parametrize("target", ["int8", "string"])
    def test_schemaless(self, chains: Chains, target: str) -> None:
        values = [
            *(
                "null",
                "true",
                "false",
                "0",
                "-1",
                "300",
                "70000",
                "2147483648",
                "9223372036854775807",
                "0.5",
                "-1.9",
                "1e10",
            ),
            *("1e20", "-300.7", "1.10", "[1]", "{}", '{"a":1}', *(json.dumps(text) for text in STRINGS)),
        ]
        chains.alike([Link("Cast$Value", {"spec": target})], texts(*values, None), value=SCHEMALESS)
        members = [f'{{"b":[1],"a":{text},"c":"x"}}' for text in values]
        others = ("{}", "5", "[1]", '"x"', "1.5", "true", "null", None)
        chains.alike([Link("Cast$Value", {"spec": f"a:{target},z:int8"})], texts(*members, *others), value=SCHEMALESS)

    def test_what_connect_then_refuses_to_write(self, chains: Chains) -> None:
        """A Timestamp cast to int64 keeps its name: Connect's converter fails, here it is the same Timestamp."""
        chain = Chain((Link("Cast$Value", {"spec": "int64"}),))
        records = documents(logical("int64", "Timestamp", optional=False), [1_700_000_000_123])
        assert chains.apache(chain, records) == [
            "error:org.apache.kafka.connect.json.JsonConverter:"
            "Invalid type for Timestamp, expected Date but was class java.lang.Long"
        ]
        ours = [json.loads(one.value or b"") for one in chains.ours(chain, records) if isinstance(one, Record)]
        assert ours == [json.loads(records[0].value or b"")]

    def test_the_default_of_a_struct_is_cast(self, chains: Chains) -> None:
        """Connect's JSON cannot have such a default; where Avro brings one, its Cast fails for every record."""
        chain = Chain((Link("Cast$Value", {"spec": "a:int8"}),))
        schema = struct([("a", {"type": "int32"}), ("b", {"type": "string"})], default={"a": 300, "b": "x"})
        records = documents(schema, [{"a": 301, "b": "y"}])
        ours = [json.loads(one.value or b"") for one in chains.ours(chain, records) if isinstance(one, Record)]
        assert [(one["schema"]["default"], one["payload"]) for one in ours] == [
            ({"a": 44, "b": "x"}, {"a": 45, "b": "y"})
        ]

    def test_digits_of_other_scripts_are_refused(self, chains: Chains) -> None:
        chain = Chain((Link("Cast$Value", {"spec": "int32"}),), value=TEXT)
        assert [one.value for one in chains.apache(chain, texts("\u0661")) if isinstance(one, Record)] == [b"1"]
        ours = chains.ours(chain, texts("\u0661"))
        assert ["Value (\u0661) was out of range" in str(one) for one in ours] == [True]
