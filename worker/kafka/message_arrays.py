"""Rows as librdkafka's C structs, the arguments of `rd_kafka_produce_batch` and `rd_kafka_produceva`.

numpy fills arrays with addresses inside the rows' buffers, which must outlive the calls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_void_p
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.plugins.interop.kafka.librdkafka_internals import (
    ARGUMENT_BYTES,
    Argument,
    Numbers,
    arguments_in,
    new_messages,
)
from headrace.worker.kafka.distinct import is_uniform

TopicOf: TypeAlias = Callable[[str], int | None]
"""Returns the handle of a topic; None if no topic can have the name."""

ANY_PARTITION: Final = -1
COPY: Final = 0x2
"""librdkafka copies a message before the call returns."""
AT_ONCE: Final = 8000
"""Arguments built at once: few enough to stay in the processor's cache."""
_ARGUMENTS: Final = (
    Argument.TOPIC,
    Argument.PARTITION,
    Argument.VALUE,
    Argument.KEY,
    Argument.TIMESTAMP,
    Argument.FLAGS,
    Argument.OPAQUE,
)
"""Arguments of every row; its headers follow."""


def messages_of(rows: pa.RecordBatch, numbers: Numbers | None) -> npt.NDArray[Any]:
    """Build a message for each row from its key, value and number, if any. Errors: TypeError."""
    messages = new_messages(len(rows))
    messages["payload"], messages["len"] = _addresses(rows["value"])
    messages["key"], messages["key_len"] = _addresses(rows["key"])
    if numbers is not None:
        messages["opaque"] = numbers
    return messages


