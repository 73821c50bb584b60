"""A key is equal for what makes equal expressions, and none is there for what is not settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.connectors.file.sink import FileStreamSinkTask
from headrace.converters.avro.converter import AvroConverter
from headrace.converters.json.converter import JsonConverter
from headrace.converters.numbers import BooleanConverter, DoubleConverter, LongConverter
from headrace.plugins.contracts import Converter
from headrace.plugins.interop.conversion.decode import ConverterBinding, Hopeless
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.schema import STRING
from headrace.worker.pipeline.expression_keys import key_of, key_of_function, key_of_side, together

SHIPPED = Plugins.shipped()
NEEDED = {
    "delimiter": "_",
    "field": "f",
    "fields": "f",
    "converted.timezone": "UTC",
    "filter.condition": "$.a",
    "filter.type": "include",
    "format": "yyyy",
    "header": "h",
    "headers": "h",
    "message.timestamp.format": "yyyy",
    "message.timestamp.keys": "k",
    "name": "n",
    "operation": "copy",
    "pattern": "p",
    "regex": "r",
    "replacement": "x",
    "schema.name": "n",
    "source.field": "f",
    "spec": "f:int32",
    "sql": "SELECT 1 AS one",
    "static.field": "s",
    "static.value": "v",
    "target.field": "g",
    "target.type": "string",
    "topic.regex": "(.*)",
    "topic.replacement": "$1",
    "topic.timestamp.format": "yyyy",
    "value.literal": "1.5",
}
"""A value of each setting that some transform has to have."""
UNSETTLED = {
    "headrace.transforms.Python",
    "io.confluent.connect.avro.AvroConverter",
    "io.confluent.connect.protobuf.ProtobufConverter",
    "io.apicurio.registry.utils.converter.AvroConverter",
    "io.apicurio.registry.utils.converter.ExtJsonConverter",
    "io.apicurio.registry.utils.converter.ProtobufConverter",
    "io.confluent.connect.json.JsonSchemaConverter",
}
"""They call a module's function, or ask a registry."""


def converter(made: Converter, **settings: str) -> Converter:
    made.configure({"converter.type": "value", "schema.registry.url": "http://localhost:1", **settings}, is_key=False)
    return made


@pytest.mark.parametrize("kind", ["converter", "header_converter", "transformation", "predicate"])
def test_shipped_plugins_of_equal_settings_have_equal_keys(kind: str) -> None:
    found = [one for one in SHIPPED.of_kind(kind) if one.class_name not in UNSETTLED]
    assert found
    keys = set()
    for entry in found:
        pair = [entry.load()() for _ in range(2)]
        for made in pair:
            made.worker = {"connector.allowed.hosts": ["*"]}
            if "converter" in kind:
                converter(made)
            else:
                made.configure({name: value for name, value in NEEDED.items() if name in made.settings})
        first, second = map(key_of, pair)
        assert first is not None, entry.class_name
        assert first == second
        keys.add(first)
    assert len(keys) == len({entry.load() for entry in found})  # some have names of several vendors


def test_other_settings_have_other_keys() -> None:
    settings: list[Mapping[str, str]] = [
        {},
        {"schemas.enable": "false"},
        {"schema.content": '{"type":"string"}'},
        {"schema.content": '{"type":"string","optional":true}'},
        {"schema.content": '{"type":"double","default":0.5}'},
    ]
    assert len({key_of(converter(JsonConverter(), **one)) for one in settings}) == len(settings)
    assert len({key_of(made()) for made in (BooleanConverter, LongConverter, DoubleConverter)}) == 3


def test_equal_values_of_other_types_have_other_keys() -> None:
    values = (1, True, 1.0, "1", 0.0, -0.0)
    made = [JsonConverter() for _ in values]
    for one, value in zip(made, values, strict=True):
        one.worker = {"a": [value]}
    assert len(set(map(key_of, made))) == len(values)


def test_what_asks_others_or_is_a_strangers_has_no_key() -> None:
    class Strangers(JsonConverter):
        """It may do anything."""

    assert key_of(converter(AvroConverter())) is None
    assert key_of(converter(Strangers())) is None
    odd: Any = JsonConverter()
    odd.cache = object()
    assert key_of(odd) is None


def test_a_side_is_what_its_converter_has_met() -> None:
    side = ConverterBinding(converter(JsonConverter()), "JsonConverter")
    sides = [
        side,
        ConverterBinding(side.converter, "Another"),
        ConverterBinding(side.converter, "JsonConverter", ((b"i", STRING),)),
        ConverterBinding(side.converter, "JsonConverter", hopeless=(Hopeless(b"i", "why"),)),
    ]
    keys = list(map(key_of_side, sides))
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key_of_side(ConverterBinding(converter(AvroConverter()), "AvroConverter")) is None


def test_a_function_that_sees_no_task_is_its_own_key() -> None:
    class Inherits(FileStreamSinkTask):
        def close(self, partitions: Any) -> None:
            """A stranger's."""

    class Strangers(FileStreamSinkTask):
        @staticmethod
        def columns(records: Any) -> Any: ...

    class Sees(FileStreamSinkTask):
        def columns(self, records: Any) -> Any: ...  # type: ignore[override]

    known = key_of_function(FileStreamSinkTask(), "columns")
    assert known is not None
    assert key_of_function(Inherits(), "columns") == known
    assert [key_of_function(made(), "columns") for made in (Strangers, Sees)] == [None, None]


def test_what_depends_on_the_unsettled_is_unsettled() -> None:
    assert together(1, (), "a") == (1, (), "a")
    assert together(1, None) is None
