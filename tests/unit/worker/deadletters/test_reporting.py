"""Dead letters and log lines of records that failed, and what is raised where Kafka does not take them."""

from __future__ import annotations

import json
import logging
import pickle
from base64 import b64encode
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from headrace.config.connector.error_handling import ErrorHandling
from headrace.plugins import stopping
from headrace.plugins.contracts import RecordsFailed
from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters import reporting as dead_letters
from headrace.worker.deadletters.failed_records import DATA_EXCEPTION, FAILED, FailureReport, failed_records
from headrace.worker.deadletters.reporting import FULL_LINES, DeadLetterError, NotSentYet, Reporter, Reporting
from headrace.worker.kafka import delivery_wait
from headrace.worker.logging.redaction import Redaction
from tests.unit.worker.kafka.test_writer import Client

ROW = {
    "topic": "t",
    "partition": 2,
    "offset": 7,
    "timestamp": 5,
    "headers": [{"key": "h", "value": None}],
    "key": b"k",
    "value": b"\xff",
    "stage": "VALUE_CONVERTER",
    "class": "a.B",
    "exception": DATA_EXCEPTION,
    "message": "ü no",
}


class Client2(Client):
    """Keeps whole messages."""

    def produce(self, rows: pa.RecordBatch) -> int:
        self.whole = getattr(self, "whole", []) + rows.to_pylist()
        return super().produce(rows)


def reporting(headers: bool = True, log: bool = True, full: bool = True, topic: str = "d") -> Reporting:
    return Reporting("c", 1, ErrorHandling(True, 0, 0, log, full, topic, 1, headers, ""), {"client.id": "x"})


def report(client: Client, how: Reporting, *rows: dict[str, Any], stopped: bool = False) -> Reporter:
    stop = StopToken()
    if stopped:
        stop.set()
    reporter = Reporter(how, stop)
    reporter(pa.RecordBatch.from_pylist(list(rows), schema=FAILED))
    return reporter


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client2:
    made = Client2()
    use(monkeypatch, made)
    return made


class Waits(Client):
    """A client for which time passes only by waiting."""

    waited_s = 0.0

    def flush(self, timeout: float) -> int:
        self.waited_s += timeout
        return super().flush(timeout)


def use(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    monkeypatch.setattr(dead_letters, "kept_producer", lambda config: client)
    monkeypatch.setattr(dead_letters, "discard_producer", lambda config: None)


def test_a_dead_letter_is_the_record_with_more_headers(client: Client2) -> None:
    report(client, reporting(), ROW)
    (sent,) = client.whole
    assert (sent["topic"], sent["partition"], sent["timestamp"], sent["key"], sent["value"]) == (
        "d",
        None,
        5,
        b"k",
        b"\xff",
    )
    assert sent["headers"][0] == {"key": "h", "value": None}
    assert [(h["key"].removeprefix("__connect.errors."), h["value"].decode()) for h in sent["headers"][1:]] == [
        ("topic", "t"),
        ("partition", "2"),
        ("offset", "7"),
        ("connector.name", "c"),
        ("task.id", "1"),
        ("stage", "VALUE_CONVERTER"),
        ("class.name", "a.B"),
        ("exception.class.name", DATA_EXCEPTION),
        ("exception.message", "ü no"),
        ("exception.stacktrace", f"{DATA_EXCEPTION}: ü no\n"),
    ]


def test_an_error_without_a_message_is_a_null(client: Client2) -> None:
    report(client, reporting(), {**ROW, "message": None})
    said = {h["key"].removeprefix("__connect.errors."): h["value"] for h in client.whole[0]["headers"]}
    assert said["exception.message"] is None
    assert said["exception.stacktrace"] == f"{DATA_EXCEPTION}\n".encode()


def test_without_context_headers_it_is_the_record_alone(client: Client2) -> None:
    report(client, reporting(headers=False), ROW)
    assert client.whole[0]["headers"] == ROW["headers"]


def test_the_log_shows_apaches_lines_and_counts_the_rest(client: Client2, caplog: pytest.LogCaptureFixture) -> None:
    reporter = report(client, reporting(), *[ROW] * 250)
    reported = FailureReport.of_json(reporter.reported.to_json() or "")
    assert (reported.logged, reported.sent, reported.refused) == (250, 250, 0)
    with caplog.at_level(logging.ERROR):
        reported.tell()
    assert len(caplog.messages) == FULL_LINES + 1
    assert caplog.messages[0] == (
        "Error encountered in task c-1. Executing stage 'VALUE_CONVERTER' with class 'a.B', where consumed record is "
        "{topic='t', partition=2, offset=7, timestamp=5, timestampType=CreateTime}.\n" + f"{DATA_EXCEPTION}: ü no"
    )
    assert caplog.messages[-1] == "150 more records failed in this batch; the first 100 are shown above"


def test_the_log_may_leave_the_record_out(client: Client2) -> None:
    reporter = report(client, reporting(full=False, topic=""), ROW)
    assert reporter.reported.lines[0].startswith(
        "Error encountered in task c-1. Executing stage 'VALUE_CONVERTER' with class 'a.B'.\n"
    )
    assert reporter.reported.sent == 0
    assert report(client, reporting(log=False)).reported.to_json() is None


def test_no_secret_is_in_a_letter_or_a_line(client: Client2) -> None:
    """Invariant 6, in a Python worker too, which has met no secret itself."""
    how = replace(reporting(), redaction=Redaction(["hush-hush"]))
    shown = report(client, how, {**ROW, "message": "cannot log in with hush-hush"}).reported.lines
    shown += [str(h["value"]) for h in client.whole[0]["headers"]]
    assert "hush-hush" not in "".join(shown)
    assert sum("cannot log in with" in text for text in shown) == 3
    assert "hush-hush" not in repr(how)


def test_a_letter_too_large_fails_the_task_whatever_came_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Client(lambda message: KafkaError.MSG_SIZE_TOO_LARGE if message["value"] == b"large" else None))
    with pytest.raises(DeadLetterError, match=r"a record of 6 bytes for topic 'd'.*raise max\.message\.bytes"):
        report(Client(), reporting(), ROW, {**ROW, "value": b"large"}, ROW)


