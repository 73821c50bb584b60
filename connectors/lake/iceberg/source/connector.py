"""IcebergSource: tables of Iceberg into topics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace import __version__
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.source.positions import check_offset
from headrace.connectors.lake.iceberg.source.settings import SETTINGS, TABLES, UNDECLARED, source_options
from headrace.connectors.lake.iceberg.source.task import IcebergSourceTask
from headrace.plugins.contracts import Connector, ConnectorContext

_TOPIC: Final = re.compile(r"[\w.-]{1,249}", re.ASCII)


class IcebergSourceConnector(Connector):
    """Shares its tables among its tasks."""

    settings = SETTINGS
    undeclared = UNDECLARED
    version = __version__
    task_class = "headrace.connectors.lake.IcebergSourceTask"
    task = IcebergSourceTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return the problems of topics and of the catalog; none of these if a single setting is wrong."""
        if self.settings.problems(config):
            return []
        problems = list(_topic_problems(config))
        try:
            CatalogSettings.of(config, self.worker)
        except ConfigError as error:
            problems += error.problems
        return problems

    def most_tasks(self, config: Mapping[str, str]) -> int | None:
        """One for each table."""
        return len(source_options(config).tables)

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config. Errors: ConfigError with all problems."""
        if problems := [*self.settings.problems(config), *self.validate(config)]:
            raise ConfigError(problems)
        self.given = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the config with each task's share of the tables."""
        tables = source_options(self.given).tables
        count = min(max_tasks, len(tables))
        return [{**self.given, TABLES: ",".join(tables[number::count])} for number in range(count)]

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """True: each row has an offset of its own."""
        return True

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept positions in its tables, and null. Errors: ValueError."""
        tables = source_options(config).tables
        for one in offsets.get("offsets") or ():
            check_offset(one.get("partition") or {}, one.get("offset"), tables)
        return True


def _topic_problems(config: Mapping[str, str]) -> Iterator[Problem]:
    options = source_options(config)
    for table in options.tables:
        if not _TOPIC.fullmatch(topic := options.topic_of(table)):
            why = f"The table {table} would go to '{topic}', which is no name of a topic."
            yield Problem(
                "topic", options.topic, why, "Name the topic without ${table}, with a connector for each table."
            )
