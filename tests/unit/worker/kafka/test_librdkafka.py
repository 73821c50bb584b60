"""The producer on librdkafka's C interface, against the broker that librdkafka itself plays."""

from __future__ import annotations

import ctypes
import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition, cimpl

from headrace.config.kafka.client_security import Login
from headrace.plugins.contracts import Deliveries
from headrace.worker.kafka.librdkafka import ROWS, Producer

PARTITIONS = 4
LOG = logging.getLogger("tests.librdkafka")
library = ctypes.CDLL(cimpl.__file__)
library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p


def rows(*given: dict[str, Any], schema: pa.Schema = ROWS) -> pa.RecordBatch:
    empty = {**dict.fromkeys(schema.names), "topic": "t"}
    return pa.RecordBatch.from_pylist([{**empty, **one} for one in given], schema=schema)


def values(count: int, **more: Any) -> pa.RecordBatch:
    return rows(*({"value": b"%d" % number, **more} for number in range(count)))


class Played:
    """A producer with its own broker, and what that broker has taken."""

    def __init__(self, deliveries: Deliveries = Deliveries.NONE, **config: Any) -> None:
        own = {"test.mock.num.brokers": 1, "linger.ms": 10_000, "partitioner": "murmur2_random"}
        given = {key.replace("_", "."): value for key, value in config.items()}
        self.producer = Producer({**own, **given}, LOG, deliveries)
        self._cluster = ctypes.c_void_p(library.rd_kafka_handle_mock_cluster(ctypes.c_void_p(self.producer._client)))

    def refuse(self, *codes: int) -> None:
        """The next produce requests are answered so."""
        errors = (ctypes.c_int * len(codes))(*codes)
        library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(0), ctypes.c_size_t(len(codes)), errors
        )

    def send(self, batch: pa.RecordBatch) -> None:
        assert self.producer.produce(batch) == len(batch)
        assert self.producer.flush(60) == 0

    def taken(self, count: int, topic: str = "t") -> list[Any]:
        """So many messages of the topic, each partition's in its order."""
        servers = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "check.crcs": True})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found: list[Any] = []
        try:
            while len(found) < count:
                message = consumer.poll(10)
                assert message is not None, f"{len(found)} of {count} messages are there"
                assert message.error() is None, message.error()
                found.append(message)
            assert consumer.poll(0.2) is None
        finally:
            consumer.close()
        return found


@pytest.fixture
def played() -> Iterator[Played]:
    made = Played()
    yield made
    assert made.producer.refusals == []


WAYS = pytest.mark.parametrize("more", [{}, {"timestamp": 17}], ids=["together", "each"])
TIMES = pytest.mark.parametrize("times", [1, 3], ids=["few", "many"])


@WAYS
def test_values_and_keys_arrive_as_they_are(played: Played, more: dict[str, Any]) -> None:
    given = [(b"k", b"1"), (b"k", None), (b"k", b""), (b"k", b"\0\xff"), (b"", b"2"), (None, b"3"), (None, None)]
    played.send(rows(*({"key": key, "value": value, **more} for key, value in given)))
    found = [(message.key(), message.value()) for message in played.taken(len(given))]
    assert sorted(found, key=str) == sorted(given, key=str)
    assert [value for key, value in found if key == b"k"] == [b"1", None, b"", b"\0\xff"]


def test_a_lone_row_arrives_as_it_is(played: Played) -> None:
    given = [(b"k", b"1"), (b"k", None), (b"k", b""), (b"k", b"\0\xff"), (b"", b"2"), (None, b"3"), (None, None)]
    for key, value in given:
        played.send(rows({"value": b"no"}, {"key": key, "value": value}, {"value": b"no"}).slice(1, 1))
    found = [(message.key(), message.value()) for message in played.taken(len(given))]
    assert sorted(found, key=str) == sorted(given, key=str)


@WAYS
def test_only_the_rows_of_a_slice_are_sent(played: Played, more: dict[str, Any]) -> None:
    given = rows(*({"key": b"k", "value": None if n == 6 else b"%d" % n, **more} for n in range(9)))
    played.send(given.slice(3, 5))
    assert [message.value() for message in played.taken(5)] == [b"3", b"4", b"5", None, b"7"]


@WAYS
@TIMES
def test_empty_is_not_null_where_all_values_are_empty(played: Played, more: dict[str, Any], times: int) -> None:
    played.send(rows(*[{"value": b"", "key": b"", **more}] * 2 * times))
    assert [(message.key(), message.value()) for message in played.taken(2 * times)] == [(b"", b"")] * 2 * times


