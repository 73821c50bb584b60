"""A sink's task and the database that it waits for."""

from __future__ import annotations

import socket
import time

import pytest

from headrace.connectors.jdbc.connection import DatabaseAway
from headrace.connectors.jdbc.sink_task import JdbcSinkTask
from headrace.plugins.contracts import TaskContext, TopicPartition


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
    task.start(config, TaskContext("sink", 0, lambda: time.monotonic() > began + 0.2))
    with pytest.raises(DatabaseAway):
        task.open([TopicPartition("t", 0)])
    assert time.monotonic() < began + 30
    task.stop()
