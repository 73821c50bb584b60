"""A spool folder and a walk through it, without Kafka."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.connectors.spool.connector import SpoolDirLineDelimitedSourceConnector
from headrace.plugins.contracts import Connector, Limit, PartitionResult
from headrace.plugins.testkit import LARGE, SourceDrive, SourceRig


class Folder(SourceRig):
    """The folders of a connector of this class."""

    def __init__(self, root: Path, connector: type[Connector] = SpoolDirLineDelimitedSourceConnector, **settings: str):
        self.root, self.settings, self._connector, self._number = root, settings, connector, 0
        self.worker: Mapping[str, Any] = {"file.allowed.paths": [str(root)]}
        for name in ("in", "done", "bad"):
            (root / name).mkdir(exist_ok=True)

    def connector(self) -> Connector:
        return self._connector()

    def config(self) -> dict[str, str]:
        given = {"connector.class": self._connector.__name__, "topic": "t", "input.file.pattern": r".*"}
        paths = {"input.path": "in", "finished.path": "done", "error.path": "bad"}
        given |= {key: str(self.root / path) for key, path in paths.items()}
        return {**given, "empty.poll.wait.ms": "0", **{k.replace("_", "."): v for k, v in self.settings.items()}}

    def put(self, values: Sequence[str]) -> None:
        self._number += 1
        self.file(f"{self._number:03}.txt", "".join(f"{value}\n" for value in values).encode())

    def file(self, name: str, data: bytes) -> Path:
        """Put a file there at once."""
        path = self.root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.root / "unfinished"
        unfinished.write_bytes(data)
        os.rename(unfinished, path)
        return path

    def names(self, folder: str) -> list[str]:
        """The files below a folder."""
        return sorted(str(path.relative_to(self.root / folder)) for path in (self.root / folder).rglob("*.*"))


class Walk(SourceDrive):
    """Moves batches as the worker does, with offsets that are stored at once unless told otherwise."""

    def batch(self, limit: Limit = LARGE, stores: bool = True) -> list[dict[str, Any]] | None:
        """The rows of a batch; None if there is nothing new."""
        plan = self.plan(limit)
        if plan is None:
            return None
        rows: list[dict[str, Any]] = []
        reader, reached = self.reader(plan), []
        for number, split in enumerate(plan.splits):
            its = [row for batch in reader.read(number) for row in batch.to_pylist()]
            rows += its
            offset = its[-1]["source_offset"] if its else split.offset_if_empty
            if offset is not None:
                reached.append(PartitionResult(source_partition=split.partition, source_offset=offset))
        self.progress.delivered(reached)
        self._store(reached)
        if stores:
            self.progress.committed(reached)
        return rows

    def all(self, limit: Limit = LARGE) -> list[dict[str, Any]]:
        """The rows of all batches."""
        made: list[dict[str, Any]] = []
        while (rows := self.batch(limit)) is not None:
            made += rows
        return made

    def values(self, limit: Limit = LARGE) -> list[Any]:
        """The values of all batches."""
        return [row["value"] for row in self.all(limit)]


def schema(**fields: str) -> str:
    """A value.schema of these fields; a type that ends with ? is optional."""
    names = {"Date": "INT32", "Time": "INT32", "Timestamp": "INT64", "Decimal": "BYTES"}
    made: dict[str, Any] = {}
    for name, kind in fields.items():
        bare = kind.rstrip("?")
        made[name] = {"type": names.get(bare, bare), "isOptional": kind.endswith("?")}
        if bare in names:
            made[name] |= {"name": f"org.apache.kafka.connect.data.{bare}", "version": 1}
        if bare == "Decimal":
            made[name]["parameters"] = {"scale": "2"}
    return json.dumps({"name": "com.example.Value", "type": "STRUCT", "isOptional": False, "fieldSchemas": made})
