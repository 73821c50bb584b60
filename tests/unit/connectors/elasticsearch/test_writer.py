"""A writer with a server that is busy, refuses, answers in part, or has other versions."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.elasticsearch.conflicts import Replay
from headrace.connectors.elasticsearch.task import ElasticsearchSinkTask, OpenSearchSinkTask
from headrace.connectors.elasticsearch.writer import BulkWriter, result_of
from headrace.plugins.contracts import TaskContext, TopicPartition
from headrace.plugins.errors import RecordsFailed, RetriableError, StoppedError
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit import Request
from tests.unit.connectors.elasticsearch.elasticsearch_rig import index_line, rows_of
from tests.unit.connectors.elasticsearch.fake_server import FakeServer

PLACE = TopicPartition("t", 0)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer()
    yield server
    server.close()


class Running:
    """A task that was started, and its partition opened."""

    def __init__(self, server: FakeServer, kind: type[ElasticsearchSinkTask] = ElasticsearchSinkTask, **config: str):
        self.task, self.stopping = kind(), StopToken()
        given = {"name": "n", "connection.url": server.url, "schema.ignore": "true", "retry.backoff.ms": "1"}
        given |= {"read.timeout.ms": "60000", "max.in.flight.requests": "1"}
        given |= {key.replace("_", "."): value for key, value in config.items()}
        self.task.start(given, TaskContext("n", 0, self.stopping))
        self.task.open([PLACE])

    def write(self, *batches: pa.RecordBatch) -> dict[str, int]:
        """Write the batches as one; return what the writer counted. Errors: as the writer's."""
        writer = self.writer()
        try:
            for rows in batches:
                writer.write(rows)
            part = writer.finish()
        except BaseException:
            writer.abort()
            raise
        self.task.commit([part])
        return dict(result_of(part).counts)

    def writer(self) -> BulkWriter:
        writer = self.task.writer("attempt")
        assert isinstance(writer, BulkWriter)
        return writer


def numbered(count: int, first: int = 0) -> pa.RecordBatch:
    return rows_of([index_line(str(n), n, {"n": n}) for n in range(first, first + count)], first)


def failures(error: pytest.ExceptionInfo[RecordsFailed]) -> dict[int, str]:
    return {one.row: one.message for one in error.value.failures}


def test_only_documents_of_a_busy_shard_are_sent_again(server: FakeServer) -> None:
    tries = {"3": 2, "5": 1}

    def fault(action: str, key: str, document: Any) -> tuple[int, str, str] | None:
        tries[key] = tries.get(key, 0) - 1
        return (429, "es_rejected_execution_exception", "queue is full") if tries[key] >= 0 else None

    server.fault = fault
    counts = Running(server).write(numbered(8))
    assert server.bulks == [[str(n) for n in range(8)], ["3", "5"], ["3"]]
    assert sorted(server.indices["t"]) == [str(n) for n in range(8)]
    assert (counts["written"], counts["repeated"]) == (8, 3)


def test_a_server_that_stays_busy_is_left_to_the_worker(server: FakeServer) -> None:
    server.fault = lambda action, key, document: (
        (429, "es_rejected_execution_exception", "full") if key == "1" else None
    )
    running = Running(server, max_retries="2")
    with pytest.raises(RetriableError, match="did not take 1 documents: es_rejected_execution_exception"):
        running.write(numbered(3))
    assert len(server.bulks) == 4, "one that got on, and three in vain"
    server.fault = lambda action, key, document: None
    assert running.write(numbered(3))["superseded"] == 2, "two are there from the first attempt"
    assert len(server.indices["t"]) == 3


@pytest.mark.parametrize("status", [409, 500])
def test_what_is_tried_again_quotes_no_document(server: FakeServer, status: int) -> None:
    server.fault = lambda action, key, document: (status, "runtime_exception", "of the pipeline: 'confidential'")
    with pytest.raises(RetriableError) as error:
        Running(server, max_retries="0", write_method="UPSERT").write(rows_of([upsert("k", {"n": 1})], lanes=[1]))
    assert "runtime_exception" in str(error.value)
    assert "confidential" not in str(error.value)


