"""The Iceberg sink under the names that Apache's and Tabular's users know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.setting_group import SettingGroup
from headrace.config.settings import Settings
from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog_settings import UNDECLARED as OF_CATALOG
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings, catalog_settings
from headrace.connectors.lake.iceberg.compact_settings import SETTINGS as MAINTENANCE
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.sink.settings import SETTINGS, UNDECLARED, SinkOptions, sink_options
from headrace.connectors.lake.iceberg.sink.task import IcebergSinkTask
from headrace.connectors.lake.iceberg.sink.validation import advice, sink_problems
from headrace.connectors.lake.iceberg.tables import TableState
from headrace.plugins.contracts import Connector, ConnectorContext, Finding
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.catalyst.spark_internals import complete_context
from headrace.plugins.offsets import kafka_offsets

_PATIENCE_S: Final = 30.0
"""The wait for a catalog while somebody waits for the answer."""


class IcebergSinkConnector(Connector):
    """Plans as many equal tasks as allowed, each with its share of the topics' partitions."""

    settings = Settings(*SETTINGS, *catalog_settings(SettingGroup("Catalog")), *MAINTENANCE)
    undeclared = (*UNDECLARED, *OF_CATALOG)
    version = "1.11.0"
    task_class = "org.apache.iceberg.connect.IcebergSinkTask"
    task = IcebergSinkTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems beyond single settings."""
        problems = sink_problems(config)
        try:
            CatalogSettings.of(config, self.worker)
        except ConfigError as error:
            problems += error.problems
        return problems

    def advise(self, config: Mapping[str, str]) -> Iterator[Problem]:
        """The settings that are likely not meant so. Errors: ConfigError."""
        yield from advice(config)

    def diagnose(self, config: Mapping[str, str]) -> Iterator[Finding]:
        """The doctor's findings about the catalog and the tables that are named."""
        if complete_context() is None:
            found = "It is asked in Spark's JVM, which only a running worker has."
            yield Finding("Iceberg catalog", None, found, "A preview of the connector says what tables lack.")
            return
        options, catalog = self._catalog(config, _PATIENCE_S)
        try:
            for table in options.tables:
                yield _finding(table, catalog.load(table), options)
        except (LakeError, RetriableError) as error:
            yield Finding("Iceberg catalog", False, str(error), "Check iceberg.catalog.*.")
        finally:
            catalog.close()

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config. Errors: ConfigError with all problems."""
        if problems := [*self.settings.problems(config), *self.validate(config)]:
            raise ConfigError(problems)
        self.given = dict(config)

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept all, and forget the marks of these topics in the tables, so that Kafka's offsets count.

        Errors: RetriableError, LakeError; NotImplementedError if records name the tables: nobody knows them all.
        """
        options, catalog = self._catalog(config, _PATIENCE_S)
        if options.dynamic:
            raise NotImplementedError(
                "Its offsets are in its tables, too, whose names are in the records. Use a connector of another name"
            )
        topics = {partition.topic: partition.topic for partition in kafka_offsets(offsets)}
        try:
            for table in options.tables:
                if catalog.load(table) is not None:
                    catalog.set_marks(table, topics, None)
        finally:
            catalog.close()
        return True

    def _catalog(self, config: Mapping[str, str], limit_s: float) -> tuple[SinkOptions, JvmCatalog]:
        options, settings = sink_options(config), CatalogSettings.of(config, self.worker)
        return options, JvmCatalog(settings, options.connector, 0, options.branch, limit_s=limit_s)


def _finding(table: str, state: TableState | None, options: SinkOptions) -> Finding:
    what = f"table {table}"
    if state is None and options.creates:
        return Finding(what, None, "It is missing, and made with the first record.")
    if state is None:
        return Finding(what, False, "It is missing.", "Create it, or set iceberg.tables.auto-create-enabled=true.")
    if options.upserts and not (options.id_columns(table) or state.identifier):
        return Finding(what, False, "It has no identifier fields.", f"Set iceberg.table.{table}.id-columns.")
    return Finding(what, True, f"format version {state.format_version}, {len(state.schema.fields)} columns")
