"""Lists the plugins that a worker would find, and what it would pass over, with the reason.

Discovery logs why it leaves something out; these lines are part of the listing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Final
from zipfile import is_zipfile

from headrace.plugins.interop.discovery import KINDS, BrokenPluginError, PluginEntry, Plugins
from headrace.plugins.interop.plugin_places import REQUIREMENTS, Place, places_of

_SHIPPED: Final = "headrace"


@dataclass(frozen=True)
class Found:
    """A plugin that can be used."""

    kind: str
    class_name: str
    version: str
    location: str
    """A path; for what pip installed, the distribution."""


@dataclass
class Listing:
    """The plugins of `plugin.path` and of this environment."""

    plugins: list[Found] = field(default_factory=list)
    shipped: int = 0
    """The number of those that come with Headrace and are not listed."""
    passed_over: list[str] = field(default_factory=list)
    """Files, classes and distributions that were passed over, each with the reason."""


def listing(plugin_path: Sequence[str], with_shipped: bool = False) -> Listing:
    """Find all plugins; Python ones are imported, Java ones are not."""
    made = Listing()
    with gathered(made.passed_over):
        found = Plugins.discover(plugin_path).all_versions(*KINDS)
        for plugin in found:
            if _distribution(plugin) == _SHIPPED and not with_shipped:
                made.shipped += 1
                continue
            try:
                version = _version(plugin)
            except BrokenPluginError as error:
                if not plugin.lacks:  # those were told by discovery
                    made.passed_over += [f"{one.message} {one.remedy}" for one in error.problems]
                continue
            made.plugins.append(Found(plugin.kind, plugin.class_name, version, _where(plugin)))
        places = [one for element in plugin_path for one in places_of(Path(element).expanduser().absolute())]
        for place in places:
            made.passed_over += _without_plugins(place, found, tuple(made.passed_over))
    return made


@contextmanager
def gathered(lines: list[str]) -> Iterator[None]:
    """Gather what discovery logs as warning or error."""

    class Gathering(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if (text := record.getMessage()) not in lines:
                lines.append(text)

    log, handler = logging.getLogger("headrace"), Gathering(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _version(plugin: PluginEntry) -> str:
    if plugin.from_jar:
        return plugin.version or "undefined"
    version: str = plugin.load().version
    return version


def _distribution(plugin: PluginEntry) -> str | None:
    distribution = plugin.entry_point.dist
    return None if plugin.from_jar or distribution is None else distribution.name


def _where(plugin: PluginEntry) -> str:
    distribution = plugin.entry_point.dist
    if plugin.location != "installed" or distribution is None:
        return plugin.location
    return f"{distribution.name} {distribution.version}, installed in {distribution.locate_file('')}"


def _without_plugins(place: Place, found: Sequence[PluginEntry], told: Sequence[str]) -> Iterator[str]:
    """Yield files and distributions of a place that hold no plugin, if nothing was told of them yet."""
    used = {plugin.location for plugin in found}
    names = [one.name for one in distributions(path=[str(place.path)])] if place.has_distributions else []
    if names and str(place.path) not in used and place.path.name != REQUIREMENTS:
        shown = ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        yield f"{place.path} holds no plugin: {shown} declares no entry point of a group such as headrace.source."
    if place.path.is_file() and not names and str(place.path) not in used:
        what = "an archive without a distribution" if is_zipfile(place.path) else "no archive that can be read"
        yield f"{place.path} holds no plugin: it is {what}."
    for file in () if names else place.modules.values():
        if str(file) not in used and file.name != "__init__.py" and not any(str(file) in line for line in told):
            yield f"{file} holds no plugin: no class in it derives from RecordSource, RecordSink or another such base."
