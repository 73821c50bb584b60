"""The tables of a task, kept up to date on a thread beside its commits.

Files are committed whatever becomes of the tables. News that the metastore could not be told wait and are told again,
and a task that begins tells it of all directories without a partition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from headrace.config.worker.allowed_hosts import ALL_NAMES, AllowedHosts
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.hive.definition import Definition, definition, evolved, why_no_table
from headrace.connectors.hdfs.hive.metastore import HiveTable, Metastore, MetastoreError
from headrace.connectors.hdfs.hive_settings import HiveSettings
from headrace.connectors.hdfs.stores.settings import HadoopSettings
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import Effect
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.samples import Sample
from headrace.plugins.schema import Schema

_BACKOFF: Final = Backoff(1, 60)
_LAST_S: Final = 10.0
"""The end of a task waits so long for the last news to the metastore."""

log = logging.getLogger(__name__)


@dataclass
class _Topic:
    """The known state of one topic's table, and its news for the metastore."""

    schemas: dict[Schema, None] = field(default_factory=dict)
    """The schemas of its files, each once, in order of arrival."""
    is_due: bool = False
    """True if the metastore has not heard of one of the schemas."""
    is_listed: bool = False
    """True if the directories of earlier tasks were looked at."""
    known: set[tuple[str, ...]] = field(default_factory=set)
    waiting: dict[tuple[str, ...], str] = field(default_factory=dict)
    """New directories by the values of their partitions."""
    error: str = ""
    """The last logged error."""

    @property
    def is_waiting(self) -> bool:
        return self.is_due or bool(self.waiting)


