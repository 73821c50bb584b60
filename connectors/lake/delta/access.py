"""The paths and hosts that tables may be at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.connectors.lake.delta.settings import PATH, DeltaOptions
from headrace.plugins.path_bounds import allowed_paths, check_allowed

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_S3: Final = ("s3", "s3a")
_ENDPOINTS: Final = ("aws_endpoint_url", "aws_endpoint_url_s3", "aws_endpoint", "endpoint", "endpoint_url")
_REGIONS: Final = ("aws_region", "region", "aws_default_region", "default_region")


@dataclass(frozen=True)
class Access:
    """Judges a table's path before it is opened."""

    paths: tuple[str, ...]
    hosts: AllowedHosts
    storage: Mapping[str, str]

    @classmethod
    def of(cls, options: DeltaOptions, worker: Mapping[str, Any]) -> Access:
        """The bounds that the worker sets."""
        is_local = local_path(options.path) is not None
        return cls(allowed_paths(worker) if is_local else (), AllowedHosts.of(worker), options.storage)

    def check(self, path: str) -> None:
        """Refuse a path outside of the allowed ones, and Amazon's S3 if no host of it is allowed. Errors: ConfigError.

        The hosts that settings name are judged for all connectors alike.
        """
        if (local := local_path(path)) is not None:
            check_allowed(local, self.paths)
        elif urlsplit(path).scheme in _S3 and self._option(_ENDPOINTS) is None:
            region = self._option(_REGIONS) or "us-east-1"
            self.hosts.check(PATH, f"s3.{region}.amazonaws.com")

    def _option(self, names: tuple[str, ...]) -> str | None:
        return next((value for key, value in self.storage.items() if key.lower() in names), None)


def local_path(path: str) -> str | None:
    """Return the path on the worker's host; None for a URL of another system."""
    if path.lower().startswith("file:"):
        return unquote(urlsplit(path).path)
    return None if _URL.match(path) else path
