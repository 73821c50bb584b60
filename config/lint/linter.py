"""Judges connector configs by all rules, for one worker or for none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.config.connector.enrichment import PluginClass, PluginLookup
from headrace.config.connector.error_handling import OWN
from headrace.config.connector.plugin_versions import of_version
from headrace.config.connector.removed_settings import removed_settings
from headrace.config.connector.unknown_settings import UnknownSetting
from headrace.config.connector.validation import Validation
from headrace.config.connector.validator import ConnectorValidator
from headrace.config.lint.finding import Finding, Said
from headrace.config.lint.rules import in_order, judged, unknown_plugin
from headrace.config.lint.view import ConnectorView, Surroundings, has_variable
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings
from headrace.config.worker.config import WorkerConfig

_NAMED: Final = ("key.converter", "value.converter", "header.converter", "transforms", "predicates")
"""Settings that decide which others are read."""


class Linter:
    """Judges configs as given: no variable is resolved, and no outside system is asked."""

    def __init__(self, plugins: PluginLookup, worker: WorkerConfig | None, exactly_once: bool | None = None) -> None:
        """`exactly_once`: as of `ConnectorValidator`."""
        self._plugins = plugins
        self._worker = worker
        self._validate = ConnectorValidator(plugins, worker, exactly_once, asks=False)

    def __call__(
        self,
        config: Mapping[str, str | None],
        around: Surroundings | None = None,
        validation: Validation | None = None,
    ) -> list[Finding]:
        """The findings about a config; `validation`: its result if it is there already, variables resolved."""
        around = replace(around or Surroundings(), worker=self._worker)
        given = {key: value for key, value in config.items() if value is not None}
        bare = ConnectorView(given, "", around=around)
        if has_variable(given.get("connector.class", "")):
            return judged(bare)
        try:
            plugin = self._plugin(given)
            made = plugin.load()()
        except ConfigError as error:
            return in_order([*map(unknown_plugin.finding, map(_of_plugin, error.problems)), *judged(bare)])
        if validation is not None:
            return judged(self._view(given, plugin, made, validation, around))
        try:
            found = self._validate(config)
        except ConfigError as error:  # of a part without a place in the validation's result
            return judged(replace(bare, problems=error.problems))
        return judged(_without_variables(self._view(given, plugin, made, found, around)))

    def _plugin(self, given: Mapping[str, str]) -> PluginClass:
        name = given.get("connector.class", "").strip()
        if not name:
            raise ConfigError(Problem("connector.class", None, "No connector is named.", "Set connector.class."))
        latest = self._plugins.find("connector", given["connector.class"])
        return of_version(latest, given.get("connector.plugin.version")) or latest

    def _view(
        self, given: Mapping[str, str], plugin: PluginClass, made: Any, validation: Validation, around: Surroundings
    ) -> ConnectorView:
        made.worker = {} if self._worker is None else self._worker.for_plugins()
        declared = Settings(*(setting for part in validation.parts for setting in part.settings)) + OWN[plugin.kind]
        removed = removed_settings(given, plugin, self._plugins)
        return ConnectorView(
            given, plugin.kind, made, declared, validation.problems, validation.unread, removed, around
        )


def _of_plugin(problem: Problem) -> Said:
    return Said("connector.class", problem.message, problem.remedy or "Install it, or mend its name.")


def _without_variables(view: ConnectorView) -> ConnectorView:
    """The view without what only the text of a variable seems to be."""
    unclear = tuple(f"{key}." for key in _NAMED if view.has_variable(key))

    def is_clear(one: Problem | UnknownSetting) -> bool:
        return not view.has_variable(one.key) and not one.key.startswith(unclear)

    return replace(view, problems=list(filter(is_clear, view.problems)), unread=list(filter(is_clear, view.unread)))
