"""Connect's answer to "is this connector's configuration right?": all settings, their values, and what is wrong.

The answer puts together what the framework, the connector, its converters and the overrides of its Kafka clients say,
in Connect's order (4.3.1). Within converters and overrides Java's order is that of a hash map; ours is declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from headrace.config.connector.clients import override_problems
from headrace.config.connector.config import framework_settings, sink_conflicts, unserved
from headrace.config.connector.enrichment import (
    PluginClass,
    PluginLookup,
    chosen_transforms,
    enriched,
    version_key,
    version_objection,
    with_version,
)
from headrace.config.connector.error_handling import RETRY_TOPIC, error_problems
from headrace.config.connector.java_chain import split_chain
from headrace.config.connector.plugin_versions import of_version
from headrace.config.connector.removed_settings import RemovedSetting, removed_settings
from headrace.config.connector.settings import CONNECTOR
from headrace.config.connector.unread import Unread, unread
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

_TAIL: Final = (
    "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
)
_MOST_UNREAD: Final = 20
"""Settings that nothing reads, as far as they are named: each is compared with all that there are."""
_KINDS: Final = {"converter": ("converter", "header_converter")}
"""The kinds of plugins that a setting may name; a setting that is missing here names one kind."""
_NULL: Final = "Null value can not be supplied as the configuration value."


@dataclass
class Part:
    """One side's definitions, and its values by name."""

    settings: Settings
    values: dict[str, SettingValue]
    counts_messages: bool = False

    @property
    def error_count(self) -> int:
        """As Connect counts: messages of framework and connector, values with errors of converters and overrides."""
        errors = [len(value.errors) for value in self.values.values()]
        return sum(errors) if self.counts_messages else sum(1 for count in errors if count)


@dataclass(frozen=True)
class Validation:
    """The outcome of a validation."""

    name: str
    parts: Sequence[Part] = field(repr=False)
    unread: Sequence[Unread] = ()
    """The first of the settings that nothing reads."""

    @property
    def error_count(self) -> int:
        """How many errors there are, by Connect's count."""
        return sum(part.error_count for part in self.parts)

    @property
    def problems(self) -> list[Problem]:
        """Every error as a problem with a remedy."""
        found = []
        for part in self.parts:
            for name, value in part.values.items():
                shown = value.value_info()["value"]
                remedy = part.settings[name].remedy() if name in part.settings else ""
                found += [Problem(name, shown, message, remedy) for message in value.errors]
        return found

    def refusal(self) -> str | None:
        """The message of the 400 with which a connector is refused; None if it is right."""
        if not self.error_count:
            return None
        head = f"Connector configuration is invalid and contains the following {self.error_count} error(s):"
        messages = [message for part in self.parts for _, value in _entries(part) for message in value.errors]
        return "\n".join([head, *messages, _TAIL])

    def infos(self) -> dict[str, Any]:
        """Connect's ConfigInfos."""
        groups = dict.fromkeys(group for part in self.parts for group in part.settings.groups())
        configs = [
            {
                "definition": part.settings[name].key_info() if name in part.settings else None,
                "value": value.value_info(),
            }
            for part in self.parts
            for name, value in _entries(part)
        ]
        return {"name": self.name, "error_count": self.error_count, "groups": list(groups), "configs": configs}


def _entries(part: Part) -> list[tuple[str, SettingValue]]:
    """The part's values; of framework and connector first those without definition, of the others last."""
    defined = [(setting.name, part.values[setting.name]) for setting in part.settings if setting.name in part.values]
    rest = [(name, value) for name, value in part.values.items() if name not in part.settings]
    return rest + defined if part.counts_messages else defined + rest


