"""Finds plugins: those that pip installed and those on `plugin.path`; each has its Java class name and aliases.

A distribution declares its plugins as entry points, with one group for each kind. The entry's name is the class name
that connector configs use:

    [project.entry-points."headrace.sink"]
    "org.example.MySinkConnector" = "my_package:MySinkConnector"

A class is only looked up among these; it is never imported because a config names it.

Java plugins are jars on `plugin.path` (`config/plugin_path/`). An entry point of the group `headrace.jar_plugin`,
named like the kind, runs plugins of that kind: a function that makes a class of a `JarPlugin`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from headrace.config.connector.enrichment import PluginClass, version_objection
from headrace.config.connector.plugin_versions import BY_VERSION, of_version
from headrace.config.plugin_path import DiscoveryMode, JarPlugin, connects_own, scan
from headrace.config.problems import ConfigError, Problem
from headrace.config.suggestions import class_advice
from headrace.plugins.interop.declarations import fault_of
from headrace.plugins.interop.plugin_places import Place, places_of
from headrace.plugins.interop.python_files import plugins_in
from headrace.plugins.interop.requirements import declared_in, of_distribution, unmet

log = logging.getLogger(__name__)

KINDS: Final = {
    "sink": "Connector",
    "source": "Connector",
    "transformation": "Transformation",
    "predicate": "Predicate",
    "converter": "Converter",
    "header_converter": "HeaderConverter",
    "config_provider": "ConfigProvider",
}
"""Kinds of plugins in the order of listings, each with the suffix that aliases omit."""

LISTED: Final = tuple(kind for kind in KINDS if kind != "config_provider")
"""Kinds that connector configs name; as in Connect, REST does not list the others."""

CONNECTORS: Final = ("sink", "source")

_BY_FULL_NAME: Final = ("io.apicurio.",)
"""Packages of plugins of ours without short names: those are Confluent's, which configs used first."""


class BrokenPluginError(ConfigError):
    """A plugin was found but cannot be loaded."""


class UnknownPluginError(ConfigError):
    """No plugin has this name, or more than one does."""


