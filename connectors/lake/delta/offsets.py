"""An operator's change of a stopped connector's offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.connectors.lake.delta.access import Access
from headrace.connectors.lake.delta.marks import Marks
from headrace.connectors.lake.delta.settings import delta_options
from headrace.connectors.lake.delta.tables import Tables
from headrace.plugins.offsets import TopicPartition, kafka_offsets


def set_offsets(config: Mapping[str, str], worker: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """Make the connector's next tasks continue there; `body` is the request's. Rows in tables stay.

    Errors: NotImplementedError if transforms choose the tables; RetriableError, LakeError.
    """
    options = delta_options(config)
    tables = Tables(options, Marks(config["name"]), Access.of(options, worker).check)
    by_table = dict[str, dict[TopicPartition, int | None]]()
    for partition, offset in kafka_offsets(body).items():
        path = options.table_of_partition(partition.topic)
        if path is None:
            raise NotImplementedError(
                "The tables of this connector are chosen by its transforms, and each keeps offsets of its own, so that "
                "they cannot be set from here. Delete the tables to write them anew, with another connector name."
            )
        by_table.setdefault(path, {})[partition] = offset
    for path, marks in by_table.items():
        tables.set_marks(path, marks)
