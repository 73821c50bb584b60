"""A sink's task and the database that it waits for."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.sink.task import JdbcSinkTask
from headrace.plugins.contracts import TaskContext, TopicPartition
from headrace.plugins.stopping import StopToken


def test_a_task_that_was_asked_to_end_does_not_wait_for_its_database() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    task, began = JdbcSinkTask(), time.monotonic()
    config = {
        "name": "sink",
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "topics": "t",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{port}/shop",
        "connection.attempts": "3",
        "connection.backoff.ms": "60000",
    }
    task.start(config, TaskContext("sink", 0, StopToken().child(0.2)))
    with pytest.raises(DatabaseAway):
        task.open([TopicPartition("t", 0)])
    assert time.monotonic() < began + 30
    task.stop()


def into_sqlite(folder: Path) -> dict[str, str]:
    return {
        "name": "sink",
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "topics": "t",
        "connection.url": f"jdbc:sqlite:{folder / 'a.db'}",
    }


def test_a_login_that_is_refused_makes_no_task_go_on_without_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, place = JdbcSinkTask(), TopicPartition("t", 0)
    task.start(into_sqlite(tmp_path), TaskContext("sink", 0, StopToken()))
    with monkeypatch.context() as patched:
        patched.setattr(Database, "_opened", Mock(side_effect=DatabaseError("password authentication failed")))
        with pytest.raises(DatabaseError, match="password authentication failed"):
            task.open([place])
    task.open([place])
    assert task._sink.offsets is not None
    assert place in task._fences
    task.stop()


def test_what_was_written_before_a_partition_was_taken_anew_counts_no_more(tmp_path: Path) -> None:
    task, place = JdbcSinkTask(), TopicPartition("t", 0)
    ids = {"t": "first"}
    task.start(into_sqlite(tmp_path), TaskContext("sink", 0, StopToken(), topic_ids=lambda _: ids))
    task.open([place])
    task.commit([b'[["t", 0, 1, 41]]'])
    assert task._sink.written == {place: 41}
    ids["t"] = "second"
    task.open([place])
    task.commit([b'[["t", 0, 1, 49]]', b"[]"])  # of a job that was given up
    assert task._sink.written == {}
    task.pre_commit({place: 7})
    task.close([place])
    task.commit([b'[["t", 0, 2, 9]]'])
    assert task._sink.written == {}
    task.stop()
