"""Measures reading JSON with a JSON Schema beside Avro: the same orders fetched, decoded and counted, in turn."""

import base64
import json
from collections.abc import Iterator

import psutil

from headrace.converters.avro.converter import AvroConverter
from headrace.converters.json_schema.converter import JsonSchemaConverter
from tests.bench import avro, sides
from tests.bench.context import Bench, Figures
from tests.bench.processes import Failed, cpu_s

_DATA = "org.apache.kafka.connect.data"
SCHEMA = {
    "type": "object",
    "title": "bench.Order",
    "properties": {
        "id": {"type": "integer", "connect.index": 0, "connect.type": "int64"},
        "customer": {"type": "string", "connect.index": 1},
        "open": {"connect.index": 2, "type": "boolean"},
        "price": {
            "type": "string",
            "title": f"{_DATA}.Decimal",
            "connect.index": 3,
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": {"scale": "2"},
        },
        "created": {
            "type": "integer",
            "title": f"{_DATA}.Timestamp",
            "connect.index": 4,
            "connect.version": 1,
            "connect.type": "int64",
        },
    },
}
TEXT = json.dumps(SCHEMA)


def decode(bench: Bench, side: sides.Side) -> Figures:
    """Figures of records per CPU-second: `json_cpu`, `avro_cpu`, their ratio; the best of three in turn."""
    count = bench.size.lines // 3
    topics = {
        "json": bench.shared_topic("json-schema", lambda: values(count)),
        "avro": bench.shared_topic("avro", lambda: avro.values(count)),
    }
    with avro.started() as session, avro.registry(TEXT, "JSON") as of_json, avro.registry(avro.TEXT) as of_avro:
        bindings = {
            "json": avro.configured(JsonSchemaConverter(), of_json, topics["json"], b""),
            "avro": avro.configured(AvroConverter(), of_avro, topics["avro"], b""),
        }
        least: dict[str, float] = {}
        for _ in range(avro.TIMES + 1):
            for kind, topic in topics.items():
                begin = _cpu_s()
                rows = avro.counted(avro.read(session, bench.topics.bootstrap, topic), bindings[kind])
                if (found := rows.collect()[0][0]) != count:
                    raise Failed(f"wrong output: {found} records instead of {count}")
                least[kind] = min(least.get(kind, float("inf")), _cpu_s() - begin)
    return {
        "json_cpu": count / least["json"],
        "avro_cpu": count / least["avro"],
        "ratio": least["avro"] / least["json"],
    }


def _cpu_s() -> float:
    """The processor time of this process, with its Spark."""
    me = psutil.Process()
    return cpu_s([me, *me.children(recursive=True)])


def values(count: int) -> Iterator[bytes]:
    """The values of the topic, as the converter writes them."""
    for row in avro.orders(count):
        unscaled = int(row["price"].scaleb(2))
        data = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
        price = base64.b64encode(data).decode()
        yield b"\0" + (1).to_bytes(4, "big") + json.dumps({**row, "price": price}, separators=(",", ":")).encode()
