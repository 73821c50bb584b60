"""The settings that stores are opened with, parsed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from headrace.config.values import Password
from headrace.config.worker.allowed_hosts import ALL_NAMES, AllowedHosts
from headrace.plugins.path_bounds import allowed_paths


@dataclass(frozen=True)
class HadoopSettings:
    """The access to HDFS."""

    conf_dir: str = ""
    """A folder with core-site.xml and hdfs-site.xml."""
    user: str = ""
    """The user's name for a cluster without Kerberos."""
    kerberos: bool = False
    principal: str = ""
    keytab: str = ""
    name_node_principal: str = ""
    renew_ms: int = 3_600_000


@dataclass(frozen=True)
class S3Settings:
    """The access to S3 or a service of its protocol; without a key the usual chain of credentials is asked."""

    region: str = ""
    endpoint: str = ""
    """A URL, or empty for Amazon's."""
    access_key: str = ""
    secret_key: Password | None = None
    anonymous: bool = False
    path_style: bool = True
    encryption: str = ""
    encryption_key: str = ""
    customer_key: Password | None = None
    acl: str = ""
    part_bytes: int = 26_214_400
    retries: int = 3
    proxy: Password | None = None
    """A URL, with the login if one is needed."""


@dataclass(frozen=True)
class StoreSettings:
    """A store's URL and access; picklable."""

    url: str
    """hdfs:, viewfs:, webhdfs:, swebhdfs:, s3:, s3a: or file:."""
    hadoop: HadoopSettings = field(default_factory=HadoopSettings)
    s3: S3Settings = field(default_factory=S3Settings)
    allowed_paths: tuple[str, ...] = ()
    """The worker's `file.allowed.paths`, for `file:`."""
    hosts: AllowedHosts = ALL_NAMES
    """The hosts that the worker allows."""

    @classmethod
    def of(cls, values: Mapping[str, Any], worker: Mapping[str, Any]) -> StoreSettings:
        """Return the settings of a connector's parsed values, with defaults for the other store."""
        url, bucket = values.get("store.url") or values.get("hdfs.url") or "", values.get("s3.bucket.name")
        endpoint = values.get("s3.endpoint") or ""
        if bucket and (not url or url.startswith(("http://", "https://"))):
            endpoint, url = url, f"s3://{bucket}"
        paths = allowed_paths(worker) if url.startswith("file:") else ()
        return cls(url, _hadoop(values), _s3(values, endpoint), paths, AllowedHosts.of(worker))


def _hadoop(values: Mapping[str, Any]) -> HadoopSettings:
    return HadoopSettings(
        conf_dir=values.get("hadoop.conf.dir") or os.environ.get("HADOOP_CONF_DIR", ""),
        user=values.get("hadoop.user") or os.environ.get("HADOOP_USER_NAME", ""),
        kerberos=bool(values.get("hdfs.authentication.kerberos")),
        principal=values.get("connect.hdfs.principal") or "",
        keytab=values.get("connect.hdfs.keytab") or "",
        name_node_principal=values.get("hdfs.namenode.principal") or "",
        renew_ms=int(values.get("kerberos.ticket.renew.period.ms") or HadoopSettings.renew_ms),
    )


def _s3(values: Mapping[str, Any], endpoint: str) -> S3Settings:
    return S3Settings(
        region=values.get("s3.region") or "",
        endpoint=endpoint,
        access_key=values.get("aws.access.key.id") or "",
        secret_key=values.get("aws.secret.access.key"),
        anonymous="AnonymousCredentials" in (values.get("s3.credentials.provider.class") or ""),
        path_style=values.get("s3.path.style.access.enabled", True),
        encryption=values.get("s3.ssea.name") or "",
        encryption_key=values.get("s3.sse.kms.key.id") or "",
        customer_key=values.get("s3.sse.customer.key"),
        acl=values.get("s3.acl.canned") or "",
        part_bytes=int(values.get("s3.part.size") or S3Settings.part_bytes),
        retries=int(values.get("s3.part.retries", S3Settings.retries)),
        proxy=_proxy(values),
    )


def _proxy(values: Mapping[str, Any]) -> Password | None:
    url: str = values.get("s3.proxy.url") or ""
    user, password = values.get("s3.proxy.user"), values.get("s3.proxy.password")
    if user and "://" in url:
        login = quote(user, safe="") + (f":{quote(password.value, safe='')}" if password is not None else "")
        url = url.replace("://", f"://{login}@", 1)
    return Password(url) if url else None
