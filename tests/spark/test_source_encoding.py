"""Sources that tell equal recipes share programs; what differs between them their rows bear."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.connectors.file.reader import SCHEMA
from headrace.connectors.file.source import FileStreamSourceTask
from headrace.converters.json.converter import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.contracts import Converter
from headrace.plugins.conversion.decode import ConverterBinding
from headrace.plugins.discovery import Plugins
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
    """Lines that end with a suffix; counts how often their expressions are made."""

    made = 0
    recipe: Hashable | None

    def __init__(self, topic: str, suffix: str = "") -> None:
        self._topic, self._suffix = topic, suffix
        self.recipe = (suffix,)

    def records(self, frame: DataFrame) -> Records:
        type(self).made += 1
        return source_records(frame, F.col("topic"), F.concat("value", F.lit(self._suffix)), STRING)


class Silent(Lines):
    recipe: Hashable | None = None

    def __init__(self, topic: str) -> None:
        self._topic, self._suffix = topic, ""


@pytest.fixture(autouse=True)
def none_made() -> None:
    Lines.made = Silent.made = 0


def side(converter: Converter | None = None) -> ConverterBinding:
    return ConverterBinding(converter or configured(StringConverter()), "Converter")


def encoded(
    engine: Engine,
    task: Lines,
    value: Converter | None = None,
    before: KeptRecords | None = None,
    config: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[str, bytes]]:
    """Topics and values of two lines."""
    header_bytes: Any = None
    transforms = Transforms.of(config, SHIPPED, header_bytes)
    expressions = SourceExpressions(task, side(), side(value), transforms, before)
    offset = {"position": 2, "line": 1, "_generation": 0, "_head": 0}
    lines = pa.RecordBatch.from_pylist([{"value": line, "source_offset": offset} for line in ("a", "b")], schema=SCHEMA)
    answer = SourceEncoding(task_scope(engine), expressions).encode(with_split(lines, 3), "")
    assert answer.column("split").to_pylist() == [3, 3]
    assert answer.column("source_offset").to_pylist() == [offset, offset]
    return list(zip(answer.column("topic").to_pylist(), answer.column("value").to_pylist(), strict=True))


def test_tasks_share_what_they_tell_and_have_their_own_topics(shared: Engine) -> None:
    assert encoded(shared, Lines("t")) == [("t", b"a"), ("t", b"b")]
    assert encoded(shared, Lines("u")) == [("u", b"a"), ("u", b"b")]
    hoisted = {"transforms": "h", "transforms.h.type": HOIST, "transforms.h.field": "f"}
    for topic in ("t", "u", "v"):
        values = encoded(shared, Lines(topic), configured(JsonConverter(), {"schemas.enable": "false"}), config=hoisted)
        assert values == [(topic, b'{"f":"a"}'), (topic, b'{"f":"b"}')]
    assert Lines.made == 2


def test_others_are_made_anew(shared: Engine) -> None:
    json = JsonConverter()
    assert encoded(shared, Lines("t")) == [("t", b"a"), ("t", b"b")]
    assert encoded(shared, Lines("t", "!")) == [("t", b"a!"), ("t", b"b!")]
    assert encoded(shared, Lines("t"), configured(JsonConverter(), {"schemas.enable": "false"})) == [
        ("t", b'"a"'), ("t", b'"b"'),
    ]  # fmt: skip
    kept = KeptRecords(configured(json))
    for _ in range(2):  # what dead letters are made of is not shared
        encoded(shared, Lines("t"), before=kept)
    assert Lines.made == 5
    for topic in ("t", "u"):
        assert encoded(shared, Silent(topic)) == [(topic, b"a"), (topic, b"b")]
    assert Silent.made == 2


def test_a_class_that_extends_another_shares_nothing_unless_it_tells_anew(shared: Engine) -> None:
    class Loud(Lines):
        def __init__(self, topic: str) -> None:
            self._topic = topic

        def records(self, frame: DataFrame) -> Records:
            return source_records(frame, F.lit(self._topic), F.upper("value"), STRING)

    for topic in ("t", "u"):
        assert encoded(shared, Loud(topic)) == [(topic, b"A"), (topic, b"B")]


def test_a_constant_is_no_column_of_the_reader(shared: Engine) -> None:
    class Twice(Lines):
        def constants(self) -> Mapping[str, str]:
            return {"value": "v"}

    with pytest.raises(TypeError, match=r"constants\(\) of Twice has names of its reader's columns: \['value'\]"):
        encoded(shared, Twice("t"))


def test_an_expression_that_reads_the_topic_has_it_as_a_constant(shared: Engine) -> None:
    routed = {"transforms": "r", "transforms.r.type": ROUTER, "transforms.r.regex": "(.*)"}
    routed["transforms.r.replacement"] = "$1-x"
    for topic in ("t", "u", "v"):
        assert encoded(shared, Lines(topic), config=routed) == [(f"{topic}-x", b"a"), (f"{topic}-x", b"b")]
    assert Lines.made == 4  # once for all, in vain
