"""The settings of a catalog: `iceberg.catalog`, `iceberg.catalog.*`, `iceberg.hadoop-conf-dir`, `iceberg.hadoop.*`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.problems import ConfigError, Problem
from headrace.config.setting_group import HIGH, LONG, MEDIUM, MID, SettingGroup
from headrace.config.settings import Setting, Type
from headrace.config.values import HIDDEN, looks_secret, telling, without_login
from headrace.config.worker.allowed_files import ALLOWED_PATHS
from headrace.config.worker.allowed_hosts import AllowedHosts, HostUnknown, RecentlyAllowed, named_hosts
from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog_bounds import (
    class_problems,
    is_class_allowed,
    jdbc_problems,
    local_path,
)
from headrace.plugins.errors import RetriableError
from headrace.plugins.path_bounds import allowed_paths, check_allowed

NAME: Final = "iceberg.catalog"
PROPERTIES: Final = "iceberg.catalog."
CONF_DIR: Final = "iceberg.hadoop-conf-dir"
HADOOP: Final = "iceberg.hadoop."
UNDECLARED: Final = (PROPERTIES, HADOOP)
"""Prefixes of settings that name no fixed key."""
_FILES: Final = ("core-site.xml", "hdfs-site.xml", "hive-site.xml")
_PLACES: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties of tables that name a folder."""
_PROVIDER: Final = "write.location-provider.impl"
_OF_AWS: Final = ("glue", "rest", "GlueCatalog", "RESTCatalog", "S3FileIO")
_REST: Final = "org.apache.iceberg.rest.RESTCatalog"
_S3: Final = ("s3:", "s3a:", "s3n:")
_HEADERS: Final = f"{PROPERTIES}header."
_BOUNDS: Final = {
    "ipc.client.connect.max.retries": "2",
    "ipc.client.connect.max.retries.on.timeouts": "2",
    "ipc.client.connect.timeout": "10000",
    "dfs.client.failover.max.attempts": "4",
    "hive.metastore.client.socket.timeout": "60s",
    "iceberg.hive.lock-creation-timeout-ms": "15000",
    "iceberg.hive.lock-timeout-ms": "60000",
}
"""Short bounds: the worker tries again itself; the retries of Hadoop's and Hive's clients take minutes."""
_REST_BOUNDS: Final = {"rest.client.connection-timeout-ms": "10000", "rest.client.socket-timeout-ms": "60000"}
"""Without them a request waits without end."""
_JDBC_BOUNDS: Final = {
    "jdbc:postgresql:": {"jdbc.connectTimeout": "10", "jdbc.socketTimeout": "60"},
    "jdbc:mariadb:": {"jdbc.connectTimeout": "10000", "jdbc.socketTimeout": "60000"},
    "jdbc:mysql:": {"jdbc.connectTimeout": "10000", "jdbc.socketTimeout": "60000"},
}
"""Without them a connection whose server has gone in silence is never given up, and the pool has two."""


def catalog_settings(group: SettingGroup) -> tuple[Setting, ...]:
    """The declared settings of a catalog; its properties are undeclared."""
    return (
        group(
            NAME,
            Type.STRING,
            "iceberg",
            HIGH,
            MID,
            "Catalog",
            "The catalog's name. Its properties are iceberg.catalog.*, such as iceberg.catalog.type=rest.",
        ),
        group(
            CONF_DIR,
            Type.STRING,
            None,
            MEDIUM,
            LONG,
            "Hadoop Configuration",
            "A folder on the worker's host with core-site.xml, hdfs-site.xml or hive-site.xml; iceberg.hadoop.* come "
            "before it.",
        ),
    )


