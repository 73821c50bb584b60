"""Validates a connector's config by everything that reads it.

Merges the results of the framework, the connector, its converters and the overrides of its Kafka clients, in Connect's
order (4.3.1). Within converters and overrides Java's order is that of a hash map; ours is declaration order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from headrace.config.connector.clients import override_problems
from headrace.config.connector.config import framework_settings, sink_conflicts, unserved
from headrace.config.connector.enrichment import (
    PluginClass,
    PluginLookup,
    chosen_transforms,
    enriched,
    no_converter,
    version_key,
    version_objection,
    with_version,
)
from headrace.config.connector.error_handling import RETRY_TOPIC, error_problems
from headrace.config.connector.java_stage import split_chain
from headrace.config.connector.plugin_versions import of_version
from headrace.config.connector.removed_settings import removed_settings
from headrace.config.connector.settings import CONNECTOR
from headrace.config.connector.unknown_settings import unknown_settings
from headrace.config.connector.validation import ValidatedSide, Validation
from headrace.config.kafka.client_config import SETTINGS
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings, SettingValue, Type
from headrace.config.suggestions import class_advice
from headrace.config.validators import name_objection
from headrace.config.values import invalid
from headrace.config.worker.allowed_files import file_problems
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS, host_problems
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.internal_topics import internal_topic_problems
from headrace.config.worker.overrides import PREFIXES, overrides
from headrace.config.worker.settings import TASKS_BOUND

_MOST_UNREAD: Final = 20
"""The most unread settings to report, because each is compared with all known ones."""
_KINDS: Final = {"converter": ("converter", "header_converter")}
"""The plugin kinds that a setting may name; for a kind not listed, that kind only."""
_NULL: Final = "Null value can not be supplied as the configuration value."


class ConnectorValidator:
    """Validates connector configs for one worker.

    `exactly_once` is None in standalone mode, which does not check exactly-once support. `asks`: true if plugins may
    check the whole config, for which they open files and ask their outside systems.
    """

    def __init__(
        self,
        plugins: PluginLookup,
        worker: WorkerConfig | None,
        exactly_once: bool | None = None,
        *,
        asks: bool = True,
    ) -> None:
        self._plugins = plugins
        self._worker = worker
        self._exactly_once = exactly_once
        self._asks = asks

    def __call__(self, config: Mapping[str, str | None]) -> Validation:
        """Validates a connector's config, variables resolved. Errors: ConfigError if there is no such connector."""
        name = config.get("connector.class")
        if name is None:
            shown = ", ".join(
                f"{key}={'null' if value is None else value}" for key, value in CONNECTOR.mask(config).items()
            )
            message = f"Connector config {{{shown}}} contains no connector type"
            raise ConfigError(Problem("connector.class", None, message))
        latest = self._plugins.find("connector", name)
        plugin = of_version(latest, config.get("connector.plugin.version"))
        if plugin is None:
            return Validation(name, [self._wrong_version(latest, config)])
        return _Check(self._plugins, self._worker, self._exactly_once, self._asks, config, latest, plugin).outcome()

    def _wrong_version(self, latest: PluginClass, config: Mapping[str, str | None]) -> ValidatedSide:
        objection = version_objection(self._plugins, latest, config.get("connector.plugin.version"))
        settings = with_version(CONNECTOR, latest)
        part = ValidatedSide(settings, settings.validate(config, self._plugins.full_name), counts_messages=True)
        for key in ("connector.class", "connector.plugin.version"):
            part.add(key, config.get(key), objection or "")
        return part


