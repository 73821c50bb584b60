"""Debezium's HeaderToValue in sinks against its own jar."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.config.problems import ConfigError
from headrace.plugins.transforms.header_to_value import HeaderToValue
from tests.compat.test_new_record_state import KEEPS_NULLS, crashes, documents, named, schema, struct
from tests.compat.test_outbox import settings_of
from tests.compat.transform_oracle import JSON, SCHEMALESS, TEXT, Answer, Chain, Chains, Converting, Link, Record

pytestmark = pytest.mark.spark

NAME: Final = "io.debezium.transforms.HeaderToValue"
CONVERTERS: Final = "org.apache.kafka.connect.converters."
DEEP: Final = struct(
    struct(schema("int64", "num", default=5), field="deep"), schema("string", "x", default="d"), name="I"
)
SCHEMA: Final = struct(
    schema("int32", "id", optional=False),
    schema("string", "s", default="unset"),
    named(DEEP, "in"),
    struct(schema("string", "y"), field="req", optional=False),
    schema("array", "l", items=struct(schema("string", "x"))),
    name="S",
    version=3,
    doc="d",
    parameters={"p": "q"},
)
PAYLOAD: Final = {"id": 1, "s": None, "in": {"deep": {"num": None}, "x": None}, "req": {"y": "z"}, "l": None}
BOTH: Final = (("h", b"1"), ("g", b"\xc3\xa9"))


def record(*headers: tuple[str, bytes | None], payload: Any = PAYLOAD, of: Any = SCHEMA) -> Record:
    return documents(of, payload, headers=headers)[0]


RECORDS: Final = [
    record(*BOTH),
    record(*BOTH, ("other", b"\x00")),
    record(("h", b"")),
    record(("other", b"x"), ("g", None)),
    record(("other", b"x")),
    record(),
    record(*BOTH, ("h", b"2")),
    record(*BOTH, payload=None),
    Record(None, headers=BOTH),
    *documents(schema("string"), "x", headers=BOTH),
    *documents(schema("string"), "x", None),
    record(*BOTH, payload={**PAYLOAD, "in": None}),
]
"""The first one has all headers, so that Debezium's schema has all fields."""


def link(headers: str, fields: str, operation: str = "copy") -> Link:
    return Link(NAME, {"headers": headers, "fields": fields, "operation": operation})


def lacks_one(jar: Answer, ours: Answer) -> bool:
    """Debezium fails records without the header of a field inside, if those before had it; ours is null."""
    return isinstance(jar, str) and "Struct schemas do not match" in jar and isinstance(ours, Record)


@pytest.mark.parametrize(
    ("fields", "operation"),
    [("f,k", "move"), ("f,in.k", "copy"), ("in.f,in.deep.k", "move"), ("req.f,in.deep.k", "copy")],
)
def test_headers_become_fields(chains: Chains, fields: str, operation: str) -> None:
    answers = chains.alike([link("h,g", fields, operation)], RECORDS, header=TEXT, value=KEEPS_NULLS, known=lacks_one)
    (first, *_) = answers
    assert isinstance(first, Record)
    assert len(first.headers) == (2 if operation == "copy" else 0)
    assert sum(isinstance(one, Record) for one in answers) >= 8


def test_a_null_gets_its_default_if_the_converter_says_so(chains: Chains) -> None:
    chains.alike([link("h", "in.f")], RECORDS[:3], header=TEXT, here=True)


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (Converting(f"{CONVERTERS}ByteArrayConverter"), [b"\x00\xff", b"", None]),
        (Converting(f"{CONVERTERS}IntegerConverter"), [b"\xff\xff\xff\xfe", b"\x00", None]),
        (Converting(f"{CONVERTERS}LongConverter"), [b"\x00" * 7 + b"\x05", b"\x00"]),
        (Converting(f"{CONVERTERS}DoubleConverter"), [b"\x3f\xf8" + b"\x00" * 6, None]),
        (Converting(f"{CONVERTERS}BooleanConverter"), [b"\x01", b"\x02", None]),
        (Converting(TEXT.class_name, {"converter.encoding": "ISO-8859-1"}), [b"\xe9", b""]),
        (
            Converting(JSON.class_name, {"schema.content": json.dumps(struct(schema("int32", "a"), optional=False))}),
            [b'{"a":7}', b"{}", b'{"a":"x"}', b"{", b"null"],
        ),
    ],
    ids=lambda one: one.class_name.rpartition(".")[2] if isinstance(one, Converting) else "",
)
def test_values_have_the_converters_type(chains: Chains, header: Converting, data: list[bytes | None]) -> None:
    def same(jar: Answer, ours: Answer) -> bool:
        """Our errors have the transform's stage if the converter does not say what it cannot read."""
        return all(isinstance(one, str) and one.startswith("error") for one in (jar, ours))

    records = [record(("h", one)) for one in data]
    answers = chains.alike([link("h", "f", "move")], records, header=header, value=KEEPS_NULLS, known=same)
    assert isinstance(answers[0], Record)