@dataclass(frozen=True)
class CatalogSettings:
    """The properties of one catalog, and the bounds that the worker sets to them."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    hadoop: Mapping[str, str] = field(repr=False)
    conf_dir: str
    threads: int
    paths: tuple[str, ...]
    allowed: AllowedHosts
    hosts: RecentlyAllowed = field(repr=False)

    @classmethod
    def of(cls, config: Mapping[str, str | None], worker: Mapping[str, Any]) -> CatalogSettings:
        """Return the settings in a connector's config. Errors: ConfigError."""
        made = cls._read(config, worker)
        if any(local_path(value, made._is_local) is not None for value in made._keyed().values()):
            allowed_paths(worker)  # warns if there are no bounds
        if problems := list(made._problems()):
            raise ConfigError(problems)
        return made

    @classmethod
    def _read(cls, config: Mapping[str, str | None], worker: Mapping[str, Any]) -> CatalogSettings:
        allowed, properties = AllowedHosts.of(worker), _under(PROPERTIES, config)
        # What is no number is refused as a setting.
        threads = (config.get("iceberg.control.commit.threads") or "").strip()
        return cls(
            name=config.get(NAME) or "iceberg",
            properties=properties,
            hadoop=_under(HADOOP, config),
            conf_dir=config.get(CONF_DIR) or "",
            threads=int(threads) if threads.isdecimal() else 2 * (os.cpu_count() or 1),
            paths=tuple(worker.get(ALLOWED_PATHS) or ()),
            allowed=allowed,
            hosts=RecentlyAllowed(allowed),
        )

    @property
    def about(self) -> str:
        """The catalog in messages."""
        uri = self.properties.get("uri") or self.properties.get("warehouse") or ""
        return f"'{self.name}'" + (f" ({self.without_secrets(without_login(uri))})" if uri else "")

    @property
    def needs_aws(self) -> bool:
        """True if Amazon's clients are needed: for S3, for Glue, and for a REST catalog, which may name S3."""
        told = self.properties
        kinds = (told.get("type", "").lower(), told.get("catalog-impl", ""), told.get("io-impl", ""))
        return (
            any(kind.endswith(_OF_AWS) for kind in kinds)
            or told.get("warehouse", "").startswith(_S3)
            or any(key.startswith(("s3.", "client.", "glue.")) for key in told)
        )

    def opening(self) -> dict[str, Any]:
        """Return the request that opens the catalog; it has secrets. Errors: ConfigError if a file has gone."""
        files = [
            str(path.absolute()) for name in _FILES if self.conf_dir and (path := Path(self.conf_dir, name)).exists()
        ]
        hadoop = {**_BOUNDS, **self.hadoop}
        properties = {**self._bounds(), **self.properties}
        own = {"catalog": self.name, "properties": properties, "threads": self.threads}
        return {**own, "hadoop": hadoop, "hadoop_files": files, "allowed_paths": list(self.paths)}

    def _bounds(self) -> Mapping[str, str]:
        """The bounds of the catalog's client, but for those that are set, in any case."""
        if self.properties.get("type", "").lower() == "rest" or self.properties.get("catalog-impl") == _REST:
            return _REST_BOUNDS
        uri, told = self.properties.get("uri", ""), {key.lower() for key in self.properties}
        for scheme, bounds in _JDBC_BOUNDS.items():
            if uri.startswith(scheme):
                return {key: value for key, value in bounds.items() if key.lower() not in told}
        return {}

    def check_hosts(self) -> None:
        """Check the addresses of all hosts in the settings. Errors: ConfigError, RetriableError."""
        self._check_hosts(self._keyed())

    def check_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Refuse properties of a table that lead out of the worker's bounds. Errors: LakeError, RetriableError."""
        provider = properties.get(_PROVIDER, "")
        if provider and not is_class_allowed(provider):
            raise LakeError(f"Table {table}: {_PROVIDER} names the class {provider}, which is not Iceberg's own.")
        self.check_places(table, {key: properties[key] for key in _PLACES if key in properties})

    def check_table(self, table: str, told: Mapping[str, Any]) -> None:
        """Refuse a table whose files lie out of the worker's bounds. Errors: LakeError, RetriableError."""
        self.check_properties(table, told["properties"])
        self.check_places(table, {"location": told["location"], **told["reached"]})

    def without_secrets(self, text: str) -> str:
        """Return the text without the values of secret settings."""
        for key, value in self._keyed().items():
            if looks_secret(key) or key.startswith(_HEADERS):
                for line in sorted(telling(value), key=len, reverse=True):
                    text = text.replace(line, HIDDEN)
        return without_login(text)

    def check_places(self, table: str, places: Mapping[str, str]) -> None:
        """Refuse files, or folders, of a table out of the worker's bounds. Errors: LakeError, RetriableError."""
        try:
            for place in places.values():
                if (path := local_path(place, self._is_local)) is not None:
                    check_allowed(path, self.paths)
            self._check_hosts(places)
        except ConfigError as error:
            raise LakeError(f"Table {table}: {error}") from None

    def _check_hosts(self, config: Mapping[str, str]) -> None:
        try:
            for key, host in named_hosts(config):
                self.hosts.check(key, host)
        except HostUnknown as error:
            raise RetriableError(str(error)) from error

    @property
    def _is_local(self) -> bool:
        """True if a path without a scheme is a local one."""
        return not self.conf_dir and urlsplit(self.hadoop.get("fs.defaultFS", "")).scheme in ("", "file")

    def _keyed(self) -> dict[str, str]:
        own = {PROPERTIES + key: value for key, value in self.properties.items()}
        return own | {HADOOP + key: value for key, value in self.hadoop.items()}

    def _problems(self) -> Iterator[Problem]:
        if not self.properties:
            why = "No property of the catalog is set."
            yield Problem(PROPERTIES + "type", None, why, "Set iceberg.catalog.type, uri and warehouse.")
        yield from class_problems(PROPERTIES, self.properties, HADOOP, self.hadoop)
        yield from jdbc_problems(PROPERTIES, self.properties)
        for key, value in self._keyed().items():
            if (path := local_path(value, self._is_local)) is not None:
                yield from _path_problems(key, path, self.paths)
        if self.conf_dir:
            if not any(Path(self.conf_dir, name).exists() for name in _FILES):
                advice = f"Set it to a directory on the worker's host that holds {', '.join(_FILES)}."
                yield Problem(CONF_DIR, self.conf_dir, "It has none of Hadoop's configuration files.", advice)
            yield from _path_problems(CONF_DIR, self.conf_dir, self.paths)


def _under(prefix: str, config: Mapping[str, str | None]) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix) and value}


def _path_problems(key: str, path: str, allowed: tuple[str, ...]) -> Iterator[Problem]:
    try:
        check_allowed(path, allowed)
    except ConfigError as error:
        for problem in error.problems:
            yield Problem(key, problem.value, problem.message, problem.remedy)
