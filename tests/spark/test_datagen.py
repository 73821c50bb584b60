"""Datagen's rows through Spark: every type of Avro's, keys, headers, and the kit."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from headrace.connectors.datagen.connector import DatagenTask
from headrace.converters.headers import SimpleHeaderConverter
from headrace.converters.json.converter import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.contracts import Limit, TaskContext
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit import SourceOnSparkContract, SourceRig
from headrace.worker.engine.programs import Engine
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executors import with_split
from headrace.worker.pipeline.source_expressions import SourceExpressions
from headrace.worker.pipeline.transforms import Transforms
from tests.spark.converting import configured
from tests.task_scope import task_scope
from tests.unit.connectors.datagen.test_connector import Rig

pytestmark = [pytest.mark.spark, pytest.mark.long]

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
TYPES: dict[str, Any] = {
    "counted": {"type": "int", "arg.properties": {"iteration": {"start": 5}}},
    "long": "long",
    "float": "float",
    "double": "double",
    "flag": "boolean",
    "text": "string",
    "bytes": "bytes",
    "fixed": {"type": "fixed", "name": "F", "size": 4},
    "symbol": {"type": "enum", "name": "E", "symbols": ["A", "B"]},
    "amount": {**DECIMAL, "arg.properties": {"range": {"min": -5.0, "max": 5.0}}},
    "any_amount": DECIMAL,
    "day": {"type": "int", "logicalType": "date"},
    "time": {"type": "int", "logicalType": "time-millis"},
    "instant": {"type": "long", "logicalType": "timestamp-millis"},
    "list": {"type": "array", "items": ["null", "int"]},
    "map": {"type": "map", "values": {"type": "array", "items": "long"}},
    "maybe": ["null", "string"],
    "union": ["string", "int"],
    "inner": {"type": "record", "name": "I", "fields": [{"name": "n", "type": "long"}]},
}
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": name, "type": type_} for name, type_ in TYPES.items()]}


class TestDatagenOnSpark(SourceOnSparkContract):
    @pytest.fixture
    def rig(self) -> SourceRig:
        return Rig()


def test_every_type_reaches_json_with_key_and_headers(shared: Engine) -> None:
    task = DatagenTask()
    config = {"kafka.topic": "t", "schema.string": json.dumps(SCHEMA), "schema.keyfield": "counted", "random.seed": "1"}
    task.start({**config, "max.interval": "0", "task.id": "3"}, TaskContext("c", 3, StopToken()))
    plan = task.plan([None], Limit(200, 1 << 20))
    assert plan is not None
    (rows,) = task.reader(plan).read(0)
    sides = (ConverterBinding(one, "Converter") for one in (StringConverter(), JsonConverter()))
    key, value = sides
    configured(key.converter)
    configured(value.converter, {"schemas.enable": "false", "decimal.format": "NUMERIC"})
    header = SimpleHeaderConverter()
    transforms = Transforms(header_bytes=header.encode)
    encoding = SourceEncoding(task_scope(shared), SourceExpressions(task, key, value, transforms))
    made = encoding.encode(with_split(rows, 0), "").to_pylist()
    assert not [row["error"] for row in made if row["error"]]
    assert [row["key"] for row in made] == [str(5 + number).encode() for number in range(200)]
    names = ("task.generation", "task.id", "current.iteration")
    assert [[(one["key"], one["value"]) for one in row["headers"]] for row in made] == [
        list(zip(names, (b"0", b"3", str(number).encode()), strict=True)) for number in range(200)
    ]
    for row, given in zip(made, rows["value"].to_pylist(), strict=True):
        shown = json.loads(row["value"])
        for name in ("counted", "long", "flag", "text", "symbol", "maybe", "list", "inner", "union"):
            assert shown[name] == given[name]
        assert shown["double"] == pytest.approx(given["double"])
        assert shown["amount"] == pytest.approx(float(given["amount"]))
        assert base64.b64decode(shown["fixed"]) == given["fixed"]
        assert shown["map"] == dict(given["map"])
        assert shown["instant"] == round(given["instant"].timestamp() * 1000)
