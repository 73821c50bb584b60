"""Opens Amazon's client for S3 by the settings."""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_hosts import AllowedHosts, RecentlyAllowed
from headrace.connectors.hdfs.stores.connected import CONNECTIONS
from headrace.connectors.hdfs.stores.settings import S3Settings

_CONNECT_S: Final = 10
_ANSWER_S: Final = 60


def refuse_amazon(bucket: str, region: str, hosts: AllowedHosts) -> None:
    """Refuse Amazon's own S3 if none of its host names is allowed; sends no request. Errors: ConfigError.

    If networks are allowed, its addresses may be among them: then each request is judged by itself.
    """
    if os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
        return
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    names = ["s3.amazonaws.com", f"s3.{region}.amazonaws.com", f"{bucket}.s3.{region}.amazonaws.com"]
    problems = [hosts.problem("store.url", name) for name in names]
    names_amazon = any("amazonaws.com" in pattern for pattern in hosts.names)  # such as one of a profile's region
    if problems[1] is not None and all(problems) and not names_amazon:
        raise ConfigError(problems[1])


def opened_client(settings: S3Settings, hosts: AllowedHosts) -> Any:
    """Return a client; without a key it asks the usual chain: environment, profiles, the machine's role.

    Each request's host is judged before it is sent, redirects included; the chain's hosts are the operator's. Errors:
    botocore's, ValueError.
    """
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.session import Session

    proxy = settings.proxy.value if settings.proxy is not None else None
    # Stores other than Amazon's may not know checksums.
    checksums = "when_required" if settings.endpoint else "when_supported"
    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_ANSWER_S,
        max_pool_connections=CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": settings.retries + 1},
        s3={"addressing_style": "path" if settings.path_style else "virtual"},
        proxies={"http": proxy, "https": proxy} if proxy else None,
        signature_version=UNSIGNED if settings.anonymous else None,
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
    )
    secret = settings.secret_key.value if settings.secret_key is not None else None
    made = Session().create_client(
        "s3",
        region_name=settings.region or None,
        endpoint_url=settings.endpoint or None,
        aws_access_key_id=settings.access_key or None,
        aws_secret_access_key=secret or None,
        config=config,
    )

    recent = RecentlyAllowed(hosts)

    def judged(request: Any, **_: Any) -> None:
        key = "s3.endpoint" if settings.endpoint else "store.url"
        recent.check(key, urlsplit(request.url).hostname or "")
        if proxy is not None:
            recent.check("s3.proxy.url", urlsplit(proxy).hostname or "")

    made.meta.events.register("before-send.s3", judged)
    return made
