"""Installed plugins for a herder: those that discovery found, with the errors of REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.config.connector.enrichment import version_objection
from headrace.config.connector.plugin_versions import of_version
from headrace.config.connector.validation import Validation, plugin_config
from headrace.config.connector.validator import ConnectorValidator
from headrace.config.lint.finding import Finding
from headrace.config.lint.linter import Linter
from headrace.config.lint.view import Surroundings
from headrace.config.plugin_path import DiscoveryMode
from headrace.config.problems import ConfigError
from headrace.config.values import Type, read
from headrace.config.variables import NO_VARIABLES, UnresolvedError, Variables
from headrace.config.worker.java_host import JAVA_HOST, jvm_of
from headrace.plugins.interop import discovery
from headrace.plugins.interop.java_hosts import JAVA_HOSTS
from headrace.worker.errors import BadRequest, ConnectError, NotFound
from headrace.worker.herder.validation_redaction import ValidationRedaction
from headrace.worker.logging.logs import connector_context
from headrace.worker.logging.redaction import WORKER, Redaction, learn, secrets_of
from headrace.worker.model import Config, Kind, PluginInfo

if TYPE_CHECKING:
    from headrace.config.worker.config import WorkerConfig
    from headrace.plugins.contracts import Connector


class InstalledPlugins:
    """`PluginCatalog` of the plugins that discovery found; `exactly_once` is None in standalone mode."""

    def __init__(
        self, found: discovery.Plugins, worker: WorkerConfig | None = None, exactly_once: bool | None = None
    ) -> None:
        self._found = found
        self.variables = NO_VARIABLES if worker is None else worker.variables
        self.worker: Mapping[str, Any] = {} if worker is None else worker.for_plugins()
        self._validator = ConnectorValidator(found, worker, exactly_once)
        self._linter = Linter(found, worker, exactly_once)

    def kind(self, connector_class: str) -> Kind | None:
        try:
            kind = self._find(connector_class).kind
        except (discovery.UnknownPluginError, UnresolvedError):
            return None
        return "sink" if kind == "sink" else "source"

    def connector(self, connector_class: str, version: str | None = None) -> type[Connector]:
        try:
            found: type[Connector] = self._find(connector_class, version).load()
        except ConfigError as error:
            raise BadRequest(_text(error)) from error
        return found

    def infos(self, connectors_only: bool = True) -> list[PluginInfo]:
        kinds = discovery.CONNECTORS if connectors_only else discovery.LISTED
        return [PluginInfo(one.class_name, one.kind, one.version) for one in self._found.all_versions(*kinds)]

    def settings(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        try:
            named = self._found.named(plugin)
        except discovery.UnknownPluginError as error:
            raise NotFound(_text(error)) from error
        if named.kind not in discovery.LISTED:
            types = "sink, source, converter, header_converter, transformation, predicate"
            raise BadRequest(f"Invalid plugin class {plugin}. Valid types are {types}.")
        found = of_version(named, version)
        if found is None:
            raise NotFound(version_objection(self._found, named, version) or "")
        return plugin_config(found)

    def validate(self, config: Config) -> Validation:
        raw = {key: value for key, value in config.items() if value is not None}
        redaction = Redaction.of(raw, self._shown(raw))
        with connector_context(raw.get("name", ""), "validate", redaction=redaction):
            try:
                resolved = self.variables.resolve(raw)
            except UnresolvedError as error:
                raise ConnectError(_text(error)) from error
            echo = ValidationRedaction(raw, resolved, redaction)
            try:
                validation = self._validator({**config, **resolved})
            except ConfigError as error:
                # Invariant 8: the answer says everything that is wrong with the config.
                # Invariant 6: the error's own text may show the whole config.
                messages = [echo.message(problem.key, problem.message) for problem in error.problems]
                raise BadRequest("\n".join(messages)) from error
            return echo.validation(validation)

    def lint(
        self, config: Config, around: Surroundings | None = None, validation: Validation | None = None
    ) -> list[Finding]:
        given = {key: value for key, value in config.items() if value is not None}
        redaction = ValidationRedaction(given, given, Redaction.of(given, self._shown(given)))
        return [
            replace(
                one,
                message=redaction.message(one.setting or "", one.message),
                advice=redaction.message(one.setting or "", one.advice),
            )
            for one in self._linter(config, around, validation)
        ]

    def _shown(self, raw: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return the config with its secrets hidden.

        None if its class cannot be loaded, so that only names could tell what is secret.
        """
        try:
            found: type[Connector] = self._find(
                raw.get("connector.class", ""), raw.get("connector.plugin.version")
            ).load()
        except ConfigError:
            return None
        return found.settings.mask(raw)

    def _find(self, connector_class: str, version: str | None = None) -> discovery.PluginEntry:
        given = {"connector.class": connector_class}
        config = self.variables.resolve(given if version is None else {**given, "connector.plugin.version": version})
        return self._found.chosen("connector", config["connector.class"], config)


def worker_config(
    props: Mapping[str, str],
    parse: Callable[[Mapping[str, str], Variables], WorkerConfig],
    plugins: discovery.Plugins | None = None,
) -> WorkerConfig:
    """Parse a worker's properties, resolve their variables, and hide their secrets from the log.

    `plugins`, by default those on `plugin.path`, have the config providers. Java hosts of this process start with these
    properties' heap and options.

    Errors: ConfigError with everything that is wrong.
    """
    WORKER.learn(secrets_of(props))
    if not JAVA_HOST.problems(props):  # a Java provider starts the host before its variables can be resolved
        JAVA_HOSTS.heap, JAVA_HOSTS.options = jvm_of(JAVA_HOST.parse(props))
    config = parse(props, variables_of(props, plugins))
    JAVA_HOSTS.heap, JAVA_HOSTS.options = jvm_of(config.values)
    WORKER.learn(secrets_of(config.originals, config.shown()))
    return config


def variables_of(props: Mapping[str, str], plugins: discovery.Plugins | None = None) -> Variables:
    """Load the config providers that the properties declare; these are plugins, so `plugin.path` cannot have variables.

    Errors: ConfigError.
    """
    if not props.get("config.providers", "").strip():
        return NO_VARIABLES
    path = read("plugin.path", Type.LIST, props.get("plugin.path", ""))
    # Discovery of all plugins, with its warnings, follows once the settings are known.
    found = plugins or discovery.Plugins.discover(path, (), DiscoveryMode.SERVICE_LOAD, ["config_provider"])
    return Variables.of(props, lambda name: found.find("config_provider", name).load(), learn)


def _text(error: ConfigError) -> str:
    return "\n".join(problem.message for problem in error.problems)
