"""The Kafka writer against a client that plays: what is sent, what is reached, and what follows from a refusal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.contracts import PartitionResult, RetriableError, Stop
from headrace.plugins.errors import LoginRefused, StoppedError
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka import delivery_wait
from headrace.worker.kafka import writer as produce
from headrace.worker.kafka.librdkafka import ROWS
from headrace.worker.kafka.writer import (
    KafkaWriter,
    ProduceError,
    TopicMissing,
    discard_producer,
    kept_producer,
    values_size,
)

ERROR = pa.struct([("stage", pa.string()), ("class", pa.string()), ("message", pa.string())])
SCHEMA = pa.schema(
    [
        *ROWS,
        ("error", ERROR),
        ("drop", pa.bool_()),
        ("source_offset", pa.struct([("position", pa.int64())])),
        ("split", pa.int32()),
    ]
)
BAD = {"stage": "VALUE_CONVERTER", "class": "a.B", "message": "no"}
Refuse = Callable[[dict[str, Any]], int | None]


class Client:
    """Plays `librdkafka.Producer`: a queue with room for some, a broker that takes what is in it as one batch.

    As a real broker does, it refuses with a record the others that came in the same batch.
    """

    def __init__(self, refuse: Refuse = lambda _: None, room: int = 1_000_000, stuck: bool = False) -> None:
        self.refusals: list[KafkaError] = []
        self.failures = ClientFailures()
        self.config: dict[str, Any] = {}
        self.notes_arrivals = False
        self.receipts = None
        self.arrivals: dict[tuple[str, int | None], int] = {}
        self.delivered: list[dict[str, Any]] = []
        self.full = 0
        self._refuse, self._room, self._stuck = refuse, room, stuck
        self._queue: list[dict[str, Any]] = []

    def produce(self, rows: pa.RecordBatch) -> int:
        """As librdkafka: once one message finds no room, the rest of the call finds none."""
        for settled, message in enumerate(rows.select(["topic", "key", "value"]).to_pylist()):
            if len(self._queue) >= self._room:
                self.full += 1
                return settled
            if message["value"] == b"local":
                self.refusals.append(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
            else:
                self._queue.append(message)
        return rows.num_rows

    def poll(self, timeout: float) -> int:
        if timeout and not self._stuck:  # a poll of 0 finds that the broker has not answered yet
            self._deliver()
        return 0

    def flush(self, timeout: float) -> int:
        if not self._stuck:
            self._deliver()
        return len(self._queue)

    def _deliver(self) -> None:
        sent, self._queue = self._queue, []
        codes = [code for message in sent if (code := self._refuse(message)) is not None]
        if codes:
            self.refusals += [KafkaError(codes[0]) for _ in sent]
        else:
            self.delivered += sent

    @property
    def values(self) -> list[Any]:
        return [message["value"] for message in self.delivered]


def row(position: int, **more: Any) -> dict[str, Any]:
    """A good row for topic `t`, its value the text of its position."""
    empty = dict.fromkeys(SCHEMA.names)
    own = {"topic": "t", "value": b"%d" % position, "drop": False, "split": 0, "source_offset": {"position": position}}
    return {**empty, **own, **more}


def rows(*given: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(given), schema=SCHEMA)


def run(
    client: Client, *batches: pa.RecordBatch, tolerate: bool = False, exact: bool = True
) -> dict[int, PartitionResult]:
    writer = KafkaWriter(client, tolerate=tolerate, exact=exact)  # type: ignore[arg-type]
    for batch in batches:
        writer.write(batch)
    return without_bytes(writer.finish())


def without_bytes(reached: dict[int, PartitionResult]) -> dict[int, PartitionResult]:
    """What was reached, but for the bytes that were sent."""
    return {split: replace(one, bytes=0) for split, one in reached.items()}


def at(position: int | None, **more: Any) -> PartitionResult:
    offset = None if position is None else {"position": position}
    return PartitionResult(source_offset=offset, **{"topics": ("t",), **more})


def refusing(code: int, *values: bytes) -> Refuse:
    return lambda message: code if message["value"] in values else None


TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE


def test_the_bytes_of_keys_and_values_that_are_sent_are_counted() -> None:
    writer = KafkaWriter(Client(), tolerate=True, exact=True)  # type: ignore[arg-type]
    writer.write(rows(row(1), row(22), row(3, drop=True), row(4, error=BAD)).slice(1))
    writer.write(rows(row(333)))
    assert writer.finish()[0].bytes == 5


@pytest.mark.parametrize("of", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_the_size_of_values_is_theirs_alone(of: pa.DataType) -> None:
    column = pa.array(["a", None, "bcd", "", "ef"], of)
    assert [values_size(column.slice(begin)) for begin in range(6)] == [6, 5, 5, 2, 2, 0]
    assert values_size(column.slice(0, 2)) == 1
    assert values_size(pa.array([], of)) == values_size(pa.nulls(3, of)) == 0


def test_good_rows_arrive_in_order_and_the_last_offset_is_reached() -> None:
    client = Client()
    assert run(client, rows(row(1), row(2)), rows(row(3))) == {0: at(3, written=3)}
    assert client.values == [b"1", b"2", b"3"]


def test_nothing_was_sent_so_nothing_is_said() -> None:
    assert run(Client(), rows()) == {}


def test_the_topics_are_named() -> None:
    reached = run(Client(), rows(row(1, topic="b"), row(2, topic="a")), rows(row(3, topic="b")))
    assert reached[0].topics == ("a", "b")


def test_splits_are_counted_apart() -> None:
    reached = run(Client(), rows(row(1), row(90, split=1), row(2)), rows(row(91, split=1)))
    assert reached == {0: at(2, written=2), 1: at(91, written=2)}


def test_dropped_rows_are_passed_over_to_the_very_last() -> None:
    client = Client()
    reached = run(client, rows(row(1), row(2, drop=True), row(3)), rows(row(4, drop=True)))
    assert reached == {0: at(4, written=2, dropped=2)}
    assert client.values == [b"1", b"3"]


def test_a_bad_row_ends_its_split_and_is_not_reached() -> None:
    client = Client()
    given = rows(row(1), row(2, drop=True), row(3, error=BAD), row(4), row(50, split=1)), rows(row(5), row(51, split=1))
    reached = run(client, *given)
    why = "VALUE_CONVERTER (a.B): no"
    assert reached[0] == at(2, written=1, dropped=1, stop=Stop.FATAL, reason=why)
    assert reached[1] == at(51, written=2)
    assert client.values == [b"1", b"50", b"51"]


def test_a_bad_first_row_reaches_nothing() -> None:
    reached = run(Client(), rows(row(1, error=BAD), row(2)))
    assert (reached[0].source_offset, reached[0].stop, reached[0].written) == (None, Stop.FATAL, 0)


def test_tolerated_bad_rows_are_passed_over_to_the_very_last() -> None:
    client = Client()
    reached = run(client, rows(row(1, error=BAD), row(2), row(3, error=BAD, drop=True)), tolerate=True)
    assert reached == {0: at(3, written=1, bad=2)}
    assert client.values == [b"2"]


def test_a_split_ends_in_front_of_a_row_that_a_converter_cannot_encode_yet() -> None:
    client = Client()
    writer = KafkaWriter(client, tolerate=True, exact=False)  # type: ignore[arg-type]
    batch = rows(*map(row, range(1, 5)))
    marks = pa.array([None, None, "value:0:t", None], pa.string())
    writer.write(batch.append_column("unknown_topic", marks))
    writer.write(batch.append_column("unknown_topic", pa.nulls(4, pa.string())))
    reached = writer.finish()[0]
    assert client.values == [b"1", b"2"]
    assert (reached.stop, reached.written, reached.source_offset) == (Stop.RETRY, 2, {"position": 2})


def test_a_full_queue_is_waited_for_and_order_is_kept() -> None:
    client = Client(room=3)
    assert run(client, rows(*(row(n) for n in range(10))))[0].written == 10
    assert client.values == [b"%d" % n for n in range(10)]
    assert client.full > 0


def test_a_record_that_the_client_itself_refuses_is_found() -> None:
    client = Client()
    given = rows(row(1), row(2, value=b"local"), row(3))
    reached = run(client, given)
    assert (reached[0].source_offset, reached[0].stop) == ({"position": 1}, Stop.FATAL)
    assert "a record of 5 bytes for topic 't'" in (reached[0].reason or "")
    assert run(Client(), given, tolerate=True) == {0: at(3, written=2, bad=1)}


def test_here_a_refused_batch_is_sent_again_record_by_record_up_to_the_culprit() -> None:
    client = Client(refusing(TOO_LARGE, b"3"))
    batches = rows(row(1), row(2, drop=True)), rows(row(3), row(4)), rows(row(60, split=1))
    reached = run(client, *batches)
    assert reached[0].source_offset == {"position": 1}
    assert (reached[0].written, reached[0].stop) == (1, Stop.FATAL)
    assert "max.message.bytes" in (reached[0].reason or "")
    assert reached[1] == at(60, written=1)
    assert client.values == [b"1", b"60"]


def test_here_tolerated_a_refused_record_is_left_out_and_the_rest_arrives() -> None:
    client = Client(refusing(TOO_LARGE, b"2", b"4"))
    given = rows(row(1), row(2), row(3), row(4), row(5, drop=True))
    assert run(client, given, tolerate=True) == {0: at(5, written=2, dropped=1, bad=2)}
    assert client.values == [b"1", b"3"]


def test_here_a_refused_batch_after_one_of_dropped_rows_only() -> None:
    client = Client(refusing(TOO_LARGE, b"2"))
    reached = run(client, rows(row(1, drop=True)), rows(row(2)), rows(row(3)), tolerate=True)
    assert reached == {0: at(3, written=1, dropped=1, bad=1)}


def test_here_a_bad_row_behind_a_refused_batch_still_stops_it() -> None:
    client = Client(refusing(TOO_LARGE, b"1"))
    given = rows(row(1), row(60, split=1), row(61, split=1, error=BAD))
    reached = run(client, given)
    assert "max.message.bytes" in (reached[0].reason or "")
    assert (reached[1].source_offset, reached[1].stop, reached[1].written) == ({"position": 60}, Stop.FATAL, 1)
    assert reached[1].reason == "VALUE_CONVERTER (a.B): no"


@pytest.mark.parametrize("tolerate", [False, True])
def test_here_no_more_than_so_much_is_kept(monkeypatch: pytest.MonkeyPatch, tolerate: bool) -> None:
    batches = [rows(*(row(10 * number + one) for one in range(10))) for number in range(6)]
    monkeypatch.setattr(produce, "KEPT_BYTES", 2 * (batches[0]["key"].nbytes + batches[0]["value"].nbytes))
    client, most = Client(refusing(TOO_LARGE, b"35")), 0
    writer = KafkaWriter(client, tolerate=tolerate, exact=True)  # type: ignore[arg-type]
    for batch in batches:
        writer.write(batch)
        most = max(most, len(client._queue), sum(map(len, writer._kept)))
    reached = writer.finish()[0]
    assert most == 10
    assert client.values == [b"%d" % number for number in (range(60) if tolerate else range(35)) if number != 35]
    assert (reached.source_offset, reached.bad) == (({"position": 59}, 1) if tolerate else ({"position": 34}, 0))


def test_there_a_refused_batch_is_to_be_tried_again() -> None:
    client = Client(refusing(TOO_LARGE, b"2"))
    reached = run(client, rows(row(1), row(2)), exact=False)
    assert (reached[0].source_offset, reached[0].written, reached[0].stop) == (None, 0, Stop.RETRY)
    assert client.values == []


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("code", [KafkaError._MSG_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._TRANSPORT])
def test_what_may_pass_is_retriable(code: int, exact: bool) -> None:
    with pytest.raises(RetriableError, match=r"2 record\(s\) for t could not be delivered"):
        run(Client(refusing(code, b"2")), rows(row(1), row(2)), exact=exact)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION])
def test_what_somebody_must_mend_fails_the_task(code: int, exact: bool) -> None:
    with pytest.raises(ProduceError, match=r"the records for t: .*; grant .*, or create the topic"):
        run(Client(refusing(code, b"2")), rows(row(1), row(2)), exact=exact)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION])
def test_a_topic_that_is_not_there_may_come(code: int, exact: bool) -> None:
    with pytest.raises(TopicMissing, match=r"for t could not .*; create the topic .*, or add partitions") as raised:
        run(Client(refusing(code, b"2")), rows(row(1), row(2)), exact=exact)
    assert raised.value.topics == {"t"}


@pytest.mark.parametrize("code", [KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_TOPIC])
def test_a_topic_whose_name_is_not_allowed_is_told_with_the_remedy(code: int) -> None:
    with pytest.raises(ProduceError, match=r"Kafka allows no topic 'order lines': a name has .* RegexRouter"):
        run(Client(refusing(code, b"2")), rows(row(1), row(2, topic="order lines")))


@pytest.mark.parametrize(
    ("code", "error"),
    [(KafkaError._MSG_TIMED_OUT, RetriableError), (KafkaError.TOPIC_AUTHORIZATION_FAILED, ProduceError)],
)
def test_another_refusal_while_the_culprit_is_looked_for_is_judged_by_what_it_is(code: int, error: type) -> None:
    def refuse(message: dict[str, Any]) -> int | None:
        return {b"1": TOO_LARGE, b"2": code}.get(message["value"])

    with pytest.raises(error):
        run(Client(refuse), rows(row(1), row(2)), tolerate=True)


def test_a_writer_knows_nothing_of_the_refusals_before_it() -> None:
    client = Client()
    client.refusals.append(KafkaError(TOO_LARGE))
    assert run(client, rows(row(1)), exact=False) == {0: at(1, written=1)}


class SetAfter(StopToken):
    """Set once it was looked at so often."""

    def __init__(self, looks: int, then: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.looks, self._then = looks, then

    def is_set(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            self._then()
        return self.looks < 0


def test_who_is_asked_to_stop_does_not_wait_for_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_wait, "STOP_S", 0.0)
    client = Client(stuck=True)
    stop = SetAfter(2)
    writer = KafkaWriter(client, tolerate=False, exact=True, stop=stop)  # type: ignore[arg-type]
    writer.write(rows(row(1)))
    with pytest.raises(StoppedError):
        writer.finish()
    assert stop.looks == -1


def test_who_is_let_in_by_no_broker_waits_no_longer() -> None:
    now = 0.0
    client = Client(stuck=True)
    client.failures = ClientFailures(lambda: now)
    writer = KafkaWriter(client, tolerate=False, exact=True)  # type: ignore[arg-type]
    writer.write(rows(row(1), row(2)))
    client.failures(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    writer._wait_no_longer(2)
    now = 6.0
    writer._wait_no_longer(1)  # one has arrived since
    client.failures(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    writer._wait_no_longer(1)
    now = 12.0
    with pytest.raises(LoginRefused, match="wrong password"):
        writer.finish()


def test_what_arrives_soon_after_the_stop_counts() -> None:
    client = Client(stuck=True)

    def arrives() -> None:
        client._stuck = False

    writer = KafkaWriter(client, tolerate=False, exact=True, stop=SetAfter(0, arrives))  # type: ignore[arg-type]
    writer.write(rows(row(1)))
    assert without_bytes(writer.finish()) == {0: at(1, written=1)}


def test_who_is_asked_to_stop_does_not_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_wait, "STOP_S", 0.0)
    client = Client(stuck=True, room=1)
    writer = KafkaWriter(client, tolerate=False, exact=True, stop=SetAfter(1))  # type: ignore[arg-type]
    with pytest.raises(StoppedError):
        writer.write(rows(row(1), row(2)))


def test_topics_are_asked_for_before_anything_goes_there() -> None:
    client, asked = Client(), list[tuple[set[str], int]]()

    def may_go_to(topics: Collection[str]) -> bool:
        asked.append((set(topics), len(client._queue)))
        return True

    writer = KafkaWriter(client, tolerate=True, exact=True, may_go_to=may_go_to)  # type: ignore[arg-type]
    writer.write(rows(row(1), row(2, topic="bad", error=BAD), row(3, topic="dropped", drop=True)))
    writer.write(rows(row(4, topic="u")))
    assert writer.finish()[0].written == 2
    assert asked == [({"t"}, 0), ({"t", "u"}, 1)]


def test_rows_to_a_topic_that_may_not_be_there_are_to_be_tried_again() -> None:
    client = Client()
    may_go_to = {"t"}.issuperset
    writer = KafkaWriter(client, tolerate=True, exact=False, may_go_to=may_go_to)  # type: ignore[arg-type]
    writer.write(rows(row(1), row(2, split=1)))
    writer.write(rows(row(3, topic="u"), row(4, split=1)))
    writer.write(rows(row(5)))
    reached = writer.finish()
    assert (reached[0].source_offset, reached[0].stop, reached[0].written) == (None, Stop.RETRY, 0)
    assert reached[1] == at(4, written=2, bytes=2)
    assert b"3" not in client.values
    assert b"5" not in client.values


def test_each_thread_keeps_a_producer_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "open_producer", lambda *_: Mock())
    config = {"client.id": "same"}
    mine = kept_producer(config)
    others: list[Any] = []

    def other() -> None:
        others.append(kept_producer(config))
        discard_producer(config)
        others.append(kept_producer(config))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert kept_producer(dict(config)) is mine
    assert len({id(one) for one in (mine, *others)}) == 3
    others[0].purge.assert_called_once()
    discard_producer(config)
    assert kept_producer(config) is not mine
    mine.purge.assert_called_once()
    discard_producer(config)
