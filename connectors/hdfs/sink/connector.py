"""The sinks of files under the names that Confluent's users know."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headrace.config.settings import Problem, Settings
from headrace.connectors.hdfs.settings import HDFS, HDFS3, S3, sink_settings, store_values, unused
from headrace.connectors.hdfs.sink.commit_marker import CommitMarker
from headrace.connectors.hdfs.sink.names import Names
from headrace.connectors.hdfs.sink.parallel_uploads import each
from headrace.connectors.hdfs.sink.task import FileSinkTask
from headrace.connectors.hdfs.sink.validation import sink_problems, warnings
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.contracts import Connector, ConnectorContext
from headrace.plugins.offsets import TopicPartition, kafka_offsets

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
        self.given = dict(config)

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


def set_offsets(config: Mapping[str, str], worker: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """Make the connector's next tasks continue there; `body` is the request's. Errors: RetriableError, StoreError.

    Files stay as they are: if records would be written again under the name of a file, its task says so.
    """
    store = store_of(StoreSettings.of(store_values(config), worker))
    if not store.renames:
        return  # Kafka's offsets are all there is
    names = Names(sink_settings(config).naming, "")
    try:
        wanted = kafka_offsets(body)
        if body.get("reset"):
            wanted |= dict.fromkeys(_with_tokens(store, names))
        each(lambda one: _set(store, names, *one), wanted.items())
    finally:
        store.close()


def _with_tokens(store: Store, names: Names) -> Iterator[TopicPartition]:
    """The partitions that have a folder, if topics.dir is one for all topics."""
    if "${" in names.settings.topics_dir:
        return
    above = f"{names.settings.topics_dir}/+tmp"
    for topic in store.entries(above):
        for partition in store.entries(topic.path):
            name = partition.path.rpartition("/")[2]
            if partition.is_folder and name.isdigit():
                yield TopicPartition(topic.path[len(above) + 1 :], int(name))


def _set(store: Store, names: Names, partition: TopicPartition, offset: int | None) -> None:
    marker = CommitMarker(store, partition, "operator", names)
    marker.take(None)
    marker.move(offset)