@dataclass(frozen=True)
class PluginEntry:
    """A plugin that was found; none of its code runs before `load`."""

    class_name: str
    kind: str
    entry_point: EntryPoint = field(compare=False)
    location: str = "installed"
    same_in_jar: JarPlugin | None = field(default=None, compare=False, kw_only=True)
    """Java plugin of the same name on `plugin.path`, if any."""
    others: tuple[PluginEntry, ...] = field(default=(), compare=False, kw_only=True)
    """Other versions of the plugin."""
    requirements: tuple[str, ...] = field(default=(), compare=False, kw_only=True)
    """Python packages that it needs, if it lies on `plugin.path`."""
    home: str = field(default="", compare=False, kw_only=True)
    """The folder into which its requirements can be installed, if it lies on `plugin.path`."""

    @property
    def versions(self) -> tuple[PluginEntry, ...]:
        """All versions, oldest first."""
        if not self.others:
            return (self,)
        return tuple(sorted((*self.others, self), key=lambda one: BY_VERSION(one.version or "")))

    @property
    def from_jar(self) -> bool:
        """True for a Java plugin, which only runs in Java."""
        return False

    @property
    def has_java_class(self) -> bool:
        """True if a Java class of this name is available."""
        return self.in_java is not None

    @property
    def in_java(self) -> JarPlugin | None:
        """Java class of this name: that of a jar or Connect's own; None if there is none."""
        return self.same_in_jar or connects_own(self.kind, self.class_name)

    @property
    def source(self) -> str:
        """Folder of its distribution: the same for one that is both installed and on `plugin.path`."""
        distribution = self.entry_point.dist
        return self.location if distribution is None else str(Path(str(distribution.locate_file(""))).resolve())

    def load(self) -> type[Any]:
        """Import and return the plugin's class.

        Errors: BrokenPluginError for whatever the import raises, and if a requirement or a declaration is missing.
        """
        if lacks := self.lacks:
            raise self._broken(lacks, self.install_advice)
        try:
            loaded: type[Any] = self.entry_point.load()
        except Exception as e:
            raise self._broken(f"{type(e).__name__}: {e}") from e
        except SystemExit as e:
            raise self._broken("it ends the process") from e
        if why := fault_of(self.kind, loaded):
            raise self._broken(f"{self.entry_point.value} {why}")
        return loaded

    @property
    def implementation(self) -> str:
        """Identity regardless of the name: one implementation under two names has one alias."""
        return self.entry_point.value

    @property
    def lacks(self) -> str:
        """The requirements that are not met, as in `it needs httpx>=1, but 0.28.1 is installed`; empty if all are."""
        parts = [
            f"{needed}, which is not installed" if version is None else f"{needed}, but {version} is installed"
            for needed, version in unmet(self.requirements)
        ]
        return f"it needs {'; and '.join(parts)}" if parts else ""

    @property
    def install_advice(self) -> str:
        """The command that installs what is missing."""
        return f"Run `headrace plugins install {self.location} --plugin-path {self.home}`."

    def _broken(self, why: str, remedy: str | None = None) -> BrokenPluginError:
        message = f"The {self.kind} plugin {self.class_name} ({self.location}) cannot be loaded: {why}."
        if remedy is None:
            remedy = f"Mend or remove {self.entry_point.value}."
            if Path(self.location).suffix in (".whl", ".zip"):
                remedy = f"{remedy[:-1]}; a compiled module cannot be loaded from a wheel or zip."
        return BrokenPluginError(Problem(self.class_name, self.entry_point.value, message, remedy))

    @cached_property
    def version(self) -> str | None:
        """Version that the class gives; None if it gives none or cannot be loaded."""
        try:
            version = getattr(self.load(), "version", None)
        except BrokenPluginError as e:
            log.warning("%s", e)
            return None
        return version if isinstance(version, str) else None

    def aliases(self) -> set[str]:
        """Return short names: without package, and without the suffix of the kind; `X$Value` also as `Value`."""
        if self.class_name.startswith(_BY_FULL_NAME) and not self.from_jar:
            return set()
        simple = self.class_name.rpartition(".")[2]
        names = {simple, simple.rpartition("$")[2]}
        suffix = KINDS[self.kind]
        return names | {name[: name.rindex(suffix)] for name in names if name.find(suffix) > 0}


@dataclass(frozen=True)
class JarEntry(PluginEntry):
    """A Java plugin; `entry_point` makes classes of its kind."""

    jar: JarPlugin = field(kw_only=True)

    @property
    def from_jar(self) -> bool:
        """True."""
        return True

    @property
    def in_java(self) -> JarPlugin:
        """Itself."""
        return self.jar

    @property
    def source(self) -> str:
        """Folder or jar of the plugin."""
        return str(self.jar.location)

    @property
    def implementation(self) -> str:
        """Jar location and Java class."""
        return f"{self.jar.location}:{self.class_name}"

    def load(self) -> type[Any]:
        """Return the Python class that represents it. Errors: BrokenPluginError for any error of host or plugin."""
        try:
            made: type[Any] = self.entry_point.load()(self.jar)
        except Exception as e:
            raise self._broken(f"{type(e).__name__}: {e}") from e
        return made

    @cached_property
    def version(self) -> str | None:
        """Version that the jar gives, so that listing plugins starts no JVM."""
        return self.jar.version

    def _broken(self, why: str, remedy: str | None = None) -> BrokenPluginError:
        message = f"The Java {self.kind} plugin {self.class_name} ({self.location}) cannot be loaded: {why}."
        remedy = (
            remedy or "Put all jars that it needs into its folder; the worker's log has what the Java host printed."
        )
        return BrokenPluginError(Problem(self.class_name, str(self.jar.location), message, remedy))