class ConnectorValidator:
    """Validates connector configurations for one worker.

    `exactly_once` is None in standalone mode, where exactly-once support is not checked.
    """

    def __init__(self, plugins: PluginLookup, worker: WorkerConfig | None, exactly_once: bool | None = None) -> None:
        self._plugins = plugins
        self._worker = worker
        self._exactly_once = exactly_once

    def __call__(self, config: Mapping[str, str | None]) -> Validation:
        """Problems of a connector's configuration, variables already resolved.

        Errors: ConfigError where there is no such connector.
        """
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
            objection = version_objection(self._plugins, latest, config.get("connector.plugin.version"))
            return Validation(name, [self._wrong_version(latest, config, objection or "")])
        refused = file_problems(config, self._settings)
        main = self._main(plugin, config, latest, opens_files=not refused)
        removed = removed_settings(config, plugin, self._plugins)
        for key, one in removed.items():
            if one.protects:
                value = main.values.setdefault(key, SettingValue(key, config[key]))
                value.errors.append(one.problem(key, config[key]).message)
        is_sink = plugin.kind == "sink"
        parts = [
            main,
            *self._overrides(config, main, is_sink, opens_files=not refused),
            *self._converters(plugin, config, main, opens_files=not refused),
        ]
        self._check_hosts(parts, config)
        of_topics = internal_topic_problems(config, config.get("name") or "", self._settings)
        given = {key: value for key, value in config.items() if value is not None}
        of_transforms = self._of_transforms(plugin, given, main)
        self._add(parts, config, [*refused, *of_topics, *of_transforms, *unserved(given)])
        return Validation(name, parts, self._unread(plugin, config, parts, removed))

    def _of_transforms(self, connector: PluginClass, config: Mapping[str, str], main: Part) -> Iterator[Problem]:
        """The problems that transforms tell, if each setting is right alone and the worker's settings are known."""
        if self._worker is None:
            return
        for prefix, plugin in chosen_transforms(config, self._plugins.beside(connector)):
            if any(value.errors for name, value in main.values.items() if name.startswith(prefix)):
                continue
            made = plugin.load()()
            made.worker = self._settings
            own = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
            for problem in made.validate(own):
                yield replace(problem, key=prefix + problem.key)

    def _unread(
        self,
        connector: PluginClass,
        config: Mapping[str, str | None],
        parts: Sequence[Part],
        removed: Mapping[str, RemovedSetting],
    ) -> list[Unread]:
        plugins = self._plugins.beside(connector)
        declared = {setting.name: setting for part in parts for setting in part.settings}

        def plugin_of(kind: str, key: str) -> type[Any] | None:
            if kind == "connector":
                return connector.load()
            name, version = (config.get(key) or "").strip(), config.get(version_key(key))
            full = plugins.full_name(name)
            known = plugins.of_kind(*_KINDS.get(kind, (kind,)))
            found = next((one for one in known if one.class_name == full), None)
            try:
                return None if found is None else (of_version(found, version) or found).load()
            except ConfigError:
                return None

        return list(islice(unread(connector.kind, config, declared, removed, plugin_of), _MOST_UNREAD))

    def _wrong_version(self, plugin: PluginClass, config: Mapping[str, str | None], text: str) -> Part:
        settings = with_version(CONNECTOR, plugin)
        values = settings.validate(config, self._plugins.full_name)
        for key in ("connector.class", "connector.plugin.version"):
            values[key].errors.append(text)
        return Part(settings, values, counts_messages=True)

    @property
    def _settings(self) -> Mapping[str, Any]:
        """The worker's settings that plugins may read."""
        return {} if self._worker is None else self._worker.for_plugins()

    def _main(
        self, plugin: PluginClass, config: Mapping[str, str | None], latest: PluginClass, opens_files: bool
    ) -> Part:
        """The part of framework and connector; if both declare a name, the connector's counts.

        `latest`: the connector's latest version. `opens_files`: the connector may open files that its config names.
        """
        worker = {} if self._worker is None else self._worker.originals
        plugins = self._plugins.beside(plugin)
        framework = enriched(framework_settings(plugin.kind), config, plugins, worker, latest)
        values = framework.validate(config, self._plugins.full_name)
        _advise(framework, values, config)
        for key, value in config.items():
            if value is None:
                values.setdefault(key, SettingValue(key, None)).errors.append(_NULL)
        connector = plugin.load()
        if plugin.kind == "sink":
            self._check_sink(values, config)
        else:
            self._check_exactly_once(values, config, connector)
        own: Settings = connector.settings
        values |= own.validate(config, self._plugins.full_name)
        self._check_tasks_max(values["tasks.max"])
        if (objection := name_objection(config.get("name"))) is not None:
            values["name"].errors.append(objection)
        given = {key: value for key, value in config.items() if value is not None}
        instance = connector()
        instance.worker = self._settings
        for name, offered in instance.recommended(given).items() if opens_files else ():
            values[name].recommended_values = list(offered)
        in_java = split_chain(plugin, config, self._plugins, worker).problems
        own_problems = instance.validate(given) if opens_files else []
        for problem in [*own_problems, *error_problems(plugin.kind, config), *in_java]:
            values.setdefault(problem.key, SettingValue(problem.key, problem.value)).errors.append(problem.message)
        return Part(framework + own, values, counts_messages=True)

    def _check_hosts(self, parts: Sequence[Part], config: Mapping[str, str | None]) -> None:
        """Add what `connector.allowed.hosts` refuses to the setting that names it, without asking for addresses."""
        problems = host_problems(config, self._settings)
        # A connector that has tried to connect has said so already.
        said = {
            name
            for part in parts
            for name, value in part.values.items()
            if any(ALLOWED_HOSTS in text for text in value.errors)
        }
        self._add(parts, config, [problem for problem in problems if problem.key not in said])

    @staticmethod
    def _add(parts: Sequence[Part], config: Mapping[str, str | None], problems: Iterable[Problem]) -> None:
        """Add each problem to its setting."""
        for problem in problems:
            part = next((one for one in parts if problem.key in one.values), parts[0])
            value = part.values.setdefault(problem.key, SettingValue(problem.key, config[problem.key]))
            value.errors.append(f"{problem.message} {problem.remedy}")

    def _check_tasks_max(self, tasks_max: SettingValue) -> None:
        most = TASKS_BOUND.default if self._worker is None else self._worker[TASKS_BOUND.name]
        if isinstance(tasks_max.value, int) and tasks_max.value > most:
            why = f"Value must be no more than {most} ({TASKS_BOUND.name} of the worker)"
            tasks_max.errors.append(invalid("tasks.max", tasks_max.value, why))

    def _check_sink(self, values: Mapping[str, SettingValue], config: Mapping[str, str | None]) -> None:
        sink_conflicts(values, self._worker_group(), overrides("consumer", config).get("group.id"))

    def _worker_group(self) -> str | None:
        if self._worker is None or not self._worker.is_distributed:
            return None
        group: str = self._worker["group.id"]
        return group

    def _check_exactly_once(
        self, values: Mapping[str, SettingValue], config: Mapping[str, str | None], connector: type[Any]
    ) -> None:
        support, boundary = values["exactly.once.support"], values["transaction.boundary"]
        if self._exactly_once is None or support.errors or boundary.errors:
            return
        given = {key: value for key, value in config.items() if value is not None}
        if support.value.lower() == "required":
            if not self._exactly_once:
                support.errors.append("This worker does not have exactly-once source support enabled.")
                return
            if (text := _exactly_once_objection(connector, given)) is not None:
                support.errors.append(text)
        if boundary.value.lower() == "connector":
            text = _boundary_objection(connector, given)
            if text is not None:
                boundary.errors.append(text)

    def _overrides(self, config: Mapping[str, str | None], main: Part, is_sink: bool, opens_files: bool) -> list[Part]:
        if is_sink:
            dead_letters = bool(main.values["errors.deadletterqueue.topic.name"].value)
            dead_letters = dead_letters or bool(config.get(RETRY_TOPIC))
            kinds = {"producer": dead_letters, "consumer": True, "admin": dead_letters}
        else:
            creates = any(key.startswith(("topic.creation.", "errors.deadletterqueue.topic.")) for key in config)
            own_offsets = bool(main.values["offsets.storage.topic"].value) or bool(self._exactly_once)
            kinds = {"producer": True, "consumer": own_offsets, "admin": creates or own_offsets}
        # In Connect some connectors have no admin client and list no settings of it; here every connector has one.
        parts = [
            (used, self._override(kind, config, opens_files)) for kind, used in kinds.items() if used or kind == "admin"
        ]
        return [part for used, part in parts if used or part.error_count]

    def _override(self, kind: str, config: Mapping[str, str | None], opens_files: bool) -> Part:
        given, prefix = overrides(kind, config), PREFIXES[kind]
        settings = Settings(*(setting for setting in SETTINGS[kind] if setting.name in given)).prefixed(prefix)
        values = {prefix + key: SettingValue(prefix + key, value) for key, value in given.items()}
        judged = settings.validate({prefix + key: value for key, value in given.items()})
        values |= {key: SettingValue(key, value.value) for key, value in judged.items()}
        for problem in override_problems(kind, config, self._worker, opens_files):
            values.setdefault(problem.key, SettingValue(problem.key, None)).errors.append(problem.message)
        return Part(settings, values)

    def _converters(
        self, connector: PluginClass, config: Mapping[str, str | None], main: Part, opens_files: bool
    ) -> list[Part]:
        parts, plugins = [], self._plugins.beside(connector)
        for kind in ("header", "key", "value"):
            key = f"{kind}.converter"
            if config.get(key) is None or main.values[key].errors:
                continue
            plugin = next(
                plugin
                for plugin in plugins.of_kind("header_converter" if kind == "header" else "converter", "converter")
                if plugin.class_name == main.values[key].value
            )
            chosen = of_version(plugin, config.get(f"{key}.plugin.version"))
            assert chosen is not None, "its setting would have an error"
            parts.append(self._converter(kind, chosen, config, main, opens_files))
        return parts

    def _converter(
        self, kind: str, plugin: PluginClass, config: Mapping[str, str | None], main: Part, opens_files: bool
    ) -> Part:
        prefix = f"{kind}.converter."
        try:
            loaded = plugin.load()
        except ConfigError as e:
            main.values[f"{kind}.converter"].errors.append(e.problems[0].message)
            return Part(Settings(), {})
        settings: Settings = loaded.settings
        props = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
        props.setdefault("converter.type", kind)
        found = settings.validate(props, self._plugins.full_name)
        if opens_files and not any(value.errors for value in found.values()):
            for problem in self._asked(loaded, {key: value for key, value in props.items() if value is not None}):
                found.setdefault(problem.key, SettingValue(problem.key, problem.value)).errors.append(
                    invalid(prefix + problem.key, problem.value, f"{problem.message} {problem.remedy}")
                )
        values = {prefix + name: value for name, value in found.items()}
        for name, value in values.items():
            value.name = name
        return Part(settings.prefixed(prefix), values)

    def _asked(self, converter: type[Any], props: Mapping[str, str]) -> Sequence[Problem]:
        """Problems of a converter's config that the converter itself, or the server that it needs, tells."""
        made = converter()
        made.worker = self._settings
        try:
            made.configure(props, props["converter.type"] == "key")
            with closing(made):
                made.check()
        except ConfigError as e:
            return e.problems
        return ()


