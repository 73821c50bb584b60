"""HdfsSource and S3Source: files into topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace import __version__
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.hdfs.source import settings as source_settings
from headrace.connectors.hdfs.source.task import FileSourceTask
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.plugins.contracts import Connector, ConnectorContext


class HdfsSourceConnector(Connector):
    """Plans one task for the files of the store that `store.url` names."""

    settings = source_settings.HDFS
    version = __version__
    task_class = "headrace.connectors.hdfs.FileSourceTask"
    task = FileSourceTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Problems between settings, and of an unknown or forbidden URL; none if a single setting is wrong."""
        if self.settings.problems(config):
            return []
        try:
            source_settings.source_settings(config)
            store_of(StoreSettings.of(source_settings.parse(config), self.worker))
        except ConfigError as error:
            return error.problems
        return []

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Checks the config. Errors: ConfigError with all problems."""
        source_settings.source_settings(config)
        self.given = dict(config)

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts offsets that are forgotten: their files are read again. Errors: ValueError for other changes."""
        if any(one.get("offset") is not None for one in offsets.get("offsets") or ()):
            raise ValueError("The offsets of a file source can be forgotten (null), and cannot be set to others")
        return True


class S3SourceConnector(HdfsSourceConnector):
    """Plans one task for the objects of the bucket that `s3.bucket.name` names."""

    settings = source_settings.S3