@TIMES
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.large_string()])
def test_text_and_large_arrays_are_bytes_too(played: Played, kind: pa.DataType, times: int) -> None:
    schema = ROWS.set(5, pa.field("value", kind)).set(4, pa.field("key", kind))
    one, two = ("é", "k") if pa.types.is_large_string(kind) or pa.types.is_string(kind) else ("é".encode(), b"k")
    played.send(rows(*[{"value": one, "key": two}, {"value": None, "key": two}] * times, schema=schema))
    assert [(m.key(), m.value()) for m in played.taken(2 * times)] == [(b"k", "é".encode()), (b"k", None)] * times


@TIMES
def test_other_types_are_named(times: int) -> None:
    schema = ROWS.set(5, pa.field("value", pa.int64()))
    with pytest.raises(TypeError, match="as bytes, not as int64"):
        Played().producer.produce(rows(*[{"value": 1}] * 2 * times, schema=schema))


def test_keys_go_where_javas_partitioner_puts_them(played: Played) -> None:
    # Kafka's own DefaultPartitioner: toPositive(murmur2(key)) % 4.
    played.send(rows(*({"key": key, "value": key} for key in (b"21", b"foobar", b"a-little-bit-long-string"))))
    found = {message.key(): message.partition() for message in played.taken(3)}
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert found == {key: (number & 0x7FFFFFFF) % PARTITIONS for key, number in hashes.items()}


def test_partition_timestamp_and_headers_arrive_with_their_record(played: Played) -> None:
    headers = [{"key": "h", "value": b"1"}, {"key": "é", "value": None}, {"key": "h", "value": b""}]
    given = rows(
        {"value": b"before", "headers": [{"key": "not", "value": b"sent"}]},
        {"value": b"0", "partition": 2, "timestamp": 17, "headers": headers},
        {"value": b"1", "partition": 2, "timestamp": None, "headers": []},
        {"value": b"2", "partition": 2, "timestamp": 19, "headers": None},
        {"value": b"3", "partition": 2, "timestamp": 20, "headers": headers[:1]},
    )
    began = int(time.time() * 1000)
    played.send(given.slice(1))
    found = played.taken(4)
    assert [m.value() for m in found] == [b"0", b"1", b"2", b"3"]
    assert {m.partition() for m in found} == {2}
    assert [m.headers() for m in found] == [[("h", b"1"), ("é", None), ("h", b"")], None, None, [("h", b"1")]]
    stamps = [m.timestamp()[1] for m in found]
    assert (stamps[0], stamps[2], stamps[3]) == (17, 19, 20)
    assert began - 1000 <= stamps[1] <= time.time() * 1000 + 1000  # librdkafka's clock


def test_headers_of_many_rows_are_each_rows_own(played: Played) -> None:
    def headers(row: int) -> list[dict[str, Any]] | None:
        return [{"key": f"h{n % 3}", "value": b"%d.%d" % (row, n)} for n in range(row % 7)] or None

    given = rows(*({"value": b"%d" % row, "key": b"k", "headers": headers(row)} for row in range(3000)))
    played.send(given.slice(5))  # in several pieces
    for row, message in enumerate(played.taken(2995), start=5):
        expected = [(one["key"], one["value"]) for one in headers(row) or []]
        assert (message.value(), message.headers()) == (b"%d" % row, expected or None)


def test_a_record_may_have_more_headers_than_are_written_at_once(played: Played) -> None:
    many = [{"key": "h", "value": b"%d" % n} for n in range(20_000)]
    played.send(rows({"value": b"1", "key": b"k", "headers": many}, {"value": b"2", "key": b"k", "headers": many[:1]}))
    assert [len(message.headers()) for message in played.taken(2)] == [20_000, 1]


def test_a_headers_name_that_c_cannot_read_is_a_refusal() -> None:
    played = Played()
    names = [None, "ok"], ["ok", "a\0b"], ["", "ok"]
    headers = [[{"key": name, "value": b"1"} for name in pair] for pair in names]
    played.send(rows(*({"value": b"%d" % n, "key": b"k", "headers": headers[n]} for n in range(3))))
    assert [error.code() for error in played.producer.refusals] == [KafkaError._INVALID_ARG]
    found = played.taken(2)
    assert [m.value() for m in found] == [b"0", b"2"]
    assert [m.headers() for m in found] == [[("", b"1"), ("ok", b"1")]] * 2


def test_large_records_arrive_as_small_ones_do(played: Played) -> None:
    played.send(rows(*({"value": b"%d" % n * 5000, "key": b"k", "timestamp": 17} for n in range(3))))
    assert [m.value() for m in played.taken(3)] == [b"%d" % n * 5000 for n in range(3)]


