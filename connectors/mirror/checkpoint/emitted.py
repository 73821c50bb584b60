"""The last written checkpoint of each group and partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.connectors.mirror.formats import Checkpoint
from headrace.plugins.offsets import TopicPartition


class EmittedCheckpoints:
    """The last checkpoints of some groups."""

    def __init__(self, groups: Collection[str]) -> None:
        self._by_group: dict[str, dict[TopicPartition, Checkpoint]] = {group: {} for group in groups}

    def add(self, checkpoint: Checkpoint) -> None:
        """Note a checkpoint that is in the topic; ignore one of another group."""
        if (of_group := self._by_group.get(checkpoint.group)) is not None:
            of_group[TopicPartition(checkpoint.topic, checkpoint.partition)] = checkpoint

    def forget_after(self, at: TopicPartition, end: int) -> None:
        """Forget checkpoints of a target partition beyond an end that it had at some time.

        Invariant 2: they belong to a copy that was deleted and made again. They would keep groups from going back with
        it.
        """
        for of_group in self._by_group.values():
            last = of_group.get(at)
            if last is not None and last.downstream_offset > end + 1:  # a group that has read all is one after
                del of_group[at]

    def of_group(self, group: str) -> Mapping[TopicPartition, Checkpoint]:
        """The group's last checkpoints, by the partitions of the target cluster."""
        return self._by_group[group]

    def is_news(self, checkpoint: Checkpoint) -> bool:
        """True if it has to be written: the group went on in the target's terms, or was moved back in the source's.

        Invariant 2: an older offset sync, or none at all after a restart, never takes a group back.
        """
        last = self._by_group[checkpoint.group].get(TopicPartition(checkpoint.topic, checkpoint.partition))
        if last is None:
            return True
        moved_back = checkpoint.upstream_offset < last.upstream_offset
        return moved_back or checkpoint.downstream_offset > last.downstream_offset
