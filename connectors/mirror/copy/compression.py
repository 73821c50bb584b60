"""The compression of record batches: kept, or changed to that of the target's producer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.config.kafka.client_config import ClientConfig

_NAMES: Final = {1: "gzip", 3: "lz4", 4: "zstd"}
"""Arrow's names of Kafka's codecs; its snappy does not know the frames that Kafka writes."""
SNAPPY: Final = 2
_NUMBERS: Final = {"none": 0, "snappy": SNAPPY} | {name: number for number, name in _NAMES.items()}

MOST_BYTES: Final = 64 << 20
"""The most bytes of a decompressed batch: a megabyte of zstd can become 32 GB."""
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Codec:
    """The wanted compression of batches."""

    number: int
    level: int | None = None

    @property
    def is_served(self) -> bool:
        """True if whole batches can be compressed so here."""
        return self.number != SNAPPY

    def compress(self, records: bytes) -> bytes:
        """The records of a batch, compressed."""
        if self.number == 0:
            return records
        name = _NAMES[self.number]
        codec = pa.Codec(name) if self.level is None else pa.Codec(name, self.level)
        compressed: bytes = codec.compress(records, asbytes=True)
        return compressed


def codec_of(producer: ClientConfig) -> Codec | None:
    """The compression in the producer's settings; None if they name none: batches keep theirs."""
    if "compression.type" not in producer.java:
        return None
    name = producer["compression.type"]
    level = producer.java.get(f"compression.{name}.level")
    return Codec(_NUMBERS[name], None if level is None else int(level))


def decompressed(records: memoryview, codec: int) -> bytes | None:
    """The records of a batch with this codec; None if they are more than `MOST_BYTES`."""
    if codec == 0:
        return bytes(records)
    pieces: list[bytes] = []
    size = 0
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(records)), _NAMES[codec]) as stream:
        while piece := stream.read(_PIECE):
            size += len(piece)
            if size > MOST_BYTES:
                return None
            pieces.append(piece)
    return b"".join(pieces)