class _Check:
    """Validates one config. `latest`: the connector's latest version; `plugin`: the chosen one."""

    def __init__(
        self,
        plugins: PluginLookup,
        worker: WorkerConfig | None,
        exactly_once: bool | None,
        asks: bool,
        config: Mapping[str, str | None],
        latest: PluginClass,
        plugin: PluginClass,
    ) -> None:
        self._all_plugins, self._plugins = plugins, plugins.beside(plugin)
        self._worker = worker
        self._worker_settings: Mapping[str, Any] = {} if worker is None else worker.for_plugins()
        self._exactly_once = exactly_once
        self._asks = asks
        self._config = config
        self._given = {key: value for key, value in config.items() if value is not None}
        self._latest, self._plugin = latest, plugin
        self._refused_files = file_problems(config, self._worker_settings)
        self._opens_files = asks and not self._refused_files
        """True if plugins may open the config's files, and ask their outside systems."""

    def outcome(self) -> Validation:
        main = self._main()
        removed = removed_settings(self._config, self._plugin, self._all_plugins)
        for key, one in removed.items():
            if one.protects:
                main.add(key, self._config[key], one.problem(key, self._config[key]).message)
        parts = [main, *self._overrides(main), *self._converters(main)]
        of_topics = internal_topic_problems(self._config, self._config.get("name") or "", self._worker_settings)
        problems = [*self._refused_hosts(parts), *self._refused_files, *of_topics]
        for problem in [*problems, *self._of_transforms(main), *unserved(self._given)]:
            part = next((one for one in parts if problem.key in one.values), main)
            part.add(problem.key, self._config[problem.key], f"{problem.message} {problem.remedy}")
        declared = {setting.name: setting for part in parts for setting in part.settings}
        useless = unknown_settings(self._plugin.kind, self._config, declared, removed, self._class_of)
        return Validation(self._config["connector.class"] or "", parts, list(islice(useless, _MOST_UNREAD)))

    def _of_transforms(self, main: ValidatedSide) -> Iterator[Problem]:
        """Problems that transforms report, if each of their settings is right and the worker's are known."""
        if self._worker is None or not self._asks:
            return
        for prefix, plugin in chosen_transforms(self._given, self._plugins):
            if any(value.errors for name, value in main.values.items() if name.startswith(prefix)):
                continue
            made = plugin.load()()
            made.worker = self._worker_settings
            own = {key.removeprefix(prefix): value for key, value in self._given.items() if key.startswith(prefix)}
            for problem in made.validate(own):
                yield replace(problem, key=prefix + problem.key)

    def _class_of(self, kind: str, key: str) -> type[Any] | None:
        """The class that a setting names; None if there is none."""
        if kind == "connector":
            return self._plugin.load()
        full = self._plugins.full_name((self._config.get(key) or "").strip())
        known = self._plugins.of_kind(*_KINDS.get(kind, (kind,)))
        found = next((one for one in known if one.class_name == full), None)
        if found is None:
            return None
        try:
            return (of_version(found, self._config.get(version_key(key))) or found).load()
        except ConfigError:
            return None

    def _main(self) -> ValidatedSide:
        """Validate the settings of framework and connector as one part.

        If both declare a name, the connector's declaration counts.
        """
        worker = {} if self._worker is None else self._worker.originals
        framework = enriched(framework_settings(self._plugin.kind), self._config, self._plugins, worker, self._latest)
        values = framework.validate(self._config, self._all_plugins.full_name)
        _advise(framework, values, self._config)
        for key, value in self._config.items():
            if value is None:
                values.setdefault(key, SettingValue(key, None)).errors.append(_NULL)
        connector = self._plugin.load()
        if self._plugin.kind == "sink":
            sink_conflicts(values, self._worker_group(), overrides("consumer", self._config).get("group.id"))
        else:
            self._check_exactly_once(values, connector)
        own: Settings = connector.settings
        part = ValidatedSide(
            framework + own, values | own.validate(self._config, self._all_plugins.full_name), counts_messages=True
        )
        self._check_tasks_max(part.values["tasks.max"])
        if (objection := name_objection(self._config.get("name"))) is not None:
            part.add("name", self._config.get("name"), objection)
        problems: list[Problem] = []
        if self._opens_files:
            instance = connector()
            instance.worker = self._worker_settings
            for name, offered in instance.recommended(self._given).items():
                part.values[name].recommended_values = list(offered)
            problems += instance.validate(self._given)
        problems += error_problems(self._plugin.kind, self._config)
        problems += split_chain(self._plugin, self._config, self._all_plugins, worker).problems
        for problem in problems:
            part.add(problem.key, problem.value, problem.message)
        return part

    def _refused_hosts(self, parts: Sequence[ValidatedSide]) -> Iterable[Problem]:
        """Hosts that `connector.allowed.hosts` refuses; resolves no names."""
        # A connector that tried to connect has reported its host already.
        said = {
            name
            for part in parts
            for name, value in part.values.items()
            if any(ALLOWED_HOSTS in text for text in value.errors)
        }
        problems = host_problems(self._config, self._worker_settings)
        return [problem for problem in problems if problem.key not in said]

    def _check_tasks_max(self, tasks_max: SettingValue) -> None:
        most = TASKS_BOUND.default if self._worker is None else self._worker[TASKS_BOUND.name]
        if isinstance(tasks_max.value, int) and tasks_max.value > most:
            why = f"Value must be no more than {most} ({TASKS_BOUND.name} of the worker)"
            tasks_max.errors.append(invalid("tasks.max", tasks_max.value, why))

    def _worker_group(self) -> str | None:
        if self._worker is None or not self._worker.is_distributed:
            return None
        group: str = self._worker["group.id"]
        return group

    def _check_exactly_once(self, values: Mapping[str, SettingValue], connector: type[Any]) -> None:
        support, boundary = values["exactly.once.support"], values["transaction.boundary"]
        if self._exactly_once is None or support.errors or boundary.errors:
            return
        if support.value.lower() == "required":
            if not self._exactly_once:
                support.errors.append("This worker does not have exactly-once source support enabled.")
                return
            if (text := _exactly_once_objection(connector, self._given)) is not None:
                support.errors.append(text)
        if boundary.value.lower() == "connector":
            text = _boundary_objection(connector, self._given)
            if text is not None:
                boundary.errors.append(text)

    def _overrides(self, main: ValidatedSide) -> list[ValidatedSide]:
        if self._plugin.kind == "sink":
            dead_letters = bool(main.values["errors.deadletterqueue.topic.name"].value)
            dead_letters = dead_letters or bool(self._config.get(RETRY_TOPIC))
            kinds = {"producer": dead_letters, "consumer": True, "admin": dead_letters}
        else:
            creates = any(key.startswith(("topic.creation.", "errors.deadletterqueue.topic.")) for key in self._config)
            own_offsets = bool(main.values["offsets.storage.topic"].value) or bool(self._exactly_once)
            kinds = {"producer": True, "consumer": own_offsets, "admin": creates or own_offsets}
        # In Connect some connectors have no admin client and list none of its settings; in Headrace all have one.
        parts = [(used, self._override(kind)) for kind, used in kinds.items() if used or kind == "admin"]
        return [part for used, part in parts if used or part.error_count]

    def _override(self, kind: str) -> ValidatedSide:
        given, prefix = overrides(kind, self._config), PREFIXES[kind]
        settings = Settings(*(setting for setting in SETTINGS[kind] if setting.name in given)).prefixed(prefix)
        values = {prefix + key: SettingValue(prefix + key, value) for key, value in given.items()}
        judged = settings.validate({prefix + key: value for key, value in given.items()})
        part = ValidatedSide(settings, values | {key: SettingValue(key, value.value) for key, value in judged.items()})
        for problem in override_problems(kind, self._config, self._worker, self._opens_files):
            part.add(problem.key, None, problem.message)
        return part

    def _converters(self, main: ValidatedSide) -> list[ValidatedSide]:
        parts = []
        for kind in ("header", "key", "value"):
            key = f"{kind}.converter"
            if self._config.get(key) is None or main.values[key].errors:
                continue
            own = "header_converter" if kind == "header" else "converter"
            name = main.values[key].value
            plugin = next((one for one in self._plugins.of_kind(own, "converter") if one.class_name == name), None)
            if plugin is None:  # the connector declares the setting, too, without this check
                main.values[key].errors.append(no_converter(own, name))
                continue
            chosen = of_version(plugin, self._config.get(f"{key}.plugin.version"))
            assert chosen is not None, "its setting would have an error"
            parts.append(self._converter(kind, chosen, main))
        return parts

    def _converter(self, kind: str, plugin: PluginClass, main: ValidatedSide) -> ValidatedSide:
        prefix = f"{kind}.converter."
        try:
            loaded = plugin.load()
        except ConfigError as e:
            main.values[f"{kind}.converter"].errors.append(e.problems[0].message)
            return ValidatedSide(Settings(), {})
        settings: Settings = loaded.settings
        props = {key.removeprefix(prefix): value for key, value in self._config.items() if key.startswith(prefix)}
        props.setdefault("converter.type", kind)
        part = ValidatedSide(settings, settings.validate(props, self._all_plugins.full_name))
        if self._opens_files and not part.error_count:
            for problem in self._asked(loaded, {key: value for key, value in props.items() if value is not None}):
                text = invalid(prefix + problem.key, problem.value, f"{problem.message} {problem.remedy}")
                part.add(problem.key, problem.value, text)
        values = {prefix + name: value for name, value in part.values.items()}
        for name, value in values.items():
            value.name = name
        return ValidatedSide(settings.prefixed(prefix), values)

    def _asked(self, converter: type[Any], props: Mapping[str, str]) -> Sequence[Problem]:
        """Problems of a converter's config, reported by the converter or the server that it needs."""
        made = converter()
        made.worker = self._worker_settings
        try:
            made.configure(props, props["converter.type"] == "key")
            with closing(made):
                made.check()
        except ConfigError as e:
            return e.problems
        return ()


