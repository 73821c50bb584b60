"""Finds the Java plugins of `plugin.path` without a JVM."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from headrace.config.plugin_path.archives import BrokenArchiveError, ClassSource, classes_in, opened
from headrace.config.plugin_path.class_files import BrokenClassError, ClassFile, parse
from headrace.config.plugin_path.kinds import BY_MANIFEST_ONLY, SHIPPED, TYPES, UNUSED, is_shared
from headrace.config.plugin_path.locations import archives_of, plugin_locations
from headrace.config.plugin_path.manifests import declared
from headrace.config.plugin_path.versions import version_of
from headrace.config.problems import ConfigError, Problem

log = logging.getLogger(__name__)

_KINDS: Final = tuple(kind for kind in TYPES if kind not in UNUSED)


class DiscoveryMode(Enum):
    """Ways to find plugins: the values of `plugin.discovery`."""

    ONLY_SCAN = "only_scan"
    HYBRID_WARN = "hybrid_warn"
    HYBRID_FAIL = "hybrid_fail"
    SERVICE_LOAD = "service_load"

    @property
    def reads_classes(self) -> bool:
        """True if every class of every jar is read, which takes about a tenth of a millisecond each."""
        return self is not DiscoveryMode.SERVICE_LOAD

    @property
    def reads_manifests(self) -> bool:
        return self is not DiscoveryMode.ONLY_SCAN


@dataclass(frozen=True)
class JarPlugin:
    """A Java plugin that was found; none of its code has run."""

    class_name: str
    kind: str
    """One of `discovery.KINDS`, or of `kinds.UNUSED` if these were asked for."""
    location: Path
    """Folder or jar on `plugin.path`; each location has its own class loader."""
    jars: tuple[Path, ...]
    """Class path of the location: jars, or the folder itself if it holds class files; empty: Connect's own."""
    version: str | None = field(compare=False)
    """From Maven or the jar; the class's own `version()` may differ."""


@dataclass(frozen=True)
class LocationScan:
    """Contents of one location."""

    location: Path
    jars: tuple[Path, ...]
    plugins: tuple[JarPlugin, ...]
    """All that a worker could load, by kind and name."""
    manifests: Mapping[tuple[str, str], tuple[Path, ...]]
    """Jars whose manifests declare a kind and class name, even if there is no such class."""

    def has_manifest(self, plugin: JarPlugin) -> bool:
        return (plugin.kind, plugin.class_name) in self.manifests


def connects_own(kind: str, class_name: str) -> JarPlugin | None:
    """Return the class of Connect itself, which every host has; None if Connect has no such class of this kind."""
    kinds = SHIPPED.get(class_name.partition("$")[0], ())
    return JarPlugin(class_name, kind, Path(), (), None) if kind in kinds and class_name not in TYPES.values() else None


def scan(plugin_path: Sequence[str], mode: DiscoveryMode = DiscoveryMode.HYBRID_WARN) -> list[JarPlugin]:
    """List the Java plugins of `plugin.path` that this worker can run, by location, kind and name.

    Unreadable ones are logged and left out. A class of several kinds is listed once for each.

    Errors: ConfigError in the mode `hybrid_fail` if a plugin lacks its manifest.
    """
    scans = [found for location in plugin_locations(plugin_path) if (found := scan_location(location, mode))]
    plugins = [plugin for found in scans for plugin in found.plugins if plugin.kind in _KINDS]
    if mode in (DiscoveryMode.HYBRID_WARN, DiscoveryMode.HYBRID_FAIL):
        _tell_of_lacking(
            [plugin for found in scans for plugin in found.plugins if not found.has_manifest(plugin)], mode
        )
    return plugins


def scan_location(location: Path, mode: DiscoveryMode = DiscoveryMode.HYBRID_WARN) -> LocationScan | None:
    """Read one location; None, with a line in the log, if its folder cannot be read."""
    try:
        jars = archives_of(location)
    except OSError as error:
        log.error("The plugin %s cannot be read (%s). It is left out.", location, error)
        return None
    archives = [archive for jar in jars if (archive := _readable(jar)) is not None]
    manifests = _manifests(archives)
    classes = _Classes(archives)
    found: dict[tuple[str, str], ClassSource] = {}
    if mode.reads_classes:
        found.update(classes.plugins())
    for kind, name in manifests:
        if mode.reads_manifests or kind in BY_MANIFEST_ONLY:
            archive = classes.loadable(kind, name)
            if archive is not None:
                found.setdefault((kind, name), archive)
    order = list(TYPES)
    versions = _remembered(lambda archive: version_of(archive, location))
    plugins = tuple(
        JarPlugin(name, kind, location, jars, versions(archive))
        for (kind, name), archive in sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    )
    return LocationScan(location, jars, plugins, manifests)


def _remembered(ask: Callable[[ClassSource], str | None]) -> Callable[[ClassSource], str | None]:
    known: dict[Path, str | None] = {}

    def answer(archive: ClassSource) -> str | None:
        if archive.path not in known:
            known[archive.path] = ask(archive)
        return known[archive.path]

    return answer


