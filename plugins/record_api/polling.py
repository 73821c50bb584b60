"""The calls of an author's `poll`: a thread for each source partition, or a coroutine if it is `async`.

What `poll` yields waits in a bounded queue for the next batch. So a `poll` may block, or yield for ever, while its
records are on their way; and no batch waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.plugins.contracts import SourceOffset, SourcePartition
from headrace.plugins.errors import DataError
from headrace.plugins.record_api.packing import check_text, json_text
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.rows import Row

END_S: Final = 0.8
"""The time that the end waits for an author's code."""
_LOOK_S: Final = 0.05
"""The time until a full queue is looked at again."""


@dataclass(frozen=True)
class Polling:
    """The part that all pollers of a task share."""

    row: Callable[[Record, str | None], Row]
    """Makes a record ready, with the JSON of the offset to store."""
    interval_s: float
    """The pause after a `poll` that brought nothing new."""
    wake_task: Callable[[], None]
    """Called once records or an error are there."""
    most_bytes: int
    """Limit of the rows of one partition that wait."""
    each_has_offset: bool
    """True: a record without an offset is an error."""


@dataclass(eq=False)
class Poller:
    """Polls one source partition; `take` is for the task's thread, `run` and `run_async` are the poller's own."""

    poll: Callable[[SourceOffset | None], Any]
    partition: SourcePartition
    after: SourceOffset | None
    """The offset after which it begins."""
    of: Polling
    is_done: threading.Event = field(default_factory=threading.Event)
    """Set once the author's code is left."""
    has_answered: threading.Event = field(default_factory=threading.Event)
    """Set once a record came, or a call of `poll` has ended."""

    def __post_init__(self) -> None:
        self.expected = self.after
        """The offset that is stored once all that was taken is delivered."""
        self._offset = None if self.after is None else json_text(self.after)
        self._last: str | None = None
        self._queue: deque[Row] = deque()
        self._came_bytes = self._taken_bytes = 0
        self._error: Exception | None = None
        self._stopped = threading.Event()
        self._news = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    # -- the task's side -----------------------------------------------------------------------------------------------

    def take(self, most_rows: int, most_bytes: int) -> list[Row]:
        """Return what came, up to this. Errors: that of `poll`, once all before it was taken."""
        failed = self._error  # before the queue is looked at, which gets no more after it
        rows: list[Row] = []
        size = memory = 0
        while self._queue and len(rows) < most_rows and size < most_bytes:
            row = self._queue.popleft()
            rows.append(row)
            size += row.data
            memory += row.memory
        self._taken_bytes += memory
        if not rows and failed is not None:
            raise failed
        if rows:
            self.expected = _parsed(rows[-1].offset)
        return rows

    def give_back(self, rows: Sequence[Row], after: SourceOffset | None) -> None:
        """Have rows that were taken come again, before all others; `after` is the offset before them."""
        self._queue.extendleft(reversed(rows))
        self._taken_bytes -= sum(row.memory for row in rows)
        self.expected = after

    @property
    def has_failed(self) -> bool:
        """True once the author's code raised an error."""
        return self._error is not None

    @property
    def is_stopped(self) -> bool:
        """True once `stop` was called."""
        return self._stopped.is_set()

    def start(self, name: str) -> None:
        """Poll in a thread of this name."""
        threading.Thread(target=self.run, name=name, daemon=True).start()

    def start_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Poll in this loop."""
        self._loop = loop
        loop.call_soon_threadsafe(self._start_task, loop)

    def wake(self) -> None:
        """Poll now."""
        self._news.set()

    def stop(self) -> None:
        """Take no more of what `poll` yields; one that is `async` is cancelled."""
        self._stopped.set()
        self._news.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel_task)

    # -- the poller's side ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Poll until it is stopped; for a thread of its own."""
        try:
            while not self._stopped.is_set():
                before = self._begin()
                found = _iterable(self.poll(_parsed(before)))
                try:
                    for record in found:
                        self._put(record)
                        while self._is_full() and not self._stopped.wait(_LOOK_S):
                            pass
                        if self._stopped.is_set():
                            return
                finally:
                    if inspect.isgenerator(found):
                        found.close()
                self.has_answered.set()
                if self._offset == before:
                    self._news.wait(self.of.interval_s)
                self._news.clear()
        except BaseException as error:
            self._fail(error)
        finally:
            self._end()

    async def run_async(self) -> None:
        """As `run`, for an `async` poll."""
        try:
            while not self._stopped.is_set():
                before = self._begin()
                found = self.poll(_parsed(before))
                if inspect.isawaitable(found):
                    found = await found
                if not hasattr(found, "__aiter__"):
                    found = _each(_iterable(found))
                try:
                    async for record in found:
                        self._put(record)
                        while self._is_full() and not self._stopped.is_set():
                            await asyncio.sleep(_LOOK_S)
                        if self._stopped.is_set():
                            return
                finally:
                    if inspect.isasyncgen(found):
                        await found.aclose()
                self.has_answered.set()
                if self._offset == before:
                    await self._pause()
                self._news.clear()
        except BaseException as error:
            self._fail(error)

    def _start_task(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self.run_async())
        self._task.add_done_callback(lambda task: self._end())

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> str | None:
        self._last = None
        return self._offset

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.of.interval_s
        while not self._news.is_set() and (left_s := until - loop.time()) > 0:
            await asyncio.sleep(min(left_s, _LOOK_S))

    def _is_full(self) -> bool:
        return self._came_bytes - self._taken_bytes >= self.of.most_bytes

    def _put(self, record: Any) -> None:
        if not isinstance(record, Record):
            raise TypeError(f"poll yielded a {type(record).__name__}; it has to yield Record(value, …)")
        if self._stopped.is_set():
            return
        if record.offset is not None:
            self._go_on(record.offset)
        elif self.of.each_has_offset:
            raise ValueError(
                "poll yielded a record without an offset, and exactly once each needs one: without, it would come "
                "again after a restart"
            )
        row = self.of.row(record, self._offset)
        self._queue.append(row)
        self._came_bytes += row.memory
        if len(self._queue) == 1:
            self.has_answered.set()
            self.of.wake_task()

    def _go_on(self, offset: Any) -> None:
        """Take this as the offset after which to poll. Errors: TypeError, ValueError."""
        text = _offset_text(offset)
        if text == self._last:
            raise ValueError(
                f"poll yielded two records with the offset {text}: after a restart the second one would be lost. Give "
                "an offset to the last record of those that belong together, and none to the others"
            )
        self._last = self._offset = text

    def _fail(self, error: BaseException) -> None:
        if self._stopped.is_set():
            return
        if not isinstance(error, Exception):  # would end the thread in silence
            error = RuntimeError(f"poll wants to end the process: {type(error).__name__}: {error}")
        self._error = error

    def _end(self) -> None:
        self.has_answered.set()
        self.is_done.set()
        self.of.wake_task()


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Any) -> None:
        """Wait for what it does. Errors: its own."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def end(self) -> None:
        """End the loop, and leave alone a coroutine that does not end."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_S)

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()


def _parsed(offset: str | None) -> Any:
    return None if offset is None else json.loads(offset)


def _offset_text(offset: Any) -> str:
    if type(offset) is not dict and not isinstance(offset, Mapping):
        raise TypeError(f"an offset is a dict of JSON values, not {offset!r:.60}")
    try:
        text = json_text(offset)
        check_text(text)
        return text
    except DataError as error:
        raise ValueError(f"the offset {offset!r:.60} cannot be stored: {error}") from error


def _iterable(found: Any) -> Any:
    """Return what yields the records of a poll. Errors: TypeError."""
    if found is None:
        return ()
    if not hasattr(found, "__iter__"):
        raise TypeError(f"poll returned a {type(found).__name__}; it has to yield records, or return a list of them")
    return found


async def _each(records: Any) -> Any:
    for record in records:
        yield record
