"""Measures the cost of reading Avro: a topic of structs is fetched, decoded and counted, beside Spark's own read and
count of the same topic, in one session, in turn.
"""

import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro
import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.converters.avro.converter import AvroConverter
from headrace.converters.bytes import ByteArrayConverter
from headrace.plugins.contracts import Converter
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.records import HEADERS
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_jars import driver_jars
from tests.bench import sides
from tests.bench.context import Bench, Figures
from tests.bench.processes import Cost, Failed, cpu_s, machine_cpu_s
from tests.bench.structs import BEGIN

TIMES = 3
APICURIO = "/apis/registry/v2"
"""The path of Apicurio's own API."""
SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "bench",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "open", "type": "boolean"},
        {
            "name": "price",
            "type": {
                "type": "bytes",
                "scale": 2,
                "precision": 64,
                "connect.version": 1,
                "connect.parameters": {"scale": "2"},
                "connect.name": "org.apache.kafka.connect.data.Decimal",
                "logicalType": "decimal",
            },
        },
        {
            "name": "created",
            "type": {
                "type": "long",
                "connect.version": 1,
                "connect.name": "org.apache.kafka.connect.data.Timestamp",
                "logicalType": "timestamp-millis",
            },
        },
    ],
}
TEXT = json.dumps(SCHEMA)


@contextmanager
def started() -> Iterator[SparkSession]:
    """A session of a driver as a worker has it."""
    spark = Spark({"spark.master": "local[2]"}, driver_jars())
    spark.start()
    try:
        if not spark.wait_ready(120):
            raise Failed("Spark did not start")
        yield spark.session()
    finally:
        spark.stop()


def decode(bench: Bench, side: sides.Side) -> Figures:
    """Figures of records per second: `rec_s` decoded, `plain_s` only read, their ratio; medians of three in turn."""
    count = bench.size.lines // 3
    topic = bench.shared_topic("avro", lambda: values(count))
    with started() as session, registry(TEXT) as url:
        value = configured(AvroConverter(), url, topic, b"")
        plain, decoded = [], []
        begin = cost(bench)
        for _ in range(TIMES + 1):
            plain.append(timed(read(session, bench.topics.bootstrap, topic).agg(F.count("*")), count))
            decoded.append(timed(counted(read(session, bench.topics.bootstrap, topic), value), count))
        others = (cost(bench) - begin).shares()["others_cpu_pct"]
    rate, plain_rate = (sorted(found[1:])[TIMES // 2] for found in (decoded, plain))
    return {"rec_s": rate, "plain_s": plain_rate, "ratio": rate / plain_rate, "others_cpu_pct": others}


def configured(made: Converter, url: str, topic: str, more: bytes) -> ConverterBinding:
    """A converter that knows the schema 1, with `more` bytes in its identity."""
    made.configure({"converter.type": "value", "schema.registry.url": url}, False)
    return ConverterBinding(made, type(made).__name__).learned([(b"\0" + (1).to_bytes(4, "big") + more, topic)])


def cost(bench: Bench) -> Cost:
    """The side is this process, with its Spark."""
    me, broker = psutil.Process(), map(psutil.Process, bench.broker_pids)
    return Cost(time.monotonic(), cpu_s([me, *me.children(recursive=True)]), cpu_s(broker), machine_cpu_s(), 0.0)


def read(session: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The records of a topic."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.max.poll.records": "20000"}
    return session.read.format("kafka").options(**options).option("startingOffsets", "earliest").load()


def counted(rows: DataFrame, value: ConverterBinding) -> DataFrame:
    """The number of records whose fields were all read."""
    keys = ConverterBinding(ByteArrayConverter(), "ByteArrayConverter")
    nothing = F.lit(None)
    given = rows.select(
        "topic", "partition", "offset", nothing.cast(HEADERS).alias("headers"), nothing.alias("key"), "value"
    )
    records = to_records(given, keys, value)
    fields = [records.value(0).getField(field["name"]) for field in SCHEMA["fields"]]  # type: ignore[index]
    whole = fields[0].isNotNull()
    for field in fields[1:]:
        whole = whole & field.isNotNull()
    # No `where`: it would be pushed below the projections, and each field decode the bytes once more.
    return records.frame.agg(F.count_if(whole & F.col("error").isNull()))


def timed(rows: DataFrame, count: int) -> float:
    """Records per second; `rows` is one, with the count."""
    began = time.monotonic()
    if (found := rows.collect()[0][0]) != count:
        raise Failed(f"wrong output: {found} records instead of {count}")
    return count / (time.monotonic() - began)


def orders(count: int) -> Iterator[dict[str, Any]]:
    """The orders of the topic."""
    begin = int(BEGIN.timestamp() * 1000)
    for number in range(count):
        yield {
            "id": number,
            "customer": f"customer-{number * 7919 % 100_003:06d}",
            "open": number % 2 == 0,
            "price": Decimal(number % 100_000) / 100,
            "created": begin + number * 37,
        }


def values(count: int) -> Iterator[bytes]:
    """The values of the topic."""
    parsed = fastavro.parse_schema(json.loads(TEXT))
    for row in orders(count):
        body = io.BytesIO()
        body.write(b"\0" + (1).to_bytes(4, "big"))
        fastavro.schemaless_writer(body, parsed, row)
        yield body.getvalue()


@contextmanager
def registry(text: str, kind: str = "AVRO") -> Iterator[str]:
    """A registry that knows one schema, whatever it is asked by Confluent's API, or by its id by Apicurio's."""
    schema = {"schema": text, "schemaType": kind}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(APICURIO):
                self._answer(schema)
            elif self.path.endswith("/references"):
                self._answer([])
            else:
                self._answer(json.loads(text))

        def do_POST(self) -> None:
            self._answer({"subject": "s", "id": 1, "version": 1, **schema})

        def _answer(self, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