def _readable(jar: Path) -> ClassSource | None:
    archive = opened(jar)
    try:
        archive.holds("META-INF/")
    except BrokenArchiveError as error:
        log.error("%s. It is left out.", error)
        return None
    return archive


def _manifests(archives: Sequence[ClassSource]) -> dict[tuple[str, str], tuple[Path, ...]]:
    found: dict[tuple[str, str], tuple[Path, ...]] = {}
    for archive in archives:
        try:
            for key in declared(archive):
                found[key] = (*found.get(key, ()), archive.path)
        except BrokenArchiveError as error:
            log.error("%s. Its manifests are left out.", error)
    return found


class _ClassEntry(NamedTuple):
    """Data kept for each class of a location; there may be tens of thousands."""

    supertypes: tuple[str, ...]
    is_concrete: bool
    archive: ClassSource
    entry: str


class _Classes:
    """The classes of one location; of classes with one name the first jar's counts, as on any class path."""

    def __init__(self, archives: Sequence[ClassSource]) -> None:
        self._archives = archives

    def plugins(self) -> Iterator[tuple[tuple[str, str], ClassSource]]:
        """Yield kind, class name and jar of each plugin class, by reading all classes."""
        classes = dict(self._all())
        known: dict[str, frozenset[str]] = {name: frozenset(kinds) for name, kinds in SHIPPED.items()}
        for name, seen in classes.items():
            if seen.is_concrete and not is_shared(name):
                kinds = _kinds(name, classes, known) - set(BY_MANIFEST_ONLY)
                if kinds and (parsed := _parsed(seen.archive, seen.entry)) and _can_be_made(parsed, seen.archive):
                    yield from (((kind, name), seen.archive) for kind in kinds)

    def loadable(self, kind: str, name: str) -> ClassSource | None:
        """Return the jar with the class that a manifest declares; None if no jar has it, or its class is of no use.

        The log tells why, unless Connect's own class is used.
        """
        if is_shared(name):
            return None  # Connect's own class is used; it is not a plugin of this location
        entry = f"{name.replace('.', '/')}.class"
        for archive in self._archives:
            try:
                data = archive.read(entry)
                if data is None:
                    continue
                parsed = parse(data)
            except (BrokenArchiveError, BrokenClassError) as error:
                log.error("The %s plugin %s in %s cannot be loaded: %s", kind, name, archive.path, error)
                return None
            if parsed.is_concrete and _can_be_made(parsed, archive):
                return archive
            log.error("The %s plugin %s in %s is no public class with a public constructor", kind, name, archive.path)
            return None
        log.error("A manifest declares the %s plugin %s, whose class is in no jar beside it", kind, name)
        return None

    def _all(self) -> Iterator[tuple[str, _ClassEntry]]:
        seen: set[str] = set()
        for archive in self._archives:
            try:
                for entry in classes_in(archive):
                    if entry not in seen and (parsed := _parsed(archive, entry)) is not None:
                        seen.add(entry)
                        yield parsed.name, _ClassEntry(parsed.supertypes, parsed.is_concrete, archive, entry)
            except BrokenArchiveError as error:
                log.error("%s. Its classes are left out.", error)


def _parsed(archive: ClassSource, entry: str) -> ClassFile | None:
    try:
        return parse(archive.read(entry) or b"")
    except (BrokenArchiveError, BrokenClassError) as error:
        log.warning("The class %s in %s cannot be read (%s). It is left out.", entry, archive.path, error)
        return None


def _can_be_made(parsed: ClassFile, archive: ClassSource) -> bool:
    try:
        made = parsed.can_be_made()
    except BrokenClassError as error:
        log.error("The class %s in %s cannot be read (%s). It is left out.", parsed.name, archive.path, error)
        return False
    if not made:
        log.debug("%s in %s has no public constructor without arguments. It is left out.", parsed.name, archive.path)
    return made


def _kinds(name: str, classes: Mapping[str, _ClassEntry], known: dict[str, frozenset[str]]) -> frozenset[str]:
    """Return the kinds of a class by all its supertypes."""
    if name in known:
        return known[name]
    known[name] = frozenset()  # damaged classes may extend each other in a circle
    found = classes.get(name)
    if found is not None:
        known[name] = frozenset().union(*(_kinds(parent, classes, known) for parent in found.supertypes))
    return known[name]


def _tell_of_lacking(plugins: Sequence[JarPlugin], mode: DiscoveryMode) -> None:
    if not plugins:
        return
    names = ", ".join(f"{plugin.class_name} ({plugin.kind}, {plugin.location})" for plugin in plugins)
    message = f"Plugins without manifests would not be found with plugin.discovery=service_load: {names}."
    remedy = "Write their manifests with `connect-plugin-path sync-manifests`"
    if mode is DiscoveryMode.HYBRID_FAIL:
        raise ConfigError(Problem("plugin.discovery", mode.value, message, f"{remedy}, or set hybrid_warn."))
    log.warning("%s %s, or set plugin.discovery=only_scan to silence this.", message, remedy)
