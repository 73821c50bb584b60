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
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headrace.plugins.contracts import SourceOffset, SourcePartition
from headrace.plugins.errors import DataError
from headrace.plugins.record_api.packing import NOTHING, Packed, Side, json_text
from headrace.plugins.record_api.record import Record

MOST_ROWS: Final = 20_000
MOST_BYTES: Final = 16 << 20
"""What may wait of one partition."""
_LOOK_S: Final = 0.1
"""How often a full queue is looked at again."""


class Row(NamedTuple):
    """A record ready for its batch."""

    record: Record
    key: Packed
    value: Packed
    offset: str | None
    """The JSON text of its offset."""
    failure: str | None
    """Why it cannot be carried."""

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return self.key.size + self.value.size + 64


class Poller:
    """Polls one source partition; `take` and `ended` are for the task's thread, `run` is the poller's own."""

    def __init__(
        self,
        poll: Callable[..., Any],
        partition: SourcePartition,
        after: SourceOffset | None,
        keys: Side,
        values: Side,
        interval_s: float,
        wake_task: Callable[[], None],
    ) -> None:
        """`poll` takes what comes `after`; `wake_task` is called once records or an error are there."""
        self._poll = poll
        self.partition = partition
        self.expected = after
        """The offset that is stored once all that was taken is delivered."""
        self._keys, self._values = keys, values
        self._interval_s = interval_s
        self._wake_task = wake_task
        self._after = after
        self._last: str | None = None
        self._queue: deque[Row] = deque()
        self._came_bytes = self._taken_bytes = 0
        self._error: Exception | None = None
        self._stopped = threading.Event()
        self._news = threading.Event()
        self.is_done = threading.Event()
        """Set once the author's code is left."""

    # -- the task's side -----------------------------------------------------------------------------------------------

    def take(self, most_rows: int, most_bytes: int) -> list[Row]:
        """Return what came, up to this. Errors: that of `poll`, once all before it was taken."""
        rows: list[Row] = []
        size = 0
        while self._queue and len(rows) < most_rows and size < most_bytes:
            row = self._queue.popleft()
            rows.append(row)
            size += row.size
        self._taken_bytes += size
        if not rows and self._error is not None and not self._queue:
            raise self._error
        offsets = [row.offset for row in rows if row.offset is not None]
        if offsets:
            self.expected = json.loads(offsets[-1])
        return rows

    @property
    def is_stopped(self) -> bool:
        """True once `stop` was called."""
        return self._stopped.is_set()

    def wake(self) -> None:
        """Poll now."""
        self._news.set()

    def stop(self) -> None:
        """Take no more of what `poll` yields."""
        self._stopped.set()
        self._news.set()

    # -- the poller's side ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Poll until it is stopped; for a thread of its own."""
        try:
            while not self._stopped.is_set():
                before, self._last = self._after, None
                found = self._poll(before)
                try:
                    for record in found or ():
                        self._put(record)
                        while self._is_full() and not self._stopped.wait(_LOOK_S):
                            pass
                        if self._stopped.is_set():
                            return
                finally:
                    if inspect.isgenerator(found):
                        found.close()
                if self._after == before:
                    self._news.wait(self._interval_s)
                self._news.clear()
        except Exception as error:
            self._fail(error)
        finally:
            self.is_done.set()

    async def run_async(self) -> None:
        """As `run`, for an `async` poll."""
        try:
            while not self._stopped.is_set():
                before, self._last = self._after, None
                found = self._poll(before)
                if inspect.isawaitable(found):
                    found = await found
                if not hasattr(found, "__aiter__"):
                    found = _each(found or ())
                try:
                    async for record in found:
                        self._put(record)
                        while self._is_full() and not self._stopped.is_set():
                            await asyncio.sleep(_LOOK_S)
                        if self._stopped.is_set():
                            return
                finally:
                    await found.aclose()
                if self._after == before:
                    await self._pause()
                self._news.clear()
        except Exception as error:
            self._fail(error)
        finally:
            self.is_done.set()

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._interval_s
        while not self._news.is_set() and (left_s := until - loop.time()) > 0:
            await asyncio.sleep(min(left_s, _LOOK_S))

    def _is_full(self) -> bool:
        return len(self._queue) >= MOST_ROWS or self._came_bytes - self._taken_bytes >= MOST_BYTES

    def _put(self, record: Any) -> None:
        if not isinstance(record, Record):
            raise TypeError(f"poll yielded a {type(record).__name__}; it has to yield Record(value, …)")
        if self._stopped.is_set():
            return
        row = self._row(record)
        if row.offset is not None:
            if row.offset == self._last:
                raise ValueError(
                    f"poll yielded two records in a row with the offset {row.offset}: after a restart the second one "
                    "would be lost. Give an offset to the last record of those that belong together, none to the others"
                )
            self._last, self._after = row.offset, record.offset
        self._queue.append(row)
        self._came_bytes += row.size
        if len(self._queue) == 1:
            self._wake_task()

    def _row(self, record: Record) -> Row:
        offset = None if record.offset is None else _offset_text(record.offset)
        try:
            return Row(record, self._keys.pack(record.key), self._values.pack(record.value), offset, None)
        except DataError as error:
            return Row(record, NOTHING, NOTHING, offset, str(error))

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._wake_task()


def _offset_text(offset: Any) -> str:
    if not isinstance(offset, Mapping):
        raise TypeError(f"an offset is a dict of JSON values, not {offset!r:.60}")
    return json_text(offset)


async def _each(records: Any) -> Any:
    for record in records:
        yield record
