"""Finds the home of a store by its URL."""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import without_login
from headrace.connectors.hdfs.stores.local import LocalStore
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Store


def store_of(settings: StoreSettings) -> Store:
    """Return the store of the settings' URL; connects to nothing. Errors: ConfigError."""
    scheme = urlsplit(settings.url).scheme
    if scheme == "file":
        return LocalStore(settings)
    raise ConfigError(
        Problem(
            "store.url",
            without_login(settings.url),
            f"No store is known for '{scheme}:'.",
            "Set it to a URL such as hdfs://namenode:8020, webhdfs://namenode:9870, s3://bucket or file:///folder.",
        )
    )
