"""A stranger's sink that needs a server when it starts, and writes each record to it. For `plugin.path`."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column

from headrace.config.settings import Setting, Settings, Type
from headrace.connectors.file.sink import value_text
from headrace.plugins.contracts import ArrowWriter, Connector, ConnectorContext, Place, SinkTask, TaskContext
from headrace.plugins.records import Records


class SocketWriter:
    """Sends lines."""

    def __init__(self, port: int) -> None:
        self._port = port

    def write(self, rows: pa.RecordBatch) -> None:
        """Each value is a line that the server has."""
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            connection.sendall(b"".join(f"{value}\n".encode() for value in rows["value"].to_pylist()))

    def finish(self) -> bytes:
        """Nothing is left to do."""
        return b""

    def abort(self) -> None:
        """Nothing is open."""


class SocketSinkTask(SinkTask):
    """Starts only where the server answers."""

    place = Place.WORKER_PROCESS

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Errors: ConnectionRefusedError."""
        self._port = int(config["port"])
        socket.create_connection(("127.0.0.1", self._port)).close()

    def columns(self, records: Records) -> list[Column]:
        """The values as text."""
        return [value_text(records).alias("value")]

    def writer(self, attempt: str) -> ArrowWriter:
        """One connection per batch."""
        return SocketWriter(self._port)


class SocketSinkConnector(Connector):
    """One task."""

    settings = Settings(Setting("port", Type.INT))
    version = "1.0"
    task_class = "org.example.SocketSinkTask"
    task = SocketSinkTask

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Ready."""
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One."""
        return [self._config]
