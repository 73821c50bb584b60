"""A sink's retry topic: where records that failed with a retriable error wait until they are due to be tried again.

A record goes there with its own key, value and headers; more headers say where it came from, how often it was tried and
when it is due. The sink's consumer reads the topic too. Records that are due are tried as records of the topic,
partition and offset that they came from; at the first that is not due its partition rests until then.

    failed -> retry topic -(due)-> tried -> failed -> retry topic … -> errors.retry.timeout is over -> dead letter

Decided: a record in the retry topic has the time it was sent at, its own timestamp is in a header, because a topic's
retention goes by timestamps, and an old record would be deleted while it waits; loses: nothing, it has its own again
when it is tried.

Decided: one queue for all delays, so a record may wait as long as the one before it, which may be
`errors.retry.delay.max.ms`, because a topic for each delay would have to be made and followed; loses: short delays
after a long one.

Decided: a record says which connector failed to write it, and another connector that has the same retry topic passes it
over, because it may read other topics, or have written it; loses: nothing but the reading, which each has to do.

Decided: a record that is to wait longer than the longest delay is due at once, because its header may be anybody's, and
a delay that was shortened holds for those that wait already; loses: a delay where two workers' clocks are far apart.

Decided: a record that is written later is written out of its order, and maybe by another task than the one that has
its partition: that is what naming a retry topic asks for; loses: order, for such records only.
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
from headrace.worker.deadletters.failed_records import FAILED
from headrace.worker.deadletters.reporting import send

PREFIX: Final = "__headrace.retry."
"""Of the names of the headers that say where a record is to be tried again, and when."""
FIRST_DELAY_MS: Final = 300
"""As between two tries of Apache's error handling."""
_NUMBERS: Final = {
    "partition": 2**31,
    "offset": 2**63,
    "attempt": 2**31,
    "not.before": 2**63,
    "first.failure": 2**63,
    "timestamp": 2**63,
}
"""Headers that are numbers, and what each is below."""


class RetryHistory(NamedTuple):
    """How often a record was tried in vain, and when first; in milliseconds since 1970."""

    attempts: int
    first_ms: int


class OriginalRecord(NamedTuple):
    """Names a record: where it is in Kafka."""

    topic: str
    partition: int
    offset: int


class PartitionRest(NamedTuple):
    """A partition of which nothing is due before an instant."""

    offset: int
    """The first record that is not due."""
    until_ms: int


class DueRows(NamedTuple):
    """The rows of the retry topic that are due."""

    rows: pa.RecordBatch
    """Of each partition those of this connector before the first that is not due."""
    rests: dict[TopicPartition, PartitionRest]
    others: int
    """Rows of other connectors between them."""


@dataclass
class RetryTopic:
    """The retry topic of one sink task; for the task's own thread only."""

    connector: str
    handling: ErrorHandling
    producer: Mapping[str, Any] = field(repr=False)
    stop: StopToken
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    @property
    def name(self) -> str:
        """The topic."""
        return self.handling.retry_topic

    def split(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows of other topics, and those of this one."""
        mine = pc.equal(rows["topic"], self.name)
        if not pc.any(mine).as_py():
            return rows, rows.slice(0, 0)
        return rows.filter(pc.invert(mine)), rows.filter(mine)

    def due(self, rows: pa.RecordBatch) -> DueRows:
        """Select those of these rows that are due."""
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
        """These rows of the retry topic as they first came from Kafka; how often each was tried.

        What somebody else put into the topic is a record of this topic.
        """
        made, tried = [], {}
        for row in rows.to_pylist():
            told = _told(row["headers"])
            if told is not None:
                own = [header for header in row["headers"] if not header["key"].startswith(PREFIX)]
                row |= {name: told[name] for name in ("topic", "partition", "offset")}
                row |= {"headers": own or None, "timestamp": told.get("timestamp")}
                record = OriginalRecord(row["topic"], row["partition"], row["offset"])
                tried[record] = RetryHistory(told["attempt"], min(told["first.failure"], self.clock_ms()))
            made.append(row)
        return pa.RecordBatch.from_pylist(made, schema=rows.schema), tried

    def later(self, tried: Mapping[OriginalRecord, RetryHistory]) -> PutLater:
        """Put failed records, some of which were tried before, into the topic."""
        return PutLater(self, tried)

    def put(self, failed: pa.RecordBatch, tried: Mapping[OriginalRecord, RetryHistory]) -> pa.RecordBatch:
        """Put these records (`FAILED`) into the topic; returns those that have been tried long enough, and are not.

        Errors: as `reporting.send`.
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
            {"key": PREFIX + name, "value": str(value).encode()} for name, value in told.items() if value is not None
        ]
        return {**row, "topic": self.name, "timestamp": now, "headers": [*(row["headers"] or []), *headers]}


@dataclass(frozen=True)
class PutLater:
    """Puts failed records of one batch into the retry topic."""

    topic: RetryTopic
    tried: Mapping[OriginalRecord, RetryHistory]

    def __call__(self, failed: pa.RecordBatch) -> pa.RecordBatch:
        """As `RetryTopic.put`."""
        return self.topic.put(failed, self.tried)


def _told(headers: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    """Parse the headers of a record in the retry topic; None where one is missing or has an impossible value."""
    texts = {
        header["key"].removeprefix(PREFIX): (header["value"] or b"").decode("utf-8", "replace")
        for header in headers or ()
        if header["key"].startswith(PREFIX)
    }
    try:
        numbers = {name: int(texts[name]) for name in _NUMBERS if name != "timestamp" or name in texts}
    except (KeyError, ValueError):
        return None
    if "topic" not in texts or not all(0 <= number < _NUMBERS[name] for name, number in numbers.items()):
        return None
    return {**texts, **numbers}
