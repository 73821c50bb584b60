"""Transforms, predicates and converters over records: Python called for each, inline and in a job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.plugins import RetriableError
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.records import Records
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from headrace.worker.pipeline.transforms import Step
from tests.spark import record_users
from tests.spark.applying import Became, Given, applied
from tests.spark.converting import configured, kafka_rows, learned

pytestmark = pytest.mark.spark

ROW = Schema(
    SchemaType.STRUCT,
    name="Row",
    fields=(Field("id", Schema(SchemaType.INT32)), Field("name", OPTIONAL_STRING)),
)


@pytest.fixture(scope="module")
def pool(engine: Spark) -> Iterator[ProjectionPool]:
    pool = ProjectionPool(engine, lanes=1)
    yield pool
    pool.stop()


@pytest.fixture
def run(spark: SparkSession, pool: ProjectionPool) -> Any:
    def run(
        transform: Any,
        given: Sequence[Given],
        values: Sequence[Schema | None] = (None, STRING, ROW),
        keys: Sequence[Schema | None] = (),
        predicate: Any = None,
    ) -> list[Became]:
        transform.configure({"name": "n"})
        if predicate is not None:
            predicate.configure({})

        def apply(records: Records) -> Records:
            return Step("t", transform, "Changing", predicate, False, None).apply(records)

        return applied(spark, pool, apply, given, values, keys)

    return run


def test_values_keep_their_schema_if_they_are_only_changed(run: Any) -> None:
    given = [
        Given('{"n": 1, "x": 1.50}', 0),
        Given("text", 1),
        Given({"id": 1, "name": None}, 2),
        Given(None, None),
        Given('{"n": 2}', 0, drop=True),
        Given('{"n": 3}', 0, error={"stage": "s", "class": "c", "message": "m"}),
    ]
    found = run(record_users.Marking(), given)
    assert [(one.value, one.schema) for one in found[:3]] == [
        ('{"n":1,"x":1.5,"mark":"n"}', None),
        ("text n", STRING),
        ({"id": 1, "name": "n"}, ROW),
    ]
    assert (found[3].value, found[3].has_value) == (None, False)
    assert [(one.value, one.drop, one.error) for one in found[4:]] == [
        ('{"n": 2}', True, None),
        ('{"n": 3}', False, "m"),
    ]


def test_all_parts_of_a_record_can_be_changed(run: Any) -> None:
    header = [{"key": "h", "value": b"x"}]
    (one,) = run(record_users.Moving(), [Given('{"n":1}', 0, key="k", key_of=0, headers=header)], keys=(STRING,))
    assert (one.topic, one.partition, one.timestamp, one.key, one.key_schema) == ("t-moved", 7, 5, "k!", STRING)
    assert one.headers == [*header, {"key": "more", "value": b"y"}]


def test_records_are_left_out_and_fail_alone(run: Any) -> None:
    given = [Given(json.dumps({"n": n}), 0) for n in range(5)]
    found = run(record_users.Choosing(), given)
    assert [one.drop for one in found] == [False, True, False, False, False]
    assert [bool(one.error) for one in found] == [False, False, True, True, True]
    assert found[2].error.startswith("ValueError: not two (record_users.py, line ")
    assert found[3].error.startswith("TypeError: change returned a list; it has to return a Record, or None")
    assert found[4].error == "field n: 18446744073709551616 has more than 64 bits, which no number of Connect has; " \
                             "make it a text"  # fmt: skip


def test_a_value_that_does_not_fit_its_schema_fails_and_is_named(run: Any) -> None:
    (more, wrong) = run(record_users.Misfitting(), [Given({"id": 1}, 2), Given({"id": 2}, 2)])
    assert more.error == "its schema has no field more"
    assert wrong.error == "the value that change returned does not fit: field id: 'x' is no integer"


def test_a_text_that_is_parsed_becomes_json_or_what_is_declared(run: Any) -> None:
    (one, two) = run(record_users.Parsing(), [Given('{"id": 1}', 1), Given(None, None)])
    assert (one.value, one.schema) == ('{"id":1}', None)
    assert (two.value, two.schema) == ('{"none":true}', None)
    (one,) = run(record_users.Declaring(), [Given('{"id": 1}', 1)])
    assert (one.value["id"], one.schema.name) == (1, "Parsed")


def test_a_retriable_error_fails_the_batch(run: Any) -> None:
    with pytest.raises(RetriableError, match="later"):
        run(record_users.Retrying(), [Given('{"n":1}', 0)])


def test_a_predicate_chooses_and_its_errors_fail_the_record(run: Any) -> None:
    given = [Given(json.dumps({"n": n}), 0) for n in range(3)] + [Given("text", 1)]
    found = run(record_users.Marking(), given, predicate=record_users.IsOdd())
    assert [one.value for one in found[:3]] == ['{"n": 0}', '{"n":1,"mark":"n"}', '{"n": 2}']
    assert found[3].error.startswith("TypeError: ")


def test_a_converter_of_single_values(spark: SparkSession) -> None:
    converter = configured(record_users.Csv(), {"separator": ";"})
    binding = ConverterBinding(converter, "V")
    rows = kafka_rows(spark, [(None, b"a;b"), (None, b"\xff"), (None, None), (None, b"")])
    records, _, _ = learned(rows, ConverterBinding(configured(record_users.Csv()), "K"), binding)
    found = records.frame.select("value_0", "error").collect()
    assert [one.value_0 for one in found] == ['["a","b"]', None, None, '[""]']
    assert "UnicodeDecodeError" in found[1].error["message"]
    encoded = converter.encode(records.value(0), None)
    back = records.frame.select(encoded.value.alias("value"), encoded.error.alias("error")).collect()
    assert [one.value for one in back] == [b"a;b", None, None, b""]