class HiveTables:
    """The tables of a connector's topics in Hive's metastore."""

    def __init__(
        self,
        settings: HiveSettings,
        hadoop: HadoopSettings,
        store: Store,
        folder_of: Callable[[str], str],
        form: Format,
        fields: Sequence[str],
        hosts: AllowedHosts = ALL_NAMES,
    ) -> None:
        """`folder_of`: a topic's folder in the store; `fields`: the partitioner's; `hosts`: the allowed ones."""
        self._settings, self._store, self._folder_of, self._form = settings, store, folder_of, form
        self._fields = tuple(fields)
        self._metastore = Metastore(settings, hadoop, hosts)
        self._topics: dict[str, _Topic] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._failures = 0
        self._thread: threading.Thread | None = None

    def committed(self, topic: str, schema: Schema | None, partitions: Iterable[str]) -> None:
        """Learn of visible files of this schema in these directories of the topic; waits for nothing."""
        refusal = why_no_table(schema)
        with self._changed:
            found = self._topics.setdefault(topic, _Topic())
            if schema is None or refusal is not None:
                if found.error != refusal:
                    log.warning("Hive gets no table of topic %s: %s.", topic, refusal)
                found.error = refusal or ""
                return
            if schema not in found.schemas:
                found.schemas[schema], found.is_due = None, True
            for directory in partitions:
                values = values_of(directory, self._fields)
                if values is not None and values not in found.known:
                    found.waiting[values] = directory
            if not found.is_waiting:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hive", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def preview(self, topic: str, schemas: Sequence[Schema | None], partitions: Iterable[str]) -> Iterator[Effect]:
        """Yield what the metastore would be told of files of these schemas, in these directories of the topic.

        Errors: MetastoreError, RetriableError.
        """
        carried = [schema for schema in dict.fromkeys(schemas) if schema is not None and why_no_table(schema) is None]
        if not carried:
            return
        name, folder = self._settings.table_of(topic), self._folder_of(topic)
        shown, place = f"{self._settings.database}.{name}", self._location(folder)
        self._metastore.open()
        try:
            table = self._metastore.table(name)
            made = self._wanted(name, table, carried)
            if table is None or made != table.definition:
                detail = {
                    "columns": {column.name: column.type for column in made.columns},
                    "parameters": dict(made.parameters),
                    "serde": made.storage.serde,
                    "partitioned by": list(self._fields),
                    "location": place,
                }
                yield Effect("create table" if table is None else "alter table", shown, detail)
            there = self._metastore.partitions(name) if table is not None and self._fields else ()
            heard = {values_of(one, self._fields) for one in there}
            for directory in dict.fromkeys(partitions):
                values = values_of(directory, self._fields)
                if values is not None and values not in heard:
                    partition = {"values": list(values), "location": f"{place}/{directory}"}
                    yield Effect("add partition", shown, partition)
        finally:
            self._metastore.close()

    def samples(self) -> Iterable[Sample]:
        """Yield the amount of news for the metastore."""
        with self._changed:
            waiting = sum(len(topic.waiting) + topic.is_due for topic in self._topics.values())
            failures = self._failures
        yield Sample("headrace_hive_waiting", {}, waiting, "Tables and partitions that Hive's metastore is to be told")
        yield Sample("headrace_hive_failures_total", {}, failures, "Attempts to tell Hive's metastore that failed")

    def close(self) -> None:
        """End after a last attempt. The next task of the connector finds what it did not reach."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_LAST_S)

    def _run(self) -> None:
        in_a_row = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or any(one.is_waiting for one in self._topics.values()))
                due = [topic for topic, found in self._topics.items() if found.is_waiting]
                closing = self._closing
            done = [self._tell(topic) for topic in due]
            self._metastore.close()  # until there is news, which is seldom, no connection grows old
            in_a_row = 0 if all(done) else in_a_row + 1
            if closing:
                return
            if in_a_row:
                self._pause(_BACKOFF.pause(in_a_row))

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            while not self._closing and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _tell(self, topic: str) -> bool:
        """Bring a topic's table up to date; True if that was done."""
        found = self._topics[topic]
        with self._changed:
            schemas, told = list(found.schemas), dict(found.waiting)
        try:
            self._update(topic, found, schemas, told)
        except (MetastoreError, RetriableError, StoreError) as error:
            self._failed(topic, found, str(error))
            return False
        with self._changed:
            found.known |= told.keys()
            found.is_due = len(found.schemas) != len(schemas)
            for values in told:
                found.waiting.pop(values, None)
        if found.error:
            log.info("Hive's table of topic %s is up to date again", topic)
            found.error = ""
        return True

    def _update(self, topic: str, found: _Topic, schemas: Sequence[Schema], told: dict[tuple[str, ...], str]) -> None:
        name, folder = self._settings.table_of(topic), self._folder_of(topic)
        self._metastore.open()
        self._define(name, schemas, folder)
        if not found.is_listed:
            told |= self._unheard(name, folder)
        if told:
            place = self._location(folder)
            self._metastore.add_partitions(name, {values: f"{place}/{path}" for values, path in told.items()})
        found.is_listed = True

    def _define(self, name: str, schemas: Sequence[Schema], folder: str) -> None:
        """Create the table, or change it so that it holds values of all these schemas."""
        table = self._metastore.table(name)
        made = self._wanted(name, table, schemas)
        if table is None:
            self._metastore.create(name, HiveTable(made, self._fields, self._location(folder)))
        elif made != table.definition:
            self._metastore.alter(name, made)

    def _wanted(self, name: str, table: HiveTable | None, schemas: Sequence[Schema]) -> Definition:
        """Return the table that holds values of all these schemas. Errors: as `_check`."""
        first, *others = (definition(schema, self._form, self._fields) for schema in schemas)
        if table is None:
            made = first
        else:
            self._check(name, table, first)
            made, others = table.definition, [first, *others]
        for wanted in others:
            made = evolved(made, wanted) or made
        return made

    def _check(self, name: str, table: HiveTable, wanted: Definition) -> None:
        """Refuse a table that is another's. Errors: MetastoreError."""
        way_out = "drop the table, which deletes no file, or set another hive.table.name"
        if [one.lower() for one in table.partition_fields] != [one.lower() for one in self._fields]:
            there, here = ", ".join(table.partition_fields), ", ".join(self._fields)
            text = f"has the partition columns '{there}', and files come by '{here}'"
        elif table.definition.storage.serde != wanted.storage.serde:
            text = f"is for files of another format ({table.definition.storage.serde})"
        else:
            return
        raise MetastoreError(f"Table {name} of {self._settings.database} {text}: {way_out}")

    def _unheard(self, name: str, folder: str) -> dict[tuple[str, ...], str]:
        """Return the directories that the metastore has no partition for."""
        if not self._fields:
            return {}
        heard = {values_of(one, self._fields) for one in self._metastore.partitions(name)}
        there = {values_of(path, self._fields): path for path in directories(self._store, folder, len(self._fields))}
        return {values: path for values, path in there.items() if values is not None and values not in heard}

    def _location(self, folder: str) -> str:
        url = self._store.url
        return f"{'s3a:' + url.removeprefix('s3:') if url.startswith('s3:') else url}/{folder}"

    def _failed(self, topic: str, found: _Topic, error: str) -> None:
        with self._changed:
            self._failures += 1
            found.is_due = True  # the table may be gone
        if found.error != error:
            found.error = error
            log.warning("Hive's table of topic %s is not up to date: %s. Files go on; it is tried again.", topic, error)


def values_of(directory: str, fields: Sequence[str]) -> tuple[str, ...] | None:
    """Return the values in `name=value/…`; None unless the directory has these names, in this order."""
    parts = [part.partition("=") for part in directory.split("/")]
    names = [unquote(name).lower() for name, _, _ in parts]
    if names != [name.lower() for name in fields] or not all(value for _, _, value in parts):
        return None
    return tuple(unquote(value) for _, _, value in parts)


def directories(store: Store, folder: str, depth: int) -> list[str]:
    """Return the directories so many levels below a folder, without looking at files in them."""
    found = [folder]
    for _ in range(depth):
        found = [entry.path for one in found for entry in store.entries(one) if entry.is_folder]
    return [path.removeprefix(f"{folder}/") for path in found] if depth else []
