"""Records that their topic may refuse for their size: sent alone, in order, their neighbours untouched."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headrace.plugins.contracts import PartitionResult, Stop
from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka import delivery_wait
from headrace.worker.kafka.writer import OVERHEAD_BYTES, KafkaWriter
from tests.unit.worker.kafka.test_writer import BAD, Client, SetAfter, at, row, rows, without_bytes

LARGE = b"L" * 100
MOST_BYTES = OVERHEAD_BYTES + 50


def refuse(message: dict[str, object]) -> int | None:
    return KafkaError.MSG_SIZE_TOO_LARGE if message["value"] == LARGE else None


def writer(client: Client, tolerate: bool = False, exact: bool = False, stop: StopToken | None = None) -> KafkaWriter:
    return KafkaWriter(client, tolerate, exact, most_bytes=MOST_BYTES, stop=stop)  # type: ignore[arg-type]


def run(
    client: Client, *given: dict[str, object], tolerate: bool = False, exact: bool = False
) -> dict[int, PartitionResult]:
    one = writer(client, tolerate, exact)
    one.write(rows(*given))
    return without_bytes(one.finish())


@pytest.mark.parametrize("exact", [True, False])
def test_a_large_record_that_is_taken_arrives_in_order(exact: bool) -> None:
    client = Client()
    given = (row(1), row(2, value=LARGE), row(3), row(4, key=LARGE))
    assert run(client, *given, exact=exact) == {0: at(4, written=4)}
    assert client.values == [b"1", LARGE, b"3", b"4"]


@pytest.mark.parametrize("exact", [True, False])
def test_refused_it_stops_its_split_behind_the_record_before(exact: bool) -> None:
    client = Client(refuse)
    reached = run(client, row(1), row(2, value=LARGE), row(3), row(4, split=1), exact=exact)
    assert client.values == [b"1", b"4"]
    assert (reached[0].source_offset, reached[0].written, reached[0].stop) == ({"position": 1}, 1, Stop.FATAL)
    assert "a record of 100 bytes for topic 't'" in (reached[0].reason or "")
    assert "max.message.bytes" in (reached[0].reason or "")
    assert reached[1] == at(4, written=1)


@pytest.mark.parametrize("exact", [True, False])
def test_refused_and_tolerated_it_alone_is_left_out(exact: bool) -> None:
    client = Client(refuse)
    given = (row(1), row(2, value=LARGE), row(3), row(4, value=LARGE))
    assert run(client, *given, tolerate=True, exact=exact) == {0: at(4, written=2, bad=2)}
    assert client.values == [b"1", b"3"]


def test_a_split_that_has_stopped_stays_where_it_stopped_whatever_becomes_of_others() -> None:
    def also(message: dict[str, object]) -> int | None:
        return KafkaError.INVALID_RECORD if message["value"] == b"odd" else refuse(message)

    client = Client(also)
    one = writer(client, exact=True)
    one.write(rows(row(1), row(2, value=LARGE)))
    one.write(rows(row(1, split=1), row(2, split=1, value=b"odd"), row(3, split=1)))
    reached = one.finish()
    assert (reached[0].source_offset, reached[0].stop) == ({"position": 1}, Stop.FATAL)
    assert (reached[1].source_offset, reached[1].stop) == ({"position": 1}, Stop.FATAL)
    assert "100 bytes" in (reached[0].reason or "")
    assert client.values == [b"1", b"1"]


def test_what_had_arrived_before_it_stays_reached_when_what_follows_is_refused() -> None:
    client = Client(lambda message: KafkaError.INVALID_RECORD if message["value"] == b"odd" else None)
    given = (row(1), row(2, value=LARGE), row(3, value=b"odd"))
    assert run(client, *given) == {
        0: at(2, written=2, stop=Stop.RETRY, reason="Broker: Broker failed to validate record")
    }
    assert client.values == [b"1", LARGE]


def test_dropped_and_bad_ones_are_not_sent() -> None:
    client = Client()
    given = (row(1), row(2, value=LARGE, drop=True), row(3, value=LARGE, error=BAD), row(4))
    assert run(client, *given, tolerate=True) == {0: at(4, written=2, dropped=1, bad=1)}
    assert client.values == [b"1", b"4"]


def test_who_is_asked_to_stop_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_wait, "STOP_S", 0.0)
    client = Client(stuck=True)
    with pytest.raises(StoppedError):
        writer(client, stop=SetAfter(0)).write(rows(row(1), row(2, value=LARGE)))
