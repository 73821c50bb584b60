"""Reads and changes the committed offsets of consumer groups without joining them.

    kept_client(config).committed("connect-x", timeout_s=30).result()

Decided: librdkafka's own requests on a consumer's handle, not confluent-kafka's AdminClient, whose handle is a
producer's. If a broker answers that it does not coordinate the group, as during a restart, librdkafka (2.16) looks for
its handle's own group; a producer has none, and the process ends with a segmentation fault (confluentinc/librdkafka
issue 5040). Loses: this module knows C structs, and an address inside confluent-kafka's object; each configuration has
a consumer, which joins nothing; removing offsets needs brokers from 2.4 on.

Decided: time limits are kept here, because librdkafka ends the process (`eonce->refcnt > 0`, issue 4605) if its own
time limit for a request to a group's coordinator passes before that broker is back; loses: a process whose request was
under way when the brokers went ends if they are back after more than an hour, librdkafka's maximum limit. Once the
client's statistics show no connected broker, nothing is requested until one is connected.

Decided: a change is sent after the coordinator has returned the group's offsets, because a change that waits for its
broker cannot be cancelled, and would overwrite what was set meanwhile; loses: one more request for each change; a
change that is under way as the broker goes may still be made within the hour.

Decided: offsets not returned for some seconds are requested again, because in one of four cases librdkafka never sends
a request made while its client knew no broker; loses: librdkafka keeps the former request for an hour.

Source: the comments of librdkafka's rdkafka.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_void_p
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException

from headrace.plugins.interop.kafka.client_key import client_key
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics
from headrace.plugins.interop.kafka.librdkafka_internals import Partition, Partitions, functions, handle_of

_CHECK_EVERY_S: Final = 0.1
_ANY_REQUEST: Final = 0
_EARLY: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._DESTROY_BROKER,
    }
)
"""Errors of a broker that does not know the group yet, and of one that the client just forgot."""
_PAUSE_S: Final = 0.1
_AGAIN_S: Final = 5.0
"""First wait for offsets before they are requested again; each further wait is twice as long."""
_LONGEST_MS: Final = 3_600_000
"""Maximum time limit that librdkafka accepts."""
_WHY_BYTES: Final = 512


class GroupOffset(NamedTuple):
    """A partition with a group's committed offset, or the one to commit."""

    topic: str
    partition: int
    offset: int = -1
    metadata: str = ""
    error: KafkaError | None = None
    """Error in Kafka's answer for the partition, instead of an offset."""


class _Request(NamedTuple):
    """One of librdkafka's requests about groups."""

    sent: str
    """Name of the function that sends requests; other functions' names begin with it."""
    of_one: str
    """Beginning of the names of the functions that create and destroy one request."""

    names_partitions: bool = True
    in_vain: str = "no broker has said if the group's offsets are changed: ask for them"
    """Error text if a request is not answered in time."""

    def signatures(self) -> dict[str, tuple[Any, ...]]:
        given = (POINTER(Partitions),) if self.names_partitions else ()
        return {
            f"{self.of_one}_new": (c_void_p, c_char_p, *given),
            f"{self.of_one}_destroy": (None, c_void_p),
            self.sent: (None, c_void_p, POINTER(c_void_p), c_size_t, c_void_p, c_void_p),
            f"event_{self.sent}_result": (c_void_p, c_void_p),
            f"{self.sent}_result_groups": (POINTER(c_void_p), c_void_p, POINTER(c_size_t)),
        }


_LIST: Final = _Request(
    "ListConsumerGroupOffsets", "ListConsumerGroupOffsets", in_vain="no broker has told the offsets of the group"
)
_ALTER: Final = _Request("AlterConsumerGroupOffsets", "AlterConsumerGroupOffsets")
_REMOVE: Final = _Request("DeleteConsumerGroupOffsets", "DeleteConsumerGroupOffsets")
_DELETE: Final = _Request("DeleteGroups", "DeleteGroup", names_partitions=False)

_c: Final = functions(
    {  # result, arguments
        "AdminOptions_new": (c_void_p, c_void_p, c_int),
        "AdminOptions_set_request_timeout": (c_int, c_void_p, c_int, c_char_p, c_size_t),
        "AdminOptions_set_require_stable_offsets": (c_void_p, c_void_p, c_int),
        "AdminOptions_destroy": (None, c_void_p),
        "topic_partition_list_new": (POINTER(Partitions), c_int),
        "topic_partition_list_add": (POINTER(Partition), POINTER(Partitions), c_char_p, c_int32),
        "topic_partition_list_destroy": (None, POINTER(Partitions)),
        "mem_malloc": (c_void_p, c_void_p, c_size_t),
        "group_result_error": (c_void_p, c_void_p),
        "group_result_partitions": (POINTER(Partitions), c_void_p),
        "error_code": (c_int, c_void_p),
        "error_string": (c_char_p, c_void_p),
        "queue_new": (c_void_p, c_void_p),
        "queue_poll": (c_void_p, c_void_p, c_int),
        "queue_destroy": (None, c_void_p),
        "event_error": (c_int, c_void_p),
        "event_error_string": (c_char_p, c_void_p),
        "event_destroy": (None, c_void_p),
        **_LIST.signatures(),
        **_ALTER.signatures(),
        **_REMOVE.signatures(),
        **_DELETE.signatures(),
    }
)