def arguments_of(
    rows: pa.RecordBatch, topic_of: TopicOf, numbers: Numbers | None
) -> Iterator[tuple[Sequence[object], Sequence[int]]]:
    """Yield the address and count of each row's arguments, in pieces; each piece is valid until the next.

    Errors: TypeError.
    """
    headers = _Headers(rows["headers"])
    width = len(_ARGUMENTS) + headers.most
    at_once = max(1, min(len(rows), AT_ONCE // width))
    arguments, addresses = _slots.of(at_once, width)
    arguments["type"] = [*_ARGUMENTS, *[Argument.HEADER] * headers.most]
    differing = []
    for argument, member, given in _own_arguments(rows, topic_of, numbers):
        index = _ARGUMENTS.index(argument)
        if isinstance(given, int):
            arguments[member][:, index] = given
        else:
            differing.append((index, member, given))
    for begin in range(0, len(rows), at_once):
        piece = slice(begin, min(begin + at_once, len(rows)))
        count = piece.stop - begin
        for index, member, values in differing:
            arguments[member][:count, index] = values[piece]
        headers.write(piece, arguments[:count, len(_ARGUMENTS) :])
        yield addresses[:count], (headers.counts[piece] + len(_ARGUMENTS)).tolist()


def _own_arguments(
    rows: pa.RecordBatch, topic_of: TopicOf, numbers: Numbers | None
) -> Iterator[tuple[int, str, int | Numbers]]:
    """Yield triples: an argument of `_ARGUMENTS`, a member of its struct, and that member's value.

    The value is an array of one a row, or an int for all rows.
    """
    names, which = _numbered(rows["topic"])
    topics = np.array([topic_of(name) or 0 for name in names], np.uint64)
    if not topics.all():
        # Impossible name: given as TOPIC_NAME, librdkafka refuses the record; without any topic it would crash.
        yield Argument.TOPIC, "type", np.where(topics, Argument.TOPIC, Argument.TOPIC_NAME)[which]
    yield Argument.TOPIC, "at", int(topics[0]) if len(topics) == 1 else topics[which]
    yield Argument.PARTITION, "at", _integers(rows["partition"], ANY_PARTITION)
    for argument, column in ((Argument.VALUE, rows["value"]), (Argument.KEY, rows["key"])):
        if column.null_count < len(column):
            at, size = _addresses(column)
            yield argument, "at", at
            yield argument, "size", size
    yield Argument.TIMESTAMP, "at", _integers(rows["timestamp"], int(time.time() * 1000))
    yield Argument.FLAGS, "at", COPY
    if numbers is not None:
        yield Argument.OPAQUE, "at", numbers


class _Slots(threading.local):
    """Memory of each thread for arguments, kept between batches.

    Decided: because allocating it for each batch took as long as sending its rows (1,000 rows: 1.9 us each, now 0.6;
    10,000 rows: 0.75, now 0.42); loses: up to half a megabyte for each thread that sent many rows.
    """

    def __init__(self) -> None:
        self._made(0, 0)

    def of(self, rows: int, width: int) -> tuple[npt.NDArray[Any], Sequence[object]]:
        """Return zeroed arguments for `rows`, and the address of each row's; valid until the next call."""
        if width != self._width or rows > len(self._addresses):
            self._made(rows, width)
        self._bytes[: rows * width * ARGUMENT_BYTES] = 0
        return self._arguments[:rows], self._addresses[:rows]

    def _made(self, rows: int, width: int) -> None:
        self._width = width
        self._bytes = np.empty(rows * width * ARGUMENT_BYTES, np.uint8)
        self._arguments = arguments_in(self._bytes).reshape(rows, width)
        begin, size = self._bytes.ctypes.data, width * ARGUMENT_BYTES
        self._addresses = [c_void_p.from_param(begin + size * row) for row in range(rows)]


_slots: Final = _Slots()


class _Headers:
    """Headers of rows as arguments of `rd_kafka_produceva`; must outlive the calls.

    C cannot read a name beyond a NUL: such a header gets an unknown type, and librdkafka refuses the record as invalid.
    """

    def __init__(self, column: pa.ListArray) -> None:
        self.counts = np.zeros(len(column), np.int64)
        """Number of headers of each row."""
        if column.null_count < len(column):
            self.counts += pc.list_value_length(column).fill_null(0).to_numpy()
        self.most = int(self.counts.max(initial=0))
        if not self.most:
            return
        self._first = np.concatenate([[0], np.cumsum(self.counts)])
        pairs = column.flatten()
        self._values = pairs.field("value")
        self._value_addresses, self._value_sizes = _addresses(self._values)
        names, which = _numbered(pairs.field("key").fill_null(""))
        encoded = [name.encode() for name in names]
        self._types = np.array([Argument.UNKNOWN if b"\0" in name else Argument.HEADER for name in encoded], np.int32)[
            which
        ]
        self._names = np.frombuffer(b"".join(name + b"\0" for name in encoded), np.uint8)
        begins = np.cumsum([0, *(len(name) + 1 for name in encoded)])[:-1] + self._names.ctypes.data
        self._name_addresses = begins.astype(np.uint64)[which]

    def write(self, rows: slice, arguments: npt.NDArray[Any]) -> None:
        if not self.most:
            return
        counts, first = self.counts[rows], self._first[rows.start : rows.stop + 1]
        piece = slice(first[0], first[-1])
        row = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(piece.start, piece.stop) - np.repeat(first[:-1], counts)
        arguments["type"][row, place] = self._types[piece]
        arguments["at"][row, place] = self._name_addresses[piece]
        arguments["header_at"][row, place] = self._value_addresses[piece]
        arguments["header_size"][row, place] = self._value_sizes[piece]


def _integers(column: pa.Array, if_null: int) -> int | Numbers:
    """Return the bits of each row's integer, or one integer if all rows share it."""
    if is_uniform(column):
        value: int | None = column[0].as_py()
        return (if_null if value is None else value) % (1 << 64)
    known = column.fill_null(if_null) if column.null_count else column
    values: npt.NDArray[np.int64] = known.to_numpy().astype(np.int64)
    return values.view(np.uint64)


def _numbered(texts: pa.StringArray) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the distinct texts, and each row's index among them. Shape: at least one row."""
    if is_uniform(texts):
        return [texts[0].as_py()], np.zeros(len(texts), np.int64)
    encoded = texts.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def bytes_of(column: pa.Array) -> list[bytes | None]:
    """Return each value as bytes. Errors: TypeError if the column is neither bytes nor text."""
    if not pa.types.is_binary(column.type) and column.null_count < len(column):
        _is_large(column.type)
        column = column.cast(pa.large_binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def _is_large(of_type: pa.DataType) -> bool:
    """True if the type's offsets have 64 bits. Errors: TypeError if it is neither bytes nor text."""
    large: bool = pa.types.is_large_binary(of_type) or pa.types.is_large_string(of_type)
    if not large and not pa.types.is_binary(of_type) and not pa.types.is_string(of_type):
        raise TypeError(f"Keys and values go to Kafka as bytes, not as {of_type}")
    return large


def _addresses(column: pa.Array) -> tuple[Numbers, Numbers]:
    """Return each value's address and size, 0 and 0 for a null; valid as long as the column."""
    if column.null_count == len(column):
        nowhere = np.zeros(len(column), np.uint64)
        return nowhere, nowhere
    large = _is_large(column.type)
    _, offsets, data = column.buffers()
    whole = np.int64 if large else np.int32
    ends = np.frombuffer(offsets, whole, len(column) + 1, column.offset * np.dtype(whole).itemsize)
    # Without a data buffer all values are empty, not null: any address but 0 says so.
    begin = np.uint64(offsets.address if data is None else data.address)
    addresses, sizes = ends[:-1].astype(np.uint64) + begin, np.diff(ends).astype(np.uint64)
    if column.null_count:
        null = column.is_null().to_numpy(zero_copy_only=False)
        addresses[null], sizes[null] = 0, 0
    return addresses, sizes
