"""The schema of each partition's newest file, which `schema.compatibility` compares the next records with.

An empty file of the sink's format beside the partition's marker keeps it, so that a start need not look for the newest
of many files. Only if that is missing, as after Confluent's connector, their names are listed once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.sink.parallel_uploads import each
from headrace.connectors.hdfs.sink.spec import Begin, FileSpec
from headrace.plugins.errors import DataError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Schema


@dataclass
class NewestSchemas:
    """The schemas of one task's partitions; does nothing if any schema may follow another."""

    spec: FileSpec
    _known: dict[TopicPartition, Schema | None] = field(default_factory=dict)

    @property
    def _counts(self) -> bool:
        return self.spec.compatibility != "NONE" and self.spec.format.keeps_schemas

    def begin(self, partition: TopicPartition, offset: int | None) -> Begin:
        """The beginning of the partition's next file."""
        return Begin(offset, self._known.get(partition), partition not in self._known)

    def learn(self, partitions: Sequence[TopicPartition]) -> None:
        """Find the schemas of these partitions' newest files. Errors: RetriableError, StoreError."""
        if self._counts:
            each(self._learn, partitions)

    def committed(self, partition: TopicPartition, schema: Schema | None) -> None:
        """Keep the schema of a file that is about to be the newest. Errors: as `learn`."""
        if not self._counts or (partition in self._known and self._known[partition] == schema):
            return
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, "schema")
            self.spec.format.file(local, schema).close()
            self.spec.store.upload(local, self._path(partition))
        self._known[partition] = schema

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions that go."""
        for partition in partitions:
            self._known.pop(partition, None)

    def _learn(self, partition: TopicPartition) -> None:
        try:
            self._known[partition] = self._read(self._path(partition))
        except FileNotFoundError:
            if (newest := self._newest(partition)) is not None:
                self._known[partition] = self._read(newest)

    def _read(self, path: str) -> Schema | None:
        try:
            with self.spec.store.open(path) as file:
                return self.spec.format.schema_of(file)
        except DataError as error:
            raise StoreError(
                f"The schema of '{path}' in {self.spec.store.url} cannot be read: {error}. Move it away if it is no "
                "file of this sink."
            ) from error

    def _newest(self, partition: TopicPartition) -> str | None:
        names = self.spec.names
        files = self.spec.store.walk(names.topic_folder(partition.topic))
        found = [(at, file.path) for file in files if (at := names.offsets(file.path, partition)) is not None]
        return max(found, key=lambda one: one[0][::-1])[1] if found else None

    def _path(self, partition: TopicPartition) -> str:
        return f"{self.spec.names.partition_folder(partition)}/schema{self.spec.format.extension}"