class _Asked(NamedTuple):
    """A request about one group."""

    request: _Request
    partitions: Iterable[GroupOffset] | None = None
    """Partitions of the request; None: all that have an offset."""
    stable: bool = False

    def send(self, handle: c_void_p, group: str, queue: int) -> None:
        with contextlib.ExitStack() as at_end:
            options = _c["AdminOptions_new"](handle, _ANY_REQUEST)
            at_end.callback(_c["AdminOptions_destroy"], options)
            why = ctypes.create_string_buffer(_WHY_BYTES)
            _c["AdminOptions_set_request_timeout"](options, _LONGEST_MS, why, len(why))
            if self.stable:
                _c["AdminOptions_set_require_stable_offsets"](options, 1)
            listed = None if self.partitions is None else _listed(list(self.partitions), at_end)
            named = [listed] if self.request.names_partitions else []
            one = c_void_p(_c[f"{self.request.of_one}_new"](group.encode(), *named))
            at_end.callback(_c[f"{self.request.of_one}_destroy"], one)
            _c[self.request.sent](handle, ctypes.byref(one), 1, options, queue)


class GroupOffsets:
    """Requests to one cluster; thread-safe."""

    def __init__(self, config: Mapping[str, Any], failures: Callable[[KafkaError], None] | None = None) -> None:
        """`config` is librdkafka's, for an admin client; `failures` is called with failed connections."""
        # Otherwise librdkafka asks the known broker of a group for a quarter of an hour, whatever it answers.
        self._config = {**config, "enable.auto.commit": False, "metadata.max.age.ms": 1}
        if failures is not None:
            self._config["error_cb"] = failures
        self._lock = threading.Lock()
        self._client: Any = None
        self._statistics: ClientStatistics | None = None

    def committed(
        self,
        group: str,
        partitions: Iterable[GroupOffset] | None = None,
        stable: bool = False,
        timeout_s: float = 30.0,
    ) -> Answer:
        """Request the group's offsets in these partitions, or in all that have one; negative if there is none.

        `stable`: UNSTABLE_OFFSET_COMMIT while a transaction that commits offsets is open.

        Errors, as of all methods: KafkaException if the client cannot be created.
        """
        return Answer(self, group, [_Asked(_LIST, partitions, stable)], timeout_s)

    def commit(self, group: str, offsets: Iterable[GroupOffset], timeout_s: float = 30.0) -> Answer:
        """Set these offsets of a group without members."""
        return self._changed(group, _Asked(_ALTER, list(offsets)), timeout_s)

    def forget(self, group: str, partitions: Iterable[GroupOffset], timeout_s: float = 30.0) -> Answer:
        """Remove the offsets of these partitions; no member may read from their topics."""
        return self._changed(group, _Asked(_REMOVE, list(partitions)), timeout_s)

    def delete(self, group: str, timeout_s: float = 30.0) -> Answer:
        """Delete a group without members; the answer has no partitions."""
        return self._changed(group, _Asked(_DELETE), timeout_s)

    def poll(self) -> None:
        """Deliver the client's reports, which it would otherwise keep; `Answer.result` does so, too."""
        if self._client is not None:
            self._client.poll(0)

    @property
    def is_cut_off(self) -> bool:
        """True if no broker was connected at the last report; a consumer connects to its group's broker by itself."""
        return self._statistics is not None and self._statistics.is_cut_off

    def handle(self, group: str) -> c_void_p:
        """Return librdkafka's client, created at the first call.

        It looks for the coordinator of its own group, which it never joins. That group is the first one requested,
        because the user must be allowed to see that one anyway.
        """
        with self._lock:
            if self._client is None:
                own = {**self._config, "group.id": group}
                self._statistics = ClientStatistics("admin-client", own)
                client_log = logging.getLogger(f"{__name__}.client")
                self._client = Consumer({**own, **self._statistics.settings()}, logger=client_log)
                self._statistics.watch(self._client)
        if (handle := handle_of(self._client)) is None:
            raise ImportError(
                "This confluent-kafka keeps librdkafka's client elsewhere than 2.16 does, so the offsets of groups "
                "cannot be asked for. Install another one: pip install 'confluent-kafka>=2.16,<2.17'."
            )
        return handle

    def _changed(self, group: str, change: _Asked, timeout_s: float) -> Answer:
        """Make a change. The group's offsets are asked for first.

        The change is sent once the coordinator has answered that.
        """
        return Answer(self, group, [_Asked(_LIST, change.partitions), change], timeout_s)


def without_errors(answered: Sequence[GroupOffset]) -> Sequence[GroupOffset]:
    """Return the answers unchanged. Errors: KafkaException of the first partition with an error."""
    for one in answered:
        if one.error is not None:
            raise KafkaException(one.error)
    return answered


