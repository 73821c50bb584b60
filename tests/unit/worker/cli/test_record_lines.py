"""Forms in which bytes without a converter are shown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headrace.converters.bytes import ByteArrayConverter
from headrace.converters.json_schema.converter import JsonSchemaConverter
from headrace.plugins.contracts import Converter, DataError
from headrace.worker.cli.record_lines import Guessed
from headrace.worker.kafka.record_text import RecordText

NAMED = b"\x00\x00\x00\x00\x07"


class Refuses(ByteArrayConverter):
    """Reads no bytes, as AvroConverter those of another kind's schema."""

    def shown(self, data: bytes) -> str:
        raise DataError("not Avro")


@pytest.mark.parametrize(
    ("data", "text", "kind"),
    [
        (None, None, "null"),
        (NAMED + b'{"a":1}', '{"a":1}', "JSON Schema"),
        (NAMED + b"\xff", "0x0000000007ff", "bytes"),
        (b'{"a":1}', '{"a":1}', "JSON"),
    ],
)
def test_bytes_that_name_a_schema_are_tried_as_each_kind(data: bytes | None, text: str | None, kind: str) -> None:
    json_schema = JsonSchemaConverter()
    json_schema.configure({"converter.type": "value", "schema.registry.url": "http://127.0.0.1:1"}, is_key=False)
    converters: Mapping[str, Converter] = {"Avro": Refuses(), "JSON Schema": json_schema}
    guessed = Guessed({name: RecordText(one) for name, one in converters.items()})
    assert guessed(data) == (text, kind)


def test_without_a_registry_it_is_told_that_bytes_may_have_a_schema() -> None:
    assert Guessed({})(NAMED + b"\xff") == ("0x0000000007ff", "bytes that may have a schema in a registry (--registry)")
