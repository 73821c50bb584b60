"""One run of a target: from its start to the end of its input.

After each batch a STATE is sent that counts batches, `{"bookmarks": {stream: {"batch": 7}}}`. A target prints a STATE
once all before it is stored; some do so for each stream apart, so a batch is durable once all streams have its number.

Decided: a target's input ends when offsets are to be committed and its last STATE is not printed yet, because most
targets store what they have by then only; loses: a start of the target each `offset.flush.interval.ms`.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.json_schemas import json_line
from headrace.connectors.singer.process import SingerProcess, task_thread

_LOOK_S: Final = 0.2
"""The time until a wait looks again if the target hangs or has ended."""
_PART: Final = 64 << 10


class Target:
    """A run; for the task's thread, except `kill`."""

    def __init__(self, executable: Path, config: Mapping[str, Any], stall_s: float) -> None:
        """Start the target. Errors: SingerError."""
        self._process = SingerProcess(executable, (), {"config": config}, takes_input=True)
        self._stall_s = stall_s
        self._sent = 0
        self._stored: dict[str, int] = {}
        self._streams: set[str] = set()
        self._error: SingerError | None = None
        self._is_over = threading.Event()
        os.set_blocking(self._process.input.fileno(), False)
        self._reader = task_thread(self._read, f"singer-{executable.name}")

    @property
    def is_durable(self) -> bool:
        """True if all batches are stored."""
        return all(self._stored.get(stream, 0) >= self._sent for stream in self._streams)

    def write(self, stream: str, lines: bytes) -> None:
        """Send messages of a stream. Errors: SingerError once the target has ended or hangs."""
        self._streams.add(stream)
        self._send(lines)

    def end_batch(self) -> None:
        """Send the STATE that covers all sent so far. Errors: as `write`."""
        self._sent += 1
        bookmarks = {stream: {"batch": self._sent} for stream in sorted(self._streams)}
        self._send(json_line({"type": "STATE", "value": {"bookmarks": bookmarks}}))

    def finish(self) -> None:
        """End the input, and wait until all is stored and the target has ended. Errors: SingerError."""
        self._process.seen()
        self._process.input.close()
        while not self._is_over.wait(_LOOK_S):
            self._raise_if_stalled()
        if self._error is None and not self.is_durable:
            text = f"ended without printing the last STATE, which says that all is stored{self._process.last_words()}"
            self._error = SingerError(f"{self._process.name} {text}")
        if self._error is not None:
            raise self._error

    def check(self) -> None:
        """Raise if the target has ended before its input. Errors: SingerError."""
        if self._is_over.is_set():
            text = f"{self._process.name} ended before its input{self._process.last_words()}"
            raise self._error or SingerError(text)

    def kill(self) -> None:
        """Kill the target; any thread may call."""
        self._process.kill()

    def close(self) -> None:
        """End what is left of it."""
        self._process.__exit__(None, None, None)

    def _send(self, data: bytes) -> None:
        descriptor, rest = self._process.input.fileno(), memoryview(data)
        self._process.seen()
        while rest:
            self.check()
            if not select.select((), (descriptor,), (), _LOOK_S)[1]:
                self._raise_if_stalled()
                continue
            try:
                rest = rest[os.write(descriptor, rest[:_PART]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                self._is_over.wait(self._stall_s)
                continue
            self._process.seen()

    def _raise_if_stalled(self) -> None:
        if (stalled := self._process.stalled(self._stall_s)) is not None:
            raise stalled

    def _read(self) -> None:
        try:
            for line in self._process.lines():
                if line.strip():
                    self._note(line)
        except Exception as error:
            self._process.end()
            self._error = SingerError(f"{self._process.name} {error}{self._process.last_words()}")
        self._is_over.set()

    def _note(self, line: bytes) -> None:
        """Note what is stored. Errors: SingerError for what is none of the STATEs that were sent."""
        try:
            for stream, mark in json.loads(line)["bookmarks"].items():
                self._stored[stream] = int(mark["batch"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            shown = repr(line[:200].decode(errors="replace").strip())
            raise SingerError(f"printed what is no STATE that it was sent: {shown}") from error
