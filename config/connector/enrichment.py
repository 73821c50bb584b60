"""Adapts the framework's settings to one connector's config.

Adds defaults from the worker, recommended values, and the settings of each transform and predicate in the config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.config.connector.plugin_versions import of_version, range_of, why_no_range
from headrace.config.connector.settings import CONVERTER_KINDS
from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Importance, Offer, Setting, Settings, Type, Width
from headrace.config.suggestions import listed, nearest, question
from headrace.config.validators import Check, Validator
from headrace.config.values import invalid, read


class PluginClass(Protocol):
    """A plugin, as validation needs it.

    Its class has `settings`; a connector's class also `validate`, `recommended` and what lint asks (`advise`,
    `most_tasks`, `needs_schema`), a transform's `validate` and `reads_headers`, a converter's `configure`, `check`,
    `header_schema` and `close`.
    """

    @property
    def class_name(self) -> str:
        """The full Java class name."""

    @property
    def kind(self) -> str:
        """`source`, `sink`, `converter`, `header_converter`, `transformation` or `predicate`."""

    @property
    def version(self) -> str | None:
        """The version that the plugin reports."""

    @property
    def versions(self) -> Sequence[PluginClass]:
        """The plugin in all of its versions, in their order."""

    def aliases(self) -> set[str]:
        """The short names that configs may use."""

    @property
    def from_jar(self) -> bool:
        """True for a Java plugin, which runs only in Java."""

    @property
    def has_java_class(self) -> bool:
        """True if a Java class of this name is available."""

    def load(self) -> type[Any]:
        """The plugin's class. Errors: ConfigError if it is broken."""


class PluginLookup(Protocol):
    """A worker's plugins."""

    def find(self, kind: str, name: str) -> PluginClass:
        """The plugin of a kind (`connector`: source or sink) by name or alias. Errors: ConfigError if there is none."""

    def full_name(self, name: str) -> str | None:
        """The class name for a name or alias of any kind; None if it is unknown."""

    def of_kind(self, *kinds: str) -> Sequence[PluginClass]:
        """All plugins of these kinds, sorted by class name."""

    def beside(self, connector: PluginClass) -> PluginLookup:
        """The lookup for classes in this connector's config: plugins of its own folder come first."""


_INTERFACES: Final = {"converter": "Converter", "header_converter": "HeaderConverter"}


def enriched(
    settings: Settings,
    config: Mapping[str, str | None],
    plugins: PluginLookup,
    worker: Mapping[str, str],
    connector: PluginClass,
) -> Settings:
    """The framework's settings for this connector and config; `plugins`: the connector's lookup."""
    settings = with_version(settings, connector)
    for kind in CONVERTER_KINDS:
        settings = _with_converter(settings, kind, config, plugins, worker)
    for alias in _aliases("transforms", config):
        settings += _Alias("transformation", "Transformation", "transforms", alias).settings(config, plugins)
    for alias in _aliases("predicates", config):
        settings += _Alias("predicate", "Predicate", "predicates", alias).settings(config, plugins)
    return settings


def chosen_transforms(config: Mapping[str, str | None], plugins: PluginLookup) -> Iterator[tuple[str, PluginClass]]:
    """Prefix and plugin, in the chosen version, of each known transform in the config."""
    for alias in _aliases("transforms", config):
        one = _Alias("transformation", "Transformation", "transforms", alias)
        if (plugin := one.chosen(config, plugins)) is not None:
            yield one.key, plugin


def with_version(settings: Settings, connector: PluginClass) -> Settings:
    """The settings with the connector's versions to choose from."""
    if connector.version is None:
        return settings
    offer = Offer(_versions(connector))
    return settings.changed("connector.plugin.version", default=connector.version, recommender=offer)


def _versions(plugin: PluginClass | None) -> tuple[str, ...]:
    return tuple(one.version for one in plugin.versions if one.version) if plugin is not None else ()


