"""A Redis sink without a client library: values by key, tombstones delete."""

import json
import socket

from headrace.plugins import RecordSink, Setting


class RedisValues(RecordSink):
    """Sets each key to its value, as JSON. The last value of a key counts, so records may come again."""

    settings = (Setting("host", "localhost"), Setting("port", 6379))

    def open(self):
        """Connect once for the task; again after an error."""
        self.connection = None

    def put(self, records):
        """Send all commands in one go, then read an answer for each."""
        commands = [
            ("DEL", str(r.key)) if r.value is None else ("SET", str(r.key), json.dumps(r.value)) for r in records
        ]
        try:
            if self.connection is None:
                self.connection = socket.create_connection((self.config["host"], self.config["port"]), timeout=10)
                self.answers = self.connection.makefile("rb")
            self.connection.sendall(b"".join(map(_command, commands)))
            answers = [self.answers.readline() for _ in commands]
        except OSError:
            self.close()
            raise
        if not all(answers):
            self.close()
            raise ConnectionError("Redis closed the connection")
        if errors := [answer for answer in answers if answer.startswith(b"-")]:
            raise RuntimeError(f"Redis answers {errors[0].decode().strip()}")

    def close(self):
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def _command(words):
    parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
    return f"*{len(words)}\r\n{''.join(parts)}".encode()