def _advise(settings: Settings, values: Mapping[str, SettingValue], config: Mapping[str, str | None]) -> None:
    """Add to the refusal of an unknown class which ones there are, where the setting offers them."""
    for name, value in values.items():
        offered = value.recommended_values
        if settings[name].type is Type.CLASS and offered and value.errors and value.value is None:
            given = config.get(name)
            if given is not None and value.errors[0].endswith("could not be found."):
                value.errors[0] += class_advice(given.strip(), offered)


def _exactly_once_objection(connector: type[Any], config: Mapping[str, str]) -> str | None:
    """Asks the connector's `exactly_once_support(config)`, if it has one: True, False, or None for "I do not say"."""
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
    """Asks the connector's `can_define_transaction_boundaries(config)`, if it has one."""
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


def plugin_config(plugin: PluginClass) -> list[dict[str, Any]]:
    """The answer of `GET /connector-plugins/{plugin}/config`: its own settings, then a connector's of the framework."""
    own: Settings = plugin.load().settings
    if plugin.kind not in ("source", "sink"):
        return [setting.key_info() for setting in own]
    framework = framework_settings(plugin.kind).changed("connector.plugin.version", default=plugin.version)
    rest = [setting for setting in framework if setting.name not in own]
    return [setting.key_info() for setting in (*own, *rest)]
