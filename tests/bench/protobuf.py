"""Measures reading Protobuf beside reading Avro: equal orders, decoded and counted in one session, in turn."""

from collections.abc import Iterator

from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import DataFrame

from headrace.converters.avro.converter import AvroConverter
from headrace.converters.protobuf.converter import ProtobufConverter
from headrace.converters.protobuf.messages import file_of, message_at
from tests.bench import avro, sides
from tests.bench.context import Bench, Figures

TEXT = """syntax = "proto3";
package bench;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  string customer = 2;
  bool open = 3;
  confluent.type.Decimal price = 4 [(confluent.field_meta) = {params: [{key: "scale", value: "2"}]}];
  google.protobuf.Timestamp created = 5;
}
"""


def decode(bench: Bench, side: sides.Side) -> Figures:
    """Figures of records per CPU-second of this process and its Spark: Protobuf's, Avro's, their ratio; medians."""
    count = bench.size.lines // 3
    of_avro = bench.shared_topic("avro", lambda: avro.values(count))
    of_protobuf = bench.shared_topic("protobuf", lambda: values(count))
    rates: dict[str, list[float]] = {of_avro: [], of_protobuf: []}
    with avro.started() as session, avro.registry(avro.TEXT) as first, avro.registry(TEXT, "PROTOBUF") as second:
        ways = {
            of_avro: avro.configured(AvroConverter(), first, of_avro, b""),
            of_protobuf: avro.configured(ProtobufConverter(), second, of_protobuf, b"\0"),
        }
        for _ in range(avro.TIMES + 1):
            for topic, value in ways.items():
                rows = avro.counted(avro.read(session, bench.topics.bootstrap, topic), value)
                rates[topic].append(per_cpu_s(bench, rows, count))
    rate, avro_rate = (sorted(rates[topic][1:])[avro.TIMES // 2] for topic in (of_protobuf, of_avro))
    return {"rec_cpu_s": rate, "avro_cpu_s": avro_rate, "ratio": rate / avro_rate}


def per_cpu_s(bench: Bench, rows: DataFrame, count: int) -> float:
    """Records per CPU-second."""
    begin = avro.cost(bench)
    avro.timed(rows, count)
    return count / (avro.cost(bench) - begin).side


def values(count: int) -> Iterator[bytes]:
    """The values of the topic."""
    kind = GetMessageClass(message_at(file_of(TEXT), [0]))
    for row in avro.orders(count):
        order = kind(id=row["id"], customer=row["customer"], open=row["open"])
        unscaled = int(row["price"] * 100)
        order.price.value = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
        order.price.scale, order.price.precision = 2, len(str(unscaled))
        order.created.seconds, order.created.nanos = row["created"] // 1000, row["created"] % 1000 * 1_000_000
        yield b"\0" + (1).to_bytes(4, "big") + b"\0" + order.SerializeToString()
