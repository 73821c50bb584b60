"""The letters of a partition that were replayed, kept as the offset that is committed for the connector's group.

All below the offset were replayed, and of those beyond it the ones that the commit's metadata names: numbers of seven
bits a byte, in turn how many letters to pass and how many were replayed; compressed, in base64.

Decided: in the commit and not in a topic of its own, because it must survive the worker, move with the offset in one
step, and need no right but the group's; loses: Kafka keeps 4096 characters, some two thousand letters that lie apart
without any order, so a replay that would leave more is refused.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import TopicPartition

if TYPE_CHECKING:
    from headrace.worker.deadletters.letter_topic import LetterTopic

_TIMEOUT_S: Final = 15.0
_MOST_CHARACTERS: Final = 3_400
"""Below Kafka's default for `offset.metadata.max.bytes`, with room for the ranges that are added between two looks."""
_MOST_BYTES: Final = 1 << 16
_MARK: Final = "replayed:"

Range = tuple[int, int]
"""The first offset, and the one after the last."""


@dataclass(frozen=True)
class Replayed:
    """The offsets of one partition that were replayed."""

    next: int
    """All below it were."""
    beyond: tuple[Range, ...] = ()
    """Those that were above it, in order, apart from each other."""

    @classmethod
    def committed(cls, offset: int, metadata: str | None) -> Replayed:
        """Read a commit; metadata of others names no letter."""
        if offset < 0 or not metadata or not metadata.startswith(_MARK):
            return cls(max(0, offset))
        try:
            packed = base64.b64decode(metadata.removeprefix(_MARK), validate=True)
            numbers = _numbers(zlib.decompressobj().decompress(packed, _MOST_BYTES))
        except (ValueError, zlib.error):
            return cls(offset)
        ranges, at = list[Range](), offset
        for passed, count in zip(numbers[::2], numbers[1::2], strict=False):
            ranges.append((at + passed, at + passed + count))
            at += passed + count
        return cls(offset).adding(ranges)

    @property
    def metadata(self) -> str:
        """The text for the commit."""
        if not self.beyond:
            return ""
        raw, at = bytearray(), self.next
        for first, end in self.beyond:
            raw += _seven_bits(first - at) + _seven_bits(end - first)
            at = end
        return _MARK + base64.b64encode(zlib.compress(bytes(raw), 9)).decode()

    @property
    def is_full(self) -> bool:
        """True if the text for the commit has hardly room for more."""
        return len(self.metadata) > _MOST_CHARACTERS

    def __contains__(self, offset: int) -> bool:
        return offset < self.next or any(first <= offset < end for first, end in self.beyond)

    def adding(self, ranges: Iterable[Range]) -> Replayed:
        """Add offsets; what then adjoins the first ones belongs to them."""
        merged: list[Range] = [(0, self.next)]
        for first, end in sorted((*self.beyond, *ranges)):
            if first <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            else:
                merged.append((first, end))
        return Replayed(merged[0][1], tuple(merged[1:]))


def replayed(topic: LetterTopic, consumer: Any, partitions: Iterable[int]) -> dict[int, Replayed]:
    """Ask for what was replayed of each partition. Errors: KafkaException."""
    asked = [TopicPartition(topic.name, number) for number in partitions]
    found = consumer.committed(asked, timeout=_TIMEOUT_S) if asked else ()
    return {one.partition: Replayed.committed(one.offset, one.metadata) for one in found}


def _seven_bits(number: int) -> bytes:
    raw = bytearray()
    while number >= 128:
        raw.append(128 | number & 127)
        number >>= 7
    return bytes((*raw, number))


def _numbers(raw: bytes) -> list[int]:
    """Read numbers of seven bits a byte. Errors: ValueError for one beyond Kafka's offsets."""
    found, number, shift = list[int](), 0, 0
    for byte in raw:
        number |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise ValueError("it is no offset")
        if byte < 128:
            found.append(number)
            number = shift = 0
    return found
