"""The sinks of files under the names that Confluent's users know."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from headrace.config.settings import Problem, Settings
from headrace.connectors.hdfs.settings import HDFS, HDFS3, S3, unused
from headrace.connectors.hdfs.sink.offsets import set_offsets
from headrace.connectors.hdfs.sink.task import FileSinkTask
from headrace.connectors.hdfs.sink.validation import sink_problems, warnings
from headrace.plugins.contracts import Connector, ConnectorContext

log = logging.getLogger(__name__)


class HdfsSinkConnector(Connector):
    """Plans as many equal tasks as allowed, each with its share of the topics' partitions."""

    settings: ClassVar[Settings] = HDFS
    version = "10.2.17"
    task_class = "io.confluent.connect.hdfs.HdfsSinkTask"
    task = FileSinkTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems beyond single settings."""
        return sink_problems(config, self.worker)

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config, and log its settings without effect. Errors: ConfigError with all problems."""
        self.settings.parse(config)
        if names := unused(config):
            log.warning("These settings have no effect here: %s", ", ".join(names))
        for text in warnings(config):
            log.warning("%s.", text)
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The connector's config for each task."""
        return [dict(self._config) for _ in range(max_tasks)]

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept all; set the offsets in the store, too. Errors: RetriableError, StoreError."""
        set_offsets(config, self.worker, offsets)
        return True


class Hdfs3SinkConnector(HdfsSinkConnector):
    """The same sink, under the name of the connector for Hadoop 3."""

    settings: ClassVar[Settings] = HDFS3
    task_class = "io.confluent.connect.hdfs3.Hdfs3SinkTask"


class S3SinkConnector(HdfsSinkConnector):
    """The same sink with one bucket's settings, and first offsets only in names."""

    settings: ClassVar[Settings] = S3
    task_class = "io.confluent.connect.s3.S3SinkTask"
