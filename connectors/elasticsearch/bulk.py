"""Sends pieces of a batch by bulk requests, until the fate of each document is known.

Only documents that another attempt may help are sent again, after pauses that grow, and that are as long as the server
asks for. If the order of a document's writes counts, all after the first such one are. A request that is too large, or
not understood, is halved until the document to blame is alone.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.connectors.elasticsearch.items import Fate, Item, PartialAnswer, items_of
from headrace.connectors.elasticsearch.options import SinkOptions
from headrace.connectors.elasticsearch.server import LINES, Refused, Server, ServerBusy, ServerError
from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.http.client import ServerUnavailable

_PATH: Final = "/_bulk?filter_path=errors%2Citems.%2A.status%2Citems.%2A.error"
"""Commas and stars are escaped, as they are in what AWS signs."""
_LONGEST_S: Final = 60.0
"""The longest pause, and all pauses of a request: a task that waits longer loses its partitions."""
_MISSING: Final = "index_not_found_exception"


class Missing(RetriableError):
    """An index has gone since it was looked at."""


class Document(NamedTuple):
    """The action of one row, for comparisons and errors."""

    where: str
    """The name of an index, alias or data stream."""
    id: str | None
    version: int | None


@dataclass(frozen=True)
class Piece:
    """Some rows of a batch, each with a text in `lines`."""

    rows: pa.RecordBatch
    numbers: np.ndarray[Any, Any]
    """The number of each row among all that the writer got."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def body(self) -> bytes:
        """The texts of all rows."""
        lines = self.rows["lines"]
        offsets, data = ends(lines), lines.buffers()[2]
        return b"" if data is None else data[int(offsets[0]) : int(offsets[-1])].to_pybytes()

    def slice(self, start: int, stop: int) -> Piece:
        """Some neighbours."""
        return Piece(self.rows.slice(start, stop - start), self.numbers[start:stop])

    def take(self, indices: Sequence[int] | np.ndarray[Any, Any]) -> Piece:
        """Some rows."""
        return Piece(self.rows.take(pa.array(indices, pa.int64())), self.numbers[np.asarray(indices, np.int64)])

    def halves(self) -> tuple[Piece, Piece]:
        """The first and the second half."""
        middle = len(self) // 2
        return self.slice(0, middle), self.slice(middle, len(self))

    def document(self, index: int) -> Document:
        """The row's action, read from its text."""
        (action,) = json.loads(self.rows["lines"][index].as_py().partition("\n")[0]).values()
        return Document(action["_index"], action.get("_id"), action.get("version"))

    def pieces(self, options: SinkOptions) -> Iterator[Piece]:
        """These rows in pieces of one request each."""
        offsets, start = ends(self.rows["lines"]).astype(np.int64), 0
        while start < len(self):
            most = int(np.searchsorted(offsets, offsets[start] + options.batch_bytes, side="right")) - 1
            stop = min(max(most, start + 1), start + options.batch_rows, len(self))
            yield self.slice(start, stop)
            start = stop


class Settled(NamedTuple):
    """A document that was not just written."""

    number: int
    """The row's number among all that the writer got."""
    item: Item
    document: Document
    place: tuple[str, int, int]
    """Topic, partition and offset of its record."""


class Sender:
    """Sends the pieces of one writer, on any thread."""

    def __init__(self, server: Server, options: SinkOptions, pause: Callable[[float], None]) -> None:
        """`pause` waits so many seconds. Errors of `pause`: StoppedError."""
        self._server, self._options, self._pause = server, options, pause
        self._backoff = Backoff(options.backoff_s, _LONGEST_S, spread=1.0)
        self._counting = threading.Lock()
        self.counts = Counter[str]()

    def send(self, piece: Piece, ordered: bool = False) -> list[Settled]:
        """Write these rows; return those that were not written, and conflicts.

        Errors: RetriableError after all retries, or a minute of pauses; ServerError, LoginRefused, ConfigError,
        StoppedError.
        """
        settled, waiting = list[Settled](), [piece]
        rounds, vain, paused_s = 0, 0, 0.0
        while waiting:
            part = waiting.pop()
            try:
                items = self._answer(part)
            except (ServerBusy, ServerUnavailable, PartialAnswer) as error:
                again, why, wait_s = part, str(error), getattr(error, "wait_s", 0.0)
                vain += 1
            except Refused as error:
                if len(part) > 1:
                    waiting += reversed(part.halves())
                else:
                    settled.append(_settled(part, 0, Item(Fate.REFUSED, self._shown(error), kind=error.kind)))
                continue
            else:
                busy = self._sort(part, items or (), settled, ordered)
                if items is None or not busy:
                    continue
                again = part.slice(busy[0], len(part)) if ordered else part.take(busy)
                why, wait_s = items[busy[0]].reason, 0.0
                vain = vain + 1 if len(again) == len(part) else 0
            rounds += 1
            if vain > self._options.max_retries or paused_s >= _LONGEST_S:
                raise RetriableError(f"{self._server.where} did not take {len(again)} documents: {why}")
            pause_s = min(max(self._backoff.pause(rounds), wait_s), _LONGEST_S - paused_s)
            paused_s += pause_s
            self._pause(pause_s)
            self._count("repeated", len(again))
            waiting.append(again)
        return settled

    def _answer(self, part: Piece) -> Sequence[Item] | None:
        self._count("requests", 1)
        answer = self._server.ask("POST", _PATH, part.body, LINES)
        return items_of(answer, len(part), self._options.shows_content)

    def _sort(self, part: Piece, items: Sequence[Item], settled: list[Settled], ordered: bool) -> list[int]:
        """Keep what is settled; return the rows to send again, if `ordered` the first. Errors: ServerError, Missing."""
        busy = []
        for index, item in enumerate(items):
            if item.kind == _MISSING:
                raise Missing(f"{self._server.where}: {item.reason}")
            if item.fate is Fate.FATAL:
                where = f"{self._server.where}, {part.document(index).where}"
                raise ServerError(f"{where} takes no documents: {item.reason}")
            if item.fate is Fate.BUSY and ordered:
                return [index]
            if item.fate is Fate.BUSY:
                busy.append(index)
            elif item.fate is not Fate.DONE:
                settled.append(_settled(part, index, item))
        return busy

    def _count(self, what: str, number: int) -> None:
        with self._counting:
            self.counts[what] += number

    def _shown(self, error: Refused) -> str:
        return str(error) if self._options.shows_content else f"the request is refused: {error.kind or 'too large'}"


def ends(lines: pa.StringArray) -> np.ndarray[Any, Any]:
    """The offsets of the texts in their buffer, one more than there are texts."""
    kind = np.int64 if pa.types.is_large_string(lines.type) else np.int32
    found = np.frombuffer(lines.buffers()[1], kind)
    return found[lines.offset : lines.offset + len(lines) + 1]


def _settled(part: Piece, index: int, item: Item) -> Settled:
    row = part.rows.select(["origin_topic", "origin_partition", "origin_offset"]).slice(index, 1).to_pylist()[0]
    place = row["origin_topic"], row["origin_partition"], row["origin_offset"]
    return Settled(int(part.numbers[index]), item, part.document(index), place)
