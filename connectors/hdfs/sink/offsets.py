"""Offsets that an operator sets or resets by REST, written to the partitions' tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.connectors.hdfs.settings import sink_settings, store_values
from headrace.connectors.hdfs.sink.names import Names
from headrace.connectors.hdfs.sink.side_by_side import each
from headrace.connectors.hdfs.sink.token import Token
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.offsets import TopicPartition, kafka_offsets


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
    token = Token(store, partition, "operator", names)
    token.take(None)
    token.move(offset)
