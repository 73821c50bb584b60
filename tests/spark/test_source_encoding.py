"""Sources with equal expression keys share programs; their rows bear their topics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.connectors.file.reader import SCHEMA
from headrace.connectors.file.source import FileStreamSourceTask
from headrace.converters.json.converter import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.contracts import Converter
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.records import Records, source_records
from headrace.plugins.schema import STRING
from headrace.worker.deadletters.source_records import KeptRecords
from headrace.worker.engine.programs import Engine
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executors import with_split
from headrace.worker.pipeline.source_expressions import SourceExpressions
from headrace.worker.pipeline.transforms import Transforms
from tests.spark.converting import configured
from tests.task_scope import task_scope

pytestmark = [pytest.mark.spark, pytest.mark.long]

HOIST = "org.apache.kafka.connect.transforms.HoistField$Value"
ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
SHIPPED = Plugins.shipped()


class Lines(FileStreamSourceTask):
    """Lines of a task with nothing but a topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic


class Strangers(Lines):
    """Makes the same, but nobody knows of what."""

    @staticmethod
    def records(frame: DataFrame) -> Records:
        return source_records(frame, F.col("topic"), F.upper("value"), STRING)


class Own(Lines):
    """Sees its task."""

    def records(self, frame: DataFrame) -> Records:  # type: ignore[override]
        return source_records(frame, F.lit(self._topic), F.upper("value"), STRING)


class Encoded(NamedTuple):
    """Topics and values of two lines, and the program that they went through."""

    values: list[tuple[str, bytes]]
    program: Any
    is_shared: bool


def side(converter: Converter | None = None) -> ConverterBinding:
    return ConverterBinding(converter or configured(StringConverter()), "Converter")


def encoded(
    engine: Engine,
    task: Lines,
    value: Converter | None = None,
    before: KeptRecords | None = None,
    config: Mapping[str, str] = MappingProxyType({}),
) -> Encoded:
    header_bytes: Any = None
    transforms = Transforms.of(config, SHIPPED, header_bytes)
    encoding = SourceEncoding(task_scope(engine), SourceExpressions(task, side(), side(value), transforms, before))
    offset = {"position": 2, "line": 1, "_generation": 0, "_head": 0}
    lines = pa.RecordBatch.from_pylist([{"value": line, "source_offset": offset} for line in ("a", "b")], schema=SCHEMA)
    answer = encoding.encode(with_split(lines, 3), "")
    assert answer.column("split").to_pylist() == [3, 3]
    assert answer.column("source_offset").to_pylist() == [offset, offset]
    values = list(zip(answer.column("topic").to_pylist(), answer.column("value").to_pylist(), strict=True))
    program: Any = encoding._programs.of("")
    return Encoded(values, getattr(program, "program", program), hasattr(program, "program"))


def json() -> JsonConverter:
    return configured(JsonConverter(), {"schemas.enable": "false"})


def test_tasks_share_a_program_and_have_their_own_topics(shared: Engine) -> None:
    hoisted = {"transforms": "h", "transforms.h.type": HOIST, "transforms.h.field": "f"}
    plain = [encoded(shared, Lines(topic)) for topic in ("t", "u")]
    others = [encoded(shared, Lines(topic), json(), config=hoisted) for topic in ("t", "u")]
    assert [one.values for one in plain] == [[(topic, b"a"), (topic, b"b")] for topic in ("t", "u")]
    assert [one.values for one in others] == [[(t, b'{"f":"a"}'), (t, b'{"f":"b"}')] for t in ("t", "u")]
    assert plain[0].program is plain[1].program
    assert others[0].program is others[1].program
    assert plain[0].program is not others[0].program


def test_what_differs_is_not_shared(shared: Engine) -> None:
    first = encoded(shared, Lines("t"))
    assert first.is_shared
    differs = encoded(shared, Lines("t"), json())
    assert differs.values == [("t", b'"a"'), ("t", b'"b"')]
    assert differs.program is not first.program
    assert not encoded(shared, Lines("t"), before=KeptRecords(configured(JsonConverter()))).is_shared
    for strange in (Strangers, Own):
        for topic in ("t", "u"):
            own = encoded(shared, strange(topic))
            assert own.values == [(topic, b"A"), (topic, b"B")]
            assert not own.is_shared


def test_an_expression_that_reads_the_topic_has_it_as_a_constant(shared: Engine) -> None:
    routed = {"transforms": "r", "transforms.r.type": ROUTER, "transforms.r.regex": "(.*)"}
    routed["transforms.r.replacement"] = "$1-x"
    for topic in ("t", "u", "v"):
        made = encoded(shared, Lines(topic), config=routed)
        assert made.values == [(f"{topic}-x", b"a"), (f"{topic}-x", b"b")]
        assert not made.is_shared
