"""A Java config provider: called in the Java host, and made again in the next host after that was lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final
from uuid import uuid4

from headrace.config.problems import ConfigError, Problem
from headrace.config.providers import ConfigProvider, Provided
from headrace.connectors.java.errors import HostLost, JavaError
from headrace.connectors.java.hosts import running_host
from headrace.connectors.java.process import JavaHost

_LIMIT_S: Final = 60.0
_CLOSE_S: Final = 4.0


class JavaConfigProvider(ConfigProvider):
    """Calls a Java config provider; `plugin.py` makes a subclass for each Java class."""

    plugin: ClassVar[Mapping[str, Any]]
    """Class with its jars, as sent to the host."""

    def __init__(self) -> None:
        self._name = uuid4().hex
        self._params: dict[str, str] = {}
        self._host: JavaHost | None = None

    def configure(self, params: Mapping[str, Any]) -> None:
        """Make and configure it in the host. Errors: HostLost, HostTimeout, those of the plugin."""
        self._params = dict(params)
        self._call("provider.configure")

    def get(self, path: str, keys: Collection[str]) -> Provided:
        """Return the plugin's values. Errors: as `configure`; ConfigError with the plugin's message."""
        try:
            found = self._call("provider.get", path=path, keys=sorted(keys))
        except JavaError as error:
            said, remedy = str(error).partition("\n")[0], f"The config provider {self.plugin['class']} says so."
            raise ConfigError(Problem(path, None, said, remedy)) from error
        return Provided(found["values"], found["ttl_ms"])

    def close(self) -> None:
        """Close it in its host."""
        if self._host is not None and not self._host.is_lost:
            self._host.call("provider.close", _CLOSE_S, provider=self._name)

    def _call(self, name: str, **given: Any) -> Any:
        try:
            return self._asked(name, **given)
        except HostLost:  # a plugin may just have ended the host; the next one has the same values
            return self._asked(name, **given)

    def _asked(self, name: str, **given: Any) -> Any:
        self._host = running_host()
        return self._host.call(name, _LIMIT_S, provider=self._name, plugin=self.plugin, params=self._params, **given)
