"""Kafka producer for Arrow rows, on librdkafka's C interface, without a Python object per record.

Arrays of addresses inside the rows' buffers describe the messages (`message_arrays.py`). librdkafka copies each
message before a call returns, so buffers need not outlive the call.

C never calls Python: delivery errors and logs are events that `poll` and `flush` fetch. So librdkafka cannot meet an
ending interpreter or a freed callback.

Decided: not `confluent_kafka.Producer`, because its dictionaries and per-message state cost three times as much as
everything else here: 2,000,000 values of 105 bytes to one partition took 1.7 s of this thread's CPU with it and 0.6 s
without; loses: 200 lines, and the structs of `librdkafka_internals`.

Source: the comments of librdkafka's rdkafka.h.
"""

from __future__ import annotations

import ctypes
import logging
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from itertools import repeat
from operator import length_hint
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.interop.kafka.client_statistics import INTERVAL_MS, ClientStatistics
from headrace.plugins.interop.kafka.known_brokers import KnownBrokers
from headrace.plugins.interop.kafka.librdkafka_internals import (
    Numbers,
    error_of,
    functions,
    offset_of,
    opaques_and_offsets,
    partition_of,
    topic_of,
)
from headrace.plugins.offsets import Deliveries
from headrace.worker.kafka.distinct import distinct
from headrace.worker.kafka.message_arrays import ANY_PARTITION, COPY, arguments_of, bytes_of, messages_of
from headrace.worker.kafka.receipts import Receipts

_FUNCTIONS: Final[Mapping[str, tuple[Any, ...]]] = {  # result, arguments
    "conf_new": (c_void_p,),
    "conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "conf_set_events": (None, c_void_p, c_int),
    "conf_destroy": (None, c_void_p),
    "new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "destroy": (None, c_void_p),
    "set_log_queue": (c_int, c_void_p, c_void_p),
    "queue_get_main": (c_void_p, c_void_p),
    "queue_destroy": (None, c_void_p),
    "queue_poll": (c_void_p, c_void_p, c_int),
    "event_type": (c_int, c_void_p),
    "event_message_next": (c_void_p, c_void_p),
    "event_message_array": (c_size_t, c_void_p, c_void_p, c_size_t),
    "event_message_count": (c_size_t, c_void_p),
    "message_timestamp": (c_int64, c_void_p, c_void_p),
    "event_stats": (c_char_p, c_void_p),
    "event_log": (c_int, c_void_p, c_void_p, c_void_p, c_void_p),
    "event_destroy": (None, c_void_p),
    "topic_new": (c_void_p, c_void_p, c_char_p, c_void_p),
    "topic_destroy": (None, c_void_p),
    "topic_name": (c_char_p, c_void_p),
    "produce": (c_int, c_void_p, c_int32, c_int, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p),
    "produce_batch": (c_int, c_void_p, c_int32, c_int, c_void_p, c_int),
    "last_error": (c_int,),
    "produceva": (c_void_p,),  # arguments are ready-made: converting them took a quarter of ctypes' cost of a call
    "init_transactions": (c_void_p, c_void_p, c_int),
    "begin_transaction": (c_void_p, c_void_p),
    "commit_transaction": (c_void_p, c_void_p, c_int),
    "abort_transaction": (c_void_p, c_void_p, c_int),
    "error_code": (c_int, c_void_p),
    "error_string": (c_char_p, c_void_p),
    "error_is_fatal": (c_int, c_void_p),
    "error_is_retriable": (c_int, c_void_p),
    "error_txn_requires_abort": (c_int, c_void_p),
    "error_destroy": (None, c_void_p),
    "flush": (c_int, c_void_p, c_int),
    "outq_len": (c_int, c_void_p),
    "purge": (c_int, c_void_p, c_int),
    "fatal_error": (c_int, c_void_p, c_char_p, c_size_t),
    "event_error": (c_int, c_void_p),
    "event_error_string": (c_char_p, c_void_p),
    "oauthbearer_set_token": (
        *(c_int, c_void_p, c_char_p, c_int64, c_char_p),
        *(c_void_p, c_size_t, c_char_p, c_size_t),
    ),
    "oauthbearer_set_token_failure": (c_int, c_void_p, c_char_p),
}


_c: Final = functions(_FUNCTIONS)
_produceva_with_the_gil: Final = functions(_FUNCTIONS, keeps_lock=True)["produceva"]
_SMALL_BYTES: Final = 2048
"""Smaller records, on average, are sent with Python's lock kept.

Decided: because a call that releases the lock wakes a waiting thread, and then both want it: two threads that sent
rows one by one took 0.4 microseconds more of CPU for each row; loses: other threads wait until all rows of a piece
(`AT_ONCE`) are copied, some 2 ms, which with larger records would be 40 ms.
"""