def _with_converter(
    settings: Settings,
    kind: str,
    config: Mapping[str, str | None],
    plugins: PluginLookup,
    worker: Mapping[str, str],
) -> Settings:
    key = f"{kind}.converter"
    plugin_kind = "header_converter" if kind == "header" else "converter"
    known = {plugin.class_name: plugin for plugin in plugins.of_kind(plugin_kind)}
    default = worker.get(key, "org.apache.kafka.connect.storage.SimpleHeaderConverter" if kind == "header" else None)
    if default is not None:
        default = plugins.full_name(default) or default
    named = config.get(key)
    chosen = known.get((plugins.full_name(named.strip()) if named is not None else default) or "")
    version = chosen.version if chosen is not None else None
    wanted = config.get(f"{key}.plugin.version") if named is not None else None

    def check(name: str, value: Any) -> str | None:
        if value is None or named is None:
            return None
        if value not in known:
            return no_converter(plugin_kind, value)
        return version_objection(plugins, known[value], wanted)

    def check_version(name: str, value: Any) -> str | None:
        return None if chosen is None or named is None else version_objection(plugins, chosen, wanted)

    offered = Offer(_versions(chosen), beside=key)
    settings = settings.changed(
        key, default=default, validator=Check(check, "the class of a converter"), recommender=Offer(tuple(known))
    )
    return settings.changed(
        f"{key}.plugin.version",
        default=version,
        validator=Check(check_version, "a version that is there"),
        recommender=offered,
    )


def no_converter(kind: str, class_name: str) -> str:
    """Connect's refusal of a class that is no converter of this kind."""
    return f"Class class {class_name} does not implement the {_INTERFACES[kind]} interface"


def _aliases(key: str, config: Mapping[str, str | None]) -> list[str]:
    return list(dict.fromkeys(read(key, Type.LIST, config.get(key) or "")))


