"""Finds Java plugins on `plugin.path` by the service manifests in their jars; runs no Java.

As in Connect an element of `plugin.path` is one jar, or a folder of plugins: each jar in it is one, and so is each
folder in it with all jars below.
"""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_SERVICES: Final = {
    "org.apache.kafka.connect.sink.SinkConnector": "sink",
    "org.apache.kafka.connect.source.SourceConnector": "source",
    "org.apache.kafka.connect.transforms.Transformation": "transformation",
    "org.apache.kafka.connect.transforms.predicates.Predicate": "predicate",
    "org.apache.kafka.connect.storage.Converter": "converter",
    "org.apache.kafka.connect.storage.HeaderConverter": "header_converter",
    "org.apache.kafka.common.config.provider.ConfigProvider": "config_provider",
}


@dataclass(frozen=True)
class JarPlugin:
    """A class that a jar declares."""

    class_name: str
    kind: str
    location: Path
    jars: tuple[Path, ...]
    """All of its plugin."""
    version: str | None


def scan(plugin_path: Sequence[str]) -> list[JarPlugin]:
    """The plugins that the jars on `plugin_path` declare; a jar that cannot be read is logged and left out."""
    return [one for element in plugin_path for location in _locations(Path(element)) for one in _declared(location)]


def _locations(element: Path) -> list[Path]:
    element = element.expanduser()
    if element.suffix == ".jar":
        return [element]
    if not element.is_dir():
        return []
    return [inner for inner in sorted(element.iterdir()) if inner.is_dir() or inner.suffix == ".jar"]


def _declared(location: Path) -> Iterator[JarPlugin]:
    jars = tuple(sorted(location.rglob("*.jar"))) if location.is_dir() else (location,)
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                found = [(name, kind) for service, kind in _SERVICES.items() for name in _names(archive, service)]
        except (OSError, zipfile.BadZipFile) as error:
            log.error("The jar %s cannot be read: %s. Its plugins are left out.", jar, error)
            continue
        yield from (JarPlugin(name, kind, location, jars, None) for name, kind in found)


def _names(archive: zipfile.ZipFile, service: str) -> list[str]:
    try:
        text = archive.read(f"META-INF/services/{service}").decode()
    except KeyError:
        return []
    return [name for line in text.splitlines() if (name := line.partition("#")[0].strip())]
