"""A sink's retry topic: records that failed with a retriable error wait there until they are due.

A record goes there with its own key, value and headers; additional headers hold its origin, the number of tries and its
due time. The sink's consumer reads the topic, too. Due records are tried under the topic, partition and offset that
they came from; at the first record that is not due its partition rests until then.

    failed -> retry topic -(due)-> tried -> failed -> retry topic … -> errors.retry.timeout is over -> dead letter

Decided: a record in the retry topic has the time it was sent at, and its own timestamp in a header, because a topic's
retention goes by timestamps, and an old record would be deleted while it waits; loses: nothing, it has its own again
when it is tried.

Decided: one queue for all delays, so a record may wait as long as the one before it, at most
`errors.retry.delay.max.ms`, because a topic for each delay would have to be made and followed; loses: short delays
after a long one.

Decided: a record names the connector that failed to write it, and another connector with the same retry topic skips it,
because it may read other topics, or have written it; loses: nothing but the reading, which each has to do.

Decided: a record that is to wait longer than the longest delay is due at once, because anybody may have written its
header, and a shortened delay holds for waiting records, too; loses: a delay if two workers' clocks are far apart.

Decided: a retried record is written out of its order, and maybe by another task than the one that has its partition:
that is what naming a retry topic asks for; loses: order, for such records only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.config.connector.error_handling import ErrorHandling
from headrace.plugins.backoff import Backoff
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.failed_records import FAILED, RETRY_PREFIX
from headrace.worker.deadletters.reporting import send

FIRST_DELAY_MS: Final = 300
"""First delay of Apache's error handling."""
_NUMBERS: Final = {
    "partition": 2**31,
    "offset": 2**63,
    "attempt": 2**31,
    "not.before": 2**63,
    "first.failure": 2**63,
    "timestamp": 2**63,
}
"""Numeric headers, each with its exclusive upper bound."""


class RetryHistory(NamedTuple):
    """Number of a record's failed tries, and the time of the first. Units: ms since 1970."""

    attempts: int
    first_ms: int


class OriginalRecord(NamedTuple):
    """A record's place in Kafka."""

    topic: str
    partition: int
    offset: int


class PartitionRest(NamedTuple):
    """A partition without due records until `until_ms`. Units: ms since 1970."""

    offset: int
    """The first record that is not due."""
    until_ms: int


class DueRows(NamedTuple):
    """Due rows of the retry topic."""

    rows: pa.RecordBatch
    """This connector's rows of each partition before the first that is not due."""
    rests: dict[TopicPartition, PartitionRest]
    others: int
    """Number of other connectors' rows before it."""


