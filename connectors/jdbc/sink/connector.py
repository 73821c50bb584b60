"""JdbcSink: topics into tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.config.connector.error_handling import RETRY_TOPIC
from headrace.config.settings import Problem
from headrace.connectors.jdbc.database.connection import Database
from headrace.connectors.jdbc.sink import doctor as sink_doctor
from headrace.connectors.jdbc.sink import settings as sink_settings
from headrace.connectors.jdbc.sink.offset_table import OffsetTable
from headrace.connectors.jdbc.sink.task import JdbcSinkTask
from headrace.connectors.jdbc.sink.validation import sink_problems
from headrace.plugins.contracts import Connector, ConnectorContext, Finding
from headrace.plugins.offsets import kafka_offsets


class JdbcSinkConnector(Connector):
    """Plans as many equal tasks as allowed, under the names of Confluent's, Aiven's and Debezium's connectors."""

    settings = sink_settings.SETTINGS
    undeclared = ("connection.",)
    version = "10.10.0"
    task_class = "io.confluent.connect.jdbc.sink.JdbcSinkTask"
    task = JdbcSinkTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems beyond single settings, such as an unreachable database."""
        problems = sink_problems(config, self.worker)
        if config.get("offsets.table", "").strip() and config.get(RETRY_TOPIC, "").strip():
            text = "A record that waits in a retry topic comes after later ones, which offsets.table cannot store"
            problems.append(Problem(RETRY_TOPIC, config[RETRY_TOPIC], text, "Leave one of the two empty."))
        return problems

    def diagnose(self, config: Mapping[str, str]) -> Iterator[Finding]:
        """The doctor's findings about the database."""
        return sink_doctor.sink_findings(config, self.worker)

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Checks the config. Errors: ConfigError with all problems."""
        sink_settings.options(config)
        self.given = dict(config)

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts all; stores the offsets in the database if it keeps them. Errors: DatabaseAway, DatabaseError."""
        options = sink_settings.options(config)
        if options.offsets_table is None:
            return True
        database = Database.of(config, self.worker)
        try:
            table = OffsetTable(database, database.dialect.table_id(options.offsets_table), options.connector)
            if not options.offsets_wanted and not table.exists():
                return True  # the task will create it, or continue without
            table.create()
            if offsets.get("reset"):  # also those that Kafka does not know
                table.clear()
            else:
                table.set(kafka_offsets(offsets))
        finally:
            database.close()
        return True