_PRODUCER, _PURGE_ALL = 0, 0x1 | 0x2
_DELIVERY, _LOG, _ERROR, _STATISTICS, _TOKEN_DUE = 0x1, 0x4, 0x8, 0x40, 0x100
_FEW: Final = 4
"""Up to this many rows are sent by one call each: one takes 4 us, four take 8; with arrays of addresses 12 us."""
_PREPARED_ROWS: Final = 10_000
"""Rows prepared at once to be sent one by one; bounds the work lost if the queue is full."""
_ARRIVAL_TIME: Final = 2
"""rd_kafka_timestamp_type_t: the broker set the timestamp."""

_LEVELS: Final = (logging.CRITICAL,) * 3 + (logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)
"""Python's levels for syslog's levels 0 to 7."""


ROWS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""Schema of a producer's rows; they may have more columns."""


class Producer:
    """A producer with librdkafka's settings, for any thread. Shape: rows as `ROWS`."""

    def __init__(
        self,
        config: Mapping[str, Any],
        log: logging.Logger,
        deliveries: Deliveries = Deliveries.NONE,
        statistics: ClientStatistics | None = None,
    ) -> None:
        """`deliveries`: note the place of all records, of the last in each partition, or of none.

        `statistics` receives reports within `poll`, which must be called, or reports pile up.

        `oauth_cb` in the config makes tokens within `poll` and `flush`, as in confluent-kafka.

        Errors: KafkaException for a setting that librdkafka does not take.
        """
        self.refusals: list[KafkaError] = []
        """Errors of undelivered records, added by `produce`, `poll` and `flush`."""
        self.notes_arrivals = deliveries is Deliveries.LAST
        self.arrivals: dict[tuple[str, int | None], int] = {}
        """Offset of the last record that arrived in each topic and partition, if known; filled if `notes_arrivals`."""
        self.receipts = Receipts() if deliveries is Deliveries.ALL else None
        """Each record's place; None unless all deliveries are noted."""
        self.config = config
        self.failures = ClientFailures()
        """Refused logins and certificates, noted by `poll` and `flush`."""
        self._log = log
        self._statistics = statistics
        self._token: Callable[[str], tuple[Any, ...]] | None = config.get("oauth_cb")
        self._topics: dict[str, int | None] = {}
        own: dict[str, Any] = {"delivery.report.only.error": deliveries is Deliveries.NONE, "log.queue": True}
        if statistics is not None:
            own["statistics.interval.ms"] = INTERVAL_MS
        self._client = _new({**config, **own})
        self._brokers = KnownBrokers(c_void_p(self._client), config)
        self._queue = _c["queue_get_main"](self._client)
        _c["set_log_queue"](self._client, None)
        # Not at exit: destroying a client waits for its threads, which an ending process need not do.
        weakref.finalize(self, _destroy, self._client, self._queue, self._topics).atexit = False

    @property
    def fatal(self) -> bool:
        """True if nothing can be sent any more: the idempotent producer's sequence is broken."""
        return bool(_c["fatal_error"](self._client, None, 0))

    def produce(self, rows: pa.RecordBatch) -> int:
        """Send rows; returns how many, from the first, were taken or refused: fewer than all if the queue is full."""
        settled = self._produced(rows)
        if self.receipts is not None:
            self.receipts.sent(settled)
        return settled

    def poll(self, timeout_s: float) -> None:
        """Handle events (deliveries, logs, errors, statistics, tokens); waits up to `timeout_s` for the first."""
        wait_ms = int(timeout_s * 1000)
        while event := _c["queue_poll"](self._queue, wait_ms):
            self._note(event)
            _c["event_destroy"](event)
            wait_ms = 0
        self._brokers.check()

    def flush(self, timeout_s: float) -> int:
        """Send lingering records and wait at most `timeout_s`; returns how many are unsettled."""
        end = time.monotonic() + timeout_s
        while True:
            left_ms = int((end - time.monotonic()) * 1000)
            # In short pieces: to librdkafka an error that waits for `poll` is unsettled.
            _c["flush"](self._client, max(0, min(left_ms, 50)))
            waiting = self.waiting()
            if not waiting or left_ms <= 0:
                return waiting

    def waiting(self) -> int:
        """Return how many records linger or are unsettled, after `poll(0)`; sends nothing and does not wait."""
        self.poll(0)
        count: int = _c["outq_len"](self._client)
        return count

    def purge(self) -> None:
        """Drop all records queued or in flight."""
        _c["purge"](self._client, _PURGE_ALL)

    def init_transactions(self, timeout_s: float) -> None:
        """Fence the former producer of the same `transactional.id`, and end its open transaction.

        Errors: as `commit_transaction`.
        """
        _check(_c["init_transactions"](self._client, int(timeout_s * 1000)))

    def begin_transaction(self) -> None:
        """Begin a transaction. Errors: as `commit_transaction`."""
        _check(_c["begin_transaction"](self._client))

    def commit_transaction(self, timeout_s: float) -> None:
        """Commit what was sent since `begin_transaction`; call `flush` before.

        Errors: KafkaException, whose error says if the call may be repeated (`retriable`), if the transaction must be
        aborted (`txn_requires_abort`), or if the producer is unusable (`fatal`).
        """
        _check(_c["commit_transaction"](self._client, int(timeout_s * 1000)))

    def abort_transaction(self, timeout_s: float) -> None:
        """Abort what was sent since `begin_transaction`. Errors: as `commit_transaction`."""
        _check(_c["abort_transaction"](self._client, int(timeout_s * 1000)))

    def _produced(self, rows: pa.RecordBatch) -> int:
        if rows["timestamp"].null_count == rows["headers"].null_count == rows["partition"].null_count == len(rows):
            names = distinct(rows["topic"])
            topic = self._topic(names[0]) if len(names) == 1 else None
            if topic is not None:
                return self._few(topic, rows) if len(rows) <= _FEW else self._together(topic, rows)
        return self._each(rows)

    def _few(self, topic: int, rows: pa.RecordBatch) -> int:
        """Send a few rows by a call each; arrays of their addresses would cost more."""
        numbers = self._numbers(rows)
        opaques = [None] * len(rows) if numbers is None else numbers.tolist()
        sent = zip(bytes_of(rows["value"]), bytes_of(rows["key"]), opaques, strict=True)
        for index, (value, key, opaque) in enumerate(sent):
            sizes = len(value or b""), len(key or b"")
            if _c["produce"](topic, ANY_PARTITION, COPY, value, sizes[0], key, sizes[1], opaque):
                code = _c["last_error"]()
                if code == KafkaError._QUEUE_FULL:
                    return index
                self.refusals.append(KafkaError(code))
        return len(rows)

    def _together(self, topic: int, rows: pa.RecordBatch) -> int:
        messages = messages_of(rows, self._numbers(rows))
        if _c["produce_batch"](topic, ANY_PARTITION, COPY, messages.ctypes.data, len(rows)) == len(rows):
            return len(rows)
        errors = messages["err"]
        # After the first message without room, none of the call has room.
        full = np.flatnonzero(errors == KafkaError._QUEUE_FULL)
        settled = int(full[0]) if len(full) else len(rows)
        self.refusals += [KafkaError(int(code)) for code in errors[:settled] if code]
        return settled

    def _each(self, rows: pa.RecordBatch) -> int:
        """Send rows one by one, with partition, timestamp and headers."""
        numbers = self._numbers(rows)
        for begin in range(0, len(rows), _PREPARED_ROWS):
            part = slice(begin, begin + _PREPARED_ROWS)
            some = rows.slice(begin, _PREPARED_ROWS)
            settled = self._each_prepared(some, None if numbers is None else numbers[part])
            if settled < len(some):
                return begin + settled
        return len(rows)

    def _each_prepared(self, rows: pa.RecordBatch, numbers: Numbers | None) -> int:
        is_small = rows["key"].nbytes + rows["value"].nbytes < _SMALL_BYTES * len(rows)
        produce = _produceva_with_the_gil if is_small else _c["produceva"]
        settled = 0
        for addresses, sizes in arguments_of(rows, self._topic, numbers):
            taken = self._each_of(produce, addresses, sizes)
            settled += taken
            if taken < len(addresses):
                break
        return settled

    def _each_of(self, produce: Callable[..., int | None], addresses: Sequence[object], sizes: Sequence[int]) -> int:
        """Send rows, given the address and count of each row's arguments; returns how many were taken or refused.

        Decided: `map` makes the calls, and the loop runs for refused rows only, because a call from Python's bytecode
        took 1.5 microseconds of CPU and one from `map` takes 1.1; loses: readability.
        """
        left = iter(sizes)
        for error in filter(None, map(produce, repeat(c_void_p.from_param(self._client)), addresses, left)):
            code = _c["error_code"](error)
            _c["error_destroy"](error)
            if code == KafkaError._QUEUE_FULL:
                return len(addresses) - length_hint(left) - 1
            self.refusals.append(KafkaError(code))
        return len(addresses)

    def _numbers(self, rows: pa.RecordBatch) -> Numbers | None:
        return None if self.receipts is None else self.receipts.numbers(len(rows))

    def _topic(self, name: str) -> int | None:
        if name not in self._topics:
            # C would end the name at a NUL.
            self._topics[name] = None if "\0" in name else _c["topic_new"](self._client, name.encode(), None)
        return self._topics[name]

    def _note(self, event: int) -> None:
        kind = _c["event_type"](event)
        if kind == _DELIVERY:
            self._note_deliveries(event)
        elif kind == _LOG:
            facility, text, level = c_char_p(), c_char_p(), c_int()
            _c["event_log"](event, ctypes.byref(facility), ctypes.byref(text), ctypes.byref(level))
            said = [(part.value or b"").decode(errors="replace") for part in (facility, text)]
            self._log.log(_LEVELS[min(max(level.value, 0), 7)], "%s %s", *said)
        elif kind == _STATISTICS and self._statistics is not None:
            self._statistics(_c["event_stats"](event).decode(errors="replace"))
        elif kind == _ERROR:
            why = (_c["event_error_string"](event) or b"").decode(errors="replace")
            self.failures(KafkaError(_c["event_error"](event), why))
        elif kind == _TOKEN_DUE and self._token is not None:
            self._show_token(self._token)

    def _show_token(self, make: Callable[[str], tuple[Any, ...]]) -> None:
        """Give librdkafka a new token, or the reason for none; in both cases it requests the next one itself."""
        why = ctypes.create_string_buffer(512)
        try:
            text, until_s, *_ = make("")
        except Exception as error:  # a provider of credentials may raise anything
            self._fail_token(str(error) or type(error).__name__)
            return
        shown = text.encode(), int(until_s * 1000), b""
        if _c["oauthbearer_set_token"](self._client, *shown, None, 0, why, len(why)):
            self._fail_token(why.value.decode(errors="replace"))

    def _fail_token(self, why: str) -> None:
        _c["oauthbearer_set_token_failure"](self._client, why.encode())

    def _note_deliveries(self, event: int) -> None:
        """Note one event: records of one partition sent together; all arrived, or none.

        librdkafka counts their offsets up from the broker's for the first, even if the broker gave none.
        """
        count = _c["event_message_count"](event)
        messages = (c_void_p * count)()
        _c["event_message_array"](event, messages, count)
        last = messages[count - 1] or 0
        if error_of(last):
            self.refusals += [KafkaError(error_of(message or 0)) for message in messages]
            return
        topic, partition = _c["topic_name"](topic_of(last)).decode(), partition_of(last)
        if self.receipts is None:
            if offset_of(messages[0] or 0) < 0:
                self.arrivals.pop((topic, partition), None)
            else:
                self.arrivals[topic, partition] = offset_of(last)
            return
        numbers, offsets = opaques_and_offsets(messages)
        kind = c_int()

        def timestamp(index: int) -> tuple[int, bool]:
            found: int = _c["message_timestamp"](messages[index], ctypes.byref(kind))
            return found, kind.value == _ARRIVAL_TIME

        self.receipts.arrived(topic, partition, numbers, offsets, timestamp)


