"""Finds a store by its URL; loads that store's client only."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import without_login
from headrace.connectors.hdfs.stores.hadoop_conf import properties, web_addresses
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Store

_HADOOP: Final = ("hdfs", "webhdfs", "swebhdfs", "viewfs")


def store_of(settings: StoreSettings) -> Store:
    """Return the store of the settings' URL; connects to nothing. Errors: ConfigError."""
    scheme = urlsplit(settings.url).scheme
    if scheme == "file":
        from headrace.connectors.hdfs.stores.local import LocalStore

        return LocalStore(settings)
    if scheme in ("s3", "s3a"):
        from headrace.connectors.hdfs.stores.s3 import S3Store

        return S3Store(settings)
    if scheme in _HADOOP:
        return _hadoop(settings)
    raise ConfigError(
        Problem(
            "store.url",
            without_login(settings.url),
            f"No store is known for '{scheme}:'.",
            "Set it to a URL such as hdfs://namenode:8020, webhdfs://namenode:9870, s3://bucket or file:///folder.",
        )
    )


def _hadoop(settings: StoreSettings) -> Store:
    """Return the store by WebHDFS if its address is known, else through Spark's JVM, which Kerberos needs."""
    conf = properties(settings.hadoop.conf_dir)
    addresses = [] if settings.hadoop.kerberos else web_addresses(settings.url, conf)
    if addresses:
        from headrace.connectors.hdfs.stores.webhdfs import WebHdfsStore

        return WebHdfsStore(settings, addresses)
    from headrace.connectors.hdfs.stores.hadoop import HadoopStore

    return HadoopStore(settings)