def test_each_row_goes_to_its_topic(played: Played) -> None:
    played.send(rows(*({"value": b"%d" % n, "topic": "ab"[n % 2], "key": b"k"} for n in range(6))))
    assert [m.value() for m in played.taken(3, "a")] == [b"0", b"2", b"4"]
    assert [m.value() for m in played.taken(3, "b")] == [b"1", b"3", b"5"]


@WAYS
@pytest.mark.parametrize("headers", [None, [{"key": "h", "value": b"1"}]])
def test_a_full_queue_takes_the_first_rows_and_the_rest_when_there_is_room(
    more: dict[str, Any], headers: list[dict[str, Any]] | None
) -> None:
    played = Played(queue_buffering_max_messages=7)
    left, rounds = values(20, key=b"k", headers=headers, **more), 0
    while len(left):
        taken = played.producer.produce(left)
        assert 0 < taken <= 7
        left, rounds = left.slice(taken), rounds + 1
        assert played.producer.produce(left) == 0
        assert played.producer.flush(60) == 0
    assert rounds == 3
    assert played.producer.refusals == []
    assert [m.value() for m in played.taken(20)] == [b"%d" % n for n in range(20)]


def test_a_full_queue_takes_the_first_of_few_rows() -> None:
    played = Played(queue_buffering_max_messages=2)
    assert [played.producer.produce(values(3, key=b"k")), played.producer.produce(values(1))] == [2, 0]
    assert played.producer.refusals == []
    assert played.producer.flush(60) == 0
    assert [m.value() for m in played.taken(2)] == [b"0", b"1"]


@WAYS
@TIMES
def test_a_record_that_is_too_large_is_refused_at_once_and_its_neighbours_go(more: dict[str, Any], times: int) -> None:
    played = Played(message_max_bytes=1000)
    given = rows(*({"value": value, "key": b"k", **more} for value in (*[b"1"] * times, b"x" * 2000, *[b"2"] * times)))
    assert played.producer.produce(given) == len(given)
    assert [error.code() for error in played.producer.refusals] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert "too large" in played.producer.refusals[0].str()
    assert played.producer.flush(60) == 0
    assert [m.value() for m in played.taken(2 * times)] == [b"1"] * times + [b"2"] * times


@pytest.mark.parametrize("name", ["a\0b", "n" * 600])
def test_a_name_that_no_topic_has_is_a_refusal(name: str) -> None:
    played = Played()
    assert played.producer.produce(rows({"value": b"1", "topic": name}, {"value": b"2"})) == 2
    played.producer.flush(10)
    assert len(played.producer.refusals) == 1
    assert [m.value() for m in played.taken(1)] == [b"2"]


@pytest.mark.parametrize("name", ["a\0b", "n" * 600])
def test_rows_that_all_have_such_a_name_are_refused(name: str) -> None:
    played = Played()
    assert played.producer.produce(rows(*[{"value": b"1", "topic": name, "timestamp": 17}] * 6)) == 6
    played.producer.flush(10)
    assert len(played.producer.refusals) == 6


def test_a_partition_that_is_not_there_is_a_refusal() -> None:
    played = Played()
    played.send(values(1))  # the topic is known from here on
    assert (
        played.producer.produce(rows({"value": b"1", "partition": 99, "headers": [{"key": "h", "value": b"1"}]})) == 1
    )
    assert [error.code() for error in played.producer.refusals] == [KafkaError._UNKNOWN_PARTITION]


def test_what_the_broker_refuses_is_noted_once_a_record() -> None:
    played = Played()
    played.send(values(1, key=b"k"))  # the topic is known from here on: what follows goes in one request
    played.refuse(KafkaError.INVALID_RECORD)
    assert played.producer.produce(values(3, key=b"k")) == 3
    assert played.producer.flush(60) == 0
    assert [error.code() for error in played.producer.refusals] == [KafkaError.INVALID_RECORD] * 3
    played.producer.refusals.clear()
    played.send(values(2, key=b"k"))
    assert played.producer.refusals == []
    assert len(played.taken(3)) == 3


def test_what_lingers_is_counted_and_can_be_thrown_away() -> None:
    played = Played()
    played.producer.produce(values(5))
    assert [played.producer.waiting() for _ in range(2)] == [5, 5]
    played.producer.purge()
    assert played.producer.flush(60) == played.producer.waiting() == 0
    assert len(played.producer.refusals) == 5, "none was sent"


