"""The catalog of one task, over Iceberg's Java library."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.lake.errors import LakeError, LakeLoginRefused
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.compact_settings import CompactSettings
from headrace.connectors.lake.iceberg.compaction import Compacted, Compaction
from headrace.connectors.lake.iceberg.jvm_lake import Fault, JvmLake
from headrace.connectors.lake.iceberg.partition_terms import refused, spec_json
from headrace.connectors.lake.iceberg.parts import TableCommit, WrittenFile
from headrace.connectors.lake.iceberg.schema_json import new_schema, struct_of
from headrace.connectors.lake.iceberg.schemas import AddColumn, Change, Changes, Field, MakeOptional, Struct, Widen
from headrace.connectors.lake.iceberg.tables import Marks, PartitionField, PartitionSpec, TableState
from headrace.plugins.contracts import InterruptedBy, uninterrupted
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.samples import Sample

log = logging.getLogger(__name__)

BranchOf = Callable[[str], str | None]
"""Returns the branch of a table; None: the main one."""

_LIMIT_S: Final = 120.0
"""Longer than the bounds of a catalog's clients, which name what was in vain; shorter than `max.poll.interval.ms`."""
_LOCKS: Final = 3
"""Commits without a lock of Hive's metastore after which there are likely none, rather than a server that restarts."""


class JvmCatalog:
    """Implements `catalog.Catalog`."""

    def __init__(
        self,
        settings: CatalogSettings,
        connector: str,
        task: int,
        branch_of: BranchOf = lambda table: None,
        compact: CompactSettings | None = None,
        interrupted_by: InterruptedBy = uninterrupted,
        limit_s: float = _LIMIT_S,
    ) -> None:
        """`compact`: limits by which tables are kept in order after commits; `limit_s`: the wait for the catalog."""
        self._without_lock = 0
        self._settings, self._branch_of, self._compact_settings = settings, branch_of, compact
        self._compaction = None if compact is None else Compaction(compact, self.compact)
        own = {"connector": connector, "task": task, "limit_ms": int(limit_s * 1000)}
        self._lake = JvmLake({**settings.opening(), **own}, settings.needs_aws, interrupted_by)

    def load(self, table: str) -> TableState | None:
        """As `Catalog.load`."""
        answer = self._call(table, "load")
        return self._state(table, answer) if answer else None

    def create(
        self,
        table: str,
        schema: Struct,
        partition_by: Sequence[str],
        identifier: Sequence[str],
        properties: Mapping[str, str],
    ) -> TableState:
        """As `Catalog.create`."""
        try:
            new = new_schema(schema, identifier)
        except KeyError as error:
            why = f"The new table {table} has no column '{error.args[0]}'."
            raise ConfigError(Problem("id-columns", error.args[0], why, "Name columns of the records.")) from None
        spec = spec_json(new, partition_by)
        self._settings.check_properties(table, properties)
        return self._state(table, self._call(table, "create", schema=new, spec=spec, properties=dict(properties)))

    def evolve(self, table: str, changes: Changes) -> TableState:
        """As `Catalog.evolve`."""
        return self._state(table, self._call(table, "evolve", changes=[_change_json(one) for one in changes]))

    def marks(self, table: str, topic_ids: Mapping[str, str]) -> Marks:
        """As `Catalog.marks`."""
        told = self._call(table, "marks")
        _check_ids(table, topic_ids, told)
        return {
            TopicPartition(topic, int(partition)): offset
            for topic in topic_ids
            for partition, offset in told.get(topic_ids[topic], {}).get("offsets", {}).items()
        }

    def set_marks(self, table: str, topic_ids: Mapping[str, str], marks: Marks | None) -> None:
        """As `Catalog.set_marks`."""
        nothing: Mapping[str, Any] = {id_: {"topic": topic, "offsets": {}} for topic, id_ in topic_ids.items()}
        self._call(table, "set_marks", topics={**nothing, **_marks_json(marks or {}, topic_ids)})

    def commit(self, commits: Sequence[TableCommit], topic_ids: Mapping[str, str]) -> Mapping[str, bool]:
        """As `Catalog.commit`."""
        try:
            answers = self._ask("", "commit", {"tables": [self._commit_json(one, topic_ids) for one in commits]})
        finally:
            for file in (file for one in commits for part in one.parts for file in part.files):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file.local)
        for table, answer in answers.items():
            if "fault" in answer:
                self._raise(table, "commit", Fault(answer["fault"], answer["message"]))
            if "left" in answer:
                why = self._settings.without_secrets(answer["left"])
                log.warning(
                    "Table %s: files of killed workers could not be looked for: %s. It is tried again", table, why
                )
        self._without_lock = 0
        for one in commits:
            if self._compaction is not None and answers[one.table]["committed"]:
                self._compaction.committed(one.table, sum(len(part.files) for part in one.parts))
        return {table: answer["committed"] for table, answer in answers.items()}

    def ask(self, table: str, method: str, **request: Any) -> dict[str, Any]:
        """Return the answer of another method of `java/Lake.java` about this table. Errors: as those of `Catalog`."""
        return self._call(table, method, **request)

    def compact(self, table: str) -> Compacted:
        """Rewrite one group of a table's small files, and expire its old snapshots, by the limits of `compact`."""
        of = self._compact_settings
        assert of is not None
        limits = {"files": of.files, "bytes": of.size_bytes, "snapshots_ms": of.snapshots_ms}
        done = self._call(table, "compact", **limits)
        return Compacted(done["replaced"], done["expired"])

    def samples(self) -> Iterable[Sample]:
        """Return the samples of the tables' maintenance."""
        return () if self._compaction is None else self._compaction.samples()

    def close(self) -> None:
        """As `Catalog.close`."""
        if self._compaction is not None:
            self._compaction.end_soon()  # what the catalog's end cuts off is no failure
        self._lake.close()
        if self._compaction is not None:
            self._compaction.close()

    def _call(self, table: str, method: str, **request: Any) -> dict[str, Any]:
        own = {"table": table, "branch": self._branch_of(table) or "main"}
        return self._ask(table, method, {**own, **request})

    def _ask(self, table: str, method: str, request: Mapping[str, Any]) -> dict[str, Any]:
        self._settings.check_hosts()
        try:
            return self._lake.call(method, request)
        except Fault as fault:
            self._raise(table, method, fault)

    def _raise(self, table: str, method: str, fault: Fault) -> NoReturn:
        where = f"The Iceberg catalog {self._settings.about}" + (f", table {table}, {method}" if table else "")
        said = f"{where}: {self._settings.without_secrets(str(fault)).rstrip('.')}"
        if fault.kind == "lock":
            self._without_lock += 1
        if fault.kind == "retry" or (fault.kind == "lock" and self._without_lock < _LOCKS):
            raise RetriableError(f"{said}. It is tried again.") from None
        if fault.kind == "partition":
            raise refused(None, f"{said}.") from None
        if fault.kind == "login":
            if self._lake.log_in_again():
                raise RetriableError(f"{said}. It is tried again with a new login.") from None
            raise LakeLoginRefused(f"{said}. Check the login among iceberg.catalog.*, then restart the task.") from None
        if fault.kind == "missing":
            raise LakeError(f"{said}. Create it, or restart the task to have it created.") from None
        raise LakeError(f"{said}. Mend that, then restart the task.") from None

    def _state(self, table: str, told: Mapping[str, Any]) -> TableState:
        self._settings.check_table(table, told)
        spec = told["spec"]
        fields = (
            PartitionField(one["source-id"], one["field-id"], one["name"], one["transform"]) for one in spec["fields"]
        )
        return TableState(
            name=table,
            uuid=told["uuid"],
            format_version=told["format_version"],
            schema_id=told["schema_id"],
            schema=struct_of(told["schema"]),
            spec=PartitionSpec(spec["spec-id"], tuple(fields)),
            identifier=tuple(told["identifier"]),
            properties=told["properties"],
            unpartitioned_spec=told["unpartitioned_spec"],
            other_specs=told["other_specs"],
            is_empty=told["is_empty"],
        )

    def _commit_json(self, one: TableCommit, topic_ids: Mapping[str, str]) -> dict[str, Any]:
        parts = [{"uuid": part.uuid, "files": [_file_json(file) for file in part.files]} for part in one.parts]
        return {
            "table": one.table,
            "branch": self._branch_of(one.table) or "main",
            "begins": _marks_json(one.begins, topic_ids),
            "positions": _marks_json(one.positions, topic_ids),
            "parts": parts,
        }