@dataclass
class RetryTopic:
    """Retry topic of one sink task; for the task's thread only."""

    connector: str
    handling: ErrorHandling
    producer: Mapping[str, Any] = field(repr=False)
    stop: StopToken
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.handling.retry_topic

    def split(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Split rows into those of other topics and those of this one."""
        mine = pc.equal(rows["topic"], self.name)
        if not pc.any(mine).as_py():
            return rows, rows.slice(0, 0)
        return rows.filter(pc.invert(mine)), rows.filter(mine)

    def due(self, rows: pa.RecordBatch) -> DueRows:
        """Select the due rows of this connector, and the rests of partitions with rows that are not due."""
        now, rests, kept, others = self.clock_ms(), dict[TopicPartition, PartitionRest](), [], 0
        places = rows.select(["topic", "partition", "offset", "headers"]).to_pylist()
        for index, row in enumerate(places):
            partition = TopicPartition(row["topic"], row["partition"])
            told = _told(row["headers"]) or {}
            if partition in rests:
                continue
            if told.get("connector", self.connector) != self.connector:
                others += 1
            elif now < told.get("not.before", 0) <= now + self._longest_ms:
                rests[partition] = PartitionRest(row["offset"], told["not.before"])
            else:
                kept.append(index)
        return DueRows(rows.take(pa.array(kept, pa.int64())), rests, others)

    def originals(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[OriginalRecord, RetryHistory]]:
        """Restore rows of the retry topic as they first came from Kafka; returns them and their histories.

        A foreign record in the topic stays a record of this topic.
        """
        made, tried = [], {}
        for row in rows.to_pylist():
            told = _told(row["headers"])
            if told is not None:
                own = [header for header in row["headers"] if not header["key"].startswith(RETRY_PREFIX)]
                row |= {name: told[name] for name in ("topic", "partition", "offset")}
                row |= {"headers": own or None, "timestamp": told.get("timestamp")}
                record = OriginalRecord(row["topic"], row["partition"], row["offset"])
                tried[record] = RetryHistory(told["attempt"], min(told["first.failure"], self.clock_ms()))
            made.append(row)
        return pa.RecordBatch.from_pylist(made, schema=rows.schema), tried

    def later(self, tried: Mapping[OriginalRecord, RetryHistory]) -> PutLater:
        """Return a function that puts failed records into the topic; `tried`: histories of those tried before."""
        return PutLater(self, tried)

    def put(self, failed: pa.RecordBatch, tried: Mapping[OriginalRecord, RetryHistory]) -> pa.RecordBatch:
        """Put failed records into the topic, except those whose `errors.retry.timeout` is over, which are returned.

        Shape: `FAILED`. Errors: as `reporting.send`.
        """
        now, letters, given_up = self.clock_ms(), [], []
        for row in failed.to_pylist():
            history = tried.get(OriginalRecord(row["topic"], row["partition"], row["offset"]), RetryHistory(0, now))
            if self._is_over(history, now):
                tries, seconds = history.attempts + 1, (now - history.first_ms) / 1000
                text = f"{row['message']} (given up after {tries} tries in {seconds:.1f} s: errors.retry.timeout)"
                given_up.append({**row, "message": text})
            else:
                letters.append(self._letter(row, RetryHistory(history.attempts + 1, history.first_ms), now))
        if letters:
            send(letters, self.producer, "records to try again later", self.stop)
        return pa.RecordBatch.from_pylist(given_up, schema=FAILED)

    @property
    def _longest_ms(self) -> int:
        return max(0, self.handling.retry_delay_max_ms)

    def _is_over(self, tried: RetryHistory, now: int) -> bool:
        timeout = self.handling.retry_timeout_ms
        return timeout >= 0 and now >= tried.first_ms + timeout

    def _letter(self, row: Mapping[str, Any], tried: RetryHistory, now: int) -> dict[str, Any]:
        due = now + int(Backoff(FIRST_DELAY_MS, self._longest_ms).pause(tried.attempts))
        if self.handling.retry_timeout_ms >= 0:
            due = min(due, tried.first_ms + self.handling.retry_timeout_ms)
        told = {
            "connector": self.connector,
            "topic": row["topic"],
            "partition": row["partition"],
            "offset": row["offset"],
            "timestamp": row["timestamp"],
            "attempt": tried.attempts,
            "not.before": due,
            "first.failure": tried.first_ms,
        }
        headers = [
            {"key": RETRY_PREFIX + name, "value": str(value).encode()}
            for name, value in told.items()
            if value is not None
        ]
        return {**row, "topic": self.name, "timestamp": now, "headers": [*(row["headers"] or []), *headers]}


@dataclass(frozen=True)
class PutLater:
    """Puts failed records of one batch into the retry topic."""

    topic: RetryTopic
    tried: Mapping[OriginalRecord, RetryHistory]

    def __call__(self, failed: pa.RecordBatch) -> pa.RecordBatch:
        """Call `RetryTopic.put`."""
        return self.topic.put(failed, self.tried)


def _told(headers: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    """Parse the headers of a record in the retry topic; None if one is missing or has an impossible value."""
    texts = {
        header["key"].removeprefix(RETRY_PREFIX): (header["value"] or b"").decode("utf-8", "replace")
        for header in headers or ()
        if header["key"].startswith(RETRY_PREFIX)
    }
    try:
        numbers = {name: int(texts[name]) for name in _NUMBERS if name != "timestamp" or name in texts}
    except (KeyError, ValueError):
        return None
    if "topic" not in texts or not all(0 <= number < _NUMBERS[name] for name, number in numbers.items()):
        return None
    return {**texts, **numbers}
