"""Marks of Kafka partitions in a table: Delta's `txn` actions, whose version is the offset after the last record.

| app id | version |
|---|---|
| `headrace-<connector>-<topic's id>-<partition>` | the offset after the last record of this topic that the table has |
| `headrace-<connector>-<topic>-<partition>-operator` | an operator's offset since; -1: none, -2: no mark |

Each commit has both for each of its partitions, and Delta refuses a commit if another one has one of its app ids since
the version that it was made on. An operator's offsets have an id of their own, because a connector that is stopped does
not know its topics' ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.connectors.lake.delta.library import deltalake
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition

if TYPE_CHECKING:
    from deltalake import DeltaTable

_NOT_SET: Final = -1
_FORGOTTEN: Final = -2


@dataclass(frozen=True)
class Marks:
    """The marks of one connector."""

    connector: str
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Kafka's ids of topics; a topic without one has its name in the app id."""

    def read(self, table: DeltaTable, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the marks in this version of the table; partitions without one are left out.

        Errors: RetriableError if the table has some of a topic whose id Kafka does not tell now.
        """
        found = {one: self._read(table, one) for one in partitions}
        return {one: offset for one, offset in found.items() if offset is not None}

    def properties(self, marks: Mapping[TopicPartition, int]) -> Any:
        """Return the properties of a commit that sets these marks."""
        library = deltalake()
        made = [library.Transaction(self._app_id(one), offset) for one, offset in marks.items()]
        made += [library.Transaction(self._operator_id(one), _NOT_SET) for one in marks]
        return library.CommitProperties(app_transactions=made)

    def operator_properties(self, marks: Mapping[TopicPartition, int | None]) -> Any:
        """Return the properties of a commit for an operator; None: the table's mark is to be forgotten."""
        library = deltalake()
        made = [
            library.Transaction(self._operator_id(one), _FORGOTTEN if offset is None else offset)
            for one, offset in marks.items()
        ]
        return library.CommitProperties(app_transactions=made)

    def _read(self, table: DeltaTable, partition: TopicPartition) -> int | None:
        by_operator = table.transaction_version(self._operator_id(partition))
        if by_operator is None or by_operator == _NOT_SET:
            mark: int | None = table.transaction_version(self._app_id(partition))
            if mark is None and by_operator is not None and partition.topic not in self.topic_ids:
                # Each commit has both app ids, so that there is a mark under the topic's id.
                why = f"Kafka does not tell the id of topic {partition.topic}, which the offsets in the table are of"
                raise RetriableError(f"{why}; it is asked again")
            return mark
        return None if by_operator == _FORGOTTEN else by_operator

    def _app_id(self, partition: TopicPartition) -> str:
        topic, number = partition
        return f"headrace-{self.connector}-{self.topic_ids.get(topic, topic)}-{number}"

    def _operator_id(self, partition: TopicPartition) -> str:
        topic, number = partition
        return f"headrace-{self.connector}-{topic}-{number}-operator"
