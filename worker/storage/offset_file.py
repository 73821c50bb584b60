"""Contract of source offset stores, and standalone mode's store: the file `offset.storage.file.filename`.

The file is JSON: the id of the Kafka cluster that the offsets belong to, and each connector's source partitions with
their offsets. It is written whole to a temporary file, synced, and renamed over the old one (Invariant 7): one complete
file exists at any instant of `kill -9`. A file written by Apache Connect (a serialized Java HashMap) is read once and
kept as `<name>.apache`.
"""

from __future__ import annotations

import contextlib
import glob
import json
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import psutil

from headrace.config.problems import ConfigError, Problem
from headrace.plugins.offsets import SourceOffset, SourcePartition

log = logging.getLogger(__name__)

_JAVA_MAGIC = b"\xac\xed\x00\x05"
_NEW = ".new"
_in_order = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class SourceOffsets(ABC):
    """Source offsets, known as of the last `set`, stored as of the last `flush`. Any thread may call it."""

    @property
    @abstractmethod
    def durable(self) -> int:
        """The number up to which every `set` is stored."""

    @abstractmethod
    def get(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        """Return the offset last set; does not wait."""

    @abstractmethod
    def set(self, connector: str, partition: SourcePartition, offset: SourceOffset | None) -> int:
        """Remember an offset (None forgets the partition); returns the number that `durable` reaches once stored."""

    @abstractmethod
    def partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions of a connector that have an offset."""

    @abstractmethod
    def of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """List the source partitions of a connector with their offsets."""

    @abstractmethod
    def flush(self) -> None:
        """Store the offsets that were set. Errors: any; offsets not stored wait for the next flush."""

    def refresh(self) -> None:  # noqa: B027
        """Read the offsets that other workers have stored; call at the start of a task, and before `of`.

        Errors: RetriableError if the store does not answer.
        """

    def release(self, connector: str, partitions: Collection[SourcePartition]) -> bool:
        """Discard unstored offsets of these partitions, because another worker may go on with them.

        Returns True if there were any. Invariant 2: a worker that lost a partition stores nothing for it.
        """
        return False


class OffsetFile(SourceOffsets):
    """Offsets in memory as of the last `set`, on disk as of the last `flush`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._offsets: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {}
        self._changes = 0
        self._durable = 0
        self.cluster_id: str | None = None
        _sweep(path)
        self._load()

    @property
    def durable(self) -> int:
        return self._durable

    def get(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        with self._lock:
            found = self._offsets.get(connector, {}).get(partition_name(partition))
            return None if found is None else dict(found[1])

    def set(self, connector: str, partition: SourcePartition, offset: SourceOffset | None) -> int:
        with self._lock:
            of_connector = self._offsets.setdefault(connector, {})
            if offset is None:
                of_connector.pop(partition_name(partition), None)
            else:
                of_connector[partition_name(partition)] = dict(partition), dict(offset)
            self._changes += 1
            return self._changes

    def partitions(self, connector: str) -> list[dict[str, Any]]:
        return [partition for partition, _ in self.of(connector)]

    def of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        with self._lock:
            return [(dict(partition), dict(offset)) for partition, offset in self._offsets.get(connector, {}).values()]

    def belongs_to(self, cluster_id: str, accept: str | None) -> None:
        """Bind the offsets to this cluster.

        Errors: ConfigError if they belong to another one and `accept` does not name this one: offsets of one cluster
        mean nothing in another, where records would be missing.
        """
        if self.cluster_id not in (None, cluster_id) and accept != cluster_id:
            problem = Problem(
                "bootstrap.servers",
                cluster_id,
                f"The offsets in {self._path} belong to Kafka cluster {self.cluster_id}, but this is cluster "
                f"{cluster_id}: what was sent there is not here.",
                f"Connect to the former cluster, use another offset.storage.file.filename, or set "
                f"cluster.id.accept={cluster_id} to go on from these offsets in this cluster",
            )
            raise ConfigError([problem], "The offset file")
        if self.cluster_id != cluster_id:
            with self._lock:
                self.cluster_id = cluster_id
                self._changes += 1

    def flush(self) -> None:
        """Write all offsets to disk. Errors: OSError; all offsets then wait for the next flush."""
        with self._writing:
            with self._lock:
                changes = self._changes
                if changes == self._durable:
                    return
                text = self._text()
            _replace(self._path, text)
            self._durable = changes

    def _text(self) -> bytes:
        rows = [
            {"connector": connector, "partition": partition, "offset": offset}
            for connector, of_connector in sorted(self._offsets.items())
            for partition, offset in of_connector.values()
        ]
        return json.dumps({"cluster": self.cluster_id, "offsets": rows}, indent=1).encode()

    def _load(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        if not data:
            return
        if data.startswith(_JAVA_MAGIC):
            self._take_over(data)
            return
        try:
            content = json.loads(data)
            self.cluster_id = content["cluster"]
            for row in content["offsets"]:
                self._offsets.setdefault(row["connector"], {})[partition_name(row["partition"])] = (
                    row["partition"],
                    row["offset"],
                )
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(str(error)) from error

    def _take_over(self, data: bytes) -> None:
        import javaobj

        try:
            stored = javaobj.loads(data)  # type: ignore[no-untyped-call]
            entries = [(_text_of(key), _text_of(value)) for key, value in stored.items()]
            for key, value in entries:
                if key is None or value is None:
                    continue
                connector, partition = json.loads(key)
                self._offsets.setdefault(connector, {})[partition_name(partition)] = partition, json.loads(value)
        except Exception as error:
            raise self._unreadable(f"not the HashMap of Apache Connect: {error}") from error
        kept = self._path.with_name(self._path.name + ".apache")
        with contextlib.suppress(FileExistsError):
            os.link(self._path, kept)
        self._changes += 1
        log.info("Took over %d offsets that Apache Connect wrote to %s (kept as %s)", len(entries), self._path, kept)

    def _unreadable(self, why: str) -> ConfigError:
        problem = Problem(
            "offset.storage.file.filename",
            str(self._path),
            f"The offset file cannot be read: {why}.",
            "Restore it from a copy, or move it away to begin all sources anew",
        )
        return ConfigError([problem], "The offset file")


def partition_name(partition: Mapping[str, Any]) -> str:
    """Return a name of the partition, independent of the order of its members."""
    return _in_order.encode(partition)


def _text_of(java_bytes: Any) -> str | None:
    """Decode a Java byte array, which the library returns as signed numbers."""
    if java_bytes is None:
        return None
    return bytes(b & 0xFF for b in java_bytes).decode()


def _sweep(path: Path) -> None:
    """Remove temporary files of dead processes, and of this one; those of other living processes stay."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_NEW}"):
        owner = left.name.removeprefix(f".{path.name}.").removesuffix(_NEW)
        if owner.isdecimal() and (int(owner) == os.getpid() or not psutil.pid_exists(int(owner))):
            left.unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}{_NEW}")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
