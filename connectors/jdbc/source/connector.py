"""The JDBC source: the tables of a database into topics, one each, or a query's result into one.

Settings, topics, records and offsets are those of Confluent's connector. Better are: no lost rows (`windows`,
`transaction_wait`, `overlap_rows`), types (`types`), many tables in parallel and large ones in pieces (`planning`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.config.settings import Problem
from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError, DatabaseLoginRefused
from headrace.connectors.jdbc.source import doctor as source_doctor
from headrace.connectors.jdbc.source import settings as source_settings
from headrace.connectors.jdbc.source.offsets import check_offsets
from headrace.connectors.jdbc.source.table_filter import discover, same_topic
from headrace.connectors.jdbc.source.tables import SourceError
from headrace.connectors.jdbc.source.task import JdbcSourceTask
from headrace.connectors.jdbc.source.validation import source_problems, tables_to_offer
from headrace.connectors.jdbc.source.windows import Mode
from headrace.plugins.contracts import Connector, ConnectorContext, Finding
from headrace.plugins.grouping import group_partitions
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)


class JdbcSourceConnector(Connector):
    """Finds the tables, later ones too, and divides them among tasks."""

    settings = source_settings.SETTINGS
    undeclared = ("connection.",)
    version = "10.10.0"
    task_class = "io.confluent.connect.jdbc.source.JdbcSourceTask"
    task = JdbcSourceTask

    def __init__(self) -> None:
        self._tables: list[TableId] | None = None
        self._unmet: dict[str, list[str]] = {}
        self._stopping = StopToken()
        self._watch: threading.Thread | None = None
        self._database: Database | None = None

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems of its settings, alone and against the database."""
        return source_problems(config, self.worker)

    def recommended(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """The database's tables, as values for its lists."""
        tables = tables_to_offer(config, self.worker)
        return {"table.whitelist": tables, "table.blacklist": tables}

    def diagnose(self, config: Mapping[str, str]) -> Iterator[Finding]:
        """The doctor's findings about the database."""
        return source_doctor.source_findings(config, self.worker)

    def most_tasks(self, config: Mapping[str, str]) -> int | None:
        """One for a query, one for each table that is named. Errors: ConfigError."""
        values = source_settings.parse(config)
        if values["query"] or values["query.masked"].value:
            return 1
        return len(values["table.whitelist"]) or None

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Finds the tables and begins to watch them.

        While the database is away, it is tried again, and one task idles. Errors: ConfigError, ValueError,
        DatabaseError, SourceError.
        """
        values = source_settings.parse(config)
        self._config = dict(config)
        self._stopping = StopToken()
        self._tables = None
        if values["query"] or values["query.masked"].value:
            return
        self._filter = source_settings.table_filter(values)
        database = self._database = Database.of(config, self.worker, creates=False, stopping=self._stopping)
        try:
            self._tables = self._found(database)
        except DatabaseAway as error:
            log.warning("The tables of connector %s are not known yet: %s", config.get("name"), error)
        seconds = values["table.poll.interval.ms"] / 1000
        self._watch = threading.Thread(
            target=self._look_again,
            args=(seconds, context, database, self._stopping),
            name=f"jdbc-tables-{config.get('name')}",
            daemon=True,
        )
        self._watch.start()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Tables in contiguous groups; one task for a query, and one that waits while no tables are known."""
        if self._database is None:
            return [dict(self._config)]
        if self._tables is None:
            return [{**self._config, "tables": "", "tables.fetched": "false"}]
        if not self._tables:
            return [{**self._config, "tables": "", "tables.fetched": "true"}]
        name_of = self._database.dialect.name_of
        return [
            {**self._config, "tables": ",".join(map(name_of, group)), "tables.fetched": "true"}
            for group in group_partitions(self._tables, max_tasks)
        ]

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts offsets of the connector's mode, and null. Errors: OffsetError."""
        return check_offsets(offsets, Mode(source_settings.parse(config)["mode"]))

    def stop(self) -> None:
        """Ends the watch."""
        self._stopping.set()
        if self._watch is not None:
            self._watch.join(timeout=5)
        if self._database is not None:
            self._database.close()

    def _found(self, database: Database) -> list[TableId]:
        with database.connect() as connection:
            tables = discover(connection, database.dialect, self._filter)
        if double := same_topic(tables):
            names = "; ".join(", ".join(map(str, group)) for group in double)
            raise SourceError(
                "The connector uses the unqualified table name as the topic name and has detected duplicate "
                "unqualified table names, so that rows of different tables would come into one topic: "
                f"{names}. Choose one schema by schema.pattern, or leave tables out."
            )
        unmet, before = self._filter.unmet(tables, database.dialect), self._unmet
        self._unmet = unmet
        if unmet and unmet != before:
            log.warning(
                "Connector %s finds no table yet for %s. Each must exist, be readable and pass the other filters. "
                "Parts of a partitioned table are read with it, not alone.",
                self._config.get("name"),
                "; ".join(f"{', '.join(entries)} of {setting}" for setting, entries in unmet.items()),
            )
        return tables

    def _look_again(self, seconds: float, context: ConnectorContext, database: Database, stopping: StopToken) -> None:
        while not stopping.wait(min(seconds, 1.0) if self._tables is None else seconds):
            try:
                tables = self._found(database)
            except DatabaseLoginRefused as error:  # further attempts with these credentials would lock the account
                if not stopping.is_set():
                    text = "New tables are looked for again once the connector is started anew"
                    context.fail(DatabaseLoginRefused(f"{error}. {text}"))
                return
            except (DatabaseAway, DatabaseError) as error:  # its tasks go on with the known tables
                log.warning("The search for new tables failed and will be repeated: %s", error)
                continue
            except Exception as error:
                if not stopping.is_set():
                    context.fail(error)
                return
            if tables != self._tables and not stopping.is_set():
                log.info("The tables have changed: %d now, %d before", len(tables), len(self._tables or ()))
                self._tables = tables
                context.reconfigure()
