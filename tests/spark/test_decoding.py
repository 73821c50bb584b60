"""A batch of many schemas is decoded by several bounded programs, and its rows stand in their order again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.converters.json.converter import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.contracts import DataError, PartitionResult, RetriableError, Stop, TopicPartition
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.quick_decoding import QuickDecoding
from headrace.plugins.records import Records
from headrace.plugins.schema import STRING, Schema
from headrace.worker.engine.programs import Engine
from headrace.worker.pipeline.decoding import SCHEMAS, Decoding
from headrace.worker.pipeline.sink_expressions import SinkExpressions
from headrace.worker.pipeline.transforms import Transforms
from tests.spark.converting import KAFKA_ROW, configured
from tests.task_scope import task_scope

pytestmark = [pytest.mark.spark, pytest.mark.long]

Project = Callable[[Records], list[Column]]


def texts(records: Records) -> list[Column]:
    """One column, whatever the schema."""
    return [F.coalesce(*(records.value(n) for n in range(len(records.values))), F.lit(None).cast("string")).alias("v")]


def wide(records: Records) -> list[Column]:
    """A column a schema, as a sink of tables has it."""
    return [records.value(n).alias(schema.name or "") for n, schema in enumerate(records.values) if schema]


class Counting(SinkExpressions):
    """Notes how many schemas of values each program is compiled with."""

    compiled: ClassVar[list[int]]

    def decoded(self, rows: DataFrame, key: ConverterBinding, value: ConverterBinding, raw: bool = False) -> DataFrame:
        self.compiled.append(len(value.known) + len(value.hopeless))
        return super().decoded(rows, key, value, raw)


def decoding(
    shared: Engine,
    project: Project = texts,
    key: ConverterBinding | None = None,
    value: ConverterBinding | None = None,
    compiled: list[int] | None = None,
) -> Decoding:
    """`compiled`: how many schemas of values each program was compiled with."""
    string = configured(StringConverter())
    key = key or ConverterBinding(string, "StringConverter", ((b"", string.resolve(b"", "")),))
    value = value or ConverterBinding(configured(JsonConverter()), "JsonConverter")
    task: Any = SimpleNamespace(columns=project)
    Counting.compiled = [] if compiled is None else compiled
    return Decoding(task_scope(shared), Counting(task, Transforms()), key, value)


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
    key = ConverterBinding(configured(JsonConverter()), "JsonConverter")
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
    made.learn([PartitionResult(TopicPartition("t", 0), 5, stop=Stop.UNKNOWN, reason=f"value:{identity.hex()}")])
    assert made.alone is None, "the next job would stop at the same row"
    (given,) = made.run(batch([envelope(SCHEMAS, '"b"')]))
    assert given["v"].to_pylist() == ["b"]


class Fickle(StringConverter, QuickDecoding):
    """Names a schema that it then does not find."""

    @property
    def constant_identity(self) -> bytes | None:
        return None

    def identify(self, data: Column) -> Column:
        return F.lit(b"x")

    def matches(self, data: Column, identity: bytes) -> Column:
        return F.lit(False)


def test_a_converter_that_contradicts_itself_fails_its_task(shared: Engine) -> None:
    key = ConverterBinding(configured(Fickle()), "Fickle")
    with pytest.raises(ValueError, match="Fickle finds no schema for a key that begins with b'x'"):
        decoding(shared, key=key).run(batch([None], [b"a"]))


class Registry(StringConverter):
    """Knows the schemas of `known`, which are single letters that texts begin with."""

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.asked: list[bytes] = []
        self.away = False

    @property
    def constant_identity(self) -> bytes | None:
        return None

    def identify(self, data: Column) -> Column:
        return F.substring(data, 1, 3)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        if self.away:
            raise RetriableError("away")
        self.asked.append(identity)
        if identity not in self.known:
            raise DataError(f"no {identity.decode()}")
        return STRING


def registry(shared: Engine, monkeypatch: pytest.MonkeyPatch) -> tuple[Registry, Decoding, Callable[[float], None]]:
    """A decoding by a registry, and what moves the clock."""
    now = [100.0]
    monkeypatch.setattr("headrace.worker.pipeline.decoding.time", SimpleNamespace(monotonic=lambda: now[0]))
    converter = configured(Registry())
    made = decoding(shared, value=ConverterBinding(converter, "R"))

    def move(seconds: float) -> None:
        now[0] += seconds

    return converter, made, move


def stops(made: Decoding, values: Sequence[bytes]) -> list[str | None]:
    return column(made.run(batch(values)), "_stop")


def test_what_was_hopeless_is_asked_for_again(shared: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    converter, made, move = registry(shared, monkeypatch)
    assert "no aaa" in str(stops(made, [b"aaa 1"]))
    converter.known.add(b"aaa")
    assert "no aaa" in str(stops(made, [b"aaa 2"])), "not at once"
    move(31)
    converter.away = True
    assert "no aaa" in str(stops(made, [b"aaa 3"])), "a registry that is away stops nobody"
    converter.away = False
    move(31)
    assert column(made.run(batch([b"aaa 4"])), "v") == ["aaa 4"]
    assert converter.asked == [b"aaa", b"aaa"]


def test_garbage_without_end_compiles_few_programs(shared: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.plugins.interop.conversion.decode.MOST_HOPELESS", SCHEMAS)
    converter, made, _ = registry(shared, monkeypatch)
    converter.known.add(b"aaa")
    garbage = [b"%03d" % n for n in range(5 * SCHEMAS)]
    found = stops(made, [b"aaa 1", *garbage, b"aaa 2"])
    assert [found[0], found[-1]] == [None, None]
    assert "no 000" in str(found[1])
    assert f"one of more than {SCHEMAS} that cannot be read" in str(found[-2])
    assert len(made._programs) <= 3
    assert stops(made, garbage[SCHEMAS:]) == found[1 + SCHEMAS : -1]
    assert made.alone is None, "a job would stop at such a row"
    assert stops(made, [b"aaa 3", *garbage]) == found[:-1]
    assert len(converter.asked) == 1 + len(garbage), "none is asked for twice"


def test_schemas_without_end_are_forgotten(shared: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.pipeline.decoding.PROGRAMS", 2)
    made = decoding(shared)
    made._sides["value"].converter.most_schemas = SCHEMAS
    for begin in range(0, 6 * SCHEMAS, 3 * SCHEMAS):
        numbers = range(begin, begin + 3 * SCHEMAS)
        assert column(made.run(batch([envelope(n, f'"{n}"') for n in numbers])), "v") == [str(n) for n in numbers]
        assert len(made._sides["value"].known) == 3 * SCHEMAS
        assert len(made._programs) <= 2


@pytest.mark.parametrize(
    "schema",
    [
        r'{"type":"\ud800"}',
        r'{"type":"string","name":"\ud800","doc":"\ud800","parameters":{"\ud800":"\ud800"},"default":"\ud800"}',
        r'{"type":"map","keys":{"type":"string"},"values":{"type":"int8"},"default":{"\ud800":1,"\udfff":2}}',
        r'{"type":"struct","fields":[{"type":"string","field":"\ud800"}]}',
        r'{"type":"struct","fields":[{"type":"string","optional":true,"default":"\ud800","field":"a"}]}',
    ],
)
def test_half_a_character_in_a_schema_costs_its_record_at_most(shared: Engine, schema: str) -> None:
    def whole(records: Records) -> list[Column]:
        values = [F.to_json(F.struct(records.value(n))) for n in range(len(records.values))]
        return [F.coalesce(*values, F.lit(None).cast("string")).alias("v")]

    made = decoding(shared, whole)
    values = [f'{{"schema":{schema},"payload":{payload}}}'.encode() for payload in ("null", "{}", r'"\ud800"')]
    assert column(made.run(batch([*values, envelope(0, '"a"')])), "_stop")[-1] is None


def test_tasks_with_equal_keys_share_a_program(shared: Engine) -> None:
    built: list[int] = []

    def counted(records: Records) -> list[Column]:
        built.append(len(records.values))
        return texts(records)

    class Ours:
        columns = staticmethod(counted)

    class Strangers(Ours):
        def columns(self, records: Records) -> list[Column]:  # type: ignore[override]
            return counted(records)

    counted.__module__ = "headrace.of_a_test"

    def task(value: JsonConverter, to: Any = Ours, **parts: Any) -> Decoding:
        string = configured(StringConverter())
        key = ConverterBinding(string, "StringConverter", ((b"", string.resolve(b"", "")),))
        expressions = SinkExpressions(to(), Transforms(**parts))
        return Decoding(task_scope(shared), expressions, key, ConverterBinding(value, "JsonConverter"))

    def json(**settings: str) -> JsonConverter:
        return configured(JsonConverter(), {key.replace("_", "."): value for key, value in settings.items()})

    class StrangersConverter(JsonConverter):
        """Makes the same, but nobody knows of what."""

    def program(made: Decoding) -> Any:
        assert column(made.run(batch([envelope(0, '"a"'), envelope(1, '"b"')])), "v") == ["a", "b"]
        return made.usual_program()

    first = task(json())
    made = program(first)
    assert built == [0, 2]
    same = task(json())
    assert program(same) is made
    assert built == [0, 2]
    others = [
        task(json(replace_null_with_default="false")),
        task(json(), Strangers),
        task(configured(StrangersConverter())),
        task(json(), headers_key=None),
    ]
    for number, other in enumerate(others, 2):
        program(other)
        assert built == [0, 2] * number