def _advise(settings: Settings, values: Mapping[str, SettingValue], config: Mapping[str, str | None]) -> None:
    """Adds the known classes to the refusal of an unknown one, if the setting offers any."""
    for name, value in values.items():
        offered = value.recommended_values
        if settings[name].type is Type.CLASS and offered and value.errors and value.value is None:
            given = config.get(name)
            if given is not None and value.errors[0].endswith("could not be found."):
                value.errors[0] += class_advice(given.strip(), offered)


def _exactly_once_objection(connector: type[Any], config: Mapping[str, str]) -> str | None:
    """The error by the connector's `exactly_once_support(config)`: True, False, or None for unknown."""
    ask = getattr(connector, "exactly_once_support", None)
    try:
        answer = None if ask is None else ask(connector(), config)
    except Exception as e:
        return f"An unexpected error occurred during validation: {e}"
    if answer is None:
        return (
            "The connector does not implement the API required for preflight validation of exactly-once source "
            "support. Please consult the documentation for the connector to determine whether it supports exactly-once "
            'semantics, and then consider reconfiguring the connector to use the value "requested" for this property '
            "(which will disable this preflight check and allow the connector to be created)."
        )
    return None if answer else "The connector does not support exactly-once semantics with the provided configuration."


def _boundary_objection(connector: type[Any], config: Mapping[str, str]) -> str | None:
    """The error by the connector's `can_define_transaction_boundaries(config)`; None if it can."""
    ask = getattr(connector, "can_define_transaction_boundaries", None)
    try:
        if ask is not None and ask(connector(), config):
            return None
    except Exception as e:
        return f"An unexpected error occurred during validation: {e}"
    return (
        "The connector does not support connector-defined transaction boundaries with the given configuration. Please "
        "reconfigure it to use a different transaction boundary definition."
    )