def test_a_topic_that_may_not_be_written_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Client(lambda _: KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(DeadLetterError, match="dead letters cannot be sent: Kafka refuses the records for d"):
        report(Client(), reporting(), ROW)


def test_what_may_pass_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Client(lambda _: KafkaError._TRANSPORT))
    with pytest.raises(NotSentYet, match="dead letters cannot be sent yet"):
        report(Client(), reporting(), ROW)
    client = Waits(stuck=True)
    use(monkeypatch, client)
    for module in (stopping, delivery_wait):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: client.waited_s))
    with pytest.raises(NotSentYet, match="dead letters for d were not acknowledged within 30 s"):
        report(Client(), reporting(), ROW)
    assert client.waited_s == pytest.approx(30, abs=0.5)
    with pytest.raises(StoppedError):
        report(Client(), reporting(), ROW, stopped=True)


def test_records_are_found_by_their_rows_or_in_what_stopped_them() -> None:
    error = {"stage": "S", "class": "C", "message": "m"}
    packed = {
        "timestamp": 5,
        "headers": [{"key": "h", "value": b64encode(b"\xff").decode()}, {"key": "n"}],
        "value": b64encode(b"v").decode(),
    }
    rows = [
        {"_topic": "t", "_partition": 0, "_offset": n, "_stop": json.dumps({"error": error, "raw": raw})}
        for n, raw in enumerate((packed, {}))
    ]
    of_job = failed_records(pa.RecordBatch.from_pylist(rows), None).to_pylist()
    headers = [{"key": "h", "value": b"\xff"}, {"key": "n", "value": None}]
    assert (of_job[0]["headers"], of_job[0]["key"], of_job[0]["value"]) == (headers, None, b"v")
    assert (of_job[1]["headers"], of_job[1]["value"], of_job[1]["offset"]) == (None, None, 1)
    raw = pa.RecordBatch.from_pylist(
        [{"timestamp": n, "headers": None, "key": b"", "value": b"%d" % n} for n in (8, 9)]
    )
    of_worker = failed_records(pa.RecordBatch.from_pylist(rows), raw).to_pylist()
    assert [(row["offset"], row["timestamp"], row["value"], row["message"]) for row in of_worker] == [
        (0, 8, b"8", "m"),
        (1, 9, b"9", "m"),
    ]


def test_what_a_writer_raises_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(RecordsFailed("m", [], b"p")))
    assert (str(error), error.failures, error.part) == ("m", (), b"p")
