"""confluent-kafka's private names, and the memory of librdkafka's structs.

librdkafka's symbols are reached through confluent-kafka's extension module, so that both always use the same library.
Seen in confluent-kafka 2.16 (whose struct of a client is private) and librdkafka 2.16 (whose structs are part of its
stable ABI). No other module knows a layout (`tests/unit/test_private_names.py`).

Source: the comments of librdkafka's rdkafka.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, Producer, cimpl

Numbers: TypeAlias = npt.NDArray[np.uint64]

_BYTES: Final = 176
"""Size of confluent-kafka's struct of a client, whose first member is librdkafka's client."""
_CLIENTS: Final = (Consumer, Producer, cimpl._AdminClientImpl)


def functions(signatures: Mapping[str, tuple[Any, ...]], keeps_lock: bool = False) -> dict[str, Any]:
    """Return functions by name without `rd_kafka_`; a signature has the type of the result, then of the arguments.

    `keeps_lock`: a call keeps Python's lock. Errors: ImportError.
    """
    found, library = {}, (ctypes.PyDLL if keeps_lock else ctypes.CDLL)(cimpl.__file__)
    for name, (result, *arguments) in signatures.items():
        try:
            function = library[f"rd_kafka_{name}"]
        except AttributeError as error:
            raise ImportError(
                f"librdkafka's rd_kafka_{name} cannot be reached through {cimpl.__file__}: confluent-kafka was built "
                "so that it hides librdkafka. Install its wheel (pip install --only-binary :all: confluent-kafka)."
            ) from error
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found


def handle_of(client: Any) -> c_void_p | None:
    """Return librdkafka's client, valid while `client` lives; None if confluent-kafka's layout is unknown."""
    kind = next((one for one in _CLIENTS if isinstance(client, one)), None)
    if kind is None or kind.__basicsize__ != _BYTES:
        return None
    return c_void_p.from_address(id(client) + object.__basicsize__)


class Partition(ctypes.Structure):
    """rd_kafka_topic_partition_t."""

    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("_private", c_void_p),
    )


class Partitions(ctypes.Structure):
    """rd_kafka_topic_partition_list_t."""

    _fields_ = (("count", c_int), ("size", c_int), ("elements", POINTER(Partition)))


_MESSAGE: Final = np.dtype(
    {
        "names": ["err", "payload", "len", "key", "key_len", "opaque"],
        "formats": ["i4", "u8", "u8", "u8", "u8", "u8"],
        "offsets": [0, 24, 32, 40, 48, 64],
        "itemsize": 72,
    }
)
_TOPIC_AT, _PARTITION_AT, _OFFSET_AT, _OPAQUE_AT = 8, 16, 56, 64
_FIRST: Final = 8
_MEMORY: Final = np.frombuffer(memoryview((c_int64 * (1 << 45)).from_address(_FIRST)), np.int64)
"""All addresses of the process, from the first after the null pointer."""


def new_messages(count: int) -> npt.NDArray[Any]:
    """Return zeroed rd_kafka_message_t, with the fields that `rd_kafka_produce_batch` reads and sets."""
    return np.zeros(count, _MESSAGE)


def error_of(message: int) -> int:
    """Return the error code of the rd_kafka_message_t at this address."""
    return c_int32.from_address(message).value


def topic_of(message: int) -> c_void_p:
    """Return the handle of the message's topic."""
    return c_void_p(c_void_p.from_address(message + _TOPIC_AT).value)


def partition_of(message: int) -> int:
    """Return the message's partition."""
    return c_int32.from_address(message + _PARTITION_AT).value


def offset_of(message: int) -> int:
    """Return the message's offset; negative if unknown."""
    return c_int64.from_address(message + _OFFSET_AT).value


def opaques_and_offsets(messages: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the opaque value and the offset of each message, from an array of addresses.

    Decided: one numpy look-up over all memory reads the fields of many messages, because a ctypes call for each costs
    as much as sending it; loses: nothing checks the addresses, which are librdkafka's.
    """
    addresses = np.frombuffer(messages, np.int64)
    return _MEMORY[(addresses + _OPAQUE_AT - _FIRST) >> 3], _MEMORY[(addresses + _OFFSET_AT - _FIRST) >> 3]


_ARGUMENT: Final = np.dtype(
    {
        "names": ["type", "at", "size", "header_at", "header_size"],
        "formats": ["i4", "u8", "u8", "u8", "u8"],
        "offsets": [0, 8, 16, 16, 24],
        "itemsize": 72,
    }
)
ARGUMENT_BYTES: Final = _ARGUMENT.itemsize
"""Size of rd_kafka_vu_t."""


def arguments_in(memory: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """View this memory as arguments of `rd_kafka_produceva`: type, value or address, and size.

    A header has its name at `at` and its value at `header_at`.
    """
    return memory.view(_ARGUMENT)


class Argument(IntEnum):
    """Types of these arguments."""

    UNKNOWN = 0
    TOPIC_NAME = 1
    TOPIC = 2
    PARTITION = 3
    VALUE = 4
    KEY = 5
    OPAQUE = 6
    FLAGS = 7
    TIMESTAMP = 8
    HEADER = 9
