"""A catalog in memory, which keeps what it was asked and can be moved by others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connectors.lake.iceberg.parts import Content, TableCommit
from headrace.connectors.lake.iceberg.schema_json import new_schema, struct_of
from headrace.connectors.lake.iceberg.schemas import Changes, Field, Struct
from headrace.connectors.lake.iceberg.sink.preview import applied
from headrace.connectors.lake.iceberg.tables import Marks, PartitionSpec, TableState
from headrace.plugins.offsets import TopicPartition


@dataclass
class FakeTable:
    """A table, its rows and the marks in it."""

    state: TableState
    marks: dict[TopicPartition, int] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)
    deletes: list[dict[str, object]] = field(default_factory=list)
    commits: list[TableCommit] = field(default_factory=list)


@dataclass
class FakeCatalog:
    """Implements `catalog.Catalog`."""

    tables: dict[str, FakeTable] = field(default_factory=dict)
    fails_after: Exception | None = None
    """Raised once, by a commit that has succeeded."""
    loads: int = 0

    def load(self, table: str) -> TableState | None:
        self.loads += 1
        found = self.tables.get(table)
        return None if found is None else replace(found.state, is_empty=not found.rows)

    def create(
        self,
        table: str,
        schema: Struct,
        partition_by: Sequence[str],
        identifier: Sequence[str],
        properties: Mapping[str, str],
    ) -> TableState:
        made = struct_of(new_schema(schema, identifier))
        keys = tuple(identifier)
        state = TableState(table, str(uuid4()), 2, 0, made, PartitionSpec(0), keys, properties, 0, True)
        self.tables[table] = FakeTable(state)
        return state

    def evolve(self, table: str, changes: Changes) -> TableState:
        found = self.tables[table]
        schema = found.state.schema
        for change in changes:
            schema = applied(schema, change)
        ids = range(1000 + found.state.schema_id * 100, 10_000)
        fields = tuple(replace(one, id=one.id or new) for one, new in zip(schema.fields, ids, strict=False))
        found.state = replace(found.state, schema=Struct(fields), schema_id=found.state.schema_id + 1)
        return found.state

    def marks(self, table: str, topic_ids: Mapping[str, str]) -> Marks:
        return dict(self.tables[table].marks)

    def set_marks(self, table: str, topic_ids: Mapping[str, str], marks: Marks | None) -> None:
        self.tables[table].marks = {p: at for p, at in self.tables[table].marks.items() if p.topic not in topic_ids}

    def commit(self, commits: Sequence[TableCommit], topic_ids: Mapping[str, str]) -> Mapping[str, bool]:
        answers = {}
        for one in commits:
            found = self.tables[one.table]
            answers[one.table] = all(found.marks.get(p) == at for p, at in one.begins.items())
            files = [file for part in one.parts for file in part.files]
            for file in files:
                read = pq.read_table(pa.OSFile(file.local)).to_pylist()
                os.unlink(file.local)
                if answers[one.table]:
                    (found.rows if file.content is Content.DATA else found.deletes).extend(read)
            if answers[one.table]:
                found.marks |= one.positions
                found.commits.append(one)
        if (failure := self.fails_after) is not None:
            self.fails_after = None
            raise failure
        return answers

    def close(self) -> None:
        """Nothing is open."""


def columns(**kinds: str) -> Struct:
    """A schema; a kind with `!` is required."""
    return Struct(
        tuple(
            Field(number, name, kind.rstrip("!"), kind.endswith("!"))
            for number, (name, kind) in enumerate(kinds.items(), 1)
        )
    )