class Plugins:
    """All plugins found."""

    def __init__(self, plugins: Iterable[PluginEntry], paths: Sequence[str] = ()) -> None:
        unique: dict[tuple[str, str], PluginEntry] = {}
        self._in_folders: dict[str, dict[tuple[str, str], PluginEntry]] = {}
        twice: dict[tuple[str, str], list[str]] = {}
        for plugin in _latest(plugins):
            key = plugin.kind, plugin.class_name
            first = unique.setdefault(key, plugin)
            if isinstance(plugin, JarEntry):
                for one in plugin.versions:
                    self._in_folders.setdefault(one.source, {})[key] = one
                if first.in_java is None:
                    first = unique[key] = replace(first, same_in_jar=plugin.jar)
                if isinstance(first, JarEntry) and plugin.kind not in CONNECTORS:
                    continue  # a connector uses the plugin of its own folder
            if first is not plugin and first.source != plugin.source:
                twice.setdefault((first.location, plugin.location), []).append(first.class_name)
        for (used, other), names in twice.items():
            text = "The plugin %s is %s and lies in %s, too; the first one is used"
            if len(names) > 1:
                text = "The plugins %s are %s and lie in %s, too; the first ones are used"
            log.warning(text, ", ".join(names), used if used == "installed" else f"in {used}", other)
        self._plugins = sorted(unique.values(), key=lambda p: (list(KINDS).index(p.kind), p.class_name))
        self.paths = list(paths)
        """Paths added to `sys.path` for plugins; other Python processes that run plugins need them too."""
        self._aliases: dict[str, set[str]] = {}
        for plugin in self._plugins:
            for alias in plugin.aliases():
                self._aliases.setdefault(alias, set()).add(plugin.class_name)

    @classmethod
    def of_worker(cls, settings: Mapping[str, Any]) -> Plugins:
        """Find the plugins of a worker with these parsed settings. Errors: ConfigError, as `discover`."""
        mode = DiscoveryMode(settings["plugin.discovery"].lower())
        return cls.discover(settings["plugin.path"], settings["java.plugins.preferred"], mode)

    @classmethod
    def discover(
        cls,
        plugin_path: Sequence[str] | None = None,
        java_first: Collection[str] = (),
        mode: DiscoveryMode = DiscoveryMode.HYBRID_WARN,
        kinds: Collection[str] = KINDS,
    ) -> Plugins:
        """Find plugins of these kinds, installed and on `plugin_path`, which is appended to `sys.path`.

        If a Java and a Python plugin have the same class name, the Java one is used if `java_first` names it. `mode` is
        for Java plugins.

        Errors: ConfigError in the mode `hybrid_fail` if a Java plugin has no manifest.
        """
        found = list(_installed())
        paths: list[str] = []
        for place in (one for element in plugin_path or [] for one in places_of(Path(element).expanduser().absolute())):
            path = str(place.path)
            if path not in sys.path:
                sys.path.append(path)
            if path not in paths:
                paths.append(path)
            found += found_in(place)
        found = [one for one in found if one.kind in kinds]
        _tell_of_requirements(found)
        jars = list(_of_jars(plugin_path or [], mode))
        preferred = [one for one in jars if one.class_name in java_first]
        every = [*preferred, *found, *(one for one in jars if one not in preferred)]
        return cls([one for one in every if one.kind in kinds], paths)

    @classmethod
    def shipped(cls) -> Plugins:
        """Find the plugins that come with Headrace itself."""
        return cls(plugin for plugin in _installed() if _distribution(plugin.entry_point) == "headrace")

    def beside(self, connector: PluginClass) -> Plugins:
        """Return the plugins as this connector sees them: Java plugins of its own folder come first.

        As in Connect, a Java plugin only works with classes of its folder. A version named in a config still has
        precedence.
        """
        own = self._in_folders.get(connector.source, {}) if isinstance(connector, JarEntry) else {}
        found = copy(self)
        found._plugins = [_preferred(one, own.get((one.kind, one.class_name))) for one in self._plugins]
        return found

    def all_versions(self, *kinds: str) -> list[PluginEntry]:
        """Return plugins of these kinds in every version; `of_kind` returns only the latest."""
        return [version for plugin in self.of_kind(*kinds) for version in plugin.versions]

    def of_kind(self, *kinds: str) -> list[PluginEntry]:
        """Return plugins of these kinds, sorted by kind and class name."""
        return [plugin for plugin in self._plugins if plugin.kind in kinds]

    def full_name(self, name: str) -> str | None:
        """Resolve a name of any kind to a class name; None if it is unknown or ambiguous."""
        if any(plugin.class_name == name for plugin in self._plugins):
            return name
        named = [plugin for plugin in self._plugins if plugin.class_name in self._aliases.get(name, set())]
        if all(_is_shipped(plugin) for plugin in named):
            # A name that one of them is Connect's own class means that, as it did before there were others.
            named = [one for one in named if connects_own(one.kind, one.class_name) is not None] or named
        # One implementation under several vendors' names has the short name that they share.
        alone = len({plugin.implementation for plugin in named}) == 1 or len({one.class_name for one in named}) == 1
        return min(plugin.class_name for plugin in named) if alone else None

    def find(self, kind: str, name: str) -> PluginEntry:
        """Return the plugin of this kind by name or alias; the kind `connector` means sources and sinks.

        Errors: UnknownPluginError in Connect's words.
        """
        kinds = CONNECTORS if kind == "connector" else (kind,)
        full = self.full_name(name)
        for plugin in self.of_kind(*kinds):
            if plugin.class_name == full:
                return plugin
        raise UnknownPluginError(Problem(_key(kind), name, self._unknown(kinds, name)))

    def chosen(self, kind: str, name: str, config: Mapping[str, str | None]) -> PluginEntry:
        """Return the connector of this kind and name, in the version that its config asks for.

        Errors: UnknownPluginError in Connect's words.
        """
        latest, wanted = self.find(kind, name), config.get("connector.plugin.version")
        if (found := of_version(latest, wanted)) is None:
            objection = version_objection(self, latest, wanted) or ""
            raise UnknownPluginError(Problem("connector.plugin.version", wanted, objection))
        return found

    def named(self, name: str) -> PluginEntry:
        """Return the plugin of any kind by name or alias. Errors: UnknownPluginError."""
        full = self.full_name(name)
        for plugin in self._plugins:
            if plugin.class_name == full:
                return plugin
        raise UnknownPluginError(Problem("plugin", name, f"Unknown plugin {name}."))

    def _unknown(self, kinds: Sequence[str], name: str) -> str:
        if not set(kinds) <= set(CONNECTORS):
            return f"Class {name} could not be found.{class_advice(name, (p.class_name for p in self.of_kind(*kinds)))}"
        known = {plugin.class_name for plugin in self.of_kind(*kinds)}
        if several := sorted(self._aliases.get(name, set()) & known)[:50]:
            text = f"More than one connector matches alias {name}. Please use full package and class name instead."
            return f"{text} Classes found: {', '.join(several)}"
        blanks = " It has blanks around it: take them away." if name != name.strip() else ""
        return (
            f"Failed to find any class that implements Connector and which name matches {name}."
            f"{blanks}{class_advice(name, sorted(known))}"
        )


