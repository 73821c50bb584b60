"""The installed plugins as a herder asks for them: what discovery finds, in the errors that REST answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.config.problems import ConfigError
from headrace.config.validation import ConnectorValidator, Validation, plugin_config
from headrace.config.values import looks_secret
from headrace.plugins import discovery
from headrace.worker.herder import BadRequest, Config, Kind, NotFound, PluginInfo
from headrace.worker.status import masked

if TYPE_CHECKING:
    from headrace.config.worker import WorkerConfig
    from headrace.plugins.contracts import Connector


class InstalledPlugins:
    """`Plugins` over what discovery found; `exactly_once` is None in standalone mode."""

    def __init__(
        self, found: discovery.Plugins, worker: WorkerConfig | None = None, exactly_once: bool | None = None
    ) -> None:
        self._found = found
        self._validator = ConnectorValidator(found, worker, exactly_once)

    def kind(self, connector_class: str) -> Kind | None:
        try:
            kind = self._found.find("connector", connector_class.strip()).kind
        except discovery.UnknownPluginError:
            return None
        return "sink" if kind == "sink" else "source"

    def connector(self, connector_class: str) -> type[Connector]:
        try:
            return self._found.find("connector", connector_class.strip()).load()
        except ConfigError as error:
            raise BadRequest(_text(error)) from error

    def infos(self, connectors_only: bool = True) -> list[PluginInfo]:
        kinds = discovery.CONNECTORS if connectors_only else tuple(discovery.KINDS)
        return [PluginInfo(one.class_name, one.kind, one.version) for one in self._found.of_kind(*kinds)]

    def settings(self, plugin: str) -> list[dict[str, Any]]:
        try:
            named = self._found.named(plugin)
        except discovery.UnknownPluginError as error:
            raise NotFound(_text(error)) from error
        return plugin_config(named)

    def validate(self, config: Config) -> Validation:
        try:
            return self._validator(config)
        except ConfigError as error:
            # The sentence may show the whole config. Invariant 6: a secret never reaches an answer.
            secrets = [value for key, value in config.items() if value is not None and looks_secret(key)]
            raise BadRequest(masked(_text(error), secrets)) from error


def _text(error: ConfigError) -> str:
    return "\n".join(problem.message for problem in error.problems)