def test_flush_waits_for_no_linger_and_says_what_is_left() -> None:
    played = Played(linger_ms=60_000)
    played.send(values(1))
    away = Producer({"bootstrap.servers": "127.0.0.1:1", "linger.ms": 60_000}, LOG)
    assert away.produce(values(5)) == 5
    began = time.monotonic()
    assert away.flush(0.2) == 5
    assert 0.15 < time.monotonic() - began < 30
    away.purge()
    assert away.flush(60) == 0
    assert {error.code() for error in away.refusals} == {KafkaError._PURGE_QUEUE}


def test_messages_are_copied_before_the_call_returns(played: Played) -> None:
    for begin in range(0, 2000, 100):
        batch = rows(*({"value": b"%d" % n * 50, "key": b"k"} for n in range(begin, begin + 100)))
        assert played.producer.produce(batch) == 100
        del batch
        gc.collect(0)  # all generations of a process that has Spark's modules take half a second
    assert played.producer.flush(60) == 0
    assert [m.value() for m in played.taken(2000)] == [b"%d" % n * 50 for n in range(2000)]


def test_an_idempotent_producer_whose_sequence_broke_is_fatal() -> None:
    played = Played(enable_idempotence=True)
    played.send(values(1, key=b"k"))
    assert not played.producer.fatal
    library.rd_kafka_test_fatal_error(
        ctypes.c_void_p(played.producer._client), ctypes.c_int(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER), b"said so"
    )
    assert played.producer.fatal
    assert played.producer.produce(values(2)) == 2
    assert [error.code() for error in played.producer.refusals] == [KafkaError._FATAL] * 2


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(KafkaException, match=r"no\.such\.setting"):
        Producer({"no.such.setting": 1}, LOG)
    with pytest.raises(KafkaException, match="acks"):
        Producer({"bootstrap.servers": "127.0.0.1:1", "enable.idempotence": True, "acks": 1}, LOG)


def test_what_librdkafka_logs_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    away = Producer({"bootstrap.servers": "127.0.0.1:1"}, LOG)
    with caplog.at_level(logging.INFO, LOG.name):
        until(lambda: bool(caplog.records), lambda: away.poll(0.1))
    assert "Connection refused" in caplog.text
    assert {record.levelname for record in caplog.records} <= {"ERROR", "WARNING", "INFO"}


def test_oauth_tokens_are_fetched_without_a_poll() -> None:
    asked = threading.Event()

    class Tokens(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.set()
            self.send_error(400)  # what is the server's fault is tried again for 5 s

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Tokens) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = Producer(
            {
                "bootstrap.servers": "127.0.0.1:1",
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "secret",
                "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{server.server_port}/token",
            },
            LOG,
        )
        assert asked.wait(60)
        server.shutdown()
    del made


def test_a_producer_that_nobody_holds_is_destroyed_with_its_threads() -> None:
    def threads() -> int:
        return int(library.rd_kafka_thread_cnt())

    before = threads()
    made = [Producer({"bootstrap.servers": "127.0.0.1:1"}, LOG) for _ in range(3)]
    assert made[0].produce(values(5)) == 5
    assert threads() > before
    made.clear()
    gc.collect()
    until(lambda: threads() <= before)


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "del producer; gc.collect()"])
def test_a_process_ends_while_records_are_on_their_way(end: str) -> None:
    script = f"""
import gc, logging, sys
sys.path[:0] = {sys.path!r}
from tests.unit.worker.kafka.test_librdkafka import Producer, values
producer = Producer({{"bootstrap.servers": "127.0.0.1:1", "debug": "all"}}, logging.getLogger("x"))
for _ in range(20):
    producer.produce(values(100))
    producer.poll(0)
{end}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == (3 if "exit" in end else 0), done.stderr


def until(holds: Callable[[], bool], meanwhile: Callable[[], object] = lambda: time.sleep(0.02)) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it does not come true"
        meanwhile()


def test_tokens_that_python_makes_are_asked_for_within_a_poll() -> None:
    asked = list[str]()

    def token(config: str) -> tuple[str, float]:
        asked.append(config)
        if len(asked) == 1:
            raise RuntimeError("no credentials here")
        return "a-token", time.time() + 900

    settings = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}
    refused = Producer({"bootstrap.servers": "127.0.0.1:1", **settings}, LOG)
    login = Login("OAUTHBEARER", username="me")
    until(lambda: "no credentials here" in (refused.failures.heard(login) or ""), lambda: refused.poll(0.1))
    made = Producer({"bootstrap.servers": "127.0.0.1:1", **settings}, LOG)
    until(lambda: len(asked) == 2, lambda: made.poll(0.1))
