"""Finds the version of a plugin without its class, which only a JVM could ask."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headrace.config.plugin_path.archives import BrokenArchiveError, ClassSource

_MAVEN = "META-INF/maven/"
_MANIFEST = "META-INF/MANIFEST.MF"
_IN_NAME = re.compile(r"(?P<artifact>.+?)-(?P<version>\d[\w.+-]*)")


def version_of(archive: ClassSource, location: Path) -> str | None:
    """Return the version from a jar's Maven data, manifest or name, else from Confluent's `manifest.json`."""
    try:
        found = _by_maven(archive) or _by_manifest(archive)
    except BrokenArchiveError:
        found = None
    named = _IN_NAME.fullmatch(archive.path.stem)
    return found or (named["version"] if named else None) or _by_confluent(location)


def _by_maven(archive: ClassSource) -> str | None:
    """Return the version that Maven wrote into the jar.

    With several artifacts, that of the artifact after which the jar is named; None if it is named after none.
    """
    if not archive.holds(_MAVEN):
        return None
    found: dict[str, str] = {}
    for name in archive.names():
        if name.startswith(_MAVEN) and name.endswith("/pom.properties"):
            properties = _pairs(archive.read(name) or b"", "=")
            found[name.split("/")[-2]] = properties.get("version", "")
    if len(found) > 1:
        of_jar = [artifact for artifact in found if archive.path.name.startswith(artifact)]
        return found[max(of_jar, key=len)] or None if of_jar else None
    return next(iter(found.values()), "") or None


def _by_manifest(archive: ClassSource) -> str | None:
    main, _, _ = re.sub(rb"\r\n?", b"\n", archive.read(_MANIFEST) or b"").partition(b"\n\n")
    whole_lines = main.replace(b"\n ", b"")  # they are wrapped after 72 bytes
    return _pairs(whole_lines, ":").get("Implementation-Version")


def _by_confluent(location: Path) -> str | None:
    try:
        version = json.loads((location / "manifest.json").read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, str) else None


def _pairs(data: bytes, sign: str) -> dict[str, str]:
    lines = (line.partition(sign) for line in data.decode("utf-8", "replace").splitlines())
    return {key.strip(): value.strip() for key, found, value in lines if found}