def _preferred(plugin: PluginEntry, own: PluginEntry | None) -> PluginEntry:
    if own is None or plugin.kind in CONNECTORS:
        return plugin
    if not isinstance(plugin, JarEntry):
        return replace(plugin, same_in_jar=own.in_java)
    return replace(own, others=tuple(one for one in plugin.versions if one.version != own.version))


def _latest(plugins: Iterable[PluginEntry]) -> Iterator[PluginEntry]:
    """Yield each Java plugin once, in its latest version with the others attached, at its first place; others as given.

    A Java plugin whose version was already found in another place is yielded too, as a duplicate.
    """
    given = list(plugins)
    jars: dict[tuple[str, str], list[JarEntry]] = {}
    for plugin in given:
        if isinstance(plugin, JarEntry):
            jars.setdefault((plugin.kind, plugin.class_name), []).append(plugin)
    for plugin in given:
        if not isinstance(plugin, JarEntry):
            yield plugin
        elif same := jars.pop((plugin.kind, plugin.class_name), ()):
            # The same version in two places: the first one counts, and the log names both.
            versions = {one.version: one for one in reversed(same)}
            *older, latest = sorted(versions.values(), key=lambda one: BY_VERSION(one.version or ""))
            yield replace(latest, others=tuple(older))
            yield from (one for one in same if versions[one.version] is not one)