@dataclass(frozen=True)
class _Alias:
    """One transform or predicate of a connector: its type, version, and its class's own settings."""

    kind: str
    title: str
    prefix: str
    alias: str

    @property
    def key(self) -> str:
        return f"{self.prefix}.{self.alias}."

    def chosen(self, config: Mapping[str, str | None], plugins: PluginLookup) -> PluginClass | None:
        """The plugin in the chosen version; None if there is none."""
        plugin = self._named(config, plugins)
        return None if plugin is None else of_version(plugin, config.get(f"{self.key}plugin.version"))

    def _named(self, config: Mapping[str, str | None], plugins: PluginLookup) -> PluginClass | None:
        named = config.get(f"{self.key}type")
        full = plugins.full_name(named.strip()) if named is not None else None
        return next((one for one in plugins.of_kind(self.kind) if one.class_name == full), None)

    def settings(self, config: Mapping[str, str | None], plugins: PluginLookup) -> Settings:
        known = tuple(plugin.class_name for plugin in plugins.of_kind(self.kind))
        plugin = self._named(config, plugins)
        problem = self._problem(plugins, plugin, config)
        chosen = self.chosen(config, plugins)
        own = None if chosen is None else self._own(chosen, config)
        if isinstance(own, str):
            problem, own = own, None
        type_, version = self._framework(config, known, plugin, problem)
        return Settings(type_, version) + (own or Settings())

    def _framework(
        self,
        config: Mapping[str, str | None],
        known: tuple[str, ...],
        plugin: PluginClass | None,
        problem: str | None,
    ) -> tuple[Setting, Setting]:
        def check(name: str, value: Any) -> str | None:
            return None if value is None else self._wrong_kind(value, known) or problem or self._no_predicate(config)

        def check_version(name: str, value: Any) -> str | None:
            return problem if problem is not None and value is not None and "version range" in problem else None

        group = f"{self.title}s: {self.alias}".replace("Transformations", "Transforms")
        version = plugin.version if plugin is not None else None

        def setting(what: str, type_: Type, default: Any, order: int, offer: Offer, validator: Validator) -> Setting:
            word = "type" if what == "type" else "version"
            return Setting(
                self.key + what,
                type_,
                default,
                validator,
                Importance.HIGH,
                f"{'Class' if word == 'type' else 'Version'} for the '{self.alias}' {self.kind}.",
                group,
                order,
                Width.LONG,
                f"{self.title} {word} for {self.alias}",
                (),
                offer,
            )

        offered = Offer(_versions(plugin))
        return (
            setting("type", Type.CLASS, REQUIRED, 0, Offer(known), Check(check, f"the class of a {self.kind}")),
            setting(
                "plugin.version", Type.STRING, version, 1, offered, Check(check_version, "a version that is there")
            ),
        )

    def _problem(
        self, plugins: PluginLookup, plugin: PluginClass | None, config: Mapping[str, str | None]
    ) -> str | None:
        if plugin is None:
            return None
        return version_objection(plugins, plugin, config.get(f"{self.key}plugin.version"))

    def _wrong_kind(self, value: str, known: Sequence[str]) -> str | None:
        if value in known:
            return None
        if nested := [name for name in known if name.startswith(f"{value}$")]:
            return f"This class is abstract and cannot be created. Did you mean {', '.join(nested)}?"
        return f"Class class {value} does not implement the {self.title} interface"

    def _no_predicate(self, config: Mapping[str, str | None]) -> str | None:
        negate, predicate = f"{self.key}negate", f"{self.key}predicate"
        if self.kind != "transformation" or negate not in config or predicate in config:
            return None
        return (
            f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
        )

    def _unknown_predicate(self, config: Mapping[str, str | None]) -> Callable[[str, Any], str | None]:
        known = _aliases("predicates", config)

        def check(name: str, value: Any) -> str | None:
            if value is None or value in known:
                return None
            asked = question(nearest(value, known))
            return invalid(f"{self.key}predicate", value, f"predicates names no such alias.{asked} {listed(known)}")

        return check

    def _own(self, plugin: PluginClass, config: Mapping[str, str | None]) -> Settings | str:
        """The class's settings under the alias; an error's text if the class cannot be loaded."""
        try:
            settings: Settings = plugin.load().settings
        except ConfigError as e:
            return f"Error getting config definition from {self.title}: {e.problems[0].message}"
        if self.kind == "transformation":
            applies = APPLIES.changed("predicate", validator=Check(self._unknown_predicate(config), "a predicate"))
            settings = settings.without(*(one.name for one in APPLIES)) + applies
        group = f"{self.title}s: {self.alias}".replace("Transformations", "Transforms")
        return settings.embedded(self.key, group, 2)


APPLIES: Final = Settings(
    Setting(
        "predicate",
        Type.STRING,
        None,
        None,
        Importance.MEDIUM,
        "The alias of a predicate that decides whether the transform applies to a record.",
    ),
    Setting(
        "negate",
        Type.BOOLEAN,
        False,
        None,
        Importance.MEDIUM,
        "Whether it applies where the predicate does not hold.",
    ),
)
"""Settings of every transform, beside its own."""

_ALL_KINDS: Final = ("source", "sink", "transformation", "predicate", "converter", "header_converter")


def version_objection(plugins: PluginLookup, plugin: PluginClass, wanted: str | None) -> str | None:
    """Connect's error if a plugin has no such version: `4.3.1`, `latest` or `[4.0,5.0)`; else None."""
    if (malformed := why_no_range(wanted)) is not None:
        return f"Invalid version range {wanted}: {malformed}"
    if of_version(plugin, wanted) is not None:
        return None
    named = [one for one in plugins.of_kind(*_ALL_KINDS) if one.class_name == plugin.class_name]
    available = ", ".join(str(one.version) for other in named for one in other.versions)
    return (
        f"Plugin {plugin.class_name} not found that matches the version range {range_of(wanted)}, "
        f"available versions: [{available}]"
    )


def version_key(key: str) -> str:
    """The setting of a plugin's version, given the setting of its class."""
    return f"{key.removesuffix('.class').removesuffix('.type')}.plugin.version"
