"""A batch of many schemas is decoded by several bounded programs, and its rows stand in their order again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.converters.json import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.contracts import Reached, Stop, TopicPartition
from headrace.plugins.decode import Side, to_records
from headrace.plugins.records import Records
from headrace.worker.decoding import SCHEMAS, Decoding
from headrace.worker.engine import Engine
from headrace.worker.here import Lanes
from headrace.worker.prefix import stop_of
from headrace.worker.spark import Spark
from headrace.worker.turns import Turns
from tests.spark.converting import KAFKA_ROW, configured

pytestmark = pytest.mark.spark

Project = Callable[[Records], list[Column]]


@pytest.fixture
def shared(engine: Spark) -> Iterator[Engine]:
    lanes = Lanes(engine, threads=1)
    yield Engine(lanes, Turns(1), Turns(1 << 20))
    lanes.stop()


def texts(records: Records) -> list[Column]:
    """One column, whatever the schema."""
    return [F.coalesce(*(records.value(n) for n in range(len(records.values))), F.lit(None).cast("string")).alias("v")]


def wide(records: Records) -> list[Column]:
    """A column a schema, as a sink of tables has it."""
    return [records.value(n).alias(schema.name or "") for n, schema in enumerate(records.values) if schema]


def decoding(
    shared: Engine, project: Project = texts, key: Side | None = None, compiled: list[int] | None = None
) -> Decoding:
    """`compiled`: how many schemas of values each program was compiled with."""
    string = configured(StringConverter())
    key = key or Side(string, "StringConverter", ((b"", string.resolve(b"", "")),))

    def decode(rows: DataFrame, key: Side, value: Side) -> DataFrame:
        if compiled is not None:
            compiled.append(len(value.known) + len(value.hopeless))
        records = to_records(rows, key, value)
        control = [F.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "drop")]
        stop = stop_of(F.col("error"), F.col("unknown_key"), F.col("unknown_value")).alias("_stop")
        return records.frame.select(*control, stop, *project(records))

    value = Side(configured(JsonConverter()), "JsonConverter")
    return Decoding(shared, decode, key, value, "a-0", lambda: False)


def envelope(schema: int, payload: str) -> bytes:
    return b'{"schema":{"type":"string","optional":false,"name":"s%d"},"payload":%s}' % (schema, payload.encode())


def batch(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None) -> pa.RecordBatch:
    rows = [
        {"topic": "t", "partition": 0, "offset": n, "timestamp": n, "headers": None, "key": key, "value": value}
        for n, (key, value) in enumerate(zip(keys or [None] * len(values), values, strict=True))
    ]
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(KAFKA_ROW))


def column(batches: Sequence[pa.RecordBatch], name: str) -> list[Any]:
    return [value for each in batches for value in each[name].to_pylist()]


def test_many_schemas_take_several_programs(shared: Engine) -> None:
    count = 2 * SCHEMAS + 3
    values = [envelope(n % count, f'"line {n}"') for n in range(3 * count)]
    compiled: list[int] = []
    made = decoding(shared, compiled=compiled)
    (given,) = made.run(batch(values))
    assert given["v"].to_pylist() == [f"line {n}" for n in range(3 * count)]
    assert given["_offset"].to_pylist() == list(range(3 * count))
    assert given["_stop"].null_count == 3 * count
    assert max(compiled) == SCHEMAS
    assert made.alone is None, "a job with one program would stop at once"
    compiled.clear()
    (again,) = made.run(batch(values))
    assert again == given
    assert not compiled, "what is known is not compiled again"


def test_a_new_schema_leaves_full_programs_alone(shared: Engine) -> None:
    compiled: list[int] = []
    made = decoding(shared, compiled=compiled)
    made.run(batch([envelope(n, '"a"') for n in range(SCHEMAS)]))
    compiled.clear()
    made.run(batch([envelope(SCHEMAS, '"b"')]))
    assert compiled == [1]
    assert made.alone is not None, "the last batch took one program"
    assert [schema.name for _, schema in made.alone[1].known if schema] == [f"s{SCHEMAS}"]


def test_rows_of_unlike_columns_come_in_runs(shared: Engine) -> None:
    made = decoding(shared, wide)
    made.run(batch([envelope(n, '"a"') for n in range(SCHEMAS + 1)]))
    order = [0, 0, SCHEMAS, SCHEMAS, 1, SCHEMAS]
    given = made.run(batch([envelope(n, f'"{i}"') for i, n in enumerate(order)]))
    assert [each.num_rows for each in given] == [2, 2, 1, 1]
    assert column(given, "_offset") == list(range(6))
    assert [each[f"s{n}"].to_pylist() for each, n in zip(given, (0, SCHEMAS, 1, SCHEMAS), strict=True)] == [
        ["0", "1"],
        ["2", "3"],
        ["4"],
        ["5"],
    ]


def test_odd_and_bad_rows_of_any_program_are_told_apart(shared: Engine) -> None:
    made = decoding(shared)
    made.run(batch([envelope(n, '"a"') for n in range(SCHEMAS + 2)]))
    odd = envelope(SCHEMAS, '"tab\\u0009"').replace(b'"payload":', b' "payload" : ')
    (given,) = made.run(batch([envelope(0, "null"), odd, b"no json", None, envelope(SCHEMAS + 1, '"b"')]))
    assert given["v"].to_pylist() == [None, "tab\t", None, None, "b"]
    stops = given["_stop"].to_pylist()
    assert [stop is not None for stop in stops] == [True, False, True, False, False]
    assert "Invalid null value" in stops[0]
    assert "serialization error" in stops[2]


def test_keys_and_values_have_their_own_parts(shared: Engine) -> None:
    key = Side(configured(JsonConverter()), "JsonConverter")
    made = decoding(shared, key=key)
    count = SCHEMAS + 1
    keys = [envelope(100 + n, '"k"') for n in range(count)]
    values = [envelope(n, f'"{n}"') for n in reversed(range(count))]
    (given,) = made.run(batch(values, keys))
    assert given["v"].to_pylist() == [str(n) for n in reversed(range(count))]
    assert given["_stop"].null_count == count


def test_what_stopped_a_job_is_known_afterwards(shared: Engine) -> None:
    made = decoding(shared)
    made.run(batch([envelope(n, '"a"') for n in range(SCHEMAS)]))
    assert made.alone is not None
    identity = envelope(SCHEMAS, "").removesuffix(b"}")
    made.learn([Reached(TopicPartition("t", 0), 5, stop=Stop.UNKNOWN, reason=f"value:{identity.hex()}")])
    assert made.alone is None, "the next job would stop at the same row"
    (given,) = made.run(batch([envelope(SCHEMAS, '"b"')]))
    assert given["v"].to_pylist() == ["b"]


class Fickle(StringConverter):
    """Names a schema that it then does not find."""

    @property
    def constant_identity(self) -> bytes | None:
        return None

    def identify(self, data: Column) -> Column:
        return F.lit(b"x")

    def matches(self, data: Column, identity: bytes) -> Column:
        return F.lit(False)


def test_a_converter_that_contradicts_itself_fails_its_task(shared: Engine) -> None:
    key = Side(configured(Fickle()), "Fickle")
    with pytest.raises(ValueError, match="Fickle finds no schema for a key that begins with b'x'"):
        decoding(shared, key=key).run(batch([None], [b"a"]))