def test_a_pause_is_as_long_as_the_server_asks_for(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.connectors.elasticsearch import server as requests

    def busy(self: requests.Server, method: str, path: str, body: bytes | None = None, kind: str = "") -> Any:
        monkeypatch.undo()
        raise requests.ServerBusy("503", 7.0)

    paused = list[float]()
    running = Running(server)
    monkeypatch.setattr(BulkWriter, "_pause", lambda self, seconds: paused.append(seconds))
    writer = running.writer()
    running.task._target.kept().indices.ensure("t")  # type: ignore[union-attr]
    monkeypatch.setattr(requests.Server, "ask", busy)
    writer.write(numbered(1))
    writer.finish()
    assert paused == [7.0]


def test_after_a_minute_of_pauses_the_worker_takes_over(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = list[float]()
    monkeypatch.setattr(BulkWriter, "_pause", lambda self, seconds: paused.append(seconds))
    server.headers = {"Retry-After": "25"}
    server.whole = lambda request: (503, {})
    with pytest.raises(RetriableError, match="did not take 1 documents"):
        Running(server, max_retries="100").write(numbered(1))
    assert paused == [25, 25, 10]


@pytest.mark.parametrize("status", [413, 400])
def test_a_request_that_is_refused_whole_is_halved_to_the_document_to_blame(server: FakeServer, status: int) -> None:
    def whole(request: Request) -> tuple[int, Any] | None:
        too_large = b'"n": 5}' in request.body
        return (status, {"error": {"type": "parse_exception", "reason": "secret"}}) if too_large else None

    server.whole = whole
    with pytest.raises(RecordsFailed) as error:
        Running(server).write(numbered(8))
    assert list(failures(error)) == [5]
    assert "secret" not in failures(error)[5]
    assert sorted(server.indices["t"]) == ["0", "1", "2", "3", "4", "6", "7"]


def test_an_answer_that_lacks_documents_is_no_success(server: FakeServer) -> None:
    answers = iter([{"errors": False, "items": [{"index": {"status": 201}}]}])
    server.whole = lambda request: next(((200, one) for one in answers), None)
    counts = Running(server).write(numbered(3))
    assert (counts["requests"], len(server.indices["t"])) == (2, 3)


def test_refused_documents_are_named_and_others_written(server: FakeServer) -> None:
    server.fault = lambda action, key, document: (
        (400, "document_parsing_exception", "failed to parse field [n] of type [long]: 'secret'")
        if key == "1"
        else None
    )
    with pytest.raises(RecordsFailed) as error:
        Running(server).write(numbered(2), rows_of([None, index_line("9", 3, {})], 2))
    reason = "t refuses the document: document_parsing_exception: the field n does not fit its type long"
    assert failures(error) == {1: reason, 2: "no document"}
    assert sorted(server.indices["t"]) == ["0", "9"]
    with pytest.raises(RecordsFailed, match="'secret'"):
        Running(server, log_sensitive_data="true").write(numbered(2))


@pytest.mark.parametrize("behavior", ["ignore", "warn"])
def test_refused_documents_may_be_passed_over(
    server: FakeServer, behavior: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.fault = lambda action, key, document: (400, "mapper_parsing_exception", "no") if key == "1" else None
    behaves = {"behavior_on_malformed_documents": behavior}
    counts = Running(server, **behaves).write(numbered(2))
    assert (counts["written"], counts["refused"]) == (1, 1)
    assert ("t-0 at offset 1 is passed over" in caplog.text) == (behavior == "warn")
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "dead"}
    with pytest.raises(RecordsFailed):
        Running(server, **behaves, **letters).write(numbered(2))


def test_another_error_of_a_document_fails_the_task(server: FakeServer) -> None:
    server.fault = lambda action, key, document: (403, "security_exception", "no right")
    with pytest.raises(Exception, match="t takes no documents: security_exception") as error:
        Running(server).write(numbered(1))
    assert not isinstance(error.value, (RetriableError, RecordsFailed))


def test_an_index_that_went_is_made_again(server: FakeServer) -> None:
    running = Running(server)
    running.write(numbered(1))
    server.indices.clear()
    server.fault = lambda action, key, document: (404, "index_not_found_exception", "no such index [t]")
    with pytest.raises(RetriableError, match="index_not_found_exception"):
        running.write(numbered(1, 1))
    server.fault = lambda action, key, document: None
    running.write(numbered(1, 1))
    assert list(server.indices["t"]) == ["1"]


def test_pieces_are_as_large_as_the_settings_say(server: FakeServer) -> None:
    Running(server, batch_size="3").write(numbered(7))
    assert [len(one) for one in server.bulks] == [3, 3, 1]
    server.requests.clear()
    size = len(index_line("10", 10, {"n": 10}))
    Running(server, bulk_size_bytes=str(2 * size)).write(numbered(5, 10))
    assert [len(one) for one in server.bulks] == [2, 2, 1]


def test_several_requests_are_under_way_at_once(server: FakeServer) -> None:
    together = threading.Barrier(3, timeout=60)
    handle = server._handle

    def meeting(request: Request) -> Any:
        if request.path == "/_bulk":
            together.wait()
        return handle(request)

    server._server.handle = meeting
    Running(server, batch_size="1", max_in_flight_requests="3").write(numbered(6))
    assert len(server.indices["t"]) == 6


# -- versions ----------------------------------------------------------------------------------------------------------


def test_a_record_that_comes_late_changes_nothing(server: FakeServer) -> None:
    one, zombie = Running(server), Running(server)
    one.write(rows_of([index_line("k", 5, {"n": 5})], 5))
    one.write(rows_of([json.dumps({"delete": {"_index": "t", "_id": "k", "version": 7}}) + "\n"], 7))
    zombie.write(rows_of([index_line("k", 6, {"n": 6})], 6))
    assert server.indices["t"] == {}


def test_records_that_come_again_are_no_conflicts(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    lines = [index_line("k", 0, {}), index_line("l", 1, {}), index_line("k", 2, {})]
    Running(server, OpenSearchSinkTask).write(rows_of(lines))
    again = Running(server, OpenSearchSinkTask)
    again.write(rows_of(lines[:1]))
    assert "documents are there with higher versions" in caplog.text
    again.write(rows_of(lines[1:], 1))
    assert again.write(rows_of([index_line("m", 3, {})], 3)) == {"written": 1, "superseded": 0, "requests": 1}
    assert "the topic was made again. Delete" not in caplog.text
    assert again.task._replays == {}


def test_records_come_again_until_all_that_was_under_way_is_there(server: FakeServer) -> None:
    first = Running(server, OpenSearchSinkTask)
    first.write(rows_of([index_line("a", 0, {}), index_line("k", 1, {})]), rows_of([index_line("k", 5, {})], 5))
    again = Running(server, OpenSearchSinkTask, max_in_flight_requests="3", batch_size="1")
    for offset, key in enumerate("akxkyz"):  # 2 to 4 were lost on the way, and the last "k" was not
        again.write(rows_of([index_line(key, offset, {})], offset))
    assert again.task._replays[PLACE].clean == 2


def test_a_later_record_of_the_same_batch_is_no_conflict(server: FakeServer) -> None:
    running = Running(server, OpenSearchSinkTask, batch_size="1", max_in_flight_requests="2")
    running.write(numbered(2))  # nothing comes again
    assert running.task._replays == {}
    late = threading.Event()
    handle = server._handle

    def second_first(request: Request) -> Any:
        if request.path == "/_bulk" and b'"version": 5' in request.body:
            assert late.wait(60)
        answer = handle(request)
        if b'"version": 6' in request.body:
            late.set()
        return answer

    server._server.handle = second_first
    counts = running.write(rows_of([index_line("k", 5, {"n": 5}), index_line("k", 6, {"n": 6})], 5))
    assert counts.get("conflicts", 0) == 0
    assert server.indices["t"]["k"] == {"n": 6}


def test_records_of_a_stream_that_come_again_have_no_versions(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    line = json.dumps({"create": {"_index": "t", "_id": "k"}}) + "\n" + json.dumps({"n": 1}) + "\n"
    server.fault = lambda action, key, document: (409, "version_conflict_engine_exception", "already exists")
    counts = Running(server, OpenSearchSinkTask).write(rows_of([line]))
    assert counts.get("conflicts", 0) == 0
    assert "t-0: documents are there with the ids of records, and stay as they are" in caplog.text


def test_a_document_of_another_topic_is_no_record_that_comes_again(server: FakeServer) -> None:
    running = Running(server, OpenSearchSinkTask)
    running.write(numbered(1))  # nothing comes again
    added = [json.dumps({"create": {"_index": "t", "_id": key}}) + "\n{}\n" for key in ("t+0+1", "u+0+2")]
    server.fault = lambda action, key, document: (409, "version_conflict_engine_exception", "already exists")
    with pytest.raises(RecordsFailed) as error:
        running.write(rows_of(added, 1))
    assert list(failures(error)) == [1]


def test_partitions_may_come_while_a_job_gets_its_writer(server: FakeServer) -> None:
    running = Running(server)

    class Read(Replay):
        """Another partition comes while this one is looked at."""

        def __getattribute__(self, name: str) -> Any:
            if name == "clean":
                running.task.open([TopicPartition("t", 1)])
            return super().__getattribute__(name)

    running.task._replays[PLACE] = Read()
    assert running.writer().replaying == {PLACE: 0}
    assert set(running.task._replays) == {PLACE, TopicPartition("t", 1)}


CLASH = [index_line("k", 100, {"n": "other partition"})]


def test_a_key_of_two_partitions_is_told(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    running = Running(server)
    running.write(numbered(1), rows_of(CLASH, 100, partition=1))
    counts = running.write(rows_of([index_line("k", 1, {"n": "newer"})], 1))
    assert counts["conflicts"] == 1
    assert "t-0 at offset 1 is passed over: t: a document is there with the version 100" in caplog.text
    assert "and the record's is 1: its key is in several partitions" in caplog.text


def test_a_conflict_fails_the_record_if_the_settings_say_so(server: FakeServer) -> None:
    running = Running(server, OpenSearchSinkTask)
    running.write(numbered(1), rows_of(CLASH, 100, partition=1))
    with pytest.raises(RecordsFailed) as error:
        running.write(rows_of([index_line("x", 1, {}), index_line("k", 2, {"n": "newer"})], 1))
    assert list(failures(error)) == [1]


def test_a_topic_that_was_made_again_is_told(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    Running(server).write(numbered(3, 100), rows_of([index_line("k", 103, {})], 103))
    remade = Running(server)
    remade.write(rows_of([index_line("k", 0, {"n": "new"})]))
    assert "documents are there with higher versions than the offsets of their records, up to 103" in caplog.text
    remade.write(numbered(1, 1))
    assert "1 documents had higher versions, up to 103, than its records, the last of which has offset 1" in caplog.text


def test_a_failed_batch_comes_again_without_conflicts(server: FakeServer) -> None:
    running = Running(server, OpenSearchSinkTask, max_retries="0", batch_size="1")
    running.write(numbered(1))
    lines = [index_line("k", 1, {}), index_line("k", 2, {}), index_line("z", 3, {})]
    server.fault = lambda action, key, document: (429, "busy", "full") if key == "z" else None
    with pytest.raises(RetriableError):
        running.write(rows_of(lines, 1))
    server.fault = lambda action, key, document: None
    assert running.write(rows_of(lines[:1], 1)).get("conflicts", 0) == 0


# -- upserts -----------------------------------------------------------------------------------------------------------


def upsert(key: str, document: Any) -> str:
    return json.dumps({"update": {"_index": "t", "_id": key}}) + "\n" + json.dumps({"doc": document}) + "\n"


def test_upserts_of_a_key_keep_their_order_while_some_are_sent_again(server: FakeServer) -> None:
    busy = {"n": 1}

    def fault(action: str, key: str, document: Any) -> tuple[int, str, str] | None:
        if document.get("doc") == {"n": 1} and busy.pop("n", None):
            return 429, "es_rejected_execution_exception", "full"
        return None

    server.fault = fault
    lines = [upsert("a", {"n": 0}), upsert("k", {"n": 1}), upsert("k", {"n": 2}), upsert("b", {"n": 3})]
    Running(server, write_method="UPSERT").write(rows_of(lines, lanes=[1, 1, 1, 1]))
    assert server.bulks == [["a", "k", "k", "b"], ["k", "k", "b"]]
    assert server.indices["t"]["k"] == {"n": 2}


def test_a_lane_is_one_request_after_the_other(server: FakeServer) -> None:
    lines = [upsert(str(n % 4), {"n": n}) for n in range(40)]
    lanes = [n % 4 for n in range(40)]
    running = Running(server, write_method="UPSERT", batch_size="1", max_in_flight_requests="4")
    running.write(rows_of(lines, lanes=lanes))
    assert server.indices["t"] == {str(lane): {"n": 36 + lane} for lane in range(4)}


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_task_that_is_to_end_waits_for_no_busy_server(server: FakeServer) -> None:
    running = Running(server, retry_backoff_ms="60000", max_retries="5")
    server.fault = lambda action, key, document: (429, "busy", "full")
    writer, began = running.writer(), time.monotonic()
    writer.write(numbered(1))
    running.stopping.set()
    with pytest.raises((StoppedError, RetriableError)):
        writer.finish()
    writer.abort()
    assert time.monotonic() - began < 50


def test_a_writer_travels_to_another_process(server: FakeServer) -> None:
    running = Running(server)
    writer = pickle.loads(pickle.dumps(running.writer()))
    running.task.stop()
    writer.write(numbered(2))
    told = result_of(writer.finish())
    assert told.counts["written"] == 2
    assert told.replays == {PLACE: Replay(0, -1, 1, 1, True)}
    assert len(server.indices["t"]) == 2