def _key(kind: str) -> str:
    return "connector.class" if kind in (*CONNECTORS, "connector") else kind.replace("_", ".")


def _group(kind: str) -> str:
    return f"headrace.{kind}"


def _installed() -> Iterator[PluginEntry]:
    for kind in KINDS:
        for entry in entry_points(group=_group(kind)):
            yield PluginEntry(entry.name, kind, entry)


def _distribution(entry: EntryPoint) -> str | None:
    return entry.dist.name if entry.dist is not None else None


def _is_shipped(plugin: PluginEntry) -> bool:
    return not plugin.from_jar and _distribution(plugin.entry_point) == "headrace"


def found_in(place: Place) -> Iterator[PluginEntry]:
    """Yield the plugins of a place, those that another one would hide, too."""
    found = distributions(path=[str(place.path)]) if place.has_distributions else ()
    declared = [entry for distribution in found for entry in _of(distribution, place)]
    yield from declared
    named = {entry.entry_point.value for entry in declared}
    for module, file in place.modules.items():
        undeclared = [(kind, entry) for kind, entry in plugins_in(file, module) if entry.value not in named]
        needs = declared_in(file.read_text(encoding="utf-8-sig")) if undeclared else ()
        for kind, entry in undeclared:
            yield PluginEntry(entry.name, kind, entry, str(file), requirements=needs, home=str(place.home))


def _of(distribution: Distribution, place: Place) -> Iterator[PluginEntry]:
    groups = {_group(kind): kind for kind in KINDS}
    try:
        entries = [entry for entry in distribution.entry_points if entry.group in groups]
        requirements = of_distribution(distribution) if entries else ()
    except (ValueError, OSError) as e:
        log.error("The plugins in %s cannot be listed: %s. They are left out.", place.path, e)
        return
    for entry in entries:
        kind, where = groups[entry.group], str(place.path)
        yield PluginEntry(entry.name, kind, entry, where, requirements=requirements, home=str(place.home))


def _tell_of_requirements(plugins: Sequence[PluginEntry]) -> None:
    """Log each place whose requirements are not met, and the others that need another version of the same."""
    places = {plugin.location: plugin for plugin in plugins if plugin.requirements}
    for place, plugin in places.items():
        if not (lacks := plugin.lacks):
            continue
        wanted = {canonicalize_name(needed.name) for needed, _ in unmet(plugin.requirements)}
        others = [
            f"{other} needs {needed}"
            for other, one in places.items()
            for needed in map(Requirement, one.requirements)
            if other != place and canonicalize_name(needed.name) in wanted
        ]
        also = f" ({'; '.join(others)})" if others else ""
        log.error("The plugins in %s cannot be used: %s%s. %s", place, lacks, also, plugin.install_advice)


def _of_jars(plugin_path: Sequence[str], mode: DiscoveryMode) -> Iterator[JarEntry]:
    makers = {entry.name: entry for entry in entry_points(group="headrace.jar_plugin")}
    for jar in scan(plugin_path, mode):
        yield JarEntry(jar.class_name, jar.kind, makers[jar.kind], str(jar.location), jar=jar)
