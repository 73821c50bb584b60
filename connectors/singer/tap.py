"""One run of a tap: its messages wait in a bounded queue for the next batch."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from headrace.connectors.singer.catalog import selected
from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.messages import Other, Record, Schema, State, json_text, message_of
from headrace.connectors.singer.process import LONGEST_LINE, SingerProcess, task_thread
from headrace.connectors.singer.schemas import StreamType, stream_type
from headrace.connectors.singer.settings import DISCOVER, NO_CATALOG
from headrace.plugins.errors import DataError

log = logging.getLogger(__name__)

MOST_ROWS: Final = 20_000
MOST_BYTES: Final = 16 << 20
"""The bytes that may wait for the next batch."""
_END_S: Final = 5.0


@dataclass
class TapCommand:
    """A tap to run, and all that is kept from run to run."""

    executable: Path
    config: Mapping[str, Any]
    catalog: str
    """`discover`, `none` or JSON."""
    streams: Sequence[str]
    metadata: Mapping[str, Any]
    stall_s: float
    numbers_as_text: bool
    discovered: Any = None
    """The catalog with its selection, once it was discovered."""
    types: dict[str, StreamType] = field(default_factory=dict)
    """By stream and the text of its SCHEMA: a run that sends an equal one has the same type."""

    passed_over: set[str] = field(default_factory=set)
    """The kinds of messages that are known to say nothing of records."""

    def type_of(self, message: Schema) -> StreamType:
        """Return the type of a SCHEMA. Errors: SingerError."""
        text = json.dumps([message.stream, message.keys, message.schema], default=str)
        if text not in self.types:
            self.types[text] = stream_type(message.stream, message.schema, message.keys, self.numbers_as_text)
        return self.types[text]


class Row(NamedTuple):
    """A RECORD ready for its batch."""

    type: StreamType
    key: Any
    value: Any
    timestamp: int | None
    failure: str | None
    """The reason that it cannot be carried; key and value are then missing."""
    as_read: str | None
    """The text of a record with a failure."""
    size: int


class Taken(NamedTuple):
    """The rows and STATEs of a batch."""

    rows: list[Row]
    states: list[str | None]
    """By row: the last STATE before the next row."""
    state: str | None
    """The last STATE of all."""


class Tap:
    """A run; `take` and `stop` are for the task's thread."""

    def __init__(self, command: TapCommand, state: str | None, wake: Callable[[], None]) -> None:
        """`state`: where to go on; `wake` is called once something is there, or the run is over."""
        self._command = command
        self._wake = wake
        self._state = state
        self._types: dict[str, StreamType] = {}
        self._changed = threading.Condition()
        self._queue: deque[Row | State] = deque()
        self._bytes = 0
        self._process: SingerProcess | None = None
        self._stopped = threading.Event()
        self._is_over = False
        self._error: Exception | None = None
        self._thread = task_thread(self._run, f"singer-{command.executable.name}")

    # -- the task's side -----------------------------------------------------------------------------------------------

    def take(self, most_rows: int, most_bytes: int) -> Taken:
        """Return what came, up to this."""
        rows: list[Row] = []
        states: list[str | None] = []
        size = 0
        with self._changed:
            while self._queue:
                if isinstance(self._queue[0], Row) and (len(rows) >= most_rows or size >= most_bytes):
                    break
                item = self._queue.popleft()
                self._bytes -= item.size
                if isinstance(item, State):
                    self._state = item.text
                    if states:
                        states[-1] = item.text
                    continue
                rows.append(item)
                states.append(self._state)
                size += item.size
            if rows and self._process is not None:
                self._process.seen()  # it may have been held up, and did not hang
            self._changed.notify()
        return Taken(rows, states, self._state)

    def is_over(self) -> bool:
        """Say whether all that came was taken and nothing follows. Errors: SingerError if the run failed or hangs."""
        with self._changed:
            if self._queue:
                return False
            if self._error is not None:
                raise self._error
            if self._is_over:
                return True
            process = self._process
        if process is not None and (stalled := process.stalled(self._command.stall_s)) is not None:
            raise stalled
        return False

    def stop(self) -> None:
        """End the run and its process."""
        with self._changed:
            self._stopped.set()
            self._changed.notify()
            process = self._process
        if process is not None:
            process.end()
        self._thread.join(_END_S)

    # -- the run's side ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._sync(self._catalog())
        except Exception as error:
            with self._changed:
                self._error = error
        with self._changed:
            self._is_over = True
        self._wake()

    def _catalog(self) -> Any:
        command = self._command
        if command.catalog == NO_CATALOG:
            return None
        if command.discovered is None:
            if command.catalog != DISCOVER:
                return json.loads(command.catalog)
            found = self._discovered()
            try:
                command.discovered = selected(found, command.streams, command.metadata)
            except SingerError as error:
                raise SingerError(f"{command.executable.name} {error}") from error
        return command.discovered

    def _discovered(self) -> Any:
        printed = bytearray()

        def add(line: bytes) -> None:
            if len(printed) + len(line) > LONGEST_LINE:
                raise SingerError(f"printed a catalog of more than {LONGEST_LINE >> 20} MiB")
            printed.extend(line)

        self._each_line(["--discover"], {"config": self._command.config}, add)
        try:
            return json.loads(printed)
        except (ValueError, RecursionError) as error:
            name = self._command.executable.name
            raise SingerError(
                f"{name} --discover printed no catalog: {error}. If it knows no catalog, set tap.catalog=none"
            ) from error

    def _sync(self, catalog: Any) -> None:
        files = {"config": self._command.config}
        if catalog is not None:
            files["catalog"] = catalog
        if self._state is not None:
            files["state"] = json.loads(self._state)
        self._each_line([], files, self._on_line)

    def _each_line(self, arguments: Sequence[str], files: Mapping[str, Any], take: Callable[[bytes], None]) -> None:
        """Run the tap, and have each line that it prints taken. Errors: SingerError with its last lines."""
        if self._stopped.is_set():
            return
        with SingerProcess(self._command.executable, arguments, files, takes_input=False) as process:
            self._process = process
            try:
                for line in () if self._stopped.is_set() else process.lines():
                    if self._stopped.is_set():
                        return
                    take(line)
            except SingerError as error:
                process.end()
                raise SingerError(f"{process.name} {error}{process.last_words()}") from error
            finally:
                self._process = None

    def _on_line(self, line: bytes) -> None:
        if not line.strip():
            return
        message = message_of(line)
        match message:
            case Record():
                self._put(self._row(message, len(line)))
            case State():
                self._put(message)
            case Schema():
                self._types[message.stream] = self._command.type_of(message)
            case Other():
                if message.kind not in self._command.passed_over:
                    self._command.passed_over.add(message.kind)
                    log.info("Messages %s are passed over: they say nothing of records", message.kind)

    def _row(self, record: Record, size: int) -> Row:
        of = self._types.get(record.stream)
        if of is None:
            raise SingerError(f"sent a RECORD of its stream {record.stream} before a SCHEMA")
        try:
            return Row(of, of.key_of(record.value), of.value.pack(record.value), record.extracted_ms, None, None, size)
        except DataError as error:
            why = f"A record of the stream {record.stream} does not fit its SCHEMA: {error}"
            return Row(of, None, None, record.extracted_ms, why, _shown(record.value), size)

    def _put(self, item: Row | State) -> None:
        with self._changed:
            while (len(self._queue) >= MOST_ROWS or self._bytes >= MOST_BYTES) and not self._stopped.is_set():
                self._changed.wait()
            if isinstance(item, State) and self._queue and isinstance(self._queue[-1], State):
                self._bytes -= self._queue.pop().size
            self._queue.append(item)
            self._bytes += item.size
            is_first = len(self._queue) == 1
        if is_first:
            self._wake()


def _shown(value: Any) -> str:
    try:
        return json_text(value)
    except ValueError:
        return json.dumps(value, default=lambda number: number.text)
