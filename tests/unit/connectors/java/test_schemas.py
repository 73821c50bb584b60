from __future__ import annotations

import base64
from decimal import Decimal

from headrace.connectors.java.schemas import schema_of
from headrace.plugins.schema import DECIMAL, Field, Schema, SchemaType


def test_all_parts_of_a_schema_are_read() -> None:
    node = {
        "type": "struct",
        "optional": True,
        "name": "db.Envelope",
        "version": 2,
        "doc": "what changed",
        "parameters": {"p": "q"},
        "fields": [
            {
                "type": "int64",
                "optional": False,
                "name": "io.debezium.time.MicroTimestamp",
                "version": 1,
                "field": "at",
            },
            {"type": "array", "optional": True, "items": {"type": "float", "optional": True}, "field": "list"},
            {
                "type": "map",
                "optional": False,
                "keys": {"type": "string", "optional": False},
                "values": {"type": "bytes", "optional": False},
                "field": "map",
            },
        ],
    }
    micros = Schema(SchemaType.INT64, name="io.debezium.time.MicroTimestamp", version=1)
    listed = Schema(SchemaType.ARRAY, optional=True, value_schema=Schema(SchemaType.FLOAT32, optional=True))
    mapped = Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=Schema(SchemaType.BYTES))
    assert schema_of(node) == Schema(
        SchemaType.STRUCT,
        optional=True,
        name="db.Envelope",
        version=2,
        doc="what changed",
        parameters={"p": "q"},
        fields=(Field("at", micros), Field("list", listed), Field("map", mapped)),
    )
    assert schema_of(None) is None


def test_defaults_are_those_of_our_schemas() -> None:
    def default(**node: object) -> object:
        found = schema_of({"optional": False, **node})
        assert found is not None
        return found.default

    digits = base64.b64encode((-150).to_bytes(2, "big", signed=True)).decode()
    assert default(type="bytes", name=DECIMAL, version=1, parameters={"scale": "2"}, default=digits) == Decimal("-1.50")
    long = base64.b64encode((10**37 + 1).to_bytes(16, "big", signed=True)).decode()
    exact = Decimal((0, (1, *[0] * 36, 1), -2))
    assert default(type="bytes", name=DECIMAL, version=1, parameters={"scale": "2"}, default=long) == exact
    assert default(type="bytes", default="AQI=") == b"\x01\x02"
    assert default(type="double", default=1) == 1.0
    assert default(type="array", items={"type": "bytes", "optional": False}, default=["AQ=="]) == [b"\x01"]
    number = {"type": "int32", "optional": False}
    assert default(type="map", keys=number, values=number, default=[[1, 2]]) == {1: 2}
    fields = [{**number, "field": "x"}]
    assert default(type="struct", fields=fields, default={"x": 5}) == {"x": 5}
    assert default(type="string", optional=True, default=None) is None
