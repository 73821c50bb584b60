"""Messages between a worker and a Java host: a JSON document with bytes after it; used by both sides.

A message is two lengths (4 and 8 bytes, big-endian), the document and the bytes. Documents:

    {"id": 7, "call": "task.take", …}                    a request of the worker
    {"id": 7, "result": …} or {"id": 7, "error": {…}}    its answer
    {"ask": 3, "partitions": …}                          the host asks the worker, on a plugin's behalf
    {"answer": 3, "offsets": …}                          the worker's answer
    {"event": "reconfigure", "connector": 2, …}          an event in the host
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any, Final

_HEAD: Final = struct.Struct(">IQ")


class Wire:
    """One end of the connection; several threads may send, one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, document: Mapping[str, Any], data: bytes | memoryview = b"") -> None:
        """Send a message. Errors: OSError if the other end is gone."""
        text = json.dumps(document, separators=(",", ":")).encode()
        with self._sending:
            self._connection.sendall(_HEAD.pack(len(text), len(data)) + text)
            if len(data):
                self._connection.sendall(data)

    def receive(self) -> tuple[dict[str, Any], bytearray]:
        """Wait for the next message. Errors: EOFError, OSError once the other end is gone."""
        text_length, data_length = _HEAD.unpack(self._exactly(_HEAD.size))
        document: dict[str, Any] = json.loads(self._exactly(text_length))
        return document, self._exactly(data_length)

    def close(self) -> None:
        """Close the connection, which ends a `receive`."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _exactly(self, length: int) -> bytearray:
        data = bytearray(length)
        rest = memoryview(data)
        while rest:
            count = self._connection.recv_into(rest)
            if not count:
                raise EOFError("the connection was closed")
            rest = rest[count:]
        return data
