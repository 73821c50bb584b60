"""Config providers inside a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jpype

from headrace.connectors.java.host.plugin import HostedPlugin, java_map


class HostedProvider:
    """A configured config provider."""

    def __init__(self, plugin: HostedPlugin, params: Mapping[str, str]) -> None:
        self._plugin = plugin
        with plugin.entered():
            self._provider = plugin.make()
            self._provider.configure(java_map(params))

    def get(self, path: str, keys: Sequence[str]) -> dict[str, Any]:
        """Return the values of these keys under the path, and their life in milliseconds, None for ever."""
        wanted = jpype.java.util.HashSet()
        for key in keys:
            wanted.add(key)
        with self._plugin.entered():
            found = self._provider.get(path, wanted)
        values = {
            str(one.getKey()): str(one.getValue()) for one in found.data().entrySet() if one.getValue() is not None
        }
        ttl_ms = found.ttl()
        return {"values": values, "ttl_ms": None if ttl_ms is None else int(ttl_ms)}

    def close(self) -> None:
        """Close the provider."""
        with self._plugin.entered():
            self._provider.close()
