"""The offset syncs of a flow, read from their topic as they come; on the thread of the caller.

Those of the opposite flow, reversed, translate the offsets of copies back to those of their originals: a group that
read `A.orders` in B goes on in `orders` of A. The argument is the same: a record that follows a sync in one cluster
follows it in the other.
"""

from __future__ import annotations

import logging
from typing import Final, TypeVar

from confluent_kafka import Message

from headrace.connectors.mirror.checkpoint.offset_syncs import OffsetSyncs
from headrace.connectors.mirror.checkpoint.topic_reader import TopicReader
from headrace.connectors.mirror.formats import Checkpoint, FormatError, OffsetSync
from headrace.plugins.offsets import TopicPartition

log = logging.getLogger(__name__)

SLICE_S: Final = 0.5
"""A topic is read for so long at a time; in between the task checks if it has to end."""
_Record = TypeVar("_Record", Checkpoint, OffsetSync)


class FollowedSyncs:
    """The syncs of one flow; partitions are those of its source cluster, also if `is_opposite`."""

    def __init__(self, reader: TopicReader, latest_only: bool, is_opposite: bool = False) -> None:
        """`latest_only`: nothing before the last sync that is there now may be translated."""
        self._reader = reader
        self._syncs = OffsetSyncs()
        self._syncs.latest_only = latest_only
        self._is_opposite = is_opposite

    def read(self) -> bool:
        """Take the new syncs; True if the topic was read to its end once. Errors: NotAllowed."""
        reader = self._reader
        was_read = reader.is_read
        for message in reader.read(0.0 if reader.is_read or self._is_opposite else SLICE_S, SLICE_S):
            if (sync := decoded(OffsetSync, message, reader.topic)) is not None:
                self._syncs.add(_turned(sync) if self._is_opposite else sync)
        if reader.is_read:
            self._syncs.latest_only = False
            if not was_read:
                self._syncs.went_back = self._syncs.ends()
        return reader.is_read

    def take_ends(self) -> dict[TopicPartition, int]:
        """Return the ends of copies that were not returned yet: a checkpoint beyond such an end is of a former copy.

        The first result, once the topic was read to its end, has all partitions. Later ones have those whose copies
        were made again.
        """
        if not self._reader.is_read:
            return {}
        found, self._syncs.went_back = self._syncs.went_back, {}
        return found

    def translate(self, at: TopicPartition, offset: int) -> int | None:
        """The offset in the other cluster at which a group at this offset goes on; None if unknown."""
        return self._syncs.translate(at, offset) if self._reader.is_read else None

    def close(self) -> None:
        """Read no more."""
        self._reader.close()


def _turned(sync: OffsetSync) -> OffsetSync:
    return OffsetSync(sync.topic, sync.partition, sync.downstream_offset, sync.upstream_offset)


def decoded(kind: type[_Record], message: Message, topic: str) -> _Record | None:
    """Decode a record; None for a tombstone, and for other bytes, which are logged."""
    key, value = message.key(), message.value()
    if key is None or value is None:
        return None
    try:
        return kind.of(key, value)
    except FormatError as error:
        log.warning("A record in topic %s is left out: it is %s", topic, error)
        return None
