"""Lines to events: partial lines of containers are joined, and lines that a pattern says belong together.

Streams of a container are joined each by itself though their lines alternate. Events that overlap so have one offset:
that after the last line of them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.logs.files.envelopes import Pieces

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Joining:
    """The rules by which lines become events; without a pattern only partial lines are joined."""

    pattern: str | None = None
    negate: bool = False
    before: bool = False
    """True if matching lines belong to the next line that does not match, else to the line before."""
    most_lines: int = 500
    most_bytes: int = 1 << 20
    timeout_ms: int = 5_000
    """An event is complete if other streams have gone on for so long after it."""

    def starts(self, texts: pa.StringArray) -> tuple[Flags, bool]:
        """The lines at which events begin, and if the last event may go on."""
        matches = pc.match_substring_regex(texts, self.pattern).to_numpy(zero_copy_only=False) != self.negate
        starts = np.ones(len(texts), bool)
        starts[1:] = ~(matches[:-1] if self.before else matches[1:])
        return starts, bool(matches[-1]) if self.before else True

    def bounded(self, starts: Flags, sizes: Numbers, most_lines: int) -> Flags:
        """The starts with those of the parts of events that are too large."""
        group = np.cumsum(starts) - 1
        begins = np.flatnonzero(starts)[group]
        before = np.cumsum(sizes) - sizes
        parts = (np.arange(len(starts)) - begins) // most_lines, (before - before[begins]) // self.most_bytes
        bounded = starts.copy()
        for part in parts:
            bounded[1:] |= part[1:] != part[:-1]
        return bounded


class Events(NamedTuple):
    """Events in the order of their first lines."""

    texts: pa.StringArray
    first: Numbers
    """The number of the first line of each."""
    after: Numbers
    """The number of the line after each, or after all that overlap."""
    streams: pa.StringArray
    times: pa.Int64Array


class _Joined(NamedTuple):
    texts: pa.StringArray
    first: Numbers
    last: Numbers


def events(pieces: Pieces, rule: Joining, closed: bool) -> tuple[Events, int]:
    """The events of these lines, and the number of lines that they take; `closed`: no event goes on after them."""
    made, limit = [], len(pieces.texts)
    for lines in _of_streams(pieces):
        one, opened = _joined_stream(pieces, lines, rule, closed or _is_over(pieces, lines, rule.timeout_ms))
        made.append(one)
        limit = min(limit, opened)
    texts = pa.concat_arrays([one.texts for one in made])
    first = np.concatenate([one.first for one in made])
    last = np.concatenate([one.last for one in made])
    limit = _limit(first, last, limit)
    order = np.argsort(first, kind="stable")
    order = order[first[order] < limit]
    first, last = first[order], last[order]
    return Events(
        texts.take(pa.array(order)),
        first,
        _clusters(first, last),
        _taken(pieces.streams, first, pa.string()),
        _taken(pieces.times, first, pa.int64()),
    ), limit


def _joined_stream(pieces: Pieces, lines: Numbers | None, rule: Joining, closed: bool) -> tuple[_Joined, int]:
    """The complete events of a stream, and the first line of what may go on; the number of all lines without."""
    texts = pieces.texts if lines is None else pieces.texts.take(pa.array(lines))
    numbers = np.arange(len(texts)) if lines is None else lines
    joined, opened = _Joined(texts, numbers, numbers), len(pieces.texts)
    if pieces.partial is not None and len(texts):
        partial = pieces.partial if lines is None else pieces.partial[lines]
        starts = np.ones(len(texts), bool)
        starts[1:] = ~partial[:-1]
        joined = _join(joined, rule.bounded(starts, _sizes(texts), len(texts) + 1), "")
        if partial[-1] and not closed:
            joined, opened = _without_last(joined), int(joined.first[-1])
    if rule.pattern is not None and len(joined.texts):
        starts, goes_on = rule.starts(joined.texts)
        joined = _join(joined, rule.bounded(starts, _sizes(joined.texts) + 1, rule.most_lines), "\n")
        if goes_on and not closed:
            joined, opened = _without_last(joined), int(joined.first[-1])
    return joined, opened


def _of_streams(pieces: Pieces) -> list[Numbers | None]:
    """The numbers of each stream's lines; None for all lines of the only one."""
    if pieces.streams is None:
        return [None]
    codes = pc.fill_null(pieces.streams.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
    known = np.unique(codes)
    return [None] if len(known) <= 1 and -1 not in known else [np.flatnonzero(codes == code) for code in known]


def _is_over(pieces: Pieces, lines: Numbers | None, timeout_ms: int) -> bool:
    """True if nothing of this stream can belong to its last line: it has no envelope, or others went on for long."""
    if lines is None or pieces.times is None:
        return False
    last, newest = pieces.times[int(lines[-1])].as_py(), pc.max(pieces.times).as_py()
    return last is None or newest - last >= max(timeout_ms, 1)


def _join(one: _Joined, starts: Flags, separator: str) -> _Joined:
    if starts.all():
        return one
    begins = np.flatnonzero(starts)
    offsets = pa.array(np.append(begins, len(starts)).astype(np.int32))
    texts = pc.binary_join(pa.ListArray.from_arrays(offsets, one.texts), separator)
    return _Joined(texts, one.first[begins], one.last[np.append(begins[1:], len(starts)) - 1])


def _without_last(one: _Joined) -> _Joined:
    return _Joined(one.texts[:-1], one.first[:-1], one.last[:-1])


def _limit(first: Numbers, last: Numbers, limit: int) -> int:
    """The line before which all events are complete."""
    while True:
        crossing = first[(first < limit) & (last >= limit)]
        if not len(crossing):
            return limit
        limit = int(crossing.min())


def _clusters(first: Numbers, last: Numbers) -> Numbers:
    """The line after each event, or after the last of those that overlap with it."""
    if not len(first):
        return first
    reach = np.maximum.accumulate(last)
    is_end = np.append(first[1:] > reach[:-1], True)
    ends = np.flatnonzero(is_end)
    return reach[ends[np.searchsorted(ends, np.arange(len(first)))]] + 1


def _sizes(texts: pa.StringArray) -> Numbers:
    return np.asarray(pc.binary_length(texts).to_numpy(zero_copy_only=False), np.int64)


def _taken(values: pa.Array | None, rows: Numbers, kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(rows), kind) if values is None else values.take(pa.array(rows))