def refused(jar: Answer, ours: Answer) -> bool:
    return crashes(jar, ours) and isinstance(ours, str) and "is no struct of the value" in ours


@pytest.mark.parametrize("fields", ["id", "in", "in.x", "no.f", "id.f", "in.no.f"])
def test_fields_that_cannot_be_fail_their_records(chains: Chains, fields: str) -> None:
    answers = chains.alike([link("h", fields)], RECORDS[:6], header=TEXT, value=KEEPS_NULLS, known=refused)
    assert not isinstance(answers[0], Record)
    assert [isinstance(one, Record) for one in answers[-3:]] == [True, True, True]


def test_a_field_of_an_array_fails_its_record(chains: Chains) -> None:
    ours = chains.ours(Chain((link("h", "l.f"),), header=TEXT), RECORDS[:1])
    assert "l is no struct of the value, so that it can have no field f" in str(ours)


def test_values_without_a_schema_fail(chains: Chains) -> None:
    records = [Record(text, headers=BOTH) for text in (b'{"a":1}', b"1", b'"x"', b"[1]", b"null", None)]
    chains.alike([link("h", "f")], [*records, Record(b"{}")], header=TEXT, value=SCHEMALESS)


def test_a_missing_header_is_null_even_if_the_first_record_lacks_it(chains: Chains) -> None:
    """Debezium's schema is that of the first record, and all with another header fail."""
    records, chain = [record(("h", b"1")), record(*BOTH)], Chain((link("h,g", "f,k"),), header=TEXT)
    assert chains.apache(chain, records)[1] == f"error:{NAME}:k is not a valid field name"
    found = [json.loads(one.value or b"")["payload"] for one in chains.ours(chain, records) if isinstance(one, Record)]
    assert [(one["f"], one["k"]) for one in found] == [("1", None), ("1", "é")]


def test_a_predicate_and_other_transforms_stand_beside_it(chains: Chains) -> None:
    only = Link(
        NAME, {"headers": "h", "fields": "f", "operation": "move"}, ("predicates.HasHeaderKey", {"name": "other"})
    )
    before = [Link("DropHeaders", {"headers": "g"}), Link("HoistField$Value", {"field": "whole"})]
    chains.alike([*before, only], RECORDS[:8], header=TEXT, value=KEEPS_NULLS)


def test_a_header_that_a_transform_made_has_no_known_type(chains: Chains) -> None:
    """It would be an INT8 in Connect, and a text here."""
    made = Link("InsertHeader", {"header": "h", "value.literal": "5"})
    for answer in chains.ours(Chain((made, link("h", "f")), header=TEXT), [record(), record(("h", b"1"))]):
        assert "A transform before put the header h there" in str(answer)
    chains.alike([made, link("g", "f")], RECORDS[:2], header=TEXT)


def test_the_published_config(chains: Chains) -> None:
    """The example of Debezium's documentation."""
    source = struct(schema("string", "name"), field="source", optional=False)
    records = [
        record(
            ("event_timestamp", b"1700000000"),
            ("key", b"k"),
            of=struct(schema("int32", "id"), source, name="E"),
            payload={"id": 1, "source": {"name": "db"}},
        )
    ]
    (answer,) = chains.alike([link("event_timestamp,key", "timestamp,source.id", "move")], records, header=TEXT)
    assert isinstance(answer, Record)
    assert json.loads(answer.value or b"")["payload"] == {
        "id": 1,
        "source": {"name": "db", "id": "k"},
        "timestamp": "1700000000",
    }


def test_settings_are_those_of_the_jar(chains: Chains) -> None:
    settings_of(chains, HeaderToValue, NAME, required=("headers", "fields", "operation"))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"headers": "h", "fields": "f"},
        {"headers": "h", "fields": "f", "operation": "MOVE"},
        {"headers": "h,g", "fields": "f", "operation": "copy"},
        {"headers": "", "fields": "", "operation": "copy"},
    ],
    ids=str,
)
def test_both_refuse(chains: Chains, settings: dict[str, str]) -> None:
    with pytest.raises((Py4JJavaError, PySparkException)):
        chains.apache(Chain((Link(NAME, settings),)), [])
    with pytest.raises(ConfigError):
        HeaderToValue().configure(settings)


@pytest.mark.parametrize(
    ("headers", "fields"), [("h,h", "f,k"), ("h,g", "f,f"), ("h", "f."), ("h", "a..b"), ("h,", "f,g")]
)
def test_what_only_ours_refuses(headers: str, fields: str) -> None:
    with pytest.raises(ConfigError):
        HeaderToValue().configure({"headers": headers, "fields": fields, "operation": "copy"})
