"""The files that a sink would write some rows to.

They are written as always, but into a folder of this machine that is thrown away: so their names, their ends and the
values in them are those of the sink's own code. Of the store only markers and schemas are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.hive.metastore import MetastoreError
from headrace.connectors.hdfs.hive.tables import HiveTables
from headrace.connectors.hdfs.sink.commit_marker import CommitMarker
from headrace.connectors.hdfs.sink.newest_schemas import NewestSchemas
from headrace.connectors.hdfs.sink.partition_files import ClosedFile, OpenFile, PartitionFiles
from headrace.connectors.hdfs.sink.spec import FileSpec
from headrace.connectors.hdfs.sink.writer import by_partition, local_folder
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError
from headrace.plugins.extensions import Effect
from headrace.plugins.interop.formats.format import VALUE
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.record_api.unpacking import unpacked
from headrace.plugins.schema import Schema
from headrace.plugins.scratch import local_disk

_ROW: Final = "preview_row"
"""The column of rows' indexes."""


@dataclass
class PlannedFiles(PartitionFiles):
    """The files of one partition, and the rows in each."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    """The indexes of rows by the file on the local disk."""
    payloads: dict[str, list[pa.Array]] = field(default_factory=dict)

    def _append(self, file: OpenFile, rows: pa.RecordBatch) -> None:
        super()._append(file, rows)
        self.rows.setdefault(file.writer.local, []).extend(rows[_ROW].to_pylist())
        self.payloads.setdefault(file.writer.local, []).append(rows["value"])


@dataclass
class FilePreview:
    """The preview of one sink task."""

    spec: FileSpec
    hive: HiveTables | None
    notes: list[str] = field(default_factory=list)
    """Sentences for a reader of the effects."""

    def effects(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield each file, and the rows in it; then the tables.

        Errors: RecordsFailed, last, for rows that cannot be written; RetriableError, StoreError.
        """
        # So that each bad record is named.
        spec = replace(self.spec, tolerates=True)
        failures: list[RecordFailure] = []
        found: dict[TopicPartition, PlannedFiles] = {}
        schemas = self._begun(batches)
        with local_disk("files"):
            folder = local_folder()
        try:
            first = 0
            for batch in batches:
                rows = batch.append_column(_ROW, pa.array(range(first, first + len(batch)), pa.int64()))
                first += len(batch)
                yield from self._passed_over(rows, failures)
                good = pc.and_(rows["error"].is_null(), rows["layout"].is_valid())
                for partition, some in by_partition(rows.filter(good)):
                    if partition not in found:
                        begin = schemas.begin(partition, None)
                        found[partition] = PlannedFiles(spec, partition, folder.name, begin)
                    failures += _added(found[partition], some)
            yield from self._files(found)
        finally:
            for files in found.values():
                files.drop()
            folder.cleanup()
        if failures:
            failures.sort(key=lambda one: one.row)
            raise RecordsFailed(f"{len(failures)} records failed, the first: {failures[0].message}", failures)

    def _begun(self, batches: Sequence[pa.RecordBatch]) -> NewestSchemas:
        """The schemas of the newest files; tells of rows that are in files already."""
        firsts: dict[TopicPartition, int] = {}
        for batch in batches:
            for partition, rows in by_partition(batch):
                firsts.setdefault(partition, rows["offset"][0].as_py())
        schemas = NewestSchemas(self.spec)
        schemas.learn(list(firsts))
        for partition, offset in firsts.items() if self.spec.store.renames else ():
            there = CommitMarker(self.spec.store, partition, "preview", self.spec.names).seen()
            if there is not None and offset < there:
                self.notes.append(
                    f"{self.spec.store.url} has the records of {partition.topic}-{partition.partition} up to offset "
                    f"{there - 1} in files: the connector does not write these again."
                )
        return schemas

    def _passed_over(self, rows: pa.RecordBatch, failures: list[RecordFailure]) -> Iterator[Effect]:
        """Yield the rows that are left out by the settings; add the bad ones to the failures."""
        for row, why, layout in zip(*(rows[name].to_pylist() for name in (_ROW, "error", "layout")), strict=True):
            if why is not None:
                failures.append(RecordFailure(row, why))
            elif layout is None:
                yield Effect("none", self.spec.store.url, {"why": "behavior.on.null.values=ignore"}, row)

    def _files(self, found: dict[TopicPartition, PlannedFiles]) -> Iterator[Effect]:
        topics: dict[str, list[tuple[Schema | None, str]]] = {}
        for files in found.values():
            with local_disk("files"):
                files.end_if_due(self.spec.clock())
                files.end(None)
            for file in files.closed:
                schema = files.begin.schema if file.layout < 0 else self.spec.layouts[file.layout]
                topics.setdefault(file.topic, []).append((schema, file.directory))
                yield from self._file(files, file, schema)
        if any(file.ended_by is None for files in found.values() for file in files.closed):
            self.notes.append(
                "A file is seen under its name once it has ended. Those that have not been ended by these records wait "
                "for more; the last offset in their names may be a later one."
            )
        if self.hive is not None:
            yield from self._tables(self.hive, topics)

    def _file(self, files: PlannedFiles, file: ClosedFile, schema: Schema | None) -> Iterator[Effect]:
        path, rows = f"{self.spec.store.url}/{file.path}", files.rows[file.local]
        detail = {
            "directory": file.directory,
            "format": type(self.spec.format).__name__.removesuffix("Format").lower(),
            "records": len(rows),
            "offsets": list(file.offsets),
            "schema": None if schema is None else {"name": schema.name, "version": schema.version},
            "ended by": None if file.ended_by is None else str(file.ended_by),
        }
        for beside in file.beside.values():
            yield Effect("create file", f"{self.spec.store.url}/{beside}", {"records": len(rows)})
        yield Effect("create file", path, detail)
        for row, value in zip(rows, self._values(files, file, schema), strict=True):
            yield Effect("append", path, {"value": value}, row)

    def _values(self, files: PlannedFiles, file: ClosedFile, schema: Schema | None) -> list[Any]:
        """The values in the file: read from it, or the text of its lines."""
        form = self.spec.format
        if not form.keeps_schemas:
            pieces = [piece for payload in files.payloads[file.local] for piece in payload.to_pylist()]
            return [_text(piece) for piece in pieces]
        with pa.OSFile(file.local) as opened:
            read = form.schema_of(opened)
        with pa.OSFile(file.local) as opened:
            return [value for batch in form.read(opened, read) for value in unpacked(batch[VALUE], read)]

    def _tables(self, hive: HiveTables, topics: dict[str, list[tuple[Schema | None, str]]]) -> Iterator[Effect]:
        for topic, files in topics.items():
            schemas, directories = zip(*files, strict=True)
            try:
                yield from hive.preview(topic, schemas, directories)
            except (MetastoreError, RetriableError, StoreError) as error:
                self.notes.append(f"Hive's table of topic {topic} cannot be told: {error}")


def _added(files: PlannedFiles, rows: pa.RecordBatch) -> list[RecordFailure]:
    """Add rows; return those that cannot be written."""
    with local_disk("files"):
        refused = files.add(rows)
    at = dict(zip(rows["offset"].to_pylist(), rows[_ROW].to_pylist(), strict=True))
    return [RecordFailure(at[one.offset], one.why) for one in refused]


def _text(piece: bytes) -> str:
    try:
        return piece.decode().removesuffix("\n")
    except UnicodeDecodeError:
        return f"0x{piece.hex()}"
