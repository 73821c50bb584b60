"""Requests out of rows: records that share a batch share a request, and order is kept within a lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.connectors.http.sink.options import Nulls, SinkOptions

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""


@dataclass(frozen=True)
class Request:
    """One request; `rows` are the indexes of its records."""

    method: str
    url: str = field(repr=False)
    body: bytes | None = field(repr=False)
    rows: Sequence[int]


@dataclass
class Planned:
    """The requests of a batch, by lane: those of one lane are sent one after the other."""

    lanes: dict[Any, list[Request]] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    """The reasons that records have no request."""
    nulls: list[int] = field(default_factory=list)
    """Records without a value that are passed over."""


@dataclass
class _Open:
    """A batch that is not full."""

    url: str
    rows: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


def planned(rows: pa.RecordBatch, options: SinkOptions) -> Planned:
    """Return the requests of these rows.

    Decided: a DELETE goes behind the batched records of its key, also with `deletes.send.in.order=false`, because a
    record that is sent after its delete would come back to life; loses: fewer requests.
    Decided: records of one batch have one URL, because the first record's would be wrong for the others; loses:
    nothing.
    """
    found, open_ = Planned(), dict[Any, _Open]()
    places = zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True)
    names = ("url", "batch", "is_null", "body", "fault")
    each = zip(places, *(rows[name].to_pylist() for name in names), strict=True)
    for row, (place, url, batch, is_null, body, fault) in enumerate(each):
        if is_null and options.nulls in (Nulls.IGNORE, Nulls.LOG):
            found.nulls.append(row)
        elif fault is not None:
            found.faults[row] = fault
        elif is_null and options.nulls is Nulls.FAIL:
            found.faults[row] = f"The record has no value, which {options.nulls_setting} refuses"
        elif is_null and not rows["key"][row].as_py():
            found.faults[row] = f"A DELETE for an empty key could delete more than one record ({options.url_setting})"
        else:
            lane = place if options.batch_size == 1 else batch
            _take(found.lanes.setdefault(lane, []), open_, lane, row, url, None if is_null else body, options)
    for lane, one in open_.items():
        found.lanes[lane] += _request(one, options)
    return found


def _take(
    requests: list[Request],
    open_: dict[Any, _Open],
    lane: Any,
    row: int,
    url: str,
    body: bytes | None,
    options: SinkOptions,
) -> None:
    one = open_.get(lane)
    if one is not None and (body is None or one.url != url):
        requests += _request(open_.pop(lane), options)
        one = None
    if body is None:
        requests.append(Request("DELETE", url, None, (row,)))
        return
    if one is None:
        one = open_[lane] = _Open(url)
    one.rows.append(row)
    one.bodies.append(body)
    if len(one.rows) >= options.batch_size:
        requests += _request(open_.pop(lane), options)


def _request(one: _Open, options: SinkOptions) -> Iterator[Request]:
    body = options.separator.encode().join(one.bodies)
    yield Request(options.method, one.url, options.prefix.encode() + body + options.suffix.encode(), tuple(one.rows))
