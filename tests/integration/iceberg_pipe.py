"""Topics of numbered records, sinks that bring them into tables of Iceberg, and what these must have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Final

from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.iceberg_tables import LakeTable, Row
from tests.integration.worker_process import Topic

SINK: Final = "org.apache.iceberg.connect.IcebergSinkConnector"
TABULAR: Final = "io.tabular.iceberg.connect.IcebergSinkConnector"
_FIELDS: Final = {"id": "int64", "part": "int32", "n": "int64", "op": "string"}
_SCHEMA: Final = {
    "type": "struct",
    "optional": False,
    "fields": [{"field": name, "type": kind, "optional": False} for name, kind in _FIELDS.items()],
}
_KEYS: Final = 500
"""Of a partition, in a table of keys."""
SOON_FORGOTTEN: Final = {
    "consumer.override.session.timeout.ms": "6000",
    "consumer.override.heartbeat.interval.ms": "2000",
}


class Pipe:
    """A topic whose sink appends each record to its table."""

    connector = SINK

    def __init__(
        self, bootstrap: str, server: IcebergRestServer, catalog: Mapping[str, str], partitions: int = 2, tasks: int = 2
    ) -> None:
        """`catalog`: its properties as Iceberg's library has them; `server`: its process reads the table."""
        self.topic, self.sent, self.partitions = Topic(bootstrap, "iceberg", partitions), 0, partitions
        self.table = LakeTable(server, catalog, f"db.{self.topic.name.replace('-', '_')}")
        self.config = {
            "connector.class": self.connector,
            "tasks.max": str(tasks),
            "topics": self.topic.name,
            "iceberg.tables": self.table.name,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "300",
            **{f"iceberg.catalog.{key}": value for key, value in catalog.items()},
            **SOON_FORGOTTEN,
        }

    def send(self, count: int) -> None:
        """So many more records are in each partition."""
        for partition in range(self.partitions):
            rows = [self.row(partition, number) for number in range(self.sent, self.sent + count)]
            self.topic.send([json.dumps({"schema": _SCHEMA, "payload": row}).encode() for row in rows], partition)
        self.sent += count

    def row(self, partition: int, number: int) -> Row:
        """The record at this offset."""
        return {"id": number * self.partitions + partition, "part": partition, "n": number, "op": "I"}

    def written(self) -> int:
        """Return the count of rows in all files that the table has; -1 if nobody can say."""
        try:
            snapshot = self.table.static().current_snapshot()
        except (LookupError, OSError):
            return -1
        return 0 if snapshot is None or snapshot.summary is None else int(snapshot.summary["total-records"] or 0)

    def is_complete(self) -> bool:
        """True once the table has all that was sent. Errors: AssertionError if it has a record twice."""
        if self.written() < self.partitions * self.sent:
            return False
        found = Counter(self.table.static().scan(row_filter="part >= 0").to_arrow()["id"].to_pylist())
        assert not (twice := [one for one, times in found.items() if times > 1]), f"twice: {sorted(twice)[:20]}"
        return found.keys() == set(range(self.partitions * self.sent))

    def check(self) -> None:
        """No file is left that the table does not have, but what commits that were broken off left as metadata."""
        left = {path for path in self.table.orphans() if "/data/" in path or "headrace" in path}
        assert not left, f"orphans: {sorted(left)[:20]}"


class KeyedPipe(Pipe):
    """A topic of changes; its sink keeps the last row of each key."""

    connector = TABULAR

    def __init__(
        self, bootstrap: str, server: IcebergRestServer, catalog: Mapping[str, str], partitions: int = 2, tasks: int = 2
    ) -> None:
        super().__init__(bootstrap, server, catalog, partitions, tasks)
        self.config |= {
            "iceberg.tables.cdc-field": "op",
            "iceberg.tables.default-id-columns": "id",
            "iceberg.tables.upsert-mode-enabled": "true",
        }

    def written(self) -> int:
        """Return the count of records that the table has the changes of, by its sink's marks; -1 if nobody can say."""
        try:
            snapshots = self.table.static().snapshots()
        except (LookupError, OSError):
            return -1
        summaries = [one.summary.additional_properties for one in snapshots if one.summary is not None]
        marks = [text for one in summaries for key, text in one.items() if key.startswith("headrace.offsets.")]
        topics = json.loads(marks[-1]).values() if marks else ()
        return sum(sum(topic["offsets"].values()) for topic in topics)

    def row(self, partition: int, number: int) -> Row:
        key = number * 7919 % _KEYS * self.partitions + partition
        return {"id": key, "part": partition, "n": number, "op": "D" if number % 5 == 4 else "U"}

    def is_complete(self) -> bool:
        if self.written() < 0:
            return False
        wanted: dict[int, Row] = {}
        for partition in range(self.partitions):
            for row in (self.row(partition, number) for number in range(self.sent)):
                wanted[row["id"]] = row
        rows = [row for row in self.table.rows("id") if row["part"] >= 0]
        assert len({row["id"] for row in rows}) == len(rows), f"a key twice: {rows[:20]}"
        return {row["id"]: row for row in rows} == {key: row for key, row in wanted.items() if row["op"] != "D"}
