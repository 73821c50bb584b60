"""DeltaSink: topics into Delta tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headrace.config.problems import ConfigError
from headrace.config.settings import Problem, Settings
from headrace.config.worker.allowed_hosts import HostUnknown
from headrace.connectors.lake.delta.access import Access
from headrace.connectors.lake.delta.library import deltalake
from headrace.connectors.lake.delta.offsets import set_offsets
from headrace.connectors.lake.delta.settings import PATH, PROPERTIES, SETTINGS, STORAGE, delta_options
from headrace.connectors.lake.delta.task import DeltaSinkTask
from headrace.plugins.contracts import Connector, ConnectorContext


class DeltaSinkConnector(Connector):
    """Plans as many equal tasks as allowed, each with its share of the topics' partitions."""

    settings: ClassVar[Settings] = SETTINGS
    undeclared = (STORAGE, PROPERTIES)
    version = "1.0.0"
    task = DeltaSinkTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems beyond single settings; opens no table."""
        try:
            self.settings.parse(config)
        except ConfigError:
            return []  # problems of single settings are told elsewhere
        try:
            deltalake()
            options = delta_options(config)
            Access.of(options, self.worker).check(options.path)
        except ConfigError as error:
            return error.problems
        except HostUnknown:
            return []  # the task tries again until it resolves
        return []

    def advise(self, config: Mapping[str, str]) -> Iterator[Problem]:
        """Several tasks that upsert into one table. Errors: ConfigError."""
        options, tasks = delta_options(config), config.get("tasks.max", "1")
        if options.upserts and not options.has_topics and tasks != "1":
            text = "Tasks that upsert into one table rewrite the same files, so that only one at a time gets on."
            yield Problem("tasks.max", tasks, text, "Set it to 1.")

    def needs_schema(self, config: Mapping[str, str]) -> str | None:
        """The setting whose tables have columns by the values' schemas."""
        return PATH

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config. Errors: ConfigError with all problems."""
        delta_options(config)
        self.given = dict(config)

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept all; set them in the tables, too. Errors: NotImplementedError, RetriableError, LakeError."""
        set_offsets(config, self.worker, offsets)
        return True