def _new(config: Mapping[str, Any]) -> int:
    conf, why = _c["conf_new"](), ctypes.create_string_buffer(512)
    for key, value in config.items():
        if key == "oauth_cb":
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if _c["conf_set"](conf, key.encode(), text.encode(), why, len(why)):
            _c["conf_destroy"](conf)
            raise _config_error(why)
    # Error events mostly repeat the log; without the _ERROR bit librdkafka would log them a second time.
    events = _DELIVERY | _LOG | _ERROR | _STATISTICS
    _c["conf_set_events"](conf, events | _TOKEN_DUE if "oauth_cb" in config else events)
    client: int | None = _c["new"](_PRODUCER, conf, why, len(why))
    if client is None:
        _c["conf_destroy"](conf)
        raise _config_error(why)
    return client


def _config_error(why: ctypes.Array[ctypes.c_char]) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, why.value.decode(errors="replace")))


def _check(error: int | None) -> None:
    """Errors: KafkaException if a transactional call returned an error."""
    if not error:
        return
    said = KafkaError(
        _c["error_code"](error),
        (_c["error_string"](error) or b"").decode(errors="replace"),
        fatal=bool(_c["error_is_fatal"](error)),
        retriable=bool(_c["error_is_retriable"](error)),
        txn_requires_abort=bool(_c["error_txn_requires_abort"](error)),
    )
    _c["error_destroy"](error)
    raise KafkaException(said)


def _destroy(client: int, queue: int, topics: Mapping[str, int | None]) -> None:
    for topic in topics.values():
        if topic is not None:
            _c["topic_destroy"](topic)
    _c["queue_destroy"](queue)
    _c["destroy"](client)