class Answer:
    """A pending answer of Kafka, returned once; for one thread."""

    def __init__(self, client: GroupOffsets, group: str, steps: Sequence[_Asked], timeout_s: float) -> None:
        """Send the first step; `result` sends each further step once the one before is answered."""
        self._client = client
        self._handle = client.handle(group)
        self._group = group
        self._steps = list(steps)
        self._ends = time.monotonic() + timeout_s
        self._again_s, self._ask_again_at = _AGAIN_S, 0.0
        self._queue = self._new_queue()
        if not client.is_cut_off:
            self._send()

    def _new_queue(self) -> int:
        queue: int = _c["queue_new"](self._handle)
        weakref.finalize(self, _c["queue_destroy"], queue).atexit = False
        return queue

    def _send(self) -> None:
        self._steps[0].send(self._handle, self._group, self._queue)
        self._ask_again_at = time.monotonic() + self._again_s

    def result(self, timeout_s: float | None = None) -> list[GroupOffset]:
        """Wait up to `timeout_s` for the last step's answer; return it for each partition.

        Errors: TimeoutError if it is not there yet; KafkaException if it is an error of the whole group.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            event = self._event(until)
            try:
                offsets = self._offsets(event)
            except KafkaException as error:
                if not self._may_ask_again(error):
                    raise
                time.sleep(_PAUSE_S)
            else:
                if len(self._steps) == 1:
                    return offsets
                del self._steps[0]
            finally:
                _c["event_destroy"](event)
            self._send()

    def _may_ask_again(self, error: KafkaException) -> bool:
        """True if a request for offsets failed with one of `_EARLY` and time is left."""
        is_early = error.args[0].code() in _EARLY and self._steps[0].request is _LIST
        return is_early and time.monotonic() + _PAUSE_S < self._ends

    def _event(self, until: float | None) -> int:
        while True:
            self._client.poll()
            left_s = _CHECK_EVERY_S if until is None else until - time.monotonic()
            event: int = _c["queue_poll"](self._queue, int(1000 * max(0.0, min(left_s, _CHECK_EVERY_S))))
            if event:
                return event
            if time.monotonic() > self._ends:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, self._steps[0].request.in_vain))
            is_late = self._steps[0].request is _LIST and time.monotonic() > self._ask_again_at
            if is_late and not self._client.is_cut_off:
                self._queue = self._new_queue()  # the former request may still be answered, in its own queue
                self._send()
                self._again_s *= 2
            if left_s <= 0:
                raise TimeoutError("Kafka has not answered yet")

    def _offsets(self, event: int) -> list[GroupOffset]:
        if code := _c["event_error"](event):
            raise KafkaException(KafkaError(code, _text(_c["event_error_string"](event))))
        count = c_size_t()
        sent = self._steps[0].request.sent
        result = _c[f"event_{sent}_result"](event)
        group = _c[f"{sent}_result_groups"](result, ctypes.byref(count))[0]
        if (error := _c["group_result_error"](group)) and (code := _c["error_code"](error)):
            raise KafkaException(KafkaError(code, _text(_c["error_string"](error))))
        found = _c["group_result_partitions"](group)
        if not found:
            return []
        listed = found.contents
        return [_offset(listed.elements[number]) for number in range(listed.count)]


def _listed(offsets: Sequence[GroupOffset], at_end: contextlib.ExitStack) -> Any:
    """Convert offsets to librdkafka's list, which it copies into a request."""
    listed = _c["topic_partition_list_new"](len(offsets))
    at_end.callback(_c["topic_partition_list_destroy"], listed)
    for one in offsets:
        element = _c["topic_partition_list_add"](listed, one.topic.encode(), one.partition).contents
        element.offset = one.offset
        if metadata := one.metadata.encode():
            element.metadata = _c["mem_malloc"](None, len(metadata))  # librdkafka frees it with the list
            ctypes.memmove(element.metadata, metadata, len(metadata))
            element.metadata_size = len(metadata)
    return listed


def _offset(of: Partition) -> GroupOffset:
    metadata = ctypes.string_at(of.metadata, of.metadata_size) if of.metadata else b""
    error = KafkaError(of.err) if of.err else None
    return GroupOffset(_text(of.topic), of.partition, of.offset, _text(metadata), error)


def _text(given: bytes | None) -> str:
    return (given or b"").decode(errors="replace")


_kept: Final[dict[tuple[str, bool], GroupOffsets]] = {}
_lock: Final = threading.Lock()


def kept_client(config: Mapping[str, Any], failures: Callable[[KafkaError], None] | None = None) -> GroupOffsets:
    """Return the client of this configuration, kept for the process's life; its `client.id` is the first caller's.

    `failures`: callback of the first caller with one; callers without one share a separate client.
    """
    key = client_key(config), failures is None
    with _lock:
        if key not in _kept:
            _kept[key] = GroupOffsets(config, failures)
        return _kept[key]


def poll_clients() -> None:
    """Call `GroupOffsets.poll` of all kept clients; to be called now and then."""
    with _lock:
        clients = list(_kept.values())
    for client in clients:
        client.poll()
