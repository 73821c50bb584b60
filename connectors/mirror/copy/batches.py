"""Kafka's record batches (message format 2): their headers read, and stamped anew for another cluster.

Source: the comments of Kafka's DefaultRecordBatch; the record batch page of Kafka's protocol documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from headrace.connectors.mirror.copy.compression import SNAPPY, Codec, decompressed

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp, greatest timestamp,
producer id, producer epoch, base sequence, record count."""
_START: Final = struct.Struct(">qiib")
_LENGTH_AT: Final = 8
_LENGTH_END: Final = 12
"""The length of a batch counts from here."""
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_PRODUCER_AT: Final = 43
_ATTRIBUTES_AT: Final = 21
_RECORDS_AT: Final = _HEADER.size

_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40
_ABORT: Final = 0
"""The type of a control record that ends an aborted transaction."""
MOST_SEQUENCE: Final = 2**31


class CorruptBatch(Exception):
    """A batch's checksum does not fit its bytes."""


@dataclass(frozen=True)
class RecordBatch:
    """One batch as it lies in a partition."""

    data: memoryview
    base: int
    """The offset of its first record, even if compaction removed that."""
    last: int
    count: int
    """Its records; 0 in formats before 2, which do not tell."""
    attributes: int = 0
    max_timestamp: int = -1
    producer_id: int = -1
    magic: int = 2

    @property
    def is_control(self) -> bool:
        """True if it holds a transaction's end and no records."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        """True if it belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def codec(self) -> int:
        """The number of its compression."""
        return self.attributes & _CODEC

    @property
    def checksum(self) -> bytes:
        """Its checksum field, which covers all but its offset and leader."""
        return bytes(self.data[_CRC_AT:_CRC_FROM])

    @property
    def ends_aborted(self) -> bool:
        """True if this control batch ends an aborted transaction; control batches are never compressed."""
        # The record: length, attributes, timestamp delta and offset delta (a byte each), the key's length, its bytes:
        # version and type, of two bytes each.
        key_at = _RECORDS_AT + 5
        return self.is_control and int.from_bytes(self.data[key_at + 2 : key_at + 4], "big") == _ABORT

    def why_not_whole(self, position: int, codec: Codec | None = None) -> str | None:
        """The reason why a reader at this position cannot copy it unchanged, with this compression; None: it can."""
        if self.magic < 2:
            return f"its message format is {self.magic}"
        if self.base < position:
            return "it begins before the position"
        if self.count != self.last - self.base + 1:
            return "compaction took records out of it"
        if self.attributes & _LOG_APPEND_TIME:
            return "its timestamps are the source broker's"
        if codec is not None and codec.number != self.codec == SNAPPY:
            return "it is compressed with snappy, and is to be compressed otherwise"
        return None

    def stamped(
        self, producer_id: int, epoch: int, sequence: int, codec: Codec | None = None
    ) -> tuple[bytearray, bytes | memoryview]:
        """The batch for another cluster: at offset 0, of this producer, outside of transactions; header and records.

        `codec`: None keeps its compression, as does a batch that is too large once decompressed. Errors: CorruptBatch.
        """
        if crc32c(self.data[_CRC_FROM:]) != int.from_bytes(self.data[_CRC_AT:_CRC_FROM], "big"):
            raise CorruptBatch(f"the batch at offset {self.base} does not have the checksum that it names")
        attributes = self.attributes & ~(_TRANSACTIONAL | _DELETE_HORIZON)
        header = bytearray(self.data[:_RECORDS_AT])
        records: bytes | memoryview = self.data[_RECORDS_AT:]
        plain = None
        if codec is not None and codec.number != self.codec:
            plain = decompressed(self.data[_RECORDS_AT:], self.codec)
        if codec is not None and plain is not None:
            records = codec.compress(plain)
            attributes = attributes & ~_CODEC | codec.number
            struct.pack_into(">i", header, _LENGTH_AT, len(header) + len(records) - _LENGTH_END)
        struct.pack_into(">q", header, 0, 0)
        struct.pack_into(">i", header, _LENGTH_END, -1)
        struct.pack_into(">h", header, _ATTRIBUTES_AT, attributes)
        struct.pack_into(">qhi", header, _PRODUCER_AT, producer_id, epoch, sequence)
        struct.pack_into(">I", header, _CRC_AT, crc32c(records, crc32c(memoryview(header)[_CRC_FROM:])))
        return header, records


def batches_in(records: memoryview) -> Iterator[RecordBatch]:
    """The whole batches in a fetched answer, which may end within one."""
    at = 0
    while at + _START.size <= len(records):
        base, length, _, magic = _START.unpack_from(records, at)
        end = at + _LENGTH_END + length
        if length < 0 or end > len(records):
            return
        data = records[at:end]
        if magic < 2:
            yield RecordBatch(data, base, base, 0, magic=magic)
        else:
            header = _HEADER.unpack_from(data)
            yield RecordBatch(data, base, base + header[6], header[12], header[5], header[8], header[9])
        at = end