def _check_ids(table: str, topic_ids: Mapping[str, str], told: Mapping[str, Any]) -> None:
    """Refuse a topic without an id if the table has marks of that name: they may be those of this topic."""
    for topic, id_ in topic_ids.items():
        if id_ == topic and id_ not in told and any(one["topic"] == topic for one in told.values()):
            why = f"Kafka does not tell the id of topic {topic}, which the offsets in table {table} are of"
            raise RetriableError(f"{why}; it is asked again")


def _marks_json(marks: Mapping[TopicPartition, int | None], topic_ids: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (topic, partition), offset in sorted(marks.items()):
        known = found.setdefault(topic_ids.get(topic, topic), {"topic": topic, "offsets": {}})
        known["offsets"][str(partition)] = offset
    return found


def _file_json(file: WrittenFile) -> dict[str, Any]:
    return {
        "local": file.local,
        "content": str(file.content),
        "records": file.records,
        "spec_id": file.spec_id,
        "partition": list(file.partition),
        "equality_ids": list(file.equality_ids),
    }


def _change_json(change: Change) -> dict[str, Any]:
    match change:
        case AddColumn(parent, name, of):
            schema = new_schema(Struct((Field(1, name, of),)))
            return {"change": "add", "path": [*parent, name], "parent": list(parent), "name": name, "schema": schema}
        case Widen(path, of):
            return {"change": "widen", "path": list(path), "schema": new_schema(Struct((Field(1, path[-1], of),)))}
        case MakeOptional(path):
            return {"change": "optional", "path": list(path)}
