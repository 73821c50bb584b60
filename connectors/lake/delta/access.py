"""The paths and hosts that tables may be at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.connectors.lake.delta.places import local_path
from headrace.connectors.lake.delta.settings import PATH, DeltaOptions
from headrace.plugins.path_bounds import allowed_paths, check_allowed

_S3: Final = ("s3", "s3a")
_ENDPOINTS: Final = ("aws_endpoint_url", "aws_endpoint_url_s3", "aws_endpoint", "endpoint", "endpoint_url")
_REGIONS: Final = ("aws_region", "region", "aws_default_region", "default_region")
_GOOGLE: Final = ("google_base_url", "base_url")
_AZURE_ENDPOINTS: Final = ("azure_storage_endpoint", "azure_endpoint", "endpoint")
_ACCOUNTS: Final = ("azure_storage_account_name", "account_name")
_EMULATORS: Final = ("azure_storage_use_emulator", "object_store_use_emulator", "use_emulator")
_FABRIC: Final = ("azure_use_fabric_endpoint", "use_fabric_endpoint")


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
        """Refuse a path outside of the allowed ones, and a store that no setting names, if its host is not allowed.

        The hosts that settings name are judged for all connectors alike.

        Errors: ConfigError; HostUnknown.
        """
        if (local := local_path(path)) is not None:
            check_allowed(local, self.paths)
            return
        for host in self._implied(urlsplit(path).scheme):
            self.hosts.check(PATH, host)

    def _implied(self, scheme: str) -> Iterator[str]:
        """Yield the store's host if it is no setting's value."""
        if scheme in _S3:
            if self._option(_ENDPOINTS) is None:
                yield f"s3.{self._option(_REGIONS) or 'us-east-1'}.amazonaws.com"
        elif scheme == "gs":
            if self._option(_GOOGLE) is None:
                yield "storage.googleapis.com"
        elif self._option(_EMULATORS) is not None:
            yield "127.0.0.1"
        elif self._option(_AZURE_ENDPOINTS) is None and (account := self._option(_ACCOUNTS)) is not None:
            yield f"{account}.blob.{'core.windows.net' if self._option(_FABRIC) is None else 'fabric.microsoft.com'}"

    def _option(self, names: tuple[str, ...]) -> str | None:
        return next((value for key, value in self.storage.items() if key.lower() in names), None)
